// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/group_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::scheduling_group {
namespace {

GroupPlan Plan(const std::string& machine, const PlanWishes& wishes = {}) {
  std::string error;
  auto topology = numa::Topology::FromString(machine, &error);
  EXPECT_TRUE(topology.has_value()) << error;
  auto plan = PlanGroups(*topology, wishes, &error);
  EXPECT_TRUE(plan.has_value()) << error;
  return *plan;
}

// A peer makes one group of 8 to 15 workers of any machine with one node and leaves the other CPUs idle.
TEST(GroupPlan, OneNodeOfManyCpusIsNotCutToOneGroup) {
  for (int cpus : {16, 24, 32, 64, 96, 128, 256}) {
    const GroupPlan plan = Plan("numa:1 core:" + std::to_string(cpus) + " pu:1");
    EXPECT_EQ(plan.WorkerCount(), static_cast<unsigned>(cpus));
    for (const auto& group : plan.groups) {
      EXPECT_GE(group.workers, 8u) << plan.ToString();
      EXPECT_LE(group.workers, 15u) << plan.ToString();
    }
  }
}

TEST(GroupPlan, ASmallMachineIsOneGroup) {
  for (int cpus : {1, 2, 4, 7, 15}) {
    const GroupPlan plan = Plan("numa:1 core:" + std::to_string(cpus) + " pu:1");
    ASSERT_EQ(plan.groups.size(), 1u);
    EXPECT_EQ(plan.groups[0].workers, static_cast<unsigned>(cpus));
  }
}

TEST(GroupPlan, GroupsKeepToOneNodeAndShareNoCpu) {
  const GroupPlan plan = Plan("numa:4 core:12 pu:2");
  std::map<int, int> node_of_cpu;
  std::set<int> used;
  for (const auto& group : plan.groups) {
    EXPECT_EQ(group.workers, group.cpus.size());
    for (int cpu : group.cpus) {
      EXPECT_TRUE(used.insert(cpu).second);
      EXPECT_EQ(cpu / 24, group.node);
    }
  }
  EXPECT_EQ(used.size(), 96u);
}

// In the peers numa_aware=false means "find out", and nothing turns it off.
TEST(GroupPlan, NumaOffIsOff) {
  for (const auto& group : Plan("numa:2 core:16 pu:1", {.numa = PlanWishes::Numa::kOff}).groups) {
    EXPECT_EQ(group.node, -1);
  }
  for (const auto& group : Plan("numa:2 core:16 pu:1").groups) EXPECT_NE(group.node, -1);
}

TEST(GroupPlan, WishesAreKept) {
  const GroupPlan plan = Plan("numa:1 core:2 pu:1", {.workers = 8, .group_size = 2});
  EXPECT_EQ(plan.groups.size(), 4u);
  EXPECT_EQ(plan.WorkerCount(), 8u);
  EXPECT_EQ(Plan("numa:1 core:2 pu:1", {.workers = 64, .group_size = 64}).groups.size(), 1u);
}

TEST(GroupPlan, NeighboursOfTheOwnNodeComeFirst) {
  const GroupPlan plan = Plan("numa:2 core:24 pu:1");
  ASSERT_EQ(plan.groups.size(), 4u);
  for (std::size_t g = 0; g < 4; ++g) {
    const auto& neighbours = plan.groups[g].neighbours;
    ASSERT_EQ(neighbours.size(), 3u);
    EXPECT_TRUE(neighbours[0].same_node);
    EXPECT_EQ(plan.groups[static_cast<std::size_t>(neighbours[0].group)].node, plan.groups[g].node);
    EXPECT_FALSE(neighbours[1].same_node);
    EXPECT_FALSE(neighbours[2].same_node);
  }
}

// NUMA on a machine too small for a group of 8 in each node: small groups, but none across nodes.
TEST(GroupPlan, ASmallMachineOfTwoNodesGetsAGroupForEach) {
  const GroupPlan plan = Plan("numa:2 core:4 pu:1");
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].cpus, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(plan.groups[1].cpus, (std::vector<int>{4, 5, 6, 7}));
}

TEST(GroupPlan, FewWorkersKeepToOneNodeUnlessNumaIsOn) {
  ASSERT_EQ(Plan("numa:2 core:16 pu:1", {.workers = 8}).groups.size(), 1u);
  ASSERT_EQ(Plan("numa:2 core:16 pu:1", {.workers = 8, .numa = PlanWishes::Numa::kOn}).groups.size(), 2u);
}

TEST(GroupPlan, FewWorkersAreWhereTheProcessIs) {
  const PlannedGroup group = Plan("numa:4 l3:2 core:4 pu:1", {.workers = 3, .near_cpu = 21}).groups.at(0);
  EXPECT_EQ(group.node, 2);
  EXPECT_EQ(group.cpus, (std::vector<int>{20, 21, 22, 23}));
  // A CPU that is not ours says nothing.
  EXPECT_EQ(Plan("numa:4 core:4 pu:1", {.workers = 3, .near_cpu = 99}).groups.at(0).node, 0);
}

TEST(GroupPlan, NearNodesAreUsedTogether) {
  std::string error;
  auto machine = numa::Topology::FromString("numa:3 core:8 pu:1", &error);
  ASSERT_TRUE(machine.has_value());
  machine->nodes[0].distances = {10, 31, 21};
  machine->nodes[2].distances = {21, 31, 10};
  const auto plan = PlanGroups(*machine, {.workers = 16}, &error);
  ASSERT_EQ(plan->groups.size(), 2u);
  EXPECT_EQ(plan->groups[0].node, 0);
  EXPECT_EQ(plan->groups[1].node, 2);
  EXPECT_EQ(plan->groups[0].neighbours, (std::vector<PlannedGroup::Neighbour>{{1, false, 21, true}}));
}

// Cores of 4 threads are cut 2 and 2 (not 3, 3 and 2 over both), those of 3 threads 2 and 1 (not 2, 2 and 1 + 1).
TEST(GroupPlan, AWishBelowTheThreadsOfACoreDividesEachCoreByItself) {
  const std::pair<const char*, unsigned> cases[] = {{"numa:1 l3:1 core:2 pu:4", 3}, {"numa:1 l3:1 core:2 pu:3", 2}};
  for (const auto& [description, size] : cases) {
    std::string error;
    const auto machine = numa::Topology::FromString(description, &error);
    const auto plan = PlanGroups(*machine, {.group_size = size}, &error);
    ASSERT_TRUE(plan.has_value()) << error;
    EXPECT_EQ(plan->groups.size(), 4u) << plan->ToString();
    for (const PlannedGroup& group : plan->groups) {
      for (int cpu : group.worker_cpus) {
        EXPECT_EQ(machine->FindCpu(cpu)->core, machine->FindCpu(group.worker_cpus.front())->core) << plan->ToString();
      }
    }
  }
}

// Only the cores that are too large are divided.
TEST(GroupPlan, AWishBelowTheThreadsOfSomeCoresLeavesTheOthersWhole) {
  std::string error;
  const auto machine = numa::Topology::FromString("numa:1 l3:1 core:3 pu:4", &error);
  const auto with_holes = machine->Restrict({0, 1, 4, 5, 8, 9, 10, 11}, &error);  // 2, 2 and 4 threads.
  ASSERT_TRUE(with_holes.has_value()) << error;
  const auto plan = PlanGroups(*with_holes, {.group_size = 3}, &error);
  ASSERT_TRUE(plan.has_value()) << error;
  std::map<int, std::set<std::size_t>> groups_of_core;
  for (std::size_t g = 0; g < plan->groups.size(); ++g) {
    for (int cpu : plan->groups[g].worker_cpus) groups_of_core[cpu / 4].insert(g);
  }
  EXPECT_EQ(groups_of_core[0].size(), 1u) << plan->ToString();
  EXPECT_EQ(groups_of_core[1].size(), 1u) << plan->ToString();
  EXPECT_EQ(groups_of_core[2].size(), 2u) << plan->ToString();
}

// Though 2 + 1 workers would be a group.
TEST(GroupPlan, APartOfADividedCoreTakesInNoOtherCore) {
  std::string error;
  const auto machine = numa::Topology::FromString("numa:1 l3:1 core:2 pu:4", &error);
  const auto with_holes = machine->Restrict({0, 1, 2, 3, 4}, &error);
  const auto plan = PlanGroups(*with_holes, {.group_size = 3}, &error);
  ASSERT_TRUE(plan.has_value()) << error;
  ASSERT_EQ(plan->groups.size(), 3u) << plan->ToString();
  EXPECT_EQ(plan->groups.back().worker_cpus, (std::vector<int>{4})) << plan->ToString();
}

// Packages of three L3 domains, two of which make a group: the group in the middle is in both packages, and nearer to
// each of the others than they are to each other.
TEST(GroupPlan, AGroupThatSpansTwoPackagesIsNearThoseOfBoth) {
  const GroupPlan plan = Plan("numa:1 pack:2 l3:3 core:4 pu:1", {.group_size = 8});
  ASSERT_EQ(plan.groups.size(), 3u) << plan.ToString();
  ASSERT_EQ(plan.groups[1].cpus, (std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15})) << plan.ToString();
  EXPECT_EQ(plan.groups[0].neighbours.front().group, 1) << plan.ToString();
  EXPECT_EQ(plan.groups[2].neighbours.front().group, 1) << plan.ToString();
}

TEST(GroupPlan, AWishOutOfRangeIsRefusedInOneLine) {
  std::string error;
  auto topology = numa::Topology::FromString("numa:1 core:2 pu:1", &error);
  EXPECT_FALSE(PlanGroups(*topology, {.group_size = 65}, &error).has_value());
  EXPECT_NE(error.find("65"), std::string::npos);
}

}  // namespace
}  // namespace weft::scheduling_group
