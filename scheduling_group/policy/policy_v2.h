// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PolicyV2: each worker keeps the fibers that its fibers start and wake, and a worker without any takes half of
// another's. For fork-join and other computation: workers share no line while all are busy.
//
//   hand-off slot  one per worker (HandOffSlot in worker_queues.h)
//   fifo           one per worker, first in, first out (LocalRing): fibers that yielded, and woken ones that found
//                  the slot taken; also what the worker took from the global queue for later
//   lifo           one per worker, last in first out (LocalDeque): what the fibers that run there have started
//   global queue   shared by all workers (global_queue.h): what comes from other threads (woken fibers go first) and in
//                  batches, and the older half of a `lifo`, the oldest of a `fifo`, that was full
//   yielded        shared by all workers, first in first out (run_queue.h): of the fibers that yield a few every
//                  kCheckEvery; all of them where fibers run for long
//
// A worker serves its slot, then `fifo` and `lifo` by turns, then a share of `yielded` and of the global queue. Every
// N-th tick, about every kCheckEvery as far as its fibers let it, it checks these two first.
//
// A group of one worker has only the global queue (and the slot, for spawners that found it full). It guarantees that
// fibers run in the order in which they become ready.
//
// Invariants
//   P1  Nothing starves. The global queue comes first every N-th tick, N <= kMaxTicks; for its levels see GQ4. The
//       oldest of `fifo` and the newest of `lifo` are each served at least every other tick that is not a hand-off. The
//       oldest of `lifo`, which could wait for ever behind a fiber that always starts another, is served every
//       kOldestEvery, or where fibers run longer at every eighth tick at the latest.
//   P2  HS1 to HS3, of the slots.
//   P3  Other workers, even if none is idle, take what waits at a worker whose fiber runs for long: each looks for such
//       workers every kStuckEvery, so within a millisecond if they switch that often.
//   P4  Fibers that a worker moves between two places are hidden for a moment. Then Pop(), or MustNotify() after a
//       push, has the group notify (SP1).
//   P5  Local queues are bounded and the global queue is not, so nothing is lost. TryPushNew() fails only when the
//       worker's own queue and the global ring are full.
//   P6  Only the worker itself adds to its queues: what a thief takes goes to the thief's queues.
//   P7  Fibers that yield get about the same number of turns, wherever they are and however long others run. A worker
//       whose fibers run for 33 us or longer on average (N is kMinTicks) puts all that yield into `yielded`. There the
//       most turns are within a factor of 3 of the least, and no fiber waits for more than two rounds, save while the
//       kernel stops the worker that holds it. Shorter fibers go that way now and then, so it holds over many rounds.
//   P8  After a fiber whose time slice is over (time_slice.h), its worker serves others for a slice, or until one of
//       them has had a slice, and then, before all else, one of `yielded`. So fibers that loop get half of the time
//       where others wait, however many those are, and wait no longer than that where the others loop too.
//
// Rejected: other orders, and other ways to choose N, see docs/decisions/013.
#ifndef WEFT_SCHEDULING_GROUP_POLICY_POLICY_V2_H_
#define WEFT_SCHEDULING_GROUP_POLICY_POLICY_V2_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/time/clock.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/policy/policy_base.h"
#include "weft/scheduling_group/queue/global_queue.h"
#include "weft/scheduling_group/queue/run_queue.h"
#include "weft/scheduling_group/queue/worker_queues.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

// Of one worker.
struct WorkerQueuesV2 {
  // A depth-first tree needs its depth times its width: skynet 54.
  static constexpr std::uint32_t kLifoCapacity = 256;
  // Large, so that yielding fibers stay local: 1,000 on two workers take 15 ns each, 24 with 256 (--workload=yield).
  static constexpr std::uint32_t kFifoCapacity = 1024;
  static constexpr std::uint32_t kMinTicks = 2;  // Leaves local fibers a share.

  bool Empty() const noexcept { return fifo.Empty() && lifo.Empty(); }
  std::size_t Size() const noexcept { return fifo.Size() + lifo.Size(); }

  HandOffSlot slot;
  LocalRing<kFifoCapacity> fifo;
  LocalDeque<kLifoCapacity> lifo;
  // Used by its worker only, but for checked_at.
  alignas(base::kCacheLineSize) std::uint32_t hand_offs_in_a_row = 0;
  std::uint32_t ticks_until_check = 1;
  std::uint32_t ticks = kMinTicks;  // from check to check
  std::uint32_t checks = 0;
  std::uint32_t shares = 0;          // GlobalQueue's to count
  std::uint32_t yields_for_all = 0;  // this many of the fibers that yield next go to `yielded`
  bool lifo_next = false;
  bool idled = true;  // since the last check
  bool oldest_next = false;
  bool must_notify = false;           // because of a push (P4)
  unsigned visit_next = 0;            // a worker's index
  std::int64_t checked_stuck_at = 0;  // ns of steady_clock, both
  std::int64_t served_oldest_at = 0;
  std::int64_t yielded_for_all_at = 0;
  bool slice_is_over = false;  // a fiber's, since the last check
  bool others_first = false;   // before `yielded`, as of the last check; P8
  std::int64_t others_first_until = 0;
  bool yielded_next = false;        // at the next check that takes nothing from stuck workers
  bool yielded_had_a_turn = false;  // one of `yielded` ran since the last slice was over
  bool check_was_last = false;      // the last check brought a fiber
  bool local_next = false;          // skip the check that the end of a slice would add (P1)
  // Over the last kMemory: its busy time in ns, and its ticks meanwhile in 1/256.
  std::uint64_t busy_for = 0;
  std::uint64_t busy_ticks = 0;
  std::atomic<std::int64_t> checked_at{0};  // ns of steady_clock; others read it to find stuck workers
  QueueCounters counts;
};

class PolicyV2 final : public PolicyBase<WorkerQueuesV2> {
 public:
  explicit PolicyV2(const Options& options, const base::Clock& clock = base::SteadyClock::Get());
  ~PolicyV2() override;

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override;
  bool TryPushNew(FiberEntity* fiber, int worker) override;
  // A push into the global queue is a full fence by itself.
  void PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) override;
  bool TryPushNewAndFence(FiberEntity* fiber, int worker) override;
  FiberEntity* Pop(unsigned worker, bool* must_notify) override;
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override;
  FiberEntity* Steal(bool* must_notify) override;
  void SliceIsOver(unsigned worker) override {
    WorkerQueues& queues = QueuesOf(worker);
    queues.slice_is_over = true;
    queues.local_next = queues.check_was_last && queues.ticks_until_check == queues.ticks;
    queues.ticks_until_check = 1;
  }
  bool HasWork() const override { return !yielded_.Empty() || PolicyBase::HasWork(); }
  bool HasStealable() const override { return !yielded_.Empty() || PolicyBase::HasStealable(); }
  std::size_t Size() const override { return yielded_.Size() + PolicyBase::Size(); }
  std::vector<std::span<const std::byte>> Memory() const override;

 private:
  using WorkerQueues = WorkerQueuesV2;
  static constexpr std::uint32_t kMinTicks = WorkerQueues::kMinTicks;
  // Fibers moved in one step, half of `lifo`: an array of 1 KiB on the stack of the fiber that finds its queue full.
  static constexpr std::uint32_t kMaxMoved = WorkerQueues::kLifoCapacity / 2;
  // A tenth of the millisecond within which a fiber from outside should run when all workers are busy.
  static constexpr std::chrono::microseconds kCheckEvery{100};
  // A check costs about 30 ns, mostly to read the clock: half a nanosecond per tick. A prime, as in Go, so that it does
  // not keep step with a program that repeats itself.
  static constexpr std::uint32_t kMaxTicks = 61;
  // This many of the fibers that yield go to `yielded` every kCheckEvery. With eight unequal workers the most turns
  // were 117 times the least with none, 47 times with one, 8 with two, twice with four (WhereverTheyAre in
  // policy_v2_test.cc). It costs 0.5 % of the time; for its contention see docs/decisions/011.
  static constexpr std::uint32_t kYieldsShared = 4;
  // 128 KiB a group. A fiber that finds it full stays at its worker: a round takes hundreds of milliseconds anyway.
  static constexpr std::size_t kYieldedCapacity = 8192;
  // One check in so many takes `yielded` first, which would starve where the global queue always has something.
  static constexpr std::uint32_t kYieldedFirstEvery = 4;
  // N follows the mean over this time, 2^23 ns, so that a few short fibers between long ones do not change it.
  static constexpr int kMemoryBits = 23;
  static constexpr std::uint64_t kMemory = std::uint64_t{1} << kMemoryBits;
  static constexpr int kFraction = 8;  // bits
  // Each oldest fiber may open another subtree, with its stacks. A thousand a second do no harm (docs/decisions/013).
  static constexpr std::chrono::milliseconds kOldestEvery{1};
  // A worker is stuck when it has missed two checks. Together the two are half of the millisecond that P3 promises.
  static constexpr std::chrono::microseconds kStuckAfter{200};
  static constexpr std::chrono::microseconds kStuckEvery{200};
  // A visit takes half of a stuck worker's fibers, but at least this many: a few dozen need one visit.
  static constexpr std::size_t kTakeFromStuck = 32;
  // Workers looked at per visit, by turns. Of 64 each looks at a given one every 1.6 ms, and is looked at every 25 us.
  static constexpr unsigned kWorkersPerVisit = 8;

  void PushFifo(WorkerQueues& queues, FiberEntity* fiber);
  void YieldForAll(WorkerQueues& queues, FiberEntity* fiber);
  void SpillFifo(WorkerQueues& queues);
  bool SpillLifo(WorkerQueues& queues);
  FiberEntity* PopLocal(WorkerQueues& queues) noexcept;
  FiberEntity* Check(WorkerQueues& queues, bool* must_notify);
  FiberEntity* CheckOutside(WorkerQueues& queues, std::int64_t now, bool* must_notify);
  bool OthersHaveHadTheirSlice(WorkerQueues& queues, std::int64_t now);
  void AdaptTicks(WorkerQueues& queues, std::int64_t now);
  void ShareYields(WorkerQueues& queues, std::int64_t now);
  enum class Yielded { kFirst, kLast, kNot };  // or the global queue
  FiberEntity* TakeShare(WorkerQueues& queues, Yielded yielded, bool* must_notify);
  FiberEntity* TakeShareOfSome(WorkerQueues& queues, Yielded yielded, bool* must_notify);
  std::size_t PopYielded(WorkerQueues& queues, FiberEntity** fibers, std::size_t at_most) noexcept;
  FiberEntity* Patrol(WorkerQueues& queues, std::int64_t now);
  FiberEntity* TakeHalf(WorkerQueues& from, WorkerQueues& own, std::size_t at_least = 1);
  FiberEntity* TakeFromStuckWorker(WorkerQueues& own, std::int64_t now);

  const base::Clock& clock_;
  const numa::NodeArray<RunQueue::Slot> yielded_slots_;
  RunQueue yielded_;
};

// Inline: see policy_dispatch.h.

WEFT_ALWAYS_INLINE void PolicyV2::Push(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (worker != kNoWorker) {
    WorkerQueues& queues = QueuesOf(worker);
    if (reason == ReadyReason::kDisplaced && queues.slot.TryFill(fiber)) return;
    if (workers_ > 1) {
      if (reason == ReadyReason::kWoken && queues.slot.TryFill(fiber)) return;
      if (reason == ReadyReason::kStarted && TryPushNew(fiber, worker)) return;
      if (reason == ReadyReason::kYielded && queues.yields_for_all != 0) [[unlikely]] {
        return YieldForAll(queues, fiber);
      }
      PushFifo(queues, fiber);
      return;
    }
  }
  if (WokenFromOutside(reason, worker)) {
    global_.PushWoken(fiber);
  } else {
    global_.Push(fiber);
  }
}

WEFT_ALWAYS_INLINE bool PolicyV2::TryPushNew(FiberEntity* fiber, int worker) {
  if (worker == kNoWorker || workers_ == 1) return global_.TryPush(fiber);
  WorkerQueues& queues = QueuesOf(worker);
  return queues.lifo.Push(fiber) || (SpillLifo(queues) && queues.lifo.Push(fiber));
}

WEFT_ALWAYS_INLINE void PolicyV2::PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (WokenFromOutside(reason, worker)) {
    global_.PushWokenAndFence(fiber);
  } else if (worker == kNoWorker || (workers_ == 1 && reason != ReadyReason::kDisplaced)) {
    global_.PushAndFence(fiber);
  } else {
    Push(fiber, reason, worker);
    base::ThreadFence(std::memory_order_seq_cst);
  }
}

WEFT_ALWAYS_INLINE bool PolicyV2::TryPushNewAndFence(FiberEntity* fiber, int worker) {
  if (worker == kNoWorker || workers_ == 1) return global_.TryPushAndFence(fiber);
  if (!TryPushNew(fiber, worker)) return false;
  base::ThreadFence(std::memory_order_seq_cst);
  return true;
}

WEFT_ALWAYS_INLINE void PolicyV2::PushFifo(WorkerQueues& queues, FiberEntity* fiber) {
  if (queues.fifo.Push(fiber)) [[likely]] {
    return;
  }
  SpillFifo(queues);
  (void)queues.fifo.Push(fiber);  // There is room: only we add (P6).
}

WEFT_ALWAYS_INLINE FiberEntity* PolicyV2::Pop(unsigned worker, bool* must_notify) {
  WorkerQueues& queues = QueuesOf(worker);
  if (workers_ > 1 && --queues.ticks_until_check == 0) [[unlikely]] {
    if (FiberEntity* fiber = Check(queues, must_notify)) return fiber;
  }
  if (FiberEntity* fiber = TakeHandOff(queues)) return fiber;
  FiberEntity* fiber;
  if (workers_ == 1) {
    fiber = global_.PopAlone();
  } else {
    fiber = PopLocal(queues);
    if (fiber == nullptr)
      fiber = TakeShare(queues, queues.others_first ? Yielded::kLast : Yielded::kFirst, must_notify);
  }
  if (fiber == nullptr) fiber = queues.slot.Take();
  if (fiber == nullptr) {
    queues.idled = true;
    queues.ticks_until_check = 1;  // So that only a stuck worker has not checked for long.
  }
  return fiber;
}

WEFT_ALWAYS_INLINE FiberEntity* PolicyV2::PopLocal(WorkerQueues& queues) noexcept {
  queues.lifo_next = !queues.lifo_next;
  FiberEntity* fiber = queues.lifo_next ? queues.lifo.PopNewest() : queues.fifo.Pop();
  if (fiber == nullptr) fiber = queues.lifo_next ? queues.fifo.Pop() : queues.lifo.PopNewest();
  return fiber;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_POLICY_POLICY_V2_H_
