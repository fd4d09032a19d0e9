// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PolicyV1: one queue per group, shared by its workers. Fair, with the lowest scheduling delay.
//
//   global queue   shared by all workers (global_queue.h): first in, first out; fibers woken from outside go first
//   hand-off slot  one per worker (HandOffSlot in worker_queues.h)
//   pop buffer     one per worker: a few fibers on their way from the queue (LocalRing)
//   push buffer    likewise: on their way to the queue
//
// A line that moves between cores costs as much as ten switches, and each visit to the queue moves two. So a worker
// takes several fibers per visit (pop buffer) and brings several (push buffer), in order: as many as it has lately run
// within kBatchTime, so none waits behind more than microseconds of others' work. Idle workers may take from both.
//
// A group of one worker runs fibers in the order in which they become ready: woken ones go to the queue, and there are
// no batches. (If other groups steal from it, group-local fibers in a thief's way go behind the others.)
//
// Invariants
//   V1-V3  HS1 to HS3, of the slots.
//   V4  A worker visits the queue at least every kMaxBatch fibers plus hand-offs. So a fiber from outside waits behind
//       what was in the queue and the buffers only, and a new one also behind fibers woken meanwhile, as GQ4 says.
//   V5  Other workers, even if none is idle, take what lies in the buffers of a worker whose fiber runs for long: each
//       looks for such a worker every kRescueEvery visits.
//   V6  Fibers that a worker moves between two places are hidden for part of a microsecond. Then Pop(), or MustNotify()
//       after a push, has the group notify (SP1). A worker that the kernel stops meanwhile hides up to kMaxBatch of
//       them until it has a CPU again: about T / C time slices where T threads want C CPUs.
//
// Rejected: new fibers in the slot too (fan-out is serial until a spinner looks); a visit to the queue for each fiber
// (2 workers, 1,000 fibers that yield: 150 ns each instead of 40; bench/workload --workload=yield).
#ifndef WEFT_SCHEDULING_GROUP_POLICY_POLICY_V1_H_
#define WEFT_SCHEDULING_GROUP_POLICY_POLICY_V1_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/scheduling_group/policy/policy_base.h"
#include "weft/scheduling_group/queue/global_queue.h"
#include "weft/scheduling_group/queue/worker_queues.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

// Of one worker.
struct WorkerQueuesV1 {
  static constexpr std::uint32_t kMaxBatch = 16;
  using Ring = LocalRing<kMaxBatch>;

  bool Empty() const noexcept { return pop_buffer.Empty() && push_buffer.Empty(); }
  std::size_t Size() const noexcept { return pop_buffer.Size() + push_buffer.Size(); }

  HandOffSlot slot;
  Ring pop_buffer;
  Ring push_buffer;
  // Used by its worker only.
  alignas(base::kCacheLineSize) std::uint32_t hand_offs_in_a_row = 0;
  std::uint32_t batch = 1;  // fibers per visit to the queue
  std::uint32_t taken = 0;  // fibers that the last visit brought
  std::uint32_t visits = 0;
  std::uint32_t shares = 0;                 // GlobalQueue's to count
  bool must_notify = false;                 // because of a push (V6)
  std::atomic<std::int64_t> visited_at{0};  // ns of steady_clock; others read it to find stuck workers
  QueueCounters counts;
};

class PolicyV1 final : public PolicyBase<WorkerQueuesV1> {
 public:
  explicit PolicyV1(const Options& options);
  ~PolicyV1() override;

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override;
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override;
  bool TryPushNew(FiberEntity* fiber, int worker) override;
  // A push into the queue is a full fence by itself.
  void PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) override;
  bool TryPushNewAndFence(FiberEntity* fiber, int worker) override;
  FiberEntity* Pop(unsigned worker, bool* must_notify) override;
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override;
  FiberEntity* Steal(bool* must_notify) override;
  std::vector<std::span<const std::byte>> Memory() const override;

 private:
  using WorkerQueues = WorkerQueuesV1;
  using Ring = WorkerQueues::Ring;
  static constexpr std::uint32_t kMaxBatch = WorkerQueues::kMaxBatch;
  // About the cost of waking a worker on another core, so waiting that long behind others is no worse.
  static constexpr std::chrono::microseconds kBatchTime{20};
  // There are some microseconds between busy visits, so a search comes about every 100 us. A worker is stuck if its
  // last visit is several times kBatchTime ago.
  static constexpr std::uint32_t kRescueEvery = 16;
  static constexpr std::chrono::microseconds kStuckAfter{100};

  bool MayUseSlot(ReadyReason reason, int worker) const noexcept;
  bool Batches(int worker) const noexcept { return worker != kNoWorker && QueuesOf(worker).batch > 1; }
  void PushRarelyAndFence(FiberEntity* fiber, ReadyReason reason, int worker);
  bool PushBehindBuffer(WorkerQueues& queues, FiberEntity* fiber);
  void FlushPushBuffer(WorkerQueues& queues);
  FiberEntity* VisitQueue(WorkerQueues& queues, bool* must_notify);
  void KeepForLater(WorkerQueues& queues, FiberEntity* const* fibers, std::size_t count);
  void AdaptBatch(WorkerQueues& queues, std::int64_t now);
  FiberEntity* TakeFromBuffers(WorkerQueues& from, WorkerQueues& own);
  FiberEntity* TakeFromStuckWorker(WorkerQueues& own, std::int64_t now);
};

// Inline: see policy_dispatch.h.

WEFT_ALWAYS_INLINE bool PolicyV1::MayUseSlot(ReadyReason reason, int worker) const noexcept {
  if (worker == kNoWorker) return false;
  return reason == ReadyReason::kDisplaced || (reason == ReadyReason::kWoken && workers_ > 1);
}

WEFT_ALWAYS_INLINE void PolicyV1::Push(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (WokenFromOutside(reason, worker)) {
    global_.PushWoken(fiber);
    return;
  }
  if (MayUseSlot(reason, worker) && QueuesOf(worker).slot.TryFill(fiber)) return;
  if (!TryPushNew(fiber, worker)) global_.Push(fiber);
}

WEFT_ALWAYS_INLINE bool PolicyV1::TryPushNew(FiberEntity* fiber, int worker) {
  if (!Batches(worker)) return global_.TryPush(fiber);
  WorkerQueues& queues = QueuesOf(worker);
  return queues.push_buffer.Push(fiber) || PushBehindBuffer(queues, fiber);
}

WEFT_ALWAYS_INLINE void PolicyV1::PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (WokenFromOutside(reason, worker)) {
    global_.PushWokenAndFence(fiber);
  } else if (reason == ReadyReason::kDisplaced || !TryPushNewAndFence(fiber, worker)) {
    PushRarelyAndFence(fiber, reason, worker);
  }
}

WEFT_ALWAYS_INLINE bool PolicyV1::TryPushNewAndFence(FiberEntity* fiber, int worker) {
  if (!Batches(worker)) return global_.TryPushAndFence(fiber);
  if (!TryPushNew(fiber, worker)) return false;
  base::ThreadFence(std::memory_order_seq_cst);
  return true;
}

WEFT_ALWAYS_INLINE FiberEntity* PolicyV1::Pop(unsigned worker, bool* must_notify) {
  WorkerQueues& queues = QueuesOf(worker);
  if (FiberEntity* fiber = TakeHandOff(queues)) return fiber;
  FiberEntity* fiber = workers_ == 1 ? global_.PopAlone() : queues.pop_buffer.Pop();
  if (fiber == nullptr && workers_ > 1) fiber = VisitQueue(queues, must_notify);
  return fiber != nullptr ? fiber : queues.slot.Take();
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_POLICY_POLICY_V1_H_
