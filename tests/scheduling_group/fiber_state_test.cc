// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/fiber_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft::scheduling_group {
namespace {

// Brings a fresh state into a phase by its ordinary transitions.
void Bring(FiberState* state, FiberPhase to) {
  if (to == FiberPhase::kDead) return;
  state->OnCreated();
  if (to == FiberPhase::kReady) return;
  state->OnAcquired();
  if (to == FiberPhase::kRunning) return;
  state->OnParking();
  if (to == FiberPhase::kParking) return;
  if (to == FiberPhase::kNotified) {
    EXPECT_EQ(state->OnWoken(), WakeResult::kStillOnItsStack);
    return;
  }
  EXPECT_EQ(state->OnSwitchedOut(), SwitchOutResult::kParked);
}

struct Transition {
  const char* name;
  std::function<void(FiberState&)> run;
  std::vector<std::pair<FiberPhase, FiberPhase>> allowed;  // from, to
};

const std::vector<Transition>& Transitions() {
  using P = FiberPhase;
  static const auto* all = new std::vector<Transition>{
      {"OnCreated", [](FiberState& s) { s.OnCreated(); }, {{P::kDead, P::kReady}}},
      {"OnAcquired", [](FiberState& s) { s.OnAcquired(); }, {{P::kReady, P::kRunning}}},
      {"OnAcquireUndone", [](FiberState& s) { s.OnAcquireUndone(); }, {{P::kRunning, P::kReady}}},
      {"OnYielded", [](FiberState& s) { s.OnYielded(); }, {{P::kRunning, P::kReady}}},
      {"OnParking", [](FiberState& s) { s.OnParking(); }, {{P::kRunning, P::kParking}}},
      {"OnWoken", [](FiberState& s) { (void)s.OnWoken(); }, {{P::kParking, P::kNotified}, {P::kParked, P::kReady}}},
      {"OnSwitchedOut",
       [](FiberState& s) { (void)s.OnSwitchedOut(); },
       {{P::kParking, P::kParked}, {P::kNotified, P::kReady}}},
      {"OnExited", [](FiberState& s) { s.OnExited(); }, {{P::kRunning, P::kDead}}},
      {"OnDiscarded", [](FiberState& s) { s.OnDiscarded(); }, {{P::kReady, P::kDead}}},
  };
  return *all;
}

constexpr FiberPhase kAll[] = {FiberPhase::kDead,     FiberPhase::kRunning, FiberPhase::kParking,
                               FiberPhase::kNotified, FiberPhase::kParked,  FiberPhase::kReady};

TEST(FiberState, EachAllowedTransitionLeadsWhereTheDrawingSays) {
  for (const Transition& t : Transitions()) {
    for (auto [from, to] : t.allowed) {
      FiberState state;
      Bring(&state, from);
      ASSERT_EQ(state.Load(), from);
      t.run(state);
      EXPECT_EQ(state.Load(), to) << t.name << " from " << ToString(from);
    }
  }
}

TEST(FiberStateDeathTest, EveryOtherTransitionStopsTheProcessAndNamesBothPhases) {
  GTEST_FLAG_SET(death_test_style, "fast");
  for (const Transition& t : Transitions()) {
    for (FiberPhase from : kAll) {
      bool allowed = false;
      for (auto [f, to] : t.allowed) allowed |= f == from;
      if (allowed) continue;
      FiberState state;
      Bring(&state, from);
      EXPECT_DEATH(t.run(state), std::string(t.name) + ".*found " + ToString(from)) << t.name;
    }
  }
}

TEST(FiberState, AWakeBeforeTheSwitchIsSeenWithoutLeavingTheStack) {
  FiberState state;
  Bring(&state, FiberPhase::kParking);
  EXPECT_FALSE(state.ResumedInPlace());
  EXPECT_EQ(state.OnWoken(), WakeResult::kStillOnItsStack);
  EXPECT_TRUE(state.ResumedInPlace());
  EXPECT_EQ(state.Load(), FiberPhase::kRunning);
}

TEST(FiberState, TheWakerOfAParkedFiberHasToEnqueueIt) {
  FiberState state;
  Bring(&state, FiberPhase::kParked);
  EXPECT_EQ(state.OnWoken(), WakeResult::kEnqueue);
}

TEST(FiberState, TheWorkerHasToEnqueueAFiberWokenWhileItLeft) {
  FiberState state;
  Bring(&state, FiberPhase::kNotified);
  EXPECT_EQ(state.OnSwitchedOut(), SwitchOutResult::kReadyAgain);
}

}  // namespace
}  // namespace weft::scheduling_group
