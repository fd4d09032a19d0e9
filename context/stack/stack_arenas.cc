// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_arenas.h"

#include <algorithm>
#include <system_error>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/context/switch/sanitizer.h"
#include "weft/numa/memory/affinity.h"

namespace weft::context {
namespace {

// For 350,000 stacks.
constexpr std::size_t kLargestArenaSize = std::size_t{64} << 30;
constexpr std::size_t kFewestSlots = 16;
constexpr std::size_t kSetsPerArena = 4;

}  // namespace

void StackArena::MakeAllCold() {
  cold = SlotSet(WordsOfSet(3));
  for (std::size_t word = 0; word < slots / kSlotsPerWord; ++word) cold.AddFull(word);
  for (std::size_t slot = slots - slots % kSlotsPerWord; slot < slots; ++slot) cold.Add(slot);
}

const char* StackArenas::WhyNot(Growth growth) {
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

StackArenas::Growth StackArenas::Add(StackArena** added) {
  // relaxed: only Add() changes it, one thread at a time.
  const std::size_t index = count_.load(std::memory_order_relaxed);
  static_assert(kMaxArenas == 64, "WhyNot()");
  if (index == kMaxArenas) return Growth::kMostArenas;
  if (slots_left_ == 0) return Growth::kMostStacks;
  std::size_t slots = std::clamp<std::size_t>(next_arena_size_ / layout_->stride(), 1, slots_left_);
  std::size_t mapped_size = 0;
  void* mapping = nullptr;
  for (; mapping == nullptr; slots /= 2) {
    if (slots > kSlotsPerWord) slots -= slots % kSlotsPerWord;  // StackPool::MakeBare() deals with whole words only.
    mapped_size =
        slots * layout_->stride() + RoundUp(kSetsPerArena * SlotBitmap::BytesFor(slots), layout_->page_size());
    mapping = memory_->Map(mapped_size);
    if (mapping != nullptr) break;
    if (slots <= kFewestSlots) return Growth::kNoAddressSpace;
  }

  StackArena& arena = arenas_[index];
  char* low = static_cast<char*>(mapping);
  char* high = low + slots * layout_->stride();
  arena.region = {.low = low, .high = high, .stride = layout_->stride(), .guard_size = layout_->guard_size()};
  arena.slots = slots;
  arena.mapped_size = mapped_size;
  if (!RegisterStackRegion(arena.region)) {
    memory_->Unmap(mapping, mapped_size);
    return Growth::kNoMemory;
  }
  BindToNode(mapping, mapped_size);
  arena.guarded = SlotBitmap(arena.WordsOfSet(0));
  arena.mprotected = SlotBitmap(arena.WordsOfSet(1));
  arena.canary = SlotBitmap(arena.WordsOfSet(2));
  static_assert(kSetsPerArena == 4);
  slots_left_ -= slots;
  next_arena_size_ = std::min(next_arena_size_ * 2, kLargestArenaSize);
  // release: publishes the entry. Pairs with the acquire in Of().
  count_.store(index + 1, std::memory_order_release);
  *added = &arena;
  return Growth::kDone;
}

void StackArenas::LimitSlots(std::size_t max_slots) { slots_left_ = std::min(slots_left_, max_slots); }

StackArena& StackArenas::Of(const void* top) {
  const char* last = static_cast<const char*>(top) - 1;
  // acquire: pairs with the release in Add(), for the entry.
  const std::size_t count = count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (last >= arenas_[i].region.low && last < arenas_[i].region.high) return arenas_[i];
  }
  WEFT_FATAL("StackPool: ", top, " is not a stack of this pool");
}

bool StackArenas::Renew(char* low, std::size_t size) {
  if (!memory_->Renew(low, size)) return false;
  BindToNode(low, size);
  return true;
}

void StackArenas::UnmapAll() {
  // relaxed: nobody shares it any more.
  const std::size_t count = count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    const StackArena& arena = arenas_[i];
    // Not the rest, which is clean: ASan would write the shadow of all of it, megabytes each time a runtime ends.
    AsanUnpoison(arena.region.low, arena.used * arena.region.stride);
    UnregisterStackRegion(arena.region);
    memory_->Unmap(arena.region.low, arena.mapped_size);
  }
}

void StackArenas::BindToNode(void* low, std::size_t size) {
  if (const std::error_code error = numa::BindMemory(low, size, node_)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "StackPool: stacks are not bound to NUMA node ", node_, ": ", error.message());
  }
}

}  // namespace weft::context
