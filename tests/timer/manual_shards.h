// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of callback timers: a set of shards without a timer thread. The test moves the clock and fires what is due.
#ifndef WEFT_TESTS_TIMER_MANUAL_SHARDS_H_
#define WEFT_TESTS_TIMER_MANUAL_SHARDS_H_

#include <chrono>
#include <cstddef>
#include <vector>

#include "weft/base/thread/spin_lock.h"
#include "weft/timer/callback/callback_timer.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_shard.h"
#include "weft/timer/queue/timer_slab.h"

#include "testing/manual_clock.h"

namespace weft::timer {

class ManualShards {
 public:
  // Timers that this thread, and others, set from now on lie here.
  ManualShards() { set_->Register(0); }
  ManualShards(const ManualShards&) = delete;
  ManualShards& operator=(const ManualShards&) = delete;
  ~ManualShards() {
    for (unsigned i = 0; i < set_->size(); ++i) set_->shard(i)->CloseToCallbacks();
    for (unsigned i = 0; i < set_->size(); ++i) DropCallbackTimers(set_->shard(i));
    for (unsigned i = 0; i < set_->size(); ++i) set_->shard(i)->Close();
    set_->Unregister(0);
    set_->GiveBack();
  }

  base::Clock::TimePoint now() const { return clock_.now(); }
  // A tick more, so that what is due at `when` fires.
  void SetNow(base::Clock::TimePoint when) { clock_.Set(when + std::chrono::nanoseconds(1 << kTickShift)); }

  // The timers that are due now, kFiring; as the timer thread has them in hand when it has dropped the shards' locks.
  std::vector<TimerEntry*> Fire() {
    std::vector<TimerEntry*> due;
    for (unsigned i = 0; i < set_->size(); ++i) {
      TimerShard* shard = set_->shard(i);
      FireContext context;
      base::SpinLockGuard guard(shard->lock);
      static_cast<void>(shard->Advance(TickOfNow(clock_.now()), FireContext::kCapacity,
                                       [&](TimerNode* node) { node->fire(node, &context); }));
      due.insert(due.end(), context.entries(), context.entries() + context.entry_count());
    }
    return due;
  }

 private:
  testing::ManualClock clock_;
  ShardSet* const set_ = ShardSet::Borrow(/*workers=*/1, /*node=*/-1, &clock_);
};

}  // namespace weft::timer

#endif  // WEFT_TESTS_TIMER_MANUAL_SHARDS_H_
