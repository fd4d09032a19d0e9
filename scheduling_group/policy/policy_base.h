// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PolicyBase: what v1 and v2 have in common. Both have a global queue (global_queue.h) behind each worker's queues,
// which begin with a hand-off slot (worker_queues.h).
//
// WorkerQueues, one for each worker, has
//   slot                              a HandOffSlot
//   hand_offs_in_a_row, must_notify, used by the worker only; PolicyBase writes the first
//   counts
//   Empty(), Size()                   of the queues without the slot; any thread; Size() is an estimate
//
// scheduling_policy.h says which thread may call what. Protected functions: the worker that owns the queues.
#ifndef WEFT_SCHEDULING_GROUP_POLICY_POLICY_BASE_H_
#define WEFT_SCHEDULING_GROUP_POLICY_POLICY_BASE_H_

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "weft/base/thread/cpu.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/queue/global_queue.h"
#include "weft/scheduling_group/queue/worker_queues.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

template <class WorkerQueues>
class PolicyBase : public SchedulingPolicy, public numa::NodeAllocated {
 public:
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override {
    if (WokenFromOutside(reason, worker)) {
      global_.PushWoken(fibers, count);
    } else {
      global_.Push(fibers, count);
    }
  }

  // False: the slot is full, or the group has one worker, whose fibers run in the order in which they became ready.
  bool TryHandOffAndFence(FiberEntity* fiber, unsigned worker) noexcept override {
    return workers_ > 1 && QueuesOf(worker).slot.TryFillAndFence(fiber);
  }

  bool MustNotify(unsigned worker) final { return std::exchange(QueuesOf(worker).must_notify, false); }

  // The callers' fences order it (SP1).
  bool HasWork() const override {
    if (global_.HasWork()) return true;
    for (const WorkerQueues& queues : worker_queues_.objects()) {
      if (queues.slot.Full() || !queues.Empty()) return true;
    }
    return false;
  }
  bool HasStealable() const override {
    if (global_.HasWork()) return true;
    for (const WorkerQueues& queues : worker_queues_.objects()) {
      if (!queues.Empty()) return true;
    }
    return false;
  }
  bool Full() const final { return global_.Full(); }
  bool HalfEmpty() const final { return global_.HalfEmpty(); }
  std::size_t Size() const override {
    std::size_t size = global_.Size();
    for (const WorkerQueues& queues : worker_queues_.objects()) size += queues.Size() + (queues.slot.Full() ? 1 : 0);
    return size;
  }
  std::size_t OverflowCount() const final { return global_.overflow_count(); }
  QueueCounts CountsOf(unsigned worker) const final { return QueuesOf(worker).counts.Read(); }

 protected:
  explicit PolicyBase(const Options& options)
      : global_(options.run_queue_size, options.workers, options.node),
        workers_(options.workers),
        worker_queues_(options.workers, options.node) {}

  template <class Index>
  WEFT_ALWAYS_INLINE WorkerQueues& QueuesOf(Index worker) const noexcept {
    return worker_queues_[static_cast<std::size_t>(worker)];
  }

  // The fiber in the slot; nullptr: there is none, or other fibers must come first (HS3).
  WEFT_ALWAYS_INLINE FiberEntity* TakeHandOff(WorkerQueues& queues) noexcept {
    if (queues.hand_offs_in_a_row < kMaxHandOffs) {
      if (FiberEntity* fiber = queues.slot.Take()) {
        ++queues.hand_offs_in_a_row;
        return fiber;
      }
    }
    queues.hand_offs_in_a_row = 0;
    return nullptr;
  }

  // PopFromBusyWorkers(): calls take(from, own) for each other worker's queues, the next worker's first; then takes a
  // neglected hand-off from a slot.
  template <class Take>
  FiberEntity* PopFromOthers(unsigned worker, SpinMemory* memory, Take&& take) {
    if (workers_ == 1) return nullptr;
    WorkerQueues& own = QueuesOf(worker);
    for (unsigned step = 1; step < workers_; ++step) {
      if (FiberEntity* fiber = take(QueuesOf((worker + step) % workers_), own)) return fiber;
    }
    return TakeNeglectedHandOff(worker_queues_.objects(), worker, std::chrono::steady_clock::now(), memory);
  }

  // Steal(): returns the fiber unless it is group-local. A group-local one goes to the global queue, so that it hides
  // no other, and *must_notify is set, since it was in no queue for a moment.
  FiberEntity* IfForOthers(FiberEntity* fiber, bool* must_notify) {
    if (!fiber->group_local()) return fiber;
    global_.Push(fiber);
    *must_notify = true;
    return nullptr;
  }

  GlobalQueue global_;
  const unsigned workers_;
  const numa::NodeArray<WorkerQueues> worker_queues_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_POLICY_POLICY_BASE_H_
