// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ReadyWaits: how long the ready fibers of a group wait until they run, and whether that is too long.
//
// A PushSampler chooses fibers to measure (wait_samples.h). Such a fiber carries a stamp from its push until a worker
// takes it; the worker records the wait. Fibers that do not run make no samples, so the Watchdog looks at each group
// every kSlot, too, and the OverloadDetector decides whether new work should be refused.
//
// How old the oldest ready fiber is follows from two counts that the group has anyway: the turns of its workers and the
// fibers that are ready. While no turn begins, it ages as time goes on. If `turns` began meanwhile, the oldest of these
// `ready` waits for  time * ready / turns  (J. D. C. Little, A proof for the queuing formula L = lambda W, 1961); but
// no longer than its age at the last look and the time since. If as many turns began as fibers had waited, these may
// all have come since, in a burst: it is 0. Nothing is stamped: pushes and pops pay nothing. Turns of handed-over
// fibers count, too, so it is a lower bound: up to kMaxHandOffs + 1 times less than the wait in the queue. For that,
// and for waits of less than kSlot, there are the samples.
//
// A burst makes fibers wait, too, but is over soon; in an overload no pause comes. That is the idea of CoDel (K.
// Nichols, V. Jacobson, Controlling Queue Delay, ACM Queue, 2012). A slot of kSlot is bad if the oldest ready fiber is
// older than `max_ready_wait`, or more than one in kTolerated of the fibers that ran in it had waited for longer:
//
//                 bad slots for kInterval, or one within kRelapse after the last overload
//         calm  --------------------------------------------------------------------------->  overloaded
//               <---------------------------------------------------------------------------
//                 a slot that is not bad, or nothing is ready
//
// CoDel uses the shortest wait of an interval. Here fibers overtake the queue: woken ones up to kMaxHandOffs = 16 times
// in a row (worker_queues.h), and v2 runs the newest first. Only one in 17 may come from the queue: kTolerated is 20.
//
// Invariants
//   RW1  A stamp counts once: Record() and RecordStolen() take it off the fiber.
//   RW2  A fiber pushed again without having run keeps its stamp, since its wait began with the first push. Only
//        RestartWait() replaces a stamp.
//   RW3  A stolen fiber's wait says nothing of the load of the group that runs it, so the detector does not see it.
//   OD1  Overload ends by itself: at the first look that finds nothing ready.
//   OD2  overloaded() is one load of a line that is written only when the answer changes.
//   OD3  A group whose workers are all stuck while fibers are ready is overloaded kInterval after the oldest of them
//        has waited for `max_ready_wait`, as soon as the Watchdog looks.
//
// Stamp(), RestartWait(): the pushing thread. Record(), RecordStolen(): the worker. Look(): the Watchdog. The others:
// any thread. What is atomic is relaxed: each variable is read alone, and a stale read costs at most one slot more or
// less of refusals.
//
// Rejected: an exponentially weighted average of the waits (bursts outlast themselves in it); the length of the queue
// (the wait depends on how long fibers run); refusing only the excess (needs a model of the arriving work); a stamp at
// the head of each queue (a store for each pop, and v2 has three queues a worker); slots that end with a sample (none
// come while all workers are stuck).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_READY_WAITS_H_
#define WEFT_SCHEDULING_GROUP_WATCH_READY_WAITS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/watch/wait_samples.h"

namespace weft::scheduling_group {

class OverloadDetector {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // CoDel's value: longer than the bursts that should pass, shorter than callers' time-outs.
  static constexpr std::chrono::nanoseconds kInterval = std::chrono::milliseconds(100);
  // Several slots per interval. At one sample per 20 us and worker a slot has about a thousand of them.
  static constexpr std::chrono::nanoseconds kSlot = std::chrono::milliseconds(20);
  // For so long after it admits again one bad slot is enough, since the load may be the same: waits exceed the limit by
  // at most kSlot.
  static constexpr std::chrono::nanoseconds kRelapse = std::chrono::seconds(1);
  static constexpr std::uint64_t kTolerated = 20;

  // max_ready_wait 0: never overloaded. `waits`: of the group's workers; of no use before the first sample.
  OverloadDetector(std::chrono::nanoseconds max_ready_wait, std::span<const WaitRecorder> waits)
      : max_ready_wait_(max_ready_wait), waits_(waits) {}

  bool IsLong(std::chrono::nanoseconds wait) const noexcept {
    return max_ready_wait_.count() != 0 && wait > max_ready_wait_;
  }

  bool overloaded() const noexcept { return overloaded_.load(std::memory_order_relaxed); }
  // How often it became overloaded.
  std::uint64_t times() const noexcept { return times_.load(std::memory_order_relaxed); }
  // How long the oldest ready fiber has waited, at least.
  std::chrono::nanoseconds oldest() const noexcept {
    return std::chrono::nanoseconds(oldest_.load(std::memory_order_relaxed));
  }

  // By who calls Look(), at the last look: for how long fibers had been ready while no turn began; and how many were.
  std::chrono::nanoseconds standstill() const noexcept { return still_; }
  std::size_t ready() const noexcept { return ready_; }

  // `turns` that the group's workers have begun so far, or taken from it; `ready` fibers wait now.
  void Look(TimePoint now, std::uint64_t turns, std::size_t ready) noexcept;

 private:
  void Judge(bool bad, TimePoint now) noexcept;
  bool SamplesAreBad() noexcept;

  // Read at each admission.
  const std::chrono::nanoseconds max_ready_wait_;
  const std::span<const WaitRecorder> waits_;
  std::atomic<bool> overloaded_{false};
  // Written by Look() only, all.
  alignas(base::kCacheLineSize) std::atomic<std::uint64_t> times_{0};
  std::atomic<std::int64_t> oldest_{0};
  TimePoint looked_at_{};
  TimePoint moved_at_{};   // when `turns_` had changed, or nothing had waited
  TimePoint bad_since_{};  // the end of the first bad slot of a row; 0: it was not bad
  TimePoint left_{};       // when it was overloaded last; 0: never
  std::uint64_t turns_ = 0;
  std::size_t ready_ = 0;
  std::chrono::nanoseconds still_{0};
  std::uint64_t fibers_ = 0;  // at the end of the last slot
  std::uint64_t long_ = 0;
};

class ReadyWaits {
 public:
  // max_ready_wait 0: the group is never overloaded.
  ReadyWaits(unsigned workers, int node, std::chrono::nanoseconds max_ready_wait, const base::Clock& clock)
      : clock_(clock), recorders_(workers, node), overload_(max_ready_wait, recorders_.objects()) {}

  // Stamps a fiber whose push is a sample: `countdown`, which belongs to `sampler`, has run out.
  void Stamp(FiberEntity* fiber, PushSampler& sampler, PushCountdown* countdown) const noexcept;
  // The fiber, about to be pushed, begins to wait now; until now its spawner waited.
  void RestartWait(FiberEntity* fiber) const noexcept;

  // `worker` runs the fiber, which has a stamp.
  void Record(unsigned worker, FiberEntity* fiber) noexcept;
  void RecordStolen(unsigned worker, FiberEntity* fiber) noexcept;

  // By the Watchdog: as OverloadDetector::Look().
  void Look(std::uint64_t turns, std::size_t ready) noexcept { overload_.Look(clock_.now(), turns, ready); }
  const OverloadDetector& overload() const noexcept { return overload_; }

  const numa::NodeArray<WaitRecorder>& recorders() const noexcept { return recorders_; }

 private:
  const base::Clock& clock_;
  const numa::NodeArray<WaitRecorder> recorders_;  // by worker
  OverloadDetector overload_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_READY_WAITS_H_
