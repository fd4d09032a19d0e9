// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel/cancel_node.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/cancel_fence.h"
#include "weft/scheduling_group/fiber/cancel_lock.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/cancel/cancel_walk.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::synchronization {

using scheduling_group::CancellerSection;
using scheduling_group::CancelWord;
using scheduling_group::LockAsOwner;
using scheduling_group::UnlockAsOwner;

#ifdef WEFT_MODEL_CHECK
base::SpinLock* model_cancellation_lock = nullptr;
#endif

// `static` rather than in a namespace: CancelWalk finds them by their arguments.
//
// relaxed, all below: `parent` and `shielded` do not change while somebody is inside; `has_injected` is ordered by the
// lock of the fiber's word (CN3), `cancelled` by that or by the fences (CN2).
static bool IsOwnedBy(const CancelNode* node, const FiberEntity* fiber) noexcept {
  return node->owner.load(std::memory_order_relaxed) == fiber;
}
static bool IsCancelled(const CancelNode* node) noexcept {
  // acquire: what was done before the cancellation, for a fiber that no walk has marked. Pairs with Mark().
  return node->cancelled.load(std::memory_order_acquire) != CancelReason::kNone;
}

static bool HasDeadline(const CancelNode* node) noexcept {
  return node->deadline.load(std::memory_order_relaxed) != INT64_MAX;
}

// Calls visit(node) for the scopes whose cancellation counts for the fiber (cancel_node.h), the innermost first.
template <class Visit>
static void VisitScopes(const FiberEntity* fiber, CancelNode* innermost, Visit visit) noexcept {
  const FiberEntity* of = fiber;  // whose scope the last one was
  for (CancelNode* node = innermost; node != nullptr; node = node->parent) {
    const FiberEntity* const owner = node->owner.load(std::memory_order_relaxed);
    const bool is_child = owner != std::exchange(of, owner);
    if (is_child || node->covers_owner.load(std::memory_order_relaxed)) {
      visit(node);
      if (node->shielded) return;
    }
    if (node->entered_by_unwinding && owner == fiber) return;
  }
}

// Whether the fiber's waits are to end because of this scope, if it counts for the fiber.
static bool Ends(const CancelNode* node, const FiberEntity* fiber) noexcept {
  // An exception is for the owner alone.
  return IsCancelled(node) || (IsOwnedBy(node, fiber) && node->has_injected.load(std::memory_order_relaxed));
}

// What a scope that counts for the fiber adds to its cancel word.
static std::uint8_t BitsBecauseOf(const FiberEntity* fiber, const CancelNode* node) noexcept {
  return static_cast<std::uint8_t>((Ends(node, fiber) ? CancelWord::kPending : 0) |
                                   (HasDeadline(node) ? CancelWord::kTimed : 0));
}

// What the cancel word of a fiber in `innermost` should say. With its lock, by the fiber, or before the fiber starts.
static std::uint8_t BitsOf(const FiberEntity* fiber, CancelNode* innermost) noexcept {
  if (innermost == nullptr) return 0;
  std::uint8_t bits = CancelWord::kScoped;
  VisitScopes(fiber, innermost, [&](const CancelNode* node) { bits |= BitsBecauseOf(fiber, node); });
  return bits;
}

// Whether scopes outside of the node count for its owner where the node does not.
static bool HidesWhatIsOutside(const CancelNode* node) noexcept { return node->shielded || node->entered_by_unwinding; }

// The same for a fiber that enters `node`, with its lock. The word already says whether a scope outside is cancelled
// (or a walk on its way will say so: CN3), so entering costs the same at any depth.
static std::uint8_t BitsInside(const FiberEntity* fiber, CancelNode* node) noexcept {
  const bool is_plain = !fiber->cancel_word.pending_or_timed() && !Ends(node, fiber) && !HasDeadline(node);
  if (WEFT_LIKELY(is_plain)) return CancelWord::kScoped;
  const std::uint8_t because_of_it = BitsBecauseOf(fiber, node);  // If it counts.
  const std::uint8_t bits = fiber->cancel_word.bits() | because_of_it;
  if ((bits & CancelWord::kPending) != 0 || HidesWhatIsOutside(node)) return BitsOf(fiber, node);
  return CancelWord::kScoped | (bits & CancelWord::kTimed);
}
// The same for a fiber that leaves it: the word says whether a scope that stays is cancelled, unless it was hidden.
static std::uint8_t BitsOutside(const FiberEntity* fiber, const CancelNode* node) noexcept {
  if (fiber->cancel_word.pending_or_timed() || HidesWhatIsOutside(node)) return BitsOf(fiber, node->parent);
  return node->parent != nullptr ? CancelWord::kScoped : 0;
}

// Whether the fiber's own chain has the node. (The chain of its ancestors is not asked.) With the lock of its word.
static bool HasInChain(const FiberEntity* fiber, const CancelNode* wanted) noexcept {
  const CancelNode* node = fiber->innermost_scope();
  while (node != nullptr && node != wanted && IsOwnedBy(node, fiber)) node = node->parent;
  return node == wanted && node != nullptr;
}

using Walk = CancelWalk<CancelNode>::Kind;

void EnterScope(FiberEntity* fiber, CancelNode* node) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  CancelNode* const parent = fiber->innermost_scope();
  node->parent = parent;  // Nobody else changes it.
  node->depth = scheduling_group::UnwindingDepth();
  node->entered_by_unwinding = WEFT_UNLIKELY(node->depth != 0) &&
                               (parent == nullptr || !IsOwnedBy(parent, fiber) || parent->depth < node->depth);
  LockAsOwner(&fiber->cancel_word);
  // release: the node. Pairs with the acquire in CancelWalk::Run().
  node->owner.store(fiber, std::memory_order_release);
  fiber->innermost_if_scoped = node;
  // Cancel() sets `cancelled` and then reads `owner`: one of us sees the other's. Pairs with CancellerSection's fence.
  scheduling_group::LightCancelFence();
  UnlockAsOwner(&fiber->cancel_word, BitsInside(fiber, node));
}

void LeaveScope(FiberEntity* fiber, CancelNode* node) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  LockAsOwner(&fiber->cancel_word);
  WEFT_CHECK(fiber->innermost_scope() == node, "CancelScope: scopes are left in another order than they were entered");
  fiber->innermost_if_scoped = node->parent;
  node->owner.store(nullptr, std::memory_order_relaxed);  // A walk that still sees us asks the chain, under the lock.
  UnlockAsOwner(&fiber->cancel_word, BitsOutside(fiber, node));
}

const CancelNode* FindCause(const FiberEntity* fiber) noexcept {
  const CancelNode* cause = nullptr;
  VisitScopes(fiber, fiber->innermost_scope(), [&](const CancelNode* node) {
    if (IsCancelled(node)) cause = node;
  });
  return cause;
}

bool IsAround(const CancelNode* outer, const CancelNode* node) noexcept {
  do node = node->parent;
  while (node != nullptr && node != outer);
  return node != nullptr;
}

WEFT_COLD bool IsInScopeOfUnwinding(const FiberEntity* self) noexcept {
  const unsigned depth = scheduling_group::UnwindingDepth();
  const CancelNode* const node = self->innermost_scope();
  return depth != 0 && node != nullptr && IsOwnedBy(node, self) && node->depth == depth;
}

WEFT_NOINLINE bool CancelLate(const FiberEntity* self) noexcept {
  const std::int64_t now = FiberClock::now().time_since_epoch().count();
  bool late = false;
  VisitScopes(self, self->innermost_scope(), [&](CancelNode* node) {
    // relaxed: it carries nothing else. Of an ancestor's scope: the walk of SetDeadline() has told us of it (CN7).
    if (node->deadline.load(std::memory_order_relaxed) > now) return;
    late = true;
    static_cast<void>(Cancel(node, CancelReason::kDeadline));
  });
  return late;
}

bool IsToBeInterrupted(const FiberEntity* fiber) noexcept {
  return (BitsOf(fiber, fiber->innermost_scope()) & CancelWord::kPending) != 0;
}

Deadline EarliestDeadline(const FiberEntity* fiber) noexcept {
  Deadline earliest;
  VisitScopes(fiber, fiber->innermost_scope(), [&](const CancelNode* node) {
    // relaxed: it carries nothing else.
    const std::chrono::nanoseconds at(node->deadline.load(std::memory_order_relaxed));
    earliest = std::min(earliest, Deadline(Deadline::TimePoint(at)));
  });
  return earliest;
}

std::exception_ptr TakeInjected(FiberEntity* fiber) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  std::exception_ptr taken;
  LockAsOwner(&fiber->cancel_word);
  VisitScopes(fiber, fiber->innermost_scope(), [&](CancelNode* node) {
    if (taken != nullptr || !IsOwnedBy(node, fiber) || !node->has_injected.load(std::memory_order_relaxed)) return;
    taken = std::exchange(node->injected, nullptr);
    node->has_injected.store(false, std::memory_order_relaxed);
  });
  UnlockAsOwner(&fiber->cancel_word, BitsOf(fiber, fiber->innermost_scope()));
  return taken;
}

namespace {

WEFT_NOINLINE void InheritSlow(FiberEntity* fiber) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  const std::uint8_t bits = BitsOf(fiber, fiber->innermost_if_scoped);
  if (bits == CancelWord::kScoped) return;
  LockAsOwner(&fiber->cancel_word);
  UnlockAsOwner(&fiber->cancel_word, static_cast<std::uint8_t>(fiber->cancel_word.bits() | bits));
}

}  // namespace

void InheritCancellation(FiberEntity* fiber) noexcept {
  scheduling_group::LightCancelFence();  // CN2. Pairs with CancellerSection's in Deliver().
  // Most are in no scope that is cancelled or has a deadline, whether it counts or not. (And a new fiber has no
  // exception to throw.)
  std::int64_t deadlines = INT64_MAX;  // Stays so if none has one. (-1, the only other such value, has long passed.)
  for (const CancelNode* node = fiber->innermost_if_scoped; node != nullptr; node = node->parent) {
    if (WEFT_UNLIKELY(IsCancelled(node))) return InheritSlow(fiber);
    deadlines &= node->deadline.load(std::memory_order_relaxed);
  }
  if (WEFT_UNLIKELY(deadlines != INT64_MAX)) InheritSlow(fiber);
}

namespace {

// CN6. Held for both walks and their fences (figures: cancel_scope.h). Timer threads wait for it (ScopeTimer::RunAll).
#ifdef WEFT_MODEL_CHECK
base::SpinLock& OneAtATime() noexcept { return *model_cancellation_lock; }
#else
constinit base::SpinLock one_at_a_time;
base::SpinLock& OneAtATime() noexcept { return one_at_a_time; }
#endif

bool Mark(CancelNode* node, CancelReason reason) noexcept {
  CancelReason none = CancelReason::kNone;
  // release: what the caller did, for CancelScope::IsCancelled(). Fibers see it by the locks and fences of the walks.
  return node->cancelled.compare_exchange_strong(none, reason, std::memory_order_release, std::memory_order_relaxed);
}

// After Mark(). walk(how): walks from each node.
template <class WalkAll>
void Deliver(WalkAll walk) noexcept {
  const CancellerSection section;  // With a fence: CN2.
  walk(Walk::kMark);
  scheduling_group::HeavyCancelFence();  // CN1. Pairs with the LightCancelFences of the fibers.
  walk(Walk::kEnd);
}

}  // namespace

bool Cancel(CancelNode* node, CancelReason reason) noexcept {
  if (!Mark(node, reason)) return false;
  base::SpinLockGuard guard(OneAtATime());
  Deliver([=](Walk how) { CancelWalk<CancelNode>(node, how).Run(); });
  return true;
}

void CancelAll(CancelNode* const* nodes, std::size_t count, CancelReason reason) noexcept {
  for (std::size_t i = 0; i < count; ++i) static_cast<void>(Mark(nodes[i], reason));
  base::SpinLockGuard guard(OneAtATime());
  Deliver([=](Walk how) {
    for (std::size_t i = 0; i < count; ++i) CancelWalk<CancelNode>(nodes[i], how).Run();
  });
}

namespace {

// Whether somebody else may be below the scope, which the fiber has made.
bool HasChildren(const FiberEntity* fiber, const CancelNode* node) noexcept {
  const auto has_own = [](const CancelNode* of) { return of->children != nullptr && of->children->live() != 0; };
  if (has_own(node)) return true;
  if (!IsOwnedBy(node, fiber)) return false;
  const CancelNode* inside = fiber->innermost_scope();
  while (inside != node && !has_own(inside)) inside = inside->parent;
  return inside != node;
}

// Those below the scope learn that it has a deadline.
void TellOfDeadline(CancelNode* node) noexcept {
  base::SpinLockGuard guard(OneAtATime());
  const CancellerSection section;  // With a fence: CN7.
  CancelWalk<CancelNode>(node, Walk::kTime).Run();
}

}  // namespace

void BeginWithDeadline(CancelNode* node) noexcept {
  const Deadline deadline(
      Deadline::TimePoint(std::chrono::nanoseconds(node->deadline.load(std::memory_order_relaxed))));
  if (deadline.expired()) static_cast<void>(Mark(node, CancelReason::kDeadline));
}

bool SetDeadline(FiberEntity* fiber, CancelNode* node, Deadline deadline) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  const bool is_told = HasDeadline(node);  // All below it know that it has one (CN7).
  // relaxed: it carries nothing else; for kTimed the lock orders it, and the fence below (CN7).
  node->deadline.store(deadline.time_point().time_since_epoch().count(), std::memory_order_relaxed);
  if (deadline.expired()) {
    static_cast<void>(Cancel(node, CancelReason::kDeadline));
    return true;
  }
  LockAsOwner(&fiber->cancel_word);
  UnlockAsOwner(&fiber->cancel_word, BitsOf(fiber, fiber->innermost_scope()));
  if (!deadline.is_none() && !is_told && HasChildren(fiber, node)) TellOfDeadline(node);
  return false;
}

void SetCoversOwner(FiberEntity* fiber, CancelNode* node, bool covers) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  LockAsOwner(&fiber->cancel_word);
  node->covers_owner.store(covers, std::memory_order_relaxed);  // As in VisitScopes().
  UnlockAsOwner(&fiber->cancel_word, BitsOf(fiber, fiber->innermost_if_scoped));
  if (!covers || fiber->innermost_scope() == node) return;
  // What is inside of the owner's further scopes is below the node from now on, and no walk has come there.
  if (HasDeadline(node)) TellOfDeadline(node);
  if (!IsCancelled(node)) return;
  base::SpinLockGuard guard(OneAtATime());
  Deliver([=](Walk how) { CancelWalk<CancelNode>(node, how).Run(); });
}

bool CancelIfThere(base::SpinLock* lock, CancelNode* const* node) noexcept {
  {
    base::SpinLockGuard there(*lock);
    if (*node == nullptr || !Mark(*node, CancelReason::kCancelled)) return false;
  }
  base::SpinLockGuard guard(OneAtATime());
  Deliver([=](Walk how) {
    base::SpinLockGuard there(*lock);
    if (*node != nullptr) CancelWalk<CancelNode>(*node, how).Run();
  });
  return true;
}

void Inject(CancelNode* node, std::exception_ptr exception) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  {
    base::SpinLockGuard guard(OneAtATime());
    const CancellerSection section;
    FiberEntity* const fiber = node->owner.load(std::memory_order_acquire);  // As in CancelWalk::Run().
    if (fiber == nullptr) return;
    fiber->cancel_word.lock();
    const bool owned = HasInChain(fiber, node);
    if (owned) {
      std::swap(node->injected, exception);
      node->has_injected.store(true, std::memory_order_relaxed);
    }
    fiber->cancel_word.unlock();
    if (owned) Deliver([=](Walk how) { CancelWalk<CancelNode>(node, how).Run(); });
  }
  // Here the former one is destroyed, without a lock.
}

}  // namespace weft::synchronization
