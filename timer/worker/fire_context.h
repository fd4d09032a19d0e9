// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FireContext: the requests of TimerNode::fire. The timer thread carries them out for a batch, without the lock.
#ifndef WEFT_TIMER_WORKER_FIRE_CONTEXT_H_
#define WEFT_TIMER_WORKER_FIRE_CONTEXT_H_

#include <cstddef>

#include "weft/base/report/check.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::scheduling_group {
class FiberEntity;
}

namespace weft::timer {

struct TimerEntry;

class FireContext {
 public:
  // Nodes that fire under one hold of a lock: at some 20 ns each they take 5 us, the length of SpinLock's spin.
  static constexpr std::size_t kCapacity = 256;

  FireContext() noexcept {}  // The arrays are not zeroed.
  FireContext(const FireContext&) = delete;
  FireContext& operator=(const FireContext&) = delete;

  // At most once per `fire`: has the fiber woken, which is parked and which only the caller may wake.
  void Ready(scheduling_group::FiberEntity* fiber) noexcept {
    WEFT_DCHECK(ready_count_ < kCapacity, "FireContext::Ready: called twice by one timer");
    ready_[ready_count_++] = fiber;
    __builtin_prefetch(fiber, 1);  // From another core's cache; it has arrived by the end of the batch.
  }

  // At most once per `fire` of a timer with a callback: has the callback run.
  void Run(TimerEntry* entry) noexcept {
    WEFT_DCHECK(entry_count_ < kCapacity, "FireContext::Run: called twice by one timer");
    entries_[entry_count_++] = entry;
  }

  // Once per `fire`, for what neither of these does.
  void Defer(DeferredTimer* timer) noexcept {
    WEFT_DCHECK(deferred_count_ < kCapacity, "FireContext::Defer: called twice by one timer");
    deferred_[deferred_count_++] = timer;
  }

  scheduling_group::FiberEntity* const* ready() const noexcept { return ready_; }
  std::size_t ready_count() const noexcept { return ready_count_; }
  TimerEntry* const* entries() const noexcept { return entries_; }
  std::size_t entry_count() const noexcept { return entry_count_; }
  void RunDeferred() const noexcept {
    if (deferred_count_ != 0) deferred_[0]->run(deferred_, deferred_count_);
  }

 private:
  std::size_t ready_count_ = 0;
  std::size_t entry_count_ = 0;
  std::size_t deferred_count_ = 0;
  scheduling_group::FiberEntity* ready_[kCapacity];
  TimerEntry* entries_[kCapacity];
  DeferredTimer* deferred_[kCapacity];
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_WORKER_FIRE_CONTEXT_H_
