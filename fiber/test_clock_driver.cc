// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/test_clock_driver.h"

#include <pthread.h>

#include <algorithm>
#include <string>

#include "weft/base/check.h"
#include "weft/base/deadline.h"
#include "weft/base/log.h"
#include "weft/base/str_cat.h"
#include "weft/scheduling_group/scheduling_group.h"
#include "weft/scheduling_group/thread_may_wait.h"

namespace weft::fiber::detail {
namespace {

using base::TestTime;

// After so long without a step, though something waits for time, the log says why; and again after each ten times that.
constexpr std::chrono::seconds kComplainAfter{3};

constinit std::atomic<TestClockDriver*> the_driver{nullptr};

}  // namespace

TestClockDriver* TestClockDriver::Current() noexcept { return the_driver.load(std::memory_order_acquire); }

TestClockDriver::TestClockDriver() {
  TestTime::Begin();
  // release: the object. Pairs with the acquire in Current().
  the_driver.store(this, std::memory_order_release);
  thread_ = std::thread([this] { ThreadMain(); });
}

TestClockDriver::~TestClockDriver() {
  stopping_.store(true, std::memory_order_relaxed);  // The parker orders it.
  TestTime::TellDriver();
  thread_.join();
  the_driver.store(nullptr, std::memory_order_relaxed);  // Nobody asks while no runtime starts.
  TestTime::End();
}

void TestClockDriver::SetAutoAdvance(bool on) noexcept {
  auto_advance_.store(on, std::memory_order_relaxed);  // The parker orders it.
  TestTime::TellDriver();
}

void TestClockDriver::Advance(std::chrono::nanoseconds by) {
  if (by.count() <= 0) return;
  const auto end = Deadline::After(by, FiberClock::now());
  WEFT_CHECK(!end.is_none(), "TestClock::Advance: so long that no time point is left");
  Advancing advancing{.end = end.time_point(), .done = {}};
  {
    const std::lock_guard lock(advances_mutex_);
    advances_.push_back(&advancing);
  }
  TestTime::TellDriver();
  advancing.done.Wait();
}

void TestClockDriver::Add(timer::TimerWorker* timers) {
  const std::lock_guard lock(mutex_);
  timers_.push_back(timers);
}

void TestClockDriver::Remove(timer::TimerWorker* timers) {
  const std::lock_guard lock(mutex_);
  std::erase(timers_, timers);
}

void TestClockDriver::ThreadMain() {
  ::pthread_setname_np(::pthread_self(), "FiberTestClock");
  scheduling_group::SetThreadMayWait(false);
  std::chrono::nanoseconds complain_after = kComplainAfter;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Obstacle obstacle = Step();
    if (obstacle == Obstacle::kNone) {
      complain_after = kComplainAfter;
      continue;
    }
    if (TestTime::AwaitNews(std::chrono::steady_clock::now() + complain_after)) continue;
    Complain(obstacle);
    complain_after *= 10;
  }
}

TestClockDriver::Obstacle TestClockDriver::Step() {
  const std::lock_guard guard(mutex_);
  std::unique_lock lock = TestTime::Lock();
  const TestTime::Standing standing = TestTime::Look();
  TimePoint end_of_first = TestTime::kNever;
  TimePoint end_of_last = TimePoint::min();
  {
    const std::lock_guard advances(advances_mutex_);
    for (const Advancing* advancing : advances_) {
      end_of_first = std::min(end_of_first, advancing->end);
      end_of_last = std::max(end_of_last, advancing->end);
    }
  }
  const TimePoint next = std::min(NextOfTimers(), standing.next_of_waits);
  const TimePoint first = std::min(next, end_of_first);
  something_waits_ = first != TestTime::kNever;
  if (standing.runners != 0) return Obstacle::kFibersRun;
  if (const Obstacle obstacle = ObstacleOfGroups(); obstacle != Obstacle::kNone) return obstacle;
  if (!something_waits_) return Obstacle::kNothingToWaitFor;
  const TimePoint now = FiberClock::now();
  if (first > std::max(now, end_of_last)) {  // TD3
    if (!auto_advance_.load(std::memory_order_relaxed)) {
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
  for (const timer::TimerWorker* timers : timers_) {
    scheduling_group::SchedulingGroup* group = timers->group();
    if (group == nullptr) continue;
    if (group->policy().HasWork() || group->HasFibersWithoutStack()) return Obstacle::kFibersAreReady;
    scheduling_group::IdlePoller* poller = group->idle_poller();
    if (poller != nullptr && poller->HasEvents()) return Obstacle::kEvents;
  }
  return Obstacle::kNone;
}

TestClockDriver::TimePoint TestClockDriver::NextOfTimers() const {
  timer::Tick earliest = timer::kNever;
  for (const timer::TimerWorker* timers : timers_) earliest = std::min(earliest, timers->NextTimer());
  if (earliest == timer::kNever) return TestTime::kNever;
  return TimePoint(std::chrono::nanoseconds(static_cast<std::int64_t>(earliest)));
}

void TestClockDriver::Fire(TimePoint now) {
  for (timer::TimerWorker* timers : timers_) {
    if (timers->NextTimer() <= timer::TickOfNow(now)) timers->RunDueFor();
  }
  TestTime::ExpireWaits();
}

bool TestClockDriver::EndAdvance(TimePoint now) {
  Advancing* ended = nullptr;
  {
    const std::lock_guard lock(advances_mutex_);
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
      why = "a fiber runs, or polls with FiberYield(); or nobody drives a FiberLoop whose descriptor is readable";
      break;
    case Obstacle::kFibersAreReady:
      why = "a fiber is ready and gets no worker, or no stack";
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
