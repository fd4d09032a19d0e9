// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ExactQueue: the timers of a shard under a test clock: a ring in the order of deadlines, to the nanosecond, and of
// arming where these are equal. So a test sees its very deadlines, in a fixed order; TimerQueue rounds to ticks (TQ3).
//
// Add() searches from the back, a step for each node that is due later: for tests with thousands of timers at most.
// Who may call: one thread at a time (a TimerShard holds it under its lock).
#ifndef WEFT_TIMER_QUEUE_EXACT_QUEUE_H_
#define WEFT_TIMER_QUEUE_EXACT_QUEUE_H_

#include <cstddef>

#include "weft/base/report/check.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_queue.h"

namespace weft::timer {

class ExactQueue {
 public:
  ExactQueue() = default;
  ExactQueue(const ExactQueue&) = delete;
  ExactQueue& operator=(const ExactQueue&) = delete;

  // `node` is not linked.
  void Add(TimerNode* node, Tick tick) noexcept {
    WEFT_DCHECK(!node->linked(), "ExactQueue::Add: the node is linked already");
    node->tick = tick;
    TimerLink* before = ring_.prev;
    while (before != &ring_ && static_cast<TimerNode*>(before)->tick > tick) before = before->prev;
    node->prev = before;
    node->next = before->next;
    before->next->prev = node;
    before->next = node;
    ++size_;
  }

  // `node` is linked, here.
  void Remove(TimerNode* node) noexcept {
    node->next->prev = node->prev;
    node->prev->next = node->next;
    node->next = nullptr;
    --size_;
  }

  // The first, taken out, if it is due; nullptr: none is.
  TimerNode* PopDue(Tick now) noexcept {
    if (First() > now || size_ == 0) return nullptr;
    auto* node = static_cast<TimerNode*>(ring_.next);
    Remove(node);
    return node;
  }

  // When the first is due; kNever: there is none.
  Tick First() const noexcept { return size_ == 0 ? kNever : static_cast<const TimerNode*>(ring_.next)->tick; }
  std::size_t size() const noexcept { return size_; }

 private:
  TimerLink ring_{.next = &ring_, .prev = &ring_};
  std::size_t size_ = 0;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_EXACT_QUEUE_H_
