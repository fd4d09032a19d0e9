// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/ready_waits.h"

#include <utility>

namespace weft::scheduling_group {

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
