// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ChildTable: the fibers that a scope owns. A cancellation finds them here, and a waiter learns when all have ended.
//
// A slot names a child by its entity and its id. The spawner takes a slot, and fills it before the child starts. The
// child never touches it: it is in the scope as long as its entity has that id and is in a scope, which readers of the
// slot check. So a child's end costs one subtraction. Slots lie in chunks, made when needed and freed with the table.
//
//   spawner, with the lock                     a child's end
//   ----------------------                     -------------
//   ++taken_                                   --balance_
//   when all slots are taken: looks for        the last one that is waited for says so
//     those whose children have ended
//     (Sweep), or makes more
//
//   balance_ = kBias + children that the owner has published - children that have ended  (+ kWaitedFor)
// The owner publishes its count when it begins to wait; until then `balance_` may be below kBias.
//
// Invariants
//   CT5  A slot is free (`fresh_` and above, or in `free_`), or a spawner's that has not filled it (`fiber` is null),
//        or names a child (`fiber` is set). Sweeps and walks free only slots whose children have left their scopes: a
//        child does so before it is counted as ended, and its id is never used again. So a filled slot is not its
//        spawner's any more, even if the start is refused.
//   CT6  End() touches the table in its subtraction alone, and says by it alone whether it was the last: a table that
//        nobody waits for any more may be gone.
//   CT7  Children that have not ended: (`taken_` + `owner_taken_` - `published_`) + (`balance_` - kBias). Each Take()
//        counts before its child can end. While the owner waits each Take() publishes.
//   CT8  The owner, who spawns most, has free slots of its own, taken without the lock. It spawns none while it waits.
//   CT9  When no child is left, all slots are free but the owner's (CT8): another spawner's counts as a child.
//
// Cost: 16 bytes a slot, of which there are at most 2.7 times as many as children have lived at once, or 256. A sweep
// looks at up to four for each that it frees, and at kSweepAtOnce under one lock; a walk, at each that names a child.
// Checked in tests/model/child_table_model.cc.
// Rejected: a child that gives its slot back, whose line then moves between CPUs (docs/decisions/025).
//
// Take(), GiveBack(): any spawner. TakeByOwner(), BeginWait(), EndWait(): the owner. Fill(): the spawner. End(): the
// child's worker, or the spawner if the child is not started. Rewind(), Next(): CancelWalk, holding the lock.
#ifndef WEFT_SYNC_CANCEL_CHILD_TABLE_H_
#define WEFT_SYNC_CANCEL_CHILD_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::synchronization {

class ChildTable {
 public:
  struct Slot {
    base::Atomic<scheduling_group::FiberEntity*> fiber{nullptr};
    union {
      std::uint64_t id = 0;  // the child's
      Slot* next_free;       // of one that is free, or of the owner's
    };
  };

  ChildTable() noexcept { chunks_[0] = inline_slots_; }
  ChildTable(const ChildTable&) = delete;
  ChildTable& operator=(const ChildTable&) = delete;
  ~ChildTable();

  // Any spawner. nullptr: there is no memory.
  Slot* Take() noexcept WEFT_EXCLUDES(lock);

  Slot* TakeByOwner() noexcept WEFT_EXCLUDES(lock) {
    if (WEFT_UNLIKELY(owners_ == nullptr) && !FillOwners()) return nullptr;
    // relaxed, and no read-modify-write: nobody else writes it, and the child's start carries it (CT7).
    owner_taken_.store(owner_taken_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return std::exchange(owners_, owners_->next_free);
  }

  // The fiber has its id, and is in the scope.
  static void Fill(Slot* slot, scheduling_group::FiberEntity* fiber) noexcept {
    slot->id = fiber->id();
    // release: the id, the fiber's chain. Pairs with the acquire in NamedBy().
    slot->fiber.store(fiber, std::memory_order_release);
  }

  // It was not filled. End() follows.
  void GiveBack(Slot* slot) noexcept WEFT_EXCLUDES(lock);

  // A child has left its scopes, and is over. True: somebody waits, and this was the last.
  [[nodiscard]] bool End() noexcept {
    // release: what the child did. acquire: what all others did, for the last one. Pairs with itself, and with the
    // acquires in BeginWait() and Live().
    return balance_.fetch_sub(1, std::memory_order_acq_rel) == kWaitedFor + kBias + 1;
  }

  // False: no child is left; acquire: what they did. Otherwise the last one will be told, and EndWait() follows.
  [[nodiscard]] bool BeginWait() noexcept WEFT_EXCLUDES(lock);
  void EndWait() noexcept WEFT_EXCLUDES(lock);

  // How often a slot was taken: a snapshot.
  std::size_t taken() const noexcept {
    return taken_.load(std::memory_order_relaxed) + owner_taken_.load(std::memory_order_relaxed);
  }
  // Children that have not ended. Any thread. Takes the lock: the owner moves counts from one place to another.
  std::size_t live() const noexcept WEFT_EXCLUDES(lock) {
    base::SpinLockGuard guard(lock);
    return Live();
  }

  // A child that is in the scope, and of which is(fiber) says true. nullptr: there is none. Any thread.
  template <class Predicate>
  scheduling_group::FiberEntity* Find(Predicate is) noexcept WEFT_EXCLUDES(lock) {
    base::SpinLockGuard guard(lock);
    for (std::uint32_t i = 0; i < fresh_; ++i) {
      const Slot* const slot = At(i);
      scheduling_group::FiberEntity* const fiber = NamedBy(slot);
      if (fiber != nullptr && IsInItsScope(fiber, slot) && is(fiber)) return fiber;
    }
    return nullptr;
  }

  // CancelWalk: the next child; nullptr: that was the last one. Rewind() before the first.
  void Rewind() noexcept WEFT_REQUIRES(lock) { at_ = Live() == 0 ? fresh_ : 0; }
  scheduling_group::FiberEntity* Next() noexcept WEFT_REQUIRES(lock);

  mutable base::SpinLock lock;

 private:
#ifdef WEFT_MODEL_CHECK
  static constexpr std::uint32_t kInline = 2;
  static constexpr std::uint32_t kSecond = 4;
  static constexpr std::uint32_t kSweepFrom = 2;
#else
  // Eight slots in the table itself, since most scopes have few children; then 24, 32, and twice as many each time.
  static constexpr std::uint32_t kInline = 8;
  static constexpr std::uint32_t kSecond = 32;  // All of the first two chunks.
  // A sweep reads a cache line that another CPU has written for each slot, so small tables (4 KB) grow instead.
  // Figures: docs/decisions/025-cost-of-scopes.md.
  static constexpr std::uint32_t kSweepFrom = 256;
#endif
  static constexpr std::size_t kChunks = 24;  // 134 million slots

  // What the owner takes at once: a lock for eight children, and at most seven slots that others cannot have.
  static constexpr std::uint32_t kOwnersBatch = kInline;
  // Under the lock: some microseconds, if each entity's line lies in another CPU's cache.
  static constexpr std::uint32_t kSweepAtOnce = 64;

  static constexpr std::uint64_t kWaitedFor = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kBias = std::uint64_t{1} << 62;  // far from both ends

  static std::size_t ChunkOf(std::uint32_t index) noexcept;
  static std::uint32_t BeginOf(std::size_t chunk) noexcept;
  Slot* At(std::uint32_t index) noexcept;
  static scheduling_group::FiberEntity* NamedBy(const Slot* slot) noexcept;
  static bool IsInItsScope(const scheduling_group::FiberEntity* fiber, const Slot* slot) noexcept;

  std::size_t Live() const noexcept WEFT_REQUIRES(lock);
  Slot* TakeFree() noexcept WEFT_REQUIRES(lock);
  bool HasFree() const noexcept WEFT_REQUIRES(lock) { return free_ != nullptr || fresh_ < size_; }
  WEFT_NOINLINE bool FillOwners() noexcept WEFT_EXCLUDES(lock);
  bool MakeFree() noexcept WEFT_EXCLUDES(lock);
  bool FindFree(bool if_it_pays) noexcept WEFT_EXCLUDES(lock);
  void Free(Slot* slot) noexcept WEFT_REQUIRES(lock);
  void Sweep() noexcept WEFT_REQUIRES(lock);
  bool Grow() noexcept WEFT_EXCLUDES(lock);
  void FreeAll() noexcept WEFT_REQUIRES(lock);

  Slot inline_slots_[kInline];
  Slot* chunks_[kChunks];  // The first `used_chunks_` of them do not change any more.
  std::size_t used_chunks_ WEFT_GUARDED_BY(lock) = 1;
  std::uint32_t size_ WEFT_GUARDED_BY(lock) = kInline;   // slots
  std::uint32_t fresh_ WEFT_GUARDED_BY(lock) = 0;        // The first that has not been taken since FreeAll().
  std::uint32_t swept_ WEFT_GUARDED_BY(lock) = kInline;  // where the sweep is; size_: there is none
  std::uint32_t at_ WEFT_GUARDED_BY(lock) = 0;
  Slot* free_ WEFT_GUARDED_BY(lock) = nullptr;
  std::size_t published_ WEFT_GUARDED_BY(lock) = 0;  // CT7
  bool waited_for_ WEFT_GUARDED_BY(lock) = false;
  Slot* owners_ = nullptr;  // CT8
  base::Atomic<std::size_t> owner_taken_{0};
  base::Atomic<std::size_t> taken_{0};  // written under the lock
  // A line of its own: the workers of the children write it, and spawners all that is above.
  alignas(base::kCacheLineSize) base::Atomic<std::uint64_t> balance_{kBias};
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_CANCEL_CHILD_TABLE_H_
