// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/fiber/fiber_state.h through all interleavings: workers run a fiber, wakers end its parks. One worker
// at a time runs the fiber (its stack is checked for races); it sees what its waker did, and comes to its end (a lost
// wake-up is a deadlock).
#include <gtest/gtest.h>

#include "weft/base/thread/atomic.h"
#include "weft/scheduling_group/fiber/fiber_state.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

using model::Data;

// Holds the fiber, or not: a run queue, or a wait queue.
class Place {
 public:
  void Put() { MODEL_CHECK(token_.Unpark(), "the fiber is put into a queue that holds it already"); }
  void Take() { token_.Park(); }

 private:
  model::Parker token_;
};

// What a fiber does when it resumes.
enum class Step { kPark, kPublish, kYield, kExit };

struct World {
  FiberState state;
  Data<int> stack{0};    // what the saved stack holds: the next step
  Data<int> message{0};  // from waker to fiber
  Place run_queue;
  Place wait_queue;  // taking the fiber out of it makes a thread its waker (FS2)
  const Step* program = nullptr;

  // By the worker that acquired the fiber: runs it until it has left its stack.
  void RunFiber() {
    for (;;) {
      const int step = stack.Read();
      stack.Write(step + 1);
      switch (program[step]) {
        case Step::kExit:
          state.OnExited();
          return;
        case Step::kYield:
          stack.Write(step + 1);  // The switch saves registers there.
          state.OnYielded();
          run_queue.Put();
          return;
        case Step::kPublish:
          message.Write(0);
          stack.Write(step + 1);  // The switch saves registers there.
          state.OnLeftUnseen();
          wait_queue.Put();
          return;
        case Step::kPark:
          if (!Park(step + 1)) return;
          break;
      }
    }
  }

  // True: woken before it left its stack, goes on.
  bool Park(int next_step) {
    message.Write(0);
    state.OnParking();
    wait_queue.Put();
    if (state.ResumedInPlace()) {
      CheckMessage();
      return true;
    }
    stack.Write(next_step);  // The switch saves registers there.
    if (state.OnSwitchedOut() == SwitchOutResult::kReadyAgain) run_queue.Put();
    return false;
  }

  void CheckMessage() { MODEL_CHECK(message.Read() == 1, "the fiber does not see what its waker did"); }

  void Worker() {
    for (;;) {
      run_queue.Take();
      state.OnAcquired();
      const int step = stack.Read();
      if (step > 0 && program[step - 1] != Step::kYield) CheckMessage();
      RunFiber();
    }
  }

  // Ends one park.
  void Waker() {
    wait_queue.Take();
    message.Write(1);
    if (state.OnWoken() == WakeResult::kEnqueue) run_queue.Put();
  }

  // Ends a park that was published after the stack had been left.
  void WakerOfPublished() {
    wait_queue.Take();
    message.Write(1);
    state.OnTaken();
    run_queue.Put();
  }
};

World* NewWorld(model::Scenario& scenario, const Step* program) {
  World* world = scenario.New<World>("world");
  scenario.Name(&world->state, sizeof(world->state), "state");
  scenario.Name(&world->stack, sizeof(world->stack), "stack");
  scenario.Name(&world->message, sizeof(world->message), "message");
  world->program = program;
  world->state.OnCreated();
  world->run_queue.Put();
  scenario.AtEnd(
      [world] { MODEL_CHECK(world->state.Load() == FiberPhase::kDead, "the fiber has not come to its end"); });
  return world;
}

TEST(FiberStateModel, OneParkerOneWaker) {
  static constexpr Step kProgram[] = {Step::kPark, Step::kExit};
  const model::Result result =
      model::Explore({.name = "fiber_state: parker and waker", .preemptions = model::kUnbounded, .weak_choices = 4},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, kProgram);
                       scenario.Background("worker", [=] { world->Worker(); });
                       scenario.Thread("waker", [=] { world->Waker(); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(FiberStateModel, TwoWorkersRunTheFiberOneAtATime) {
  static constexpr Step kProgram[] = {Step::kPark, Step::kExit};
  const model::Result result =
      model::Explore({.name = "fiber_state: two workers, one waker", .preemptions = 4, .weak_choices = 2},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, kProgram);
                       scenario.Background("worker 0", [=] { world->Worker(); });
                       scenario.Background("worker 1", [=] { world->Worker(); });
                       scenario.Thread("waker", [=] { world->Waker(); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(FiberStateModel, TwoParksInARowByTwoWakers) {
  static constexpr Step kProgram[] = {Step::kPark, Step::kPark, Step::kExit};
  const model::Result result =
      model::Explore({.name = "fiber_state: two parks, two wakers", .preemptions = 3, .weak_choices = 1},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, kProgram);
                       scenario.Background("worker 0", [=] { world->Worker(); });
                       scenario.Background("worker 1", [=] { world->Worker(); });
                       scenario.Thread("waker 0", [=] { world->Waker(); });
                       scenario.Thread("waker 1", [=] { world->Waker(); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(FiberStateModel, AParkThatIsAnnouncedLater) {
  static constexpr Step kProgram[] = {Step::kPublish, Step::kYield, Step::kPublish, Step::kExit};
  const model::Result result = model::Explore({.name = "fiber_state: published", .preemptions = 4, .weak_choices = 2},
                                              [](model::Scenario& scenario) {
                                                World* world = NewWorld(scenario, kProgram);
                                                scenario.Background("worker 0", [=] { world->Worker(); });
                                                scenario.Background("worker 1", [=] { world->Worker(); });
                                                scenario.Thread("waker 0", [=] { world->WakerOfPublished(); });
                                                scenario.Thread("waker 1", [=] { world->WakerOfPublished(); });
                                              });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(FiberStateModel, YieldAndPark) {
  static constexpr Step kProgram[] = {Step::kYield, Step::kPark, Step::kExit};
  const model::Result result = model::Explore({.name = "fiber_state: yield, park", .preemptions = 3, .weak_choices = 2},
                                              [](model::Scenario& scenario) {
                                                World* world = NewWorld(scenario, kProgram);
                                                scenario.Background("worker 0", [=] { world->Worker(); });
                                                scenario.Background("worker 1", [=] { world->Worker(); });
                                                scenario.Thread("waker", [=] { world->Waker(); });
                                              });
  EXPECT_TRUE(result.passed) << result.report;
}

}  // namespace
}  // namespace weft::scheduling_group
