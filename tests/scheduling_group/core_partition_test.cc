// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "weft/scheduling_group/plan/cpu_pool.h"

namespace weft::scheduling_group::planning {
namespace {

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

// In the order of their numbers a group of 8 would have a part of a domain and something else (GP7).
TEST(CorePartition, UnequalDomainsAreTriedInSeveralOrders) {
  const CpuPool pool = Pool({Ones(7), Ones(7), Ones(1), Ones(1)});
  const std::vector<Row> groups = PartitionCores(pool, kSizes);
  ASSERT_EQ(SizesOf(groups), (std::vector<unsigned>{8, 8}));
  for (const Row& group : groups) EXPECT_EQ(DomainsOf(group).size(), 2u);
}

}  // namespace
}  // namespace weft::scheduling_group::planning
