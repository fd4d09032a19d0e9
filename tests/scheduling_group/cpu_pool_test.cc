// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/cpu_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "weft/scheduling_group/plan/core_partition.h"

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

// 17 workers on two nodes of 16 cores were groups of 9 and 8 that knew nothing of each other.
TEST(CpuPool, AFewSiblingsAreNoReasonForAFurtherNode) {
  EXPECT_EQ(NodesChosen("numa:2 core:16 pu:2", 17), (std::vector<int>{0}));
  EXPECT_EQ(NodesChosen("numa:2 core:16 pu:2", 23), (std::vector<int>{0}));
  EXPECT_EQ(NodesChosen("numa:2 core:16 pu:2", 24), (std::vector<int>{0, 1}));
  EXPECT_EQ(NodesChosen("numa:2 core:16 pu:1", 17), (std::vector<int>{0, 1}));  // Not two workers on a CPU.
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

// One domain had 1.5 workers a CPU and the other one.
TEST(WorkerPlacement, WorkersBeyondTheCpusAreSpreadOverTheDomains) {
  EXPECT_EQ(Placed(TwoDomains(20)), (Numbers{3, 3, 2, 2, 3, 3, 2, 2}));
  EXPECT_EQ(Placed(TwoDomains(26)), (Numbers{4, 3, 3, 3, 4, 3, 3, 3}));
}

TEST(WorkerPlacement, FastCoresComeFirst) {
  numa::Topology machine = Machine("numa:1 l3:1 core:4 pu:1");
  for (auto& cpu : machine.cpus) cpu.kind = cpu.core >= 2 ? 1 : 0;
  std::vector<CpuPool> pools = MakePools(machine, /*numa_off=*/false);
  pools[0].workers = 3;
  PlaceWorkers(&pools[0], /*near_cpu=*/-1);
  std::map<int, unsigned> workers;
  for (const Core& core : pools[0].cores) workers[core.number] = core.workers;
  EXPECT_EQ(workers, (std::map<int, unsigned>{{0, 1}, {1, 0}, {2, 1}, {3, 1}}));
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

constexpr GroupSizes kSizes{.min = 8, .max = 15};

// cores[d]: how many workers there are on each core of domain d; as many as it has CPUs.
CpuPool Pool(const std::vector<std::vector<unsigned>>& cores) {
  CpuPool pool;
  int cpu = 0;
  for (std::size_t l3 = 0; l3 < cores.size(); ++l3) {
    for (const unsigned workers : cores[l3]) {
      Core core{.package = 0, .l3 = static_cast<int>(l3), .number = static_cast<int>(pool.cores.size())};
      core.workers = workers;
      for (unsigned i = 0; i < workers; ++i) core.cpus.push_back(cpu++);
      pool.workers += workers;
      pool.cpus += workers;
      pool.cores.push_back(core);
    }
  }
  return pool;
}

std::vector<unsigned> Ones(std::size_t count) { return std::vector<unsigned>(count, 1); }

unsigned WorkersOf(const Row& group) {
  return std::accumulate(group.begin(), group.end(), 0u, [](unsigned sum, const Item& i) { return sum + i.workers; });
}

std::vector<unsigned> SizesOf(const std::vector<Row>& groups) {
  std::vector<unsigned> sizes;
  for (const Row& group : groups) sizes.push_back(WorkersOf(group));
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

std::set<int> DomainsOf(const Row& group) {
  std::set<int> domains;
  for (const Item& item : group) domains.insert(item.l3());
  return domains;
}

TEST(CorePartition, GroupsAreAsFewAndAsEqualAsTheSizesAllow) {
  EXPECT_EQ(SizesOf(PartitionCores(Pool({Ones(7)}), kSizes)), (std::vector<unsigned>{7}));
  EXPECT_EQ(SizesOf(PartitionCores(Pool({Ones(15)}), kSizes)), (std::vector<unsigned>{15}));
  EXPECT_EQ(SizesOf(PartitionCores(Pool({Ones(16)}), kSizes)), (std::vector<unsigned>{8, 8}));
  EXPECT_EQ(SizesOf(PartitionCores(Pool({Ones(31)}), kSizes)), (std::vector<unsigned>{10, 10, 11}));
}

TEST(CorePartition, SmallDomainsGoTogetherAndAreNotCut) {
  const CpuPool pool = Pool({Ones(4), Ones(4), Ones(4), Ones(4)});
  const std::vector<Row> groups = PartitionCores(pool, kSizes);
  ASSERT_EQ(SizesOf(groups), (std::vector<unsigned>{8, 8}));
  for (const Row& group : groups) EXPECT_EQ(DomainsOf(group).size(), 2u);
}

TEST(CorePartition, ALargeDomainIsCutInItself) {
  const CpuPool pool = Pool({Ones(16), Ones(16)});
  const std::vector<Row> groups = PartitionCores(pool, kSizes);
  ASSERT_EQ(SizesOf(groups), (std::vector<unsigned>{8, 8, 8, 8}));
  for (const Row& group : groups) EXPECT_EQ(DomainsOf(group).size(), 1u);
}

TEST(CorePartition, TheWorkersOfACoreAreInOneGroup) {
  const CpuPool pool = Pool({std::vector<unsigned>(9, 2)});
  std::map<const Core*, int> groups_of_core;
  const std::vector<Row> groups = PartitionCores(pool, kSizes);
  ASSERT_EQ(SizesOf(groups), (std::vector<unsigned>{8, 10}));
  for (const Row& group : groups) {
    for (const Item& item : group) {
      EXPECT_EQ(++groups_of_core[item.core], 1);
      EXPECT_EQ(item.workers, 2u);
    }
  }
}

TEST(CorePartition, ACoreWithMoreWorkersThanAGroupIsDividedByItself) {
  const CpuPool pool = Pool({{5, 1}});
  const std::vector<Row> groups = PartitionCores(pool, {.min = 1, .max = 2});
  ASSERT_EQ(SizesOf(groups), (std::vector<unsigned>{1, 1, 2, 2}));
  std::vector<unsigned> first_workers;
  for (const Row& group : groups) {
    ASSERT_EQ(group.size(), 1u);
    if (group[0].core == &pool.cores[0]) first_workers.push_back(group[0].first_worker);
  }
  EXPECT_EQ(first_workers, (std::vector<unsigned>{0, 2, 4}));
}

TEST(CorePartition, WhereWorkersOutnumberCpusACoreMayBeDividedAmongGroups) {
  CpuPool pool = Pool({{12, 12}});
  pool.cpus = 2;
  EXPECT_EQ(SizesOf(PartitionCores(pool, kSizes)), (std::vector<unsigned>{12, 12}));
  EXPECT_EQ(SizesOf(PartitionCores(pool, {.min = 4, .max = 8})), (std::vector<unsigned>{8, 8, 8}));
}

std::vector<std::vector<unsigned>> Domains(const std::vector<std::size_t>& sizes) {
  std::vector<std::vector<unsigned>> domains;
  for (const std::size_t size : sizes) domains.push_back(Ones(size));
  return domains;
}

// In the order of their numbers a group of 8 would have a part of a domain and something else (GP7).
TEST(CorePartition, UnequalDomainsArePackedWhole) {
  const CpuPool pool = Pool(Domains({7, 7, 1, 1}));
  const std::vector<Row> groups = PartitionCores(pool, kSizes);
  ASSERT_EQ(SizesOf(groups), (std::vector<unsigned>{8, 8}));
  for (const Row& group : groups) EXPECT_EQ(DomainsOf(group).size(), 2u);
}

// In no order that sorts them do neighbours alone make the groups of the second.
TEST(CorePartition, UnequalDomainsMakeNoGroupMoreThanNeeded) {
  EXPECT_EQ(SizesOf(PartitionCores(Pool(Domains({6, 6, 5, 5, 5, 3})), kSizes)), (Numbers{15, 15}));
  EXPECT_EQ(SizesOf(PartitionCores(Pool(Domains({7, 6, 5, 4, 4, 4})), kSizes)), (Numbers{15, 15}));
}

TEST(CorePartition, WholeDomainsComeBeforeTheLeastSize) {
  EXPECT_EQ(SizesOf(PartitionCores(Pool(Domains({7, 7, 2})), kSizes)), (Numbers{7, 9}));
  EXPECT_EQ(SizesOf(PartitionCores(Pool(Domains({16, 4})), kSizes)), (Numbers{4, 8, 8}));
}

TEST(CorePartition, ButNoGroupIsSmallerThanHalfOfTheLeastSizeForThat) {
  EXPECT_EQ(SizesOf(PartitionCores(Pool(Domains({15, 1})), kSizes)), (Numbers{8, 8}));
  EXPECT_EQ(SizesOf(PartitionCores(Pool(Domains({1, 15, 1, 15})), kSizes)), (Numbers{8, 9, 15}));
}

TEST(CorePartition, AGroupSpansPackagesWhereThatSavesAGroup) {
  CpuPool pool = Pool(Domains({7, 6, 8, 9}));
  for (Core& core : pool.cores) core.package = core.l3 < 2 ? 0 : 1;
  EXPECT_EQ(SizesOf(PartitionCores(pool, kSizes)), (Numbers{15, 15}));
  CpuPool apart = Pool(Domains({7, 8, 6, 9}));
  for (Core& core : apart.cores) core.package = core.l3 < 2 ? 0 : 1;
  for (const Row& group : PartitionCores(apart, kSizes)) EXPECT_EQ(group.front().package(), group.back().package());
}

// Beyond the largest search.
TEST(CorePartition, ManyUnequalDomainsArePackedToo) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 240; ++i) sizes.push_back(1 + i % 8);
  const CpuPool pool = Pool(Domains(sizes));
  const std::vector<Row> groups = PartitionCores(pool, kSizes);
  EXPECT_EQ(groups.size(), 72u);  // 1,080 workers.
  std::map<int, int> groups_of_domain;
  for (const Row& group : groups) {
    for (const int domain : DomainsOf(group)) ++groups_of_domain[domain];
  }
  for (const auto& [domain, count] : groups_of_domain) EXPECT_EQ(count, 1) << domain;
}

// The number of workers by kind of core.
std::vector<std::map<int, unsigned>> KindsOf(const std::vector<Row>& groups) {
  std::vector<std::map<int, unsigned>> kinds;
  for (const Row& group : groups) {
    kinds.emplace_back();
    for (const Item& item : group) kinds.back()[item.kind()] += item.workers;
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

TEST(CorePartition, FastAndSlowCoresAreNotInAGroupWhereTheSizesAllow) {
  using Kinds = std::vector<std::map<int, unsigned>>;
  CpuPool pool = Pool({{2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1}});
  for (Core& core : pool.cores) core.kind = core.cpus.size() == 2 ? 1 : 0;
  EXPECT_EQ(KindsOf(PartitionCores(pool, kSizes)), (Kinds{{{0, 8}}, {{1, 12}}}));
  // Four slow ones are no group: sizes come first.
  CpuPool fewer = Pool({{2, 2, 2, 2, 2, 2, 1, 1, 1, 1}});
  for (Core& core : fewer.cores) core.kind = core.cpus.size() == 2 ? 1 : 0;
  EXPECT_EQ(SizesOf(PartitionCores(fewer, kSizes)), (Numbers{8, 8}));
  // A domain of both kinds that would be one group.
  EXPECT_EQ(KindsOf(PartitionCores(pool, {.min = 8, .max = 24})), (Kinds{{{0, 8}}, {{1, 12}}}));
}

}  // namespace
}  // namespace weft::scheduling_group::planning
