// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TestClock: time for tests. It stands still while anything runs, and jumps to the next deadline when nothing does: an
// hour of retries, sleeps and time-outs takes milliseconds, and takes exactly an hour.
// Sample:
//   TEST(Client, GivesUpAfterAnHour) {
//     weft::TestClock clock;                               // before the runtime
//     weft::RunAsFiber([&] {
//       const auto begin = clock.Now();
//       EXPECT_FALSE(client.CallWithRetries());            // sleeps 1 s, 2 s, 4 s ... between its calls
//       EXPECT_EQ(clock.Now() - begin, 1h);
//     });
//   }
//
// A process has one at a time, made before the runtime and any FiberLoop and destroyed after them; else it ends with a
// message. Plain threads make and destroy it; any fiber and any thread may call its functions. It begins at the steady
// clock's present. What follows it, what does not, how it treats FiberLoops, and the traps: docs/test-clock.md.
#ifndef WEFT_FIBER_TEST_CLOCK_H_
#define WEFT_FIBER_TEST_CLOCK_H_

#include <memory>

#include "weft/base/fiber_clock.h"
#include "weft/base/time/clock.h"

namespace weft {

namespace fiber::detail {
class TestClockCore;
}

class TestClock {
 public:
  // Those of the steady clock.
  using TimePoint = FiberClock::time_point;

  // Time stands still from now on. By a plain thread, without a runtime or a FiberLoop; else the process ends.
  TestClock();
  ~TestClock();
  TestClock(const TestClock&) = delete;
  TestClock& operator=(const TestClock&) = delete;

  // The same as FiberClock::now().
  TimePoint Now() const noexcept { return FiberClock::now(); }

  // Whether time jumps by itself (as it does in the beginning), or moves by Advance() only.
  void SetAutoAdvance(bool on) noexcept;

  // Moves time by a duration above 0, in steps: at each deadline on the way what is due happens, and runs until all
  // workers but the caller's sleep again. It waits for fibers that run, but not for FiberBlocking() calls. A fiber
  // parks meanwhile, a thread blocks.
  template <class Rep, class Period>
  void Advance(std::chrono::duration<Rep, Period> by) {
    AdvanceBy(base::SaturatingNanoseconds(by));
  }

 private:
  void AdvanceBy(std::chrono::nanoseconds by);

  const std::unique_ptr<fiber::detail::TestClockCore> core_;
};

namespace fiber {
using weft::TestClock;  // docs/from_trpc.md
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_TEST_CLOCK_H_
