// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces timer/worker/timer_worker.h in model tests of sync: one timer at a time, which fires at any time after it
// was armed, under a lock, as the real one does.
#ifndef WEFT_TIMER_WORKER_TIMER_WORKER_H_
#define WEFT_TIMER_WORKER_TIMER_WORKER_H_

#include "weft/base/deadline.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/tests/testing/interleave.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::timer {

class TimerWorker {
 public:
  static TimerWorker* Of(const scheduling_group::SchedulingGroup* group) noexcept { return group->timers; }

  void Arm(WaitTimer* node, Deadline) noexcept {
    {
      base::SpinLockGuard guard(lock_);
      MODEL_CHECK(armed_.Read() == nullptr, "armed twice");
      armed_.Write(node);
    }
    something_is_armed_.Unpark();
  }

  void ArmBeforePark(TimeOut* node, Deadline deadline) noexcept { Arm(node, deadline); }

  bool Disarm(WaitTimer* node) noexcept {
    base::SpinLockGuard guard(lock_);
    if (armed_.Read() != node) return false;
    armed_.Write(nullptr);
    return true;
  }

  // The timer thread.
  void Run() {
    for (;;) {
      something_is_armed_.Park();
      FireContext context;
      {
        base::SpinLockGuard guard(lock_);
        if (TimerNode* node = armed_.Read()) {
          model::Note("the timer fires");
          armed_.Write(nullptr);
          node->fire(node, &context);
        }
      }
      if (context.ready_count() != 0) scheduling_group::UnparkRemote(context.ready(), context.ready_count());
    }
  }

 private:
  base::SpinLock lock_;
  model::Data<TimerNode*> armed_{nullptr};
  model::Parker something_is_armed_;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_WORKER_TIMER_WORKER_H_
