// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TestTime: tells a test clock (fiber/test_clock.h) when it may move time, and how far: who runs, who waits for what.
//
//   runners      workers that are not asleep: TestTimeRun, TestTimeRest
//   holds        blocking calls, which run where nobody sees them: TestTimeHold
//   waits        TestTimeWait: plain threads in ParkUntil(), and FiberLoops that wait (fiber/loop/loop_core.h)
//
// One thread, the clock (fiber/test_clock.cc), moves the time:
//
//     clock                                         worker
//     -----                                         ------
//     lock                                          lock; runners - 1; unlock; wakes the clock if it was the last
//     no runner, no hold, no work? close the gate   sleeps
//     unlock                                        is woken: lock; runners + 1; waits while the gate is closed; unlock
//     move the time, fire what is due
//     lock, open the gate, unlock
//
// Invariants
//   TT1  Time changes, and the runtime's timers fire, only while the gate is closed: then no worker runs a fiber, takes
//        one from a queue, or takes a descriptor's event. So a running fiber never sees time move, and one worker finds
//        what became due together in its queue, in order. (A FiberLoop's timers fire on its thread, which is a runner
//        then.)
//   TT2  Whoever lets time move (by a rest, the end of a hold, a wait with a deadline, a new timer) tells the clock
//        afterwards.
//   TT3  Without a test clock nothing here is called but HasTestTime(), in inline functions.
//   TT4  A TestTimeWait that was woken counts as a runner until EndWait(). A worker counts as one before it waits for
//        the gate to open. So a wake-up that the clock has seen is over before time moves again.
//   TT5  A forked child has no test clock: it has no such thread.
// Any thread may call anything that is not marked as the clock's.
#ifndef WEFT_BASE_TIME_TEST_TIME_H_
#define WEFT_BASE_TIME_TEST_TIME_H_

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "weft/base/fiber_clock.h"
#include "weft/base/memory/intrusive_list.h"
#include "weft/base/thread/parker.h"
#include "weft/base/time/clock.h"

namespace weft::base {

// A wait outside of the workers. The clock calls its functions, under TestTime's lock.
class TestTimeWait {
 public:
  // Whether it was woken, or is about to be (TT4).
  virtual bool WasWoken() const noexcept = 0;
  // Its deadline has come: wakes it, if nobody else has.
  virtual void Expire() noexcept = 0;

  FiberClock::time_point deadline = FiberClock::time_point::max();
  ListHook hook{};

 protected:
  ~TestTimeWait() = default;
};

// The caller is a runner, and is none while it waits; or it is a plain thread.
enum class Waits { kRunner, kThread };
bool ParkInTestTime(Parker* parker, FiberClock::time_point deadline, Waits who) noexcept;

// As Parker::ParkUntil(), for a deadline by FiberClock.
[[nodiscard]] inline bool ParkUntil(Parker* parker, FiberClock::time_point deadline) noexcept {
  return HasTestTime() ? ParkInTestTime(parker, deadline, Waits::kThread) : parker->ParkUntil(deadline);
}

// FiberClock, for code that takes a Clock.
class FiberTime final : public Clock {
 public:
  TimePoint now() const noexcept override { return FiberClock::now(); }
};
inline constinit FiberTime the_fiber_time;

class TestTime {
 public:
  static constexpr FiberClock::time_point kNever = FiberClock::time_point::max();

  TestTime() = delete;

  // Begin(): there is a test clock, which shows the steady clock's present. End(): none. Neither while a runtime runs.
  static void Begin() noexcept;
  static void End() noexcept;

  // Something may let time move (TT2).
  static void TellClock() noexcept;

  // --- The clock's ---

  // The calling thread is the clock's from now on. It may not wait for time itself: that ends the process.
  static void BecomeClockThread() noexcept;
  static bool IsClockThread() noexcept;

  // Until TellClock(), or a time of the steady clock. False: it has passed.
  [[nodiscard]] static bool AwaitNews(std::chrono::steady_clock::time_point until) noexcept;

  // How things stand while they are locked.
  struct Standing {
    std::size_t runners = 0;
    std::size_t holds = 0;
    FiberClock::time_point next_of_waits = kNever;  // the first of their deadlines
  };
  [[nodiscard]] static std::unique_lock<std::mutex> Lock() noexcept;
  static Standing Look() noexcept;  // Locked.
  // Locked: no worker gets up, until OpenGate().
  static void CloseGate() noexcept;
  static void OpenGate() noexcept;  // Not locked.
  // While the gate is closed.
  static void MoveTo(FiberClock::time_point now) noexcept;
  // The waits whose deadline has come end.
  static void ExpireWaits() noexcept;

  // --- Who waits. It tells the clock of its wait (TT2) ---

  static void BeginWait(TestTimeWait* wait, Waits who) noexcept;
  // Returns while the gate is open, as Ran().
  static void EndWait(TestTimeWait* wait, Waits who) noexcept;

  // --- For the classes below ---
  static void Ran() noexcept;
  static void Rested() noexcept;
  static void Held() noexcept;
  static void Released() noexcept;
};

// A worker's thread, while it lives.
class TestTimeRun {
 public:
  TestTimeRun() noexcept : counted_(HasTestTime()) {
    if (counted_) TestTime::Ran();
  }
  ~TestTimeRun() {
    if (counted_) TestTime::Rested();
  }
  TestTimeRun(const TestTimeRun&) = delete;
  TestTimeRun& operator=(const TestTimeRun&) = delete;

 private:
  const bool counted_;
};

// The same worker, while it sleeps: it does nothing, neither to fibers nor to descriptors.
class TestTimeRest {
 public:
  TestTimeRest() noexcept : counted_(HasTestTime()) {
    if (counted_) TestTime::Rested();
  }
  ~TestTimeRest() {
    if (counted_) TestTime::Ran();
  }
  TestTimeRest(const TestTimeRest&) = delete;
  TestTimeRest& operator=(const TestTimeRest&) = delete;

 private:
  const bool counted_;
};

// While one lives time does not go on by itself. A fiber or a thread; it may end on another thread.
class TestTimeHold {
 public:
  TestTimeHold() noexcept : counted_(HasTestTime()) {
    if (counted_) TestTime::Held();
  }
  ~TestTimeHold() {
    if (counted_) TestTime::Released();
  }
  TestTimeHold(const TestTimeHold&) = delete;
  TestTimeHold& operator=(const TestTimeHold&) = delete;

 private:
  const bool counted_;
};

}  // namespace weft::base

#endif  // WEFT_BASE_TIME_TEST_TIME_H_
