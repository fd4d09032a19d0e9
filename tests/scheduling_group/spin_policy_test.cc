// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/idle/idle_workers.h"

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;

class SpinPolicyTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::nanoseconds kSpinFor = 5us;

  // Whether the worker goes on after a search that finds nothing, where nobody hands fibers to others.
  bool GoesOn(bool hand_offs = false) {
    return policy_.GoesOn(hand_offs, [this] {
      ++asked_;
      return has_work_;
    });
  }
  bool IsOver(SpinPolicy::TimePoint now, bool hand_offs = false) {
    return policy_.IsOver(now, hand_offs, [this] { return alone_; });
  }
  bool NextSpinIsLong() {
    policy_.BeginSpin(kSpinFor);
    return GoesOn();
  }
  void SpinInVain(std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) {
      policy_.BeginSpin(kSpinFor);
      policy_.EndSpin(/*found=*/false);
    }
  }

  SpinPolicy policy_;
  SpinPolicy::TimePoint now_{1h};
  bool has_work_ = false;
  bool alone_ = true;
  int asked_ = 0;
};

TEST_F(SpinPolicyTest, ALongSpinLastsForItsTime) {
  policy_.BeginSpin(kSpinFor);
  EXPECT_TRUE(GoesOn());
  EXPECT_EQ(asked_, 0) << "a long spin goes on anyway";
  EXPECT_FALSE(IsOver(now_));
  EXPECT_FALSE(IsOver(now_ + kSpinFor - 1ns));
  EXPECT_TRUE(IsOver(now_ + kSpinFor));
}

TEST_F(SpinPolicyTest, AWorkerThatHasSpunInVainSearchesOnceMostTimes) {
  SpinInVain(SpinPolicy::kFailedSpins - 1);
  EXPECT_TRUE(NextSpinIsLong());
  SpinInVain(1);
  std::uint32_t long_ones = 0;
  for (std::uint32_t i = 0; i < 10 * SpinPolicy::kLongSpinEvery; ++i) {
    long_ones += NextSpinIsLong() ? 1 : 0;
    policy_.EndSpin(/*found=*/false);
  }
  EXPECT_EQ(long_ones, 10u);
}

TEST_F(SpinPolicyTest, AfterASpinThatFoundAFiberTheNextOnesAreLong) {
  SpinInVain(SpinPolicy::kFailedSpins);
  EXPECT_FALSE(NextSpinIsLong());
  policy_.EndSpin(/*found=*/true);
  for (std::uint32_t i = 0; i < SpinPolicy::kFailedSpins; ++i) {
    EXPECT_TRUE(NextSpinIsLong()) << i;
    policy_.EndSpin(/*found=*/false);
  }
  EXPECT_FALSE(NextSpinIsLong());
}

TEST_F(SpinPolicyTest, AShortSpinBecomesLongWhereThereIsWorkOrFibersAreHandedOn) {
  SpinInVain(SpinPolicy::kFailedSpins);
  policy_.BeginSpin(kSpinFor);
  EXPECT_TRUE(GoesOn(/*hand_offs=*/true));
  EXPECT_EQ(asked_, 0);
  EXPECT_TRUE(GoesOn()) << "it stays long";

  policy_.BeginSpin(kSpinFor);
  has_work_ = true;
  EXPECT_TRUE(GoesOn());
  EXPECT_FALSE(IsOver(now_));
  has_work_ = false;
  EXPECT_TRUE(GoesOn());

  EXPECT_FALSE(NextSpinIsLong());
}

// Both would be awake for as long as two fibers play ping-pong.
TEST_F(SpinPolicyTest, BesideHandOffsTheOnlySpinnerStaysAndASecondOneDoesNot) {
  policy_.BeginSpin(kSpinFor);
  for (int i = 0; i < 100; ++i) {
    now_ += kSpinFor;
    EXPECT_FALSE(IsOver(now_, /*hand_offs=*/true));
  }
  // From the last hand-off on as long as ever.
  EXPECT_FALSE(IsOver(now_ + kSpinFor - 1ns, /*hand_offs=*/false));
  EXPECT_TRUE(IsOver(now_ + kSpinFor, /*hand_offs=*/false));

  alone_ = false;
  policy_.BeginSpin(kSpinFor);
  EXPECT_FALSE(IsOver(now_, /*hand_offs=*/true));
  EXPECT_TRUE(IsOver(now_ + kSpinFor, /*hand_offs=*/true));
}

// A poll between the first search and the pause may take longer than a spin. The fibers that it made ready are found by
// the second search.
TEST_F(SpinPolicyTest, ASpinThatBeginsLateHasAllOfItsTime) {
  for (const std::uint32_t failed_before : {0u, SpinPolicy::kFailedSpins}) {
    SpinInVain(failed_before);
    has_work_ = true;
    policy_.BeginSpin(kSpinFor);
    EXPECT_TRUE(GoesOn());
    now_ += 10 * kSpinFor;
    EXPECT_FALSE(IsOver(now_));
    EXPECT_FALSE(IsOver(now_ + kSpinFor - 1ns));
    EXPECT_TRUE(IsOver(now_ + kSpinFor));
    policy_.EndSpin(/*found=*/false);
  }
}

TEST_F(SpinPolicyTest, SearchesAreRarerBesideHandOffs) {
  EXPECT_EQ(SpinPolicy::PauseTime(/*hand_offs=*/false), 0ns);
  EXPECT_EQ(SpinPolicy::PauseTime(/*hand_offs=*/true), SpinPolicy::kPauseBesideHandOffs);
}

TEST_F(SpinPolicyTest, AWorkerNapsAfterSoManySearchesThatSawWorkInVain) {
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 1; i < SpinPolicy::kSearchesBeforeNap; ++i) {
      EXPECT_EQ(policy_.NapAfterFailedSearch(), 0ns);
    }
    EXPECT_EQ(policy_.NapAfterFailedSearch(), SpinPolicy::kNap);
  }
  for (std::uint32_t i = 1; i < SpinPolicy::kSearchesBeforeNap; ++i) (void)policy_.NapAfterFailedSearch();
  policy_.ForgetFailedSearches();
  EXPECT_EQ(policy_.NapAfterFailedSearch(), 0ns);
}

// A worker that has announced its sleep, beside a group whose fibers are all local.
struct LocalsOnly {
  struct Group {
    IdleWorkers& idle() { return idle_workers; }
    IdleWorkers idle_workers;
  };
  struct Worker {
    using Group = LocalsOnly::Group;
    using Fiber = FiberEntity;
    static constexpr std::size_t kSeenBySteal = 64;
    Worker(Group* own, std::function<void(int)> on_steal) : own_group(*own), on_steal(std::move(on_steal)) {
      own_group.idle().PrepareSleep(index());
    }
    Group& group() { return own_group; }
    unsigned index() const { return 1; }
    std::size_t FibersToSee(const Group&) const { return fibers; }
    void NapInSearch() {
      ++naps;
      on_nap();
    }
    Fiber* StealFrom(Group&) {
      on_steal(++steals);
      return nullptr;
    }
    Group& own_group;
    const std::function<void(int)> on_steal;
    std::size_t fibers = 200;
    std::function<void()> on_nap = [] {};
    int steals = 0;
    int naps = 0;
  };
  Group own, victim;
};

TEST(StealBehindLocalFibers, SearchesUntilItHasSeenAll) {
  LocalsOnly groups;
  LocalsOnly::Worker worker(&groups.own, [](int) {});
  EXPECT_EQ(StealBehindLocalFibers(worker, groups.victim), nullptr);
  EXPECT_EQ(worker.steals, 4);
}

// Else what it was claimed for would wait for the length of the search.
TEST(StealBehindLocalFibers, StopsWhenTheWorkerIsClaimed) {
  LocalsOnly groups;
  LocalsOnly::Worker worker(&groups.own,
                            [&](int steal) { EXPECT_TRUE(steal != 2 || groups.own.idle().ClaimSleeper() == 1); });
  EXPECT_EQ(StealBehindLocalFibers(worker, groups.victim), nullptr);
  EXPECT_EQ(worker.steals, 2);
}

// Each one that it sees goes through the queue of a group that is busy.
TEST(StealBehindLocalFibers, NapsInALongSearch) {
  LocalsOnly groups;
  LocalsOnly::Worker worker(&groups.own, [](int) {});
  worker.fibers = 1'000;
  EXPECT_EQ(StealBehindLocalFibers(worker, groups.victim), nullptr);
  EXPECT_EQ(worker.steals, 16);
  EXPECT_EQ(worker.naps, 3);
}

TEST(StealBehindLocalFibers, StopsWhenTheWorkerIsClaimedInANap) {
  LocalsOnly groups;
  LocalsOnly::Worker worker(&groups.own, [](int) {});
  worker.fibers = 1'000;
  worker.on_nap = [&] { EXPECT_EQ(groups.own.idle().ClaimSleeper(), 1); };
  EXPECT_EQ(StealBehindLocalFibers(worker, groups.victim), nullptr);
  EXPECT_EQ(worker.steals, kStealsBetweenNaps);
}

TEST(StealBehindLocalFibers, LeavesThemToAWorkerOfTheirGroupThatIdles) {
  LocalsOnly groups;
  LocalsOnly::Worker worker(&groups.own,
                            [&](int steal) { EXPECT_TRUE(steal != 3 || groups.victim.idle().TryStartSpinning()); });
  EXPECT_EQ(StealBehindLocalFibers(worker, groups.victim), nullptr);
  EXPECT_EQ(worker.steals, 3);
}

}  // namespace
}  // namespace weft::scheduling_group
