// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/named_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace weft::scheduling_group {
namespace {

using NamedList = std::vector<NamedGroup>;
using Ids = std::vector<int>;

NamedList Parse(std::string_view text) {
  std::string error;
  const auto named = ParseNamedGroups(text, &error);
  EXPECT_TRUE(named.has_value()) << error;
  return named.value_or(NamedList());
}

std::string WhyNot(std::string_view text) {
  std::string error;
  EXPECT_FALSE(ParseNamedGroups(text, &error).has_value()) << text;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return error;
}

TEST(NamedGroups, AreReadWithTheirWorkersCpusAndOptions) {
  EXPECT_EQ(Parse("latency:6,batch:2"),
            (NamedList{{.name = "latency", .workers = 6}, {.name = "batch", .workers = 2}}));
  EXPECT_EQ(Parse(" a-1 : 4096 "), (NamedList{{.name = "a-1", .workers = 4096}}));
  EXPECT_EQ(Parse(std::string(64, 'x') + ":1").at(0).name.size(), 64u);
  EXPECT_EQ(Parse("web:3@0-2,7, 9,batch:2@3,4:shares=web,log_2:1:shares=web:shares=batch"),
            (NamedList{{.name = "web", .workers = 3, .cpus = {0, 1, 2, 7, 9}},
                       {.name = "batch", .workers = 2, .cpus = {3, 4}, .shares = {"web"}},
                       {.name = "log_2", .workers = 1, .shares = {"web", "batch"}}}));
}

TEST(NamedGroups, ATextThatCannotBeIsRefusedWithWhatIsWrong) {
  const std::map<std::string, std::string> wrong = {
      {"latency", "latency has no number of workers, as in latency:4"},
      {"latency:", "'' is no number of workers, for latency"},
      {"latency:six", "'six' is no number of workers, for latency"},
      {"latency:6x", "'6x' is no number of workers, for latency"},
      {"latency:-1", "'-1' is no number of workers, for latency"},
      {"latency:0", "latency has 0 workers, and may have 1 to 4096"},
      {"latency:4097", "latency has 4097 workers, and may have 1 to 4096"},
      {"latency:99999999999", "latency has 99999999999 workers, and may have 1 to 4096"},
      {"latency:6,", "'' is no name: it begins with a letter; letters, digits, _ and - follow"},
      {"latency:6,2", "'2' is no name: it begins with a letter; letters, digits, _ and - follow"},
      {"9lives:6", "'9lives' is no name: it begins with a letter; letters, digits, _ and - follow"},
      {"two words:6", "'two words' is no name: it begins with a letter; letters, digits, _ and - follow"},
      {"latency:6@", "latency has a bad CPU list \"\": it is empty (expected e.g. 0-4,6,7)"},
      {"latency:6@x", "latency has a bad CPU list \"x\": 'x' is no number (expected e.g. 0-4,6,7)"},
      {"latency:6:steal", "'steal' is no option of latency: there is only shares=<name>"},
      {"latency:6,latency:2", "latency is there twice"},
      {"latency:6:shares=batch", "latency shares with 'batch', which is not there"},
      {"latency:6:shares=latency", "latency shares with itself"},
      {"latency:6:shares=batch,log,batch:1",
       "log has no number of workers, as in log:4; each name to share with has a shares= of its own"},
      {std::string(65, 'x') + ":1", "a name of 65 characters, and it may have 64"},
      {"latency:2@0-3,batch:2@3-5", "latency and batch both have CPU 3: give each its own, or both the same list"},
  };
  for (const auto& [text, why] : wrong) EXPECT_EQ(WhyNot(text), why) << text;
}

numa::Topology Machine(const std::string& description) {
  std::string error;
  auto machine = numa::Topology::FromString(description, &error);
  EXPECT_TRUE(machine.has_value()) << error;
  return machine.value_or(numa::Topology());
}

GroupPlan PlanNamed(const numa::Topology& machine, std::string_view text, const PlanWishes& wishes = {}) {
  std::string error;
  auto plan = PlanNamedGroups(machine, Parse(text), wishes, &error);
  EXPECT_TRUE(plan.has_value()) << error;
  return plan.value_or(GroupPlan());
}

GroupPlan PlanNamed(const std::string& machine, std::string_view text, const PlanWishes& wishes = {}) {
  return PlanNamed(Machine(machine), text, wishes);
}

std::string WhyNotPlanned(const numa::Topology& machine, std::string_view text) {
  std::string error;
  EXPECT_FALSE(PlanNamedGroups(machine, Parse(text), {}, &error).has_value());
  return error;
}

std::vector<std::string> NamesOf(const GroupPlan& plan) {
  std::vector<std::string> names;
  for (const PlannedGroup& group : plan.groups) names.push_back(group.name);
  return names;
}

Ids PlannedCpus(const GroupPlan& plan, const std::string& name) {
  Ids cpus;
  for (const PlannedGroup& group : plan.groups) {
    if (group.name == name) cpus.insert(cpus.end(), group.worker_cpus.begin(), group.worker_cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

TEST(NamedGroups, EachHasItsWorkersAndCpusAndNoNeighbour) {
  const GroupPlan plan = PlanNamed("numa:1 core:8 pu:1", "latency:6,batch:2");
  ASSERT_EQ(NamesOf(plan), (std::vector<std::string>{"latency", "batch"}));
  EXPECT_EQ(plan.groups[0].worker_cpus, (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(plan.groups[1].worker_cpus, (Ids{6, 7}));
  EXPECT_EQ(plan.groups[0].cpus, plan.groups[0].worker_cpus);
  EXPECT_EQ(plan.groups[1].cpus, plan.groups[1].worker_cpus);
  for (const PlannedGroup& group : plan.groups) EXPECT_TRUE(group.neighbours.empty());
  EXPECT_EQ(plan.ToString(),
            "group 0 (latency): 6 workers, node 0, CPUs 0-5\n"
            "group 1 (batch): 2 workers, node 0, CPUs 6,7\n");
}

// While there are cores enough, names share none, and the siblings are theirs, too.
TEST(NamedGroups, WorkersHaveCoresOfTheirOwnIfThereAreEnough) {
  const GroupPlan plan = PlanNamed("numa:1 core:8 pu:2", "latency:3,batch:2");
  EXPECT_EQ(PlannedCpus(plan, "latency"), (Ids{0, 2, 4}));
  EXPECT_EQ(PlannedCpus(plan, "batch"), (Ids{6, 8}));
  // And the cores that nobody needs.
  EXPECT_EQ(plan.groups[0].cpus, (Ids{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(plan.groups[1].cpus, (Ids{6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(NamedGroups, WithFewCoresANameTakesWholeOnes) {
  const GroupPlan plan = PlanNamed("numa:1 core:4 pu:2", "latency:6,batch:2");
  EXPECT_EQ(PlannedCpus(plan, "latency"), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(PlannedCpus(plan, "batch"), (Ids{6, 7}));
  // The last core is shared only where it must be.
  const GroupPlan odd = PlanNamed("numa:1 core:4 pu:2", "latency:5,batch:3");
  EXPECT_EQ(PlannedCpus(odd, "latency"), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(PlannedCpus(odd, "batch"), (Ids{5, 6, 7}));
  EXPECT_EQ(PlannedCpus(PlanNamed("numa:1 core:4 pu:2", "latency:5,batch:2"), "batch"), (Ids{6, 7}));
}

TEST(NamedGroups, ALargeNameIsSeveralGroupsThatStealAmongThemselves) {
  const GroupPlan plan = PlanNamed("pack:2 numa:1 l3:1 core:32 pu:2", "latency:32,batch:8");
  std::map<std::string, unsigned> workers;
  std::map<std::string, std::set<int>> nodes;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const PlannedGroup& group = plan.groups[g];
    EXPECT_LE(group.workers, kMaxPlannedGroupSize);
    workers[group.name] += group.workers;
    nodes[group.name].insert(group.node);
    for (const auto& neighbour : group.neighbours) {
      EXPECT_EQ(plan.groups[static_cast<std::size_t>(neighbour.group)].name, group.name);
    }
    const auto kin = std::count_if(plan.groups.begin(), plan.groups.end(),
                                   [&](const PlannedGroup& other) { return other.name == group.name; });
    EXPECT_EQ(group.neighbours.size() + 1, static_cast<std::size_t>(kin));
  }
  EXPECT_EQ(workers, (std::map<std::string, unsigned>{{"latency", 32}, {"batch", 8}}));
  // A socket has a core for each of the first.
  EXPECT_EQ(nodes, (std::map<std::string, std::set<int>>{{"latency", {0}}, {"batch", {1}}}));
  EXPECT_TRUE(std::is_sorted(plan.groups.begin(), plan.groups.end(),
                             [](const auto& a, const auto& b) { return a.name > b.name; }))
      << "NG1: " << plan.ToString();
}

TEST(NamedGroups, ANameMaySpanNodes) {
  for (const auto numa : {PlanWishes::Numa::kAuto, PlanWishes::Numa::kOn, PlanWishes::Numa::kOff}) {
    const GroupPlan plan = PlanNamed("numa:2 core:16 pu:1", "latency:24,batch:8", {.numa = numa});
    EXPECT_EQ(plan.WorkerCount(), 32u);
    EXPECT_EQ(PlannedCpus(plan, "latency").size(), 24u);
    for (const PlannedGroup& group : plan.groups) {
      if (numa == PlanWishes::Numa::kOff) {
        EXPECT_EQ(group.node, -1);
      } else {
        EXPECT_EQ(group.node, group.worker_cpus.front() / 16);
      }
    }
  }
}

TEST(NamedGroups, RunOnTheCpusThatTheyAreGiven) {
  const GroupPlan plan = PlanNamed("numa:1 core:8 pu:1", "batch:2@3,4,latency:5@0-2,5,7,rest:1");
  ASSERT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.groups[0].cpus, (Ids{3, 4}));
  EXPECT_EQ(plan.groups[1].cpus, (Ids{0, 1, 2, 5, 7}));
  EXPECT_EQ(plan.groups[2].cpus, (Ids{6}));
}

TEST(NamedGroups, AListOfCpusIsTakenAtItsWord) {
  const GroupPlan plan = PlanNamed("numa:1 core:2 pu:1", "latency:4@0,batch:1@1");
  EXPECT_EQ(plan.groups[0].worker_cpus, (Ids{0, 0, 0, 0}));
  // One CPU, two names: the kernel shares it out.
  const GroupPlan shared = PlanNamed("core:1 pu:1", "latency:1@0,batch:1@0");
  ASSERT_EQ(shared.groups.size(), 2u);
  EXPECT_EQ(shared.groups[0].cpus, (Ids{0}));
  EXPECT_EQ(shared.groups[1].cpus, (Ids{0}));
  EXPECT_TRUE(shared.groups[1].neighbours.empty());
  numa::Topology limited = Machine("core:4 pu:1");
  limited.cpu_quota = 1;
  EXPECT_EQ(PlanNamed(limited, "latency:3@0-2,batch:1@3").WorkerCount(), 4u);
}

TEST(NamedGroups, SharingIsMutualAndOnlyWhereItIsSaid) {
  const GroupPlan plan = PlanNamed("core:6 pu:1", "a:2,b:2:shares=a,c:2");
  const auto neighbours = [&](std::size_t g) {
    Ids groups;
    for (const auto& neighbour : plan.groups[g].neighbours) groups.push_back(neighbour.group);
    return groups;
  };
  EXPECT_EQ(neighbours(0), (Ids{1}));
  EXPECT_EQ(neighbours(1), (Ids{0}));
  EXPECT_EQ(neighbours(2), Ids());
}

TEST(NamedGroups, MoreWorkersThanCpusAreRefusedWithAHint) {
  const std::string hint =
      ": ask for fewer, or say where each group runs, as in latency:6@0: its CPUs may be fewer, and several groups may "
      "have the same";
  EXPECT_EQ(WhyNotPlanned(Machine("core:4 pu:1"), "latency:6,batch:2"), "8 workers for 4 CPUs" + hint);
  EXPECT_EQ(WhyNotPlanned(Machine("core:1 pu:1"), "latency:6"), "6 workers for 1 CPU" + hint);
  EXPECT_EQ(WhyNotPlanned(Machine("core:4 pu:1"), "batch:2@1-3,latency:6"),
            "6 workers for 1 CPU that no group has been given" + hint);
  // More groups than CPUs.
  EXPECT_TRUE(WhyNotPlanned(Machine("core:2 pu:1"), "a:1,b:1,c:1").starts_with("3 workers for 2 CPUs: "));
}

TEST(NamedGroups, MoreWorkersThanTheQuotaAreRefused) {
  numa::Topology machine = Machine("core:16 pu:1");
  machine.cpu_quota = 2.5;
  EXPECT_TRUE(WhyNotPlanned(machine, "latency:2,batch:2").starts_with("4 workers for a CPU quota of 2.5: "));
  EXPECT_TRUE(WhyNotPlanned(machine, "latency:2@0,1,batch:2").starts_with("4 workers for a CPU quota of 2.5: "));
  EXPECT_EQ(PlanNamed(machine, "latency:2,batch:1").WorkerCount(), 3u) << "the quota is rounded up";
}

TEST(NamedGroups, ACpuThatIsNotThereIsRefused) {
  EXPECT_EQ(WhyNotPlanned(Machine("core:2 pu:1"), "latency:1@0,batch:1@5"),
            "batch: CPU 5 is not there, or not ours to use: ours are 0,1");
}

// NG2 and NG3 on machines of all kinds.
TEST(NamedGroups, KeepApartOnEachMachine) {
  for (const char* description :
       {"core:3 pu:1", "numa:1 core:8 pu:2", "numa:2 l3:2 core:4 pu:2", "pack:2 numa:2 l3:2 core:6 pu:1",
        "numa:3 core:5 pu:2", "pack:2 numa:1 l3:12 core:8 pu:2(indexes=2*192:1*2)"}) {
    const numa::Topology machine = Machine(description);
    const auto cpus = static_cast<unsigned>(machine.cpus.size());
    for (unsigned first = 1; first < cpus; first += 1 + cpus / 16) {
      const unsigned second = std::max(1U, (cpus - first) / 2);
      const GroupPlan plan = PlanNamed(machine, "a:" + std::to_string(first) + ",b:" + std::to_string(second));
      EXPECT_EQ(PlannedCpus(plan, "a").size(), first);
      EXPECT_EQ(PlannedCpus(plan, "b").size(), second);
      for (const PlannedGroup& group : plan.groups) {
        const Ids others = PlannedCpus(plan, group.name == "a" ? "b" : "a");
        Ids both;
        std::set_intersection(group.cpus.begin(), group.cpus.end(), others.begin(), others.end(),
                              std::back_inserter(both));
        EXPECT_TRUE(both.empty()) << description << '\n' << plan.ToString();
        for (const int cpu : group.worker_cpus) {
          EXPECT_TRUE(std::binary_search(group.cpus.begin(), group.cpus.end(), cpu)) << plan.ToString();
        }
        for (const auto& neighbour : group.neighbours) {
          EXPECT_EQ(plan.groups[static_cast<std::size_t>(neighbour.group)].name, group.name);
        }
      }
    }
  }
}

TEST(NamedGroupsUse, OneWorkerMoreThanCoresLeavesNoCoreIdle) {
  for (const char* text : {"latency:5,batch:4", "latency:4,batch:5", "latency:6,batch:6"}) {
    const GroupPlan plan = PlanNamed("numa:1 core:8 pu:2", text);
    std::set<int> cores;
    for (const PlannedGroup& group : plan.groups)
      for (const int cpu : group.worker_cpus) cores.insert(cpu / 2);
    EXPECT_EQ(cores.size(), 8u) << text << "\n" << plan.ToString();
  }
  const GroupPlan nodes = PlanNamed("numa:2 core:8 pu:2", "latency:10,batch:8");
  std::set<int> cores;
  for (const int cpu : PlannedCpus(nodes, "latency")) cores.insert(cpu / 2);
  EXPECT_GE(cores.size(), 8u) << nodes.ToString();
}

TEST(NamedGroupsUse, NamesWithTheSameListUseAllOfIt) {
  for (const char* machine : {"numa:1 core:4 pu:1", "numa:1 l3:2 core:2 pu:1", "numa:2 core:2 pu:1"}) {
    const GroupPlan plan = PlanNamed(machine, "a:2@0-3,b:2@0-3");
    std::set<int> planned;
    std::set<int> may;
    for (const PlannedGroup& group : plan.groups) {
      planned.insert(group.worker_cpus.begin(), group.worker_cpus.end());
      may.insert(group.cpus.begin(), group.cpus.end());
    }
    EXPECT_EQ(planned.size(), 4u) << plan.ToString();
    EXPECT_EQ(may.size(), 4u) << plan.ToString();
  }
}

}  // namespace
}  // namespace weft::scheduling_group
