// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/time/test_time.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <thread>

#include "weft/base/report/check.h"

namespace weft::base {
namespace {

// A thread that is parked. On its stack.
class ParkedThread final : public TestTimeWait {
 public:
  explicit ParkedThread(Parker* parker) : parker_(*parker) {}
  bool WasWoken() const noexcept override { return !parker_.is_parked(); }
  void Expire() noexcept override { (void)parker_.Expire(); }  // False: a waker was faster, or it is on its way.

 private:
  Parker& parker_;
};

struct State {
  std::mutex mutex;
  std::condition_variable gate_opened;
  Parker clock_parker;
  // Guarded by `mutex`.
  std::thread::id clock_thread;
  bool gate_closed = false;
  std::size_t runners = 0;
  std::size_t holds = 0;
  IntrusiveList<TestTimeWait, &TestTimeWait::hook> waits;
};

// Never destroyed: threads may outlive the end of main(). nullptr: there has been no test clock.
constinit std::atomic<State*> the_state{nullptr};

State& TheState() noexcept {
  // acquire: the object. Pairs with the release in Begin().
  return *the_state.load(std::memory_order_acquire);
}

// TT5. The locks may have been held by threads that the child does not have.
void ForgetTestTime() noexcept {
  the_state.store(nullptr, std::memory_order_relaxed);
  test_time_ns.store(0, std::memory_order_relaxed);
}

}  // namespace

bool ParkInTestTime(Parker* parker, FiberClock::time_point deadline, Waits who) noexcept {
  if (deadline <= FiberClock::now()) return parker->ParkUntil(FiberClock::time_point::min());
  ParkedThread wait(parker);
  wait.deadline = deadline;
  bool waits = false;
  const bool unparked = parker->ParkUntilExpired([&] {
    waits = true;
    TestTime::BeginWait(&wait, who);
  });
  if (waits) TestTime::EndWait(&wait, who);
  return unparked;
}

void TestTime::Begin() noexcept {
  WEFT_CHECK(!HasTestTime(), "TestClock: there is one already");
  if (the_state.load(std::memory_order_acquire) == nullptr) {
    static const int at_fork = ::pthread_atfork(nullptr, nullptr, &ForgetTestTime);
    WEFT_CHECK(at_fork == 0, "TestClock: no memory");
    // release: pairs with the acquire in TheState().
    the_state.store(std::make_unique<State>().release(), std::memory_order_release);
  }
  // Never 0: that is no test time.
  const auto now = std::max<std::int64_t>(std::chrono::steady_clock::now().time_since_epoch().count(), 1);
  test_time_ns.store(now, std::memory_order_relaxed);
}

void TestTime::End() noexcept {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  WEFT_CHECK(state.waits.empty(), "TestClock: it is destroyed while a thread waits with a deadline");
  WEFT_CHECK(state.runners == 0, "TestClock: it is destroyed while a runtime runs");
  state.holds = 0;  // Of fibers that a runtime has left behind.
  test_time_ns.store(0, std::memory_order_relaxed);
}

void TestTime::BecomeClockThread() noexcept {
  const std::lock_guard lock(TheState().mutex);
  TheState().clock_thread = std::this_thread::get_id();
}

bool TestTime::IsClockThread() noexcept {
  const std::lock_guard lock(TheState().mutex);
  return TheState().clock_thread == std::this_thread::get_id();
}

void TestTime::TellClock() noexcept { (void)TheState().clock_parker.Unpark(); }

bool TestTime::AwaitNews(std::chrono::steady_clock::time_point until) noexcept {
  return TheState().clock_parker.ParkUntil(until);
}

std::unique_lock<std::mutex> TestTime::Lock() noexcept { return std::unique_lock(TheState().mutex); }

TestTime::Standing TestTime::Look() noexcept {
  State& state = TheState();
  Standing standing{.runners = state.runners, .holds = state.holds};
  for (const TestTimeWait& wait : state.waits) {
    if (wait.WasWoken()) ++standing.runners;  // TT4
    standing.next_of_waits = std::min(standing.next_of_waits, wait.deadline);
  }
  return standing;
}

void TestTime::CloseGate() noexcept { TheState().gate_closed = true; }

void TestTime::OpenGate() noexcept {
  State& state = TheState();
  {
    const std::lock_guard lock(state.mutex);
    state.gate_closed = false;
  }
  state.gate_opened.notify_all();
}

void TestTime::MoveTo(FiberClock::time_point now) noexcept {
  test_time_ns.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

void TestTime::ExpireWaits() noexcept {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto now = FiberClock::now();
  for (TestTimeWait& wait : state.waits) {
    if (wait.deadline <= now) wait.Expire();
  }
}

void TestTime::BeginWait(TestTimeWait* wait, Waits who) noexcept {
  State& state = TheState();
  {
    const std::lock_guard lock(state.mutex);
    WEFT_CHECK(HasTestTime(), "TestClock: it is destroyed while a thread begins a wait with a deadline");
    WEFT_CHECK(state.clock_thread != std::this_thread::get_id(),
               "TestClock: a timer's callback waits with a deadline: it runs on the thread that moves the time");
    state.waits.push_back(wait);
    if (who == Waits::kRunner) --state.runners;
  }
  TellClock();  // TT2
}

void TestTime::EndWait(TestTimeWait* wait, Waits who) noexcept {
  State& state = TheState();
  {
    std::unique_lock lock(state.mutex);
    state.waits.erase(wait);
    if (who == Waits::kRunner) {
      ++state.runners;                                                   // TT4
      state.gate_opened.wait(lock, [&] { return !state.gate_closed; });  // TT1
    }
  }
  if (who == Waits::kThread) TellClock();  // TT4
}

void TestTime::Ran() noexcept {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  ++state.runners;                                                   // TT4
  state.gate_opened.wait(lock, [&] { return !state.gate_closed; });  // TT1
}

void TestTime::Rested() noexcept {
  State& state = TheState();
  bool last;
  {
    const std::lock_guard lock(state.mutex);
    last = --state.runners == 0;
  }
  if (last) TellClock();  // TT2
}

void TestTime::Held() noexcept {
  const std::lock_guard lock(TheState().mutex);
  ++TheState().holds;
}

void TestTime::Released() noexcept {
  {
    const std::lock_guard lock(TheState().mutex);
    if (TheState().holds != 0) --TheState().holds;
  }
  TellClock();  // TT2
}

}  // namespace weft::base
