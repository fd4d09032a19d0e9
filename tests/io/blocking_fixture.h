// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the tests of blocking calls share: runtimes of one and of two workers, a gate for threads of the pool, and waits
// for a state that somebody else is about to reach.
#ifndef WEFT_TESTS_IO_BLOCKING_FIXTURE_H_
#define WEFT_TESTS_IO_BLOCKING_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"

#include "fiber/runtime_fixture.h"

namespace weft::io {

// Blocks the threads that pass it, until it is opened.
class Gate {
 public:
  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    opened_.wait(lock, [&] { return open_; });
  }
  int arrived() {
    const std::scoped_lock lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  int arrived_ = 0;
  bool open_ = false;
};

// Fiber or thread: lets others run until it holds.
template <class Condition>
void YieldUntil(Condition condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) {
      std::fprintf(stderr, "YieldUntil: what was waited for does not come\n");
      std::abort();
    }
    if (IsRunningInFiberWorker()) FiberYield();
    std::this_thread::yield();  // A worker too: who is waited for may have no other CPU.
  }
}

// Catches what is logged while it lives.
class LogCatcher {
 public:
  LogCatcher() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      const std::scoped_lock lock(mutex_);
      text_.append(text).append("\n");
    });
  }
  ~LogCatcher() { base::SetLogSink(nullptr); }

  bool Has(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    return text_.find(text) != std::string::npos;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// Each test with one worker and with several.
class BlockingTest : public fiber::InEachShape {};

#define WEFT_INSTANTIATE_BLOCKING(suite) WEFT_INSTANTIATE_THESE_SHAPES(suite, {1, 1}, {2, 1}, {4, 1}, {8, 1})

}  // namespace weft::io

#endif  // WEFT_TESTS_IO_BLOCKING_FIXTURE_H_
