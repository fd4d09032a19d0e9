// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "weft/io/reactor/poller_lease.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class Counter final : public PollWatchdog::Client {
 public:
  void OnWatchdog() override {
    last.store(Steady::now(), std::memory_order_relaxed);
    if (again > 0) {
      --again;
      PollWatchdog::Start(watchdog, 100us);
    }
    count.fetch_add(1, std::memory_order_release);
  }
  int watchdog = -1;
  int again = 0;  // how often it starts itself again
  // Atomic: that a start comes before its firing only the kernel's timer knows.
  std::atomic<Steady::time_point> last;
  std::atomic<int> count{0};
};

TEST(PollWatchdog, FiresOnceForEachStartAndNotEarly) {
  Counter counter;
  std::error_code error;
  ASSERT_TRUE(PollWatchdog::Add(&counter, &counter.watchdog, &error)) << error.message();
  for (int i = 0; i < 20; ++i) {
    const auto begin = Steady::now();
    PollWatchdog::Start(counter.watchdog, 200us);
    ASSERT_TRUE(Reaches([&] { return counter.count.load(std::memory_order_acquire) == i + 1; }));
    EXPECT_GE(counter.last.load(std::memory_order_relaxed) - begin, 200us);
  }
  PollWatchdog::Remove(counter.watchdog);
}

TEST(PollWatchdog, MayBeStartedWhileItFires) {
  Counter counter;
  std::error_code error;
  counter.again = 10;
  ASSERT_TRUE(PollWatchdog::Add(&counter, &counter.watchdog, &error)) << error.message();
  PollWatchdog::Start(counter.watchdog, 100us);
  EXPECT_TRUE(Reaches([&] { return counter.count.load(std::memory_order_acquire) == 11; }));
  PollWatchdog::Remove(counter.watchdog);
}

TEST(PollWatchdog, AFurtherStartChangesTheTime) {
  Counter counter;
  std::error_code error;
  ASSERT_TRUE(PollWatchdog::Add(&counter, &counter.watchdog, &error)) << error.message();
  PollWatchdog::Start(counter.watchdog, 1h);
  PollWatchdog::Start(counter.watchdog, 1ms);
  EXPECT_TRUE(Reaches([&] { return counter.count.load(std::memory_order_acquire) == 1; }));
  PollWatchdog::Remove(counter.watchdog);
}

// OnWatchdog() does not run, and will not, when Remove() has returned.
TEST(PollWatchdog, NothingFiresAfterRemove) {
  const std::set<int> open = OpenDescriptors();
  for (int i = 0; i < 500; ++i) {
    auto counter = std::make_unique<Counter>();
    std::error_code error;
    counter->again = 5;
    ASSERT_TRUE(PollWatchdog::Add(counter.get(), &counter->watchdog, &error)) << error.message();
    PollWatchdog::Start(counter->watchdog, std::chrono::microseconds(1 + i % 50));
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i % 100));
    PollWatchdog::Remove(counter->watchdog);
    counter.reset();  // AddressSanitizer would see a late one.
  }
  EXPECT_EQ(OpenDescriptors(), open);
}

}  // namespace
}  // namespace weft::io
