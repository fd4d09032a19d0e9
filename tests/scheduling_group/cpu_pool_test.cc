// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/cpu_pool.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::scheduling_group::planning {
namespace {

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

}  // namespace
}  // namespace weft::scheduling_group::planning
