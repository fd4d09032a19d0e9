// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A timer as its owner has it: the node, and what is to be done when it fires. The queue of nodes is timer_queue.h.
#ifndef WEFT_TIMER_QUEUE_TIMER_NODE_H_
#define WEFT_TIMER_QUEUE_TIMER_NODE_H_

#include <cstddef>

#include "weft/timer/queue/tick.h"

namespace weft::timer {

class FireContext;
class TimerShard;

// The links of a slot's ring; the sentinel has nothing else.
struct TimerLink {
  TimerLink* next = nullptr;
  TimerLink* prev = nullptr;
};

// One timer. Its owner places it (a wait's time-out lies in the fiber's entity); it must not move while linked.
struct TimerNode : TimerLink {
  // Called once when it is due; timer_worker.h says what it may do.
  void (*fire)(TimerNode* node, FireContext* context) = nullptr;
  // When it is due. Set by TimerQueue::Add.
  Tick tick = 0;

  bool linked() const noexcept { return next != nullptr; }
};

// A timer that knows the shard it is in.
struct WaitTimer : TimerNode {
  // Where it was last armed, written by TimerShard::Arm(); nullptr: never.
  TimerShard* shard = nullptr;
};

// What a timer wants to be done by the timer thread when the lock has been dropped, for all of a batch at once. It may
// not block for long. The timer's owner must not let the node go before this is over.
struct DeferredTimer {
  void (*run)(DeferredTimer* const* due, std::size_t count) = nullptr;  // the same for all there are
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_TIMER_NODE_H_
