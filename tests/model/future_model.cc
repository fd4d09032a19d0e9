// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/future/future_core.{h,cc} through all interleavings: a result is written once and seen by whoever is told of
// it; a callback is run once or taken back; a waiter that gives up leaves its stack only when nobody has its callback;
// the state may go away with the last of its two owners; a selection takes one of two that come together, and leaves
// nothing behind. The scheduler, the timers and the spin lock are those of tests/model/stubs.
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "weft/base/ref_ptr.h"
#include "weft/fiber/future/future_core.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/select.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft::fiber::detail {
namespace {

using model::FiberWorld;
using Timers = FiberWorld::Timers;

constexpr std::chrono::hours kSoon{1};  // Time is the model's.

void Explore(const model::Options& options, void (*build)(model::Scenario&, FiberWorld&)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    FiberWorld world(scenario);
    build(scenario, world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

// As FutureState<int>: two owners, and a result that the core orders.
struct State : FutureCore, base::RefCounted<State> {
  model::Data<int> result{0};

  bool Resolve(int value) {
    if (!Claim()) return false;
    result.Write(value);
    RunCallbacks(Publish());
    return true;
  }
};

// As a continuation: reads the result, which it may take, and gives up the reference that it holds.
struct Reader final : FutureCallback {
  FutureCallback* Run() noexcept override {
    runs.Write(runs.Read() + 1);
    seen.Write(state->result.Read());
    state->Release();
    return nullptr;
  }
  State* state = nullptr;
  model::Data<int> runs{0};
  model::Data<int> seen{0};
};

// FU2, FU3. Both owners give up what they have as soon as they can: the promise's side after it has resolved.
TEST(FutureModel, AContinuationRunsOnceAndSeesTheResult) {
  Explore({.name = "future: resolve, attach", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* state = new State;
            state->AddRef();
            auto* reader = scenario.New<Reader>("reader");
            world.Thread("promise", [=] {
              MODEL_CHECK(state->Resolve(7), "the only resolver came late");
              state->Release();
            });
            world.Thread("future", [=] {
              reader->state = state;
              if (!state->Attach(reader)) RunCallbacks(reader->Run());
            });
            scenario.AtEnd([=] { MODEL_CHECK(reader->runs.Read() == 1 && reader->seen.Read() == 7, "FU2"); });
          });
}

// The loser may not have seen the result, and touches nothing.
TEST(FutureModel, OneOfTwoResolversWins) {
  Explore({.name = "future: two resolvers, attach", .preemptions = 4, .weak_choices = 2},
          [](model::Scenario& scenario, FiberWorld& world) {
            struct Shared {
              base::Atomic<int> won{0};
              Reader reader;
            };
            auto* state = new State;
            state->AddRef();
            state->AddRef();
            auto* shared = scenario.New<Shared>("shared");
            for (const int value : {1, 2}) {
              world.Thread(value == 1 ? "promise 1" : "promise 2", [=] {
                if (state->Resolve(value)) shared->won.fetch_add(value, std::memory_order_relaxed);
                state->Release();
              });
            }
            world.Thread("future", [=] {
              shared->reader.state = state;
              if (!state->Attach(&shared->reader)) RunCallbacks(shared->reader.Run());
            });
            scenario.AtEnd([=] {
              MODEL_CHECK(shared->reader.runs.Read() == 1, "FU2");
              MODEL_CHECK(shared->reader.seen.Read() == shared->won.load(std::memory_order_relaxed), "FU1");
            });
          });
}

// FU1, while a waiter gives up.
TEST(FutureModel, OneOfTwoResolversWinsWhileAWaiterGivesUp) {
  Explore({.name = "future: two resolvers, detach", .preemptions = 4, .weak_choices = 2},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* state = new State;
            auto* reader = scenario.New<Reader>("reader");
            auto* won = scenario.New<base::Atomic<int>>("won", 0);
            for (int i = 0; i < 6; ++i) state->AddRef();  // Not what this is about.
            for (const int value : {1, 2}) {
              world.Thread(value == 1 ? "promise 1" : "promise 2", [=] {
                if (state->Resolve(value)) won->fetch_add(1, std::memory_order_relaxed);
              });
            }
            world.Thread("future", [=] {
              reader->state = state;
              if (state->Attach(reader)) static_cast<void>(state->Detach());
            });
            scenario.AtEnd([=] { MODEL_CHECK(won->load(std::memory_order_relaxed) == 1, "FU1"); });
          });
}

// A Future that looks from time to time.
TEST(FutureModel, WhoSeesItResolvedSeesTheResult) {
  Explore({.name = "future: resolve, look", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
          [](model::Scenario&, FiberWorld& world) {
            auto* state = new State;
            state->AddRef();
            world.Thread("promise", [=] {
              MODEL_CHECK(state->Resolve(7), "the only resolver came late");
              state->Release();
            });
            world.Thread("future", [=] {
              if (state->IsResolved()) MODEL_CHECK(state->result.Read() == 7, "FU3");
              state->Release();
            });
          });
}

// A callback that is taken back is not run: its owner destroys it, as a waiter leaves its stack.
TEST(FutureModel, ACallbackIsTakenBackOrRun) {
  Explore({.name = "future: resolve, detach", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* state = new State;
            state->AddRef();
            auto* reader = new Reader;
            world.Thread("promise", [=] {
              MODEL_CHECK(state->Resolve(7), "the only resolver came late");
              state->Release();
            });
            auto* destroyed = scenario.New<model::Data<int>>("destroyed", 0);
            world.Thread("future", [=] {
              reader->state = state;
              state->AddRef();
              const bool attached = state->Attach(reader);
              if (attached && !state->Detach()) return state->Release();  // It is run.
              if (!attached) MODEL_CHECK(state->result.Read() == 7, "FU3");
              delete reader;
              destroyed->Write(1);
              state->Release();
              state->Release();
            });
            scenario.AtEnd([=] {
              if (destroyed->Read() == 0) MODEL_CHECK(reader->runs.Read() == 1, "FU2");
            });
          });
}

// Then again: Attach() after Detach(), while the result is being written.
TEST(FutureModel, AfterATimeOutItIsWaitedForAgain) {
  Explore({.name = "future: detach, attach again", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* state = new State;
            state->AddRef();
            auto* first = scenario.New<Reader>("first");
            auto* second = scenario.New<Reader>("second");
            world.Thread("promise", [=] {
              MODEL_CHECK(state->Resolve(7), "the only resolver came late");
              state->Release();
            });
            world.Thread("future", [=] {
              first->state = second->state = state;
              state->AddRef();  // As the Future has, beside its callback.
              if ((!state->Attach(first) || state->Detach()) && !state->Attach(second)) RunCallbacks(second->Run());
              state->Release();
            });
            scenario.AtEnd([=] {
              MODEL_CHECK(first->runs.Read() + second->runs.Read() == 1, "FU2");
              MODEL_CHECK(first->seen.Read() + second->seen.Read() == 7, "FU3");
            });
          });
}

// The waiter's stack is gone when Wait() has returned, and the state with the last owner.
void WaitAndResolve(FiberWorld& world, bool fiber, Timers timers) {
  auto* state = new State;
  state->AddRef();
  const auto wait = [=] {
    if (timers == Timers::kNo) {
      MODEL_CHECK(state->Wait(Deadline::None()), "a wait without a deadline timed out");
      MODEL_CHECK(state->result.Read() == 7, "FU3");
    } else if (state->Wait(kSoon)) {
      MODEL_CHECK(state->result.Read() == 7, "FU3");
    }
    state->Release();
  };
  if (fiber) {
    world.Fiber("waiter", timers, wait);
  } else {
    world.Thread("waiter", wait);
  }
  world.Thread("promise", [=] {
    MODEL_CHECK(state->Resolve(7), "the only resolver came late");
    state->Release();
  });
}

TEST(FutureModel, AFiberWaits) {
  Explore({.name = "future: a fiber waits", .preemptions = 4, .weak_choices = 2},
          [](model::Scenario&, FiberWorld& world) { WaitAndResolve(world, true, Timers::kNo); });
}

TEST(FutureModel, AThreadWaits) {
  Explore({.name = "future: a thread waits", .preemptions = 4, .weak_choices = 2},
          [](model::Scenario&, FiberWorld& world) { WaitAndResolve(world, false, Timers::kNo); });
}

TEST(FutureModel, AFiberWaitsWithADeadline) {
  Explore({.name = "future: a fiber waits with a deadline", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) { WaitAndResolve(world, true, Timers::kYes); });
}

// FC1: a selection over a Future and an event that come together. What it stands on, and the state, are gone when it
// has returned.
struct Choice {
  Choice(State* state, FiberEvent* event) : future(&selection, state), other(&selection, event) {}
  synchronization::Selection selection;
  FutureCase future;
  synchronization::QueueCase<FiberEvent> other;
};

// `set`: the event is set, too. `last`: the Future is the last case that is entered.
void SelectAndResolve(FiberWorld& world, bool fiber, bool set, bool last) {
  auto* state = new State;
  state->AddRef();
  auto* event = new FiberEvent;  // It stays: the setter may be late.
  auto* choice = new Choice(state, event);
  const auto select = [=] {
    synchronization::SelectCase* cases[] = {&choice->future, &choice->other};
    if (last) std::swap(cases[0], cases[1]);
    const bool resolved = cases[choice->selection.Wait(cases, Deadline::None())] == &choice->future;
    if (resolved) MODEL_CHECK(state->result.Read() == 7, "FU3");
    MODEL_CHECK(resolved || set, "nobody has set the event");
    delete choice;
    state->Release();
  };
  if (fiber) {
    world.Fiber("selects", Timers::kNo, select);
  } else {
    world.Thread("selects", select);
  }
  world.Thread("promise", [=] {
    MODEL_CHECK(state->Resolve(7), "the only resolver came late");
    state->Release();
  });
  if (set) world.Thread("setter", [=] { event->Set(); });
}

TEST(FutureModel, ASelectionTakesAFuture) {
  Explore({.name = "future: a selection", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario&, FiberWorld& world) { SelectAndResolve(world, true, false, false); });
  Explore({.name = "future: a selection in a thread", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario&, FiberWorld& world) { SelectAndResolve(world, false, false, false); });
}

TEST(FutureModel, ASelectionTakesOneOfTwo) {
  Explore({.name = "future: a selection, an event after it", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) { SelectAndResolve(world, true, true, false); });
  Explore({.name = "future: a selection, an event before it", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) { SelectAndResolve(world, true, true, true); });
}

}  // namespace
}  // namespace weft::fiber::detail
