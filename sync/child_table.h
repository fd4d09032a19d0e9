// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// ChildTable: the fibers that a scope owns, so that a cancellation finds them, and whoever waits learns when all have
// ended.
//
// A slot names a child from before its start until its end. Slots lie in chunks that are made when they are needed and
// given back with the table. A child that ends gives its slot back and is counted by one compare-exchange of `ends_`,
// takes no lock, and then touches nothing of the table or of the scope, unless it is the last one.
//
//   spawner, with the lock                     a child's end
//   ----------------------                     -------------
//   ++taken_                                   its slot onto the list of free ones, and
//   when it has no free slot any more:         nobody waits: one more has ended
//     takes all that came back, and how many   somebody waits: one less remains; the last one says so
//
//   ends_:  | waited for | count | index + 1 of the first free slot, 0: none |
//             63           62-32   31-0
//
// `count` is, while nobody waits, how many children have ended since the spawners looked last: at most as many as there
// are slots, so it does not overflow. While somebody waits it is how many have not ended.
//
// Invariants
//   CT5  A slot is on the free list, or a spawner's, or a child's. Fill() makes it the child's, Free() puts it on the
//        list, once.
//   CT6  Free() touches the table last in its compare-exchange, and says by it alone whether it was the last: a table
//        that nobody waits for any more may be gone.
//   CT7  Children that have not ended: `taken_` and `owner_taken_` less `looked_at_` less `count`; or `count` alone,
//        while somebody waits. Each Take() counts before its child can end.
//   CT8  The owner, who spawns most children, has some free slots to itself, and takes them without the lock. It does
//        not spawn while it waits.
//
// Checked in tests/model/child_table_model.cc.
//
// Take(): one spawner at a time, which holds the lock. TakeByOwner(), BeginWait(), EndWait(): the owner. Fill(): the
// spawner. Free(): the child's worker, or the spawner if the child is not started. Rewind(), Next(): CancelWalk,
// holding the lock.
#ifndef WEFT_SYNC_CHILD_TABLE_H_
#define WEFT_SYNC_CHILD_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/atomic.h"
#include "weft/base/cpu.h"
#include "weft/base/spin_lock.h"
#include "weft/base/thread_annotations.h"
#include "weft/scheduling_group/fiber_entity.h"

namespace weft::synchronization {

class ChildTable {
 public:
  struct Slot : scheduling_group::FiberOwner {
    base::Atomic<scheduling_group::FiberEntity*> fiber{nullptr};
    std::uint32_t index = 0;      // its own
    std::uint32_t next_free = 0;  // index + 1; 0: none
    union {
      void* scope = nullptr;  // for on_exit
      Slot* next_of_owner;    // of one that the owner has to itself
    };
  };

  ChildTable() noexcept;
  ChildTable(const ChildTable&) = delete;
  ChildTable& operator=(const ChildTable&) = delete;
  ~ChildTable();

  // Any spawner. nullptr: there is no memory. `scope` and `on_exit`: what the slot is to have.
  Slot* Take(void* scope, void (*on_exit)(scheduling_group::FiberOwner*)) noexcept WEFT_EXCLUDES(lock);

  // The same by the owner.
  Slot* TakeByOwner(void* scope, void (*on_exit)(scheduling_group::FiberOwner*)) noexcept WEFT_EXCLUDES(lock);

  static void Fill(Slot* slot, scheduling_group::FiberEntity* fiber) noexcept {
    // release: a walk finds the fiber's chain. Pairs with the acquire in Next().
    slot->fiber.store(fiber, std::memory_order_release);
  }
  // True: somebody waits, and this was the last. acquire, then: what all others did before.
  bool Free(Slot* slot) noexcept;

  // False: no child is left; acquire: what they did. Otherwise the last one will be told, and EndWait() follows.
  [[nodiscard]] bool BeginWait() noexcept WEFT_EXCLUDES(lock);
  void EndWait() noexcept WEFT_EXCLUDES(lock);

  // How often a slot was taken: a snapshot.
  std::size_t taken() const noexcept {
    return taken_.load(std::memory_order_relaxed) + owner_taken_.load(std::memory_order_relaxed);
  }
  // Children that have not ended. Any thread. Takes the lock: a spawner moves counts from one place to another.
  std::size_t live() const noexcept WEFT_EXCLUDES(lock);

  // CancelWalk: the next child; nullptr: that was the last one. Rewind() before the first.
  void Rewind() noexcept WEFT_REQUIRES(lock) { at_ = 0; }
  scheduling_group::FiberEntity* Next() noexcept WEFT_REQUIRES(lock);

  mutable base::SpinLock lock;

 private:
  // Four slots in the table itself, since most scopes have few children; then 28, 32, and twice as many each time.
  static constexpr std::uint32_t kInline = 4;
  static constexpr std::uint32_t kSecond = 32;  // All of the first two chunks.
  static constexpr std::size_t kChunks = 24;    // 134 million slots

  // What the owner takes at once: a lock for eight children, and at most seven slots that others cannot have.
  static constexpr int kOwnersBatch = 8;

  static constexpr std::uint64_t kWaitedFor = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kFirstFree = kOne - 1;
  static constexpr std::uint64_t CountOf(std::uint64_t ends) noexcept { return (ends & ~kWaitedFor) / kOne; }

  static std::size_t ChunkOf(std::uint32_t index) noexcept;
  static std::uint32_t BeginOf(std::size_t chunk) noexcept;
  Slot* At(std::uint32_t index) noexcept;

  Slot* TakeFree() noexcept WEFT_REQUIRES(lock);
  bool FillOwners() noexcept WEFT_EXCLUDES(lock);
  bool Grow() noexcept WEFT_EXCLUDES(lock);

  Slot inline_slots_[kInline];
  Slot* chunks_[kChunks];  // The first `used_chunks_` of them do not change any more.
  std::size_t used_chunks_ WEFT_GUARDED_BY(lock) = 1;
  std::uint32_t size_ WEFT_GUARDED_BY(lock) = kInline;  // slots
  std::uint32_t fresh_ WEFT_GUARDED_BY(lock) = 0;       // slots that have been taken once
  std::uint32_t taken_back_ WEFT_GUARDED_BY(lock) = 0;  // index + 1: the first of a list
  std::uint32_t at_ WEFT_GUARDED_BY(lock) = 0;
  bool waited_for_ WEFT_GUARDED_BY(lock) = false;
  Slot* owners_ = nullptr;  // CT8, linked by next_of_owner
  base::Atomic<std::size_t> owner_taken_{0};
  base::Atomic<std::size_t> taken_{0};      // Written under the lock, both.
  base::Atomic<std::size_t> looked_at_{0};  // CT7
  // A line of its own: the workers of the children write it, and spawners all that is above.
  alignas(base::kCacheLineSize) base::Atomic<std::uint64_t> ends_{0};
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_CHILD_TABLE_H_
