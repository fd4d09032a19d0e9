// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_instance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/fiber/runtime/runtime_hooks.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/group/group_registry.h"

namespace weft::fiber::detail {
namespace {

class RuntimeInstanceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { InstallRuntimeHooks(/*after_fork_in_child=*/nullptr); }

  static RuntimeOptions TwoGroups() {
    RuntimeOptions options;
    options.topology = "numa:1 core:4 pu:1";
    options.concurrency_hint = 4;
    options.scheduling_group_size = 2;
    return options;
  }

  void Start(RuntimeInstance* runtime, const RuntimeOptions& options) {
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

using scheduling_group::SchedulingGroup;

SchedulingGroup::Options Group(int id, unsigned workers = 1) {
  SchedulingGroup::Options options;
  options.id = id;
  options.workers = workers;
  return options;
}

// A group as a runtime leaves it: without workers.
void Retire(RetiredGroups* retired, std::unique_ptr<SchedulingGroup> group, std::size_t unfinished) {
  group->Stop();
  std::vector<std::unique_ptr<SchedulingGroup>> groups;
  groups.push_back(std::move(group));
  retired->Reserve(1);
  retired->Retire(std::move(groups), unfinished);
}

TEST(RetiredGroups, AGroupRunsAgainWithOtherOptions) {
  RetiredGroups retired;
  std::unique_ptr<SchedulingGroup> group = retired.ReuseOrMake(Group(0));
  const SchedulingGroup* const former = group.get();
  Retire(&retired, std::move(group), /*unfinished=*/0);
  group = retired.ReuseOrMake(Group(0, /*workers=*/3));
  EXPECT_EQ(group.get(), former);
  EXPECT_EQ(group->size(), 3u);
  EXPECT_NE(retired.ReuseOrMake(Group(0)).get(), former) << "it is in use";
}

TEST(RetiredGroups, AGroupIsNotUsedWhereItDoesNotFit) {
  RetiredGroups retired;
  std::unique_ptr<SchedulingGroup> group = retired.ReuseOrMake(Group(0));
  const SchedulingGroup* const former = group.get();
  Retire(&retired, std::move(group), /*unfinished=*/0);
  EXPECT_NE(retired.ReuseOrMake(Group(1)).get(), former);
}

TEST(RetiredGroups, AGroupWithUnfinishedFibersNeverRunsAgain) {
  RetiredGroups retired;
  std::unique_ptr<SchedulingGroup> group = retired.ReuseOrMake(Group(0));
  const SchedulingGroup* const former = group.get();
  Retire(&retired, std::move(group), /*unfinished=*/2);
  EXPECT_EQ(retired.unfinished_fibers(), 2u);
  EXPECT_NE(retired.ReuseOrMake(Group(0)).get(), former);
}

// RT6.
TEST(RetiredGroups, AForkedChildUsesNoneOfItsParents) {
  RetiredGroups retired;
  std::unique_ptr<SchedulingGroup> group = retired.ReuseOrMake(Group(0));
  const SchedulingGroup* const parents = group.get();
  Retire(&retired, std::move(group), /*unfinished=*/0);
  RetiredGroups::BelongToParent();
  retired.Reserve(1);
  group = retired.ReuseOrMake(Group(0));
  EXPECT_NE(group.get(), parents);
  // It reuses its own.
  const SchedulingGroup* const own = group.get();
  Retire(&retired, std::move(group), /*unfinished=*/0);
  EXPECT_EQ(retired.ReuseOrMake(Group(0)).get(), own);
}

}  // namespace
}  // namespace weft::fiber::detail
