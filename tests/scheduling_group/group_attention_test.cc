// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/group_attention.h"

#include <gtest/gtest.h>

#include <optional>

namespace weft::scheduling_group {
namespace {

TEST(GroupAttention, AGroupNeedsNoneAtFirst) {
  const GroupAttention group;
  EXPECT_FALSE(group.any());
  EXPECT_FALSE(group.stopping());
}

TEST(GroupAttention, WatchingDoesNotStopAGroupAndStoppingDoesNotEndTheWatch) {
  GroupAttention group;
  WatchLeaving();
  EXPECT_TRUE(group.any());
  EXPECT_FALSE(group.stopping());
  group.SetStopping();
  EXPECT_TRUE(group.stopping());
  group.ClearStopping();
  EXPECT_FALSE(group.stopping());
  EXPECT_TRUE(group.any());
  UnwatchLeaving();
  EXPECT_FALSE(group.any());
}

TEST(GroupAttention, AGroupIsWatchedUntilTheLastWatcherHasLeft) {
  const GroupAttention group;
  WatchLeaving();
  WatchLeaving();
  UnwatchLeaving();
  EXPECT_TRUE(group.any());
  UnwatchLeaving();
  EXPECT_FALSE(group.any());
}

TEST(GroupAttention, AGroupThatIsMadeLaterIsWatchedToo) {
  WatchLeaving();
  std::optional<GroupAttention> group(std::in_place);
  EXPECT_TRUE(group->any());
  group.reset();
  UnwatchLeaving();  // It does not touch the group that is gone.
  const GroupAttention after;
  EXPECT_FALSE(after.any());
}

}  // namespace
}  // namespace weft::scheduling_group
