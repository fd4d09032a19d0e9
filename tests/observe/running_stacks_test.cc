// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/running_stacks.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"

#include "testing/patience.h"

namespace weft::observe {
namespace {

WEFT_NOINLINE void SpinUntil(const std::atomic<bool>* stop) {
  while (!stop->load(std::memory_order_relaxed)) asm volatile("nop");  // Equal to no other function.
}

WEFT_NOINLINE void ReadByte(int fd, ssize_t* result, int* error) {
  char byte;
  *result = ::read(fd, &byte, 1);
  *error = errno;
}

void SetAction(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ::sigaction(SIGURG, &action, nullptr);
}

class RunningStacksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!StackUnwinder().why_not().empty()) GTEST_SKIP() << "no libdw";
    if (!RunningStacks().why_not().empty()) GTEST_SKIP() << RunningStacks().why_not();
  }
  // Dumps until the fiber of that name is shown so; a thread without CPU does not answer.
  static std::string DumpWithStackUntil(const std::string& name, std::string_view text) {
    for (;;) {
      std::string dump = DumpText({.filter = "name=" + name});
      if (Has(dump, text)) return dump;
    }
  }

  fiber::RuntimeOf runtime_{fiber::Shape{1, 1}};
  std::atomic<bool> stop_{false};
};

TEST_F(RunningStacksTest, AFiberThatComputesIsShownWithItsStack) {
  Fiber runner({.name = "runner"}, [&] { SpinUntil(&stop_); });
  const std::string dump = DumpWithStackUntil("runner", "SpinUntil(std::atomic<bool> const*)");
  EXPECT_TRUE(Has(dump, "fiber 'runner' (id " + std::to_string(runner.Id()) + "), running, in group 0\n")) << dump;
  const std::size_t spin = dump.find("SpinUntil");
  EXPECT_LT(spin, dump.find("weft::scheduling_group::Worker::FiberMain")) << dump;
  EXPECT_TRUE(Has(dump, "Worker::FiberMain")) << dump;
  stop_ = true;
  runner.Join();
}

TEST_F(RunningStacksTest, AFiberInASystemCallIsShownAndTheCallGoesOn) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ssize_t result = 0;
  int error = 0;
  Fiber reader({.name = "reader"}, [&] { ReadByte(ends[0], &result, &error); });
  static_cast<void>(DumpWithStackUntil("reader", "ReadByte("));
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  reader.Join();
  EXPECT_EQ(result, 1) << "errno " << error;
  for (const int fd : ends) ::close(fd);
}

TEST_F(RunningStacksTest, AThreadThatBlocksTheSignalDoesNotHoldUpTheDump) {
  sigset_t urgent;
  ::sigemptyset(&urgent);
  ::sigaddset(&urgent, SIGURG);
  std::atomic<bool> is_blocked{false};
  Fiber runner({.name = "runner"}, [&] {
    ::pthread_sigmask(SIG_BLOCK, &urgent, nullptr);
    is_blocked = true;
    SpinUntil(&stop_);
    ::pthread_sigmask(SIG_UNBLOCK, &urgent, nullptr);  // The signal comes now, and finds that nobody asks.
  });
  while (!is_blocked) std::this_thread::yield();
  const std::string dump = DumpText({.filter = "name=runner"});
  EXPECT_TRUE(Has(dump, "running, in group 0\n  its stack is not shown: its thread did not answer in time")) << dump;
  stop_ = true;
  runner.Join();
  stop_ = false;
  Fiber next({.name = "next"}, [&] { SpinUntil(&stop_); });
  static_cast<void>(DumpWithStackUntil("next", "SpinUntil("));
  stop_ = true;
  next.Join();
}

TEST_F(RunningStacksTest, AProgramThatHandlesTheSignalKeepsIt) {
  static std::atomic<int> signals{0};
  SetAction([](int) { ++signals; });
  Fiber runner({.name = "runner"}, [&] { SpinUntil(&stop_); });
  static_cast<void>(DumpUntil("name=runner,state=running", "1 of them match"));
  const std::string dump = DumpText({.filter = "name=runner"});
  EXPECT_TRUE(Has(dump, "\nno stacks of running fibers are shown: this program uses SIGURG itself\n")) << dump;
  EXPECT_TRUE(Has(dump, "running, in group 0\n  a worker uses its stack, which is not shown\n")) << dump;
  EXPECT_EQ(signals, 0);
  SetAction(SIG_DFL);
  stop_ = true;
  runner.Join();
}

TEST_F(RunningStacksTest, AProgramThatIgnoresTheSignalHasStacks) {
  ::signal(SIGURG, SIG_IGN);
  Fiber runner({.name = "runner"}, [&] { SpinUntil(&stop_); });
  static_cast<void>(DumpWithStackUntil("runner", "SpinUntil("));
  stop_ = true;
  runner.Join();
}

#if !WEFT_ASAN && !WEFT_TSAN  // They need their address space.

// In a child, whose address space may not grow while a copy of 256 KiB is made.
TEST(RunningStacksDeathTest, WithoutMemoryForACopyTheNextOneIsMade) {
  const auto run = [] {
    ::alarm(static_cast<unsigned>(testing::kSoon.count()));
    fiber::RuntimeOf runtime(fiber::Shape{1, 1});
    std::atomic<bool> stop{false};
    std::atomic<const scheduling_group::FiberEntity*> entity{nullptr};
    Fiber runner({.name = "runner", .stack_size = 512 * 1024}, [&] {
      FiberSleepFor(std::chrono::milliseconds(1));  // The timers' thread has begun then: it takes memory.
      volatile char* const large = static_cast<char*>(__builtin_alloca(256 * 1024));
      large[0] = 1;
      entity = scheduling_group::CurrentFiber();
      SpinUntil(&stop);
    });
    while (entity == nullptr) std::this_thread::yield();
    const auto copy = [&] { return RunningStacks().Copy(entity, runner.Id()) != nullptr; };
    std::vector<std::unique_ptr<char[]>> taken(1000);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit former{};
    ::getrlimit(RLIMIT_AS, &former);
    rlimit limit = former;
    limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    ::setrlimit(RLIMIT_AS, &limit);
    const auto take = [&] {  // what the heap still has, or what others have given back
      try {
        for (auto& piece : taken) {
          if (piece == nullptr) piece.reset(new char[256 * 1024]);
        }
      } catch (const std::bad_alloc&) {
      }
    };
    bool thrown = false;
    while (!thrown) {  // A thread without CPU does not answer.
      take();
      try {
        static_cast<void>(copy());
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
    }
    ::setrlimit(RLIMIT_AS, &former);
    while (!copy()) continue;
    ::_exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

#endif

TEST_F(RunningStacksTest, NoThreadIsInterruptedIfThatIsNotWanted) {
  Fiber runner({.name = "runner"}, [&] { SpinUntil(&stop_); });
  static_cast<void>(DumpUntil("name=runner,state=running", "1 of them match"));
  const std::string dump = DumpText({.filter = "name=runner", .running_stacks = false});
  EXPECT_TRUE(Has(dump, "running, in group 0\n  a worker uses its stack, which is not shown\n")) << dump;
  EXPECT_FALSE(Has(dump, "no stacks of running")) << dump;
  stop_ = true;
  runner.Join();
}

// Fibers that run, wait and end: the copy is of the fiber that was wanted, or of none.
TEST_F(RunningStacksTest, AFiberThatEndsMeanwhileIsNotTakenForAnother) {
  std::atomic<bool> done{false};
  Fiber starter({.name = "starter"}, [&] {
    while (!done) Fiber({.name = "short"}, [] { FiberYield(); }).Join();
  });
  for (int i = 0; i < testing::Scaled(50); ++i) {
    const std::string dump = DumpText({.filter = "name=starter"});
    if (Has(dump, "FiberMain")) {
      EXPECT_FALSE(Has(dump, "FiberYield")) << dump;
    }
  }
  done = true;
  starter.Join();
}

}  // namespace
}  // namespace weft::observe
