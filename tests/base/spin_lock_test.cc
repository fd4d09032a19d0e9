// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/spin_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::base {
namespace {

constexpr int kSlower = WEFT_TSAN || WEFT_ASAN ? 10 : 1;

static_assert(sizeof(SpinLock) == 4);

// True: it was free.
bool TryLockAndUnlock(SpinLock& lock) {
  if (!lock.try_lock()) return false;
  lock.unlock();
  return true;
}

TEST(SpinLock, TryLockTakesItOnlyIfItIsFree) {
  SpinLock lock;
  EXPECT_TRUE(TryLockAndUnlock(lock));
  lock.lock();
  EXPECT_FALSE(TryLockAndUnlock(lock));
  lock.unlock();
  EXPECT_TRUE(TryLockAndUnlock(lock));
}

TEST(SpinLock, WorksWithTheStandardGuards) {
  SpinLock a;
  SpinLock b;
  { std::scoped_lock both(a, b); }
  { SpinLockGuard guard(a); }
  EXPECT_TRUE(TryLockAndUnlock(a));
  EXPECT_TRUE(TryLockAndUnlock(b));
}

class SpinLockContended : public ::testing::TestWithParam<int> {};

// More threads than CPUs: descheduled holders make the others sleep.
TEST_P(SpinLockContended, ExcludesAndPublishes) {
  const int threads_count = GetParam();
  const int rounds = 400'000 / threads_count / kSlower;
  SpinLock lock;
  long counter = 0;  // Plain: ThreadSanitizer watches it.
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_count; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        SpinLockGuard guard(lock);
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, static_cast<long>(threads_count) * rounds);
}
INSTANTIATE_TEST_SUITE_P(Threads, SpinLockContended, ::testing::Values(1, 2, 4, 64));

// The CPU time of this thread.
std::chrono::nanoseconds ThreadCpuTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST(SpinLock, SleepsInsteadOfBurningTheCpuWhileTheHolderDoesNotRun) {
  SpinLock lock;
  lock.lock();
  std::atomic<bool> waiting{false};
  std::chrono::nanoseconds burnt{};
  std::thread waiter([&] {
    const auto before = ThreadCpuTime();
    waiting = true;
    { SpinLockGuard guard(lock); }
    burnt = ThreadCpuTime() - before;
  });
  while (!waiting) std::this_thread::yield();
  const auto held = std::chrono::milliseconds(200);
  std::this_thread::sleep_for(held);  // The test is about passing time.
  lock.unlock();
  waiter.join();
  EXPECT_LT(burnt, held / 2);
}

TEST(SpinLock, AllSleepersGetItInTheEnd) {
  constexpr int kThreads = 16;
  SpinLock lock;
  int had_it = 0;
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> waiting{0};
    lock.lock();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        ++waiting;
        SpinLockGuard guard(lock);
        ++had_it;
      });
    }
    while (waiting < kThreads) std::this_thread::yield();
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(had_it, 20 * kThreads);
}

// The last holder destroys it: unlock() may not touch it after it is free (SL2).
TEST(SpinLock, MayBeDestroyedByTheLastHolder) {
  struct Shared {
    SpinLock lock;
    int holders_left = 2;
  };
  for (int round = 0; round < 2000 / kSlower; ++round) {
    auto* shared = new Shared;
    const auto leave = [shared] {
      bool last = false;
      {
        SpinLockGuard guard(shared->lock);
        last = --shared->holders_left == 0;
      }
      if (last) delete shared;
    };
    std::thread other(leave);
    leave();
    other.join();
  }
}

}  // namespace
}  // namespace weft::base
