// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackArenas: the address space of a StackPool, in pieces ("arenas") that are cut into equal slots.
//
// An arena is twice as large as the one before it. The bits that hold each slot's state lie behind its slots
// (SlotBitmap, SlotSet): 128 KiB for a million stacks, whose addresses take 8 MiB. The table only grows: an entry is
// complete before the count covers it, and only its sets change afterwards.
//
// StackLayout cuts an arena into slots, each a guard with a stack above it, and places the tops of the stacks:
//
//               -- increasing addresses -->
//     | guard | stack 0 ............. top | guard | stack 1 ............ top | ...
//
// A stack is named by its top. The top lies up to 960 bytes below the slot's end ("colour"), because frames at the same
// place in each page would share a few sets of the L1 and L2 caches: with 1,000 stacks in turn that costs 37 ns a visit
// instead of 14 (bench/context/stack_pool_benchmark.cc, BM_Colours).
//
// A slot has an odd number of pages: the guard gets one more where needed. With 48 pages (64 KiB and 128) the top pages
// would share a sixteenth of the second-level TLB's sets (1,000 stacks in turn: 3.5 ns a visit instead of 2.9, EPYC).
//
// StackArenas::Of(), size(), operator[]: any thread. Add(): one thread at a time. StackLayout: constant; any thread.
#ifndef WEFT_CONTEXT_STACK_STACK_ARENAS_H_
#define WEFT_CONTEXT_STACK_STACK_ARENAS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/context/stack/stack_memory.h"
#include "weft/context/stack/stack_registry.h"

namespace weft::context {

inline std::size_t RoundUp(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

class StackLayout {
 public:
  // Both sizes are rounded up to pages; a guard has at least one, and perhaps one more.
  StackLayout(std::size_t stack_size, std::size_t guard_size)
      : page_size_(StackMemory::PageSize()),
        stack_size_(RoundUp(stack_size, page_size_)),
        stride_(OddPages(std::max(RoundUp(guard_size, page_size_), page_size_) + stack_size_)),
        guard_size_(stride_ - stack_size_),
        usable_size_(stack_size_ - kMaxColourOffset) {}

  std::size_t page_size() const { return page_size_; }
  std::size_t stack_size() const { return stack_size_; }
  std::size_t guard_size() const { return guard_size_; }
  std::size_t stride() const { return stride_; }  // of slots
  // Bytes below any top that belong to the stack.
  std::size_t usable_size() const { return usable_size_; }

  // Of the slot that begins at `slot_low`.
  void* TopOf(char* slot_low) const {
    char* end = slot_low + stride_;
    const std::size_t number = reinterpret_cast<std::uintptr_t>(end) / stride_;  // Consecutive for neighbours.
    return end - number % kColours * kColourStep;
  }

  // The stack with all of its memory, colour included.
  StackMemory::Range WholeStack(const void* top) const {
    char* end = reinterpret_cast<char*>(RoundUp(reinterpret_cast<std::uintptr_t>(top), page_size_));
    return {end - stack_size_, stack_size_};
  }

  StackMemory::Range GuardOf(const void* top) const {
    return {static_cast<char*>(WholeStack(top).iov_base) - guard_size_, guard_size_};
  }

 private:
  std::size_t OddPages(std::size_t size) const { return size / page_size_ % 2 == 0 ? size + page_size_ : size; }

  // 16 steps of a line spread the hot lines, the topmost of each stack, over a third of the L1 cache's sets and leave 3
  // KiB of the top page to the fiber. 32 steps are faster where many lines are hot (BM_Colours: 10 ns a visit, not
  // 14), but make a fiber of 2 KiB cost a second page.
  static constexpr std::size_t kColours = 16;
  static constexpr std::size_t kColourStep = base::kCacheLineSize;
  static constexpr std::size_t kMaxColourOffset = (kColours - 1) * kColourStep;

  const std::size_t page_size_;
  const std::size_t stack_size_;
  const std::size_t stride_;
  const std::size_t guard_size_;
  const std::size_t usable_size_;
};

// Sets of slot numbers, one bit each. The owner provides the words, which start as zero. SlotBitmap: any thread; all
// accesses are relaxed, since a bit becomes known to a thread together with its slot. SlotSet: under the owner's lock.
inline constexpr std::size_t kSlotsPerWord = 64;

class SlotBitmap {
 public:
  static constexpr std::size_t BytesFor(std::size_t slots) { return (slots + kSlotsPerWord - 1) / kSlotsPerWord * 8; }

  SlotBitmap() = default;
  explicit SlotBitmap(std::uint64_t* words) : words_(words) {}

  // relaxed, all: see above.
  void Add(std::size_t slot) {
    std::atomic_ref(words_[slot / kSlotsPerWord]).fetch_or(Bit(slot), std::memory_order_relaxed);
  }
  bool Contains(std::size_t slot) const { return (Word(slot / kSlotsPerWord) & Bit(slot)) != 0; }
  std::uint64_t Word(std::size_t index) const { return std::atomic_ref(words_[index]).load(std::memory_order_relaxed); }
  void SetWord(std::size_t index, std::uint64_t value) {
    std::atomic_ref(words_[index]).store(value, std::memory_order_relaxed);
  }

 private:
  static std::uint64_t Bit(std::size_t slot) { return std::uint64_t{1} << (slot % kSlotsPerWord); }

  std::uint64_t* words_ = nullptr;
};

class SlotSet {
 public:
  static constexpr std::uint64_t kFull = ~std::uint64_t{0};

  SlotSet() = default;
  explicit SlotSet(std::uint64_t* words) : words_(words) {}

  std::size_t size() const { return size_; }

  void Add(std::size_t slot) {
    std::uint64_t& word = words_[slot / kSlotsPerWord];
    const std::uint64_t bit = std::uint64_t{1} << (slot % kSlotsPerWord);
    WEFT_DCHECK((word & bit) == 0, "slot ", slot, " is in the set already");
    word |= bit;
    lowest_word_ = std::min(lowest_word_, slot / kSlotsPerWord);
    ++size_;
  }

  std::size_t PopLowest() {
    WEFT_DCHECK(size_ > 0);
    while (words_[lowest_word_] == 0) ++lowest_word_;
    std::uint64_t& word = words_[lowest_word_];
    const auto bit = static_cast<std::size_t>(std::countr_zero(word));
    word &= word - 1;
    --size_;
    return lowest_word_ * kSlotsPerWord + bit;
  }

  bool IsFull(std::size_t word) const { return words_[word] == kFull; }
  void RemoveFull(std::size_t word) {
    WEFT_DCHECK(IsFull(word));
    words_[word] = 0;
    size_ -= kSlotsPerWord;
  }
  void AddFull(std::size_t word) {
    WEFT_DCHECK(words_[word] == 0);
    words_[word] = kFull;
    lowest_word_ = std::min(lowest_word_, word);
    size_ += kSlotsPerWord;
  }

 private:
  std::uint64_t* words_ = nullptr;
  std::size_t lowest_word_ = 0;  // All words below are zero.
  std::size_t size_ = 0;
};

struct StackArena {
  StackRegion region;
  std::size_t slots = 0;
  std::size_t mapped_size = 0;  // The region, and behind it the words of what follows.
  SlotSet cold;                 // Under the pool's lock.
  SlotBitmap guarded;           // Changed under the pool's lock. Not bare: has a guard, or what is there instead.
  SlotBitmap mprotected;        // Has a guard made by mprotect().
  SlotBitmap canary;            // Has a canary.
  std::size_t used = 0;         // Under the pool's lock. The slots that were ever taken are below.

  std::size_t SlotOf(const void* top) const {
    return static_cast<std::size_t>(static_cast<const char*>(top) - 1 - region.low) / region.stride;
  }
  // Of a new arena, under the pool's lock.
  void MakeAllCold();

  std::uint64_t* WordsOfSet(std::size_t number) const {
    return reinterpret_cast<std::uint64_t*>(region.high + number * SlotBitmap::BytesFor(slots));
  }
};

class StackArenas {
 public:
  enum class Growth { kDone, kNoAddressSpace, kNoMemory, kMostStacks, kMostArenas };
  static const char* WhyNot(Growth growth);

  // node: the NUMA node that the memory should come from; -1: any.
  StackArenas(StackMemory* memory, const StackLayout* layout, int node, std::size_t first_arena_size,
              std::size_t max_slots)
      : memory_(memory), layout_(layout), node_(node), next_arena_size_(first_arena_size), slots_left_(max_slots) {}
  StackArenas(const StackArenas&) = delete;
  StackArenas& operator=(const StackArenas&) = delete;

  // One more arena, of bare slots: it is in the table, but its slots are not cold yet (StackArena::MakeAllCold).
  Growth Add(StackArena** added);
  // Before the first Add().
  void LimitSlots(std::size_t max_slots);

  // The arena in which a stack lies; ends the process where there is none.
  StackArena& Of(const void* top);
  std::size_t size(std::memory_order order) const { return count_.load(order); }
  StackArena& operator[](std::size_t index) { return arenas_[index]; }

  // StackMemory::Renew(), with the binding to the node.
  [[nodiscard]] bool Renew(char* low, std::size_t size);

  // Gives all address space back. No slot may be in use.
  void UnmapAll();

 private:
  // Arenas double, so ten hold a million stacks. More are needed only where address space is short.
  static constexpr std::size_t kMaxArenas = 64;

  void BindToNode(void* low, std::size_t size);

  StackMemory* const memory_;
  const StackLayout* const layout_;
  const int node_;
  std::size_t next_arena_size_;  // Add() only, these two.
  std::size_t slots_left_;       // Not yet in an arena.

  std::array<StackArena, kMaxArenas> arenas_;
  base::Atomic<std::size_t> count_{0};
};

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_ARENAS_H_
