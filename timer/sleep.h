// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SleepUntil: a fiber parks until a deadline and nothing else. The timer's node is on its stack: no allocation.
//
// A sleep that something may end early (an interruption) is a wait with a deadline: sync/wait_queue.h.
#ifndef WEFT_TIMER_SLEEP_H_
#define WEFT_TIMER_SLEEP_H_

#include "weft/base/clock.h"
#include "weft/scheduling_group/fiber_entity.h"

namespace weft::timer {

// The fiber `self`, on itself. Returns at the deadline, never before, maybe on another thread. If it has passed
// already, yields.
void SleepUntil(scheduling_group::FiberEntity* self, base::Deadline deadline);

}  // namespace weft::timer

#endif  // WEFT_TIMER_SLEEP_H_
