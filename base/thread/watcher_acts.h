// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WatcherActs: while one lives, a thread of Weft's that watches does more than that: it calls a function of the user's,
// or fires timers, and so may wake a fiber. For observe/waits/asleep_check.h, to which such threads are idle otherwise.
// Any thread.
#ifndef WEFT_BASE_THREAD_WATCHER_ACTS_H_
#define WEFT_BASE_THREAD_WATCHER_ACTS_H_

#include <atomic>

namespace weft::base {

class WatcherActs {
 public:
  // relaxed, all: whoever asks has found the watcher asleep in the kernel first, and so sees what it did before.
  WatcherActs() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  ~WatcherActs() { count_.fetch_sub(1, std::memory_order_relaxed); }
  WatcherActs(const WatcherActs&) = delete;
  WatcherActs& operator=(const WatcherActs&) = delete;

  static bool Any() noexcept { return count_.load(std::memory_order_relaxed) != 0; }

 private:
  static inline constinit std::atomic<int> count_{0};
};

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_WATCHER_ACTS_H_
