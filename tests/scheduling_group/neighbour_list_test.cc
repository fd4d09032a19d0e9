// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// On groups that have nothing but a slot.

#include <gtest/gtest.h>

#include <vector>

#include "weft/scheduling_group/idle/wake_and_steal.h"

namespace weft::scheduling_group {
namespace {

struct Group {
  int slot() const { return slot_; }
  int slot_;
};
using List = NeighbourList<Group>;

class NeighbourListTest : public ::testing::Test {
 protected:
  Group near_{1};
  Group far_{IdleGroups::kSlotsOfLine + 200};  // on another node
  Group never_{2};
  Group without_slot_{IdleGroups::kNoSlot};
  const std::vector<List::Neighbour> neighbours_{{&near_, 16}, {&never_, 0}, {&without_slot_, 4}, {&far_, 64, 21}};
  const List list_{neighbours_, /*workers=*/2, /*node=*/-1};
  IdleGroups idle_;
};

TEST_F(NeighbourListTest, PartnersAreThoseThatItStealsFromAndThatHaveASlotNearestFirst) {
  EXPECT_EQ(std::vector<Group*>(list_.partners.begin(), list_.partners.end()), (std::vector<Group*>{&near_, &far_}));
  EXPECT_EQ(std::vector<List::Neighbour>(list_.all.begin(), list_.all.end()), neighbours_);
}

TEST_F(NeighbourListTest, TheMaskIsOfThePartners) {
  idle_.Announce(never_.slot());
  EXPECT_FALSE(idle_.MayIdle(list_.partner_mask));
  idle_.Announce(far_.slot());
  EXPECT_TRUE(idle_.MayIdle(list_.partner_mask));
  idle_.Forget(far_.slot());
  idle_.Announce(near_.slot());
  EXPECT_TRUE(idle_.MayIdle(list_.partner_mask));
}

// NL3
TEST_F(NeighbourListTest, ItMayStealFromNeighboursWithARateOnly) {
  const Group stranger{3};
  EXPECT_TRUE(list_.MayStealFrom(near_));
  EXPECT_TRUE(list_.MayStealFrom(far_));
  EXPECT_TRUE(list_.MayStealFrom(without_slot_));
  EXPECT_FALSE(list_.MayStealFrom(never_));
  EXPECT_FALSE(list_.MayStealFrom(stranger));
}

TEST_F(NeighbourListTest, EachWorkerHasACounterForEachNeighbour) {
  std::vector<StealCounters*> counters;
  for (unsigned w = 0; w < 2; ++w) {
    for (std::size_t n = 0; n < list_.all.size(); ++n) {
      StealCounters& one = list_.counters(w, n);
      for (StealCounters* other : counters) EXPECT_NE(&one, other);
      EXPECT_EQ(one.attempts.load(), 0u);
      counters.push_back(&one);
    }
  }
}

// NL2
TEST_F(NeighbourListTest, AGroupHasNoNeighboursUntilTheListIsPublished) {
  Neighbours<Group> neighbours(2, /*node=*/-1);
  EXPECT_TRUE(neighbours.Get().all.empty());
  EXPECT_TRUE(neighbours.Get().partner_mask.Empty());
  neighbours.Publish(neighbours_);
  EXPECT_EQ(neighbours.Get().all.size(), neighbours_.size());
  EXPECT_DEATH(neighbours.Publish({}), "SetNeighbours: once");
}

TEST(IdleGroupSlot, AGroupThatEndsReturnsItsBits) {
  IdleGroups idle;
  IdleGroupSlots slots;
  IdleGroups::Mask first;
  first.Add(0);
  {
    const IdleGroupSlot slot(idle, slots, /*wanted=*/true, /*line=*/0);
    ASSERT_EQ(slot.Get(), 0);
    EXPECT_EQ(IdleGroupSlot(idle, slots, /*wanted=*/true, /*line=*/0).Get(), 1);
    idle.Announce(slot.Get());
    EXPECT_TRUE(idle.MayIdle(first));
  }
  EXPECT_FALSE(idle.MayIdle(first));
  EXPECT_EQ(IdleGroupSlot(idle, slots, /*wanted=*/true, /*line=*/0).Get(), 0);
}

TEST(IdleGroupSlot, WhenAllOfALineAreTakenAGroupHasNone) {
  IdleGroups idle;
  IdleGroupSlots slots;
  for (int i = 0; i < IdleGroups::kSlotsOfLine; ++i) ASSERT_EQ(slots.Take(0), i);
  { EXPECT_EQ(IdleGroupSlot(idle, slots, /*wanted=*/true, /*line=*/0).Get(), IdleGroups::kNoSlot); }
  EXPECT_EQ(slots.Take(0), IdleGroups::kNoSlot);
  EXPECT_EQ(slots.Take(1), IdleGroups::kSlotsOfLine) << "the other nodes have theirs";
}

TEST(IdleGroupSlot, EachNodeHasALineUntilThereAreTooMany) {
  IdleGroupSlots slots;
  for (unsigned node = 0; node < IdleGroups::kLines; ++node) {
    EXPECT_EQ(slots.Take(node), static_cast<int>(node) * IdleGroups::kSlotsOfLine);
  }
  EXPECT_EQ(slots.Take(IdleGroups::kLines), 1) << "two nodes share a line";
  EXPECT_EQ(slots.Take(255), (IdleGroups::kLines - 1) * IdleGroups::kSlotsOfLine + 1);
}

TEST(IdleGroups, AMaskMayHaveAllGroups) {
  IdleGroups idle;
  IdleGroups::Mask all;
  for (int slot = 0; slot < IdleGroups::kMaxSlots; ++slot) all.Add(slot);
  for (int slot = 0; slot < IdleGroups::kMaxSlots; slot += 31) {
    EXPECT_FALSE(idle.MayIdle(all));
    idle.Announce(slot);
    EXPECT_TRUE(idle.MayIdle(all));
    EXPECT_TRUE(idle.MayIdle(slot));
    idle.Forget(slot);
  }
}

}  // namespace
}  // namespace weft::scheduling_group
