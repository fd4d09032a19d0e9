// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/slice_limits.h"

#include <memory>
#include <mutex>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/watch/group_attention.h"
#include "weft/scheduling_group/watch/watch_report.h"

namespace weft::scheduling_group {
namespace {

struct HookSlot {
  std::mutex mutex;
  std::shared_ptr<const SliceLimits::Hook> hook;  // guarded by mutex
};

// Never destroyed: the Watchdog may outlive the end of main().
HookSlot& TheHook() {
  static auto* const slot = new HookSlot;
  return *slot;
}

std::int64_t Milliseconds(std::chrono::nanoseconds time) noexcept { return time / std::chrono::milliseconds(1); }

std::string Describe(const NamedSlice& slice) {
  const std::string group_name = slice.group_name.empty() ? "" : " (" + slice.group_name + ")";
  return base::StrCat("worker ", slice.worker, " of scheduling group ", slice.scheduling_group, group_name, " has run ",
                      DescribeFiber(slice.name, slice.fiber_id), " for ", Milliseconds(slice.ran_for),
                      " ms without a switch");
}

// What its thread does, what to do, and the stack.
std::string DescribeMore(const NamedSlice& slice) {
  const ThreadNow now = LookAtThread(slice.thread);
  const std::string text = now.text.empty() ? "" : base::StrCat(": it ", now.text, AdviceTo(!now.blocked, now.blocked));
  return text + DescribeFibers(base::StrCat("state=running,id=", slice.fiber_id), now.may_be_signalled);
}

}  // namespace

constinit std::atomic<bool> SliceLimits::on_{false};
constinit std::atomic<std::int64_t> SliceLimits::warning_ns_{0};
constinit std::atomic<std::int64_t> SliceLimits::error_ns_{0};
constinit base::SpinLock SliceLimits::reader_lock_;

void SliceLimits::Set(std::chrono::nanoseconds warning, std::chrono::nanoseconds error) noexcept {
  // relaxed: the start of the workers that have limits orders them.
  warning_ns_.store(warning.count(), std::memory_order_relaxed);
  error_ns_.store(error.count(), std::memory_order_relaxed);
  const bool on = warning.count() != 0 || error.count() != 0;
  if (on_.exchange(on, std::memory_order_relaxed) == on) return;
  on ? WatchLeaving() : UnwatchLeaving();  // So that a yield to nobody is seen.
}

void SliceLimits::SetHook(Hook hook) {
  auto shared = hook != nullptr ? std::make_shared<const Hook>(std::move(hook)) : nullptr;
  HookSlot& slot = TheHook();
  {
    const std::lock_guard lock(slot.mutex);
    std::swap(slot.hook, shared);
  }
  // The former one is destroyed here, without the lock.
}

void SliceLimits::Warn(const NamedSlice& slice, std::size_t others) {
  if (others == 0) {
    WEFT_LOG(WARNING, Describe(slice), " (--fiber_slice_warning_ms=", Milliseconds(warning()), ")",
             DescribeMore(slice));
  } else {
    WEFT_LOG(WARNING, Describe(slice), ", and ", others,
             " other workers theirs (--fiber_slice_warning_ms=", Milliseconds(warning()), ")", DescribeMore(slice));
  }
}

void SliceLimits::ReportError(NamedSlice slice) {
  WEFT_LOG(ERROR, Describe(slice), " (--fiber_slice_error_ms=", Milliseconds(error()), ")", DescribeMore(slice));
  std::shared_ptr<const Hook> hook;
  {
    HookSlot& slot = TheHook();
    const std::lock_guard lock(slot.mutex);
    hook = slot.hook;
  }
  slice.fiber_name = slice.name;
  if (hook != nullptr) (*hook)(slice);
}

}  // namespace weft::scheduling_group
