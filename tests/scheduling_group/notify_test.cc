// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Whom a push wakes, on two groups without threads.  Through all interleavings: tests/model/idle_loop_model.cc.

#include <gtest/gtest.h>

#include <vector>

#include "weft/scheduling_group/idle/wake_and_steal.h"

namespace weft::scheduling_group {
namespace {

struct Group {
  explicit Group(IdleGroups* all, int slot) : all_(all), slot_(slot) {}

  IdleWorkers& idle() { return idle_; }
  IdleGroups& idle_groups() { return *all_; }
  int slot() const { return slot_; }
  const std::vector<Group*>& partners() const { return partners_; }
  const IdleGroups::Mask& partner_mask() const { return mask_; }
  base::Atomic<bool>& steal_requested() { return requested_; }
  bool HasStealable() const { return true; }
  bool MayStealFrom(const Group&) const { return true; }
  void Send(unsigned worker, Group* where) { sent.push_back({worker, where}); }

  void AddPartner(Group* partner) {
    partners_.push_back(partner);
    mask_.Add(partner->slot());
  }
  void GoToSleep(unsigned worker) {
    idle_.PrepareSleep(worker);
    all_->Announce(slot_);
  }

  struct Sent {
    unsigned worker;
    Group* where;
    bool operator==(const Sent&) const = default;
  };
  std::vector<Sent> sent;

 private:
  IdleGroups* const all_;
  const int slot_;
  IdleWorkers idle_;
  std::vector<Group*> partners_;
  IdleGroups::Mask mask_;
  base::Atomic<bool> requested_{false};
};

class NotifyTest : public ::testing::Test {
 protected:
  NotifyTest() { group_.AddPartner(&partner_); }

  using Sent = std::vector<Group::Sent>;
  IdleGroups all_;
  Group group_{&all_, 0};
  Group partner_{&all_, 1};
};

class NotifyEitherWayTest : public NotifyTest, public ::testing::WithParamInterface<bool> {
 protected:
  void Notify() {
    if (GetParam()) {
      NotifyAfterFence(group_, /*local=*/false, [] { return false; });
    } else {
      NotifyAfterPush(group_);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, NotifyEitherWayTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "AfterFence" : "AfterPush"; });

TEST_P(NotifyEitherWayTest, ASleeperOfItsOwnGroupIsWokenAndNoStealIsRequested) {
  group_.GoToSleep(5);
  partner_.GoToSleep(0);
  Notify();
  EXPECT_EQ(group_.sent, (Sent{{5, &group_}}));
  EXPECT_EQ(partner_.sent, Sent());
}

TEST_P(NotifyEitherWayTest, IfAllAreBusyASleeperOfThePartnerIsSent) {
  partner_.GoToSleep(2);
  Notify();
  EXPECT_EQ(group_.sent, Sent());
  EXPECT_EQ(partner_.sent, (Sent{{2, &group_}}));
  EXPECT_TRUE(group_.steal_requested().load());
}

TEST_P(NotifyEitherWayTest, WhileAWorkerSearchesNobodyIsWoken) {
  group_.GoToSleep(5);
  partner_.GoToSleep(0);
  ASSERT_TRUE(group_.idle().TryStartSpinning());
  Notify();
  EXPECT_EQ(group_.sent, Sent());
  EXPECT_EQ(partner_.sent, Sent());
}

// NO2
TEST_F(NotifyTest, ForALocalFiberAStealIsRequestedOnlyIfItsPushHidOthers) {
  partner_.GoToSleep(0);
  NotifyAfterFence(group_, /*local=*/true, [] { return false; });
  EXPECT_EQ(partner_.sent, Sent());
  NotifyAfterFence(group_, /*local=*/true, [] { return true; });
  EXPECT_EQ(partner_.sent, (Sent{{0, &group_}}));
}

TEST_F(NotifyTest, WhetherAPushHidFibersIsNotAskedIfNobodySleeps) {
  NotifyAfterFence(group_, /*local=*/true, [] {
    ADD_FAILURE() << "a call for each push";
    return true;
  });
}

}  // namespace
}  // namespace weft::scheduling_group
