// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SchedulingPolicy: where the ready fibers of one group wait and in which order they run. The group owns one, chosen by
// name (`--fiber_scheduling_name`); "v1" and "v2" are built in, users register others before they start the runtime.
//
// A policy is a data structure: it never sleeps, wakes or switches. The group wakes workers after each push
// (idle_workers.h), and for that relies on three things:
//
//   SP1  A fiber pushed before a full fence is reported by HasWork() after a later full fence, until it is popped.
//   SP2  A worker that sees HasWork() true and keeps calling Pop() and PopFromBusyWorkers() gets a fiber or sees
//        HasWork() turn false. So work is never something that only a busy worker can take.
//   SP3  The same as SP1 of HasStealable(), for fibers that Steal() can bring (RS3 in wake_and_steal.h).
//
// Each fiber pushed is handed out exactly once, whatever function does it.
//
// From the push until the fiber is handed out, a policy may read its priority() (of its FiberAttributes, 0 to
// FiberEntity::kMaxPriority; Weft's policies ignore it) and group_local(), and link it by `next`. After that the fiber
// is another thread's. Callers may hold spin locks: a policy allocates nothing, and its own lock is the last one taken.
// An example: examples/priority_policy.
#ifndef WEFT_SCHEDULING_GROUP_SCHEDULING_POLICY_H_
#define WEFT_SCHEDULING_GROUP_SCHEDULING_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/thread/atomic.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/queue/worker_queues.h"

namespace weft::scheduling_group {

// Why a fiber became ready.
enum class ReadyReason {
  kStarted,    // new
  kWoken,      // its wait ended
  kYielded,    // it let others go first
  kDisplaced,  // it started a fiber while the queue was full, and that fiber runs in its place
};

// What one worker has taken from the shared queue. Counts only grow; any thread reads them.
struct QueueCounts {
  std::uint64_t visits = 0;  // those that brought fibers
  // Fibers that they brought.
  std::uint64_t fibers = 0;
};

class SchedulingPolicy {
 public:
  // Instead of a worker's number: the caller is no worker of the group, or one whose fiber has brought the woken fiber
  // that it pushes from another group (idle/adoption.h).
  static constexpr int kNoWorker = -1;

  // What a policy is made from.
  struct Options {
    // Workers of the group, numbered from 0.
    unsigned workers = 1;
    // Fibers that the bounded queue holds; a power of two.
    std::size_t run_queue_size = 131072;
    int node = -1;  // NUMA node of its memory; -1: any
  };

  virtual ~SchedulingPolicy() = default;

  // Of a push: whether the fiber's wait was ended from outside the group (GlobalQueue has a level for these).
  static constexpr bool WokenFromOutside(ReadyReason reason, int worker) noexcept {
    return worker == kNoWorker && reason == ReadyReason::kWoken;
  }

  // `worker`: the worker of this group that calls, or kNoWorker.
  // Never fails: a fiber that finds no room waits in an unbounded intrusive list.
  virtual void Push(FiberEntity* fiber, ReadyReason reason, int worker) = 0;
  virtual void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) = 0;

  // As Push() of a new fiber, but false if the bounded queue is full: this is where back-pressure begins.
  [[nodiscard]] virtual bool TryPushNew(FiberEntity* fiber, int worker) = 0;

  // Push() or TryPushNew(), then a full fence (SP1): the group calls these. Overridden where a push is a fence itself.
  virtual void PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
    Push(fiber, reason, worker);
    base::ThreadFence(std::memory_order_seq_cst);
  }
  [[nodiscard]] virtual bool TryPushNewAndFence(FiberEntity* fiber, int worker) {
    if (!TryPushNew(fiber, worker)) return false;
    base::ThreadFence(std::memory_order_seq_cst);
    return true;
  }
  // By `worker`: pushes a fiber that its fiber has woken to where the worker looks first, and fences. False: there is
  // no such place, or it is taken; PushAndFence() follows.
  [[nodiscard]] virtual bool TryHandOffAndFence([[maybe_unused]] FiberEntity* fiber,
                                                [[maybe_unused]] unsigned worker) noexcept {
    return false;
  }

  // By `worker`, after a push: whether a push since the last call had hidden other ready fibers for a moment. The group
  // then notifies other groups even if the pushed fiber is group-local.
  virtual bool MustNotify([[maybe_unused]] unsigned worker) { return false; }

  // By `worker`: the running fiber has had its time slice (time_slice.h), and yields. Pop() and Push() follow.
  virtual void SliceIsOver([[maybe_unused]] unsigned worker) {}

  // By `worker` only: its next fiber, or nullptr if it should idle. Sets *must_notify if ready fibers were hidden from
  // others during the call; the caller must then notify as after a push.
  [[nodiscard]] virtual FiberEntity* Pop(unsigned worker, bool* must_notify) = 0;

  // By a spinning worker: a fiber that another worker of the group keeps at hand and does not get to.
  [[nodiscard]] virtual FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) = 0;

  // Any thread: a fiber for another group, never a group-local one. must_notify: as for Pop().
  [[nodiscard]] virtual FiberEntity* Steal(bool* must_notify) = 0;

  // Any thread, here and below.
  virtual bool HasWork() const = 0;               // a fiber waits in it (SP1)
  virtual bool HasStealable() const = 0;          // Steal() may bring a fiber (group-local ones count, too)
  virtual bool Full() const = 0;                  // no room but in a worker's own queue
  virtual bool HalfEmpty() const = 0;             // blocked spawners should go on
  virtual std::size_t Size() const = 0;           // an estimate
  virtual std::size_t OverflowCount() const = 0;  // fibers ever pushed beyond the bounded queue

  // For reports (counters.h). None: the policy does not count.
  virtual QueueCounts CountsOf([[maybe_unused]] unsigned worker) const { return {}; }

  // Its memory that lies on Options::node; for reports and tests.
  virtual std::vector<std::span<const std::byte>> Memory() const { return {}; }
};

// Policies by name (policy_registry.cc). Any thread.

// Makes the policy of one group. Called once a group, by the thread that starts the runtime.
using SchedulingPolicyFactory = std::function<std::unique_ptr<SchedulingPolicy>(const SchedulingPolicy::Options&)>;

// False: the name is taken.
bool RegisterSchedulingPolicy(std::string_view name, SchedulingPolicyFactory factory);
// nullptr: no such policy.
std::unique_ptr<SchedulingPolicy> CreateSchedulingPolicy(std::string_view name,
                                                         const SchedulingPolicy::Options& options);
// The names of all policies that there are: "v1", "v2" and those registered.
std::vector<std::string> SchedulingPolicyNames();

}  // namespace weft::scheduling_group

namespace weft {  // What programs write.
using scheduling_group::QueueCounts;
using scheduling_group::ReadyReason;
using scheduling_group::RegisterSchedulingPolicy;
using scheduling_group::SchedulingPolicy;
using scheduling_group::SchedulingPolicyFactory;
using scheduling_group::SchedulingPolicyNames;
}  // namespace weft

#endif  // WEFT_SCHEDULING_GROUP_SCHEDULING_POLICY_H_
