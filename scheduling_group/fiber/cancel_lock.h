// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The lock of a fiber's scopes (cancel_word.h), biased to the fiber: it takes its own lock for each scope that it
// enters or leaves, millions of times a second; a canceller takes it for each fiber that it visits.
//
//   the owner                                  a canceller
//   ---------                                  -----------
//   owner_holds = true                         ++cancellers
//   LightCancelFence                           HeavyCancelFence         once for many fibers
//   cancellers == 0: it holds the lock         waits until !owner_holds
//   else owner_holds = false,                  the bit kLocked, by a read-modify-write
//        and the bit, as a canceller           ...
//   ...                                        unlocks
//   owner_holds = false, or unlocks the bit    --cancellers
//
// The owner is the fiber or, while it does not run, its spawner, or at its end its worker.
//
// Invariants
//   CL1  While a canceller is between its fence and --cancellers, no owner takes its lock but by the bit: it sees
//        `cancellers`, or the canceller sees its owner_holds.
//   CL2  A canceller takes the bit when it has seen owner_holds false, after its fence. So the owner's plain stores to
//        the word, while it holds the lock without the bit, are before anything of the canceller's.
//
// Cost: plain loads and stores for the owner (5 ns less than a read-modify-write), a HeavyCancelFence for a canceller.
// Checked in tests/model/cancel_lock_model.cc and cancel_model.cc.
// Source: asymmetric Dekker synchronization (D. Dice, H. Huang, M. Yang, 2001), as in biased locks.
#ifndef WEFT_SCHEDULING_GROUP_FIBER_CANCEL_LOCK_H_
#define WEFT_SCHEDULING_GROUP_FIBER_CANCEL_LOCK_H_

#include <atomic>
#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/fiber/cancel_fence.h"
#include "weft/scheduling_group/fiber/cancel_word.h"

namespace weft::scheduling_group {

#ifdef WEFT_MODEL_CHECK
extern base::Atomic<std::uint32_t>* model_cancellers;  // the scenario's, made anew
inline base::Atomic<std::uint32_t>& Cancellers() noexcept { return *model_cancellers; }
#else
extern constinit base::Atomic<std::uint32_t> cancellers;
inline base::Atomic<std::uint32_t>& Cancellers() noexcept { return cancellers; }
#endif

// The owner.
inline void LockAsOwner(CancelWord* word) noexcept WEFT_ACQUIRE(word) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  word->owner_holds_.store(true, std::memory_order_relaxed);
  LightCancelFence();  // CL1. Pairs with that of CancellerSection.
  // acquire: what the last canceller did. Pairs with the release in ~CancellerSection().
  if (WEFT_LIKELY(Cancellers().load(std::memory_order_acquire) == 0)) return;
  // release: what it did when it held the lock before, for a canceller that reads this store instead of the one with
  // which it let go. Pairs with the acquire in CancelWord::lock().
  word->owner_holds_.store(false, std::memory_order_release);
  word->lock();
}

// With these bits from now on.
inline void UnlockAsOwner(CancelWord* word, std::uint8_t bits) noexcept
    WEFT_RELEASE(word) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  if (WEFT_UNLIKELY(!word->owner_holds_.load(std::memory_order_relaxed))) return word->Unlock(bits);
  word->word_.store(bits, std::memory_order_relaxed);
  // release: what we did. Pairs with the acquire in CancelWord::lock().
  word->owner_holds_.store(false, std::memory_order_release);
}

// A thread that takes the locks of other fibers holds a CancellerSection meanwhile. Any thread, before its first lock.
class CancellerSection {
 public:
  CancellerSection() noexcept {
    Cancellers().fetch_add(1, std::memory_order_relaxed);  // The fence orders it.
    HeavyCancelFence();
  }
  ~CancellerSection() {
    // release: what we did. Pairs with the acquire in LockAsOwner().
    Cancellers().fetch_sub(1, std::memory_order_release);
  }
  CancellerSection(const CancellerSection&) = delete;
  CancellerSection& operator=(const CancellerSection&) = delete;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_CANCEL_LOCK_H_
