// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel/cancel_node.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/cancel/cancel_counts.h"
#include "weft/sync/wait/wait_queue.h"

#ifndef WEFT_MODEL_CHECK
#include "weft/scheduling_group/fiber/read_section.h"
#endif

namespace weft::synchronization {

using scheduling_group::CancelWord;

#ifdef WEFT_MODEL_CHECK
bool model_has_membarrier = true;
#endif

namespace {

// The fences of a spawner and of a canceller that has met a scope of fibers (CN2): there are many more children than
// cancellations, so the canceller pays for both. Whether it can is decided, as for ReadSection, before the first
// fiber of a runtime or a FiberLoop runs.
bool HasHeavyFence() noexcept {
#ifdef WEFT_MODEL_CHECK
  return model_has_membarrier;
#else
  return scheduling_group::read_section_internal::has_heavy_fence.load(std::memory_order_relaxed);
#endif
}
void FenceOfSpawner() noexcept {
  if (HasHeavyFence()) {
    base::LightFence();
  } else {
    base::ThreadFence(std::memory_order_seq_cst);
  }
}
// One to five microseconds with two CPUs.
void FenceForChildren() noexcept {
  if (HasHeavyFence()) {
    base::HeavyFence();
  } else {
    base::ThreadFence(std::memory_order_seq_cst);
  }
}

// relaxed, all below: `parent` and `shielded` do not change while somebody is inside; `has_injected` is ordered by the
// lock of the fiber's word (CN3), `cancelled` by that or by the fences (CN2).
bool IsOwnedBy(const CancelNode* node, const FiberEntity* fiber) noexcept {
  return node->owner.load(std::memory_order_relaxed) == fiber;
}
bool IsCancelled(const CancelNode* node) noexcept {
  // acquire: what was done before the cancellation, for a fiber that no walk has marked. Pairs with Mark().
  return node->cancelled.load(std::memory_order_acquire) != CancelReason::kNone;
}

bool HasDeadline(const CancelNode* node) noexcept {
  return node->deadline.load(std::memory_order_relaxed) != INT64_MAX;
}

// Calls visit(node) for the scopes whose cancellation counts for the fiber (cancel_node.h), the innermost first.
template <class Visit>
void VisitScopes(const FiberEntity* fiber, CancelNode* innermost, Visit visit) noexcept {
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
bool Ends(const CancelNode* node, const FiberEntity* fiber) noexcept {
  // An exception is for the owner alone.
  return IsCancelled(node) || (IsOwnedBy(node, fiber) && node->has_injected.load(std::memory_order_relaxed));
}

// What a scope that counts for the fiber adds to its cancel word.
std::uint8_t BitsBecauseOf(const FiberEntity* fiber, const CancelNode* node) noexcept {
  return static_cast<std::uint8_t>((Ends(node, fiber) ? CancelWord::kPending : 0) |
                                   (HasDeadline(node) ? CancelWord::kTimed : 0));
}

// What the cancel word of a fiber in `innermost` should say. With its lock, by the fiber, or before the fiber starts.
std::uint8_t BitsOf(const FiberEntity* fiber, CancelNode* innermost) noexcept {
  if (innermost == nullptr) return 0;
  std::uint8_t bits = CancelWord::kScoped;
  VisitScopes(fiber, innermost, [&](const CancelNode* node) { bits |= BitsBecauseOf(fiber, node); });
  return bits;
}

// Whether scopes outside of the node count for its owner where the node does not.
bool HidesWhatIsOutside(const CancelNode* node) noexcept { return node->shielded || node->entered_by_unwinding; }

// The same for a fiber that enters `node`, with its lock. The word already says whether a scope outside is cancelled
// (or a walk on its way will say so: CN3), so entering costs the same at any depth.
std::uint8_t BitsInside(const FiberEntity* fiber, CancelNode* node) noexcept {
  const bool is_plain = !fiber->cancel_word.pending_or_timed() && !Ends(node, fiber) && !HasDeadline(node);
  if (WEFT_LIKELY(is_plain)) return CancelWord::kScoped;
  const std::uint8_t because_of_it = BitsBecauseOf(fiber, node);  // If it counts.
  const std::uint8_t bits = fiber->cancel_word.bits() | because_of_it;
  if ((bits & CancelWord::kPending) != 0 || HidesWhatIsOutside(node)) return BitsOf(fiber, node);
  return CancelWord::kScoped | (bits & CancelWord::kTimed);
}
// The same for a fiber that leaves it: the word says whether a scope that stays is cancelled, unless it was hidden.
std::uint8_t BitsOutside(const FiberEntity* fiber, const CancelNode* node) noexcept {
  if (fiber->cancel_word.pending_or_timed() || HidesWhatIsOutside(node)) return BitsOf(fiber, node->parent);
  return node->parent != nullptr ? CancelWord::kScoped : 0;
}

// Whether the fiber's own chain has the node. (The chain of its ancestors is not asked.) With the lock of its word.
bool HasInChain(const FiberEntity* fiber, const CancelNode* wanted) noexcept {
  const CancelNode* node = fiber->innermost_scope();
  while (node != nullptr && node != wanted && IsOwnedBy(node, fiber)) node = node->parent;
  return node == wanted && node != nullptr;
}

// The fiber unlocks its word, with these bits from now on. If it is in a wait, this is a yield hook, which comes after
// the wait's own look at kPending. A walk that found the bit set, or a shield in its way, has left the wait to us.
void UnlockOwn(FiberEntity* fiber, std::uint8_t bits) noexcept WEFT_RELEASE(fiber->cancel_word) {
  fiber->cancel_word.Unlock(bits);
  if (WEFT_LIKELY((bits & CancelWord::kPending) == 0)) return;
  if (fiber->current_wait.load(std::memory_order_relaxed) != nullptr) EndPendingWait(fiber);
}

}  // namespace

void EnterScope(FiberEntity* fiber, CancelNode* node) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  CancelNode* const parent = fiber->innermost_scope();
  node->parent = parent;  // Nobody else changes it.
  node->depth = scheduling_group::UnwindingDepth();
  node->entered_by_unwinding = WEFT_UNLIKELY(node->depth != 0) &&
                               (parent == nullptr || !IsOwnedBy(parent, fiber) || parent->depth < node->depth);
  // release: the node. Pairs with the acquires in CancelWalk::Run() and Inject().
  node->owner.store(fiber, std::memory_order_release);
  fiber->cancel_word.lock();
  base::FenceAfterReadModifyWrite();  // Before we look at `cancelled` (CN3). Pairs with the fence in Mark().
  fiber->innermost_if_scoped = node;
  fiber->cancel_word.Unlock(BitsInside(fiber, node));
}

void LeaveScope(FiberEntity* fiber, CancelNode* node) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  fiber->cancel_word.lock();
  WEFT_CHECK(fiber->innermost_scope() == node, "CancelScope: scopes are left in another order than they were entered");
  fiber->innermost_if_scoped = node->parent;
  node->owner.store(nullptr, std::memory_order_relaxed);  // A walk that still sees us asks the chain, under the lock.
  UnlockOwn(fiber, BitsOutside(fiber, node));
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
  fiber->cancel_word.lock();
  VisitScopes(fiber, fiber->innermost_scope(), [&](CancelNode* node) {
    if (taken != nullptr || !IsOwnedBy(node, fiber) || !node->has_injected.load(std::memory_order_relaxed)) return;
    taken = std::exchange(node->injected, nullptr);
    node->has_injected.store(false, std::memory_order_relaxed);
  });
  fiber->cancel_word.Unlock(BitsOf(fiber, fiber->innermost_scope()));
  return taken;
}

namespace {

WEFT_NOINLINE void InheritSlow(FiberEntity* fiber) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  const std::uint8_t bits = BitsOf(fiber, fiber->innermost_if_scoped);
  if (bits == CancelWord::kScoped) return;
  const std::lock_guard guard(fiber->cancel_word);
  fiber->cancel_word.Add(bits);
}

}  // namespace

void InheritCancellation(FiberEntity* fiber) noexcept {
  FenceOfSpawner();  // CN2. Pairs with FenceForChildren() in Deliver().
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

// Under the lock of the fiber's word: sets kPending, if its chain says so, and takes the wait that ends by it.
TakenWait Interrupt(FiberEntity* fiber) noexcept WEFT_REQUIRES(fiber->cancel_word) {
  // Pending already: whoever set it has had its look at the wait, or the fiber sees it by program order (UnlockOwn()).
  if (fiber->cancel_word.pending()) return {};
  if ((BitsOf(fiber, fiber->innermost_scope()) & CancelWord::kPending) == 0) return {};
  fiber->cancel_word.Add(CancelWord::kPending);
  base::ThreadFence(std::memory_order_seq_cst);  // CN1. Pairs with the fences of the waits.
  return TakenWait::Of(fiber);
}

enum class Walk : std::uint8_t {
  kCancel,  // interrupts the fibers whose waits are to end
  kTime,    // of a deadline: sets kTimed where it is to be
};

// One walk through all fibers below a scope.
class CancelWalk {
 public:
  // `fenced`: FenceForChildren() was called since the walk's cause was set.
  CancelWalk(CancelNode* root, Walk how, bool fenced) noexcept : root_(root), how_(how), fenced_(fenced) {}
  ~CancelWalk() { Flush(); }
  CancelWalk(const CancelWalk&) = delete;
  CancelWalk& operator=(const CancelWalk&) = delete;

  // False: it has come to a scope of fibers without having been `fenced`, and is to be made anew.
  [[nodiscard]] bool Run() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    FiberEntity* fiber = root_->owner.load(std::memory_order_acquire);  // Pairs with the release in EnterScope().
    CancelNode* node = root_;
    if (fiber != nullptr) {
      fiber->cancel_word.lock();
      if (!HasInChain(fiber, root_)) {  // Left meanwhile.
        fiber->cancel_word.unlock();
        return true;
      }
      Reach(fiber);
      node = fiber->innermost_if_scoped;
    }
    if (!fenced_ && LeadsToChildren(node)) {
      if (fiber != nullptr) fiber->cancel_word.unlock();
      return false;
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
    return true;
  }

 private:
  static constexpr std::size_t kBatch = 32;

  // Of the innermost scope of root_'s owner.
  bool LeadsToChildren(const CancelNode* node) const noexcept {
    while (node->children == nullptr && node != root_) node = node->parent;
    return node->children != nullptr;
  }

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

  void Reach(FiberEntity* fiber) noexcept WEFT_REQUIRES(fiber->cancel_word) {
    if (how_ == Walk::kTime) {
      fiber->cancel_word.Add(BitsOf(fiber, fiber->innermost_if_scoped) & CancelWord::kTimed);
      return;
    }
    const TakenWait taken = Interrupt(fiber);
    if (!taken) return;
    if (taken.published()) {
      taken.Wake();
      return;
    }
    woken_[count_++] = fiber;
    if (count_ == kBatch) Flush();
  }

  void Flush() noexcept {
    const std::size_t count = std::exchange(count_, 0);
    if (count == 1) {
      scheduling_group::Unpark(woken_[0]);  // May be handed off to on this worker: the cheapest wake-up.
    } else if (count != 0) {
      scheduling_group::UnparkRemote(woken_.data(), count);
    }
  }

  CancelNode* const root_;
  const Walk how_;
  const bool fenced_;
  std::size_t count_ = 0;
  std::array<FiberEntity*, kBatch> woken_;
};

// walk(fenced): walks, and says false if it must be fenced (CN2). No lock is held during the fence, which takes long.
template <class WalkAll>
void Deliver(WalkAll walk) noexcept {
  if (walk(/*fenced=*/false)) return;
  FenceForChildren();
  static_cast<void>(walk(/*fenced=*/true));
}
void Deliver(CancelNode* node, Walk how) noexcept {
  Deliver([=](bool fenced) { return CancelWalk(node, how, fenced).Run(); });
}

// False: it was cancelled before.
bool Mark(CancelNode* node, CancelReason reason) noexcept {
  CancelReason none = CancelReason::kNone;
  // release: what the caller did. Pairs with the acquires in IsCancelled() and of those who ask for the reason.
  // seq_cst: for the fence.
  if (!node->cancelled.compare_exchange_strong(none, reason, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    return false;
  }
  base::FenceAfterReadModifyWrite();  // Before we look at `owner` (CN3). Pairs with the fence in EnterScope().
  return true;
}

}  // namespace

bool Cancel(CancelNode* node, CancelReason reason) noexcept {
  if (!Mark(node, reason)) return false;
  CancelCounts::Record(node, reason);
  Deliver(node, Walk::kCancel);
  return true;
}

void CancelAll(CancelNode* const* nodes, std::size_t count, CancelReason reason) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (Mark(nodes[i], reason)) CancelCounts::Record(nodes[i], reason);
  }
  Deliver([=](bool fenced) {
    bool is_done = true;
    for (std::size_t i = 0; i < count; ++i) is_done &= CancelWalk(nodes[i], Walk::kCancel, fenced).Run();
    return is_done;
  });
}

bool CancelIfThere(base::SpinLock* lock, CancelNode* const* node) noexcept {
  bool marked = false;
  Deliver([&](bool fenced) {
    const base::SpinLockGuard there(*lock);
    if (*node == nullptr) return true;
    if (!fenced) marked = Mark(*node, CancelReason::kCancelled);
    return !marked || CancelWalk(*node, Walk::kCancel, fenced).Run();
  });
  if (marked) CancelCounts::Record(nullptr, CancelReason::kCancelled);  // It may be gone.
  return marked;
}

void Inject(CancelNode* node, std::exception_ptr exception) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TakenWait taken;
  FiberEntity* const fiber = node->owner.load(std::memory_order_acquire);  // As in CancelWalk::Run().
  if (fiber == nullptr) return;
  {
    const std::lock_guard guard(fiber->cancel_word);
    if (!HasInChain(fiber, node)) return;
    std::swap(node->injected, exception);
    node->has_injected.store(true, std::memory_order_relaxed);
    taken = Interrupt(fiber);
  }
  if (taken) taken.Wake();
  // Here the former one is destroyed, without a lock.
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

}  // namespace

void BeginWithDeadline(CancelNode* node) noexcept {
  const Deadline deadline(
      Deadline::TimePoint(std::chrono::nanoseconds(node->deadline.load(std::memory_order_relaxed))));
  if (deadline.expired()) static_cast<void>(Mark(node, CancelReason::kDeadline));
}

bool SetDeadline(FiberEntity* fiber, CancelNode* node, Deadline deadline) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  const bool is_told = HasDeadline(node);  // All below it know that it has one (CN7).
  // relaxed: it carries nothing else; for kTimed the lock orders it, and FenceForChildren() (CN7).
  node->deadline.store(deadline.time_point().time_since_epoch().count(), std::memory_order_relaxed);
  if (deadline.expired()) {
    static_cast<void>(Cancel(node, CancelReason::kDeadline));
    return true;
  }
  fiber->cancel_word.lock();
  UnlockOwn(fiber, BitsOf(fiber, fiber->innermost_scope()));
  if (!deadline.is_none() && !is_told && HasChildren(fiber, node)) Deliver(node, Walk::kTime);
  return false;
}

void SetCoversOwner(FiberEntity* fiber, CancelNode* node, bool covers) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  fiber->cancel_word.lock();
  node->covers_owner.store(covers, std::memory_order_relaxed);  // As in VisitScopes().
  UnlockOwn(fiber, BitsOf(fiber, fiber->innermost_if_scoped));
  if (!covers || fiber->innermost_scope() == node) return;
  // What is inside of the owner's further scopes is below the node from now on, and no walk has come there.
  if (HasDeadline(node)) Deliver(node, Walk::kTime);
  if (IsCancelled(node)) Deliver(node, Walk::kCancel);
}

}  // namespace weft::synchronization
