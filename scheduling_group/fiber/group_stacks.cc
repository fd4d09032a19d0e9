// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/group_stacks.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "weft/base/report/check.h"
#include "weft/context/switch/sanitizer.h"

namespace weft::scheduling_group {
namespace {

// 5 ms of the trimming thread, which fires timers too: 0.3 us a stack.
constexpr std::size_t kStacksPerTrim = 16384;

// A group may have a pool for each size, and few stacks in most.
constexpr std::size_t kFirstArenaOfOtherSize = std::size_t{16} << 20;

// No byte occurs twice, so that no compiler makes a call of the fill, which a sanitizer would check.
constexpr std::uint64_t kPattern = 0x0f1e2d3c4b5a6978;

}  // namespace

// Without checks: frames that have ended are there.
WEFT_NO_SANITIZE WEFT_COLD void FillStack(void* top, std::size_t size) noexcept {
  auto* const end = static_cast<std::uint64_t*>(top);
  for (auto* word = end - size / sizeof(*end); word != end; ++word) *word = kPattern;
}

WEFT_NO_SANITIZE WEFT_COLD std::size_t MeasureStack(const void* top, std::size_t size) noexcept {
  const auto* const end = static_cast<const std::uint64_t*>(top);
  const auto* const low = end - size / sizeof(*end);
  if (*low != kPattern) return 0;
  const auto* word = low;
  while (word != end && *word == kPattern) ++word;
  return static_cast<std::size_t>(end - word) * sizeof(*end);
}

GroupStacks::~GroupStacks() {
  for (auto& pool : custom_) delete pool.load(std::memory_order_relaxed);  // No other thread is left.
}

void* GroupStacks::AcquireMarked() {
  void* const top = pool_.Acquire();
  if (top != nullptr) FillStack(top, pool_.usable_size());
  return top;
}

void GroupStacks::Measure(const void* top) noexcept {
  const std::size_t used = MeasureStack(top, pool_.usable_size());
  std::size_t largest = high_water();
  while (used > largest && !high_water_.compare_exchange_weak(largest, used, std::memory_order_relaxed)) {
  }
}

context::StackPool* GroupStacks::OfSize(std::size_t bytes, std::size_t guard_bytes) {
  WEFT_CHECK(bytes <= kMaxStackSize, "SchedulingGroup: a stack of ", bytes, " bytes, ", kMaxStackSize, " is the most");
  WEFT_CHECK(guard_bytes <= kMaxGuardSize, "SchedulingGroup: a guard of ", guard_bytes, " bytes, ", kMaxGuardSize,
             " is the most");
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kMinStackSize));
  const std::size_t rounded_guard = guard_bytes == 0 ? 0 : std::bit_ceil(std::max(guard_bytes, kMinGuardSize));
  const auto size_index = static_cast<std::size_t>(std::countr_zero(rounded / kMinStackSize));
  const auto guard_index = static_cast<std::size_t>(std::bit_width(rounded_guard / kMinGuardSize));
  std::atomic<context::StackPool*>& place = custom_[size_index * kGuards + guard_index];
  // acquire: the pool. Pairs with the release in Make().
  if (context::StackPool* pool = place.load(std::memory_order_acquire)) return pool;
  return Make(place, rounded, rounded_guard);
}

context::StackPool* GroupStacks::Make(std::atomic<context::StackPool*>& place, std::size_t bytes,
                                      std::size_t guard_bytes) {
  std::lock_guard guard(making_);
  context::StackPool* pool = place.load(std::memory_order_relaxed);  // Written under the mutex.
  if (pool != nullptr) return pool;
  context::StackPool::Options options = options_;
  options.stack_size = bytes;
  if (guard_bytes != 0) options.guard_size = guard_bytes;
  options.first_arena_size = std::min(options.first_arena_size, kFirstArenaOfOtherSize);
  try {
    pool = new context::StackPool(options);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  place.store(pool, std::memory_order_release);  // Pairs with the acquires in OfSize(), in_use() and Trim().
  return pool;
}

std::size_t GroupStacks::in_use() const {
  std::size_t count = pool_.statistics().in_use;
  for (const auto& place : custom_) {
    // acquire: the pool. Pairs with the release in Make().
    if (const context::StackPool* pool = place.load(std::memory_order_acquire)) count += pool->statistics().in_use;
  }
  return count;
}

std::size_t GroupStacks::Trim(std::size_t keep_warm) {
  // A warm stack saves a page fault when it is next used.
  std::size_t left = pool_.Trim(keep_warm, kStacksPerTrim);
  for (auto& place : custom_) {
    // acquire: the pool. Pairs with the release in Make().
    if (context::StackPool* pool = place.load(std::memory_order_acquire)) left += pool->Trim(0, kStacksPerTrim);
  }
  return left;
}

}  // namespace weft::scheduling_group
