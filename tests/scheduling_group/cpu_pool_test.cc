// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/cpu_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace weft::scheduling_group::planning {
namespace {

using Numbers = std::vector<unsigned>;

constexpr unsigned kMinSize = 8;

numa::Topology Machine(const std::string& description) {
  std::string error;
  auto topology = numa::Topology::FromString(description, &error);
  EXPECT_TRUE(topology.has_value()) << error;
  return *topology;
}

std::vector<int> NodesChosen(const std::string& description, unsigned workers, int near_cpu = -1) {
  const numa::Topology topology = Machine(description);
  std::vector<int> nodes;
  for (const CpuPool& pool :
       ChoosePools(topology, MakePools(topology, /*numa_off=*/false), workers, kMinSize, near_cpu)) {
    nodes.push_back(pool.node);
  }
  return nodes;
}

std::vector<unsigned> Shares(const std::string& description, unsigned workers) {
  std::vector<CpuPool> pools = MakePools(Machine(description), /*numa_off=*/false);
  ShareWorkers(workers, kMinSize, &pools);
  std::vector<unsigned> shares;
  for (const CpuPool& pool : pools) shares.push_back(pool.workers);
  return shares;
}

TEST(CpuPool, EachNodeIsAPoolOfItsCores) {
  const std::vector<CpuPool> pools = MakePools(Machine("numa:2 core:4 pu:2"), /*numa_off=*/false);
  ASSERT_EQ(pools.size(), 2u);
  for (int node = 0; node < 2; ++node) {
    const CpuPool& pool = pools[static_cast<std::size_t>(node)];
    EXPECT_EQ(pool.node, node);
    EXPECT_EQ(pool.cpus, 8u);
    ASSERT_EQ(pool.cores.size(), 4u);
    EXPECT_EQ(pool.cores[0].cpus, (std::vector<int>{8 * node, 8 * node + 1}));
  }
}

TEST(CpuPool, WithoutNumaAllNodesAreOnePool) {
  const std::vector<CpuPool> pools = MakePools(Machine("numa:2 core:4 pu:2"), /*numa_off=*/true);
  ASSERT_EQ(pools.size(), 1u);
  EXPECT_EQ(pools[0].node, -1);
  EXPECT_EQ(pools[0].cores.size(), 8u);
  EXPECT_EQ(pools[0].cpus, 16u);
}

TEST(CpuPool, AsManyNodesAreChosenAsGiveEachWorkerACore) {
  EXPECT_EQ(NodesChosen("numa:4 core:8 pu:1", 8), (std::vector<int>{0}));
  EXPECT_EQ(NodesChosen("numa:4 core:8 pu:1", 9), (std::vector<int>{0, 1}));
  EXPECT_EQ(NodesChosen("numa:4 core:8 pu:1", 1000), (std::vector<int>{0, 1, 2, 3}));
}

// Siblings share what their core can do; but a second node is taken only if it gets a group's worth of workers.
TEST(CpuPool, ANodeMoreIsChosenRatherThanSiblingsIfItGetsAGroup) {
  EXPECT_EQ(NodesChosen("numa:2 core:8 pu:2", 15), (std::vector<int>{0}));
  EXPECT_EQ(NodesChosen("numa:2 core:8 pu:2", 16), (std::vector<int>{0, 1}));
}

TEST(CpuPool, OfEqualNodesTheOneWithTheNearCpuIsChosen) {
  EXPECT_EQ(NodesChosen("numa:4 core:8 pu:1", 8, /*near_cpu=*/20), (std::vector<int>{2}));
}

TEST(CpuPool, FewWorkersAreSharedByCores) { EXPECT_EQ(Shares("numa:2 core:8 pu:2", 6), (std::vector<unsigned>{3, 3})); }

TEST(CpuPool, EachPoolGetsAGroupBeforeCoresCount) {
  EXPECT_EQ(Shares("numa:2 core:8 pu:2", 16), (std::vector<unsigned>{8, 8}));
  EXPECT_EQ(Shares("numa:2 core:4 pu:4", 16), (std::vector<unsigned>{8, 8}));
}

TEST(CpuPool, WorkersBeyondTheCpusAreSharedInRounds) {
  EXPECT_EQ(Shares("numa:2 core:8 pu:2", 40), (std::vector<unsigned>{20, 20}));
}

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

TEST(WorkerPlacement, FewWorkersFillOneDomainFirst) {
  EXPECT_EQ(Placed(TwoDomains(3)), (Numbers{1, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Placed(TwoDomains(6)), (Numbers{1, 1, 1, 1, 1, 1, 0, 0}));
}

TEST(WorkerPlacement, TheDomainOfTheNearCpuIsFilledFirst) {
  EXPECT_EQ(Placed(TwoDomains(3), /*near_cpu=*/13), (Numbers{0, 0, 0, 0, 1, 1, 1, 0}));
}

TEST(WorkerPlacement, TheLargestDomainIsFilledFirst) {
  CpuPool pool = TwoDomains(3);
  pool.cores.erase(pool.cores.begin());
  pool.cpus = 14;
  EXPECT_EQ(Placed(pool, /*near_cpu=*/2), (Numbers{0, 0, 0, 1, 1, 1, 0}));
}

TEST(WorkerPlacement, CoresComeBeforeSiblings) {
  EXPECT_EQ(Placed(TwoDomains(8)), (Numbers{1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(Placed(TwoDomains(10)), (Numbers{2, 1, 1, 1, 2, 1, 1, 1}));
  EXPECT_EQ(Placed(TwoDomains(16)), (Numbers{2, 2, 2, 2, 2, 2, 2, 2}));
}

TEST(WorkerPlacement, WorkersBeyondTheCpusComeInRounds) {
  EXPECT_EQ(Placed(TwoDomains(33)), (Numbers{5, 4, 4, 4, 4, 4, 4, 4}));
}

TEST(Apportion, WhatFitsInProportionIsSharedInProportion) { EXPECT_EQ(Apportion(6, {4, 8}), (Numbers{2, 4})); }

TEST(Apportion, TheRemainderGoesToTheLargestFractions) {
  EXPECT_EQ(Apportion(5, {8, 4}), (Numbers{3, 2}));  // 3 1/3 and 1 2/3
}

TEST(Apportion, OfEqualFractionsTheFirstGetsMore) { EXPECT_EQ(Apportion(4, {3, 3, 3}), (Numbers{2, 1, 1})); }

TEST(Apportion, NoMoreIsGivenThanThereIsCapacity) {
  EXPECT_EQ(Apportion(100, {3, 0, 4}), (Numbers{3, 0, 4}));
  EXPECT_EQ(Apportion(1, {0, 0}), (Numbers{0, 0}));
}

TEST(Apportion, NothingIsLostAndNobodyGetsMoreThanItsCapacity) {
  const Numbers capacities = {1, 7, 0, 64, 13};
  for (unsigned total = 0; total <= 85; ++total) {
    const Numbers shares = Apportion(total, capacities);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0u), total);
    for (std::size_t i = 0; i < shares.size(); ++i) EXPECT_LE(shares[i], capacities[i]) << total;
  }
}

}  // namespace
}  // namespace weft::scheduling_group::planning
