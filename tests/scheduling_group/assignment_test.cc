// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "weft/scheduling_group/plan/group_plan.h"

namespace weft::scheduling_group::planning {
namespace {

using Cpus = std::vector<int>;

// Cores of two CPUs each in one L3 domain, with so many workers on each.
CpuPool Pool(const std::vector<unsigned>& workers) {
  CpuPool pool{.node = 3};
  for (const unsigned count : workers) {
    const int number = static_cast<int>(pool.cores.size());
    pool.cores.push_back({.package = 0, .l3 = 0, .number = number, .cpus = {2 * number, 2 * number + 1}});
    pool.cores.back().workers = count;
    pool.workers += count;
    pool.cpus += 2;
  }
  return pool;
}

Item All(const Core& core) { return {&core, 0, core.workers, /*alone=*/false}; }

TEST(CpuAssignment, TheFirstWorkersAreOnCoresOfTheirOwn) {
  const CpuPool pool = Pool({2, 2});
  const std::vector<PlannedGroup> groups = AssignCpus(pool, {{All(pool.cores[0]), All(pool.cores[1])}});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].node, 3);
  EXPECT_EQ(groups[0].workers, 4u);
  EXPECT_EQ(groups[0].worker_cpus, (Cpus{0, 2, 1, 3}));
  EXPECT_EQ(groups[0].cpus, (Cpus{0, 1, 2, 3}));
}

TEST(CpuAssignment, WorkersBeyondTheCpusOfACoreShareThem) {
  const CpuPool pool = Pool({5});
  const std::vector<PlannedGroup> groups = AssignCpus(pool, {{All(pool.cores[0])}});
  EXPECT_EQ(groups[0].worker_cpus, (Cpus{0, 1, 0, 1, 0}));
  EXPECT_EQ(groups[0].cpus, (Cpus{0, 1}));
}

TEST(CpuAssignment, APartOfACoreGoesOnWhereTheFormerPartEnded) {
  const CpuPool pool = Pool({2});
  const Core& core = pool.cores[0];
  const std::vector<PlannedGroup> groups = AssignCpus(pool, {{{&core, 0, 1, true}}, {{&core, 1, 1, true}}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].worker_cpus, (Cpus{0}));
  EXPECT_EQ(groups[1].worker_cpus, (Cpus{1}));
  // Neither may run where the other is planned.
  EXPECT_EQ(groups[0].cpus, (Cpus{0}));
  EXPECT_EQ(groups[1].cpus, (Cpus{1}));
}

TEST(CpuAssignment, AnIdleSiblingBelongsToTheGroupOnItsCore) {
  const CpuPool pool = Pool({1, 1});
  const std::vector<PlannedGroup> groups = AssignCpus(pool, {{All(pool.cores[0])}, {All(pool.cores[1])}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].cpus, (Cpus{0, 1}));
  EXPECT_EQ(groups[1].cpus, (Cpus{2, 3}));
}

TEST(CpuAssignment, AnIdleCoreIsForAllGroupsOfItsDomain) {
  CpuPool pool = Pool({1, 1, 0, 0});
  pool.cores[3].l3 = 1;  // Without a group.
  const std::vector<PlannedGroup> groups = AssignCpus(pool, {{All(pool.cores[0])}, {All(pool.cores[1])}});
  EXPECT_EQ(groups[0].cpus, (Cpus{0, 1, 4, 5}));
  EXPECT_EQ(groups[1].cpus, (Cpus{2, 3, 4, 5}));
}

TEST(CpuAssignment, GroupsAreSortedByTheirLowestCpu) {
  const CpuPool pool = Pool({1, 1});
  const std::vector<PlannedGroup> groups = AssignCpus(pool, {{All(pool.cores[1])}, {All(pool.cores[0])}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].worker_cpus, (Cpus{0}));
  EXPECT_EQ(groups[1].worker_cpus, (Cpus{2}));
}

// Nodes of two L3 domains of two CPUs each, one package a node.
numa::Topology Machine(const std::vector<std::vector<int>>& distances) {
  numa::Topology topology;
  for (std::size_t n = 0; n < distances.size(); ++n) {
    const int node = static_cast<int>(n);
    topology.nodes.push_back({.os_id = node, .cpus = {}, .distances = distances[n]});
    for (int i = 0; i < 4; ++i) {
      const int cpu = 4 * node + i;
      topology.nodes.back().cpus.push_back(cpu);
      topology.cpus.push_back(
          {.os_id = cpu, .node = node, .package = node, .l3 = 2 * node + i / 2, .core = cpu, .smt = 0});
    }
  }
  return topology;
}

PlannedGroup Group(int node, std::vector<int> cpus) {
  return {.node = node,
          .workers = static_cast<unsigned>(cpus.size()),
          .worker_cpus = cpus,
          .cpus = std::move(cpus),
          .neighbours = {}};
}

std::vector<int> NeighboursOf(const PlannedGroup& group) {
  std::vector<int> groups;
  for (const auto& neighbour : group.neighbours) groups.push_back(neighbour.group);
  return groups;
}

using Order = std::vector<int>;

TEST(NeighbourOrder, NearNodesComeBeforeFarOnes) {
  std::vector<PlannedGroup> groups = {Group(0, {0, 1, 2, 3}), Group(1, {4, 5, 6, 7}), Group(2, {8, 9, 10, 11})};
  OrderNeighbours(Machine({{10, 30, 20}, {30, 10, 20}, {20, 20, 10}}), &groups);
  EXPECT_EQ(NeighboursOf(groups[0]), (Order{2, 1}));
  EXPECT_EQ(NeighboursOf(groups[1]), (Order{2, 0}));
  ASSERT_EQ(groups[0].neighbours.size(), 2u);
  EXPECT_EQ(groups[0].neighbours[0],
            (PlannedGroup::Neighbour{.group = 2, .same_node = false, .distance = 20, .same_package = false}));
  EXPECT_EQ(groups[0].neighbours[1],
            (PlannedGroup::Neighbour{.group = 1, .same_node = false, .distance = 30, .same_package = false}));
}

TEST(NeighbourOrder, TheOwnL3DomainComesFirstAndTheOwnNodeNext) {
  std::vector<PlannedGroup> groups = {Group(1, {4}), Group(0, {2}), Group(0, {3}), Group(0, {0}), Group(0, {1})};
  OrderNeighbours(Machine({{10, 20}, {20, 10}}), &groups);
  ASSERT_EQ(groups[3].neighbours.size(), 4u);
  EXPECT_EQ(groups[3].neighbours[0],
            (PlannedGroup::Neighbour{.group = 4, .same_node = true, .distance = 10, .same_package = true}));
  EXPECT_EQ(NeighboursOf(groups[3]), (Order{4, 1, 2, 0}));
  EXPECT_EQ(NeighboursOf(groups[4]), (Order{3, 2, 1, 0}));
}

TEST(NeighbourOrder, AmongEquallyNearGroupsEachStartsWithAnother) {
  std::vector<PlannedGroup> groups = {Group(0, {0}), Group(0, {2}), Group(1, {4}), Group(1, {6})};
  OrderNeighbours(Machine({{10, 20}, {20, 10}}), &groups);
  EXPECT_EQ(NeighboursOf(groups[0]), (Order{1, 2, 3}));
  EXPECT_EQ(NeighboursOf(groups[1]), (Order{0, 3, 2}));
  EXPECT_EQ(NeighboursOf(groups[2]), (Order{3, 0, 1}));
  EXPECT_EQ(NeighboursOf(groups[3]), (Order{2, 1, 0}));
}

// With NUMA off groups are on no node; their distance is that of one node.
TEST(NeighbourOrder, GroupsWithoutANodeAreEquallyFar) {
  std::vector<PlannedGroup> groups = {Group(-1, {0, 1}), Group(-1, {4, 5}), Group(-1, {2, 3})};
  OrderNeighbours(Machine({{10, 20}, {20, 10}}), &groups);
  EXPECT_EQ(NeighboursOf(groups[0]), (Order{2, 1}));  // In the same package first.
  for (const auto& neighbour : groups[0].neighbours) {
    EXPECT_TRUE(neighbour.same_node);
    EXPECT_EQ(neighbour.distance, 10);
  }
}

}  // namespace
}  // namespace weft::scheduling_group::planning
