// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ShardSet: the timers of one scheduling group: an alarm, a shard per worker, and kOutsideShards for all other threads.
//
// A set is never destroyed: when its TimerWorker ends it goes to a list of free sets, for the next runtime. So a thread
// that still holds a timer's id, or announces a timer while the runtime stops, always finds live objects.
//
// ShardOfCaller() gives any thread a shard for its timers: a worker its own shard of its group's set, another thread
// one shard of one set, chosen by a number that the thread gets at its first call.
//
//   SS1  At most one set is registered for a group id, between Register() and Unregister().
//   SS2  A free set is closed, and its queues are empty.
// Any thread may call anything.
#ifndef WEFT_TIMER_QUEUE_SHARD_SET_H_
#define WEFT_TIMER_QUEUE_SHARD_SET_H_

#include <cstddef>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/timer/callback/alarm.h"
#include "weft/timer/queue/timer_shard.h"
#include "weft/timer/worker/housekeeping.h"

namespace weft::timer {

class ShardSet {
 public:
  // A power of two: threads are spread over these by number.
  static constexpr unsigned kOutsideShards = 4;
  static constexpr int kMaxGroups = 2048;

  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;

  // An open set with shards for `workers` workers, on a NUMA node (-1: anywhere).
  static ShardSet* Borrow(unsigned workers, int node, const base::Clock* clock);
  // The set is closed and empty.
  void GiveBack();
  // Instead: a thread may use it for ever. It stays reachable, for checkers of leaks.
  void Keep();

  // Threads that ask from now on find it; to_all: threads of no group, too. `group_id` is below kMaxGroups.
  void Register(int group_id, bool to_all = true);
  void Unregister(int group_id);

  Alarm& alarm() noexcept { return alarm_; }
  Housekeeping& housekeeping() noexcept { return housekeeping_; }
  unsigned size() const noexcept { return workers_ + kOutsideShards; }
  TimerShard* shard(unsigned index) noexcept { return &shards_[index]; }

  // The shard that the calling thread uses in this set.
  TimerShard* ShardFor(const scheduling_group::WorkerBase* caller) noexcept;

 private:
  ShardSet(unsigned workers, int node);

  Alarm alarm_;
  Housekeeping housekeeping_{&alarm_};
  const unsigned workers_;
  const int node_;
  TimerShard* const shards_;
  ShardSet* next_free_ = nullptr;
};

// In a forked child, where no set runs. Async-signal-safe.
void ForgetShardSets() noexcept;

// The shard in which the calling thread sets timers; `caller` is CurrentWorker(). nullptr: no runtime runs.
TimerShard* ShardOfCaller(const scheduling_group::WorkerBase* caller) noexcept;

// By a timer thread: it uses this set from now on; nullptr: it ends.
WEFT_TLS_ACCESSOR void SetShardSetOfThread(ShardSet* set) noexcept;
// The set of the calling timer thread; nullptr for other threads.
WEFT_TLS_ACCESSOR ShardSet* ShardSetOfThread() noexcept;

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_SHARD_SET_H_
