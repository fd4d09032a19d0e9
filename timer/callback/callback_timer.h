// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Callback timers: setting, enabling and killing them, from any thread. The public interface is fiber_timer.h.
//
//   setter       takes an entry of its shard's slab, moves the callable in, queues it: one hold of the shard's lock
//                if the callable is trivially copyable; else two or three, since user code does not run under it
//   when due     callback_runner.h
//   killer       ends an entry that no one holds (callback_entry.h); else marks it, and its holder ends it
//
// Invariants: CB1 in callback_entry.h, CB2 to CB4 in callback_runner.h. Any thread, unless a function says otherwise.
#ifndef WEFT_TIMER_CALLBACK_CALLBACK_TIMER_H_
#define WEFT_TIMER_CALLBACK_CALLBACK_TIMER_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/base/time/clock.h"
#include "weft/timer/callback/callback_type.h"

namespace weft::timer {

class TimerShard;

struct CallbackTimerOptions {
  const char* function;  // the user's call, for messages
  Deadline at;
  std::chrono::nanoseconds interval{0};  // 0: once
  bool on_timer_thread = false;          // run there instead of in a fiber
};

// Make a timer that waits for EnableCallbackTimer(), or one armed at once. Return its id, with the callable moved out.
// 0: no memory, or the runtime stops; a callable moved by copying is still the caller's then, another may be destroyed.
std::uint64_t CreateCallbackTimer(const CallbackTimerOptions& options, const CallbackType* type, void* callable);
std::uint64_t SetCallbackTimer(const CallbackTimerOptions& options, const CallbackType* type, void* callable);

// Does nothing if the timer is enabled already, or has ended.
void EnableCallbackTimer(std::uint64_t id);

// True: it has prevented a run. The callback has been destroyed on return, unless it runs now or a fiber has been
// started for it, which then destroys it.
bool KillCallbackTimer(std::uint64_t id);

// The same, but on return the callback has been destroyed in any case. Blocks the fiber or thread for that, except in
// the callback itself. Not for timer threads.
bool KillCallbackTimerAndWait(std::uint64_t id);

// --- For TimerWorker ---

// Ends all timers of `shard`, closed to callbacks; those that a fiber holds end there. Returns how many there were.
std::size_t DropCallbackTimers(TimerShard* shard);

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_CALLBACK_TIMER_H_
