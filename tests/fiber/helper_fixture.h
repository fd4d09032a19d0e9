// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// For tests of what is built on fibers: few shapes, a caller that is a fiber or a thread, the lines that were logged.
#ifndef WEFT_TESTS_FIBER_HELPER_FIXTURE_H_
#define WEFT_TESTS_FIBER_HELPER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"

#include "fiber/runtime_fixture.h"

namespace weft::fiber {

#define WEFT_INSTANTIATE_FEW_SHAPES(suite) WEFT_INSTANTIATE_THESE_SHAPES(suite, {1, 1}, {2, 1}, {4, 1}, {8, 1}, {2, 2})

// Runs each test's part in a fiber and then in a thread.
class InFiberAndThread : public InEachShape {
 protected:
  template <class F>
  static void InBoth(F f) {
    InFiber(f);
    InThread(f);
  }
};

// Waits for what another fiber or thread is about to do; the test's time limit is the limit.
template <class Condition>
void Until(Condition&& condition) {
  while (!condition()) {
    if (IsRunningInFiberWorker()) FiberYield();
    std::this_thread::yield();  // The other's worker may have no CPU.
  }
}

// Takes all lines of the log while it lives.
class LoggedLines {
 public:
  LoggedLines() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      const std::scoped_lock lock(mutex_);
      lines_.append(text).append("\n");
    });
  }
  ~LoggedLines() { base::SetLogSink(nullptr); }
  LoggedLines(const LoggedLines&) = delete;
  LoggedLines& operator=(const LoggedLines&) = delete;

  std::string text() const {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::string lines_;
};

}  // namespace weft::fiber

#endif  // WEFT_TESTS_FIBER_HELPER_FIXTURE_H_
