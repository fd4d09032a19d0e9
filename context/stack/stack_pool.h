// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackPool: the stacks of one scheduling group. Workers take them through a StackCache (stack_cache.h).
//
// A stack used a moment ago costs nothing (its top page is cached); one without memory costs a page fault (1.2 us; up
// to 10 in a virtual machine); a new one costs its guard besides (0.2 us). Hence the warmest go first, Trim() gives
// memory back late, and only the flow that runs on a stack touches it: a shallow stack costs one page for its life.
//
//     cold, bare  --guard-->  in use  --Release-->  warm  --Trim-->  cold (guarded, no memory)
//         ^                     ^---------Acquire-----+----------------+        |
//         +----------------------- 64 neighbours, all cold: Trim ---------------+
//
// A bare slot has neither memory nor guard nor page tables (392 bytes a stack): it is new, or from a burst long past.
// Parts: stack_layout.h places stacks and guards, stack_arenas.h reserves the address space, stack_guards.h puts a
// guard below each stack: when it is first handed out, for a run of stacks in one call, for good.
//
// Invariants
//   STK1  A stack is in use, warm, cold (bare or not) or in the hands of Trim(): exactly one of them.
//   STK2  Nothing is written to a free stack's memory; nothing is read from it either, save the canary.
//   STK3  Under lock_ no system call is made, save one in a Trim() that finds a long free list emptied.
//
// Who may call: any thread. None of it switches; Acquire() may make system calls. If there is no stack, Acquire()
// returns nullptr and logs the reason once a second; the caller keeps the fiber queued.
//
// Rejected: a free list linked through the stacks (a page each, for ever); munmap of surplus stacks (a mapping each,
// and a lock of the whole address space for every stack); MADV_FREE (RSS stays up: nobody sees what is free).
#ifndef WEFT_CONTEXT_STACK_STACK_POOL_H_
#define WEFT_CONTEXT_STACK_STACK_POOL_H_

#include <cstddef>
#include <limits>
#include <mutex>

#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/context/stack/address_ring.h"
#include "weft/context/stack/stack_arenas.h"
#include "weft/context/stack/stack_guards.h"
#include "weft/context/stack/stack_layout.h"
#include "weft/context/stack/stack_memory.h"
#include "weft/context/stack/stack_registry.h"
#include "weft/context/switch/sanitizer.h"

namespace weft::context {

class StackPool {
 public:
  struct Options {
    std::size_t stack_size = 128 * 1024;  // Rounded up to pages.
    bool guard = true;                    // False: no guard and no canary either.
    // Rounded up to pages, and to one more where the layout wants it. A larger frame can jump over it unless compiled
    // with -fstack-clash-protection, as users of weft::weft are. Costs address space, and 8 bytes of page table a page.
    std::size_t guard_size = 65536;
    int node = -1;  // NUMA node the memory should come from; -1: any.
    std::size_t max_stacks = std::size_t{1} << 24;
    bool populate = true;  // Back the top pages of a batch of cold or new stacks in one system call.
    std::size_t first_arena_size = std::size_t{256} << 20;  // Of address space.
    StackMemory* memory = nullptr;                          // nullptr: StackMemory::System().
    void* owner = nullptr;                                  // What owner() returns; the pool does nothing with it.

    bool operator==(const Options&) const = default;
  };

  struct Statistics {
    std::size_t in_use = 0;              // Acquired and not released; those in StackCaches count.
    std::size_t free_warm = 0;           // Hold memory.
    std::size_t free_cold = 0;           // Hold none; without bare ones.
    std::size_t guarded_by_madvise = 0;  // How the stacks that are not bare are guarded.
    std::size_t guarded_by_mprotect = 0;
    std::size_t unguarded = 0;
  };

  explicit StackPool(const Options& options);
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  // Stacks still in use are leaked, with a warning.
  ~StackPool();

  // A stack's top, aligned to 16; [top - usable_size(), top) is the stack. nullptr: memory is exhausted.
  void* Acquire();
  // Fills tops[0, n') and returns n' <= n; less than n only if memory is exhausted. The last one is the warmest.
  std::size_t AcquireBatch(void** tops, std::size_t n);

  void Release(void* top) { ReleaseBatch(&top, 1); }
  void ReleaseBatch(void* const* tops, std::size_t n);

  // Gives the memory of free stacks beyond the `keep` warmest back to the OS, of at most `limit` stacks (about 0.3 us
  // each), and in the end their page tables. Returns how many remain: 0 means done.
  std::size_t Trim(std::size_t keep, std::size_t limit = std::numeric_limits<std::size_t>::max());

  void* owner() const { return owner_; }

  // Bytes below any top that belong to the stack. At least options.stack_size - 4096.
  std::size_t usable_size() const { return layout_.usable_size(); }

  Statistics statistics() const;

 private:
  friend class StackCache;

  static constexpr std::size_t kPoisonedSize = 2048;
  static constexpr std::size_t kRun = kStacksPerCall;

  // ASan: SAN2 in sanitizer.h. The upper end only, or the shadow of a stack would hold more memory than the stack.
  WEFT_ALWAYS_INLINE void Poison(const void* top) const { AsanPoison(PoisonLow(top), kPoisonedSize); }
  WEFT_ALWAYS_INLINE void Unpoison(const void* top) const {
    AsanUnpoison(PoisonLow(top), kPoisonedSize);
    StackHandedOut(top);
  }
  static const void* PoisonLow(const void* top) { return static_cast<const char*>(top) - kPoisonedSize; }

  std::size_t TakeAny(void** tops, std::size_t n, StackArenas::Growth* growth) WEFT_EXCLUDES(lock_);
  std::size_t TakeWarm(void** tops, std::size_t n) WEFT_EXCLUDES(lock_);
  std::size_t TakeCold(void** tops, std::size_t n) WEFT_EXCLUDES(lock_);
  StackArenas::Growth AddArena() WEFT_EXCLUDES(lock_);
  void MakeBare() WEFT_EXCLUDES(lock_);
  void MakeBare(StackArena& arena, std::size_t first_word, std::size_t words) WEFT_EXCLUDES(lock_);
  void PopulateTops(void* const* tops, std::size_t n);  // n <= kRun.

  const StackLayout layout_;
  const bool populate_;
  StackMemory* const memory_;
  void* const owner_;

  // Mutexes, because system calls are made under them.
  std::mutex trim_mutex_;  // Held by Trim() while stacks are in its hands.
  std::mutex grow_mutex_;  // Held while an arena is made. Order: trim_mutex_, grow_mutex_, lock_.

  StackArenas arenas_;  // Grows under grow_mutex_.
  StackGuards guards_;

  alignas(base::kCacheLineSize) mutable base::SpinLock lock_;
  AddressRing warm_ WEFT_GUARDED_BY(lock_);
  std::size_t cold_count_ WEFT_GUARDED_BY(lock_) = 0;  // Over all arenas.
  std::size_t bare_count_ WEFT_GUARDED_BY(lock_) = 0;  // Those of them.
  std::size_t in_use_ WEFT_GUARDED_BY(lock_) = 0;
};

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_POOL_H_
