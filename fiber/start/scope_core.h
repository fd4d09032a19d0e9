// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ScopeCore: the fibers of a FiberScope, and how they end. What users call is in fiber_scope.h.
//
//   Spawn                                   a child
//   -----                                   -------
//   a unit of the limit, if there is one    runs; RunChild() notes how it ended
//   a slot of the ChildTable                its stack is given back
//   the fiber is made, fills its slot       OnChildExit(): its unit is given back, it is counted
//   and inherits the cancellation           the last one that is waited for sets `all_ended_`
//   it is started
//
// Invariants
//   FO1  Nothing outlives the scope: the ChildTable counts each child from before its start until its worker's last
//        touch of the scope, and the destructor waits for it.
//   FO2  A child's last touch of the scope is ChildTable::End(); of the last one, if waited for, FiberEvent::Set().
//   FO3  A child that was not started leaves nothing: slot, unit and count are given back.
//   FO4  The first failure is kept, and of kAllMustSucceed cancels the others, once.
//   FO5  It is a deadlock if each holder of a unit waits for another one. A child is counted while it waits; one that
//        has its unit and is still counted holds two. So the count reaches the limit only if no other child holds any.
//        One cancelled while it waits is counted until it runs; one cancelled before, or with a deadline, is not.
#ifndef WEFT_FIBER_START_SCOPE_CORE_H_
#define WEFT_FIBER_START_SCOPE_CORE_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/cancel/child_table.h"
#include "weft/sync/cancel/scope_timer.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"

namespace weft {

// What the end of one fiber means for the others of its scope.
enum class ScopePolicy : std::uint8_t {
  kAllMustSucceed,  // the first exception cancels the others, and Wait() throws it
  kFirstSuccess,    // the first success cancels the others; Wait() throws if there is none, and one failed
  kCollect,         // nothing is cancelled; the exceptions are kept, and Wait() throws none
};

namespace fiber::detail {

class ScopeCore : public scheduling_group::FiberOwner {
 public:
  using Slot = synchronization::ChildTable::Slot;

  ScopeCore(ScopePolicy policy, std::size_t limit, bool nested);
  ~ScopeCore();  // Await() was called, and nothing was spawned since.
  ScopeCore(const ScopeCore&) = delete;
  ScopeCore& operator=(const ScopeCore&) = delete;

  // The owner, or a child. Waits for a unit of the limit: a cancellation point. nullptr: there is no memory.
  Slot* BeginSpawn();
  // nullptr: it was filled.
  void NotStarted(Slot* slot) noexcept;
  // Makes `plan` one of a child without a handle, which calls RunChild(). `slot` becomes null when it has been filled.
  void Adopt(Slot** slot, StartPlan* plan) noexcept;
  // The same without a plan, when a fiber has been made with start_options().
  static void OnMade(void* slot, scheduling_group::FiberEntity* fiber) noexcept;

  // The worker of a child that is over: the child's last touch (FO2).
  void EndChild() noexcept;

  // In a child.
  void RunChild(void (*procedure)(void*), void* argument);
  void OnSucceeded() noexcept;
  void OnFailed(std::exception_ptr exception) noexcept;
  void OnCancelled() noexcept { cancelled_.fetch_add(1, std::memory_order_relaxed); }

  // The owner.
  void SetDeadline(Deadline deadline) noexcept;
  void SetCovers(bool covers) noexcept;
  void Await() noexcept;
  // The same; cancels what has not ended.
  void CancelAndAwait() noexcept;
  // Before a wait without a deadline: ends the process if a child is lost (scheduling_group/group/runtime_end.h).
  // False: one is, inside exit(): then nothing waits for the children.
  [[nodiscard]] bool CheckWillEnd(const char* waiter) noexcept;
  void ThrowFailure();
  bool Cancel() noexcept { return synchronization::Cancel(&node_); }
  ScopePolicy policy() const noexcept { return policy_; }
  synchronization::CancelNode* node() noexcept { return &node_; }
  // Of a child without attributes: it begins in node().
  const scheduling_group::StartOptions& start_options() const noexcept { return start_options_; }
  // acquire: what was done before. Pairs with the release in Mark() (cancel_node.cc).
  synchronization::CancelReason reason() const noexcept { return node_.cancelled.load(std::memory_order_acquire); }
  std::vector<std::exception_ptr> TakeExceptions();

  // Snapshots; exact after Await(). relaxed: Await() orders them.
  std::size_t live() const noexcept { return children_.live(); }
  std::size_t succeeded() const noexcept {  // All that have ended otherwise: one count less for each child.
    return Less(children_.taken(), live() + failed() + cancelled() + not_started_.load(std::memory_order_relaxed));
  }
  std::size_t failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  std::size_t cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

 private:
  // A child that has failed counts as live, too, until it has ended: snapshots may not add up.
  static std::size_t Less(std::size_t all, std::size_t some) noexcept { return all > some ? all - some : 0; }
  static void OnChildExit(scheduling_group::FiberOwner* self);
  void AcquireUnit();
  bool IsChild(const scheduling_group::FiberEntity* fiber) const noexcept;
  void CheckMayAwait() const noexcept;
  bool BeginAwait() noexcept;
  void AwaitLast() noexcept;

  const ScopePolicy policy_;
  bool lost_ = false;                               // CheckWillEnd() has said false
  bool awaits_ = false;                             // the owner, also in a hook that runs while it waits
  const std::size_t limit_;                         // 0: none
  scheduling_group::FiberEntity* owner_ = nullptr;  // in whose chain the node is
  synchronization::ChildTable children_;
  synchronization::CancelNode node_;
  const scheduling_group::StartOptions start_options_{.scope = &node_};
  synchronization::ScopeTimer timer_{&node_};
  FiberEvent all_ended_;
  FiberSemaphore units_;
  base::Atomic<std::size_t> children_that_wait_{0};  // for a unit, FO5
  base::Atomic<std::size_t> not_started_{0};
  base::Atomic<std::size_t> failed_{0};
  base::Atomic<std::size_t> cancelled_{0};
  FiberMutex mutex_;
  std::vector<std::exception_ptr> exceptions_;  // guarded by mutex_
};

}  // namespace fiber::detail
}  // namespace weft

#endif  // WEFT_FIBER_START_SCOPE_CORE_H_
