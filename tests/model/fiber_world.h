// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The fibers and threads of a model test of sync, on the scheduler and timers of tests/model/stubs.
#ifndef WEFT_TESTS_MODEL_FIBER_WORLD_H_
#define WEFT_TESTS_MODEL_FIBER_WORLD_H_

#include <functional>
#include <utility>

#include "weft/scheduling_group/fiber/park.h"
#include "weft/tests/testing/interleave.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::model {

// Made anew in the body of a scenario, on its stack. Not to be mixed with Scenario::Thread(): it counts the threads.
class FiberWorld {
 public:
  enum class Timers : bool { kNo, kYes };
  enum class End : bool { kMustEnd, kMayWaitForEver };

  explicit FiberWorld(Scenario& scenario) : scenario_(scenario) {}

  // Runs `body` as a fiber; with a timer thread of its own if it waits with deadlines. The fiber lives as long as the
  // execution.
  scheduling_group::FiberEntity* Fiber(const char* name, Timers timers, std::function<void()> body,
                                       End end = End::kMustEnd) {
    auto* parts = new Parts;
    parts->fiber.set_group(&parts->group);
    parts->group.timers = &parts->timers;
    scenario_.Name(&parts->fiber, sizeof(parts->fiber), name);
    scheduling_group::SetFiber(++threads_, &parts->fiber);
    Add(name, std::move(body), end);
    if (timers == Timers::kYes) {
      scheduling_group::SetFiber(++threads_, nullptr);
      Add(
          "timer", [parts] { parts->timers.Run(); }, End::kMayWaitForEver);
    }
    return &parts->fiber;
  }

  // Runs `body` as a plain thread.
  void Thread(const char* name, std::function<void()> body, End end = End::kMustEnd) {
    scheduling_group::SetFiber(++threads_, nullptr);
    Add(name, std::move(body), end);
  }

 private:
  struct Parts {
    scheduling_group::FiberEntity fiber;
    scheduling_group::SchedulingGroup group;
    timer::TimerWorker timers;
  };

  void Add(const char* name, std::function<void()> body, End end) {
    if (end == End::kMustEnd) {
      scenario_.Thread(name, std::move(body));
    } else {
      scenario_.Background(name, std::move(body));
    }
  }

  Scenario& scenario_;
  int threads_ = 0;
};

}  // namespace weft::model

#endif  // WEFT_TESTS_MODEL_FIBER_WORLD_H_
