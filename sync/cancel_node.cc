// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel_node.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/cpu.h"
#include "weft/scheduling_group/cancel_fence.h"
#include "weft/scheduling_group/cancel_lock.h"
#include "weft/scheduling_group/park.h"
#include "weft/sync/wait_queue.h"

namespace weft::synchronization {

using scheduling_group::CancellerSection;
using scheduling_group::CancelWord;
using scheduling_group::LockAsOwner;
using scheduling_group::UnlockAsOwner;

#ifdef WEFT_MODEL_CHECK
base::SpinLock* model_cancellation_lock = nullptr;
#endif

namespace {

// relaxed, all below: `parent` and `shielded` do not change while somebody is inside; `has_injected` is ordered by the
// lock of the fiber's word (CN3), `cancelled` by that or by the fences (CN2).
bool IsOwnedBy(const CancelNode* node, const FiberEntity* fiber) noexcept {
  return node->owner.load(std::memory_order_relaxed) == fiber;
}
bool IsCancelled(const CancelNode* node) noexcept {
  // acquire: what was done before the cancellation, for a fiber that no walk has marked. Pairs with Mark().
  return node->cancelled.load(std::memory_order_acquire) != CancelReason::kNone;
}

// Calls visit(node) for the scopes whose cancellation counts for the fiber (cancel_node.h), the innermost first.
template <class Visit>
void VisitScopes(const FiberEntity* fiber, CancelNode* innermost, Visit visit) noexcept {
  const FiberEntity* of = fiber;  // whose scope the last one was
  for (CancelNode* node = innermost; node != nullptr; node = node->parent) {
    const FiberEntity* const owner = node->owner.load(std::memory_order_relaxed);
    const bool is_child = owner != std::exchange(of, owner);
    if (!is_child && !node->covers_owner.load(std::memory_order_relaxed)) continue;
    visit(node);
    if (node->shielded) return;
  }
}

// Whether the fiber's waits are to end because of this scope, if it counts for the fiber.
bool Ends(const CancelNode* node, const FiberEntity* fiber) noexcept {
  // An exception is for the owner alone.
  return IsCancelled(node) || (IsOwnedBy(node, fiber) && node->has_injected.load(std::memory_order_relaxed));
}

// What the cancel word of a fiber in `innermost` should say. With its lock, by the fiber, or before the fiber starts.
std::uint8_t BitsOf(const FiberEntity* fiber, CancelNode* innermost) noexcept {
  if (innermost == nullptr) return 0;
  bool pending = false;
  VisitScopes(fiber, innermost, [&](const CancelNode* node) { pending |= Ends(node, fiber); });
  return CancelWord::kScoped | (pending ? CancelWord::kPending : 0);
}

// The same for a fiber that enters `node`, with its lock. The word already says whether a scope outside is cancelled
// (or a walk on its way will say so: CN3), so entering costs the same at any depth.
std::uint8_t BitsInside(const FiberEntity* fiber, CancelNode* node) noexcept {
  const bool may_end = fiber->cancel_word.pending() || Ends(node, fiber);  // If the node counts.
  return may_end ? BitsOf(fiber, node) : CancelWord::kScoped;
}
// The same for a fiber that leaves it: the word says whether a scope that stays is cancelled, unless a shield hid it.
std::uint8_t BitsOutside(const FiberEntity* fiber, const CancelNode* node) noexcept {
  if (fiber->cancel_word.pending() || node->shielded) return BitsOf(fiber, node->parent);
  return node->parent != nullptr ? CancelWord::kScoped : 0;
}

// Whether the fiber's own chain has the node. (The chain of its ancestors is not asked.) With the lock of its word.
bool HasInChain(const FiberEntity* fiber, const CancelNode* wanted) noexcept {
  const CancelNode* node = fiber->innermost_scope();
  while (node != nullptr && node != wanted && IsOwnedBy(node, fiber)) node = node->parent;
  return node == wanted && node != nullptr;
}

// Walks alternate, with a fence between them (CN6).
enum class Walk : bool {
  kMark,  // sets kPending where it is to be, and touches no wait
  kEnd,   // ends the waits of the fibers that have it, and sets none
};

// One walk through all fibers below a scope.
class CancelWalk {
 public:
  CancelWalk(CancelNode* root, Walk how) noexcept : root_(root), how_(how) {}
  ~CancelWalk() { Flush(); }
  CancelWalk(const CancelWalk&) = delete;
  CancelWalk& operator=(const CancelWalk&) = delete;

  void Run() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    FiberEntity* fiber = root_->owner.load(std::memory_order_acquire);  // Pairs with the release in EnterScope().
    CancelNode* node = root_;
    if (fiber != nullptr) {
      fiber->cancel_word.lock();
      if (!HasInChain(fiber, root_)) {  // Left meanwhile.
        fiber->cancel_word.unlock();
        return;
      }
      Reach(fiber);
      node = fiber->innermost_if_scoped;
    }
    for (bool arrived = true;;) {
      // `node` is in the chain of `fiber`, whose lock we hold; `arrived`: from below in the chain, not from a child.
      FiberEntity* const child = NextChild(fiber, node, arrived);
      if (child != nullptr) {
        fiber = child;
        Reach(fiber);
        node = fiber->innermost_if_scoped;
        arrived = IsOwnedBy(node, fiber);
        if (arrived) continue;
      } else if (node == root_) {
        break;
      } else {
        node = node->parent;
        arrived = IsOwnedBy(node, fiber);
        if (arrived) continue;
      }
      // Back to the scope whose child this was.
      fiber->cancel_word.unlock();
      fiber = node->owner.load(std::memory_order_relaxed);
    }
    if (fiber != nullptr) fiber->cancel_word.unlock();
  }

 private:
  static constexpr std::size_t kBatch = 32;

  // Whether a cancellation that has come to the fiber (by its parent scope, or by root_) comes to this scope of its.
  bool IsReached(const FiberEntity* fiber, const CancelNode* node) const noexcept {
    for (; node != root_ && IsOwnedBy(node, fiber); node = node->parent) {
      if (node->shielded) return false;
    }
    return true;
  }

  // The next child of the scope, locked; nullptr: it has none, or no more.
  FiberEntity* NextChild(const FiberEntity* fiber, CancelNode* node,
                         bool arrived) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (node->children == nullptr) return nullptr;
    if (arrived) {
      if (!IsReached(fiber, node)) return nullptr;
      node->children->lock.lock();
      node->children->Rewind();
    }
    while (FiberEntity* const child = node->children->Next()) {
      child->cancel_word.lock();
      if (HasInChain(child, node)) return child;
      child->cancel_word.unlock();  // CN4
    }
    node->children->lock.unlock();
    return nullptr;
  }

  // The wait of a fiber that is in a scope.
  void Reach(FiberEntity* fiber) noexcept WEFT_REQUIRES(fiber->cancel_word) {
    const std::uint8_t bits = BitsOf(fiber, fiber->innermost_if_scoped);
    if ((bits & CancelWord::kPending) == 0) return;
    if (how_ == Walk::kMark) {
      fiber->cancel_word.Add(CancelWord::kPending);
      return;
    }
    // It belongs to another cancellation that has not walked yet, or its spawner is about to set it and to start it.
    if (!fiber->cancel_word.pending()) return;
    const TakenWait taken = TakenWait::Of(fiber);
    if (!taken) return;
    if (taken.published()) {
      taken.Wake();
      return;
    }
    woken_[count_++] = fiber;
    if (count_ == kBatch) Flush();
  }

  void Flush() noexcept {
    if (count_ != 0) scheduling_group::UnparkRemote(woken_.data(), std::exchange(count_, 0));
  }

  CancelNode* const root_;
  const Walk how_;
  std::size_t count_ = 0;
  std::array<FiberEntity*, kBatch> woken_;
};

}  // namespace

void EnterScope(FiberEntity* fiber, CancelNode* node) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  node->parent = fiber->innermost_scope();  // Nobody else changes it.
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
  if ((bits & CancelWord::kPending) == 0) return;
  LockAsOwner(&fiber->cancel_word);
  UnlockAsOwner(&fiber->cancel_word, static_cast<std::uint8_t>(fiber->cancel_word.bits() | bits));
}

}  // namespace

void InheritCancellation(FiberEntity* fiber) noexcept {
  scheduling_group::LightCancelFence();  // CN2. Pairs with CancellerSection's in Deliver().
  // Most are in no scope that is cancelled, whether it counts or not. (And a new fiber has no exception to throw.)
  for (const CancelNode* node = fiber->innermost_if_scoped; node != nullptr; node = node->parent) {
    if (WEFT_UNLIKELY(IsCancelled(node))) return InheritSlow(fiber);
  }
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
  Deliver([=](Walk how) { CancelWalk(node, how).Run(); });
  return true;
}

void CancelAll(CancelNode* const* nodes, std::size_t count, CancelReason reason) noexcept {
  for (std::size_t i = 0; i < count; ++i) static_cast<void>(Mark(nodes[i], reason));
  base::SpinLockGuard guard(OneAtATime());
  Deliver([=](Walk how) {
    for (std::size_t i = 0; i < count; ++i) CancelWalk(nodes[i], how).Run();
  });
}

void SetCoversOwner(FiberEntity* fiber, CancelNode* node, bool covers) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  LockAsOwner(&fiber->cancel_word);
  node->covers_owner.store(covers, std::memory_order_relaxed);  // As in VisitScopes().
  UnlockAsOwner(&fiber->cancel_word, BitsOf(fiber, fiber->innermost_if_scoped));
  if (!covers || !IsCancelled(node) || fiber->innermost_scope() == node) return;
  // What is inside of the owner's further scopes is below the node from now on, and no walk has come there.
  base::SpinLockGuard guard(OneAtATime());
  Deliver([=](Walk how) { CancelWalk(node, how).Run(); });
}

bool CancelIfThere(base::SpinLock* lock, CancelNode* const* node) noexcept {
  {
    base::SpinLockGuard there(*lock);
    if (*node == nullptr || !Mark(*node, CancelReason::kCancelled)) return false;
  }
  base::SpinLockGuard guard(OneAtATime());
  Deliver([=](Walk how) {
    base::SpinLockGuard there(*lock);
    if (*node != nullptr) CancelWalk(*node, how).Run();
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
    if (owned) Deliver([=](Walk how) { CancelWalk(node, how).Run(); });
  }
  // Here the former one is destroyed, without a lock.
}

}  // namespace weft::synchronization
