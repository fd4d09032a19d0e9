// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SlotBitmap, SlotSet: sets of slot numbers, one bit each: 128 KiB for a million stacks, whose addresses take 8 MiB.
//
// The owner provides the words, which start as zero. SlotBitmap: any thread; all accesses are relaxed, since a bit
// becomes known to a thread together with its slot. SlotSet: under the owner's lock.
#ifndef WEFT_CONTEXT_STACK_SLOT_BITMAP_H_
#define WEFT_CONTEXT_STACK_SLOT_BITMAP_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "weft/base/report/check.h"

namespace weft::context {

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

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_SLOT_BITMAP_H_
