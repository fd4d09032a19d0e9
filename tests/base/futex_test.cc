// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/futex.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace weft::base {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(Futex, ReturnsAtOnceIfTheWordHasAnotherValue) {
  Atomic<std::uint32_t> word{1};
  EXPECT_TRUE(FutexWait(&word, 2));
  const auto deadline = steady_clock::now() + hours(1);
  EXPECT_TRUE(FutexWait(&word, 2, &deadline));
}

TEST(Futex, TimesOutAtItsDeadlineAndNotBefore) {
  Atomic<std::uint32_t> word{1};
  const auto deadline = steady_clock::now() + milliseconds(20);
  while (FutexWait(&word, 1, &deadline)) continue;
  EXPECT_GE(steady_clock::now(), deadline);
}

TEST(Futex, TimesOutAtOnceIfTheDeadlineHasPassed) {
  Atomic<std::uint32_t> word{1};
  const auto past = steady_clock::now() - milliseconds(1);
  EXPECT_FALSE(FutexWait(&word, 1, &past));
  const steady_clock::time_point before_boot{milliseconds(-5)};
  EXPECT_FALSE(FutexWait(&word, 1, &before_boot));
  const auto long_ago = steady_clock::time_point::min();
  EXPECT_FALSE(FutexWait(&word, 1, &long_ago));
}

TEST(Futex, TakesTheLatestDeadlineThereIs) {
  Atomic<std::uint32_t> word{1};
  const auto never = steady_clock::time_point::max();
  std::thread waker([&] {
    word.store(2);
    // Until the waiter has been woken (counted), or has not slept at all.
    FutexWake(&word, 1);
  });
  while (word.load() == 1) static_cast<void>(FutexWait(&word, 1, &never));
  waker.join();
}

TEST(Futex, WakeSaysHowManyItWoke) {
  Atomic<std::uint32_t> word{1};
  EXPECT_EQ(FutexWake(&word, 1), 0);
  std::thread waiter([&] {
    while (word.load() == 1) static_cast<void>(FutexWait(&word, 1));
  });
  while (FutexWake(&word, 1) == 0) std::this_thread::yield();  // It sleeps at some time.
  word.store(2);
  FutexWake(&word, 1);
  waiter.join();
}

TEST(Futex, LeavesErrnoAlone) {
  Atomic<std::uint32_t> word{1};
  errno = 4711;
  const auto past = steady_clock::now();
  EXPECT_FALSE(FutexWait(&word, 1, &past));
  EXPECT_TRUE(FutexWait(&word, 2));
  FutexWake(&word, 1);
  EXPECT_EQ(errno, 4711);
}

}  // namespace
}  // namespace weft::base
