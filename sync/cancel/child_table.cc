// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel/child_table.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace weft::synchronization {

using scheduling_group::FiberEntity;

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

ChildTable::Slot* ChildTable::At(std::uint32_t index) noexcept {
  const std::size_t chunk = ChunkOf(index);
  return &chunks_[chunk][index - BeginOf(chunk)];
}

// With the lock, both.
FiberEntity* ChildTable::NamedBy(const Slot* slot) noexcept {
  // acquire: pairs with the release in Fill().
  return slot->fiber.load(std::memory_order_acquire);
}

// True for each child that has not left its scopes (CT5). A fiber that ends meanwhile may look as if it had not.
bool ChildTable::IsInItsScope(const FiberEntity* fiber, const Slot* slot) noexcept {
  return fiber->id() == slot->id && fiber->cancel_word.scoped();
}

ChildTable::Slot* ChildTable::Take() noexcept {
  do {
    base::SpinLockGuard guard(lock);
    Slot* const slot = TakeFree();
    if (slot == nullptr) continue;
    // relaxed, and no read-modify-write: the lock orders it, and readers want a snapshot.
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (waited_for_) {
      // relaxed: the spawner is a child, and has not ended; the start carries it to the new one (CT7).
      balance_.fetch_add(1, std::memory_order_relaxed);
      ++published_;
    }
    return slot;
  } while (MakeFree());
  return nullptr;
}

bool ChildTable::FillOwners() noexcept {
  do {
    base::SpinLockGuard guard(lock);
    for (std::uint32_t i = 0; i < kOwnersBatch && free_ != nullptr; ++i) {
      Slot* const slot = std::exchange(free_, free_->next_free);
      slot->next_free = std::exchange(owners_, slot);
    }
    if (owners_ != nullptr) return true;
    if (fresh_ == size_) continue;
    const std::uint32_t end = std::min(fresh_ + kOwnersBatch, BeginOf(ChunkOf(fresh_) + 1));  // of one chunk
    Slot* const first = At(fresh_);
    Slot* slot = first + (end - std::exchange(fresh_, end));
    Slot* next = nullptr;
    while (slot != first) {
      --slot;
      slot->fiber.store(nullptr, std::memory_order_relaxed);  // As in TakeFree().
      slot->next_free = std::exchange(next, slot);
    }
    owners_ = first;
    return true;
  } while (MakeFree());
  return false;
}

inline ChildTable::Slot* ChildTable::TakeFree() noexcept {
  if (free_ != nullptr) return std::exchange(free_, free_->next_free);
  if (fresh_ == size_) return nullptr;
  Slot* const slot = At(fresh_++);
  slot->fiber.store(nullptr, std::memory_order_relaxed);  // It may have been used before FreeAll(). CT5
  return slot;
}

void ChildTable::GiveBack(Slot* slot) noexcept {
  base::SpinLockGuard guard(lock);
  Free(slot);
}

inline void ChildTable::Free(Slot* slot) noexcept {
  slot->fiber.store(nullptr, std::memory_order_relaxed);  // The lock orders it.
  slot->next_free = std::exchange(free_, slot);
}

// All slots were taken. Afterwards some are free, unless others were faster. False: there is no memory.
bool ChildTable::MakeFree() noexcept {
  return FindFree(/*if_it_pays=*/true) || Grow() || FindFree(/*if_it_pays=*/false);
}

// False: it does not pay, or there is none.
bool ChildTable::FindFree(bool if_it_pays) noexcept {
  for (bool began_sweep = false;;) {
    base::SpinLockGuard guard(lock);
    if (HasFree()) return true;
    if (swept_ == size_) {
      const std::size_t live = Live();
      if (live == 0) {
        FreeAll();
        return true;
      }
      // The slots that spawners have name no children yet: a sweep may find nothing.
      if (std::exchange(began_sweep, true)) return false;
      if (if_it_pays && (size_ < kSweepFrom || live > size_ - size_ / 4)) return false;
      swept_ = 0;
    }
    Sweep();
  }
}

void ChildTable::Sweep() noexcept {
  for (const std::uint32_t end = std::min(swept_ + kSweepAtOnce, size_); swept_ < end; ++swept_) {
    Slot* const slot = At(swept_);
    const FiberEntity* const fiber = NamedBy(slot);
    if (fiber != nullptr && !IsInItsScope(fiber, slot)) Free(slot);
  }
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
  {
    base::SpinLockGuard guard(lock);
    if (used_chunks_ == chunk) {
      chunks_[used_chunks_++] = slots;
      size_ = end;
      swept_ = end;
      return true;
    }
  }
  delete[] slots;  // Another spawner was faster.
  return true;
}

// A spawner, or the owner, when no child is left. CT9
void ChildTable::FreeAll() noexcept {
  fresh_ = 0;
  swept_ = size_;
  free_ = nullptr;
  owners_ = nullptr;
  published_ = taken();
  balance_.store(kBias, std::memory_order_relaxed);  // relaxed: no child is there to see it.
}

bool ChildTable::BeginWait() noexcept {
  base::SpinLockGuard guard(lock);
  if (Live() == 0) {
    FreeAll();
    return false;
  }
  const std::uint64_t news = taken() - published_;
  published_ += news;
  // acquire: what those did that have ended. Pairs with the release in End().
  if (balance_.fetch_add(kWaitedFor + news, std::memory_order_acquire) + news == kBias) {
    FreeAll();  // The last one has ended meanwhile.
    return false;
  }
  waited_for_ = true;
  return true;
}

void ChildTable::EndWait() noexcept {
  base::SpinLockGuard guard(lock);
  waited_for_ = false;
  FreeAll();
}

std::size_t ChildTable::Live() const noexcept {
  // acquire: before the counts, so that each child that has ended was counted; and what it did. Pairs with the release
  // in End(). Whom Rewind() does not find counted reads its chain after it has counted (CN2).
  const std::uint64_t balance = balance_.load(std::memory_order_acquire) & ~kWaitedFor;
  return taken() - published_ + (balance - kBias);
}

FiberEntity* ChildTable::Next() noexcept {
  while (at_ < fresh_) {
    Slot* const slot = At(at_++);
    FiberEntity* const fiber = NamedBy(slot);
    if (fiber == nullptr) continue;
    if (IsInItsScope(fiber, slot)) return fiber;
    Free(slot);
  }
  return nullptr;
}

}  // namespace weft::synchronization
