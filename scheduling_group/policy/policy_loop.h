// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PolicyLoop: the ready fibers of a loop group (loop_groups.h), in the order in which they became ready.
//
//   any thread: Push    -->  inbox, a list under a lock
//   the loop: Pop       -->  own list; when that is empty it takes the whole inbox
//
// Fibers link themselves, so there is no capacity, nothing is allocated and no start is refused. Nobody steals.
//
// Invariants
//   PLO1  First in, first out, whoever pushes and why: all that is in the own list came before what is in the inbox.
//   PLO2  started() counts each new fiber at its push, or by CountStarted() if it runs without one; it only grows.
//   PLO3  While a Hold lives Pop() says that there is none, so a fiber that suspends returns to the loop. Within
//        a Release no Hold made before counts: a wait in the main context runs fibers until it is over.
//
// Rejected: v1 with one worker (its ring is bounded: a loop that waits for room waits for itself).
#ifndef WEFT_SCHEDULING_GROUP_POLICY_POLICY_LOOP_H_
#define WEFT_SCHEDULING_GROUP_POLICY_POLICY_LOOP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

class PolicyLoop final : public SchedulingPolicy {
 public:
  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override { PushBatch(&fiber, 1, reason, worker); }
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override;
  [[nodiscard]] bool TryPushNew(FiberEntity* fiber, int worker) override {
    PushBatch(&fiber, 1, ReadyReason::kStarted, worker);
    return true;
  }
  [[nodiscard]] FiberEntity* Pop(unsigned worker, bool* must_notify) override;
  [[nodiscard]] FiberEntity* PopFromBusyWorkers(unsigned, SpinMemory*) override { return nullptr; }
  [[nodiscard]] FiberEntity* Steal(bool*) override { return nullptr; }

  bool HasWork() const override { return Size() != 0; }
  bool HasStealable() const override { return false; }
  bool Full() const override { return false; }
  bool HalfEmpty() const override { return true; }
  // relaxed: the callers' fences order it (SP1).
  std::size_t Size() const override {
    // acquire, and before `pushed_`: each fiber that this counts was pushed before, so the difference is not negative.
    // Pairs with the release in Pop().
    const std::uint64_t popped = popped_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(pushed_.load(std::memory_order_relaxed) - popped);
  }
  std::size_t OverflowCount() const override { return 0; }

  // The loop, before a new fiber runs that was not pushed.
  void CountStarted() noexcept;
  // Any thread. acquire: see FibersStarted() in loop_groups.h.
  std::uint64_t started() const noexcept { return started_.load(std::memory_order_acquire); }

  // The loop. They nest: the innermost counts.
  class Hold {
   public:
    explicit Hold(PolicyLoop& policy) noexcept : Hold(policy, true) {}
    ~Hold() { policy_.held_ = outer_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    friend class PolicyLoop;
    Hold(PolicyLoop& policy, bool held) noexcept : policy_(policy), outer_(std::exchange(policy.held_, held)) {}

    PolicyLoop& policy_;
    const bool outer_;
  };
  // No Hold counts.
  class Release : Hold {
   public:
    explicit Release(PolicyLoop& policy) noexcept : Hold(policy, false) {}
  };

 private:
  // The loop's.
  FiberEntity* own_ = nullptr;
  bool held_ = false;
  std::atomic<std::uint64_t> popped_{0};  // written by the loop

  alignas(base::kCacheLineSize) base::SpinLock lock_;
  FiberEntity* head_ WEFT_GUARDED_BY(lock_) = nullptr;
  FiberEntity* tail_ WEFT_GUARDED_BY(lock_) = nullptr;
  std::atomic<std::uint64_t> pushed_{0};  // written under the lock, as the next
  std::atomic<std::uint64_t> started_{0};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_POLICY_POLICY_LOOP_H_
