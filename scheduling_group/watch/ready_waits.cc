// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/ready_waits.h"

#include <utility>

namespace weft::scheduling_group {

void OverloadDetector::EndSlot(TimePoint now) noexcept {
  if (!lock_.try_lock()) return;
  std::uint64_t fibers = 0;
  std::uint64_t waited_long = 0;
  for (const WaitRecorder& waits : waits_) {
    fibers += waits.fibers_own();
    waited_long += waits.fibers_long();
  }
  // If two workers see the end of the slot, the second one finds only its own sample, or nothing.
  if (fibers != fibers_ && ToNs(now) >= slot_end_.load(std::memory_order_relaxed)) {
    Judge((waited_long - long_) * kTolerated > fibers - fibers_, ToNs(now));
    fibers_ = fibers;
    long_ = waited_long;
    slot_end_.store(ToNs(now + kSlot), std::memory_order_relaxed);
  }
  lock_.unlock();
}

void OverloadDetector::Judge(bool bad, std::int64_t now) noexcept {
  if (!bad) {
    if (!IsCalm()) Calm(TimePoint(std::chrono::nanoseconds(now)));
    return;
  }
  std::int64_t since = bad_since_.load(std::memory_order_relaxed);
  if (since == kNever) bad_since_.store(since = now, std::memory_order_relaxed);
  if (overloaded()) return;
  const std::int64_t left = left_.load(std::memory_order_relaxed);
  const bool relapse = left != kNever && now - left < kRelapse.count();
  // Counted from the end of the first bad slot. (After a pause that slot may be a single fiber that waited long.)
  if (!relapse && now - since < (kInterval - kSlot).count()) return;
  overloaded_.store(true, std::memory_order_relaxed);
  times_.fetch_add(1, std::memory_order_relaxed);
}

// It may race with Judge(), which may win. Its result then holds until the next slot, the next worker that sleeps or
// the next caller to be refused (OD1).
void OverloadDetector::Calm(TimePoint now) noexcept {
  bad_since_.store(kNever, std::memory_order_relaxed);
  if (overloaded_.exchange(false, std::memory_order_relaxed)) left_.store(ToNs(now), std::memory_order_relaxed);
}

void OverloadDetector::Clear() noexcept {
  base::SpinLockGuard guard(lock_);
  overloaded_.store(false, std::memory_order_relaxed);
  slot_end_.store(kNever, std::memory_order_relaxed);
  bad_since_.store(kNever, std::memory_order_relaxed);
  left_.store(kNever, std::memory_order_relaxed);
  times_.store(0, std::memory_order_relaxed);
  fibers_ = long_ = 0;
}

WEFT_NOINLINE WEFT_COLD void ReadyWaits::Stamp(FiberEntity* fiber, PushSampler& sampler,
                                               PushCountdown* countdown) const noexcept {
  const ReadyStamp stamp = sampler.Take(clock_.now(), countdown);
  if (!fiber->ready_stamp) fiber->ready_stamp = stamp;  // RW2: else it had found no stack, and still waits.
}

void ReadyWaits::RestartWait(FiberEntity* fiber) const noexcept {
  if (const ReadyStamp stamp = fiber->ready_stamp) fiber->ready_stamp = {clock_.now(), stamp.shift()};
}

WEFT_NOINLINE WEFT_COLD void ReadyWaits::Record(unsigned worker, FiberEntity* fiber) noexcept {
  const ReadyStamp stamp = std::exchange(fiber->ready_stamp, ReadyStamp());
  const auto now = clock_.now();
  const std::chrono::nanoseconds wait = stamp.WaitUntil(now);
  recorders_[worker].Record(wait, stamp.weight(), overload_.IsLong(wait));
  overload_.OnSample(now);
}

WEFT_NOINLINE WEFT_COLD void ReadyWaits::RecordStolen(unsigned worker, FiberEntity* fiber) noexcept {
  const ReadyStamp stamp = std::exchange(fiber->ready_stamp, ReadyStamp());
  recorders_[worker].RecordStolen(stamp.WaitUntil(clock_.now()), stamp.weight());
}

}  // namespace weft::scheduling_group
