// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CancelWord: what a fiber's waits ask: whether they can be cancelled, and whether they are to end now; and the lock of
// the fiber's scopes.
//
//   kScoped    the fiber is inside a cancel scope, so its waits must be findable (sync/cancel/cancel_node.h)
//   kPending   a scope that it is inside of is cancelled: each wait that is a cancellation point ends at once
//   kTimed     a scope that it is inside of has a deadline: each cancellation point looks at the clock
//
// The lock guards these bits and the fiber's chain of scopes (FiberEntity::innermost_scope()) while kScoped is set: its
// holder alone changes them. Without kScoped they are the fiber's, or its maker's, alone. The fiber reads its bits
// without the lock: it alone enters and leaves scopes, so kScoped is stable for it; kPending and kTimed are ordered by
// the fences of sync/cancel/cancel_node.h.
//
// Sections visit a handful of nodes, or, in CancelWalk, all fibers below a scope. No switch, no allocation and no user
// code under the lock. Any thread; the fiber of a word may be dead, or another one by now: entities are never unmapped.
// Rejected: base::SpinLock (4 bytes, and the entity's first cache line had two left); the lock as a bit beside the
// others (x86 then takes it by a loop of compare-exchanges); a lock biased to the fiber, whose cancellers interrupt all
// CPUs (docs/decisions/024-cost-of-a-cancellation.md); a table of locks chosen by hash (CancelWalk holds the locks of a
// fiber and of its ancestors at once, which must not be the same lock).
#ifndef WEFT_SCHEDULING_GROUP_FIBER_CANCEL_WORD_H_
#define WEFT_SCHEDULING_GROUP_FIBER_CANCEL_WORD_H_

#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/thread_annotations.h"

namespace weft::scheduling_group {

class WEFT_CAPABILITY("CancelWord") CancelWord {
 public:
  static constexpr std::uint8_t kScoped = 1;
  static constexpr std::uint8_t kPending = 2;
  static constexpr std::uint8_t kTimed = 4;

  // acquire: the chain that its maker has given to a new fiber, which a walk may meet. Pairs with BeginScoped().
  bool scoped() const noexcept { return (bits_.load(std::memory_order_acquire) & kScoped) != 0; }
  // relaxed, all below: see above.
  std::uint8_t bits() const noexcept { return bits_.load(std::memory_order_relaxed); }
  bool pending() const noexcept { return (bits() & kPending) != 0; }
  // A cancellation point has more to look at.
  bool pending_or_timed() const noexcept { return (bits() & (kPending | kTimed)) != 0; }

  // The maker of a fiber, which begins in a scope. No lock: nobody writes the bits of a fiber that is in no scope.
  void BeginScoped() noexcept { bits_.store(kScoped, std::memory_order_release); }

  void lock() noexcept WEFT_ACQUIRE() {
    // acquire: what the last holder did. Pairs with the release in unlock().
    // seq_cst: FenceAfterReadModifyWrite() in EnterScope() requires it.
    if (WEFT_UNLIKELY(held_.exchange(true, std::memory_order_seq_cst))) LockSlow();
  }
  void unlock() noexcept WEFT_RELEASE() {
    // release: what we did. Pairs with the acquire in lock().
    held_.store(false, std::memory_order_release);
  }

  // The holder of the lock.
  void Set(std::uint8_t bits) noexcept WEFT_REQUIRES(this) { bits_.store(bits, std::memory_order_relaxed); }
  void Add(std::uint8_t more) noexcept WEFT_REQUIRES(this) { Set(bits() | more); }
  // With these bits from now on.
  void Unlock(std::uint8_t bits) noexcept WEFT_RELEASE() {
    Set(bits);
    unlock();
  }

 private:
  void LockSlow() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS;

  base::Atomic<std::uint8_t> bits_{0};
  base::Atomic<bool> held_{false};
};

static_assert(sizeof(CancelWord) == 2);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_CANCEL_WORD_H_
