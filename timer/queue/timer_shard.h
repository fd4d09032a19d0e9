// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The timers of a scheduling group, in shards. TimerShard: one lock, and the timers under it: a queue, and the memory
// of timers with callbacks. ShardSet: a group's shards, and the alarm of its timer thread.
//
// A group has a shard per worker and kOutsideShards for all other threads, so that setting and cancelling mostly take
// an uncontended lock. ShardOfCaller() gives any thread a shard for its timers: a worker its own shard of its group's
// set, a thread that works for a group (group_registry.h) one of that set, any other thread one shard of one set of the
// groups with the first name, chosen by a number that the thread gets at its first call. Only the timer thread visits
// all (timer_worker.h).
//
// Neither is ever destroyed: when its TimerWorker ends a set goes to a list of free sets, for the next runtime. So a
// thread that still holds a timer's id, or announces a timer while the runtime stops, always finds live objects, and
// the `shard` of a WaitTimer or chunk may be locked at any time.
//
// Invariants
//   SH1  next() is never later than the queue needs, but for timers that the shard's worker keeps (SHT1 in
//        shard_tick.h): Add lowers it under the lock, and only the timer thread raises it, under the lock, after taking
//        what was due. SH4 has the exception.
//   SH2  A thread that lowers next() announces it to the alarm after it has dropped the lock (AL1 in alarm.h).
//   SH3  A shard is open, then open for waits only, then closed, and may then be opened again. One open for waits only
//        takes no timer with a callback. A closed one takes no node: a wait armed there is not linked and never fires.
//   SH4  A shard that was opened under a test clock keeps its nodes in an ExactQueue, and next() is exact: it rises
//        again when the first node is removed. A test clock moves time to it (TimerWorker::NextTimer). No worker keeps
//        timers.
//   SH5  A worker fires only what is due before next(): the time-outs that it keeps (SHT1), in their order. Callbacks,
//        and all else of which the timer thread has been told, are the thread's, even if they are due, too, or earlier.
//   SS1  At most one set is registered for a group id, between Register() and Unregister().
//   SS2  A free set is closed, and its queues are empty.
// Any thread may call anything of a set, and of a shard what does not say otherwise.
// Lock order: a leaf. Only TimerNode::fire is called under the lock.
#ifndef WEFT_TIMER_QUEUE_TIMER_SHARD_H_
#define WEFT_TIMER_QUEUE_TIMER_SHARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/base/time/clock.h"
#include "weft/base/time/test_time.h"
#include "weft/scheduling_group/idle/kept_timers.h"
#include "weft/scheduling_group/watch/wait_samples.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/timer/queue/shard_tick.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_queue.h"
#include "weft/timer/queue/timer_slab.h"
#include "weft/timer/worker/alarm.h"

namespace weft::timer {

// Statistics of a set, since it was borrowed.
struct FiredTimers {
  std::atomic<std::uint64_t> by_workers{0};
  scheduling_group::WaitRecorder lateness;  // of all, also by the timer thread
};

// Two lines, since the processor fetches lines in pairs.
class alignas(2 * base::kCacheLineSize) TimerShard final : private scheduling_group::KeptTimers {
 public:
  TimerShard() = default;
  TimerShard(const TimerShard&) = delete;
  TimerShard& operator=(const TimerShard&) = delete;

  base::SpinLock lock;

  // Any thread. When the timer thread must visit this shard.
  Tick next() const noexcept { return tick_.next(); }

  // --- Under the lock ---

  // Whether it takes timers with callbacks (SH3).
  bool open_to_callbacks() const noexcept WEFT_REQUIRES(lock) { return open_to_callbacks_; }

  // Links `node`. True: call Announce(node's tick) when the lock has been dropped.
  [[nodiscard]] bool Add(TimerNode* node, Tick tick) noexcept WEFT_REQUIRES(lock) {
    Link(node, tick);
    return tick_.Lower(node->tick);
  }

  void Remove(TimerNode* node) noexcept WEFT_REQUIRES(lock) {
    if (WEFT_UNLIKELY(exact_)) return RemoveExact(node);
    queue_.Remove(node);
  }

  // The timer thread. TimerQueue::Advance(), and updates next().
  template <class Sink>
  TimerQueue::Progress Advance(Tick now, std::size_t budget, Sink&& sink) noexcept WEFT_REQUIRES(lock) {
    if (WEFT_UNLIKELY(exact_)) return AdvanceExact(now, budget, sink);
    const auto progress = queue_.Advance(now, budget, sink);
    tick_.Set(queue_.NextWakeup());
    return progress;
  }

  // How often Add() was called since Open().
  std::size_t added() const noexcept WEFT_REQUIRES(lock) { return queue_.added() + exact_queue_.added(); }
  std::size_t size() const noexcept WEFT_REQUIRES(lock) { return exact_ ? exact_queue_.size() : queue_.size(); }

  // Unlinks the nodes left in a closed shard. Returns how many.
  std::size_t DropAll() noexcept WEFT_REQUIRES(lock) {
    std::size_t count = 0;
    while ((exact_ ? exact_queue_.PopDue(kNever) : queue_.PopAny()) != nullptr) ++count;
    tick_.Reset();
    return count;
  }

  TimerSlab& slab(EntryWidth width) noexcept WEFT_REQUIRES(lock) {
    return width == EntryWidth::kWide ? wide_ : narrow_;
  }
  TimerSlab& SlabOf(TimerEntry* entry) noexcept WEFT_REQUIRES(lock) { return slab(TimerChunk::Of(entry)->width); }

  // --- Without the lock ---

  // After Add() has returned true (SH2).
  void Announce(Tick tick) noexcept {
    alarm_->Announce(tick);
    if (base::HasTestTime()) base::TestTime::TellClock();  // TT2 in test_time.h
  }

  // Links `node`, or does nothing if the shard is closed.
  void Arm(WaitTimer* node, Tick tick) noexcept WEFT_EXCLUDES(lock) {
    lock.lock();
    bool announce = false;
    node->shard = this;
    if (WEFT_LIKELY(open_)) announce = Add(node, tick);
    lock.unlock();
    if (WEFT_UNLIKELY(announce)) Announce(tick);
  }

  // The same by the shard's worker, in a fiber that is about to park, by ParkKeeping(): the worker may keep the timer.
  void ArmBeforePark(TimeOut* node, Tick tick, scheduling_group::WorkerBase* worker) noexcept WEFT_EXCLUDES(lock) {
    lock.lock();
    bool announce = false;
    node->shard = this;
    if (WEFT_LIKELY(open_)) {
      Link(node, tick);
      if (WEFT_UNLIKELY(exact_)) {
        announce = tick_.Lower(node->tick);
      } else if (tick_.Keep(node->tick)) {
        worker->kept_timers = this;
      }
    }
    lock.unlock();
    if (WEFT_UNLIKELY(announce)) Announce(tick);
  }

  // True: `node` was linked. In both cases its `fire` is not running when this returns.
  bool Disarm(WaitTimer* node) noexcept WEFT_EXCLUDES(lock) {
    base::SpinLockGuard guard(lock);
    if (!node->linked()) return false;
    Remove(node);
    return true;
  }

  // There may be memory to give back.
  void RequestTrim() noexcept { housekeeping_->Request(); }

  base::Clock::TimePoint now() const noexcept { return clock_->now(); }
  int node() const noexcept { return node_; }

  // --- ShardSet ---

  void Install(Alarm* alarm, Housekeeping* housekeeping, FiredTimers* fired, int node) noexcept {
    alarm_ = alarm;
    housekeeping_ = housekeeping;
    fired_ = fired;
    node_ = node;
  }
  void Open(const base::Clock* clock) noexcept WEFT_EXCLUDES(lock) {
    base::SpinLockGuard guard(lock);
    exact_ = base::HasTestTime();
    queue_.Restart(exact_ ? 0 : TickOfNow(clock->now()));
    exact_queue_.Restart();
    clock_ = clock;
    open_ = true;
    open_to_callbacks_ = true;
  }
  void CloseToCallbacks() noexcept WEFT_EXCLUDES(lock) {
    base::SpinLockGuard guard(lock);
    open_to_callbacks_ = false;
  }
  void Close() noexcept WEFT_EXCLUDES(lock) {
    base::SpinLockGuard guard(lock);
    open_to_callbacks_ = false;
    open_ = false;
  }

 private:
  // The queue's present stands still while nothing is due, and near timers then look far. While many are armed, the
  // clock is read once per so many far ones to correct that; few may be filed twice.
  static constexpr unsigned kFarAddsPerLook = 64;
  // Nodes that CatchUp() may file again. It leaves fuller slots to the timer thread (TimerQueue::NextWakeup).
  static constexpr std::size_t kCatchUpBudget = 32;

  // KeptTimers
  TimePoint due() const noexcept override { return BeginOfTick(tick_.kept()); }
  void GiveUp() noexcept override;
  void FireAndGiveUp() noexcept override;

  void Link(TimerNode* node, Tick tick) noexcept WEFT_REQUIRES(lock) {
    if (WEFT_UNLIKELY(exact_)) return AddExact(node, tick);
    if (queue_.IsFar(tick) && WEFT_UNLIKELY(++far_adds_ % kFarAddsPerLook == 0)) CatchUp();
    queue_.Add(node, tick);
  }

  WEFT_NOINLINE WEFT_COLD void AddExact(TimerNode* node, Tick tick) noexcept WEFT_REQUIRES(lock) {
    exact_queue_.Add(node, tick);
  }

  WEFT_NOINLINE WEFT_COLD void RemoveExact(TimerNode* node) noexcept WEFT_REQUIRES(lock) {
    exact_queue_.Remove(node);
    tick_.Set(exact_queue_.First());
  }

  template <class Sink>
  TimerQueue::Progress AdvanceExact(Tick now, std::size_t budget, Sink& sink) noexcept WEFT_REQUIRES(lock) {
    for (; budget != 0; --budget) {
      TimerNode* node = exact_queue_.PopDue(now);
      if (node == nullptr) break;
      sink(node);
    }
    tick_.Set(exact_queue_.First());
    return exact_queue_.First() <= now ? TimerQueue::Progress::kMore : TimerQueue::Progress::kDone;
  }

  // Out of line, so that a setter has Add() in its own code (Arm(): 875 bytes instead of 1,661).
  WEFT_NOINLINE void CatchUp() noexcept WEFT_REQUIRES(lock) {
    const Tick now = TickOfNow(clock_->now());
    if (now >= tick_.first()) return;  // The timer thread is about to advance it, or the worker.
    // Nothing is due before that, so nothing fires. The next call goes on with nodes left to file.
    static_cast<void>(queue_.Advance(now, kCatchUpBudget, [](TimerNode*) { WEFT_UNREACHABLE(); }));
  }

  ShardTick tick_;
  bool open_ WEFT_GUARDED_BY(lock) = false;
  bool open_to_callbacks_ WEFT_GUARDED_BY(lock) = false;
  bool exact_ WEFT_GUARDED_BY(lock) = false;  // SH4
  unsigned far_adds_ WEFT_GUARDED_BY(lock) = 0;
  int node_ = -1;
  Alarm* alarm_ = nullptr;
  Housekeeping* housekeeping_ = nullptr;
  FiredTimers* fired_ = nullptr;
  const base::Clock* clock_ = nullptr;
  TimerSlab narrow_ WEFT_GUARDED_BY(lock){EntryWidth::kNarrow};
  TimerSlab wide_ WEFT_GUARDED_BY(lock){EntryWidth::kWide};
  ExactQueue exact_queue_ WEFT_GUARDED_BY(lock);
  TimerQueue queue_ WEFT_GUARDED_BY(lock);
};

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
  FiredTimers& fired() noexcept { return *fired_; }
  unsigned size() const noexcept { return workers_ + kOutsideShards; }
  TimerShard* shard(unsigned index) noexcept { return &shards_[index]; }

  // The shard that the calling thread uses in this set.
  TimerShard* ShardFor(const scheduling_group::WorkerBase* caller) noexcept {
    if (WEFT_UNLIKELY(caller == nullptr)) return OutsideShard();
    // A worker of another group may have a larger index; any shard will do.
    return &shards_[caller->index < workers_ ? caller->index : 0];
  }

 private:
  TimerShard* OutsideShard() noexcept;

  ShardSet(unsigned workers, int node);

  Alarm alarm_;
  Housekeeping housekeeping_{&alarm_};
  std::optional<FiredTimers> fired_{std::in_place};  // made anew by Borrow()
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

// --- The end of a timer with a callback, in callback_timer.cc. Here, where the analysis knows the lock. ---

// Ends a timer that is in no queue: destroys its callback, frees its memory, wakes the waiters. With the shard locked;
// drops the lock.
void EndEntry(TimerShard* shard, TimerEntry* entry) WEFT_RELEASE(shard->lock);

// Sleeps until `entry`, which a fiber or thread holds, has ended. With the shard locked; drops the lock.
void WaitForEnd(TimerShard* shard, TimerEntry* entry) WEFT_RELEASE(shard->lock);

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_TIMER_SHARD_H_
