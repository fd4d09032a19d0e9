// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TimerSleepUntil: a fiber parks on its own timer node, for tests and benchmarks of the timer layer, which does not
// know sync. All others sleep by sync/wait/wait_queue.h.
#ifndef WEFT_TESTS_TESTING_TIMER_SLEEP_H_
#define WEFT_TESTS_TESTING_TIMER_SLEEP_H_

#include "weft/base/deadline.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::testing {

// The running fiber. Returns at the deadline, never before, maybe on another thread.
inline void TimerSleepUntil(Deadline deadline) {
  struct Sleeper : timer::WaitTimer {
    scheduling_group::FiberEntity* fiber;
  };
  Sleeper sleeper;
  sleeper.fiber = scheduling_group::CurrentFiber();
  sleeper.fire = [](timer::TimerNode* node, timer::FireContext* context) {
    context->Ready(static_cast<Sleeper*>(node)->fiber);
  };
  scheduling_group::PrepareToPark(sleeper.fiber);
  timer::TimerWorker::Of(sleeper.fiber->group())->Arm(&sleeper, deadline);
  // The node fires before the wake and is not touched later: no need to disarm it.
  scheduling_group::ParkPrepared(sleeper.fiber);
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_TIMER_SLEEP_H_
