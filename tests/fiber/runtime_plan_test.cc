// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_plan.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::fiber {
namespace {

using Cpus = std::vector<int>;

RuntimePlan Plan(const RuntimeOptions& options) {
  std::string error;
  std::optional<RuntimePlan> plan = PlanRuntime(options, &error);
  EXPECT_TRUE(plan.has_value()) << error;
  return plan.value_or(RuntimePlan());
}

TEST(RuntimePlan, IsForThisMachineUnlessAnotherIsGiven) {
  EXPECT_EQ(Plan({}).machine.cpus, Plan({}).here.cpus);
  RuntimeOptions options;
  options.topology = "numa:2 core:8 pu:1";
  const RuntimePlan plan = Plan(options);
  EXPECT_EQ(plan.machine.cpus.size(), 16U);
  EXPECT_EQ(plan.here.cpus, Plan({}).here.cpus);
  EXPECT_EQ(plan.plan.groups.size(), 2U);
}

TEST(RuntimePlan, FollowsTheOptions) {
  RuntimeOptions options;
  options.topology = "numa:2 core:8 pu:1";
  options.concurrency_hint = 3;
  options.scheduling_group_size = 2;
  options.numa_aware = NumaAware::kOn;
  options.worker_accessible_cpus = "2-5,8,9";
  const RuntimePlan plan = Plan(options);
  ASSERT_EQ(plan.plan.groups.size(), 2U);
  EXPECT_EQ(plan.plan.groups[0].worker_cpus, Cpus({2, 3}));
  EXPECT_EQ(plan.plan.groups[0].cpus, Cpus({2, 3, 4, 5}));
  EXPECT_EQ(plan.plan.groups[1].worker_cpus, Cpus({8}));
}

TEST(RuntimePlan, NamedGroupsFollowTheOtherOptionsToo) {
  RuntimeOptions options;
  options.topology = "numa:2 core:8 pu:1";
  options.groups = "latency:4,batch:2@8,9";
  options.scheduling_group_size = 2;
  options.worker_accessible_cpus = "2-5,8,9";
  const RuntimePlan plan = Plan(options);
  ASSERT_EQ(plan.plan.groups.size(), 3U);
  EXPECT_EQ(plan.plan.groups[0].name, "latency");
  EXPECT_EQ(plan.plan.groups[1].worker_cpus, Cpus({4, 5}));
  EXPECT_EQ(plan.plan.groups[2].worker_cpus, Cpus({8, 9}));
  EXPECT_EQ(OptionsOfGroup(2, plan.plan.groups[2], options, plan.here).name, "batch");
  std::string error;
  options.groups = "latency:5,batch:2@8,9";
  EXPECT_FALSE(PlanRuntime(options, &error).has_value());
  EXPECT_TRUE(error.starts_with("--fiber_groups=latency:5,batch:2@8,9: 5 workers for 4 CPUs that no group has "))
      << error;
  options.groups = "latency:1@6";
  EXPECT_FALSE(PlanRuntime(options, &error).has_value());
  EXPECT_EQ(error, "--fiber_groups=latency:1@6: latency: CPU 6 is not there, or not ours to use: ours are 2-5,8,9");
}

TEST(RuntimePlan, FewWorkersOfAnotherMachineAreNotNearACpuOfThisOne) {
  RuntimeOptions options;
  options.topology = "numa:1 l3:64 core:2 pu:1";
  options.concurrency_hint = 1;
  EXPECT_EQ(Plan(options).plan.groups.at(0).worker_cpus, Cpus({0}));
}

TEST(RuntimePlan, SaysWhyThereIsNone) {
  std::string error;
  RuntimeOptions options;
  options.topology = "no such machine";
  EXPECT_FALSE(PlanRuntime(options, &error).has_value());
  EXPECT_NE(error.find("no such machine"), std::string::npos) << error;
  options.topology = "core:2 pu:1";
  options.worker_accessible_cpus = "2,3";
  EXPECT_FALSE(PlanRuntime(options, &error).has_value());
  EXPECT_NE(error.find("CPU 2"), std::string::npos) << error;
}

// How often each group but the first is searched by the first.
std::vector<std::int64_t> RatesOfTheFirst(const RuntimeOptions& options) {
  const RuntimePlan plan = Plan(options);
  std::vector<std::int64_t> rates(plan.plan.groups.size(), -2);
  for (const auto& neighbour : plan.plan.groups.at(0).neighbours) {
    rates[static_cast<std::size_t>(neighbour.group)] = StealEveryN(neighbour, options);
  }
  rates.erase(rates.begin());
  return rates;
}

// Two sockets of two nodes.
RuntimeOptions OnTwoSockets() {
  RuntimeOptions options;
  options.topology = "pack:2 numa:2 core:8 pu:1";
  return options;
}

TEST(StealEveryN, IsByDistanceBetweenNodesOfASocketAndNeverAcrossSocketsByDefault) {
  RuntimeOptions options = OnTwoSockets();
  EXPECT_EQ(RatesOfTheFirst(options), (std::vector<std::int64_t>{32, 0, 0}));  // hwloc's string has distance 20.
  options.work_stealing_ratio = 4;
  EXPECT_EQ(RatesOfTheFirst(options), (std::vector<std::int64_t>{8, 0, 0}));
  options.work_stealing_ratio = 0;
  EXPECT_EQ(RatesOfTheFirst(options), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(StealEveryN({.group = 1, .same_node = false, .distance = 12, .same_package = true}, RuntimeOptions()), 19);
  EXPECT_EQ(
      StealEveryN({.group = 1, .same_node = false, .distance = 2'000'000'000, .same_package = true}, RuntimeOptions()),
      1'000'000);
}

TEST(StealEveryN, IsTheRatioThatHasBeenChosen) {
  RuntimeOptions options = OnTwoSockets();
  options.scheduling_group_size = 4;
  options.cross_numa_work_stealing_ratio = 64;
  EXPECT_EQ(RatesOfTheFirst(options), (std::vector<std::int64_t>{16, 64, 64, 64, 64, 64, 64}));
  options.cross_numa_work_stealing_ratio = 0;
  EXPECT_EQ(RatesOfTheFirst(options), (std::vector<std::int64_t>{16, 0, 0, 0, 0, 0, 0}));
}

std::string Islands(const std::string& topology, const std::string& cpus = "") {
  RuntimeOptions options;
  options.topology = topology;
  options.worker_accessible_cpus = cpus;
  return DescribeIslands(Plan(options).plan, options);
}

TEST(Islands, AreNodesTooSmallForAGroupThatNobodyHelps) {
  const std::string text = Islands("pack:2 numa:1 core:8 pu:1", "0-3,8,9");
  EXPECT_NE(text.find("the workers are 2 islands of 2 to 4,"), std::string::npos) << text;
  EXPECT_NE(text.find("--fiber_cross_numa_work_stealing_ratio=64"), std::string::npos) << text;
  EXPECT_NE(Islands("pack:2 numa:1 core:4 pu:1").find("2 islands of 4,"), std::string::npos);
}

TEST(Islands, AreNoneWhereNodesOfASocketHelpEachOtherOrAreLargeEnough) {
  EXPECT_EQ(Islands("pack:2 numa:16 l3:1 core:4 pu:1"), "");
  EXPECT_EQ(Islands("pack:2 numa:1 core:8 pu:1"), "");
  EXPECT_EQ(Islands("numa:1 core:2 pu:1"), "");
}

std::string IslandsOf(const std::string& groups, const std::string& topology) {
  RuntimeOptions options;
  options.groups = groups;
  options.topology = topology;
  return DescribeIslands(Plan(options).plan, options);
}

TEST(Islands, AreNotNamesThatTheUserKeepsApart) {
  EXPECT_EQ(IslandsOf("latency:1,batch:1", "numa:1 core:2 pu:1"), "");
  EXPECT_EQ(IslandsOf("latency:6,batch:2", "numa:1 core:8 pu:1"), "");
}

TEST(Islands, AreThoseOfAName) {
  const std::string text = IslandsOf("latency:6,batch:2", "pack:2 numa:1 core:4 pu:1");
  EXPECT_NE(text.find("the workers of 'batch' are 2 islands of 1,"), std::string::npos) << text;
}

TEST(Islands, AreNotNamedToAUserWhoHasChosenTheRatio) {
  RuntimeOptions options;
  options.topology = "pack:2 numa:1 core:4 pu:1";
  options.cross_numa_work_stealing_ratio = 0;
  EXPECT_EQ(DescribeIslands(Plan(options).plan, options), "");
}

// They are large enough together, though each group is small.
TEST(Islands, AreNotTheGroupsOfANode) {
  RuntimeOptions options;
  options.topology = "pack:2 numa:1 core:8 pu:1";
  options.scheduling_group_size = 1;
  options.work_stealing_ratio = 0;
  EXPECT_EQ(DescribeIslands(Plan(options).plan, options), "");
}

numa::Topology TwoCpus() {
  numa::Topology here;
  for (int cpu : {0, 1}) here.cpus.push_back({.os_id = cpu, .node = 0, .package = 0, .l3 = 0, .core = cpu, .smt = 0});
  here.nodes.push_back({.os_id = 0, .cpus = {0, 1}, .distances = {10}});
  return here;
}

scheduling_group::PlannedGroup Planned(int node, Cpus worker_cpus) {
  return {.node = node,
          .workers = static_cast<unsigned>(worker_cpus.size()),
          .worker_cpus = worker_cpus,
          .cpus = std::move(worker_cpus),
          .neighbours = {}};
}

TEST(OptionsOfGroup, ThePlanAndTheOptionsAreTakenOver) {
  RuntimeOptions options;
  options.scheduling_name = "v2";
  options.run_queue_size = 1024;
  options.stack_size = 65536;
  const auto group = OptionsOfGroup(3, Planned(0, {0, 1}), options, TwoCpus());
  EXPECT_EQ(group.id, 3);
  EXPECT_EQ(group.workers, 2u);
  EXPECT_EQ(group.node, 0);
  EXPECT_EQ(group.cpus, (Cpus{0, 1}));
  EXPECT_EQ(group.policy, "v2");
  EXPECT_EQ(group.run_queue_size, 1024u);
  EXPECT_EQ(group.stack_size, 65536u);
}

TEST(OptionsOfGroup, WorkersAreBoundToTheirCpusOnlyIfAskedFor) {
  RuntimeOptions options;
  EXPECT_EQ(OptionsOfGroup(0, Planned(0, {1, 0}), options, TwoCpus()).worker_cpus, Cpus());
  options.worker_disallow_cpu_migration = true;
  EXPECT_EQ(OptionsOfGroup(0, Planned(0, {1, 0}), options, TwoCpus()).worker_cpus, (Cpus{1, 0}));
}

TEST(OptionsOfGroup, OfAPlanForAnotherMachineOnlyWhatIsHereIsUsed) {
  RuntimeOptions options;
  options.worker_disallow_cpu_migration = true;
  const auto group = OptionsOfGroup(0, Planned(1, {1, 64, 65}), options, TwoCpus());
  EXPECT_EQ(group.workers, 3u);
  EXPECT_EQ(group.node, -1);
  EXPECT_EQ(group.cpus, (Cpus{1}));
  EXPECT_EQ(group.worker_cpus, (Cpus{1, -1, -1}));
}

}  // namespace
}  // namespace weft::fiber
