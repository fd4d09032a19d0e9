// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker_placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::scheduling_group::planning {
namespace {

// Two L3 domains of four cores each; CPUs 0 to 7 and 8 to 15.
CpuPool TwoDomains(unsigned workers) {
  CpuPool pool{.node = 0, .cores = {}, .cpus = 16, .workers = workers};
  for (int core = 0; core < 8; ++core) {
    pool.cores.push_back({.package = 0, .l3 = core / 4, .number = core, .cpus = {2 * core, 2 * core + 1}});
  }
  return pool;
}

std::vector<unsigned> Placed(CpuPool pool, int near_cpu = -1) {
  PlaceWorkers(&pool, near_cpu);
  std::vector<unsigned> workers;
  for (const Core& core : pool.cores) workers.push_back(core.workers);
  return workers;
}

using Workers = std::vector<unsigned>;

TEST(WorkerPlacement, FewWorkersFillOneDomainFirst) {
  EXPECT_EQ(Placed(TwoDomains(3)), (Workers{1, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Placed(TwoDomains(6)), (Workers{1, 1, 1, 1, 1, 1, 0, 0}));
}

TEST(WorkerPlacement, TheDomainOfTheNearCpuIsFilledFirst) {
  EXPECT_EQ(Placed(TwoDomains(3), /*near_cpu=*/13), (Workers{0, 0, 0, 0, 1, 1, 1, 0}));
}

TEST(WorkerPlacement, TheLargestDomainIsFilledFirst) {
  CpuPool pool = TwoDomains(3);
  pool.cores.erase(pool.cores.begin());
  pool.cpus = 14;
  EXPECT_EQ(Placed(pool, /*near_cpu=*/2), (Workers{0, 0, 0, 1, 1, 1, 0}));
}

TEST(WorkerPlacement, CoresComeBeforeSiblings) {
  EXPECT_EQ(Placed(TwoDomains(8)), (Workers{1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(Placed(TwoDomains(10)), (Workers{2, 1, 1, 1, 2, 1, 1, 1}));
  EXPECT_EQ(Placed(TwoDomains(16)), (Workers{2, 2, 2, 2, 2, 2, 2, 2}));
}

TEST(WorkerPlacement, WorkersBeyondTheCpusComeInRounds) {
  EXPECT_EQ(Placed(TwoDomains(33)), (Workers{5, 4, 4, 4, 4, 4, 4, 4}));
}

}  // namespace
}  // namespace weft::scheduling_group::planning
