// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ReadyWaits: measures how long the ready fibers of a group wait until they run, and decides whether that is too long.
//
// A PushSampler chooses the fibers to measure (wait_samples.h). Such a fiber carries a stamp from its push until a
// worker takes it; the worker records the wait and tells the OverloadDetector, which decides whether new work should be
// refused.
//
// A burst makes fibers wait, too, but is over soon; in an overload no pause comes. That is the idea of CoDel (K.
// Nichols, V. Jacobson, Controlling Queue Delay, ACM Queue, 2012). A slot of kSlot is bad if more than one in
// kTolerated of the fibers that ran in it had waited longer than `max_ready_wait`:
//
//                 bad slots for kInterval, or one within kRelapse after the last overload
//         calm  --------------------------------------------------------------------------->  overloaded
//               <---------------------------------------------------------------------------
//                 a slot that is not bad, or nothing is ready
//
// CoDel uses the shortest wait of an interval. Here fibers overtake the queue: woken ones up to kMaxHandOffs = 16 times
// in a row (worker_queues.h), and v2 runs the newest first. Only one in 17 may come from the queue: kTolerated is 20.
//
// Nothing runs in the background: workers that record samples of waits end the slots. A worker going to sleep reports
// an empty queue. A caller about to be refused checks that samples still come: refused fibers make none.
//
// Invariants
//   RW1  A stamp counts once: Record() and RecordStolen() take it off the fiber.
//   RW2  A fiber pushed again without having run keeps its stamp, since its wait began with the first push. Only
//        RestartWait() replaces a stamp.
//   RW3  A stolen fiber's wait says nothing of the load of the group that runs it, so the detector does not see it.
//   OD1  Overload ends by itself: if nothing is ready, StillOverloaded() is false within kInterval of the last sample.
//   OD2  overloaded() is one load of a line that is written only when the answer changes.
//
// Stamp(), RestartWait(): the pushing thread. Record(), RecordStolen(): the worker. The others: any thread, unless
// noted otherwise. All of the detector but its lock is relaxed: each variable is read alone, and a stale read costs at
// most one slot more or less of refusals.
//
// Rejected: an exponentially weighted average of the waits (bursts outlast themselves in it); the length of the queue
// (the wait depends on how long fibers run); refusing only the excess (needs a model of the arriving work); a periodic
// check by the timer thread (wakes an idle process).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_READY_WAITS_H_
#define WEFT_SCHEDULING_GROUP_WATCH_READY_WAITS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
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

  bool enabled() const noexcept { return max_ready_wait_.count() != 0; }
  bool IsLong(std::chrono::nanoseconds wait) const noexcept { return enabled() && wait > max_ready_wait_; }

  bool overloaded() const noexcept { return overloaded_.load(std::memory_order_relaxed); }

  // After a sample was recorded, with its time.
  void OnSample(TimePoint now) noexcept {
    if (enabled() && ToNs(now) >= slot_end_.load(std::memory_order_relaxed)) EndSlot(now);
  }

  // A worker found nothing ready and is about to sleep.
  void OnNothingReady(TimePoint now) noexcept {
    if (!IsCalm()) [[unlikely]] {
      Calm(now);
    }
  }

  // The caller has seen overloaded(). nothing_is_ready() is called only if no samples come.
  template <class NothingIsReady>
  [[nodiscard]] bool StillOverloaded(TimePoint now, NothingIsReady nothing_is_ready) noexcept {
    if (ToNs(now) < slot_end_.load(std::memory_order_relaxed) + (kInterval - kSlot).count()) return overloaded();
    if (!nothing_is_ready()) return overloaded();  // All workers run long fibers: no time for more.
    Calm(now);
    return false;
  }

  // How often it became overloaded.
  std::uint64_t times() const noexcept { return times_.load(std::memory_order_relaxed); }

  // While no worker runs.
  void Clear() noexcept;

 private:
  static constexpr std::int64_t kNever = INT64_MIN;
  static std::int64_t ToNs(TimePoint time) noexcept { return time.time_since_epoch() / std::chrono::nanoseconds(1); }

  // Checks both, since Judge() and Calm() at once may leave it overloaded without a bad slot.
  bool IsCalm() const noexcept { return bad_since_.load(std::memory_order_relaxed) == kNever && !overloaded(); }
  void EndSlot(TimePoint now) noexcept;
  void Judge(bool bad, std::int64_t now) noexcept;
  void Calm(TimePoint now) noexcept;

  // Read at each admission.
  const std::chrono::nanoseconds max_ready_wait_;
  const std::span<const WaitRecorder> waits_;
  std::atomic<bool> overloaded_{false};
  // Read at each sample, written at the end of each slot.
  alignas(base::kCacheLineSize) std::atomic<std::int64_t> slot_end_{kNever};
  std::atomic<std::int64_t> bad_since_{kNever};  // the end of the first bad slot of a row
  std::atomic<std::int64_t> left_{kNever};       // when it was overloaded last
  std::atomic<std::uint64_t> times_{0};
  // Only tried: a thread that finds it held leaves the slot to the holder.
  base::SpinLock lock_;
  std::uint64_t fibers_ WEFT_GUARDED_BY(lock_) = 0;  // at the end of the last slot
  std::uint64_t long_ WEFT_GUARDED_BY(lock_) = 0;
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

  // A worker that found nothing ready is about to sleep.
  void OnNothingReady() noexcept {
    if (overload_.enabled()) overload_.OnNothingReady(clock_.now());
  }
  // nothing_is_ready() is called only if it was overloaded and no samples come. Some 2 ns while the answer is no.
  template <class NothingIsReady>
  bool IsOverloaded(NothingIsReady nothing_is_ready) noexcept {
    if (!overload_.overloaded()) [[likely]] {
      return false;
    }
    return overload_.StillOverloaded(clock_.now(), nothing_is_ready);
  }
  // How often it became overloaded.
  std::uint64_t overloads() const noexcept { return overload_.times(); }

  const numa::NodeArray<WaitRecorder>& recorders() const noexcept { return recorders_; }

 private:
  const base::Clock& clock_;
  const numa::NodeArray<WaitRecorder> recorders_;  // by worker
  OverloadDetector overload_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_READY_WAITS_H_
