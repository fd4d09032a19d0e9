// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_registry.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <unordered_set>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::context {
namespace {

struct Entry {
  base::Atomic<std::uintptr_t> low{0};  // SR1. 0: free.
  base::Atomic<std::uintptr_t> high{0};
  base::Atomic<std::size_t> stride{0};
  base::Atomic<std::size_t> guard_size{0};
};

// A pool's arenas double in size, so a pool of a million stacks has about ten.
constexpr std::size_t kRegionsPerSegment = 1024;

struct Segment {
  std::array<Entry, kRegionsPerSegment> entries;
  base::Atomic<Segment*> next{nullptr};
};

constinit base::SpinLock g_write_lock;
constinit Segment g_first_segment;

// A free entry; nullptr: there is none.
Entry* FindFree() WEFT_REQUIRES(g_write_lock) {
  // relaxed, both: only holders of the lock write them.
  for (Segment* s = &g_first_segment; s != nullptr; s = s->next.load(std::memory_order_relaxed)) {
    for (Entry& entry : s->entries) {
      if (entry.low.load(std::memory_order_relaxed) == 0) return &entry;
    }
  }
  return nullptr;
}

void Fill(Entry* entry, const StackRegion& region) WEFT_REQUIRES(g_write_lock) {
  // relaxed, all three: published by `low`.
  entry->high.store(reinterpret_cast<std::uintptr_t>(region.high), std::memory_order_relaxed);
  entry->stride.store(region.stride, std::memory_order_relaxed);
  entry->guard_size.store(region.guard_size, std::memory_order_relaxed);
  // release: publishes the other fields. Pairs with the acquire load in FindStack().
  entry->low.store(reinterpret_cast<std::uintptr_t>(region.low), std::memory_order_release);
}

static_assert(offsetof(Entry, low) == 0 && offsetof(Entry, high) == 8 && offsetof(Entry, stride) == 16 &&
                  offsetof(Entry, guard_size) == 24,
              "StackTableLayout: the order of an entry's words");

}  // namespace

constinit const StackTableLayout stack_table_layout = {.first_segment = &g_first_segment,
                                                       .entries = kRegionsPerSegment,
                                                       .entry_size = sizeof(Entry),
                                                       .next = offsetof(Segment, next)};

bool RegisterStackRegion(const StackRegion& region) {
  {
    base::SpinLockGuard guard(g_write_lock);
    if (Entry* const entry = FindFree()) {
      Fill(entry, region);
      return true;
    }
  }
  auto* const segment = new (std::nothrow) Segment;  // Not under the lock.
  if (segment == nullptr) return false;
  base::SpinLockGuard guard(g_write_lock);
  Fill(segment->entries.data(), region);
  Segment* last = &g_first_segment;
  while (Segment* const next = last->next.load(std::memory_order_relaxed)) last = next;
  // release: the segment. Pairs with the acquire in FindStack().
  last->next.store(segment, std::memory_order_release);
  return true;
}

void UnregisterStackRegion(const StackRegion& region) {
  base::SpinLockGuard guard(g_write_lock);
  // relaxed, both: only holders of the lock write them.
  for (Segment* s = &g_first_segment; s != nullptr; s = s->next.load(std::memory_order_relaxed)) {
    for (Entry& entry : s->entries) {
      if (entry.low.load(std::memory_order_relaxed) != reinterpret_cast<std::uintptr_t>(region.low)) continue;
      // relaxed: nothing is published; SR2 covers a reader that still sees the entry.
      entry.low.store(0, std::memory_order_relaxed);
      return;
    }
  }
}

bool FindStack(const void* address, StackBounds* bounds) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  // acquire: pairs with the release in RegisterStackRegion().
  for (const Segment* s = &g_first_segment; s != nullptr; s = s->next.load(std::memory_order_acquire)) {
    for (const Entry& entry : s->entries) {
      // acquire: pairs with the release in Fill(), for the fields read next.
      const std::uintptr_t low = entry.low.load(std::memory_order_acquire);
      // relaxed, all three: ordered by `low`.
      if (low == 0 || wanted < low || wanted >= entry.high.load(std::memory_order_relaxed)) continue;
      const std::size_t stride = entry.stride.load(std::memory_order_relaxed);
      const std::size_t guard_size = entry.guard_size.load(std::memory_order_relaxed);
      const std::uintptr_t slot = low + (wanted - low) / stride * stride;
      bounds->guard_low = reinterpret_cast<char*>(slot);
      bounds->low = reinterpret_cast<char*>(slot + guard_size);
      bounds->high = reinterpret_cast<char*>(slot + stride);
      return true;
    }
  }
  return false;
}

std::atomic<bool> leak_checker_sees_new_stacks{false};

void ShowStackToLeakChecker([[maybe_unused]] const void* top) {
#if WEFT_ASAN
  StackBounds bounds;
  if (!FindStack(static_cast<const char*>(top) - 1, &bounds)) return;
  static constinit base::SpinLock lock;
  static auto& shown = *new std::unordered_set<const void*>;  // Never destroyed: fibers run until the process is gone.
  {
    base::SpinLockGuard guard(lock);
    if (!shown.insert(bounds.low).second) return;
  }
  __lsan_register_root_region(bounds.low, static_cast<std::size_t>(bounds.high - bounds.low));
#endif
}

}  // namespace weft::context
