// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackPool: the stacks of one scheduling group. Workers take them through a StackCache.
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
// Parts: stack_arenas.h reserves the address space, and places stacks and guards in it; stack_guards.h puts a guard
// below each stack: when it is first handed out, for a run of stacks in one call, for good.
//
// A StackCache is one worker's share, so that a fiber's start and end need no lock. The pool counts its stacks as in
// use. It exchanges half of them with the pool at a time.
//
// Invariants
//   STK1  A stack is in use, warm, cold (bare or not) or in the hands of Trim(): exactly one of them.
//   STK2  Nothing is written to a free stack's memory; nothing is read from it either, save the canary.
//   STK3  Under lock_ no system call is made, save one in a Trim() that finds a long free list emptied.
//
// Who may call: any thread; a StackCache: its owner only. None of it switches; Acquire() and Pop() may make system
// calls. If there is no stack, Acquire() returns nullptr and logs the reason once a second; the caller keeps the fiber
// queued.
//
// Rejected: a free list linked through the stacks (a page each, for ever); munmap of surplus stacks (a mapping each,
// and a lock of the whole address space for every stack); MADV_FREE (RSS stays up: nobody sees what is free).
#ifndef WEFT_CONTEXT_STACK_STACK_POOL_H_
#define WEFT_CONTEXT_STACK_STACK_POOL_H_

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/context/stack/stack_arenas.h"
#include "weft/context/stack/stack_guards.h"
#include "weft/context/stack/stack_memory.h"
#include "weft/context/stack/stack_registry.h"
#include "weft/context/switch/sanitizer.h"

namespace weft::context {

// A bounded double-ended queue of addresses, in address space reserved once; memory backs what is used. A pool keeps
// its warm stacks in one: it pushes and pops at the new end and trims from the old end. Pushing never allocates, so it
// may be done under a spin lock. Not thread safe.
class AddressRing {
 public:
  // Room for `capacity` addresses, or fewer if address space is short (capacity()). Throws std::bad_alloc if none.
  explicit AddressRing(std::size_t capacity) : capacity_(std::bit_ceil(capacity)) {
    void* slots = MAP_FAILED;
    for (; slots == MAP_FAILED; capacity_ /= 2) {
      if (capacity_ == 0) throw std::bad_alloc();
      slots = mmap(nullptr, Bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (slots != MAP_FAILED) break;
    }
    slots_ = static_cast<void**>(slots);
  }
  AddressRing(const AddressRing&) = delete;
  AddressRing& operator=(const AddressRing&) = delete;
  ~AddressRing() { munmap(slots_, Bytes()); }

  std::size_t capacity() const { return capacity_; }
  std::size_t size() const { return newest_ - oldest_; }

  void PushNewest(void* address) {
    WEFT_DCHECK(size() < capacity_);
    slots_[newest_++ & (capacity_ - 1)] = address;
    high_water_ = std::max(high_water_, newest_);
  }
  // Both require size() > 0. An empty ring starts again at the front, which memory backs already.
  void* PopNewest() {
    WEFT_DCHECK(size() > 0);
    void* address = slots_[--newest_ & (capacity_ - 1)];
    if (newest_ == oldest_) newest_ = oldest_ = 0;
    return address;
  }
  void* PopOldest() {
    WEFT_DCHECK(size() > 0);
    void* address = slots_[oldest_++ & (capacity_ - 1)];
    if (newest_ == oldest_) newest_ = oldest_ = 0;
    return address;
  }

  // Gives back memory that a larger past needed. One system call at most.
  void Compact() {
    if (high_water_ <= kKept || size() > kKept) return;
    if (oldest_ >= capacity_) {
      oldest_ -= capacity_;
      newest_ -= capacity_;
    }
    if (newest_ > capacity_) return;  // It wraps: try another time.
    std::memmove(slots_, slots_ + oldest_, size() * sizeof(void*));
    newest_ = high_water_ = size();
    oldest_ = 0;
    madvise(slots_ + kKept, Bytes() - kKept * sizeof(void*), MADV_DONTNEED);
  }

 private:
  static constexpr std::size_t kKept = 8192;  // 64 KiB: a whole number of pages, whatever their size.

  std::size_t Bytes() const { return capacity_ * sizeof(void*); }

  std::size_t capacity_;  // A power of two.
  void** slots_ = nullptr;
  std::size_t oldest_ = 0;  // Both count on until the ring is empty, and are masked when used.
  std::size_t newest_ = 0;
  std::size_t high_water_ = 0;  // Of newest_, since the last Compact().
};

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

class StackCache {
 public:
  explicit StackCache(StackPool* pool) : pool_(pool) {}
  StackCache(const StackCache&) = delete;
  StackCache& operator=(const StackCache&) = delete;
  ~StackCache() { Clear(); }

  // As StackPool::Acquire() and Release().
  void* Pop() {
    if (WEFT_UNLIKELY(size_ == 0) && !Refill()) return nullptr;
    void* top = tops_[--size_];
    pool_->Unpoison(top);
    return top;
  }
  void Push(void* top) {
    pool_->guards_.CheckCanary(top);
    pool_->Poison(top);
    if (WEFT_UNLIKELY(size_ == kCapacity)) Spill();
    tops_[size_++] = top;
  }

  // All go back to the pool.
  void Clear();

  std::size_t size() const { return size_; }

 private:
  // A fork and join of a few fibers stays within the cache.
  static constexpr std::size_t kCapacity = 32;
  static constexpr std::size_t kExchanged = kCapacity / 2;

  bool Refill();
  void Spill();

  StackPool* const pool_;
  std::size_t size_ = 0;
  std::array<void*, kCapacity> tops_;  // The last is the warmest.
};

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_POOL_H_
