// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "weft/scheduling_group/idle/reactor.h"

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;
using TimePoint = std::chrono::steady_clock::time_point;

class CountingPoller final : public Reactor {
 public:
  CountingPoller() = default;
  explicit CountingPoller(int* destroyed) : destroyed_(destroyed) {}
  ~CountingPoller() override {
    if (destroyed_ != nullptr) ++*destroyed_;
  }
  void TryPoll() override {}
  void PollIfDue(TimePoint) override { ++asked; }
  bool TryEnter() override { return false; }
  void Wait() override {}
  void WaitUntil(std::chrono::steady_clock::time_point /*until*/) override {}
  void LeaveAfterDispatch() override {}
  void Interrupt() override {}

  int asked = 0;

 private:
  int* destroyed_ = nullptr;
};

// Fibers up to the next poll.
std::uint32_t PopsUntilPoll(PollPace& pace) {
  for (std::uint32_t pops = 1;; ++pops) {
    if (pace.CountPop()) return pops;
  }
}

class PollPaceTest : public ::testing::Test {
 protected:
  // So many polls, each of which comes as soon as its fibers have run for `each`. Returns how many fibers the next
  // comes after.
  std::uint32_t RunFibersOf(std::chrono::nanoseconds each, int polls) {
    std::uint32_t pops = PopsUntilPoll(pace_);
    for (int i = 0; i < polls; ++i) {
      now_ += each * pops;
      pace_.OnPoll(now_);
      pops = PopsUntilPoll(pace_);
    }
    pace_.OnPoll(now_ += PollPace::kPollEvery * 3 / 4);  // As the pace wants it: nothing changes.
    return pops;
  }

  PollPace pace_;
  TimePoint now_{1h};
};

TEST_F(PollPaceTest, AWorkerPollsBeforeItsFirstFiber) { EXPECT_EQ(PopsUntilPoll(pace_), 1u); }

// PP1
TEST_F(PollPaceTest, BetweenPollsOfShortFibersThereAreSixtyFourAtMost) {
  EXPECT_EQ(RunFibersOf(1ns, 20), PollPace::kMostPopsPerPoll);
  EXPECT_EQ(RunFibersOf(1ns, 20), PollPace::kMostPopsPerPoll);
}

TEST_F(PollPaceTest, ThePaceFollowsTheLengthOfFibers) {
  const std::uint32_t pops = RunFibersOf(1us, 20);
  EXPECT_GE(pops, 10u);
  EXPECT_LE(pops, 20u);
  EXPECT_EQ(RunFibersOf(50us, 1), 1u);
}

// PP2: halved each time, it took 64 + 32 + 16 ... long ones.
TEST_F(PollPaceTest, AfterShortFibersTheFirstLateLookSetsThePaceOfLongOnes) {
  ASSERT_EQ(RunFibersOf(1ns, 20), PollPace::kMostPopsPerPoll);
  now_ += 64ms;
  (void)PopsUntilPoll(pace_);
  pace_.OnPoll(now_);
  EXPECT_EQ(PopsUntilPoll(pace_), 1u);
}

TEST_F(PollPaceTest, WithoutAPollerItAsksAgainSoon) {
  ASSERT_EQ(RunFibersOf(1ns, 20), PollPace::kMostPopsPerPoll);
  (void)PopsUntilPoll(pace_);
  pace_.Poll(nullptr);
  EXPECT_EQ(PopsUntilPoll(pace_), 8u);
  CountingPoller poller;
  pace_.Poll(&poller);
  EXPECT_EQ(poller.asked, 1);
}

TEST(ReactorOwner, TheFirstPollerStays) {
  int destroyed = 0;
  {
    ReactorOwner owner;
    EXPECT_EQ(owner.Get(), nullptr);
    auto* first = new CountingPoller(&destroyed);
    EXPECT_TRUE(owner.Set(std::unique_ptr<Reactor>(first)));
    EXPECT_FALSE(owner.Set(std::make_unique<CountingPoller>(&destroyed)));
    EXPECT_EQ(destroyed, 1);
    EXPECT_EQ(owner.Get(), first);
  }
  EXPECT_EQ(destroyed, 2);
}

}  // namespace
}  // namespace weft::scheduling_group
