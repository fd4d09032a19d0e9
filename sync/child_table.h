// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// ChildTable: the fibers that a scope owns, so that a cancellation finds them.
//
// A slot names a child from before its start until its end. Slots lie in chunks that are made when they are needed and
// given back with the table. A child that ends gives its slot back by two stores and one exchange; nobody else's memory
// is touched, and no lock is taken.
//
// Invariants
//   CT5  A slot is on the free list, or a spawner's, or a child's. Fill() makes it the child's, Free() puts it on the
//        list, once.
//   CT6  Free() touches the table last in its compare-exchange: then the scope may count the child as ended.
//
// Take(): one spawner at a time, which holds the lock. Fill(): the spawner. Free(): the child's worker, or the spawner
// if the child is not started. Rewind(), Next(): CancelWalk, holding the lock.
#ifndef WEFT_SYNC_CHILD_TABLE_H_
#define WEFT_SYNC_CHILD_TABLE_H_

#include <cstddef>

#include "weft/base/atomic.h"
#include "weft/base/spin_lock.h"
#include "weft/base/thread_annotations.h"
#include "weft/scheduling_group/fiber_entity.h"

namespace weft::synchronization {

class ChildTable {
 public:
  struct Slot : scheduling_group::FiberOwner {
    base::Atomic<scheduling_group::FiberEntity*> fiber{nullptr};
    Slot* next_free = nullptr;
    void* scope = nullptr;  // for on_exit
  };

  ChildTable() = default;
  ChildTable(const ChildTable&) = delete;
  ChildTable& operator=(const ChildTable&) = delete;
  ~ChildTable();

  // Any spawner. nullptr: there is no memory. `scope` and `on_exit`: what the slot is to have.
  Slot* Take(void* scope, void (*on_exit)(scheduling_group::FiberOwner*)) noexcept WEFT_EXCLUDES(lock);

  static void Fill(Slot* slot, scheduling_group::FiberEntity* fiber) noexcept {
    // release: a walk finds the fiber's chain. Pairs with the acquire in Next().
    slot->fiber.store(fiber, std::memory_order_release);
  }
  void Free(Slot* slot) noexcept;
  // How often Take() has found a slot. A snapshot.
  std::size_t taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

  // CancelWalk: the next child; nullptr: that was the last one. Rewind() before the first.
  void Rewind() noexcept WEFT_REQUIRES(lock) {
    at_chunk_ = &first_;
    at_slot_ = 0;
  }
  scheduling_group::FiberEntity* Next() noexcept WEFT_REQUIRES(lock);

  base::SpinLock lock;

 private:
  // Four in the table itself: most scopes have few children.
  static constexpr std::size_t kInline = 4;
  static constexpr std::size_t kFirstChunk = 28;
  static constexpr std::size_t kLargestChunk = 1020;

  struct Chunk {
    Chunk* next = nullptr;
    std::size_t size = 0;  // slots
    Slot* slots = nullptr;
  };

  Slot* TakeFree() noexcept WEFT_REQUIRES(lock);
  bool Grow() noexcept WEFT_EXCLUDES(lock);

  Slot inline_slots_[kInline];
  Chunk first_{.size = kInline, .slots = inline_slots_};
  Chunk* last_ WEFT_GUARDED_BY(lock) = &first_;
  std::size_t fresh_ WEFT_GUARDED_BY(lock) = 0;  // slots of the last chunk that have been taken once
  Slot* taken_back_ WEFT_GUARDED_BY(lock) = nullptr;
  Chunk* at_chunk_ WEFT_GUARDED_BY(lock) = nullptr;
  std::size_t at_slot_ WEFT_GUARDED_BY(lock) = 0;
  base::Atomic<Slot*> free_{nullptr};
  base::Atomic<std::size_t> taken_{0};  // written under the lock
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_CHILD_TABLE_H_
