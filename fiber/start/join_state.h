// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// JoinState: what a fiber and those who wait for it share: that it has ended, how, and the scope by which it is
// cancelled. Fiber and FiberTask are handles of it.
//
// Invariants
//   FB2  It lives until both owners, handle and fiber, have let go: a handle may go as soon as its wait has returned.
//   JS1  What the fiber writes of its outcome it writes before `ended` is set; the handle reads it after that.
//   JS2  A result that nobody has taken is destroyed by the fiber at its end or by the handle, whoever comes second
//        (TaskState::LetGo), so never by a worker between two fibers.
//   JS3  Joins in a cycle end the process: Await() without a deadline has set the joiner's edge (join_edge.h) before it
//        waits, and clears it before it reports a cancellation. The cycle counts if none of its fibers is cancelled,
//        interrupted or has a deadline, and its edges are still there then: only a cancellation to come could end it.
//   JS4  Find(): under the lock of the fiber's cancel word, a fiber that has the wanted id and is in a scope is that
//        fiber, and still has its reference to its JoinState. It enters its first scope after it has its id, and leaves
//        the last before it gives up the reference, both under that lock (AllocateFiber(), LeaveAllScopes()).
#ifndef WEFT_FIBER_START_JOIN_STATE_H_
#define WEFT_FIBER_START_JOIN_STATE_H_

#include <cstdint>
#include <exception>
#include <string>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/base/thread/atomic.h"
#include "weft/fiber/start/join_edge.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/fiber_event.h"

namespace weft::fiber::detail {

class ScopeCore;

class JoinState : public base::RefCounted<JoinState>, public scheduling_group::FiberOwner {
 public:
  explicit JoinState(std::string fiber_name);
  virtual ~JoinState();

  // `plan` becomes one of a fiber that has a reference to this.
  void Join(StartPlan* plan);
  // It was not started: gives that reference back. Whoever has found it by an id that nobody could know waits no more.
  void NotStarted() noexcept {
    ended.Set();
    Release();
  }

  // Any thread. nullptr: `fiber` is not, or not yet, or no longer one with this id and a JoinState. JS4.
  static base::RefPtr<JoinState> Find(scheduling_group::FiberEntity* fiber, std::uint64_t wanted_id) noexcept;

  // Before any wait for the fiber: ends the process if the caller is that fiber, or in a forked child.
  void CheckMayAwait(const char* function) const;
  // Before one without a deadline: ends the process if the fiber is lost (scheduling_group/group/runtime_end.h). False:
  // it is, inside exit().
  [[nodiscard]] bool CheckWillEnd(const char* function) const;
  // Any fiber or thread: waits until the fiber has ended. The result is for CheckInterrupted(). `function` is the
  // caller, for messages; a fiber that would wait for itself ends the process. JS3.
  [[nodiscard]] synchronization::WaitResult Await(Deadline deadline, const char* function);
  // The same, not cancelled. Such waits are in no cycle: the fiber waited for has been cancelled before.
  void AwaitUncancelled(const char* function) noexcept;

  // In messages.
  std::string Describe() const;

  const std::string name;
  // 0 until the fiber has been made. Written by the spawner before the fiber may run, read by both owners.
  std::uint64_t id = 0;
  FiberEvent ended;
  JoinEdge<JoinState> join_edge;      // whom the fiber joins
  synchronization::CancelNode scope;  // the fiber's outermost one
  // Of a child of a FiberScope: the scope, told when all else is over, and its spawner's slot, until it is filled.
  ScopeCore* owning_scope = nullptr;
  synchronization::ChildTable::Slot** slot = nullptr;
  // How it ended, of a FiberTask.
  std::exception_ptr exception;
  bool cancelled = false;
  base::Atomic<bool> let_go{false};  // JS2

 private:
  // nullptr: it has none, so that nobody can join it.
  static JoinState* OfFiber(const scheduling_group::FiberEntity* fiber) noexcept;
  void CheckNoCycle(JoinState* of_caller) noexcept;
  bool WillBeInterrupted() const noexcept;

  static void OnExit(scheduling_group::FiberOwner* self);
  static void OnMade(void* argument, scheduling_group::FiberEntity* fiber) noexcept;
};

// Its scopes are left, so that what ends it (captures, fiber locals) is not cancelled. The fiber itself.
void LeaveScopesOfCaller() noexcept;

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_START_JOIN_STATE_H_
