// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// SchedulingPolicy: where the ready fibers of one group wait and in which order they run. The group owns one, chosen by
// name (`--fiber_scheduling_name`); "v1" and "v2" are built in, others can be registered before the runtime starts.
//
// A policy is a data structure: it never sleeps, wakes or switches. The group wakes workers after each push
// (idle_workers.h), which asks two things of a policy:
//
//   SP1  A fiber pushed before a full fence is reported by HasWork() after a full fence that follows it, until it is
//        popped.
//   SP2  A worker that finds HasWork() true will, if it keeps asking Pop() and PopFromBusyWorkers(), get a fiber or see
//        HasWork() turn false: "work" is never something that only a worker busy elsewhere can take.
//
// Each fiber pushed is popped exactly once, whatever function hands it out.
#ifndef WEFT_SCHEDULING_GROUP_SCHEDULING_POLICY_H_
#define WEFT_SCHEDULING_GROUP_SCHEDULING_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/atomic.h"
#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/spin_memory.h"

namespace weft::scheduling_group {

// Why a fiber became ready.
enum class ReadyReason {
  kStarted,    // new
  kWoken,      // its wait ended
  kYielded,    // it let others go first
  kDisplaced,  // it wanted to start a fiber, found the queue full, and that fiber runs in its place
};

// What one worker has brought from the queue that all share; only grows. Read by any thread.
struct QueueCounts {
  std::uint64_t visits = 0;  // that brought something
  std::uint64_t fibers = 0;
};

class SchedulingPolicy {
 public:
  static constexpr int kNoWorker = -1;

  struct Options {
    unsigned workers = 1;
    std::size_t run_queue_size = 131072;
    int node = -1;  // NUMA node of its memory; -1: any
  };

  virtual ~SchedulingPolicy() = default;

  // Of a push: the fiber's wait was ended by no worker of the group (GlobalQueue has a level for these).
  static constexpr bool WokenFromOutside(ReadyReason reason, int worker) noexcept {
    return worker == kNoWorker && reason == ReadyReason::kWoken;
  }

  // `worker`: the worker of this group that calls, or kNoWorker for any other thread.
  // Never fails: what finds no room waits in an unbounded intrusive list.
  virtual void Push(FiberEntity* fiber, ReadyReason reason, int worker) = 0;
  virtual void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) = 0;

  // As Push of a new fiber, but false if the bounded queue is full: the place for back-pressure.
  [[nodiscard]] virtual bool TryPushNew(FiberEntity* fiber, int worker) = 0;

  // As their namesakes, and a full fence after the push (SP1): what the group calls. A policy whose push is a fence by
  // itself overrides them.
  virtual void PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
    Push(fiber, reason, worker);
    base::ThreadFence(std::memory_order_seq_cst);
  }
  [[nodiscard]] virtual bool TryPushNewAndFence(FiberEntity* fiber, int worker) {
    if (!TryPushNew(fiber, worker)) return false;
    base::ThreadFence(std::memory_order_seq_cst);
    return true;
  }
  // A fiber that one of `worker`, the caller, has woken: as PushAndFence(), to where that worker looks first. False:
  // there is no such place, or it is taken; PushAndFence() follows.
  [[nodiscard]] virtual bool TryHandOffAndFence([[maybe_unused]] FiberEntity* fiber,
                                                [[maybe_unused]] unsigned worker) noexcept {
    return false;
  }

  // By `worker`, after a push: whether one since the last call had hidden other ready fibers from others for a
  // moment. The group then tells other groups of them, though what was pushed is not for these.
  virtual bool MustNotify([[maybe_unused]] unsigned worker) { return false; }

  // The fiber that runs has had its time slice (time_slice.h), and yields: Pop() and Push() follow. By `worker`.
  virtual void SliceIsOver([[maybe_unused]] unsigned worker) {}

  // The next fiber for `worker`, by that worker only; nullptr if it should go and idle. Sets *must_notify if it had
  // hidden ready fibers from others for a moment: the caller must then notify as after a push.
  [[nodiscard]] virtual FiberEntity* Pop(unsigned worker, bool* must_notify) = 0;

  // What another worker of the group has kept for itself and does not get to. By a spinning worker.
  [[nodiscard]] virtual FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) = 0;

  // A fiber for another group, never a group-local one. Any thread. must_notify: as for Pop().
  [[nodiscard]] virtual FiberEntity* Steal(bool* must_notify) = 0;

  // Any thread.
  virtual bool HasWork() const = 0;
  virtual bool HasStealable() const = 0;          // Steal() may bring something (or group-local fibers are in its way)
  virtual bool Full() const = 0;                  // TryPushNew() would say false
  virtual bool HalfEmpty() const = 0;             // time to let blocked spawners go on
  virtual std::size_t Size() const = 0;           // an estimate
  virtual std::size_t OverflowCount() const = 0;  // fibers ever pushed beyond the bounded queue

  // For reports (counters.h). None: the policy does not count.
  virtual QueueCounts CountsOf([[maybe_unused]] unsigned worker) const { return {}; }

  // The pieces of memory that it works in and that lie on Options::node; for reports and tests.
  virtual std::vector<std::span<const std::byte>> Memory() const { return {}; }
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_SCHEDULING_POLICY_H_
