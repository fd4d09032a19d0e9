// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SliceLimits: how long a fiber may run without a switch before the Watchdog (watchdog.h) reports it. They count time
// by the clock on the wall: a fiber that blocks its thread in the kernel keeps others from running, too. Here a turn
// ends also with a yield that found nobody to yield to.
//
//   the warning limit   one line, and while it goes on another each second; of several such workers the one reported
//                       least recently is reported
//   the error limit     one line for each turn, and the hook
//
// The lines say what the worker's thread does, and have the fiber's stack at that moment (watch_report.h).
//
// Limits are for workers that begin after Set(): a FiberLoop that is older than the runtime has none.
//
// Invariants
//   LS1  A fiber's id and name are read while it is there: the reader takes the lock, finds the fiber on its worker,
//        then the worker in the turn that it has seen. A worker counts the end of a turn before another fiber is seen
//        on it, so the fiber had not ended before the lock was taken. It ends only after its worker has had the lock.
//
// Cost: where there are no limits, a test when a fiber ends. With limits all workers take one lock for each end.
// Set(): while no runtime runs. SetHook(): any thread. Retire() in worker.cc asks for limits. The rest: the Watchdog.
#ifndef WEFT_SCHEDULING_GROUP_WATCH_SLICE_LIMITS_H_
#define WEFT_SCHEDULING_GROUP_WATCH_SLICE_LIMITS_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "weft/base/thread/spin_lock.h"

namespace weft::scheduling_group {

// A fiber that has not suspended for a while.
struct LongSlice {
  std::uint64_t fiber_id = 0;
  std::string_view fiber_name;  // "" if it has none; good during the hook
  int scheduling_group = 0;
  unsigned worker = 0;                  // in its group
  std::chrono::nanoseconds ran_for{0};  // at least
};

// Owns its names.
struct NamedSlice : LongSlice {
  std::string name;
  std::string group_name;
  pid_t thread = 0;  // of the worker
};

class SliceLimits {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Hook = std::function<void(const LongSlice&)>;
  static constexpr std::chrono::seconds kWarnEvery{1};

  // 0: none.
  static void Set(std::chrono::nanoseconds warning, std::chrono::nanoseconds error) noexcept;
  static void SetHook(Hook hook);

  // relaxed, all: set before the workers that ask start.
  static bool on() noexcept { return on_.load(std::memory_order_relaxed); }
  static std::chrono::nanoseconds warning() noexcept {
    return std::chrono::nanoseconds(warning_ns_.load(std::memory_order_relaxed));
  }
  static std::chrono::nanoseconds error() noexcept {
    return std::chrono::nanoseconds(error_ns_.load(std::memory_order_relaxed));
  }

  // The Watchdog holds it to read of a fiber, and a worker has it once before a fiber goes (LS1).
  static base::SpinLock& ReaderLock() noexcept { return reader_lock_; }
  static void AwaitReader() noexcept { const base::SpinLockGuard guard(reader_lock_); }

  // By the Watchdog, without a lock.
  static void Warn(const NamedSlice& slice, std::size_t others);
  static void ReportError(NamedSlice slice);

 private:
  static constinit std::atomic<bool> on_;
  static constinit std::atomic<std::int64_t> warning_ns_;
  static constinit std::atomic<std::int64_t> error_ns_;
  static constinit base::SpinLock reader_lock_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_SLICE_LIMITS_H_
