// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fibers by the million.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/runtime.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

constexpr int kMillion = WEFT_ASAN || WEFT_TSAN ? 50'000 : 1'000'000;

class Spawn : public ::testing::TestWithParam<Shape> {
 protected:
  static RuntimeOptions Patient() {
    RuntimeOptions options = OptionsOf(GetParam());
    options.start_timeout = 60s;
    options.terminate_timeout = 60s;
    return options;
  }
  const RuntimeOf runtime_{Patient()};
};
INSTANTIATE_TEST_SUITE_P(Shapes, Spawn, ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

TEST_P(Spawn, AMillionFromAFiber) {
  std::atomic<int> runs{0};
  FiberLatch latch(kMillion);
  Fiber([&] {
    for (int i = 0; i < kMillion; ++i) {
      ASSERT_TRUE(StartFiberDetached([&] {
        runs.fetch_add(1, std::memory_order_relaxed);
        latch.CountDown();
      }));
    }
  }).Join();
  latch.Wait();
  EXPECT_EQ(runs, kMillion);
}

TEST_P(Spawn, AMillionFromPlainThreads) {
  constexpr int kThreads = 4;
  std::atomic<int> runs{0};
  FiberLatch latch(kMillion);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kMillion / kThreads; ++i) {
        ASSERT_TRUE(StartFiberDetached([&] {
          runs.fetch_add(1, std::memory_order_relaxed);
          latch.CountDown();
        }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  latch.Wait();
  EXPECT_EQ(runs, kMillion);
}

TEST_P(Spawn, AMillionInBatches) {
  constexpr int kBatch = 1000;
  std::atomic<int> runs{0};
  Fiber([&] {
    for (int done = 0; done < kMillion; done += kBatch) {
      FiberLatch latch(kBatch);
      const auto body = [&] {
        runs.fetch_add(1, std::memory_order_relaxed);
        latch.CountDown();
      };
      ASSERT_TRUE(BatchStartFiberDetached(std::vector(kBatch, body)));
      latch.Wait();
    }
  }).Join();
  EXPECT_EQ(runs, kMillion);
}

// The sum over a tree of fibers, each joining its ten children.
std::int64_t Skynet(std::int64_t number, std::int64_t leaves) {
  if (leaves == 1) return number;
  std::int64_t sums[10] = {};
  std::vector<Fiber> children;
  children.reserve(10);
  for (std::int64_t i = 0; i < 10; ++i) {
    children.emplace_back(
        [&sum = sums[i], number, leaves, i] { sum = Skynet(number + i * (leaves / 10), leaves / 10); });
  }
  std::int64_t sum = 0;
  for (int i = 0; i < 10; ++i) {
    children[i].Join();
    sum += sums[i];
  }
  return sum;
}

TEST_P(Spawn, SkynetAddsUp) {
  const std::int64_t leaves = WEFT_ASAN || WEFT_TSAN ? 1000 : 100'000;
  std::int64_t sum = 0;
  Fiber([&] { sum = Skynet(0, leaves); }).Join();
  EXPECT_EQ(sum, leaves * (leaves - 1) / 2);
}

TEST_P(Spawn, JoinableFibersByTheHundredThousandAreAllJoined) {
  constexpr int kFibers = kMillion / 10;
  std::atomic<int> runs{0};
  std::vector<Fiber> fibers;
  fibers.reserve(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    fibers.emplace_back([&] { runs.fetch_add(1, std::memory_order_relaxed); });
  }
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(runs, kFibers);
}

TEST_P(Spawn, ShortFibersWithFiberLocalsLeaveNothingBehind) {
  static std::atomic<int> alive;
  struct Counted {
    Counted() { alive.fetch_add(1, std::memory_order_relaxed); }
    ~Counted() { alive.fetch_sub(1, std::memory_order_relaxed); }
  };
  static FiberLocal<Counted> local;
  constexpr int kFibers = kMillion / 10;
  FiberLatch latch(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      local.Get();
      latch.CountDown();
    }));
  }
  latch.Wait();
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace weft::fiber
