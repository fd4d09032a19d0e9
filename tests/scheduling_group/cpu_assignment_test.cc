// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/cpu_assignment.h"

#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace weft::scheduling_group::planning
