// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PolicyV1: one shared first-in-first-out queue per group. Lowest scheduling delay, fair.
//
//   run queue      bounded, lock-free (run_queue.h); what finds it full goes to the overflow list, in order
//   hand-off slot  one per worker, for a fiber woken by the fiber that runs there: message passing stays on one core;
//                  and for one that starts fibers though the queue is full: it goes on as soon as the fiber that runs in
//                  its place lets it, so that trees of fibers larger than the queue are run depth first, with few stacks
//
// In a group of one worker woken fibers go to the queue instead: there the order in which fibers become ready is the
// order in which they run, which is a guarantee.
//
// Invariants
//   V1  Only its worker fills a slot; its worker or a spinner empties it, by an exchange, so once.
//   V2  A slot's fiber waits at most `kHandOffPatience` * 2 while a worker of the group is idle: filling the slot is
//       followed by a notification like any push, a spinner takes what it saw unchanged (same ticket) for
//       kHandOffPatience, and no worker sleeps while a slot is full (HasWork).
//   V3  A slot is served at most kMaxHandOffs times in a row while the queue holds fibers: ping-pong starves nobody.
//
// Rejected: putting new fibers into the slot too (fan-out would serialise until a spinner looks).
#ifndef WEFT_SCHEDULING_GROUP_POLICY_V1_H_
#define WEFT_SCHEDULING_GROUP_POLICY_V1_H_

#include <atomic>
#include <memory>

#include "weft/scheduling_group/overflow_list.h"
#include "weft/scheduling_group/run_queue.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

class PolicyV1 final : public SchedulingPolicy {
 public:
  explicit PolicyV1(const Options& options);
  ~PolicyV1() override;

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override;
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override;
  bool TryPushNew(FiberEntity* fiber, int worker) override;
  FiberEntity* Pop(unsigned worker) override;
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override;
  FiberEntity* Steal() override;
  bool HasWork() const override;
  bool Full() const override;
  bool HalfEmpty() const override;
  std::size_t Size() const override;
  std::size_t OverflowCount() const override;

 private:
  // A few microseconds, well above the 50-100 ns that a fiber of a message-passing pair runs between two hand-offs.
  static constexpr std::chrono::microseconds kHandOffPatience{3};
  static constexpr std::uint32_t kMaxHandOffs = 16;

  struct alignas(base::kCacheLineSize) HandOffSlot {
    std::atomic<FiberEntity*> fiber{nullptr};
    std::atomic<std::uint32_t> ticket{0};  // counts fillings
    std::uint32_t in_a_row = 0;            // its worker's
  };

  FiberEntity* PopSlot(HandOffSlot& slot) noexcept;
  FiberEntity* PopQueue() noexcept;
  bool SlotsFull() const noexcept;
  bool MayUseSlot(ReadyReason reason, int worker) const noexcept;

  RunQueue queue_;
  OverflowList overflow_;
  std::atomic<std::size_t> overflow_count_{0};
  const unsigned workers_;
  const std::unique_ptr<HandOffSlot[]> slots_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_POLICY_V1_H_
