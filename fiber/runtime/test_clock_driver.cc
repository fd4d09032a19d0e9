// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/test_clock_driver.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/thread_may_wait.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::fiber::detail {
namespace {

using base::TestTime;

// After so long without a step, though something waits for time, the log says why; and again after each ten times that.
constexpr std::chrono::seconds kComplainAfter{3};
// When Remove() begins to complain of a callback that blocks the thread; again every ten times as long.
constexpr std::chrono::seconds kComplainOfCallbackAfter{1};

}  // namespace

// The child has no driver: it has no test clock (TT5 in base/time/test_time.h).
void TestClockDriver::ForgetInChild() noexcept { current_.store(nullptr, std::memory_order_relaxed); }

TestClockDriver::TestClockDriver() {
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

TestClockDriver::~TestClockDriver() {
  if (!is_current()) {
    // It is the parent's. Neither joined nor detached: a thread of the child may have its number.
    static_cast<void>(std::make_unique<std::thread>(std::move(thread_)).release());
    return;
  }
  stopping_.store(true, std::memory_order_relaxed);  // The parker orders it.
  TestTime::TellDriver();
  thread_.join();
  current_.store(nullptr, std::memory_order_relaxed);  // Nobody asks while no runtime starts.
  TestTime::End();
}

void TestClockDriver::SetAutoAdvance(bool on) noexcept {
  auto_advance_.store(on, std::memory_order_relaxed);  // The parker orders it.
  TestTime::TellDriver();
}

void TestClockDriver::Advance(std::chrono::nanoseconds by) {
  WEFT_CHECK(is_current(), "TestClock::Advance: the process has been forked since: it has no test clock");
  WEFT_CHECK(!TestTime::IsDriver(),
             "TestClock::Advance: called by a timer's callback, which runs on the thread that moves the time");
  if (by.count() <= 0) return;
  const auto end = Deadline::After(by, FiberClock::now());
  WEFT_CHECK(!end.is_none(), "TestClock::Advance: so long that no time point is left");
  Advancing advancing{.end = end.time_point(), .done = {}};
  {
    const std::lock_guard lock(requests_mutex_);
    advances_.push_back(&advancing);
  }
  TestTime::TellDriver();
  // No cancellation point: the driver knows what is on our stack.
  synchronization::WaitAccess::WaitUncancelled(advancing.done);
}

void TestClockDriver::Add(timer::TimerWorker* timers) {
  const std::lock_guard lock(mutex_);
  clients_.push_back({.timers = timers});
}

void TestClockDriver::StopFiring(timer::TimerWorker* timers) {
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

void TestClockDriver::Remove(timer::TimerWorker* timers) {
  const std::lock_guard lock(mutex_);
  std::erase_if(clients_, [timers](const Client& client) { return client.timers == timers; });
}

void TestClockDriver::BeginDrain(Deadline until, std::chrono::nanoseconds at_most) {
  {
    const std::lock_guard lock(requests_mutex_);
    drain_ = {.under_way = true,
              .until = until.time_point(),
              .give_up_at = Deadline::After(at_most, std::chrono::steady_clock::now()).time_point()};
  }
  TestTime::TellDriver();
}

void TestClockDriver::EndDrain() {
  const std::lock_guard lock(requests_mutex_);
  drain_ = {};
}

TestClockDriver::MachineTime TestClockDriver::GiveUpDrainAt() {
  const std::lock_guard lock(requests_mutex_);
  return drain_.give_up_at;
}

void TestClockDriver::GiveUpDrain() {
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

void TestClockDriver::ThreadMain() {
  ::pthread_setname_np(::pthread_self(), "FiberTestClock");
  scheduling_group::SetThreadMayWait(false);
  TestTime::Drive();
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

TestClockDriver::Requests TestClockDriver::LookAtRequests() {
  const std::lock_guard lock(requests_mutex_);
  Requests requests{.drains = drain_.under_way};
  for (const Advancing* advancing : advances_) {
    requests.end_of_first = std::min(requests.end_of_first, advancing->end);
    requests.end_of_last = std::max(requests.end_of_last, advancing->end);
  }
  return requests;
}

TestClockDriver::Obstacle TestClockDriver::Step() {
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
TestClockDriver::Obstacle TestClockDriver::ObstacleOfGroups() const {
  for (const Client& client : clients_) {
    scheduling_group::SchedulingGroup* group = client.timers->group();
    if (group == nullptr) continue;
    // A fiber without a stack is no obstacle: it may wait for those that sleep to give theirs back.
    if (group->policy().HasWork()) return Obstacle::kFibersAreReady;
    scheduling_group::IdlePoller* poller = group->idle_poller();
    if (poller != nullptr && poller->HasEvents()) return Obstacle::kEvents;
  }
  return Obstacle::kNone;
}

TestClockDriver::TimePoint TestClockDriver::NextOfTimers() const {
  timer::Tick earliest = timer::kNever;
  for (const Client& client : clients_) {
    if (client.fires) earliest = std::min(earliest, client.timers->NextTimer());
  }
  if (earliest == timer::kNever) return TestTime::kNever;
  return TimePoint(std::chrono::nanoseconds(static_cast<std::int64_t>(earliest)));
}

void TestClockDriver::Fire(TimePoint now) {
  for (const Client& client : clients_) {
    if (client.fires && client.timers->NextTimer() <= timer::TickOfNow(now)) client.timers->RunDueFor();
  }
  TestTime::ExpireWaits();
}

bool TestClockDriver::EndAdvance(TimePoint now) {
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

void TestClockDriver::Complain(Obstacle obstacle) {
  if (!something_waits_) return;
  const char* why = "";
  switch (obstacle) {
    case Obstacle::kNone:
    case Obstacle::kNothingToWaitFor:
      return;
    case Obstacle::kFibersRun:
      why =
          "a fiber runs, or polls with FiberYield(), or a thread that was woken has not gone on; or nobody drives a "
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

}  // namespace weft::fiber::detail
