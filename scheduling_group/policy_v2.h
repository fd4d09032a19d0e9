// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// PolicyV2: each worker keeps what its fibers start and wake, and who has nothing takes half of what another one has.
// For fork-join and other computation: no line is shared while all are busy.
//
//   hand-off slot  one per worker (hand_off_slot.h)
//   fifo           one per worker, first in first out (local_ring.h): fibers that yielded, and woken ones that found
//                  the slot taken; also what the worker took from the global queue for later
//   lifo           one per worker, last in first out (local_deque.h): what the fibers that run there have started
//   global queue   shared by all workers (global_queue.h): what comes from other threads (woken fibers go first) and in
//                  batches, and the older half of a `lifo`, the oldest of a `fifo`, that was full
//   yielded        shared by all workers, first in first out (run_queue.h): of the fibers that yield a few every
//                  kCheckEvery; all of them where fibers run for long
//
// A worker serves its slot, then `fifo` and `lifo` by turns, then takes a share of `yielded` and of the global queue;
// on every N-th tick it checks these first. N is chosen so that it checks every kCheckEvery, as far as its fibers let
// it.
//
// A group of one worker has the global queue only (and the slot, for spawners that found it full): there the order in
// which fibers become ready is the order in which they run, which is a guarantee.
//
// Invariants
//   P1  Nothing starves. Outside comes first every N-th tick, N <= kMaxTicks; for its levels see GQ4. Of `fifo` the
//       oldest is served at least every other tick that is not a hand-off. Of `lifo` the newest is served so; the
//       oldest, which could wait for ever behind a fiber that always starts another, is served every kOldestEvery, but
//       with fibers that run for longer at every eighth tick at the latest.
//   P2  Slots: HS1 to HS3.
//   P3  What waits at a worker whose fiber runs for long is taken by others also when none of them is idle, within a
//       millisecond if they switch that often: each looks for such workers every kStuckEvery.
//   P4  Fibers in a worker's hand between two of these places are seen by nobody; Pop() tells the group to notify once
//       they are visible again (SP1); of a push MustNotify() tells it.
//   P5  Local places are bounded, the global queue is not, so nothing is lost; TryPushNew() is false only when a
//       worker's own place and the global queue are full.
//   P6  Only a worker adds to its queues; so what a thief takes goes to its own queues.
//   P7  Fibers that yield have about the same number of turns, wherever they are and however long others run. A worker
//       whose fibers run for 33 us or longer on average (N is kMinTicks) puts all that yield into `yielded`: there the
//       most turns are within a factor of 3 of the least, and nobody waits for more than two rounds, but for as long as
//       the kernel stops the worker that has the fiber. Where they are shorter each fiber goes that way now and then,
//       so it holds over many rounds.
//   P8  After a fiber whose time slice is over (time_slice.h) its worker serves others for a slice, or until one of
//       them has had a slice, and then, before all else, one of `yielded`: so fibers that loop have half of the time
//       where others wait, however many those are, and wait no longer than that where the others loop, too.
//
// Rejected: other orders, and other ways to choose N, see docs/decisions/013.
#ifndef WEFT_SCHEDULING_GROUP_POLICY_V2_H_
#define WEFT_SCHEDULING_GROUP_POLICY_V2_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/clock.h"
#include "weft/numa/node_memory.h"
#include "weft/scheduling_group/global_queue.h"
#include "weft/scheduling_group/hand_off_slot.h"
#include "weft/scheduling_group/local_deque.h"
#include "weft/scheduling_group/local_ring.h"
#include "weft/scheduling_group/policy_base.h"
#include "weft/scheduling_group/run_queue.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

// Of one worker.
struct WorkerQueuesV2 {
  // Depth-first trees need their depth times their width: skynet 54.
  static constexpr std::uint32_t kLifoCapacity = 256;
  // So that what goes around does so here: with 1,000 fibers that yield on two workers 15 ns each, against 24 with 256
  // (bench/workload --workload=yield).
  static constexpr std::uint32_t kFifoCapacity = 1024;
  static constexpr std::uint32_t kMinTicks = 2;  // Local fibers have a share too.

  bool Empty() const noexcept { return fifo.Empty() && lifo.Empty(); }
  std::size_t Size() const noexcept { return fifo.Size() + lifo.Size(); }

  HandOffSlot slot;
  LocalRing<kFifoCapacity> fifo;
  LocalDeque<kLifoCapacity> lifo;
  // Its worker's alone.
  alignas(base::kCacheLineSize) std::uint32_t hand_offs_in_a_row = 0;
  std::uint32_t ticks_until_check = 1;
  std::uint32_t ticks = kMinTicks;  // from check to check
  std::uint32_t checks = 0;
  std::uint32_t shares = 0;          // GlobalQueue's to count
  std::uint32_t yields_for_all = 0;  // so many fibers that yield next go to `yielded`
  bool lifo_next = false;
  bool idled = true;  // since the last check
  bool oldest_next = false;
  bool must_notify = false;           // in a push (P4)
  unsigned visit_next = 0;            // a worker's index
  std::int64_t checked_stuck_at = 0;  // ns of steady_clock, both
  std::int64_t served_oldest_at = 0;
  std::int64_t yielded_for_all_at = 0;
  bool slice_is_over = false;  // of a fiber, since the last check
  bool others_first = false;   // than `yielded`, as of the last check; P8
  std::int64_t others_first_until = 0;
  bool yielded_next = false;        // at the next check that brings nothing from other workers
  bool yielded_had_a_turn = false;  // one of `yielded`, since the last slice was over
  bool check_was_last = false;      // as of the last check: it brought a fiber
  bool local_next = false;          // A slice makes it check again at once; local fibers have a share too (P1).
  // Of the last kMemory: how long it was busy, in ns, and how many ticks it made meanwhile, in 1/256.
  std::uint64_t busy_for = 0;
  std::uint64_t busy_ticks = 0;
  std::atomic<std::int64_t> checked_at{0};  // ns of steady_clock; read by others that look for stuck workers
  QueueCounters counts;
};

class PolicyV2 final : public PolicyBase<WorkerQueuesV2> {
 public:
  explicit PolicyV2(const Options& options, const base::Clock& clock = base::SteadyClock::Get());
  ~PolicyV2() override;

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override;
  bool TryPushNew(FiberEntity* fiber, int worker) override;
  // After a push into the queue the fence costs nothing.
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
  // Moved in one step, half of `lifo`: an array of a kibibyte on the stack of the fiber that finds its place full.
  static constexpr std::uint32_t kMaxMoved = WorkerQueues::kLifoCapacity / 2;
  // A tenth of the millisecond within which a fiber from outside shall run when all workers are busy.
  static constexpr std::chrono::microseconds kCheckEvery{100};
  // A check costs about 30 ns, mostly for the time: half a nanosecond per tick. As in Go a prime, so that it does not
  // keep step with a program that does the same things over and over.
  static constexpr std::uint32_t kMaxTicks = 61;
  // Of the fibers that yield so many go where others take them, every kCheckEvery. In a drive of the policy with eight
  // unequal workers, half of the fibers short and half of 20 us, the most turns were 117 times the least with none, 18
  // times with one, twice with four (WhereverTheyAre in policy_v2_test.cc). It costs half a percent of the time; of 64
  // workers that all do so each touches the queue every 25 us, so somebody every 0.4 us, which is what it can bear.
  static constexpr std::uint32_t kYieldsShared = 4;
  // 128 KiB a group. What finds it full takes turns at its worker; a round of so many that run for long takes hundreds
  // of milliseconds anyway.
  static constexpr std::size_t kYieldedCapacity = 8192;
  // Of the checks one is for `yielded` first, so that it does not starve where there is always something from outside.
  static constexpr std::uint32_t kYieldedFirstEvery = 4;
  // N follows the mean of so long, 2^23 ns, so that a few short fibers between long ones do not change it.
  static constexpr int kMemoryBits = 23;
  static constexpr std::uint64_t kMemory = std::uint64_t{1} << kMemoryBits;
  static constexpr int kFraction = 8;  // bits
  // Each oldest fiber may open another subtree, with its stacks: a thousand in a second do no harm, while one in a
  // thousand fibers makes a tree of a million go wide (bench/workload --workload=skynet_1m: 130 ms against 33).
  static constexpr std::chrono::milliseconds kOldestEvery{1};
  // A worker is stuck when it has missed two checks. Together a half of the millisecond that P3 promises.
  static constexpr std::chrono::microseconds kStuckAfter{200};
  static constexpr std::chrono::microseconds kStuckEvery{200};
  // Of a stuck worker's queues: half, but so many if there are. So a few dozen fibers need one visit, and not one for
  // each half.
  static constexpr std::size_t kTakeFromStuck = 32;
  // Workers per visit, by turns: a line each. With 64 workers each is seen by each other worker every 1.6 ms, and by
  // one of them every 25 us.
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
  (void)queues.fifo.Push(fiber);  // Only we add (P6).
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
    queues.ticks_until_check = 1;  // So that a worker that has not checked for long is one that is stuck.
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

#endif  // WEFT_SCHEDULING_GROUP_POLICY_V2_H_
