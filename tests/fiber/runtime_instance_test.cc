// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_instance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "weft/fiber/runtime/runtime_hooks.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/group/group_registry.h"

namespace weft::fiber::detail {
namespace {

class RuntimeInstanceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { InstallRuntimeHooks(/*after_fork_in_child=*/nullptr); }

  static Options TwoGroups() {
    Options options;
    options.topology = "numa:1 core:4 pu:1";
    options.concurrency_hint = 4;
    options.scheduling_group_size = 2;
    return options;
  }

  void Start(RuntimeInstance* runtime, const Options& options) {
    std::string error;
    std::optional<RuntimePlan> plan = PlanRuntime(options, &error);
    ASSERT_TRUE(plan.has_value()) << error;
    ASSERT_TRUE(runtime->Start(options, *std::move(plan), &error)) << error;
  }
};

TEST_F(RuntimeInstanceTest, ItIsWhatThePlanSays) {
  RuntimeInstance runtime(TwoGroups());
  Start(&runtime, TwoGroups());
  EXPECT_EQ(runtime.group_count(), 2u);
  EXPECT_EQ(runtime.largest_group(), 2u);
  EXPECT_EQ(runtime.worker_count(), 4u);
  EXPECT_EQ(runtime.planned_node(0), 0);
  EXPECT_EQ(runtime.counts().size(), 2u);
  runtime.Undo();
}

TEST_F(RuntimeInstanceTest, ItsGroupsAreFoundFromItsPublicationToItsEnd) {
  RuntimeInstance runtime(TwoGroups());
  Start(&runtime, TwoGroups());
  EXPECT_EQ(scheduling_group::AllGroups().size(), 0u);
  EXPECT_EQ(the_runtime.load(), nullptr);
  runtime.Publish();
  EXPECT_EQ(scheduling_group::AllGroups().size(), 2u);
  EXPECT_EQ(the_runtime.load(), &runtime);
  EXPECT_EQ(runtime.Terminate(), 0u);
  EXPECT_EQ(scheduling_group::AllGroups().size(), 0u);
  EXPECT_EQ(the_runtime.load(), nullptr);
}

// RT5: as where a later step of the start has failed.
TEST_F(RuntimeInstanceTest, OneThatWasNeverPublishedStopsItsThreads) {
  for (int i = 0; i < 3; ++i) {
    RuntimeInstance runtime(TwoGroups());
    Start(&runtime, TwoGroups());
    runtime.Undo();
  }
  EXPECT_EQ(scheduling_group::AllGroups().size(), 0u);
}

TEST_F(RuntimeInstanceTest, TheEndWaitsForFibers) {
  RuntimeInstance runtime(TwoGroups());
  Start(&runtime, TwoGroups());
  runtime.Publish();
  std::atomic<int> ran{0};
  scheduling_group::SchedulingGroup* group = scheduling_group::AllGroups()[1];
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(group->Start(NewFiber(group, {}, [&ran] { ++ran; })));
  EXPECT_EQ(runtime.Terminate(), 0u);
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace weft::fiber::detail
