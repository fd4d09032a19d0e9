// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/test_time.h"

#include <algorithm>
#include <condition_variable>

#include "weft/base/check.h"

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
  Parker driver;
  // Guarded by `mutex`.
  bool gate_closed = false;
  std::size_t runners = 0;
  std::size_t holds = 0;
  IntrusiveList<TestTimeWait, &TestTimeWait::hook> waits;
};

// Never destroyed: threads may outlive the end of main().
State& TheState() {
  static auto* const state = new State;
  return *state;
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
  const std::lock_guard lock(TheState().mutex);
  WEFT_CHECK(!HasTestTime(), "TestClock: there is one already");
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

void TestTime::TellDriver() noexcept { (void)TheState().driver.Unpark(); }

bool TestTime::AwaitNews(std::chrono::steady_clock::time_point until) noexcept {
  return TheState().driver.ParkUntil(until);
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
    state.waits.push_back(wait);
    if (who == Waits::kRunner) --state.runners;
  }
  TellDriver();  // TT2
}

void TestTime::EndWait(TestTimeWait* wait, Waits who) noexcept {
  State& state = TheState();
  {
    std::unique_lock lock(state.mutex);
    if (who == Waits::kRunner) {
      state.gate_opened.wait(lock, [&] { return !state.gate_closed; });  // TT1
      ++state.runners;
    }
    state.waits.erase(wait);
  }
  if (who == Waits::kThread) TellDriver();  // TT4
}

void TestTime::Ran() noexcept {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  state.gate_opened.wait(lock, [&] { return !state.gate_closed; });  // TT1
  ++state.runners;
}

void TestTime::Rested() noexcept {
  State& state = TheState();
  bool last;
  {
    const std::lock_guard lock(state.mutex);
    last = --state.runners == 0;
  }
  if (last) TellDriver();  // TT2
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
  TellDriver();  // TT2
}

}  // namespace weft::base
