// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SpinLock: a lock of 4 bytes for sections of a few dozen instructions.
//
// Test-and-test-and-set with exponential backoff (T. Anderson, The Performance of Spin Lock Alternatives for
// Shared-Memory Multiprocessors, IEEE TPDS 1(1), 1990). Each read by a waiter takes the lock's line, and mostly the
// data beside it, from the holder; between rare reads the holder enters dozens of times at the speed of one thread. (A
// FiberChannel<int> between two workers: 139 ns an item without backoff, 42 with it.)
// After a bounded spin a waiter sleeps for a moment and retries: the holder may have been descheduled, and may need the
// very CPU that the waiter would burn.
//
//      kFree  --lock-->  kHeld  --unlock-->  kFree
//
// Invariants
//   SL1  The word leaves kFree by a read-modify-write only, so there is one holder.
//   SL2  unlock()'s only access to the lock is the write that frees it.  A thread that knows that this was the last
//        section may destroy the lock.
//   SL3  Nobody wakes a sleeper: it sleeps for kFirstSleep, then for twice as long after each sleep that was not cut
//        short, up to kLongestSleep.
// Any thread. Under a SpinLock: no user code, no allocation, no log line, no switch.
//
// Lock order: all are leaves, no two are held at once, but for a cancellation, which holds several in the order of
// sync/cancel/cancel_node.h: a scope handle's (sync/cancel_scope.cc), those of tables of children
// (sync/cancel/child_table.h), and last a primitive's queue lock or the queue of a loop group.
// Leaves, by their files: sync/wait/wait_queue.h, contention.cc (only tried), fiber_mutex.h, fiber_shared_mutex.h;
// timer/queue/timer_shard.h;
// scheduling_group/policy/policy_loop.h, group_stacks.h, run_queue.h, ready_waits.h (only tried), slice_limits.h,
// node_arena.h, node_arena.cc, entity_pool.cc, worker_slot.h; context/stack/stack_pool.h, stack_registry.cc;
// io/reactor/fd_slot_pool.cc, blocking_pool.h, tcp_server.h, circuit_breaker.cc; fiber/runtime/blocking_limits.cc.
// tests/invariant_labels_test.py finds a lock that is not here.
//
// Rejected: sched_yield() instead of the sleep (docs/decisions/004). A "somebody sleeps" mark in the word, so that
// unlock() wakes the sleeper: unlock() must then read the word that lock() has just exchanged, and waits for the
// exchange (BM_LockUnlock: 16.4 ns against 13.4). A mark beside the word: nobody wakes a sleeper that comes between
// unlock()'s check and its write. Ticket and MCS locks (a descheduled waiter blocks all behind it). std::mutex (11 ns).
#ifndef WEFT_BASE_THREAD_SPIN_LOCK_H_
#define WEFT_BASE_THREAD_SPIN_LOCK_H_

#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/base/time/clock.h"

namespace weft::base {

class WEFT_CAPABILITY("SpinLock") SpinLock {
 public:
  constexpr SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept WEFT_ACQUIRE() {
    std::uint32_t found = kFree;
    // acquire: we see what the former holder did.  Pairs with the release in unlock().
    if (WEFT_UNLIKELY(
            !word_.compare_exchange_weak(found, kHeld, std::memory_order_acquire, std::memory_order_relaxed))) {
      LockSlow();
    }
  }

  [[nodiscard]] bool try_lock() noexcept WEFT_TRY_ACQUIRE(true) {
    std::uint32_t found = kFree;
    // acquire: as in lock().
    return word_.compare_exchange_strong(found, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() noexcept WEFT_RELEASE() {
    // release: publishes what was done under the lock.  Pairs with the acquire in lock().
    word_.store(kFree, std::memory_order_release);
  }

  // Any thread. False: every section that began before what the caller has seen is over, its unlock() included (SL2).
  bool is_held() const noexcept {
    // acquire: what was done in the sections that are over.  Pairs with the release in unlock().
    return word_.load(std::memory_order_acquire) != kFree;
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  // At least so many pauses before a sleep: 10 us at 40 ns each. Sections are 200 times shorter, so a longer wait
  // mostly means that the holder does not run. Threads that do nothing but enter sections make one futex call in 8,000
  // sections (BM_LockUnlock).
  static constexpr int kSpins = 256;
  // Pauses between two reads, at first as long as some sections. The last is a compromise: longer ones let the holder
  // enter more often in a row, and find a free lock later.
  static constexpr int kFirstBackoff = 2;
  static constexpr int kLongestBackoff = 32;
  // SL3.  The first is as long as the kernel's timer slack; the last is shorter than the time slice of a descheduled
  // holder.
  static constexpr std::chrono::microseconds kFirstSleep{50};
  static constexpr std::chrono::microseconds kLongestSleep{1000};

  void LockSlow() noexcept;

  Atomic<std::uint32_t> word_{kFree};
};

class WEFT_SCOPED_CAPABILITY SpinLockGuard {
 public:
  explicit SpinLockGuard(SpinLock& lock) noexcept WEFT_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinLockGuard() WEFT_RELEASE() { lock_.unlock(); }
  SpinLockGuard(const SpinLockGuard&) = delete;
  SpinLockGuard& operator=(const SpinLockGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_SPIN_LOCK_H_
