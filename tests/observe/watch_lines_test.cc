// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the Watchdog's lines have of observe/: the fibers that run, and their stacks.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/observe/dump/running_stacks.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::observe {
namespace {

using namespace std::chrono_literals;

WEFT_NOINLINE void ComputeForLong(const std::atomic<bool>* enough) {
  while (!enough->load(std::memory_order_relaxed)) asm volatile("nop;nop");  // Equal to no other function.
}

class WatchLinesTest : public ::testing::Test {
 protected:
  WatchLinesTest() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
    });
  }
  ~WatchLinesTest() override { base::SetLogSink({}); }
  // A thread that gets no CPU does not answer: then a later line has it.
  std::string LineWith(const std::string& one, const std::string& other) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        for (const std::string& line : lines_) {
          if (line.find(one) != std::string::npos && line.find(other) != std::string::npos) return line;
        }
      }
      std::this_thread::yield();
    }
  }
  static std::string WantedOfStack() {
    return StackUnwinder().why_not().empty() && RunningStacks().why_not().empty() ? "ComputeForLong" : "running";
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(WatchLinesTest, AStandstillNamesTheFiberAndHasItsStack) {
  RuntimeOptions options = fiber::OptionsOf({1, 1});
  options.stall_warning = 30ms;
  const fiber::RuntimeOf runtime(options);
  std::atomic<bool> enough{false};
  Fiber hog({.name = "hog"}, [&] { ComputeForLong(&enough); });
  ASSERT_TRUE(StartFiberDetached([] {}));
  const std::string line = LineWith("stands still", WantedOfStack());
  EXPECT_NE(line.find("fiber 'hog' (id "), std::string::npos) << line;
  enough = true;
  hog.Join();
}

TEST_F(WatchLinesTest, ALongSliceHasTheStackOfThatMoment) {
  RuntimeOptions options = fiber::OptionsOf({2, 1});
  options.slice_warning = 20ms;
  const fiber::RuntimeOf runtime(options);
  std::atomic<bool> enough{false};
  Fiber hog({.name = "hog"}, [&] { ComputeForLong(&enough); });
  const std::string line = LineWith("without a switch", WantedOfStack());
  EXPECT_NE(line.find("it computes; a long computation needs FiberYield()"), std::string::npos) << line;
  enough = true;
  hog.Join();
}

}  // namespace
}  // namespace weft::observe
