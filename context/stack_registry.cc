// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack_registry.h"

#include <array>
#include <atomic>
#include <cstdint>

#include "weft/base/atomic.h"
#include "weft/base/spin_lock.h"

namespace weft::context {
namespace {

struct Entry {
  base::Atomic<std::uintptr_t> low{0};  // SR1. 0: free.
  base::Atomic<std::uintptr_t> high{0};
  base::Atomic<std::size_t> stride{0};
  base::Atomic<std::size_t> guard_size{0};
};

// A pool's arenas double in size, so a pool of a million stacks has about ten.
constexpr std::size_t kMaxRegions = 1024;

constinit base::SpinLock g_write_lock;
constinit std::array<Entry, kMaxRegions> g_entries;
constinit base::Atomic<std::size_t> g_used{0};  // Entries at or beyond this have never been filled.

}  // namespace

bool RegisterStackRegion(const StackRegion& region) {
  base::SpinLockGuard guard(g_write_lock);
  for (std::size_t i = 0; i < kMaxRegions; ++i) {
    Entry& entry = g_entries[i];
    // relaxed: only holders of the lock write it.
    if (entry.low.load(std::memory_order_relaxed) != 0) continue;
    // relaxed, all three: published by `low`.
    entry.high.store(reinterpret_cast<std::uintptr_t>(region.high), std::memory_order_relaxed);
    entry.stride.store(region.stride, std::memory_order_relaxed);
    entry.guard_size.store(region.guard_size, std::memory_order_relaxed);
    // release: publishes the other fields. Pairs with the acquire load in FindStack().
    entry.low.store(reinterpret_cast<std::uintptr_t>(region.low), std::memory_order_release);
    // relaxed: under the lock.
    if (i >= g_used.load(std::memory_order_relaxed)) {
      // release: the entry is whole when it is counted. Pairs with the acquire load in FindStack().
      g_used.store(i + 1, std::memory_order_release);
    }
    return true;
  }
  return false;
}

void UnregisterStackRegion(const StackRegion& region) {
  base::SpinLockGuard guard(g_write_lock);
  for (Entry& entry : g_entries) {
    // relaxed: only holders of the lock write it.
    if (entry.low.load(std::memory_order_relaxed) != reinterpret_cast<std::uintptr_t>(region.low)) continue;
    // relaxed: nothing is published; a reader that still sees the entry is SR2.
    entry.low.store(0, std::memory_order_relaxed);
    return;
  }
}

bool FindStack(const void* address, StackBounds* bounds) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  // acquire: pairs with the release in RegisterStackRegion().
  const std::size_t used = g_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
    const Entry& entry = g_entries[i];
    // acquire: pairs with the release in RegisterStackRegion(), for the fields read next.
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
  return false;
}

}  // namespace weft::context
