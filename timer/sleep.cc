// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/sleep.h"

#include "weft/base/check.h"
#include "weft/base/cpu.h"
#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/park.h"
#include "weft/timer/fire_context.h"
#include "weft/timer/shard_set.h"
#include "weft/timer/tick.h"
#include "weft/timer/timer_queue.h"
#include "weft/timer/timer_shard.h"

namespace weft::timer {
namespace {

// One cache line: the timer thread fetches it from our core.
struct alignas(base::kCacheLineSize) Sleeper : TimerNode {
  scheduling_group::FiberEntity* fiber;
};

void WakeSleeper(TimerNode* node, FireContext* context) { context->Ready(static_cast<Sleeper*>(node)->fiber); }

}  // namespace

void SleepUntil(scheduling_group::FiberEntity* self, base::Deadline deadline) {
  if (deadline.expired()) {
    scheduling_group::YieldCurrentFiber();  // A loop of short sleeps lets others run, too.
    return;
  }
  TimerShard* shard = ShardOfCaller(scheduling_group::CurrentWorker());
  WEFT_CHECK(shard != nullptr, "SleepUntil: the fiber's scheduling group has no TimerWorker");
  Sleeper sleeper;
  sleeper.fire = &WakeSleeper;
  sleeper.fiber = self;
  PrepareToPark(self);
  shard->Arm(&sleeper, TickOfDeadline(deadline.time_point()));
  // The node fires before we are woken and is not touched later: nothing to take back.
  ParkPrepared(self);
}

}  // namespace weft::timer
