// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/blocking_limits.h"

#include <atomic>
#include <optional>
#include <string>

#include "weft/base/report/check.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/fiber/runtime/runtime_flags.h"

namespace weft::fiber {

namespace {

BlockingLimits LimitsOf(const RuntimeOptions& options) {
  return {.threads = options.blocking_threads,
          .queue_size = options.blocking_queue_size,
          .idle_timeout = options.blocking_idle_timeout};
}

base::SpinLock limits_lock;
bool limits_set WEFT_GUARDED_BY(limits_lock) = false;
BlockingLimits limits WEFT_GUARDED_BY(limits_lock);
std::atomic<std::uint64_t> version{1};

}  // namespace

BlockingLimits GetBlockingLimits() {
  {
    const base::SpinLockGuard guard(limits_lock);
    if (limits_set) return limits;
  }
  RuntimeOptions options;
  std::optional<std::string> error = ReadFlags(&options);
  if (!error.has_value()) error = ValidateOptions(options);
  WEFT_CHECK(!error.has_value(), "a blocking call: ", *error);
  return LimitsOf(options);
}

// relaxed: a reader that finds another number takes the lock.  A runtime's fibers have its number by their start.
std::uint64_t BlockingLimitsVersion() noexcept { return version.load(std::memory_order_relaxed); }

namespace detail {

void SetBlockingLimits(const RuntimeOptions& options) {
  const base::SpinLockGuard guard(limits_lock);
  if (limits_set && limits == LimitsOf(options)) return;
  limits = LimitsOf(options);
  limits_set = true;
  version.fetch_add(1, std::memory_order_relaxed);  // Before the unlock: the new number comes with the new limits.
}

}  // namespace detail

}  // namespace weft::fiber
