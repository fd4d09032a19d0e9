// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// SliceLimits: what is said of a fiber that runs for long without suspending: a warning, an error, a hook.
//
// The monitor (slice_monitor.h) sees every kCheckEvery which turn each worker is in, and so since when, by the clock on
// the wall: a fiber that blocks its thread in the kernel keeps others from running, too. A turn ends with a switch, and
// with a yield that found nobody to yield to. Beyond a limit the monitor reports the turn:
//
//   the warning limit   one line, and while it goes on another each second; of several such workers the one is named
//                       that was named longest ago
//   the error limit     one line for each turn, and the hook
//
// Invariant
//   LS1  A fiber's name is read while it cannot be freed: the reader holds the lock, under which names are taken away
//        as long as there are limits, and then finds the worker still in the fiber's turn. A worker counts the end of a
//        turn before the fiber may run, and end, elsewhere.
// Cost where there are no limits: none but a load when a fiber ends that has a name.
//
// Set(): while no worker runs. SetHook(): any thread. The rest: the monitor, and Retire() in worker.cc.
#ifndef WEFT_SCHEDULING_GROUP_SLICE_LIMITS_H_
#define WEFT_SCHEDULING_GROUP_SLICE_LIMITS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "weft/base/clocks.h"
#include "weft/base/spin_lock.h"

namespace weft::scheduling_group {

// A fiber that has not suspended for a while.
struct LongSlice {
  std::uint64_t fiber_id = 0;
  std::string_view fiber_name;  // "" if it has none; good during the hook
  int scheduling_group = 0;
  unsigned worker = 0;                  // in its group
  std::chrono::nanoseconds ran_for{0};  // at least
};

// Owns its name.
struct NamedSlice : LongSlice {
  std::string name;
};

class SliceLimits {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Hook = std::function<void(const LongSlice&)>;
  static constexpr std::chrono::seconds kWarnEvery{1};

  // 0: none.
  static void Set(std::chrono::nanoseconds warning, std::chrono::nanoseconds error) noexcept;
  static void SetHook(Hook hook);

  // relaxed, all: set before the workers start.
  static bool on() noexcept { return on_.load(std::memory_order_relaxed); }
  static std::chrono::nanoseconds warning() noexcept {
    return std::chrono::nanoseconds(warning_ns_.load(std::memory_order_relaxed));
  }
  static std::chrono::nanoseconds error() noexcept {
    return std::chrono::nanoseconds(error_ns_.load(std::memory_order_relaxed));
  }

  // While one lives no fiber's name is taken away, if there are limits (LS1).
  class NameGuard {
   public:
    NameGuard() noexcept : locked_(on()) {
      if (locked_) names_lock_.lock();
    }
    ~NameGuard() {
      if (locked_) names_lock_.unlock();
    }
    NameGuard(const NameGuard&) = delete;
    NameGuard& operator=(const NameGuard&) = delete;

   private:
    const bool locked_;
  };

  // By the monitor, without a lock.
  static void Warn(NamedSlice slice, std::size_t others);
  static void ReportError(NamedSlice slice);

 private:
  static constinit std::atomic<bool> on_;
  static constinit std::atomic<std::int64_t> warning_ns_;
  static constinit std::atomic<std::int64_t> error_ns_;
  static constinit base::SpinLock names_lock_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_SLICE_LIMITS_H_
