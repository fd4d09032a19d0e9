// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Frames that exceed a fiber's stack end the process, with the fiber's name, whatever their size; none writes to
// another fiber's stack.

#include <glog/logging.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/fiber/unprobed_frame.h"

namespace weft::fiber {
namespace {

// Sanitizers have a handler of their own, which is the former action: it reports and exits.
bool DiedBySegmentationFault(int status) {
  if (WEFT_ASAN || WEFT_TSAN) return WIFEXITED(status) && WEXITSTATUS(status) != 0;
  return (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

class StackOverflowDeathTest : public ::testing::Test {
 protected:
  StackOverflowDeathTest() {
    // The dying process starts the runtime: a forked one would have no workers.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  // In a fiber, while other fibers are parked on the neighbouring stacks.
  template <class F>
  static void AmongOthers(const Fiber::Attributes& attributes, F f) {
    FiberEvent never;
    for (int i = 0; i < 40; ++i) {
      static_cast<void>(StartFiberDetached([&] { never.Wait(); }));
      if (i == 20) Fiber([] {}).Join();
    }
    Fiber(attributes, f).Join();
  }
};

template <std::size_t kBytes>
WEFT_NOINLINE char WriteAt(std::size_t index) {
  volatile char frame[kBytes];
  asm volatile("" : : "r"(&frame[0]) : "memory");  // Else clang keeps no more of it than one byte.
  frame[index] = 1;
  return frame[index];
}

// These frames jumped over the guard, and over the whole stack below it.
TEST_F(StackOverflowDeathTest, AFrameLargerThanAnyGuardIsNamed) {
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        AmongOthers({.name = "culprit"}, [] { static_cast<void>(WriteAt<300'000>(0)); });
        _exit(0);
      },
      DiedBySegmentationFault, "weft: stack overflow in fiber culprit");
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        AmongOthers({.name = "culprit"}, [] { static_cast<void>(WriteAt<160 * 1024>(0)); });
        _exit(0);
      },
      DiedBySegmentationFault, "weft: stack overflow in fiber culprit");
}

// On aarch64 g++ touches each page only if told so.
TEST_F(StackOverflowDeathTest, AFrameLargerThanASmallGuardIsNamed) {
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        // The frame ends some 30 KiB below this stack.
        AmongOthers({.name = "culprit", .stack_size = 16 * 1024, .stack_guard_size = 4096},
                    [] { static_cast<void>(WriteAt<40 * 1024>(0)); });
        _exit(0);
      },
      DiedBySegmentationFault, "weft: stack overflow in fiber culprit");
}

// The guard's size matters in code compiled without -fstack-clash-protection, as other libraries may be.
TEST_F(StackOverflowDeathTest, AFrameThatDoesNotProbeButIsNotLargerThanTheGuardIsNamed) {
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        AmongOthers({.name = "culprit"}, [] { static_cast<void>(FillUnprobedFrame(1)); });
        _exit(0);
      },
      DiedBySegmentationFault, "weft: stack overflow in fiber culprit");
}

TEST_F(StackOverflowDeathTest, AFiberMayHaveAGuardOfItsOwn) {
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        // The same frame ends 154 KiB below this stack.
        AmongOthers({.name = "culprit", .stack_size = 16 * 1024, .stack_guard_size = 1 << 20},
                    [] { static_cast<void>(FillUnprobedFrame(1)); });
        _exit(0);
      },
      DiedBySegmentationFault, "weft: stack overflow in fiber culprit");
}

// glog's handler neither calls the one that it replaces nor runs on the alternate stack.
TEST_F(StackOverflowDeathTest, IsNamedThoughGlogsHandlerWasInstalledAfterTheStart) {
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        // The Watchdog has checked, and leaves the next tenth of a second to the workers.
        while (scheduling_group::Watchdog::Get().checks() < 2) std::this_thread::yield();
        google::InstallFailureSignalHandler();
        AmongOthers({.name = "culprit"}, [] { static_cast<void>(WriteAt<300'000>(0)); });
        _exit(0);
      },
      [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; },
      "weft: stack overflow in fiber culprit[^~]*SIGSEGV");
}

// Without the Watchdog, which checks, too, as soon as a worker is up. Several times in a row: a worker checks at its
// 1st, 2nd, 4th, ... fiber anyway, and housekeeping now and then.
TEST_F(StackOverflowDeathTest, IsNamedThoughGlogsHandlerWasInstalledWhileAllWorkersSlept) {
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        auto& watchdog = scheduling_group::Watchdog::Get();
        Fiber([] {}).Join();
        for (int i = 0; i < 3; ++i) {
          while (!watchdog.off()) std::this_thread::sleep_for(scheduling_group::Watchdog::kCheckEvery);
          watchdog.RemoveTeam();
          google::InstallFailureSignalHandler();
          struct sigaction glogs = {};
          sigaction(SIGSEGV, nullptr, &glogs);
          // Until the last check is long enough ago; its clock may be 10 ms late.
          std::this_thread::sleep_for(context::kLookAtHandlersEvery + std::chrono::milliseconds(20));
          if (i == 2) Fiber({.name = "culprit"}, [] { static_cast<void>(WriteAt<300'000>(0)); }).Join();
          Fiber([&] {
            struct sigaction now = {};
            sigaction(SIGSEGV, nullptr, &now);
            if (now.sa_sigaction == glogs.sa_sigaction) _exit(0);
          }).Join();
          if (!watchdog.AddTeam()) _exit(0);
        }
        _exit(0);
      },
      [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; },
      "weft: stack overflow in fiber culprit[^~]*SIGSEGV");
}

// Several times: housekeeping checks once.
TEST_F(StackOverflowDeathTest, IsNamedThoughHandlersWereInstalledByAFiberThatNeverPauses) {
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        Fiber({.name = "culprit"}, [] {
          for (int i = 0; i < 4; ++i) {
            google::InstallFailureSignalHandler();
            struct sigaction glogs = {};
            sigaction(SIGSEGV, nullptr, &glogs);
            const Deadline limit = std::chrono::seconds(20);
            for (struct sigaction now = glogs; now.sa_sigaction == glogs.sa_sigaction;) {
              if (limit.expired()) _exit(0);
              sigaction(SIGSEGV, nullptr, &now);
            }
          }
          static_cast<void>(WriteAt<300'000>(0));
        }).Join();
        _exit(0);
      },
      [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; },
      "weft: stack overflow in fiber culprit[^~]*SIGSEGV");
}

TEST_F(StackOverflowDeathTest, AWildPointerInAFiberNamesTheFiberToo) {
  static int* volatile nowhere = reinterpret_cast<int*>(0x1000);  // UBSan knows of nullptr.
  EXPECT_EXIT(
      {
        StartRuntime(OptionsOf({1, 1}));
        Fiber({.name = "culprit"}, [] { *nowhere = 1; }).Join();
        _exit(0);
      },
      DiedBySegmentationFault, "weft: segmentation fault in fiber culprit");
}

}  // namespace
}  // namespace weft::fiber
