// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WorkerSlot: what a group keeps for one worker: its parker, the order sent with a wake-up, and its counters.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_WORKER_SLOT_H_
#define WEFT_SCHEDULING_GROUP_WORKER_WORKER_SLOT_H_

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/parker.h"
#include "weft/scheduling_group/idle/idle_poller.h"
#include "weft/scheduling_group/watch/push_sampler.h"
#include "weft/scheduling_group/worker/worker_counters.h"
#include "weft/scheduling_group/worker/worker_life.h"

namespace weft::scheduling_group {

class SchedulingGroup;

struct alignas(base::kCacheLineSize) WorkerSlot {
  base::Parker parker;
  // Set by the thread that claims the sleeping worker: the group to search (idle_loop.h).
  base::Atomic<SchedulingGroup*> sent_to{nullptr};
  // From here on used by the worker alone, but for reports.
  PollPace poll_pace;
  PushSampler push_sampler;
  WorkerCounters counters;
  WorkerLife life;  // of one with a thread (worker_team.h)
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_WORKER_SLOT_H_
