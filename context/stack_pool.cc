// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack_pool.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>

#include "weft/base/check.h"
#include "weft/base/log.h"
#include "weft/context/valgrind.h"
#include "weft/numa/affinity.h"

namespace weft::context {
namespace {

// Where a stack's top lies below its slot's end. A parked fiber's hot lines are the topmost few of its stack; without
// colours they would be at one offset within each page, so that all stacks shared a few of the 64 sets of the L1
// cache, and an eighth of the L2 cache (whose further index bits are physical and thus random). 16 steps of a line
// spread them over a third of the sets and leave 3 KiB of the top page to the fiber. 32 steps are faster still when
// many lines are hot (1,000 stacks: 10 ns a visit against 14, and 37 without; BM_Colours in
// bench/context/stack_pool_benchmark.cc), but make a fiber of 2 KiB cost a second page; for a switch alone, 4 lines,
// 16 are as good.
constexpr std::size_t kColours = 16;
constexpr std::size_t kColourStep = base::kCacheLineSize;
constexpr std::size_t kMaxColourOffset = (kColours - 1) * kColourStep;

// For 350,000 stacks.
constexpr std::size_t kLargestArenaSize = std::size_t{64} << 30;
constexpr std::size_t kFewestSlots = 16;
constexpr std::size_t kSetsPerArena = 4;

std::size_t RoundUp(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

StackPool::StackPool(const Options& options)
    : page_size_(StackMemory::PageSize()),
      stack_size_(RoundUp(options.stack_size, page_size_)),
      guard_size_(std::max(RoundUp(options.guard_size, page_size_), page_size_)),
      stride_(guard_size_ + stack_size_),
      usable_size_(stack_size_ - kMaxColourOffset),
      node_(options.node),
      populate_(options.populate),
      memory_(options.memory != nullptr ? options.memory : StackMemory::System()),
      owner_(options.owner),
      next_arena_size_(options.first_arena_size),
      slots_left_(options.max_stacks),
      guard_kind_(options.guard ? GuardKind::kMadvise : GuardKind::kNone),
      warm_(options.max_stacks) {
  WEFT_CHECK(options.stack_size >= 8192, "StackPool: a stack of ", options.stack_size, " bytes is too small");
  WEFT_CHECK(options.max_stacks > 0, "StackPool: max_stacks is 0");
  base::SpinLockGuard lock(lock_);
  slots_left_ = std::min(slots_left_, warm_.capacity());
}

StackPool::~StackPool() {
  if (const std::size_t in_use = statistics().in_use; in_use != 0) {
    WEFT_LOG(WARNING, "StackPool: destroyed while ", in_use, " stacks are in use; their arenas stay");
    return;
  }
  // relaxed, all: a destructor has no one to share with.
  const std::size_t count = arena_count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    const Arena& arena = arenas_[i];
    AsanUnpoison(arena.region.low, static_cast<std::size_t>(arena.region.high - arena.region.low));
    UnregisterStackRegion(arena.region);
    memory_->Unmap(arena.region.low, arena.mapped_size);
  }
  memory_->ReturnProtectedGuards(guarded_by_mprotect_.load(std::memory_order_relaxed));
}

void* StackPool::Acquire() {
  void* top = nullptr;
  return AcquireBatch(&top, 1) == 1 ? top : nullptr;
}

std::size_t StackPool::AcquireBatch(void** tops, std::size_t n) {
  Growth growth = Growth::kDone;
  std::size_t taken = TakeAny(tops, n, &growth);
  if (WEFT_UNLIKELY(taken < n)) {
    // What Trim() had in its hands just now is no reason to refuse: no one would tell the caller that it is back.
    std::lock_guard trim(trim_mutex_);
    taken += TakeAny(tops + taken, n - taken, &growth);
  }
  if (WEFT_UNLIKELY(taken < n)) {
    try {
      WEFT_LOG_EVERY_SECOND(WARNING, "out of stacks: ", statistics().in_use, " of ", stack_size_,
                            " bytes are in use, and there are no more: ", WhyNot(growth));
    } catch (const std::bad_alloc&) {
      // Nor memory for the line.
    }
  }
  std::reverse(tops, tops + taken);  // They were taken warmest first.
  return taken;
}

void StackPool::ReleaseBatch(void* const* tops, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    CheckCanary(tops[i]);
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
    for (std::size_t i = 0; i < n; ++i) ranges[i] = WholeStack(tops[i]);
    memory_->Discard(std::span<const StackMemory::Range>(ranges).first(n));
    base::SpinLockGuard lock(lock_);
    for (std::size_t i = 0; i < n; ++i) {
      Arena& arena = ArenaOf(tops[i]);
      arena.cold.Add(SlotOf(arena, tops[i]));
    }
    cold_count_ += n;
  }
}

StackPool::Statistics StackPool::statistics() const {
  Statistics statistics;
  // relaxed, all three: statistics only.
  statistics.guarded_by_madvise = guarded_by_madvise_.load(std::memory_order_relaxed);
  statistics.guarded_by_mprotect = guarded_by_mprotect_.load(std::memory_order_relaxed);
  statistics.unguarded = unguarded_.load(std::memory_order_relaxed);
  base::SpinLockGuard lock(lock_);
  statistics.in_use = in_use_;
  statistics.free_warm = warm_.size();
  statistics.free_cold = cold_count_ - bare_count_;
  return statistics;
}

void* StackPool::TopOf(char* slot_low) const {
  char* end = slot_low + stride_;
  const std::size_t number = reinterpret_cast<std::uintptr_t>(end) / stride_;  // Consecutive for neighbours.
  return end - number % kColours * kColourStep;
}

// The stack with all of its memory, colour included.
StackMemory::Range StackPool::WholeStack(const void* top) const {
  char* end = reinterpret_cast<char*>(RoundUp(reinterpret_cast<std::uintptr_t>(top), page_size_));
  return {end - stack_size_, stack_size_};
}

StackPool::Arena& StackPool::ArenaOf(const void* top) {
  const char* last = static_cast<const char*>(top) - 1;
  // acquire: pairs with the release in AddArena(), for the entry.
  const std::size_t count = arena_count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (last >= arenas_[i].region.low && last < arenas_[i].region.high) return arenas_[i];
  }
  WEFT_FATAL("StackPool: ", top, " is not a stack of this pool");
}

std::size_t StackPool::SlotOf(const Arena& arena, const void* top) const {
  return static_cast<std::size_t>(static_cast<const char*>(top) - 1 - arena.region.low) / stride_;
}

// Warm ones, then cold ones, which get their guards if they are bare, and if there are several, their top pages.
std::size_t StackPool::TakeAny(void** tops, std::size_t n, Growth* growth) {
  std::size_t taken = TakeWarm(tops, n);
  while (taken < n) {
    const std::size_t wanted = std::min(n - taken, kRun);
    const std::size_t cold = TakeCold(tops + taken, wanted);
    if (populate_ && cold > 1) PopulateTops(tops + taken, cold);
    taken += cold;
    if (cold < wanted && (*growth = AddArena()) != Growth::kDone) break;
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

// The lowest addresses first, so that after a burst the upper ones become bare. n <= kRun.
std::size_t StackPool::TakeCold(void** tops, std::size_t n) {
  std::array<void*, kRun> bare;
  std::size_t bare_count = 0;
  std::size_t taken = 0;
  {
    base::SpinLockGuard lock(lock_);
    // relaxed: an entry was counted before its slots were cold, under lock_.
    const std::size_t count = cold_count_ > 0 ? arena_count_.load(std::memory_order_relaxed) : 0;
    for (std::size_t i = 0; i < count; ++i) {
      Arena& arena = arenas_[i];
      while (taken < n && arena.cold.size() > 0) {
        const std::size_t slot = arena.cold.PopLowest();
        void* top = TopOf(arena.region.low + slot * stride_);
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
    InstallGuards(bare.data(), bare_count);
    if (RunsOnValgrind()) {
      for (std::size_t i = 0; i < bare_count; ++i) TellValgrindOfStack(WholeStack(bare[i]).iov_base, bare[i]);
    }
  }
  return taken;
}

const char* StackPool::WhyNot(Growth growth) {
  switch (growth) {
    case Growth::kDone:
      break;
    case Growth::kNoAddressSpace:
      return "the system gives no more address space (ulimit -v, vm.max_map_count, vm.overcommit_memory)";
    case Growth::kNoMemory:
      return "the system gives no more memory";
    case Growth::kMostStacks:
      return "this is StackPool::Options::max_stacks";
    case Growth::kMostArenas:
      return "they lie in 64 pieces of address space, which is the most, because the system gave small ones only";
  }
  return "other threads took those that there were";
}

StackPool::Growth StackPool::AddArena() {
  std::lock_guard grow(grow_mutex_);
  {
    base::SpinLockGuard lock(lock_);
    if (cold_count_ > 0) return Growth::kDone;  // Another thread was faster.
  }
  // relaxed: changes under grow_mutex_ only.
  const std::size_t index = arena_count_.load(std::memory_order_relaxed);
  static_assert(kMaxArenas == 64, "WhyNot()");
  if (index == kMaxArenas) return Growth::kMostArenas;
  if (slots_left_ == 0) return Growth::kMostStacks;
  std::size_t slots = std::clamp<std::size_t>(next_arena_size_ / stride_, 1, slots_left_);
  std::size_t mapped_size = 0;
  void* mapping = nullptr;
  for (; mapping == nullptr; slots /= 2) {
    if (slots > kSlotsPerWord) slots -= slots % kSlotsPerWord;  // MakeBare() deals with whole words only.
    mapped_size = slots * stride_ + RoundUp(kSetsPerArena * SlotBitmap::BytesFor(slots), page_size_);
    mapping = memory_->Map(mapped_size);
    if (mapping != nullptr) break;
    if (slots <= kFewestSlots) return Growth::kNoAddressSpace;
  }

  Arena& arena = arenas_[index];
  char* low = static_cast<char*>(mapping);
  char* high = low + slots * stride_;
  arena.region = {.low = low, .high = high, .stride = stride_, .guard_size = guard_size_};
  arena.slots = slots;
  arena.mapped_size = mapped_size;
  if (!RegisterStackRegion(arena.region)) {
    memory_->Unmap(mapping, mapped_size);
    return Growth::kNoMemory;
  }
  BindToNode(mapping, mapped_size);
  const auto set = [&](std::size_t number) {
    return reinterpret_cast<std::uint64_t*>(high + number * SlotBitmap::BytesFor(slots));
  };
  arena.guarded = SlotBitmap(set(0));
  arena.mprotected = SlotBitmap(set(1));
  arena.canary = SlotBitmap(set(2));
  static_assert(kSetsPerArena == 4);
  slots_left_ -= slots;
  next_arena_size_ = std::min(next_arena_size_ * 2, kLargestArenaSize);
  // release: publishes the entry. Pairs with the acquire in ArenaOf().
  arena_count_.store(index + 1, std::memory_order_release);
  base::SpinLockGuard lock(lock_);
  arena.cold = SlotSet(set(3));
  for (std::size_t word = 0; word < slots / kSlotsPerWord; ++word) arena.cold.AddFull(word);
  for (std::size_t slot = slots - slots % kSlotsPerWord; slot < slots; ++slot) arena.cold.Add(slot);
  cold_count_ += slots;
  bare_count_ += slots;
  return Growth::kDone;
}

void StackPool::BindToNode(void* low, std::size_t size) {
  if (const std::error_code error = numa::BindMemory(low, size, node_)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "StackPool: stacks are not bound to NUMA node ", node_, ": ", error.message());
  }
}

StackMemory::Range StackPool::GuardOf(const void* top) const {
  return {static_cast<char*>(WholeStack(top).iov_base) - guard_size_, guard_size_};
}

// For stacks that no one else has seen yet. relaxed throughout: the kind is a hint, the counts are statistics, and what
// is noted about a stack goes to other threads together with the stack.
void StackPool::InstallGuards(void* const* tops, std::size_t n) {
  GuardKind kind = guard_kind_.load(std::memory_order_relaxed);
  if (kind == GuardKind::kMadvise) {
    std::array<StackMemory::Range, kRun> guards;
    for (std::size_t i = 0; i < n; ++i) guards[i] = GuardOf(tops[i]);
    if (memory_->InstallGuards(std::span<const StackMemory::Range>(guards).first(n))) {
      guarded_by_madvise_.fetch_add(n, std::memory_order_relaxed);
      return;
    }
    guard_kind_.compare_exchange_strong(kind, GuardKind::kMprotect, std::memory_order_relaxed);
  }
  const std::size_t guarded = kind < GuardKind::kCanary ? ProtectEach(tops, n) : 0;
  if (guarded == n) return;
  unguarded_.fetch_add(n - guarded, std::memory_order_relaxed);
  if (kind == GuardKind::kNone) return;
  for (std::size_t i = guarded; i < n; ++i) {
    Arena& arena = ArenaOf(tops[i]);
    arena.canary.Add(SlotOf(arena, tops[i]));
  }
  has_canaries_.store(true, std::memory_order_relaxed);
  if (guard_kind_.exchange(GuardKind::kCanary, std::memory_order_relaxed) != GuardKind::kCanary) {
    WEFT_LOG(WARNING, "StackPool: no more guard pages (", memory_->MaxMapCount(),
             " mappings are allowed, vm.max_map_count); further stacks are only checked when they come back");
  }
}

// How many of them, from the first on, could be protected.
std::size_t StackPool::ProtectEach(void* const* tops, std::size_t n) {
  std::size_t done = 0;
  for (; done < n && memory_->TakeProtectedGuard(); ++done) {
    if (!memory_->Protect(GuardOf(tops[done]))) {
      memory_->ReturnProtectedGuards(1);
      break;
    }
    Arena& arena = ArenaOf(tops[done]);
    arena.mprotected.Add(SlotOf(arena, tops[done]));
  }
  // relaxed: see InstallGuards().
  guarded_by_mprotect_.fetch_add(done, std::memory_order_relaxed);
  return done;
}

// Runs of cold slots give back their page tables, and with them their guards.
void StackPool::MakeBare() {
  constexpr std::size_t kLongestRun = 64;  // Words: 4,096 stacks.
  // acquire: pairs with the release in AddArena(), for the entries.
  const std::size_t count = arena_count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    Arena& arena = arenas_[i];
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
void StackPool::MakeBare(Arena& arena, std::size_t first_word, std::size_t words) {
  char* low = arena.region.low + first_word * kSlotsPerWord * stride_;
  const std::size_t size = words * kSlotsPerWord * stride_;
  if (!memory_->Renew(low, size)) {
    WEFT_LOG(ERROR, "StackPool: ", size, " bytes of address space are lost");
    return;
  }
  BindToNode(low, size);
  std::size_t guarded = 0;
  std::size_t mprotected = 0;
  std::size_t canaries = 0;
  for (std::size_t word = first_word; word < first_word + words; ++word) {
    guarded += static_cast<std::size_t>(std::popcount(arena.guarded.Word(word)));
    mprotected += static_cast<std::size_t>(std::popcount(arena.mprotected.Word(word)));
    canaries += static_cast<std::size_t>(std::popcount(arena.canary.Word(word)));
    arena.mprotected.SetWord(word, 0);
    arena.canary.SetWord(word, 0);
  }
  memory_->ReturnProtectedGuards(mprotected);
  // relaxed, all: statistics only.
  guarded_by_mprotect_.fetch_sub(mprotected, std::memory_order_relaxed);
  const bool no_guards = guard_kind_.load(std::memory_order_relaxed) == GuardKind::kNone;
  unguarded_.fetch_sub(no_guards ? guarded : canaries, std::memory_order_relaxed);
  if (!no_guards) guarded_by_madvise_.fetch_sub(guarded - mprotected - canaries, std::memory_order_relaxed);
  base::SpinLockGuard lock(lock_);
  for (std::size_t word = first_word; word < first_word + words; ++word) {
    arena.guarded.SetWord(word, 0);
    arena.cold.AddFull(word);
  }
  cold_count_ += words * kSlotsPerWord;
  bare_count_ += words * kSlotsPerWord;
}

// A batch that is about to be run on: one system call for all instead of a page fault each.
void StackPool::PopulateTops(void* const* tops, std::size_t n) {
  std::array<StackMemory::Range, kRun> pages;
  for (std::size_t i = 0; i < n; ++i) {
    const StackMemory::Range stack = WholeStack(tops[i]);
    pages[i] = {static_cast<char*>(stack.iov_base) + stack.iov_len - page_size_, page_size_};
  }
  memory_->Populate(std::span<const StackMemory::Range>(pages).first(n));
}

// What stands in the guard's place was zero, and nobody but an overflowing stack writes there. It is only read: a page
// that was never written costs no memory for that.
void StackPool::CheckCanarySlow(const void* top) {
  const Arena& arena = ArenaOf(top);
  if (!arena.canary.Contains(SlotOf(arena, top))) return;
  const char* low = static_cast<const char*>(WholeStack(top).iov_base);
  const auto* words = reinterpret_cast<const std::uint64_t*>(low - guard_size_);
  const bool intact =
      std::all_of(words, words + guard_size_ / sizeof(*words), [](std::uint64_t word) { return word == 0; });
  WEFT_CHECK(intact, "stack overflow: a stack of ", stack_size_,
             " bytes without guard page was written to below its end (found when it was given back)");
}

void StackCache::Clear() {
  pool_->ReleaseBatch(tops_.data(), size_);
  size_ = 0;
}

WEFT_NOINLINE bool StackCache::Refill() {
  size_ = pool_->AcquireBatch(tops_.data(), kExchanged);
  // Where many flows are begun, each stack was last used long ago, and to touch it misses the TLB; its page table entry
  // has a cache line of its own, too. Misses that follow each other closely are dealt with side by side: 100,000 fibers
  // begin, sleep and end in 0.92 of the time (bench/workload --workload=sleepers). To fetch more lines of each stack
  // saved little more.
  for (std::size_t i = size_; i-- > 0;) __builtin_prefetch(static_cast<const char*>(tops_[i]) - 1, 1);
  return size_ != 0;
}

WEFT_NOINLINE void StackCache::Spill() {
  pool_->ReleaseBatch(tops_.data(), kExchanged);
  size_ -= kExchanged;
  std::memmove(tops_.data(), tops_.data() + kExchanged, size_ * sizeof(void*));
}

}  // namespace weft::context
