// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A timer as its owner has it: when it is due (Tick), its node (TimerNode), what it may ask for when it fires
// (FireContext), and the most frequent one: a fiber's time-out (TimeOut). The queue of nodes is timer_queue.h.
//
// Tick n begins n * 2^15 ns (32.8 us) after the steady clock's epoch.
//
//   TK1  A deadline is rounded up and the present is rounded down, so a timer whose tick has been reached is due: never
//        early, and late by less than one tick plus the delays of the machine.
//   TK2  Every time point has a tick: those before the epoch have tick 0, and the last one, kLastTick, begins in 292
//        years. A deadline in or after that (Deadline::None()) never comes.
//   TK3  Under a test clock (base/time/test_time.h) a tick is one nanosecond, and the timers lie in an ExactQueue,
//        which takes any tick: Deadline::None() is kNever. It is set from before the first timer until after the last.
//
// Why 2^15 ns: a shift converts it, and it is less than a futex wake-up takes on a busy machine. Rejected: 1 ms (a
// sleep of 100 us would take ten times as long); 1 us (two levels more, and no machine wakes a thread so precisely).
#ifndef WEFT_TIMER_QUEUE_TIMER_NODE_H_
#define WEFT_TIMER_QUEUE_TIMER_NODE_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/time/clock.h"

namespace weft::scheduling_group {
class FiberEntity;
}

namespace weft::timer {

using Tick = std::uint64_t;

inline constexpr int kTickShift = 15;
inline constexpr int kTickBits = 48;
inline constexpr Tick kLastTick = (Tick{1} << kTickBits) - 1;
// Later than every tick: there is nothing to wait for.
inline constexpr Tick kNever = ~Tick{0};

// The tick at which a timer with this deadline may fire.
inline Tick TickOfDeadline(std::chrono::steady_clock::time_point deadline) noexcept {
  const std::int64_t nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  if (nanoseconds <= 0) return 0;
  if (base::HasTestTime()) {
    return deadline == std::chrono::steady_clock::time_point::max() ? kNever : static_cast<Tick>(nanoseconds);
  }
  const Tick tick = (static_cast<Tick>(nanoseconds) + ((Tick{1} << kTickShift) - 1)) >> kTickShift;
  return tick < kLastTick ? tick : kLastTick;
}

// The tick that `now` lies in.
inline Tick TickOfNow(std::chrono::steady_clock::time_point now) noexcept {
  const std::int64_t nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  if (nanoseconds <= 0) return 0;
  return static_cast<Tick>(nanoseconds) >> (base::HasTestTime() ? 0 : kTickShift);
}

// When `tick` begins; time_point::max() for kNever.
inline std::chrono::steady_clock::time_point BeginOfTick(Tick tick) noexcept {
  if (base::HasTestTime() && tick != kNever) {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(tick)));
  }
  if (tick > kLastTick) return std::chrono::steady_clock::time_point::max();
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(tick << kTickShift)));
}

class FireContext;
class TimerShard;
struct TimerEntry;

// The links of a slot's ring; the sentinel has nothing else.
struct TimerLink {
  TimerLink* next = nullptr;
  TimerLink* prev = nullptr;
};

// One timer. Its owner places it (a wait's time-out lies in the fiber's entity); it must not move while linked.
struct TimerNode : TimerLink {
  // Called once when it is due; timer_worker.h says what it may do.
  void (*fire)(TimerNode* node, FireContext* context) = nullptr;
  // When it is due. Set by TimerQueue::Add.
  Tick tick = 0;

  bool linked() const noexcept { return next != nullptr; }
};

// A timer that knows the shard it is in.
struct WaitTimer : TimerNode {
  // Where it was last armed, written by TimerShard::Arm(); nullptr: never.
  TimerShard* shard = nullptr;
};

// What a timer wants to be done by the timer thread when the lock has been dropped, for all of a batch at once. It may
// not block for long. The timer's owner must not let the node go before this is over.
struct DeferredTimer {
  void (*run)(DeferredTimer* const* due, std::size_t count) = nullptr;  // the same for all there are
};

// The requests of TimerNode::fire. The timer thread carries them out for a batch, when it has dropped the lock.
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

// The time-out of a fiber's wait. It lies in the fiber's entity (FiberEntity::wait_storage()), which the timer thread
// touches anyhow to wake the fiber. It ends the wait by the wait's decision word alone (sync/wait/wait_state.h): the
// wait itself, on the fiber's stack, is a page of cold memory.
struct TimeOut : WaitTimer {
  // `decision` holds `undecided`, which is not null, until somebody has ended the wait.
  TimeOut(scheduling_group::FiberEntity* the_fiber, base::Atomic<void*>* decision, void* undecided) noexcept
      : word(decision), wait(undecided), fiber(the_fiber) {
    fire = &Fire;
  }

  static void Fire(TimerNode* node, FireContext* context) {
    auto* self = static_cast<TimeOut*>(node);
    void* undecided = self->wait;
    // relaxed: it carries nothing; what is used below it has of its own.
    if (!self->word->compare_exchange_strong(undecided, nullptr, std::memory_order_relaxed,
                                             std::memory_order_relaxed)) {
      return;
    }
    self->wait = nullptr;  // The wake publishes this to the owner.
    context->Ready(self->fiber);
  }

  // The owner, after its wake.
  bool has_ended_the_wait() const noexcept { return wait == nullptr; }

  base::Atomic<void*>* const word;
  void* wait;
  scheduling_group::FiberEntity* const fiber;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_TIMER_NODE_H_
