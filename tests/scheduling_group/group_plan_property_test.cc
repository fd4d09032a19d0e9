// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The rules of group_plan.h over some hundreds of machines, each with several wishes, made up by a generator with a
// fixed seed, and over machines that hwloc makes up; and that each rule's check reports a plan that breaks it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/scheduling_group/plan/group_plan.h"

#include "scheduling_group/group_plan_rules.h"

namespace weft::scheduling_group {
namespace {

using Numa = PlanWishes::Numa;
using numa::Topology;

// The same numbers everywhere (those of <random>'s distributions are not).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 2 + 1) {}
  unsigned Below(unsigned n) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<unsigned>(state_ >> 33) % n;
  }
  bool OneIn(unsigned n) { return Below(n) == 0; }
  template <typename T>
  T Of(std::initializer_list<T> items) {
    return *(items.begin() + Below(static_cast<unsigned>(items.size())));
  }

 private:
  std::uint64_t state_;
};

struct MachineKind {
  int packages = 1;
  int nodes_per_package = 1;
  int l3s_per_node = 1;
  int cores_per_l3 = 4;
  int threads = 1;
  bool siblings_apart = false;  // Linux on x86 numbers all first threads before the second ones.
  int node_id_step = 1;
  bool unequal_distances = false;

  std::string ToString() const {
    std::ostringstream out;
    out << packages << " packages of " << nodes_per_package << " nodes of " << l3s_per_node << " L3 domains of "
        << cores_per_l3 << " cores of " << threads << " threads" << (siblings_apart ? ", siblings apart" : "")
        << ", node ids by " << node_id_step << (unequal_distances ? ", unequal distances" : "");
    return out.str();
  }
};

Topology Make(const MachineKind& kind) {
  Topology machine;
  const int nodes = kind.packages * kind.nodes_per_package;
  const int cores = nodes * kind.l3s_per_node * kind.cores_per_l3;
  for (int core = 0; core < cores; ++core) {
    for (int thread = 0; thread < kind.threads; ++thread) {
      Topology::Cpu cpu;
      cpu.os_id = kind.siblings_apart ? thread * cores + core : core * kind.threads + thread;
      cpu.core = core;
      cpu.smt = thread;
      cpu.l3 = core / kind.cores_per_l3;
      const int node = cpu.l3 / kind.l3s_per_node;
      cpu.node = node * kind.node_id_step;
      cpu.package = node / kind.nodes_per_package;
      machine.cpus.push_back(cpu);
    }
  }
  std::sort(machine.cpus.begin(), machine.cpus.end(), [](auto& a, auto& b) { return a.os_id < b.os_id; });
  for (int n = 0; n < nodes; ++n) {
    Topology::Node node{.os_id = n * kind.node_id_step, .cpus = {}, .distances = {}};
    for (const auto& cpu : machine.cpus) {
      if (cpu.node == node.os_id) node.cpus.push_back(cpu.os_id);
    }
    for (int other = 0; other < nodes; ++other) {
      const int apart = std::abs(n - other);
      node.distances.push_back(n == other ? 10 : kind.unequal_distances ? 11 + std::min(apart, nodes - apart) : 21);
    }
    machine.nodes.push_back(std::move(node));
  }
  return machine;
}

// Leaves about one CPU in `n` out.
Topology WithHoles(const Topology& machine, Dice* dice, unsigned n) {
  std::vector<int> left;
  for (const auto& cpu : machine.cpus) {
    if (!dice->OneIn(n)) left.push_back(cpu.os_id);
  }
  if (left.empty()) left.push_back(machine.cpus.back().os_id);
  std::string error;
  return *machine.Restrict(left, &error);
}

MachineKind RandomKind(Dice* dice) {
  MachineKind kind;
  kind.packages = dice->Of({1, 1, 2, 2, 4, 8});
  kind.nodes_per_package = dice->Of({1, 1, 1, 2, 4});
  kind.cores_per_l3 = dice->Of({1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 16, 28, 56, 64});
  const int most = 128 / (kind.nodes_per_package * kind.cores_per_l3);
  kind.l3s_per_node = 1 + static_cast<int>(dice->Below(static_cast<unsigned>(std::max(1, std::min(16, most)))));
  kind.threads = dice->Of({1, 1, 2, 2, 2, 4});
  kind.siblings_apart = dice->OneIn(2);
  kind.node_id_step = dice->Of({1, 1, 1, 3, 8});
  kind.unequal_distances = dice->OneIn(3);
  return kind;
}

std::vector<PlanWishes> WishesFor(const Topology& machine, Dice* dice) {
  const auto cpus = static_cast<unsigned>(machine.cpus.size());
  const auto any_cpu = [&] { return machine.cpus[dice->Below(cpus)].os_id; };
  std::vector<PlanWishes> wishes = {{}, {.numa = Numa::kOn}, {.numa = Numa::kOff}};
  for (Numa numa : {Numa::kAuto, Numa::kOn, Numa::kOff}) {
    wishes.push_back({.workers = 1 + dice->Below(cpus), .numa = numa, .near_cpu = any_cpu()});
  }
  wishes.push_back({.workers = 1 + dice->Below(16), .near_cpu = any_cpu()});
  wishes.push_back({.group_size = 4 + dice->Below(61)});
  wishes.push_back({.workers = 1 + dice->Below(std::min(cpus, 256U)), .group_size = 1 + dice->Below(20)});
  if (cpus <= 128) wishes.push_back({.group_size = 1 + dice->Below(3)});  // Below the threads of a core.
  wishes.push_back({.workers = std::min(4096U, cpus + dice->Below(3 * cpus))});
  return wishes;
}

std::string Describe(const PlanWishes& wishes) {
  std::ostringstream out;
  out << "wishes: workers " << wishes.workers << ", group size " << wishes.group_size << ", numa "
      << static_cast<int>(wishes.numa) << ", near " << wishes.near_cpu;
  return out.str();
}

void ExpectAllRules(const std::string& name, const Topology& machine, const PlanWishes& wishes) {
  std::string error;
  const auto plan = PlanGroups(machine, wishes, &error);
  ASSERT_TRUE(plan.has_value()) << error;
  for (const auto& [rule_name, rule] : plan_rules::kRules) {
    const std::string message = rule(machine, wishes, *plan);
    ASSERT_EQ(message, "") << rule_name << "\n"
                           << name << "\n"
                           << Describe(wishes) << "\n"
                           << (machine.ToString() + plan->ToString()).substr(0, 4000);
  }
}

// A sanitizer sees no more in the hundredth machine than in the tenth.
constexpr int kFewer = WEFT_ASAN || WEFT_TSAN ? 5 : 1;

TEST(GroupPlanProperties, HoldOnMachinesOfAllKinds) {
  Dice dice(1);
  std::set<std::string> kinds;
  for (int i = 0; i < 220 / kFewer; ++i) {
    const MachineKind kind = RandomKind(&dice);
    kinds.insert(kind.ToString());
    const Topology machine = Make(kind);
    for (const PlanWishes& wishes : WishesFor(machine, &dice)) {
      ASSERT_NO_FATAL_FAILURE(ExpectAllRules(kind.ToString(), machine, wishes));
    }
  }
  EXPECT_GE(kinds.size(), 200U / kFewer);
}

// The domains of one package after all that could befall them: GP7's orders of the row find a way whenever the search
// does.
TEST(GroupPlanProperties, UnequalL3DomainsAreNotCutInVain) {
  Dice dice(5);
  int plans = 0;
  int in_vain = 0;
  for (int i = 0; i < 500; ++i) {
    MachineKind kind = RandomKind(&dice);
    kind.packages = kind.nodes_per_package = 1;
    kind.threads = std::min(kind.threads, 2);
    const Topology machine = WithHoles(Make(kind), &dice, dice.Of({2U, 3U, 8U, 30U}));
    std::string error;
    ++plans;
    if (plan_rules::StraddlesInVain(machine, {}, *PlanGroups(machine, {}, &error))) ++in_vain;
  }
  EXPECT_EQ(in_vain, 0) << "of " << plans;
}

// The mask has holes: CPUs that are kept for something else, cores with one thread switched off.
TEST(GroupPlanProperties, HoldWithHolesInTheMask) {
  Dice dice(2);
  for (int i = 0; i < 120 / kFewer; ++i) {
    MachineKind kind = RandomKind(&dice);
    kind.threads = std::min(kind.threads, 2);
    const Topology machine = WithHoles(Make(kind), &dice, dice.Of({2U, 3U, 8U, 30U}));
    for (const PlanWishes& wishes : WishesFor(machine, &dice)) {
      ASSERT_NO_FATAL_FAILURE(ExpectAllRules(kind.ToString() + " with holes", machine, wishes));
    }
  }
}

TEST(GroupPlanProperties, HoldUnderAQuota) {
  Dice dice(3);
  for (int i = 0; i < 300 / kFewer; ++i) {
    const MachineKind kind = RandomKind(&dice);
    Topology machine = Make(kind);
    if (dice.OneIn(3)) machine = WithHoles(machine, &dice, 4);
    machine.cpu_quota = dice.Of({0.1, 1.0, 1.5, 2.5, 4.0, 7.5, 8.0, 16.0, 33.3, 100.0});
    for (const PlanWishes& wishes : {PlanWishes{}, PlanWishes{.numa = Numa::kOff},
                                     PlanWishes{.near_cpu = machine.cpus[machine.cpus.size() / 2].os_id}}) {
      ASSERT_NO_FATAL_FAILURE(ExpectAllRules(kind.ToString() + " with a quota", machine, wishes));
    }
  }
}

TEST(GroupPlanProperties, HoldOnMachinesMadeByHwloc) {
  Dice dice(4);
  int machines = 0;
  for (const char* outer : {"pack:1 numa:1", "pack:2 numa:1", "pack:4 numa:1", "pack:1 numa:2", "pack:2 numa:4",
                            "numa:3(indexes=8,0,4)", "numa:1 pack:2"}) {
    for (const char* inner : {"core:1 pu:1", "core:2 pu:2", "core:12 pu:1", "core:20 pu:2", "l3:2 core:4 pu:2",
                              "l3:3 core:8 pu:2", "l3:4 core:3 pu:2", "l3:2 core:8 pu:1", "l3:2 core:6 pu:4"}) {
      const std::string description = std::string(outer) + " " + inner;
      std::string error;
      const auto machine = Topology::FromString(description, &error);
      ASSERT_TRUE(machine.has_value()) << error;
      ++machines;
      for (const PlanWishes& wishes : WishesFor(*machine, &dice)) {
        ASSERT_NO_FATAL_FAILURE(ExpectAllRules(description, *machine, wishes));
      }
    }
  }
  EXPECT_EQ(machines, 63);
}

// ---- Plans that break a rule are reported by it ----

// Two packages of one node each, two L3 domains of 4 cores with 2 threads in each: a group for each domain.
class BrokenPlan : public ::testing::Test {
 protected:
  static Topology Machine() {
    return Make({.packages = 2, .l3s_per_node = 2, .cores_per_l3 = 4, .threads = 2, .siblings_apart = false});
  }
  static GroupPlan PlanOf(const Topology& machine, const PlanWishes& wishes) {
    std::string error;
    return *PlanGroups(machine, wishes, &error);
  }

  // All rules hold, and no more after `breach`; the message has `expected` in it.
  template <typename Breach>
  void ExpectReport(plan_rules::Rule rule, const PlanWishes& wishes, Breach breach, const std::string& expected) {
    GroupPlan plan = PlanOf(machine_, wishes);
    for (const auto& [name, each] : plan_rules::kRules) ASSERT_EQ(each(machine_, wishes, plan), "") << name;
    breach(&plan);
    EXPECT_NE(rule(machine_, wishes, plan).find(expected), std::string::npos)
        << "it says: \"" << rule(machine_, wishes, plan) << "\"\n"
        << plan.ToString();
  }

  // The CPUs of two workers change places.
  static void Swap(GroupPlan* plan, std::size_t a, std::size_t worker_a, std::size_t b, std::size_t worker_b) {
    std::swap(plan->groups[a].worker_cpus[worker_a], plan->groups[b].worker_cpus[worker_b]);
    plan->groups[a].cpus = plan->groups[a].worker_cpus;
    plan->groups[b].cpus = plan->groups[b].worker_cpus;
    std::sort(plan->groups[a].cpus.begin(), plan->groups[a].cpus.end());
    std::sort(plan->groups[b].cpus.begin(), plan->groups[b].cpus.end());
  }

  // Takes the last worker from group a, gives it to group b.
  static void Move(GroupPlan* plan, std::size_t a, std::size_t b) {
    PlannedGroup& from = plan->groups[a];
    PlannedGroup& to = plan->groups[b];
    to.worker_cpus.push_back(from.worker_cpus.back());
    to.cpus.push_back(from.worker_cpus.back());
    from.worker_cpus.pop_back();
    --from.workers;
    ++to.workers;
  }

  const Topology machine_ = Machine();
};

TEST_F(BrokenPlan, AGroupThatIsTooSmall) {
  ExpectReport(
      plan_rules::Sizes, {}, [](GroupPlan* plan) { Move(plan, 0, 1); }, "a group of 7 on node 0");
}

TEST_F(BrokenPlan, AGroupThatIsTooLarge) {
  ExpectReport(
      plan_rules::Sizes, {.group_size = 8}, [](GroupPlan* plan) { Move(plan, 0, 1); }, "a group of 9, at most 8");
}

TEST_F(BrokenPlan, AWorkerWithoutAPlannedCpu) {
  ExpectReport(
      plan_rules::Sizes, {}, [](GroupPlan* plan) { plan->groups[0].worker_cpus.pop_back(); }, "planned CPUs for 7");
}

TEST(BrokenPlanOfAFlatMachine, MoreGroupsThanNeededOrUnequalOnes) {
  const Topology machine = Make({.cores_per_l3 = 30});
  std::string error;
  const GroupPlan good = *PlanGroups(machine, {}, &error);
  ASSERT_EQ(good.groups.size(), 2U);
  EXPECT_EQ(plan_rules::FewAndEqual(machine, {}, good), "");
  const GroupPlan three = *PlanGroups(machine, {.group_size = 10}, &error);
  EXPECT_EQ(plan_rules::FewAndEqual(machine, {}, three), "3 groups on node 0 where 2 do");
  const Topology smaller = Make({.cores_per_l3 = 24});
  GroupPlan unequal = *PlanGroups(smaller, {}, &error);
  ASSERT_EQ(unequal.groups.size(), 2U);
  EXPECT_EQ(plan_rules::FewAndEqual(smaller, {}, unequal), "");
  for (int i = 0; i < 3; ++i) {
    unequal.groups[1].worker_cpus.push_back(unequal.groups[0].worker_cpus.back());
    unequal.groups[0].worker_cpus.pop_back();
    --unequal.groups[0].workers;
    ++unequal.groups[1].workers;
  }
  EXPECT_EQ(plan_rules::Sizes(smaller, {}, unequal), "");
  EXPECT_EQ(plan_rules::FewAndEqual(smaller, {}, unequal), "groups of 9 and 15 on node 0");
}

TEST_F(BrokenPlan, AGroupAcrossNodes) {
  ExpectReport(
      plan_rules::WithinNodes, {}, [](GroupPlan* plan) { Swap(plan, 0, 0, 2, 0); }, "group 0 of node 0 uses CPU 16");
}

TEST_F(BrokenPlan, AGroupAcrossNodesByItsCpuSetOnly) {
  ExpectReport(
      plan_rules::WithinNodes, {}, [](GroupPlan* plan) { plan->groups[0].cpus.push_back(31); },
      "uses CPU 31 of node 1");
}

TEST_F(BrokenPlan, AGroupBoundThoughNumaIsOff) {
  ExpectReport(
      plan_rules::WithinNodes, {.numa = Numa::kOff}, [](GroupPlan* plan) { plan->groups[1].node = 0; },
      "though NUMA is off");
}

TEST_F(BrokenPlan, ACpuThatIsNotOurs) {
  ExpectReport(
      plan_rules::WithinNodes, {}, [](GroupPlan* plan) { plan->groups[0].worker_cpus[0] = 32; },
      "CPU 32, which is not");
}

TEST_F(BrokenPlan, ACpuWithoutAWorker) {
  ExpectReport(
      plan_rules::NothingLeftOver, {},
      [](GroupPlan* plan) { plan->groups[0].worker_cpus[0] = plan->groups[0].worker_cpus[1]; }, "has no worker");
}

TEST_F(BrokenPlan, FewerWorkersThanWishedFor) {
  ExpectReport(
      plan_rules::NothingLeftOver, {.workers = 20},
      [](GroupPlan* plan) {
        plan->groups[0].worker_cpus.pop_back();
        --plan->groups[0].workers;
      },
      "where 20 are wished for");
}

TEST_F(BrokenPlan, TwoWorkersOnACpuWhileAnotherHasNone) {
  ExpectReport(
      plan_rules::NothingLeftOver, {.workers = 4},
      [](GroupPlan* plan) { plan->groups[0].worker_cpus[1] = plan->groups[0].worker_cpus[0]; }, "has 2 workers");
}

TEST_F(BrokenPlan, MoreNodesThanNeeded) {
  const GroupPlan spread = PlanOf(machine_, {.workers = 8, .numa = Numa::kOn});
  EXPECT_EQ(plan_rules::FewTogether(machine_, {.workers = 8, .numa = Numa::kOn}, spread), "");
  EXPECT_EQ(plan_rules::FewTogether(machine_, {.workers = 8}, spread), "2 nodes for 8 workers, 1 do");
}

TEST_F(BrokenPlan, MoreL3DomainsThanNeeded) {
  ExpectReport(
      plan_rules::FewTogether, {.workers = 4}, [](GroupPlan* plan) { plan->groups[0].worker_cpus[3] = 8; },
      "in 2 L3 domains, 1 do");
}

TEST_F(BrokenPlan, ASiblingBeforeACore) {
  ExpectReport(
      plan_rules::CoresFirst, {.workers = 4}, [](GroupPlan* plan) { plan->groups[0].worker_cpus[3] = 1; },
      "workers share a core of node 0");
}

TEST_F(BrokenPlan, SiblingsInTwoGroups) {
  ExpectReport(
      plan_rules::Siblings, {}, [](GroupPlan* plan) { Swap(plan, 0, 0, 1, 0); }, "sibling are in different groups");
}

TEST(BrokenPlanOfDividedCores, ThreadsOfTwoCoresInAGroup) {
  const Topology machine = Make({.cores_per_l3 = 2, .threads = 4});
  std::string error;
  GroupPlan plan = *PlanGroups(machine, {.group_size = 2}, &error);
  ASSERT_EQ(plan.groups.size(), 4U);
  EXPECT_EQ(plan_rules::Siblings(machine, {.group_size = 2}, plan), "");
  std::swap(plan.groups[0].worker_cpus[0], plan.groups[2].worker_cpus[0]);
  EXPECT_EQ(plan_rules::Siblings(machine, {.group_size = 2}, plan),
            "CPU 4 of a divided core is in a group with CPU 1 of another");
}

TEST_F(BrokenPlan, PartsOfTwoL3DomainsInAGroup) {
  ExpectReport(
      plan_rules::WholeL3Domains, {},
      [](GroupPlan* plan) {
        Swap(plan, 0, 0, 1, 0);  // A whole core: both of its threads.
        Swap(plan, 0, 4, 1, 4);
      },
      "have a part of an L3 domain");
}

TEST_F(BrokenPlan, ACpuSetWithoutThePlannedCpu) {
  ExpectReport(
      plan_rules::PlannedCpus, {}, [](GroupPlan* plan) { plan->groups[0].cpus.pop_back(); }, "may not use CPU 7");
}

TEST_F(BrokenPlan, ACpuSetWithThePlannedCpuOfAnotherGroup) {
  ExpectReport(
      plan_rules::PlannedCpus, {}, [](GroupPlan* plan) { plan->groups[0].cpus.push_back(8); }, "may use CPU 8");
}

TEST_F(BrokenPlan, ACpuSetWithoutSpareSiblings) {
  ExpectReport(
      plan_rules::PlannedCpus, {.workers = 4},
      [](GroupPlan* plan) { plan->groups[0].cpus = plan->groups[0].worker_cpus; }, "may not use CPU 1");
}

TEST_F(BrokenPlan, LowWorkerNumbersOnOneCore) {
  ExpectReport(
      plan_rules::PlannedCpus, {},
      [](GroupPlan* plan) {
        auto& cpus = plan->groups[0].worker_cpus;
        std::swap(cpus[1], cpus[4]);
      },
      "comes too late");
}

TEST_F(BrokenPlan, AFarNeighbourBeforeANearOne) {
  ExpectReport(
      plan_rules::NearestFirst, {},
      [](GroupPlan* plan) {
        auto& neighbours = plan->groups[0].neighbours;
        std::swap(neighbours[0], neighbours[1]);
      },
      "is nearer than those before it");
}

TEST_F(BrokenPlan, AMissingNeighbourOrAWrongDistance) {
  ExpectReport(
      plan_rules::NearestFirst, {}, [](GroupPlan* plan) { plan->groups[0].neighbours.pop_back(); },
      "does not know all others");
  ExpectReport(
      plan_rules::NearestFirst, {}, [](GroupPlan* plan) { plan->groups[0].neighbours[0].distance = 21; },
      "wrong about its distance");
}

TEST_F(BrokenPlan, AllStealFromTheFirst) {
  ExpectReport(
      plan_rules::NotAllTheFirst, {},
      [](GroupPlan* plan) {
        auto& neighbours = plan->groups[1].neighbours;  // 0, then those of the other node
        std::swap(neighbours[1], neighbours[2]);
      },
      "groups steal from group 2 first");
}

}  // namespace
}  // namespace weft::scheduling_group
