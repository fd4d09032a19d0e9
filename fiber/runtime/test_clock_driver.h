// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TestClockDriver: the thread that moves the time of a TestClock, and fires the timers of all groups.
//
//     loop:  do workers rest, and is nothing ready?  no: wait for news (TestTime::TellDriver), look again
//            what is next?  timers and timed waits of threads, or the end of an Advance(), whichever is first
//            may time go there?  by itself, or because of an Advance(); else wait for news
//            close the gate, move the time, fire what is due, open the gate
//
// Invariants
//   TD1  All timers of one instant fire in one closing of the gate, group by group. What they start runs, and rests,
//        before time moves on (TT1 in base/time/test_time.h).
//   TD2  An Advance() ends when nothing else is due at its end, or before. What time it is then does not change before
//        it has returned in a fiber; a thread is not waited for.
//   TD3  Nothing else changes the time, but TD4. Without auto-advance it stops at the last end of an Advance().
//   TD4  The end of a runtime waits no longer on the wall than by the test clock: when that time is over on the wall,
//        the clock jumps to the end of the wait, whoever runs.
//   TD5  Workers are seen until they have ended, also when their timers fire no more: time does not pass over a fiber
//        that a timer's last callback has started.
//
// Lock order: mutex_, then TestTime's, then requests_mutex_. Callbacks of timers run under mutex_: they may ask for the
// time and set timers, and may neither wait with a deadline nor call Advance(), which would wait for themselves.
#ifndef WEFT_FIBER_RUNTIME_TEST_CLOCK_DRIVER_H_
#define WEFT_FIBER_RUNTIME_TEST_CLOCK_DRIVER_H_

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/base/fiber_clock.h"
#include "weft/base/time/clock.h"
#include "weft/base/time/test_time.h"
#include "weft/sync/fiber_event.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::fiber::detail {

class TestClockDriver final : public timer::TimerDriver {
 public:
  using TimePoint = FiberClock::time_point;

  TestClockDriver();
  ~TestClockDriver();
  TestClockDriver(const TestClockDriver&) = delete;
  TestClockDriver& operator=(const TestClockDriver&) = delete;

  // False: the process has been forked since, and has no test clock.
  bool is_current() const noexcept { return Current() == this; }

  // Any thread.
  void SetAutoAdvance(bool on) noexcept;
  // Any thread and any fiber; see TestClock.
  void Advance(std::chrono::nanoseconds by);

  // The thread that starts or ends the runtime.
  void Add(timer::TimerWorker* timers) override;
  void StopFiring(timer::TimerWorker* timers) override;
  void Remove(timer::TimerWorker* timers) override;
  void BeginDrain(Deadline until, std::chrono::nanoseconds at_most) override;
  void EndDrain() override;

 private:
  using MachineTime = std::chrono::steady_clock::time_point;
  struct Client {
    timer::TimerWorker* timers;
    bool fires = true;
  };
  // The end of a runtime (TD4).
  struct Drain {
    bool under_way = false;
    TimePoint until = TimePoint::max();
    MachineTime give_up_at = MachineTime::max();
  };
  // On its caller's stack.
  struct Advancing {
    TimePoint end;
    FiberEvent done;
  };
  enum class Obstacle { kNone, kFibersRun, kFibersAreReady, kEvents, kBlockingCalls, kNothingToWaitFor };
  // What Advance() and the runtime's end have asked for.
  struct Requests {
    TimePoint end_of_first = TimePoint::max();
    TimePoint end_of_last = TimePoint::min();
    bool drains = false;
  };

  static void ForgetInChild() noexcept;

  void ThreadMain();
  Requests LookAtRequests();
  MachineTime GiveUpDrainAt();
  void GiveUpDrain();
  // Obstacle::kNone: it has moved the time, or fired something, or ended an Advance().
  Obstacle Step();
  Obstacle ObstacleOfGroups() const;
  TimePoint NextOfTimers() const;
  void Fire(TimePoint now);
  bool EndAdvance(TimePoint now);
  void Complain(Obstacle obstacle);

  std::atomic<bool> auto_advance_{true};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;                // held in Step()
  std::vector<Client> clients_;     // guarded by mutex_
  std::mutex requests_mutex_;       // a leaf
  std::list<Advancing*> advances_;  // guarded by requests_mutex_; in the order of their calls
  Drain drain_;                     // guarded by requests_mutex_
  bool something_waits_ = false;    // the thread's: there was a deadline to go to
  std::thread thread_;
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_TEST_CLOCK_DRIVER_H_
