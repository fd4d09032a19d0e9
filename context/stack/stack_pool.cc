// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_pool.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/context/switch/context.h"

namespace weft::context {
StackPool::StackPool(const Options& options)
    : layout_(options.stack_size, options.guard_size),
      populate_(options.populate),
      memory_(options.memory != nullptr ? options.memory : StackMemory::System()),
      owner_(options.owner),
      arenas_(memory_, &layout_, options.node, options.first_arena_size, options.max_stacks),
      guards_(memory_, &layout_, &arenas_, options.guard),
      warm_(options.max_stacks) {
  WEFT_CHECK(options.stack_size >= 8192, "StackPool: a stack of ", options.stack_size, " bytes is too small");
  WEFT_CHECK(options.max_stacks > 0, "StackPool: max_stacks is 0");
  base::SpinLockGuard lock(lock_);
  arenas_.LimitSlots(warm_.capacity());
}

StackPool::~StackPool() {
  if (const std::size_t in_use = statistics().in_use; in_use != 0) {
    WEFT_LOG(WARNING, "StackPool: destroyed while ", in_use, " stacks are in use; their arenas stay");
    return;
  }
  arenas_.UnmapAll();
  guards_.ForgetAll();
}

void* StackPool::Acquire() {
  void* top = nullptr;
  return AcquireBatch(&top, 1) == 1 ? top : nullptr;
}

std::size_t StackPool::AcquireBatch(void** tops, std::size_t n) {
  StackArenas::Growth growth = StackArenas::Growth::kDone;
  std::size_t taken = TakeAny(tops, n, &growth);
  if (WEFT_UNLIKELY(taken < n)) {
    // Stacks in the hands of Trim() must not cause a refusal: nobody would tell the caller that they are back.
    std::lock_guard trim(trim_mutex_);
    taken += TakeAny(tops + taken, n - taken, &growth);
  }
  if (WEFT_UNLIKELY(taken < n)) {
    try {
      WEFT_LOG_EVERY_SECOND(WARNING, "out of stacks: ", statistics().in_use, " of ", layout_.stack_size(),
                            " bytes are in use, and there are no more: ", StackArenas::WhyNot(growth));
    } catch (const std::bad_alloc&) {
      // No memory for the log line either.
    }
  }
  std::reverse(tops, tops + taken);  // They were taken warmest first.
  return taken;
}

void StackPool::ReleaseBatch(void* const* tops, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    guards_.CheckCanary(tops[i]);
    Poison(tops[i]);
  }
  base::SpinLockGuard lock(lock_);
  WEFT_DCHECK(in_use_ >= n, "StackPool: more stacks released than acquired");
  in_use_ -= n;
  for (std::size_t i = 0; i < n; ++i) warm_.PushNewest(tops[i]);
}

std::size_t StackPool::Trim(std::size_t keep, std::size_t limit) {
  for (bool any = false;; any = true) {
    std::lock_guard trim(trim_mutex_);
    std::array<void*, kRun> tops;
    std::size_t surplus = 0;
    std::size_t n = 0;
    {
      base::SpinLockGuard lock(lock_);
      surplus = warm_.size() > keep ? warm_.size() - keep : 0;
      n = std::min({surplus, limit, kRun});
      for (std::size_t i = 0; i < n; ++i) tops[i] = warm_.PopOldest();
      if (surplus == 0) warm_.Compact();
    }
    if (n == 0) {
      if (any && surplus == 0) MakeBare();
      return surplus;
    }
    limit -= n;
    std::array<StackMemory::Range, kRun> ranges;
    for (std::size_t i = 0; i < n; ++i) ranges[i] = layout_.WholeStack(tops[i]);
    memory_->Discard(std::span<const StackMemory::Range>(ranges).first(n));
    base::SpinLockGuard lock(lock_);
    for (std::size_t i = 0; i < n; ++i) {
      StackArena& arena = arenas_.Of(tops[i]);
      arena.cold.Add(arena.SlotOf(tops[i]));
    }
    cold_count_ += n;
  }
}

StackPool::Statistics StackPool::statistics() const {
  Statistics statistics;
  statistics.guarded_by_madvise = guards_.by_madvise();
  statistics.guarded_by_mprotect = guards_.by_mprotect();
  statistics.unguarded = guards_.unguarded();
  base::SpinLockGuard lock(lock_);
  statistics.in_use = in_use_;
  statistics.free_warm = warm_.size();
  statistics.free_cold = cold_count_ - bare_count_;
  return statistics;
}

// Takes warm stacks, then cold ones. Bare ones get their guards; several cold ones also get their top pages.
std::size_t StackPool::TakeAny(void** tops, std::size_t n, StackArenas::Growth* growth) {
  std::size_t taken = TakeWarm(tops, n);
  while (taken < n) {
    const std::size_t wanted = std::min(n - taken, kRun);
    const std::size_t cold = TakeCold(tops + taken, wanted);
    if (populate_ && cold > 1) PopulateTops(tops + taken, cold);
    taken += cold;
    if (cold < wanted && (*growth = AddArena()) != StackArenas::Growth::kDone) break;
  }
  for (std::size_t i = 0; i < taken; ++i) Unpoison(tops[i]);
  return taken;
}

std::size_t StackPool::TakeWarm(void** tops, std::size_t n) {
  base::SpinLockGuard lock(lock_);
  const std::size_t taken = std::min(n, warm_.size());
  for (std::size_t i = 0; i < taken; ++i) tops[i] = warm_.PopNewest();
  in_use_ += taken;
  return taken;
}

// Lowest addresses first, so that the upper ones become bare after a burst. n <= kRun.
std::size_t StackPool::TakeCold(void** tops, std::size_t n) {
  std::array<void*, kRun> bare;
  std::size_t bare_count = 0;
  std::size_t taken = 0;
  {
    base::SpinLockGuard lock(lock_);
    // relaxed: an entry was counted before its slots were cold, under lock_.
    const std::size_t count = cold_count_ > 0 ? arenas_.size(std::memory_order_relaxed) : 0;
    for (std::size_t i = 0; i < count; ++i) {
      StackArena& arena = arenas_[i];
      while (taken < n && arena.cold.size() > 0) {
        const std::size_t slot = arena.cold.PopLowest();
        arena.used = std::max(arena.used, slot + 1);
        void* top = layout_.TopOf(arena.region.low + slot * layout_.stride());
        tops[taken++] = top;
        if (arena.guarded.Contains(slot)) continue;
        arena.guarded.Add(slot);
        bare[bare_count++] = top;
      }
    }
    cold_count_ -= taken;
    bare_count_ -= bare_count;
    in_use_ += taken;
  }
  if (bare_count > 0) {
    guards_.Install(bare.data(), bare_count);
    if (RunsOnValgrind()) {
      for (std::size_t i = 0; i < bare_count; ++i) TellValgrindOfStack(layout_.WholeStack(bare[i]).iov_base, bare[i]);
    }
  }
  return taken;
}

StackArenas::Growth StackPool::AddArena() {
  std::lock_guard grow(grow_mutex_);
  {
    base::SpinLockGuard lock(lock_);
    if (cold_count_ > 0) return StackArenas::Growth::kDone;  // Another thread was faster.
  }
  StackArena* arena = nullptr;
  if (const StackArenas::Growth growth = arenas_.Add(&arena); growth != StackArenas::Growth::kDone) return growth;
  base::SpinLockGuard lock(lock_);
  arena->MakeAllCold();
  cold_count_ += arena->slots;
  bare_count_ += arena->slots;
  return StackArenas::Growth::kDone;
}

// Runs of cold slots give back their page tables, and with them their guards.
void StackPool::MakeBare() {
  constexpr std::size_t kLongestRun = 64;  // Words: 4,096 stacks.
  // acquire: pairs with the release in StackArenas::Add(), for the entries.
  const std::size_t count = arenas_.size(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    StackArena& arena = arenas_[i];
    const std::size_t words = arena.slots / kSlotsPerWord;
    for (std::size_t word = 0; word < words; ++word) {
      std::size_t run = 0;
      {
        base::SpinLockGuard lock(lock_);
        for (; run < kLongestRun && word + run < words; ++run) {
          const std::uint64_t guarded = arena.guarded.Word(word + run);
          if (guarded == 0 || !arena.cold.IsFull(word + run)) break;
          arena.cold.RemoveFull(word + run);
          cold_count_ -= kSlotsPerWord;
          bare_count_ -= kSlotsPerWord - static_cast<std::size_t>(std::popcount(guarded));
        }
      }
      if (run == 0) continue;
      MakeBare(arena, word, run);
      word += run - 1;
    }
  }
}

// The slots are in our hands: STK1.
void StackPool::MakeBare(StackArena& arena, std::size_t first_word, std::size_t words) {
  char* low = arena.region.low + first_word * kSlotsPerWord * layout_.stride();
  const std::size_t size = words * kSlotsPerWord * layout_.stride();
  if (!arenas_.Renew(low, size)) {
    WEFT_LOG(ERROR, "StackPool: ", size, " bytes of address space are lost");
    return;
  }
  guards_.Forget(arena, first_word, words);
  base::SpinLockGuard lock(lock_);
  for (std::size_t word = first_word; word < first_word + words; ++word) {
    arena.guarded.SetWord(word, 0);
    arena.cold.AddFull(word);
  }
  cold_count_ += words * kSlotsPerWord;
  bare_count_ += words * kSlotsPerWord;
}

// A batch that will soon run: one system call for all instead of a page fault each.
void StackPool::PopulateTops(void* const* tops, std::size_t n) {
  std::array<StackMemory::Range, kRun> pages;
  for (std::size_t i = 0; i < n; ++i) {
    const StackMemory::Range stack = layout_.WholeStack(tops[i]);
    pages[i] = {static_cast<char*>(stack.iov_base) + stack.iov_len - layout_.page_size(), layout_.page_size()};
  }
  memory_->Populate(std::span<const StackMemory::Range>(pages).first(n));
}

void StackCache::Clear() {
  pool_->ReleaseBatch(tops_.data(), size_);
  size_ = 0;
}

WEFT_NOINLINE bool StackCache::Refill() {
  size_ = pool_->AcquireBatch(tops_.data(), kExchanged);
  // Where many flows begin, the first touch of each stack misses the TLB and the cache line of its page table entry.
  // The processor overlaps misses that follow each other closely: bench/workload --workload=sleepers takes 0.92 of the
  // time.
  for (std::size_t i = size_; i-- > 0;) __builtin_prefetch(static_cast<const char*>(tops_[i]) - 1, 1);
  return size_ != 0;
}

WEFT_NOINLINE void StackCache::Spill() {
  pool_->ReleaseBatch(tops_.data(), kExchanged);
  size_ -= kExchanged;
  std::memmove(tops_.data(), tops_.data() + kExchanged, size_ * sizeof(void*));
}

}  // namespace weft::context
