// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::fiber {
namespace {

using Cpus = std::vector<int>;

RuntimePlan Plan(const Options& options) {
  std::string error;
  std::optional<RuntimePlan> plan = PlanRuntime(options, &error);
  EXPECT_TRUE(plan.has_value()) << error;
  return plan.value_or(RuntimePlan());
}

TEST(RuntimePlan, IsForThisMachineUnlessAnotherIsGiven) {
  EXPECT_EQ(Plan({}).machine.cpus, Plan({}).here.cpus);
  Options options;
  options.topology = "numa:2 core:8 pu:1";
  const RuntimePlan plan = Plan(options);
  EXPECT_EQ(plan.machine.cpus.size(), 16U);
  EXPECT_EQ(plan.here.cpus, Plan({}).here.cpus);
  EXPECT_EQ(plan.plan.groups.size(), 2U);
}

TEST(RuntimePlan, FollowsTheOptions) {
  Options options;
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

TEST(RuntimePlan, FewWorkersOfAnotherMachineAreNotNearACpuOfThisOne) {
  Options options;
  options.topology = "numa:1 l3:64 core:2 pu:1";
  options.concurrency_hint = 1;
  EXPECT_EQ(Plan(options).plan.groups.at(0).worker_cpus, Cpus({0}));
}

TEST(RuntimePlan, SaysWhyThereIsNone) {
  std::string error;
  Options options;
  options.topology = "no such machine";
  EXPECT_FALSE(PlanRuntime(options, &error).has_value());
  EXPECT_NE(error.find("no such machine"), std::string::npos) << error;
  options.topology = "core:2 pu:1";
  options.worker_accessible_cpus = "2,3";
  EXPECT_FALSE(PlanRuntime(options, &error).has_value());
  EXPECT_NE(error.find("CPU 2"), std::string::npos) << error;
}

}  // namespace
}  // namespace weft::fiber
