// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/circuit_breaker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using State = CircuitBreaker::State;

class CircuitBreakerTest : public ::testing::Test {
 protected:
  void Call(bool succeeds) {
    const auto admitted = breaker_.TryAdmit(now_);
    ASSERT_TRUE(admitted.has_value());
    breaker_.Report(*admitted, succeeds, now_);
  }
  bool Admits() { return breaker_.TryAdmit(now_).has_value(); }

  CircuitBreaker breaker_{{.failures = 3, .open_for = 1s, .open_for_most = 3s}};
  CircuitBreaker::TimePoint now_{1h};
};

TEST_F(CircuitBreakerTest, OpensAfterFailuresInARow) {
  for (int i = 0; i < 5; ++i) {
    Call(false);
    Call(false);
    Call(true);
  }
  EXPECT_EQ(breaker_.state(), State::kClosed);
  for (int i = 0; i < 3; ++i) Call(false);
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_FALSE(Admits());
  EXPECT_FALSE(breaker_.TryAdmit(now_ + 999ms));
}

TEST_F(CircuitBreakerTest, AProbeThatSucceedsClosesIt) {
  for (int i = 0; i < 3; ++i) Call(false);
  now_ += 1s;
  const auto probe = breaker_.TryAdmit(now_);
  ASSERT_TRUE(probe);
  EXPECT_EQ(breaker_.state(), State::kHalfOpen);
  EXPECT_FALSE(Admits()) << "one at a time";
  breaker_.Report(*probe, true, now_);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  Call(false);
  Call(false);
  EXPECT_EQ(breaker_.state(), State::kClosed) << "the failures are counted anew";
}

TEST_F(CircuitBreakerTest, AProbeThatFailsOpensItForTwiceAsLong) {
  for (int i = 0; i < 3; ++i) Call(false);
  for (const auto pause : {1s, 2s, 3s, 3s}) {
    EXPECT_FALSE(breaker_.TryAdmit(now_ + pause - 1ns));
    now_ += pause;
    Call(false);
    EXPECT_EQ(breaker_.state(), State::kOpen);
  }
  now_ += 3s;
  Call(true);
  for (int i = 0; i < 3; ++i) Call(false);
  EXPECT_TRUE(breaker_.TryAdmit(now_ + 1s)) << "after a success the pause is the first again";
}

// BK1.
TEST_F(CircuitBreakerTest, AProbeThatIsNeverReportedIsFollowedByAnother) {
  for (int i = 0; i < 3; ++i) Call(false);
  now_ += 1s;
  ASSERT_TRUE(breaker_.TryAdmit(now_));
  now_ += 1s;
  const auto next = breaker_.TryAdmit(now_);
  ASSERT_TRUE(next);
  breaker_.Report(*next, true, now_);
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

// BK1.
TEST_F(CircuitBreakerTest, AProbeThatIsSlowerThanThePauseCounts) {
  for (const bool succeeds : {false, true}) {
    CircuitBreaker breaker({.failures = 1, .open_for = 1s, .open_for_most = 3s});
    breaker.Report(*breaker.TryAdmit(now_), false, now_);
    const auto slow = breaker.TryAdmit(now_ + 1s);
    ASSERT_TRUE(slow);
    ASSERT_TRUE(breaker.TryAdmit(now_ + 2s)) << "another probe";
    breaker.Report(*slow, succeeds, now_ + 2500ms);
    EXPECT_EQ(breaker.state(), succeeds ? State::kClosed : State::kOpen);
  }
}

// BK2.
TEST_F(CircuitBreakerTest, WhatBeganBeforeItOpenedCountsNoMore) {
  std::vector<CircuitBreaker::Admission> slow;
  for (int i = 0; i < 10; ++i) slow.push_back(*breaker_.TryAdmit(now_));
  for (int i = 0; i < 3; ++i) Call(false);
  breaker_.Report(slow[0], true, now_);
  EXPECT_EQ(breaker_.state(), State::kOpen);
  now_ += 1s;
  const auto probe = breaker_.TryAdmit(now_);
  ASSERT_TRUE(probe);
  breaker_.Report(slow[1], false, now_);
  breaker_.Report(slow[2], true, now_);
  EXPECT_EQ(breaker_.state(), State::kHalfOpen);
  breaker_.Report(*probe, true, now_);
  for (int i = 3; i < 10; ++i) breaker_.Report(slow[i], false, now_);
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, CallsWithoutAnAnswerAreFailuresOnceTheServerIsSilent) {
  const auto silent_for = [&](std::chrono::milliseconds asked_for, std::chrono::milliseconds since) {
    for (int i = 0; i < 10; ++i) {
      const auto admitted = breaker_.TryAdmit(now_);
      if (!admitted) return true;
      breaker_.ReportUnanswered(*admitted, now_ + since - asked_for, now_ + since);
    }
    return false;
  };
  EXPECT_FALSE(silent_for(20ms, 20ms));
  EXPECT_FALSE(silent_for(20ms, 999ms)) << "the first of them was asked at 0";
  Call(true);
  EXPECT_FALSE(silent_for(20ms, 1010ms)) << "an answer has come, and the next call was asked at 990";
  EXPECT_TRUE(silent_for(20ms, 1990ms)) << "a loser of many, each cancelled early: the server hangs";
  EXPECT_EQ(breaker_.state(), State::kOpen);
}

TEST_F(CircuitBreakerTest, ACallWithoutAnAnswerIsNoFailureIfOthersWereAnsweredMeanwhile) {
  const CircuitBreaker::TimePoint asked_at = now_;
  std::vector<CircuitBreaker::Admission> slow;
  for (int i = 0; i < 6; ++i) slow.push_back(*breaker_.TryAdmit(now_));
  now_ += 5s;
  Call(true);
  for (int i = 0; i < 3; ++i) breaker_.ReportUnanswered(slow[static_cast<std::size_t>(i)], asked_at, now_ + 999ms);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  for (int i = 3; i < 6; ++i) breaker_.ReportUnanswered(slow[static_cast<std::size_t>(i)], asked_at, now_ + 1s);
  EXPECT_EQ(breaker_.state(), State::kOpen);
}

// What the server did before it opened says nothing of a probe.
TEST_F(CircuitBreakerTest, AProbeThatIsGivenUpEarlyDecidesNothing) {
  breaker_.ReportUnanswered(*breaker_.TryAdmit(now_), now_, now_ + 20ms);
  for (int i = 0; i < 3; ++i) Call(false);
  now_ += 1s;
  const auto probe = breaker_.TryAdmit(now_);
  ASSERT_TRUE(probe);
  breaker_.ReportUnanswered(*probe, now_, now_ + 20ms);
  EXPECT_EQ(breaker_.state(), State::kHalfOpen);
  breaker_.ReportUnanswered(*probe, now_, now_ + 1s);
  EXPECT_EQ(breaker_.state(), State::kOpen);
}

TEST_F(CircuitBreakerTest, ATimeInWhichNobodyAsksIsNoSilence) {
  for (int minute = 0; minute < 6; ++minute, now_ += 60s) {
    const auto admitted = breaker_.TryAdmit(now_);
    ASSERT_TRUE(admitted);
    breaker_.ReportUnanswered(*admitted, now_, now_ + 20ms);
  }
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST(CircuitBreakerOfThreads, LetsOneOfManyProbe) {
  CircuitBreaker breaker({.failures = 1, .open_for = 1h, .open_for_most = 1h});
  const auto now = std::chrono::steady_clock::now();
  breaker.Report(*breaker.TryAdmit(), false, now);
  EXPECT_FALSE(breaker.TryAdmit());
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { admitted += breaker.TryAdmit(now + 1h) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, 1);
}

}  // namespace
}  // namespace weft::io
