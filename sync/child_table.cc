// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/child_table.h"

#include <bit>
#include <new>
#include <utility>

#include "weft/base/cpu.h"

namespace weft::synchronization {

using scheduling_group::FiberEntity;
using scheduling_group::FiberOwner;

ChildTable::ChildTable() noexcept {
  chunks_[0] = inline_slots_;
  for (std::uint32_t i = 0; i < kInline; ++i) inline_slots_[i].index = i;
}

ChildTable::~ChildTable() {
  for (std::size_t i = 1; i < used_chunks_; ++i) delete[] chunks_[i];
}

std::size_t ChildTable::ChunkOf(std::uint32_t index) noexcept {
  if (index < kInline) return 0;
  return static_cast<std::size_t>(std::bit_width(index / kSecond)) + 1;
}

std::uint32_t ChildTable::BeginOf(std::size_t chunk) noexcept {
  if (chunk == 0) return 0;
  return chunk == 1 ? kInline : kSecond << (chunk - 2);
}

inline ChildTable::Slot* ChildTable::At(std::uint32_t index) noexcept {
  const std::size_t chunk = ChunkOf(index);
  return &chunks_[chunk][index - BeginOf(chunk)];
}

ChildTable::Slot* ChildTable::Take(void* scope, void (*on_exit)(FiberOwner*)) noexcept {
  for (;;) {
    Slot* slot;
    {
      base::SpinLockGuard guard(lock);
      slot = TakeFree();
      if (slot != nullptr) {
        // relaxed, and no read-modify-write: the lock orders it, and readers want a snapshot.
        taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        // relaxed: the spawner is a child, and has not ended; the start carries it to the new one (CT7).
        if (waited_for_) ends_.fetch_add(kOne, std::memory_order_relaxed);
      }
    }
    if (slot != nullptr) {
      slot->scope = scope;
      slot->on_exit = on_exit;
      return slot;
    }
    if (!Grow()) return nullptr;
  }
}

ChildTable::Slot* ChildTable::TakeByOwner(void* scope, void (*on_exit)(FiberOwner*)) noexcept {
  if (owners_ == nullptr && !FillOwners()) return nullptr;
  Slot* const slot = owners_;
  owners_ = slot->next_of_owner;
  slot->scope = scope;
  slot->on_exit = on_exit;
  owner_taken_.store(owner_taken_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // CT7
  return slot;
}

WEFT_NOINLINE bool ChildTable::FillOwners() noexcept {
  for (;;) {
    {
      base::SpinLockGuard guard(lock);
      for (int i = 0; i < kOwnersBatch; ++i) {
        Slot* const slot = TakeFree();
        if (slot == nullptr) break;
        slot->next_of_owner = std::exchange(owners_, slot);
      }
    }
    if (owners_ != nullptr) return true;
    if (!Grow()) return false;
  }
}

ChildTable::Slot* ChildTable::TakeFree() noexcept {
  if (taken_back_ == 0 && (ends_.load(std::memory_order_relaxed) & kFirstFree) != 0) {
    // All that came back at once: none comes back while we look at it. acquire: the slots' links. Pairs with the
    // release in Free().
    if (waited_for_) {
      taken_back_ = static_cast<std::uint32_t>(ends_.fetch_and(~kFirstFree, std::memory_order_acquire) & kFirstFree);
    } else {
      const std::uint64_t ends = ends_.exchange(0, std::memory_order_acquire);
      taken_back_ = static_cast<std::uint32_t>(ends & kFirstFree);
      looked_at_.store(looked_at_.load(std::memory_order_relaxed) + CountOf(ends), std::memory_order_relaxed);
    }
  }
  if (taken_back_ != 0) {
    Slot* const slot = At(taken_back_ - 1);
    taken_back_ = slot->next_free;
    return slot;
  }
  return fresh_ < size_ ? At(fresh_++) : nullptr;
}

bool ChildTable::Grow() noexcept {
  std::size_t chunk;
  {
    base::SpinLockGuard guard(lock);
    chunk = used_chunks_;
  }
  if (chunk == kChunks) return false;
  const std::uint32_t begin = BeginOf(chunk);
  const std::uint32_t end = BeginOf(chunk + 1);
  auto* const slots = new (std::nothrow) Slot[end - begin];
  if (slots == nullptr) return false;
  for (std::uint32_t i = begin; i < end; ++i) slots[i - begin].index = i;
  {
    base::SpinLockGuard guard(lock);
    if (used_chunks_ == chunk) {
      chunks_[used_chunks_++] = slots;
      size_ = end;
      return true;
    }
  }
  delete[] slots;  // Another spawner was faster.
  return true;
}

bool ChildTable::Free(Slot* slot) noexcept {
  slot->fiber.store(nullptr, std::memory_order_relaxed);  // CN4: a walk that still sees the fiber asks its chain.
  const std::uint32_t first = slot->index + 1;
  std::uint64_t before = ends_.load(std::memory_order_relaxed);
  std::uint64_t after;
  do {
    slot->next_free = static_cast<std::uint32_t>(before & kFirstFree);
    const std::uint64_t count = before & ~kFirstFree;
    after = ((count & kWaitedFor) != 0 ? count - kOne : count + kOne) | first;
    // release: the link, that the slot is empty, and what the child did. Pairs with the acquires in TakeFree(), here
    // and in BeginWait().
  } while (!ends_.compare_exchange_weak(before, after, std::memory_order_acq_rel, std::memory_order_relaxed));
  return (after & ~kFirstFree) == kWaitedFor;
}

bool ChildTable::BeginWait() noexcept {
  base::SpinLockGuard guard(lock);
  std::uint64_t before = ends_.load(std::memory_order_acquire);
  for (;;) {
    const std::size_t ended = looked_at_.load(std::memory_order_relaxed) + CountOf(before);
    const std::size_t left = taken() - ended;
    if (left == 0) return false;
    // acquire, both: what those did that have ended. Pairs with the release in Free().
    const std::uint64_t after = kWaitedFor | left * kOne | (before & kFirstFree);
    if (ends_.compare_exchange_weak(before, after, std::memory_order_acquire, std::memory_order_acquire)) {
      waited_for_ = true;
      return true;
    }
  }
}

void ChildTable::EndWait() noexcept {
  base::SpinLockGuard guard(lock);
  waited_for_ = false;
  looked_at_.store(taken(), std::memory_order_relaxed);
  // relaxed: no child is left. The list stays.
  ends_.store(ends_.load(std::memory_order_relaxed) & kFirstFree, std::memory_order_relaxed);
}

std::size_t ChildTable::live() const noexcept {
  base::SpinLockGuard guard(lock);
  const std::uint64_t ends = ends_.load(std::memory_order_relaxed);
  if ((ends & kWaitedFor) != 0) return CountOf(ends);
  const std::size_t ended = looked_at_.load(std::memory_order_relaxed) + CountOf(ends);
  const std::size_t all = taken();
  return all > ended ? all - ended : 0;
}

FiberEntity* ChildTable::Next() noexcept {
  while (at_ < fresh_) {
    // acquire: pairs with the release in Fill().
    FiberEntity* const fiber = At(at_++)->fiber.load(std::memory_order_acquire);
    if (fiber != nullptr) return fiber;
  }
  return nullptr;
}

}  // namespace weft::synchronization
