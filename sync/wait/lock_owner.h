// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LockOwner: who owns a lock, at the cost of a plain store each way. It answers one question, before a wait without a
// deadline: is the caller the owner, and would wait for ever?
//
// It keeps an address on the owner's stack, a register at hand, where a fiber's identity would be three loads and a
// branch (current_worker.h). IsCaller() finds out whether it lies on the caller's stack.
//
// Cost: 2 ns of 10 for an empty section, whose unlock waits for this store (bench/sync/fiber_mutex_benchmark.cc,
// BM_Uncontended). A section that writes anything waits anyhow, and pays nothing (bench/workload --workload=mutex).
// Rejected: the owner in the lock's word (lock() would have to read it first, and unlock() to know what lock() wrote);
// a store by lock() alone (between another's lock and its store the caller would still be taken for the owner); only in
// debug builds (a relock hangs without a word in those that are shipped).
//
// Invariants
//   LO1  Set() after the lock has been won, Clear() before it is given up, both by the owner: so an address on the
//        caller's stack was stored by the caller, which has not given up since. (The caller sees its own stores in
//        order, wherever it runs; others store other addresses.)
//   LO2  It is a hint one way only. Where several own a lock (readers), it is the last that came, or nobody; a caller
//        on a stack that neither Weft nor pthreads made is nobody.
// An owner that ends without unlocking leaves its address behind, and the next fiber or thread on that stack is taken
// for it. That one would wait for ever, too, as nobody else may unlock.
// Any thread.
#ifndef WEFT_SYNC_WAIT_LOCK_OWNER_H_
#define WEFT_SYNC_WAIT_LOCK_OWNER_H_

#include <atomic>

namespace weft::synchronization {

class LockOwner {
 public:
  // relaxed, both: LO1 needs the caller's own stores only. Not base::Atomic: the model tests have no use for it.
  void Set() noexcept { address_.store(__builtin_frame_address(0), std::memory_order_relaxed); }
  void Clear() noexcept { address_.store(nullptr, std::memory_order_relaxed); }

  // Slow.
  bool IsCaller() const noexcept;

 private:
  std::atomic<const void*> address_{nullptr};
};

// Where locks keep their owners, for dumps (observe/dump/fiber_reader.cc).
struct LockOwnerPlace;

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_LOCK_OWNER_H_
