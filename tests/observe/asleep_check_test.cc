// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Who may wake a fiber although all threads seem to sleep. (tests/observe/deadlock_test.cc has the usual cases.)

#include "weft/observe/waits/asleep_check.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "weft/fiber/fiber.h"
#include "weft/fiber/slice_limits.h"
#include "weft/fiber/test_clock.h"
#include "weft/observe/deadlock.h"
#include "weft/observe/dump/own_signals.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"
#include "weft/tests/observe/threads_are_seen.h"
#include "weft/timer/fiber_timer.h"

namespace weft::observe {
namespace {

using namespace std::chrono_literals;

class AwakeTest : public ::testing::TestWithParam<fiber::Shape> {
 protected:
  void SetUp() override {
    if (!SleepIsSeen()) GTEST_SKIP() << "of no thread is it known that it sleeps";
  }

  // The check finds that reason at last, and is never sure that all are asleep.
  static void ExpectAwake(const std::string& because) {
    for (std::string why_not; !Has(why_not, because); std::this_thread::yield()) {
      ASSERT_FALSE(AllFibersAreAsleep(&why_not)) << "awake: " << because;
    }
  }
  static void ExpectAsleep() {
    while (!AllFibersAreAsleep()) std::this_thread::yield();
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, AwakeTest, ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{4, 1}), &fiber::NameOf);

// A fiber that waits until the test ends.
struct Sleeper {
  ~Sleeper() {
    event.Set();
    fiber.Join();
  }
  FiberEvent event;
  Fiber fiber{[this] { event.Wait(); }};
};

// A word there may have any value, also that of a thread's number.
TEST_P(AwakeTest, AnotherProcessMayWakeAThreadInSharedMemory) {
  const fiber::RuntimeOf runtime(GetParam());
  Sleeper sleeper;
  void* const shared =
      ::mmap(nullptr, sizeof(std::uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const word = static_cast<std::atomic<std::uint32_t>*>(shared);
  std::thread outsider([word] {
    const auto own = static_cast<std::uint32_t>(fiber::ThreadNumber());
    std::uint32_t none = 0;
    word->compare_exchange_strong(none, own);
    while (*word == own) ::syscall(SYS_futex, word, FUTEX_WAIT, own, nullptr, nullptr, 0);
  });
  ExpectAwake(" may be woken by another process");
  *word = 1;
  ::syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  outsider.join();
  ExpectAsleep();
  ::munmap(shared, sizeof(std::uint32_t));
}

// It waits for the kernel to clear the other's number, by a futex that is not private.
TEST_P(AwakeTest, AThreadThatJoinsAnotherIsAsleep) {
  const fiber::RuntimeOf runtime(GetParam());
  Sleeper sleeper;
  FiberEvent may_end;
  std::thread waits([&] { may_end.Wait(); });
  std::thread joins([&] { waits.join(); });
  ExpectAsleep();
  may_end.Set();
  joins.join();
}

TEST_P(AwakeTest, AHandlerOfTheLibraryWakesNobody) {
  struct sigaction of_library = {};
  of_library.sa_handler = [](int) {};
  struct sigaction former = {};
  ::sigaction(SIGUSR1, &of_library, &former);
  AddOwnSignal(SIGUSR1, of_library);
  const fiber::RuntimeOf runtime(GetParam());
  Sleeper sleeper;
  FiberEvent may_end;
  std::thread outsider([&] { may_end.Wait(); });
  ExpectAsleep();
  struct sigaction of_program = {};
  of_program.sa_handler = [](int signal) { ::_exit(signal); };
  ::sigaction(SIGUSR1, &of_program, nullptr);
  ExpectAwake("a handler of signal " + std::to_string(SIGUSR1));
  ::sigaction(SIGUSR1, &former, nullptr);
  may_end.Set();
  outsider.join();
}

TEST_P(AwakeTest, AHookOfSliceLimitsMayWakeAFiber) {
  RuntimeOptions options = fiber::OptionsOf(GetParam());
  options.slice_error = 1ms;
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  std::atomic<bool> called{false};
  SetSliceErrorHook([&](const LongSlice&) {
    called = true;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 1h, [&] { return ends; });
  });
  {
    const fiber::RuntimeOf runtime(options);
    FiberEvent event;
    Fiber computes([&] {
      while (!called) continue;
      event.Wait();
    });
    ExpectAwake("a thread that watches is at work");
    {
      const std::scoped_lock lock(mutex);
      ends = true;
    }
    changed.notify_all();
    event.Set();
    computes.Join();
  }
  SetSliceErrorHook(nullptr);
}

// Its timer is set no more, and the clock's thread sleeps now and then.
TEST_P(AwakeTest, ACallbackThatPollsMayWakeAFiber) {
  TestClock clock;
  const fiber::RuntimeOf runtime(GetParam());
  Sleeper sleeper;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> begun{false};
  bool ends = false;
  EnableFiberTimer(CreateFiberTimer(1ms, [&] {
    begun = true;
    std::unique_lock lock(mutex);
    while (!ends) changed.wait_for(lock, 100us);
  }));
  while (!begun) std::this_thread::yield();
  for (int i = 0; i < 300; ++i) ASSERT_FALSE(AllFibersAreAsleep()) << i;
  ExpectAwake("a thread that watches is at work");
  {
    const std::scoped_lock lock(mutex);
    ends = true;
  }
  changed.notify_all();
  ExpectAsleep();
}

TEST_P(AwakeTest, AWatchThatReportsMayWakeAFiber) {
  const fiber::RuntimeOf runtime(GetParam());
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  bool reports = false;
  DeadlockWatch watch({.every = 1ms, .report = [&](const std::string&) {
                         std::unique_lock lock(mutex);
                         reports = true;
                         changed.notify_all();
                         changed.wait_for(lock, 1h, [&] { return ends; });
                       }});
  Sleeper sleeper;
  {
    std::unique_lock lock(mutex);
    // As who joins a fiber: asleep.
    changed.wait(lock, [&] { return reports; });
  }
  ExpectAwake("a thread that watches is at work");
  {
    const std::scoped_lock lock(mutex);
    ends = true;
  }
  changed.notify_all();
}

}  // namespace
}  // namespace weft::observe
