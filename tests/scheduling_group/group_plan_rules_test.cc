// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A plan that breaks a rule is reported by it.

#include "scheduling_group/group_plan_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "weft/numa/machine/cpu_list.h"
#include "weft/scheduling_group/plan/group_plan.h"

#include "scheduling_group/plan_machines.h"

namespace weft::scheduling_group {
namespace {

using Numa = PlanWishes::Numa;
using numa::Topology;
using plan_machines::Make;

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

TEST_F(BrokenPlan, UnequalLoadsOfEqualL3Domains) {
  ExpectReport(
      plan_rules::EvenDomains, {.workers = 36},
      [](GroupPlan* plan) {
        for (PlannedGroup& group : plan->groups) {
          for (int& cpu : group.worker_cpus) {
            if (cpu == 8 || cpu == 10) cpu -= 8;
          }
        }
      },
      "workers in equal L3 domains of node 0");
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

// Domains of 6, 5, 4, 3 and 2 cores: 15 + 5, not 11 and 9; and no group of 7 workers where all can have 8.
TEST(BrokenPlanOfUnequalDomains, MoreGroupsThanNeededOrSmallerOnes) {
  std::string error;
  const Topology machine =
      *Make({.l3s_per_node = 5, .cores_per_l3 = 6}).Restrict(*numa::ParseCpuList("0-5,6-10,12-15,18-20,24,25"), &error);
  const GroupPlan good = *PlanGroups(machine, {}, &error);
  EXPECT_EQ(good.groups.size(), 2U);
  EXPECT_EQ(plan_rules::Fewest(machine, {}, good), "");
  const GroupPlan three = *PlanGroups(machine, {.group_size = 8}, &error);
  EXPECT_EQ(three.groups.size(), 3U) << three.ToString();
  EXPECT_EQ(plan_rules::Fewest(machine, {}, three), "3 groups on node 0 where 2 do");
  EXPECT_NE(plan_rules::Sizes(machine, {}, three).find("on node 0, which has 20 CPUs"), std::string::npos);
}

class BrokenPlanOfTwoKinds : public ::testing::Test {
 protected:
  // 8 fast cores, then 8 slow ones.
  static Topology Machine() {
    Topology machine = Make({.cores_per_l3 = 16});
    for (auto& cpu : machine.cpus) cpu.kind = cpu.core < 8 ? 1 : 0;
    return machine;
  }
};

TEST_F(BrokenPlanOfTwoKinds, FastAndSlowCoresInAGroup) {
  std::string error;
  GroupPlan plan = *PlanGroups(Machine(), {}, &error);
  EXPECT_EQ(plan_rules::OneKind(Machine(), {}, plan), "");
  std::swap(plan.groups[0].worker_cpus[1], plan.groups[1].worker_cpus[1]);
  EXPECT_EQ(plan_rules::OneKind(Machine(), {}, plan), "CPUs 0 and 9 of different kinds are in a group");
}

TEST_F(BrokenPlanOfTwoKinds, ASlowCoreBeforeAFastOne) {
  std::string error;
  GroupPlan plan = *PlanGroups(Machine(), {.workers = 3}, &error);
  EXPECT_EQ(plan_rules::FastCoresFirst(Machine(), {.workers = 3}, plan), "");
  plan.groups[0].worker_cpus[2] = 12;
  EXPECT_EQ(plan_rules::FastCoresFirst(Machine(), {.workers = 3}, plan),
            "a slow core has a worker, CPU 2 on a fast one has none");
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
  ExpectReport(
      plan_rules::NearestFirst, {}, [](GroupPlan* plan) { plan->groups[0].neighbours[0].same_package = false; },
      "wrong about the package");
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
