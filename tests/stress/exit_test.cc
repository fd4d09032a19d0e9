// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// exit() without TerminateRuntime(), while threads and fibers work: each time in a process of its own, which must end
// with the requested exit code and without a sanitizer's report.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/stress/any_time_calls.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

constexpr int kExits = WEFT_TSAN || WEFT_ASAN ? 4 : 20;  // of each kind
constexpr int kExitCode = 42;

// Its destructor runs among those of the program's other statics.
struct AskedAtExit {
  ~AskedAtExit() {
    for (const AnyTimeCall& call : AnyTimeCalls()) call.call();
  }
};

std::atomic<std::uint64_t> turns{0};  // of fibers that yield

// Threads that make all calls, and fibers that yield, sleep, wait, and block; returns when all are under way.
void Busy() {
  static AskedAtExit asked_at_exit;
  StartRuntime(OptionsOf({2, 1}));
  for (int i = 0; i < 4; ++i) {
    Fiber([] {
      for (;;) {
        turns.fetch_add(1, std::memory_order_relaxed);
        FiberYield();
      }
    }).Detach();
    Fiber([] {
      for (;;) FiberSleepFor(100us);
    }).Detach();
    Fiber([] {
      for (;;) FiberBlocking([] {});
    }).Detach();
    Fiber([] {
      const auto owned = std::make_unique<FiberEvent>();
      owned->Wait();
    }).Detach();
    Fiber([] {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
      static_cast<void>(io::WaitFd(ends[0], POLLIN));
    }).Detach();
  }
  const auto* const callers = new AnyTimeCallers(3);
  while (callers->rounds() < 3 || turns.load(std::memory_order_relaxed) < 100) std::this_thread::yield();
}

class ExitTest : public ::testing::Test {
 protected:
  ExitTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ExitTest, TheMainThreadExits) {
  for (int i = 0; i < kExits; ++i) {
    EXPECT_EXIT(
        {
          Busy();
          std::exit(kExitCode);
        },
        ::testing::ExitedWithCode(kExitCode), "");
  }
}

TEST_F(ExitTest, AnotherThreadExits) {
  for (int i = 0; i < kExits; ++i) {
    EXPECT_EXIT(
        {
          Busy();
          std::thread([] { std::exit(kExitCode); }).join();
        },
        ::testing::ExitedWithCode(kExitCode), "");
  }
}

TEST_F(ExitTest, AFiberExits) {
  for (int i = 0; i < kExits; ++i) {
    EXPECT_EXIT(
        {
          Busy();
          Fiber([] { std::exit(kExitCode); }).Join();
        },
        ::testing::ExitedWithCode(kExitCode), "");
  }
}

TEST_F(ExitTest, TheMainThreadExitsAfterTheRuntimeHasEnded) {
  for (int i = 0; i < kExits; ++i) {
    EXPECT_EXIT(
        {
          { const RuntimeOf runtime(Shape{2, 1}); }
          static AskedAtExit asked_at_exit;
          const auto* const callers = new AnyTimeCallers(3);
          while (callers->rounds() < 3) std::this_thread::yield();
          std::exit(kExitCode);
        },
        ::testing::ExitedWithCode(kExitCode), "");
  }
}

}  // namespace
}  // namespace weft::fiber
