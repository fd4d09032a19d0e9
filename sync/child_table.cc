// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/child_table.h"

#include <algorithm>
#include <new>
#include <utility>

namespace weft::synchronization {

using scheduling_group::FiberEntity;
using scheduling_group::FiberOwner;

ChildTable::~ChildTable() {
  for (Chunk* chunk = first_.next; chunk != nullptr;) {
    Chunk* const next = chunk->next;
    delete[] chunk->slots;
    delete std::exchange(chunk, next);
  }
}

ChildTable::Slot* ChildTable::Take(void* scope, void (*on_exit)(FiberOwner*)) noexcept {
  for (;;) {
    Slot* slot;
    {
      base::SpinLockGuard guard(lock);
      slot = TakeFree();
      // relaxed, and no read-modify-write: the lock orders it, and readers want a snapshot.
      if (slot != nullptr) taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    if (slot != nullptr) {
      slot->scope = scope;
      slot->on_exit = on_exit;
      return slot;
    }
    if (!Grow()) return nullptr;
  }
}

ChildTable::Slot* ChildTable::TakeFree() noexcept {
  if (taken_back_ == nullptr && free_.load(std::memory_order_relaxed) != nullptr) {
    // acquire: the slots' links. Pairs with the release in Free(). All of them at once: no slot comes back while we
    // look at it.
    taken_back_ = free_.exchange(nullptr, std::memory_order_acquire);
  }
  if (taken_back_ != nullptr) return std::exchange(taken_back_, taken_back_->next_free);
  if (fresh_ == last_->size) return nullptr;
  return &last_->slots[fresh_++];
}

bool ChildTable::Grow() noexcept {
  std::size_t size;
  {
    base::SpinLockGuard guard(lock);
    size = last_ == &first_ ? kFirstChunk : std::min(2 * last_->size, kLargestChunk);
  }
  auto* const chunk = new (std::nothrow) Chunk;
  auto* const slots = new (std::nothrow) Slot[size];
  if (chunk == nullptr || slots == nullptr) {
    delete chunk;
    delete[] slots;
    return false;
  }
  chunk->size = size;
  chunk->slots = slots;
  base::SpinLockGuard guard(lock);
  // Another spawner may have been faster: its chunk's remaining slots are then never taken, which wastes a few.
  last_->next = chunk;
  last_ = chunk;
  fresh_ = 0;
  return true;
}

void ChildTable::Free(Slot* slot) noexcept {
  slot->fiber.store(nullptr, std::memory_order_relaxed);  // CN4: a walk that still sees the fiber asks its chain.
  Slot* first = free_.load(std::memory_order_relaxed);
  do {
    slot->next_free = first;
    // release: the link, and that the slot is empty. Pairs with the acquire in TakeFree().
  } while (!free_.compare_exchange_weak(first, slot, std::memory_order_release, std::memory_order_relaxed));
}

FiberEntity* ChildTable::Next() noexcept {
  for (; at_chunk_ != nullptr; at_chunk_ = at_chunk_->next, at_slot_ = 0) {
    const std::size_t used = at_chunk_ == last_ ? fresh_ : at_chunk_->size;
    while (at_slot_ < used) {
      // acquire: pairs with the release in Fill().
      FiberEntity* const fiber = at_chunk_->slots[at_slot_++].fiber.load(std::memory_order_acquire);
      if (fiber != nullptr) return fiber;
    }
  }
  return nullptr;
}

}  // namespace weft::synchronization
