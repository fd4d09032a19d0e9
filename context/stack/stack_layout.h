// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackLayout: cuts address space into slots, each a guard with a stack above it, and places the tops of the stacks.
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
// Constant; any thread.
#ifndef WEFT_CONTEXT_STACK_STACK_LAYOUT_H_
#define WEFT_CONTEXT_STACK_STACK_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/context/stack/stack_memory.h"

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

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_LAYOUT_H_
