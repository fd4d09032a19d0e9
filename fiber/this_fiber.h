// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a fiber can do to itself and learn about itself. Plain threads may call all but FiberYield() and the hooks; a
// sleep blocks them.
//
// Hooks are functions that run when the calling fiber ends, or before each switch away from it.
// Sample:
//   OnFiberStop([&] { connection->Forget(); });           // clean-up that belongs to the fiber, not to a scope
//   OnFiberYield([&] { ++transaction.interruptions; });    // others may run now
//
// A hook runs on the fiber's own stack. It ends the process if an exception leaves it, and so does a caller that is no
// fiber. Setting a hook does not switch. Without hooks they cost nothing; while any fiber has a hook for yields (even a
// fiber left unfinished), each switch of each fiber makes a call to look for hooks.
#ifndef WEFT_FIBER_THIS_FIBER_H_
#define WEFT_FIBER_THIS_FIBER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "weft/base/deadline.h"
#include "weft/base/fiber_clock.h"
#include "weft/base/time/clock.h"
#include "weft/base/unique_function.h"

namespace weft {

namespace fiber::detail {

void SleepFor(std::chrono::nanoseconds duration);

}  // namespace fiber::detail

// Lets the fibers that are ready run first.  Only in a fiber.
void FiberYield();

// Suspends the caller until the deadline has passed; a yield if it has.
void FiberSleepUntil(Deadline deadline);

// Suspends the caller until `time` of any clock, never less.  A clock that is set while we sleep (system_clock) is
// asked again at the end: if it went back, we go on sleeping; if it jumped ahead, we wake when the time would have
// come. A time that has passed is a yield. (Under a test clock, which does not move other clocks, they are asked once.)
template <class Clock, class Duration>
void FiberSleepUntil(const std::chrono::time_point<Clock, Duration>& time) {
  if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
    FiberSleepUntil(Deadline(time));
  } else {
    do {
      FiberSleepUntil(Deadline(time));
    } while (!base::HasTestTime() && Clock::now() < time);
  }
}

// Suspends the caller for `duration`, never less. Zero or less yields, so that a loop of such sleeps lets others run.
template <class Rep, class Period>
void FiberSleepFor(const std::chrono::duration<Rep, Period>& duration) {
  fiber::detail::SleepFor(base::SaturatingNanoseconds(duration));
}

// Whether the caller is a fiber.
bool IsRunningInFiberWorker() noexcept;

// The calling fiber's id, never used twice in a process; 0 outside of fibers.
std::uint64_t GetFiberId() noexcept;

// The calling fiber's name, good until it ends; "" if it has none, and outside of fibers.
std::string_view GetFiberName() noexcept;

// Fibers that have been started and have not ended, also those that former runtimes left behind; a snapshot.
std::size_t GetFiberCount();

// Fibers that are ready and wait for a worker, in all scheduling groups; a snapshot.  0 before and after a runtime.
std::size_t GetFiberQueueSize();

// Runs when the fiber's function has returned, before Join() returns. Hooks and FiberLocals end in the reverse order of
// their making, so a hook sees the FiberLocals that were there when it was set. It may lock, wait, sleep, and set
// further hooks, which run next. A fiber that the runtime's end leaves unfinished runs none.
void OnFiberStop(UniqueFunction<void()> hook);

// Runs whenever the fiber is about to wait, or yields (by itself, or at the end of its time slice), even if nobody else
// is ready; not before a wait that need not wait. A call into the main context of a FiberLoop, and the eager start of a
// task, count, too. Several hooks run in the order in which they were set. A hook that waits, yields, finds a lock
// taken or sets another hook of this kind ends the process.
void OnFiberYield(UniqueFunction<void()> hook);

}  // namespace weft

#endif  // WEFT_FIBER_THIS_FIBER_H_
