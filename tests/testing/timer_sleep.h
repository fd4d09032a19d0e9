// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TimerSleepUntil: a fiber parks on its own timer node, for tests and benchmarks of the timer layer, which does not
// know sync. All others sleep by sync/wait/wait_queue.h.
#ifndef WEFT_TESTS_TESTING_TIMER_SLEEP_H_
#define WEFT_TESTS_TESTING_TIMER_SLEEP_H_

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::testing {

// The running fiber. Returns at the deadline, never before, maybe on another thread.
inline void TimerSleepUntil(Deadline deadline) {
  scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  base::Atomic<void*> undecided{self};
  timer::TimeOut time_out(self, &undecided, self);
  scheduling_group::PrepareToPark(self);
  timer::TimerWorker::Of(self->group())->ArmBeforePark(&time_out, deadline);
  // It fires before the wake and is not touched later: no need to disarm it.
  scheduling_group::ParkKeeping(self);
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_TIMER_SLEEP_H_
