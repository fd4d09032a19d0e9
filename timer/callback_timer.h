// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Callback timers: the life of a TimerEntry, from any thread to the fiber that runs the callback. The public face, with
// templates, is fiber_timer.h.
//
//   setter             entry from its shard's slab, callable moved in, into the shard's queue: one hold of the shard's
//                      lock if the callable is trivially copyable; else two or three, since user code does not run
//                      under it
//   timer thread       fire: kArmed -> kFiring. When the lock has been dropped: starts a fiber for it, or runs it
//                      itself
//   its fiber          kFiring -> kRunning, runs the callable where it lies, then ends the entry or arms it again
//
// Invariants
//   CB1  A callback is destroyed exactly once: by its fiber after it ran, by who kills the timer, or when the runtime
//        stops.
//   CB2  Once KillCallbackTimer() has returned, no run of the callback begins: a run begins by a transition under the
//        lock, and so does the killing.
//   CB3  A periodic timer is armed for its next run after the end of the last one: runs never overlap, what was missed
//        is skipped, and the rhythm is that of the first expiry.
//   CB4  The timer thread never waits for room in a run queue, nor does a callback that runs there: a fiber that it
//        starts while the queue is full goes into the overflow list (thread_may_wait.h). A timer for whose fiber there
//        is no room, or no memory, is armed again for a little later (RetryPace); it is never lost.
//
// Any thread may call anything, unless it says otherwise. Callbacks and their destructors run without any lock of ours.
#ifndef WEFT_TIMER_CALLBACK_TIMER_H_
#define WEFT_TIMER_CALLBACK_TIMER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weft/base/clock.h"
#include "weft/scheduling_group/scheduling_group.h"
#include "weft/timer/fire_context.h"
#include "weft/timer/retry_pace.h"
#include "weft/timer/shard_set.h"
#include "weft/timer/timer_entry.h"
#include "weft/timer/timer_shard.h"

namespace weft::timer {

struct CallbackTimerOptions {
  const char* function;  // the user's call, for messages
  base::Deadline at;
  std::chrono::nanoseconds interval{0};  // 0: once
  bool on_timer_thread = false;          // run there instead of in a fiber
};

// A timer that waits for EnableCallbackTimer(), or is armed at once. The id, and the callable has been moved out of
// `callable`; 0: refused (memory is exhausted, or the runtime stops). Then one that is moved by copying is still the
// caller's alone, and another may have been moved out of and destroyed.
std::uint64_t CreateCallbackTimer(const CallbackTimerOptions& options, const CallbackType* type, void* callable);
std::uint64_t SetCallbackTimer(const CallbackTimerOptions& options, const CallbackType* type, void* callable);

// Nothing happens if it is enabled already, or gone.
void EnableCallbackTimer(std::uint64_t id);

// True: a run that was still to come will not come. The callback has been destroyed when this returns, unless it runs
// now or a fiber has been started for it, which then destroys it.
bool KillCallbackTimer(std::uint64_t id);

// The same, and when it returns the callback has been destroyed, whatever it did. Blocks the fiber or the thread for
// that; called by the callback itself it does not wait. Not for timer threads.
bool KillCallbackTimerAndWait(std::uint64_t id);

// How timers inherit the execution context of the fiber that sets them. Set once by the fiber layer before the first
// timer.
struct ExecutionContextHooks {
  void* (*add_reference)(void* context) = nullptr;  // returns `context`
  void (*release)(void* context) = nullptr;
};
extern ExecutionContextHooks execution_context_hooks;

// --- For TimerWorker ---

// What the timer thread keeps from batch to batch.
struct CallbackThread {
  RetryPace pace;
  // The type of the callback that runs there now; nullptr: none does. relaxed: for a log line; what it points to is
  // constant.
  std::atomic<const CallbackType*> running{nullptr};
};

// The timer thread, without a lock: runs what is to run there, starts fibers in `group` for the others.
void RunDueCallbacks(TimerEntry* const* entries, std::size_t count, scheduling_group::SchedulingGroup* group,
                     CallbackThread* self);

// The name of a callback's type, from `phrase_with_name`.
std::string_view NameOf(const CallbackType& type) noexcept;

// `shard` is closed to callbacks: ends all its timers, and sees to it that those in a fiber's hand end there. How many
// there were.
std::size_t DropCallbackTimers(TimerShard* shard);

// The moment of a periodic timer's next run: the first after now, and after `expires_ns`, in its rhythm. Saturates: the
// last of all time points is never. `interval_ns` is above zero.
std::int64_t NextExpiry(std::int64_t expires_ns, std::int64_t interval_ns, base::Clock::TimePoint now) noexcept;

// Fibers that were refused since the process began. Statistics.
std::uint64_t RefusedCallbackFibers() noexcept;

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_TIMER_H_
