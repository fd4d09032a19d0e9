// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CancelNode: a cancel scope in the tree of scopes, and how its cancellation reaches the waits below it. Users call
// cancel_scope.h and fiber/fiber_scope.h.
//
//     request scope <--- FiberScope F <--+-- child 1's scope <- child 1
//                                        +-- child 2
//
// After Cancel(node), each wait below the node that is a cancellation point ends at once (CN1), until its fiber has
// left the scope. Any fiber and any thread may cancel; the call does not switch. A fiber enters its own scopes and
// leaves them, the last entered first; a parent outlives what is inside of it.
//
// The tree. A fiber's scopes form a chain, from FiberEntity::innermost_scope() outwards by `parent`. The chains of the
// fibers that a scope owns (ChildTable) lead into it, so all chains are one tree.
//
// Which scopes count. A fiber is cancelled if a scope of its chain is, up to and including the first shield
// (FindCause). A scope of fibers always counts for its children. For its owner, and for scopes that the owner enters
// inside of it, it counts only while it covers the owner. kPending in the fiber's cancel word keeps the answer; the
// fiber updates it as it enters and leaves scopes, and so do cancellers. Waits read kPending only.
//
// Deadlines. kTimed says likewise whether a scope that counts has a deadline. A wait then looks at the clock before it
// begins (CancelLate()), since the timer thread may be late; the first of the two cancels the scope.
//
// Unwinding. While an exception unwinds the fiber's stack, scopes entered before it do not count, so that nobody ends
// what destructors wait for. Scopes that destructors have entered since (`depth`) count for waits that return a result
// (Interruptible::kResult). So a destructor can limit its own waits.
//
//   Cancel(node)                                     fiber
//   ------------                                     -----
//   node->cancelled = true, fence                    enters `node`: node->owner = itself, fence; cancelled?
//   CancelWalk, from node->owner down: under the     its wait is in current_wait, or in a place  (wait_queue.h)
//     lock of each fiber's word,                     fence
//     sets kPending                                  kPending? ends its own wait
//     fence
//     ends the wait that it finds
//
//   Before the first ChildTable is read: no lock     spawner: the child is in the ChildTable
//     is held, HeavyFence, the walk is made anew     LightFence; is a scope of the child's chain cancelled?
//
// Invariants
//   CN1  Each wait below the node that is a cancellation point is ended: by the fences above, the walk sees it, or the
//        waiter sees kPending. It is ended once: by a claim on its decision word (WS1) or by Withdraw() (SW1).
//   CN2  A fiber that begins below the node meanwhile is not missed. Its spawner fills its slot in the ChildTable,
//        fences, reads its chain, sets kPending if it must, starts it; the canceller sets `cancelled`, fences, walks.
//   CN3  A scope that a fiber enters or leaves meanwhile is not missed: both happen under the lock of the fiber's word,
//        and end with kPending as the chain says, but for cancellations whose walk is still to come to the fiber.
//        A canceller that reads the owner of a scope before it is in the owner's chain has unlocked the owner's word
//        before the owner locks it and looks at `cancelled`.
//   CN4  A walk touches living nodes only. It holds the lock of each fiber whose chain it is in, and of the ChildTable
//        through which it came; a fiber takes its lock to leave a scope, and when it ends. A slot may still name a
//        fiber that has ended, or the next fiber with its entity: under the lock its chain tells.
//   CN5  One walk at a time is in a ChildTable (its lock), so the table's cursor is the walk's.
//   CN6  Walks do not wait for each other in a circle. A walk holds a path of the tree, each lock of a thing that was
//        made after the one before it: a fiber, the table of a scope that it has made, a child of that table. It waits
//        for one lock at a time, that of a thing made after all that it holds: the next of its path, or a fiber that
//        has the entity of a former child. In a circle each walk would hold something newer than all that the
//        one before it holds.
//   CN7  kTimed is set where a scope that counts has a deadline. It is kept as kPending is (CN2, CN3): SetDeadline()
//        stores the deadline and, if there was none, fences and walks below the scope. kTimed may stay set without a
//        deadline; that costs a look at the clock.
//
// Lock order: a scope handle's lock, a fiber's cancel word, the ChildTable of a scope of its chain, the words of its
// children, and so on down the tree (CN6); then the queue lock of a primitive (FiberSemaphore's Withdraw()), a run
// queue. None is held during HeavyFence().
//
// Cost: two read-modify-writes for a scope that is entered and left; a fence for a wait that can be cancelled; a visit
// to each fiber below a cancelled scope and, if there is a scope of fibers, a HeavyFence (a microsecond or more,
// base/thread/atomic.h). Deadlines that pass together share it.
//
// Checked in tests/model/cancel_model.cc.
// Source: scopes, shields and level-triggered cancellation are Trio's (N. J. Smith, "Timeouts and cancellation for
// humans", 2018); the tree is Kotlin's job tree.
// Rejected: waits without a fence, and a lock that is biased to the fiber (each cancellation then makes two
// HeavyFences); `cancelled` read off the chain by each wait (docs/decisions/024-cost-of-a-cancellation.md); a list of
// all fibers in some scope (each walk would visit all).
#ifndef WEFT_SYNC_CANCEL_CANCEL_NODE_H_
#define WEFT_SYNC_CANCEL_CANCEL_NODE_H_

#include <cstddef>
#include <cstdint>
#include <exception>

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/sync/cancel/child_table.h"

namespace weft::synchronization {

using scheduling_group::FiberEntity;

class ScopeTimer;

enum class CancelReason : std::uint8_t { kNone, kCancelled, kDeadline };

struct CancelNode {
  CancelNode() = default;
  CancelNode(const CancelNode&) = delete;
  CancelNode& operator=(const CancelNode&) = delete;

  // The fiber in whose chain it is. nullptr: not entered, left, or a plain thread's.
  base::Atomic<FiberEntity*> owner{nullptr};
  // Set when it is entered.
  CancelNode* parent = nullptr;
  // Why it was cancelled: changes once.
  base::Atomic<CancelReason> cancelled{CancelReason::kNone};
  // When it will be, on the steady clock. For CurrentDeadline().
  base::Atomic<std::int64_t> deadline{INT64_MAX};
  // Cancellations from outside do not reach what is inside.
  bool shielded = false;
  // The owner has entered it while an exception unwound its stack, from a scope that it had entered before.
  bool entered_by_unwinding = false;
  // Whether the owner's own waits are inside, or only its children. Changed by the owner, under the lock of its word.
  base::Atomic<bool> covers_owner{true};
  ChildTable* children = nullptr;
  ScopeTimer* timer = nullptr;  // of a scope whose deadline can be set
  // An exception that the owner's next cancellation point throws; guarded by the lock of the owner's word.
  std::exception_ptr injected;
  base::Atomic<bool> has_injected{false};
  // How many exceptions unwound the owner's stack when it entered.
  unsigned depth = 0;
  // Of an owner that is in a wait which no limit ends, in debug builds: what it is in (UnendedWait).
  base::Atomic<const char*> unended_wait{nullptr};
};

// --- By a fiber, of itself ---

// The node becomes the innermost. `fiber`: the caller. LeaveScope() in reverse order.
void EnterScope(FiberEntity* fiber, CancelNode* node) noexcept;
void LeaveScope(FiberEntity* fiber, CancelNode* node) noexcept;
void SetCoversOwner(FiberEntity* fiber, CancelNode* node, bool covers) noexcept;

// The outermost scope because of whose cancellation the fiber's waits end; nullptr: none.
const CancelNode* FindCause(const FiberEntity* fiber) noexcept;

// Whether `outer` is a scope around `node`. It may be one that has gone.
bool IsAround(const CancelNode* outer, const CancelNode* node) noexcept;

// Sets the deadline of a scope that the fiber has made. True: it has passed, and the scope is cancelled.
bool SetDeadline(FiberEntity* fiber, CancelNode* node, Deadline deadline) noexcept;
// The same before it is entered: nobody is in it.
void BeginWithDeadline(CancelNode* node) noexcept;

// Whether the fiber's waits end, or will when a walk that is under way comes to its cancel word: a scope is cancelled,
// or an exception has been left for it. By the fiber, or with the lock of its word.
bool IsToBeInterrupted(const FiberEntity* fiber) noexcept;

// The earliest deadline of the scopes that count for the fiber.
Deadline EarliestDeadline(const FiberEntity* fiber) noexcept;

// Takes the exception that Inject() has left, if one is to be thrown now.
std::exception_ptr TakeInjected(FiberEntity* fiber) noexcept;

// --- By a spawner ---

// `fiber` has been made to begin inside of a scope, and its slot has been filled; it has not been started.
void InheritCancellation(FiberEntity* fiber) noexcept;

// --- By anybody ---

// Any fiber and any thread, also a timer's; may wait for other cancellations around and below the node, but does not
// switch. The node stays meanwhile. False: it was cancelled before.
bool Cancel(CancelNode* node, CancelReason reason = CancelReason::kCancelled) noexcept;
// Several, with at most one HeavyFence.
void CancelAll(CancelNode* const* nodes, std::size_t count, CancelReason reason) noexcept;
// A node that goes away under `lock`, and is null from then on.
bool CancelIfThere(base::SpinLock* lock, CancelNode* const* node) noexcept;

// The scope has been entered. The owner's next cancellation point, or the wait it is in, throws `exception`, once. It
// replaces one not yet thrown.
void Inject(CancelNode* node, std::exception_ptr exception) noexcept;

#ifdef WEFT_MODEL_CHECK
extern bool model_has_membarrier;
#endif

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_CANCEL_CANCEL_NODE_H_
