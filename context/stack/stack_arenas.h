// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackArenas: the address space of a StackPool, in pieces ("arenas") that are cut into equal slots.
//
// An arena is twice as large as the one before it. The bits that hold each slot's state lie behind its slots. The table
// only grows: an entry is complete before the count covers it, and only its sets change afterwards.
// Of(), size(), operator[]: any thread. Add(): one thread at a time.
#ifndef WEFT_CONTEXT_STACK_STACK_ARENAS_H_
#define WEFT_CONTEXT_STACK_STACK_ARENAS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/context/stack/slot_bitmap.h"
#include "weft/context/stack/stack_layout.h"
#include "weft/context/stack/stack_memory.h"
#include "weft/context/stack/stack_registry.h"

namespace weft::context {

struct StackArena {
  StackRegion region;
  std::size_t slots = 0;
  std::size_t mapped_size = 0;  // The region, and behind it the words of what follows.
  SlotSet cold;                 // Under the pool's lock.
  SlotBitmap guarded;           // Changed under the pool's lock. Not bare: has a guard, or what is there instead.
  SlotBitmap mprotected;        // Has a guard made by mprotect().
  SlotBitmap canary;            // Has a canary.

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
