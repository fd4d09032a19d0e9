// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// TestClockCore: the thread that moves the time of a TestClock, and fires the timers of all groups.
//
//     loop:  do workers rest, and is nothing ready?  no: wait for news (TestTime::TellClock), look again
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

#include "weft/fiber/test_clock.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/watcher_acts.h"
#include "weft/base/time/test_time.h"
#include "weft/fiber/runtime.h"
#include "weft/scheduling_group/group/loop_groups.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft {

namespace fiber::detail {

namespace {

using base::TestTime;

// After so long without a step, though something waits for time, the log says why; and again after each ten times that.
constexpr std::chrono::seconds kComplainAfter{3};
// When Remove() begins to complain of a callback that blocks the thread; again every ten times as long.
constexpr std::chrono::seconds kComplainOfCallbackAfter{1};

}  // namespace

class TestClockCore final : public timer::TimerDriver {
 public:
  using TimePoint = FiberClock::time_point;

  TestClockCore();
  ~TestClockCore();
  TestClockCore(const TestClockCore&) = delete;
  TestClockCore& operator=(const TestClockCore&) = delete;

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

// The child has no thread for it, and no test clock (TT5 in base/time/test_time.h).
void TestClockCore::ForgetInChild() noexcept { current_.store(nullptr, std::memory_order_relaxed); }

TestClockCore::TestClockCore() {
  static const int at_fork = ::pthread_atfork(nullptr, nullptr, &ForgetInChild);
  WEFT_CHECK(at_fork == 0, "TestClock: no memory");
  TestTime::Begin();
  try {
    thread_ = std::thread([this] { ThreadMain(); });
  } catch (...) {
    TestTime::End();
    throw;
  }
  current_.store(this, std::memory_order_release);
}

TestClockCore::~TestClockCore() {
  if (!is_current()) {
    // It is the parent's. Neither joined nor detached: a thread of the child may have its number.
    static_cast<void>(std::make_unique<std::thread>(std::move(thread_)).release());
    return;
  }
  stopping_.store(true, std::memory_order_relaxed);  // The parker orders it.
  TestTime::TellClock();
  thread_.join();
  current_.store(nullptr, std::memory_order_relaxed);  // Nobody asks while no runtime starts.
  TestTime::End();
}

void TestClockCore::SetAutoAdvance(bool on) noexcept {
  auto_advance_.store(on, std::memory_order_relaxed);  // The parker orders it.
  TestTime::TellClock();
}

void TestClockCore::Advance(std::chrono::nanoseconds by) {
  WEFT_CHECK(is_current(), "TestClock::Advance: the process has been forked since: it has no test clock");
  WEFT_CHECK(!TestTime::IsClockThread(),
             "TestClock::Advance: called by a timer's callback, which runs on the thread that moves the time");
  if (by.count() <= 0) return;
  const auto end = Deadline::After(by, FiberClock::now());
  WEFT_CHECK(!end.is_none(), "TestClock::Advance: so long that no time point is left");
  Advancing advancing{.end = end.time_point(), .done = {}};
  {
    const std::lock_guard lock(requests_mutex_);
    advances_.push_back(&advancing);
  }
  TestTime::TellClock();
  // No cancellation point: the clock knows what is on our stack.
  synchronization::WaitAccess::WaitUncancelled(advancing.done);
}

void TestClockCore::Add(timer::TimerWorker* timers) {
  const std::lock_guard lock(mutex_);
  clients_.push_back({.timers = timers});
}

void TestClockCore::StopFiring(timer::TimerWorker* timers) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_, std::defer_lock);
  const MachineTime begin = Clock::now();
  MachineTime complain_at = begin + kComplainOfCallbackAfter;
  while (!lock.try_lock()) {  // Not by a timed lock: TSan does not know all of them.
    if (Clock::now() >= complain_at) {
      timers->ComplainOfStop(std::chrono::duration_cast<std::chrono::milliseconds>(complain_at - begin));
      complain_at += 10 * kComplainOfCallbackAfter;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (Client& client : clients_) {
    if (client.timers == timers) client.fires = false;
  }
}

void TestClockCore::Remove(timer::TimerWorker* timers) {
  const std::lock_guard lock(mutex_);
  std::erase_if(clients_, [timers](const Client& client) { return client.timers == timers; });
}

void TestClockCore::BeginDrain(Deadline until, std::chrono::nanoseconds at_most) {
  {
    const std::lock_guard lock(requests_mutex_);
    drain_ = {.under_way = true,
              .until = until.time_point(),
              .give_up_at = Deadline::After(at_most, std::chrono::steady_clock::now()).time_point()};
  }
  TestTime::TellClock();
}

void TestClockCore::EndDrain() {
  const std::lock_guard lock(requests_mutex_);
  drain_ = {};
}

TestClockCore::MachineTime TestClockCore::GiveUpDrainAt() {
  const std::lock_guard lock(requests_mutex_);
  return drain_.give_up_at;
}

void TestClockCore::GiveUpDrain() {
  TimePoint until;
  {
    const std::lock_guard lock(requests_mutex_);
    if (!drain_.under_way) return;
    until = drain_.until;
    drain_.give_up_at = MachineTime::max();
  }
  if (until > FiberClock::now()) TestTime::MoveTo(until);  // TD4
  TestTime::ExpireWaits();
}

void TestClockCore::ThreadMain() {
  ::pthread_setname_np(::pthread_self(), "FiberTestClock");
  scheduling_group::SetThreadMayWait(false);
  TestTime::BecomeClockThread();
  using Clock = std::chrono::steady_clock;
  std::chrono::nanoseconds complain_after = kComplainAfter;
  MachineTime moved_at = Clock::now();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Obstacle obstacle = Step();
    if (obstacle == Obstacle::kNone || !something_waits_) {
      complain_after = kComplainAfter;
      moved_at = Clock::now();
      if (obstacle == Obstacle::kNone) continue;
    }
    const MachineTime give_up_at = GiveUpDrainAt();
    const MachineTime complain_at = moved_at + complain_after;
    if (TestTime::AwaitNews(std::min(complain_at, give_up_at))) continue;
    const MachineTime now = Clock::now();
    if (now >= give_up_at) GiveUpDrain();
    if (now < complain_at) continue;
    Complain(obstacle);
    complain_after *= 10;
  }
}

TestClockCore::Requests TestClockCore::LookAtRequests() {
  const std::lock_guard lock(requests_mutex_);
  Requests requests{.drains = drain_.under_way};
  for (const Advancing* advancing : advances_) {
    requests.end_of_first = std::min(requests.end_of_first, advancing->end);
    requests.end_of_last = std::max(requests.end_of_last, advancing->end);
  }
  return requests;
}

TestClockCore::Obstacle TestClockCore::Step() {
  const base::WatcherActs acts;
  const std::lock_guard guard(mutex_);
  std::unique_lock lock = TestTime::Lock();
  const TestTime::Standing standing = TestTime::Look();
  const Requests requests = LookAtRequests();
  const TimePoint next = std::min(NextOfTimers(), standing.next_of_waits);
  const TimePoint first = std::min(next, requests.end_of_first);
  something_waits_ = first != TestTime::kNever;
  if (standing.runners != 0) return Obstacle::kFibersRun;
  if (const Obstacle obstacle = ObstacleOfGroups(); obstacle != Obstacle::kNone) return obstacle;
  if (!something_waits_) return Obstacle::kNothingToWaitFor;
  const TimePoint now = FiberClock::now();
  if (first > std::max(now, requests.end_of_last)) {  // TD3
    if (!auto_advance_.load(std::memory_order_relaxed) && !requests.drains) {
      something_waits_ = false;  // As it was told.
      return Obstacle::kNothingToWaitFor;
    }
    if (standing.holds != 0) return Obstacle::kBlockingCalls;
  }
  TestTime::CloseGate();
  lock.unlock();
  if (first > now) TestTime::MoveTo(first);
  if (next <= std::max(first, now)) {
    Fire(std::max(first, now));
  } else {
    EndAdvance(std::max(first, now));  // TD2
  }
  TestTime::OpenGate();
  return Obstacle::kNone;
}

// No worker runs.
TestClockCore::Obstacle TestClockCore::ObstacleOfGroups() const {
  for (const Client& client : clients_) {
    scheduling_group::SchedulingGroup* group = client.timers->group();
    if (group == nullptr) continue;
    // A fiber without a stack is no obstacle: it may wait for those that sleep to give theirs back.
    if (group->policy().HasWork()) return Obstacle::kFibersAreReady;
    scheduling_group::Reactor* poller = group->reactor();
    if (poller != nullptr && poller->HasEvents()) return Obstacle::kEvents;
  }
  return Obstacle::kNone;
}

TestClockCore::TimePoint TestClockCore::NextOfTimers() const {
  timer::Tick earliest = timer::kNever;
  for (const Client& client : clients_) {
    if (client.fires) earliest = std::min(earliest, client.timers->NextTimer());
  }
  if (earliest == timer::kNever) return TestTime::kNever;
  return TimePoint(std::chrono::nanoseconds(static_cast<std::int64_t>(earliest)));
}

void TestClockCore::Fire(TimePoint now) {
  for (const Client& client : clients_) {
    if (client.fires && client.timers->NextTimer() <= timer::TickOfNow(now)) client.timers->RunDueFor();
  }
  TestTime::ExpireWaits();
}

bool TestClockCore::EndAdvance(TimePoint now) {
  Advancing* ended = nullptr;
  {
    const std::lock_guard lock(requests_mutex_);
    const auto found =
        std::find_if(advances_.begin(), advances_.end(), [now](const Advancing* a) { return a->end <= now; });
    if (found == advances_.end()) return false;
    ended = *found;
    advances_.erase(found);
  }
  ended->done.Set();
  return true;
}

void TestClockCore::Complain(Obstacle obstacle) {
  if (!something_waits_) return;
  const char* why = "";
  switch (obstacle) {
    case Obstacle::kNone:
    case Obstacle::kNothingToWaitFor:
      return;
    case Obstacle::kFibersRun:
      why =
          "a fiber runs, or polls with FiberYield(), or a thread that was woken has not gone on; or nobody runs a "
          "FiberLoop whose descriptor is readable";
      break;
    case Obstacle::kFibersAreReady:
      why = "a fiber is ready and gets no worker";
      break;
    case Obstacle::kEvents:
      why = "a descriptor has an event that nobody takes";
      break;
    case Obstacle::kBlockingCalls:
      why = "a FiberBlocking() call runs; if it waits for time itself, call Advance()";
      break;
  }
  WEFT_LOG(WARNING, "TestClock: time stands still, though something waits for it: ", why);
}

}  // namespace fiber::detail

namespace {

std::unique_ptr<fiber::detail::TestClockCore> MakeCore() {
  WEFT_CHECK(!IsRuntimeRunning(),
             "TestClock: it is made while the runtime runs, whose timers follow the steady clock: make it before "
             "StartRuntime(), or before RunAsFiber() where that starts the runtime (not under WEFT_TEST_MAIN)");
  WEFT_CHECK(scheduling_group::LoopGroups::Borrowed() == 0,
             "TestClock: it is made while there is a FiberLoop, whose timers follow the steady clock");
  return std::make_unique<fiber::detail::TestClockCore>();
}

}  // namespace

TestClock::TestClock() : core_(MakeCore()) {}

TestClock::~TestClock() {
  if (!core_->is_current()) return;  // Of a forked child, which has no test clock.
  WEFT_CHECK(!IsRuntimeRunning(), "TestClock: it is destroyed while the runtime runs: call TerminateRuntime() before");
  WEFT_CHECK(scheduling_group::LoopGroups::Borrowed() == 0,
             "TestClock: it is destroyed while there is a FiberLoop, whose timers follow it");
}

void TestClock::SetAutoAdvance(bool on) noexcept { core_->SetAutoAdvance(on); }

void TestClock::AdvanceBy(std::chrono::nanoseconds by) { core_->Advance(by); }

}  // namespace weft
