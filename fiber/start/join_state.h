// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// JoinState: what a fiber and those who wait for it share: that it has ended, how, and the scope by which it is
// cancelled. Fiber and FiberTask are handles of it.
//
// JoinEdge: which fiber a fiber waits for the end of, so that a cycle of joins is found instead of waited in. A fiber
// that joins another without a deadline first looks for a path of edges from the other back to itself:
//
//   joiner                                   others
//   ------                                   ------
//   edge.Set(target)
//   LengthOfCycle(): target's edge, and so on    Follow(): lock the edge, take a reference to its target, unlock
//   waits for the target's end
//   edge.Clear(), which waits for the lock
//   gives up its reference to the target
//
// Invariants
//   FB2  It lives until both owners, handle and fiber, have let go: a handle may go as soon as its wait has returned.
//   JS1  What the fiber writes of its outcome it writes before `ended` is set; the handle reads it after that.
//   JS2  A result that nobody has taken is destroyed by the fiber at its end or by the handle, whoever comes second
//        (TaskState::LetGo), so never by a worker between two fibers.
//   JS3  Joins in a cycle end the process: Await() without a deadline has set the joiner's edge before it waits, and
//        clears it before it reports a cancellation. The cycle counts if none of its fibers is cancelled, interrupted
//        or has a deadline, and its edges are still there then: only a cancellation to come could end it.
//   JS4  Find(): under the lock of the fiber's cancel word, a fiber that has the wanted id and is in a scope is that
//        fiber, and still has its reference to its JoinState. It enters its first scope after it has its id, and leaves
//        the last before it gives up the reference, under that lock (LeaveAllScopes()). scoped() acquires the former.
//   JE1  Of the fibers of a cycle, at least one finds it. Set() is sequentially consistent, and so are the loads of
//        LengthOfCycle(), which follow it: a fiber that misses an edge comes before the Set() of that edge in their one
//        order, so each fiber of a cycle that nobody has found would come before another one of it.
//   JE2  An edge leads to a living target. Its owner holds a reference until Clear() has returned; Follow()
//        takes one more under the lock of the edge, for which Clear() waits.
//   JE3  The edges of a cycle stay set, since none of its fibers can end, unless one is cancelled. So one whose edges
//        are found set a second time, MembersOfCycle(), was there in between, all at once.
//
// Edges are checked in tests/model/join_edge_model.cc.
// Cost: two read-modify-writes for a join that waits, and a load for each edge of the path (mostly none).
// Rejected: a lock around all edges (joins of all workers would meet there); edges in a table by fiber id (three locks
// for each join, and a line of memory that the joiner does not touch anyway).
#ifndef WEFT_FIBER_START_JOIN_STATE_H_
#define WEFT_FIBER_START_JOIN_STATE_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/fiber_event.h"

namespace weft::fiber::detail {

class ScopeCore;

// State: the type that has an edge. It is a base::RefCounted and has a member JoinEdge<State> join_edge.
template <class State>
class JoinEdge {
 public:
  // The fiber that has the edge, which holds a reference to `target`. `function`: in which it waits, for messages.
  void Set(State* target, const char* function) noexcept {
    function_.store(function, std::memory_order_relaxed);  // A text that lives for ever.
    // seq_cst: JE1. release: what the target is. Pairs with the acquire in Follow().
    word_.exchange(reinterpret_cast<std::uintptr_t>(target), std::memory_order_seq_cst);
  }
  void Clear() noexcept {
    std::uintptr_t found = word_.load(std::memory_order_relaxed) & ~kLocked;
    // acquire: the reference taken under the lock is taken before we give up ours. Pairs with the release in Follow().
    while (!word_.compare_exchange_weak(found, 0, std::memory_order_acquire, std::memory_order_relaxed)) {
      found &= ~kLocked;
      base::CpuRelax();
    }
  }

  // Anybody who holds a reference to the edge's owner. What it leads to; nothing if it is not set.
  base::RefPtr<State> Follow() noexcept {
    std::uintptr_t found = word_.load(std::memory_order_seq_cst);  // JE1
    while (found != 0) {
      found &= ~kLocked;
      // acquire: the target. Pairs with the release in Set().
      if (word_.compare_exchange_weak(found, found | kLocked, std::memory_order_acquire, std::memory_order_relaxed)) {
        base::RefPtr<State> target(reinterpret_cast<State*>(found));  // JE2
        // release: the reference. Pairs with the acquire in Clear().
        word_.store(found, std::memory_order_release);
        return target;
      }
      base::CpuRelax();
    }
    return nullptr;
  }

  bool IsSet() const noexcept { return word_.load(std::memory_order_seq_cst) != 0; }  // JE1
  const char* function() const noexcept { return function_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uintptr_t kLocked = 1;
  static_assert(alignof(std::uintptr_t) > kLocked, "the least that an object with an edge is aligned to");

  base::Atomic<std::uintptr_t> word_{0};  // the target | kLocked?
  base::Atomic<const char*> function_{""};
};

// The fiber of `self`, whose edge leads to `target`: how many edges lead from `self` back to it; 0: they do not.
template <class State>
std::size_t LengthOfCycle(const State* self, State* target) noexcept {
  if (!target->join_edge.IsSet()) return 0;  // The usual case.
  // Brent's way to notice a cycle without `self`, which is for its members to find: one state of the path is
  // remembered, for twice as many steps each time. (It may have gone by then; those of a cycle with `self` stay.)
  base::RefPtr<State> at(target);
  const State* remembered = target;
  for (std::size_t length = 2, limit = 2;; ++length) {
    at = at->join_edge.Follow();
    if (at == nullptr) return 0;
    if (at.Get() == self) return length;
    if (at.Get() == remembered) return 0;
    if (length == limit) {
      limit *= 2;
      remembered = at.Get();
    }
  }
}

// Its members, from `self` on. Empty: an edge has changed, so a fiber was cancelled. Throws std::bad_alloc.
template <class State>
std::vector<base::RefPtr<State>> MembersOfCycle(State* self, std::size_t length) {
  std::vector<base::RefPtr<State>> members;
  base::RefPtr<State> at(self);
  for (; length != 0 && at != nullptr; --length) {
    members.push_back(at);
    at = at->join_edge.Follow();
  }
  if (at.Get() != self) members.clear();
  return members;
}

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
  synchronization::WaitReason Reason() const noexcept;
  void CheckNoCycle(JoinState* of_caller) noexcept;
  bool WillBeInterrupted() const noexcept;

  static void OnExit(scheduling_group::FiberOwner* self);
  static void OnMade(void* argument, scheduling_group::FiberEntity* fiber) noexcept;
};

// Its scopes are left, so that what ends it (captures, fiber locals) is not cancelled. The fiber itself.
void LeaveScopesOfCaller() noexcept;

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_START_JOIN_STATE_H_
