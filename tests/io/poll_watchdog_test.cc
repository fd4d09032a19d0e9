// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "weft/base/report/build_mode.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;
using scheduling_group::Watchdog;
using scheduling_group::WatchTimers;

class Counter final : public WatchTimers::Client {
 public:
  void OnTimer() override {
    last.store(Steady::now(), std::memory_order_relaxed);
    if (again > 0) {
      --again;
      WatchTimers::Start(watchdog, 100us);
    }
    count.fetch_add(1, std::memory_order_release);
  }
  int watchdog = -1;
  int again = 0;  // how often it starts itself again
  // Atomic: that a start comes before its firing only the kernel's timer knows.
  std::atomic<Steady::time_point> last;
  std::atomic<int> count{0};
};

class PollWatchdog : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Watchdog::Get().AddTeam()); }
  void TearDown() override { Watchdog::Get().RemoveTeam(); }
};

TEST_F(PollWatchdog, FiresOnceForEachStartAndNotEarly) {
  Counter counter;
  std::error_code error;
  ASSERT_TRUE(Watchdog::Get().AddTimer(&counter, &counter.watchdog, &error)) << error.message();
  for (int i = 0; i < 20; ++i) {
    const auto begin = Steady::now();
    WatchTimers::Start(counter.watchdog, 200us);
    ASSERT_TRUE(Reaches([&] { return counter.count.load(std::memory_order_acquire) == i + 1; }));
    EXPECT_GE(counter.last.load(std::memory_order_relaxed) - begin, 200us);
  }
  Watchdog::Get().timers().Remove(counter.watchdog);
}

TEST_F(PollWatchdog, MayBeStartedWhileItFires) {
  Counter counter;
  std::error_code error;
  counter.again = 10;
  ASSERT_TRUE(Watchdog::Get().AddTimer(&counter, &counter.watchdog, &error)) << error.message();
  WatchTimers::Start(counter.watchdog, 100us);
  EXPECT_TRUE(Reaches([&] { return counter.count.load(std::memory_order_acquire) == 11; }));
  Watchdog::Get().timers().Remove(counter.watchdog);
}

TEST_F(PollWatchdog, AFurtherStartChangesTheTime) {
  Counter counter;
  std::error_code error;
  ASSERT_TRUE(Watchdog::Get().AddTimer(&counter, &counter.watchdog, &error)) << error.message();
  WatchTimers::Start(counter.watchdog, 1h);
  WatchTimers::Start(counter.watchdog, 1ms);
  EXPECT_TRUE(Reaches([&] { return counter.count.load(std::memory_order_acquire) == 1; }));
  Watchdog::Get().timers().Remove(counter.watchdog);
}

// OnTimer() does not run, and will not, when Remove() has returned.
TEST_F(PollWatchdog, NothingFiresAfterRemove) {
  const std::set<int> open = OpenDescriptors();
  for (int i = 0; i < 500; ++i) {
    auto counter = std::make_unique<Counter>();
    std::error_code error;
    counter->again = 5;
    ASSERT_TRUE(Watchdog::Get().AddTimer(counter.get(), &counter->watchdog, &error)) << error.message();
    WatchTimers::Start(counter->watchdog, std::chrono::microseconds(1 + i % 50));
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i % 100));
    Watchdog::Get().timers().Remove(counter->watchdog);
    counter.reset();  // AddressSanitizer would see a late one.
  }
  EXPECT_EQ(OpenDescriptors(), open);
}

#if !WEFT_TSAN  // It allows no threads in the child of a process with threads.
// The child has no thread of its parent's.
TEST_F(PollWatchdog, AForkedChildHasOneOfItsOwn) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);
    Counter counter;
    std::error_code error;
    if (!Watchdog::Get().AddTeam() || !Watchdog::Get().AddTimer(&counter, &counter.watchdog, &error)) ::_exit(1);
    WatchTimers::Start(counter.watchdog, 1ms);
    while (counter.count.load(std::memory_order_acquire) == 0) std::this_thread::yield();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace weft::io
