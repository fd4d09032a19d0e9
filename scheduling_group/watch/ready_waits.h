// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ReadyWaits: measures how long the ready fibers of a group wait until they run, and decides whether that is too long.
//
// push_sampler.h chooses the fibers to measure. Such a fiber carries a stamp from its push until a worker takes it; the
// worker records the wait (wait_histogram.h) and tells the OverloadDetector.
//
// Invariants
//   RW1  A stamp counts once: Record() and RecordStolen() take it off the fiber.
//   RW2  A fiber pushed again without having run keeps its stamp, since its wait began with the first push. Only
//        RestartWait() replaces a stamp.
//   RW3  A stolen fiber's wait says nothing of the load of the group that runs it, so the detector does not see it.
//
// Stamp(), RestartWait(): the pushing thread. Record(), RecordStolen(): the worker. The others: any thread.
#ifndef WEFT_SCHEDULING_GROUP_WATCH_READY_WAITS_H_
#define WEFT_SCHEDULING_GROUP_WATCH_READY_WAITS_H_

#include <chrono>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/watch/overload_detector.h"
#include "weft/scheduling_group/watch/push_sampler.h"
#include "weft/scheduling_group/watch/wait_histogram.h"

namespace weft::scheduling_group {

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
