// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/retired_groups.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace weft::fiber::detail {
namespace {

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
