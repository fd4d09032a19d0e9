// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CancelWord: the byte of a fiber that says whether its waits can be cancelled, and whether they are to end now.
//
//   kScoped    the fiber is inside a cancel scope, so its waits must be findable (sync/cancel/cancel_node.h)
//   kPending   a scope that it is inside of is cancelled: each wait that is a cancellation point ends at once
//   kTimed     a scope that it is inside of has a deadline: each cancellation point looks at the clock
//   kLocked    somebody holds the lock of the fiber's scopes
//
// The lock guards these bits and the fiber's chain of scopes (FiberEntity::innermost_scope()). Its holder alone changes
// the bits. The fiber reads its bits without the lock: it alone enters and leaves scopes, so kScoped is stable for it;
// kPending and kTimed are ordered by the fences of sync/cancel/cancel_node.h. The fiber takes the lock by LockAsOwner()
// (cancel_lock.h), everybody else by lock(), inside of a CancellerSection.
//
// Sections visit a handful of nodes, or, in CancelWalk, all fibers below a scope. No switch, no allocation and no user
// code under the lock. Any thread; the fiber of a word may be dead, or another one by now: entities are never unmapped.
// Rejected: base::SpinLock (4 bytes, and the entity's first cache line had two left); a table of locks chosen by hash
// (CancelWalk holds the locks of a fiber and of its ancestors at once, which must not be the same lock).
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

  // relaxed, all: see above.
  bool scoped() const noexcept { return (word_.load(std::memory_order_relaxed) & kScoped) != 0; }
  bool pending() const noexcept { return (word_.load(std::memory_order_relaxed) & kPending) != 0; }
  // A cancellation point has more to look at.
  bool pending_or_timed() const noexcept { return (word_.load(std::memory_order_relaxed) & (kPending | kTimed)) != 0; }

  void lock() noexcept WEFT_ACQUIRE() {
    // acquire, both: what the last holder did. Pairs with the releases in UnlockAsOwner() (CL2) and unlock().
    if (WEFT_UNLIKELY(owner_holds_.load(std::memory_order_acquire)) ||
        WEFT_UNLIKELY((word_.fetch_or(kLocked, std::memory_order_acquire) & kLocked) != 0)) {
      LockSlow();
    }
  }
  void unlock() noexcept WEFT_RELEASE() { Unlock(bits()); }
  // With other bits than before.
  void Unlock(std::uint8_t bits) noexcept WEFT_RELEASE() {
    // release: what we did. Pairs with the acquire in lock().
    word_.store(bits, std::memory_order_release);
  }

  // The holder of the lock.
  std::uint8_t bits() const noexcept {
    return static_cast<std::uint8_t>(word_.load(std::memory_order_relaxed) & ~kLocked);
  }
  void Add(std::uint8_t bits) noexcept WEFT_REQUIRES(this) {
    // A plain addition: only the holder of the lock writes, besides fetch_or() of the bit that is set.
    word_.store(static_cast<std::uint8_t>(word_.load(std::memory_order_relaxed) | bits), std::memory_order_relaxed);
  }

 private:
  friend void LockAsOwner(CancelWord* word) noexcept;
  friend void UnlockAsOwner(CancelWord* word, std::uint8_t bits) noexcept;

  static constexpr std::uint8_t kLocked = 0x80;

  void LockSlow() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS;

  base::Atomic<std::uint8_t> word_{0};
  base::Atomic<bool> owner_holds_{false};  // written by the owner alone
};

static_assert(sizeof(CancelWord) == 2);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_CANCEL_WORD_H_
