// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Callback timers: setting, enabling and killing them, from any thread. The public face, with templates, is
// fiber_timer.h.
//
//   setter       entry from its shard's slab, callable moved in, into the shard's queue: one hold of the shard's lock
//                if the callable is trivially copyable; else two or three, since user code does not run under it
//   when due     callback_runner.h
//   killer       ends an entry that nobody has in hand (callback_entry.h); else marks it, and the fiber or thread that
//                has it in hand ends it
//
// Invariants: CB1 in callback_entry.h, CB2 to CB4 in callback_runner.h.
// Any thread may call anything, unless it says otherwise. Callbacks and their destructors run without any lock of ours.
#ifndef WEFT_TIMER_CALLBACK_TIMER_H_
#define WEFT_TIMER_CALLBACK_TIMER_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/clock.h"
#include "weft/base/clocks.h"
#include "weft/base/deadline.h"
#include "weft/timer/timer_entry.h"

namespace weft::timer {

class TimerShard;

struct CallbackTimerOptions {
  const char* function;  // the user's call, for messages
  Deadline at;
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

// --- For TimerWorker ---

// `shard` is closed to callbacks: ends all its timers, and sees to it that those in a fiber's hand end there. How many
// there were.
std::size_t DropCallbackTimers(TimerShard* shard);

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_TIMER_H_
