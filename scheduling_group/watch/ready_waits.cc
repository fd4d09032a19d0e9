// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/ready_waits.h"

#include <algorithm>
#include <utility>

namespace weft::scheduling_group {

void OverloadDetector::Look(TimePoint now, std::uint64_t turns, std::size_t ready) noexcept {
  const auto slot = std::min<std::chrono::nanoseconds>(now - looked_at_, kInterval);  // The Watchdog may have been off.
  if (ready != 0 && slot < kSlot) return;
  std::chrono::nanoseconds age = oldest() + slot;
  const std::size_t waited = std::min(ready, ready_);
  const bool moved = waited == 0 || turns != turns_;
  if (waited == 0 || turns - turns_ >= waited) {
    age = std::chrono::nanoseconds(0);  // Those that are ready may have come since.
  } else if (moved) {
    const double per_turn = static_cast<double>((now - moved_at_).count()) / static_cast<double>(turns - turns_);
    const double wait = std::min(per_turn * static_cast<double>(waited), static_cast<double>(age.count()));
    age = std::chrono::nanoseconds(static_cast<std::int64_t>(wait));
  }
  if (moved) moved_at_ = now;
  still_ = moved ? std::chrono::nanoseconds(0) : still_ + slot;
  looked_at_ = now;
  turns_ = turns;
  ready_ = ready;
  oldest_.store(age.count(), std::memory_order_relaxed);
  const bool samples_are_bad = SamplesAreBad();
  Judge(ready != 0 && (IsLong(age) || samples_are_bad), now);
}

// In the slot that ends.
bool OverloadDetector::SamplesAreBad() noexcept {
  std::uint64_t fibers = 0;
  std::uint64_t waited_long = 0;
  for (const WaitRecorder& waits : waits_) {
    fibers += waits.fibers_own();
    waited_long += waits.fibers_long();
  }
  const bool bad = max_ready_wait_.count() != 0 && (waited_long - long_) * kTolerated > fibers - fibers_;
  fibers_ = fibers;
  long_ = waited_long;
  return bad;
}

void OverloadDetector::Judge(bool bad, TimePoint now) noexcept {
  if (!bad) {
    bad_since_ = {};
    if (overloaded()) {
      overloaded_.store(false, std::memory_order_relaxed);
      left_ = now;
    }
    return;
  }
  if (bad_since_ == TimePoint()) bad_since_ = now;
  if (overloaded()) return;
  const bool relapse = left_ != TimePoint() && now - left_ < kRelapse;
  // Counted from the end of the first bad slot. (After a pause that slot may be a single fiber that waited long.)
  if (!relapse && now - bad_since_ < kInterval - kSlot) return;
  overloaded_.store(true, std::memory_order_relaxed);
  times_.store(times() + 1, std::memory_order_relaxed);
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
  const std::chrono::nanoseconds wait = stamp.WaitUntil(clock_.now());
  recorders_[worker].Record(wait, stamp.weight(), overload_.IsLong(wait));
}

WEFT_NOINLINE WEFT_COLD void ReadyWaits::RecordStolen(unsigned worker, FiberEntity* fiber) noexcept {
  const ReadyStamp stamp = std::exchange(fiber->ready_stamp, ReadyStamp());
  recorders_[worker].RecordStolen(stamp.WaitUntil(clock_.now()), stamp.weight());
}

}  // namespace weft::scheduling_group
