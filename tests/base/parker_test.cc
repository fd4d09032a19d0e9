// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/parker.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"

namespace weft::base {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Sanitizers slow down a system call and an atomic by about this factor.
constexpr int kSlower = WEFT_TSAN || WEFT_ASAN ? 10 : 1;

TEST(Parker, AnUnparkBeforeTheParkIsKept) {
  Parker parker;
  parker.Unpark();
  parker.Park();
  parker.Unpark();
  EXPECT_TRUE(parker.ParkUntil(steady_clock::now() + hours(1)));
}

TEST(Parker, SeveralUnparksBeforeTheParkAreOne) {
  Parker parker;
  parker.Unpark();
  parker.Unpark();
  parker.Park();
  EXPECT_FALSE(parker.ParkUntil(steady_clock::now()));
}

TEST(Parker, ParkUntilTimesOutAtItsDeadlineAndNotBefore) {
  Parker parker;
  const auto deadline = steady_clock::now() + milliseconds(20);
  EXPECT_FALSE(parker.ParkUntil(deadline));
  EXPECT_GE(steady_clock::now(), deadline);
}

TEST(Parker, ParkUntilADeadlineInThePastStillTakesAKeptUnpark) {
  Parker parker;
  const auto past = steady_clock::now() - hours(1);
  EXPECT_FALSE(parker.ParkUntil(past));
  parker.Unpark();
  EXPECT_TRUE(parker.ParkUntil(past));
  EXPECT_FALSE(parker.ParkUntil(past));
}

TEST(Parker, IsUsableAfterATimeOut) {
  Parker parker;
  EXPECT_FALSE(parker.ParkUntil(steady_clock::now()));
  std::thread waker([&] { parker.Unpark(); });
  parker.Park();
  waker.join();
}

TEST(Parker, WakesASleeperThatHasTheLatestDeadlineThereIs) {
  Parker parker;
  std::thread waker([&] { parker.Unpark(); });
  EXPECT_TRUE(parker.ParkUntil(steady_clock::time_point::max()));
  waker.join();
}

TEST(Parker, WhatWasDoneBeforeUnparkIsVisibleAfterPark) {
  for (int round = 0; round < 2000 / kSlower; ++round) {
    Parker parker;
    int value = 0;  // Plain: ThreadSanitizer watches it.
    std::thread waker([&] {
      value = round;
      parker.Unpark();
    });
    parker.Park();
    ASSERT_EQ(value, round);
    waker.join();
  }
}

TEST(Parker, LosesNoWakeUpInPingPong) {
  const int rounds = 50'000 / kSlower;
  Parker ping;
  Parker pong;
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      ping.Park();
      pong.Unpark();
    }
  });
  for (int i = 0; i < rounds; ++i) {
    ping.Unpark();
    pong.Park();
  }
  other.join();
}

// One consumer parks when it finds no work; producers publish and unpark.  A lost wake-up leaves it asleep with work
// undone.
TEST(Parker, LosesNoWakeUpOfManyProducers) {
  constexpr int kProducers = 3;
  const int items = 30'000 / kSlower;
  Parker parker;
  std::atomic<int> available{0};
  std::vector<std::thread> producers;
  for (int i = 0; i < kProducers; ++i) {
    producers.emplace_back([&] {
      for (int n = 0; n < items; ++n) {
        available.fetch_add(1);
        parker.Unpark();
      }
    });
  }
  int taken = 0;
  while (taken < kProducers * items) {
    const int now = available.exchange(0);
    taken += now;
    if (now == 0) parker.Park();
  }
  EXPECT_EQ(taken, kProducers * items);
  for (std::thread& producer : producers) producer.join();
}

// Each round the one Unpark() comes about when the time-out does.  If the time-out swallowed it, it would be missed for
// ever.
TEST(Parker, LosesNoUnparkThatComesTogetherWithATimeOut) {
  constexpr int kRounds = 1000;
  const auto give_up = steady_clock::now() + std::chrono::seconds(60);
  Parker parker;
  std::atomic<steady_clock::time_point> time_out{steady_clock::time_point{}};
  std::atomic<int> round{0};
  std::thread waker([&] {
    for (int i = 0; i < kRounds; ++i) {
      while (round.load() <= i && steady_clock::now() < give_up) std::this_thread::yield();
      // The kernel is late by its timer slack (50 us) and by the wait for a CPU.
      const auto when = time_out.load() + microseconds(i % 120);
      while (steady_clock::now() < when) CpuRelax();
      parker.Unpark();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    auto until = steady_clock::now() + microseconds(20);
    time_out.store(until);
    round.store(i + 1);
    while (!parker.ParkUntil(until) && steady_clock::now() < give_up) until = steady_clock::now() + milliseconds(100);
  }
  waker.join();
  EXPECT_LT(steady_clock::now(), give_up) << "an Unpark() was lost";
}

TEST(Parker, TheOwnerMayDestroyItAsSoonAsParkReturns) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500 / kSlower; ++i) {
        auto parker = std::make_unique<Parker>();
        std::thread waker([p = parker.get()] { p->Unpark(); });
        parker->Park();
        parker.reset();  // AddressSanitizer watches Unpark().
        waker.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Parker, SleepsOnOverSignals) {
  // A handler without SA_RESTART: the futex call returns EINTR.
  struct sigaction action {};
  struct sigaction former {};
  static std::atomic<int> handled{0};
  action.sa_handler = [](int) { ++handled; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &former), 0);

  Parker parker;
  std::atomic<bool> returned{false};
  std::atomic<bool> started{false};
  std::thread sleeper([&] {
    started = true;
    parker.Park();
    returned = true;
  });
  while (!started) std::this_thread::yield();
  for (int i = 0; i < 200; ++i) {
    handled = 0;
    ASSERT_EQ(pthread_kill(sleeper.native_handle(), SIGUSR1), 0);
    while (handled == 0 && !returned) std::this_thread::yield();  // It has a CPU, so it returns to its sleep.
    ASSERT_FALSE(returned);
  }
  parker.Unpark();
  sleeper.join();

  std::atomic<bool> in_time{true};
  started = false;
  const auto deadline = steady_clock::now() + milliseconds(50);
  std::thread timed([&] {
    started = true;
    in_time = parker.ParkUntil(deadline);
    returned = steady_clock::now() >= deadline;
  });
  while (!started) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    pthread_kill(timed.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  timed.join();
  EXPECT_FALSE(in_time);
  EXPECT_TRUE(returned);
  sigaction(SIGUSR1, &former, nullptr);
}

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
