// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TestClock: time for tests. It stands still while anything runs, and jumps to the next deadline when nothing does: an
// hour of retries, sleeps and time-outs takes milliseconds, and takes exactly an hour.
// Sample:
//   TEST(Client, GivesUpAfterAnHour) {
//     weft::fiber::TestClock clock;                        // before the runtime
//     weft::fiber::RunAsFiber([&] {
//       const auto begin = clock.Now();
//       EXPECT_FALSE(client.CallWithRetries());            // sleeps 1 s, 2 s, 4 s ... between its calls
//       EXPECT_EQ(clock.Now() - begin, 1h);
//     });
//   }
//
// One at a time, made before the runtime and any FiberLoop, and destroyed after their end; else the process ends with a
// message. The time that it shows is FiberClock::now(); it begins at the steady clock's present.
//
// Time moves when all workers sleep, no fiber is ready, no descriptor that a fiber waits for has an event, no
// FiberBlocking() call runs, and no plain thread that was woken from a timed wait of Weft's is still on its way. Then
// it jumps to the first deadline of a sleep, timed wait or timer, of fibers and of threads, and what is due happens in
// the order of deadlines. Where these are equal, sleeps and timed waits of fibers come first, in the order in which
// they began (with one worker), then timers' callbacks. While a fiber runs it sees no time pass.
//
//   SetAutoAdvance(false)   time moves by Advance() only
//   Advance(d)              it moves by d, in steps: at each deadline on the way what is due happens, and runs until
//                           all workers sleep again. It waits for fibers that run, but not for FiberBlocking() calls.
//
// These follow it: Deadline, FiberClock, FiberSleepFor() and FiberSleepUntil(), timers, the timed waits of all
// primitives, Select(), the deadlines of cancel scopes (FailAfter() and the like), supervisors, periodic tasks and
// throttlers, joins, FiberBlocking(f, deadline), input and output of fibers with a deadline; in fibers and in plain
// threads; FiberLoop; and terminate_timeout, for which time moves by itself (on the wall TerminateRuntime() waits for
// it, too: for a fiber that keeps time from moving).
// These do not follow it: std::chrono's own clocks (a program that measures time asks FiberClock; a steady_clock time
// point is taken for one of the test clock's, another clock's for as far from now as it is from that clock's present);
// time-outs in the kernel (SO_RCVTIMEO, and the poll() by which a plain thread waits for a descriptor); the wait for a
// std::future; gRPC's deadlines; start_timeout, the limits of fiber_limiter.h, time slices, and a mutex's fairness,
// which are about the machine's time.
//
// FiberLoop: time waits for a loop that is driven, but not for its thread while that is elsewhere. A loop whose
// NotifyFd() was asked for is always seen: the descriptor becomes readable when a deadline of the loop comes, and time
// waits until the loop is driven. The deadlines of other loops that are not driven come late, as on the wall.
// NextDeadline() is a time of this clock; longest_run is the machine's.
//
// Traps
//   A fiber that waits for another process, or a thread that it has started, is not seen to wait for anything: a
//   time-out comes at once. Turn auto-advance off, or leave the time-out out.
//   A fiber that polls (`while (!done) FiberYield()`) keeps time from moving; so does a FiberBlocking() call that waits
//   for time itself. A line in the log says after a few seconds of what time stands still for.
//   A plain thread is seen while it is in a timed wait only: where it starts several fibers, time may jump in between;
//   and while it prepares something a periodic timer lets hours pass. Let a fiber do it (RunAsFiber()).
//   Bytes that another socket has sent, and the kernel has not delivered yet, are not seen: a time-out may come first.
//   At the clock's end FiberClock goes back: a Deadline, throttler or periodic task that outlives it waits too long.
//   A callback of CreateFiberTimer() runs on the thread that moves the time: it may neither wait with a deadline nor
//   call Advance(). That ends the process.
//   A forked child has no test clock: it follows the steady clock.
//
// Any thread and any fiber may call its functions, but for the constructor and destructor: plain threads.
#ifndef WEFT_FIBER_TEST_CLOCK_H_
#define WEFT_FIBER_TEST_CLOCK_H_

#include <memory>

#include "weft/base/fiber_clock.h"
#include "weft/base/time/clock.h"

namespace weft::fiber {

namespace detail {
class TestClockDriver;
}

class TestClock {
 public:
  using TimePoint = FiberClock::time_point;

  TestClock();
  ~TestClock();
  TestClock(const TestClock&) = delete;
  TestClock& operator=(const TestClock&) = delete;

  // The same as FiberClock::now().
  TimePoint Now() const noexcept { return FiberClock::now(); }

  // Time jumps by itself, or (false) does not. On in the beginning.
  void SetAutoAdvance(bool on) noexcept;

  // Moves time by a duration above 0, and returns when what was due until then has happened and all workers sleep, but
  // for the caller's. A fiber parks meanwhile, a thread blocks.
  template <class Rep, class Period>
  void Advance(std::chrono::duration<Rep, Period> by) {
    AdvanceBy(base::SaturatingNanoseconds(by));
  }

 private:
  void AdvanceBy(std::chrono::nanoseconds by);

  const std::unique_ptr<detail::TestClockDriver> driver_;
};

}  // namespace weft::fiber

#endif  // WEFT_FIBER_TEST_CLOCK_H_
