// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// IdleGroups: which groups have sleeping workers, in two bits each. A search for a sleeper (SG4 in scheduling_group.h)
// reads one cache line, which no thread writes while all groups are busy, or all sleep now and then.
//
//   kSet        a worker of the group may sleep
//   kClearing   a thread finds out whether that is still so; counts as kSet meanwhile
//
//   worker, before it sleeps       producer, in need of a sleeper      producer that found none where kSet is set
//   ------------------------       ------------------------------      ------------------------------------------
//   set own bit in IdleWorkers     make the fiber ready                kSet -> kClearing
//   full fence                     full fence                          full fence
//   if kSet is not set, set it     look at both bits                   look at the group's IdleWorkers:
//   full fence                                                           if one sleeps, set kSet
//   last search                                                        clear kClearing
//
// Invariants
//   IG1  While a worker sleeps, after its announcement and last search, kSet or kClearing is set: either the worker
//        sees that kSet was cleared, or the thread that clears it sees the worker.
//   IG2  A fiber made ready before the fence is seen by the worker's last search, or its producer sees the bit.
//   IG3  The thread that clears kSet sets kClearing in the same step, and only where kClearing is not set.
//
// Announce(): a worker of the group. MayIdle(), Retract(): any thread.
// Proven in tests/model/idle_loop_model.cc.
// Rejected: a counter of sleepers (each sleep writes the line); a bit that a group's first sleeper sets and its last
// one clears (as well, and clearing it late hides the next sleeper).
#ifndef WEFT_SCHEDULING_GROUP_IDLE_IDLE_GROUPS_H_
#define WEFT_SCHEDULING_GROUP_IDLE_IDLE_GROUPS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"

namespace weft::scheduling_group {

class IdleGroups {
 public:
  static constexpr int kNoSlot = -1;  // such a group takes no part in this
  static constexpr int kMaxSlots = 256;

  // A set of groups.
  class Mask {
   public:
    void Add(int slot) {
      words_[WordOf(slot)] |= (kSet | kClearing) << ShiftOf(slot);
      first_ = std::min(first_, WordOf(slot));
      end_ = std::max(end_, WordOf(slot) + 1);
    }
    bool Empty() const noexcept { return end_ == 0; }

   private:
    friend class IdleGroups;
    std::array<std::uint64_t, kMaxSlots / 32> words_{};
    std::size_t first_ = kMaxSlots / 32;  // of the words that are not 0
    std::size_t end_ = 0;
  };

  constexpr IdleGroups() = default;

  // After the worker has set its bit in IdleWorkers, and a full fence.
  void Announce(int slot) noexcept {
    base::Atomic<std::uint64_t>& word = words_[WordOf(slot)];
    // relaxed, here and below: the fences order it, and it carries nothing.
    if ((word.load(std::memory_order_relaxed) & kSet << ShiftOf(slot)) == 0) {
      word.fetch_or(kSet << ShiftOf(slot), std::memory_order_relaxed);
    }
    // StoreLoad (IG2), also if another worker of the group has set it. Pairs with the fence of the producer.
    base::ThreadFence(std::memory_order_seq_cst);
  }

  // After a full fence.
  bool MayIdle(const Mask& mask) const noexcept {
    for (std::size_t i = mask.first_; i < mask.end_; ++i) {
      if ((words_[i].load(std::memory_order_relaxed) & mask.words_[i]) != 0) return true;
    }
    return false;
  }
  bool MayIdle(int slot) const noexcept {
    return (words_[WordOf(slot)].load(std::memory_order_relaxed) & (kSet | kClearing) << ShiftOf(slot)) != 0;
  }

  // The caller found no sleeper in the group. one_sleeps() looks again.
  template <class OneSleeps>
  void Retract(int slot, OneSleeps one_sleeps) noexcept {
    base::Atomic<std::uint64_t>& word = words_[WordOf(slot)];
    const std::uint64_t set = kSet << ShiftOf(slot);
    const std::uint64_t clearing = kClearing << ShiftOf(slot);
    std::uint64_t found = word.load(std::memory_order_relaxed);
    if ((found & (set | clearing)) != set) return;
    // If it fails, the next search in vain tries again.
    if (!word.compare_exchange_strong(found, (found & ~set) | clearing, std::memory_order_relaxed)) return;
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (IG1). Pairs with the worker's before Announce().
    if (one_sleeps()) word.fetch_or(set, std::memory_order_relaxed);
    word.fetch_and(~clearing, std::memory_order_relaxed);
  }

  // The group ends; it has no workers any more.
  void Forget(int slot) noexcept {
    words_[WordOf(slot)].fetch_and(~((kSet | kClearing) << ShiftOf(slot)), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kSet = 1;
  static constexpr std::uint64_t kClearing = 2;

  static constexpr std::size_t WordOf(int slot) noexcept { return static_cast<std::size_t>(slot) / 32; }
  static constexpr unsigned ShiftOf(int slot) noexcept { return static_cast<unsigned>(slot) % 32 * 2; }

  alignas(base::kCacheLineSize) std::array<base::Atomic<std::uint64_t>, kMaxSlots / 32> words_{};
};

// The slots that are taken. Constant-initialised and never destroyed, like IdleGroups.
class IdleGroupSlots {
 public:
  constexpr IdleGroupSlots() = default;

  // kNoSlot: there are too many groups.
  int Take() noexcept {
    for (int slot = 0; slot < IdleGroups::kMaxSlots; ++slot) {
      bool free = false;
      // acquire: pairs with the release in Return().
      if (taken_[static_cast<std::size_t>(slot)].compare_exchange_strong(free, true, std::memory_order_acquire)) {
        return slot;
      }
    }
    return IdleGroups::kNoSlot;
  }
  // release: Forget() comes before.
  void Return(int slot) noexcept { taken_[static_cast<std::size_t>(slot)].store(false, std::memory_order_release); }

 private:
  std::array<base::Atomic<bool>, IdleGroups::kMaxSlots> taken_{};
};

// Owns a group's slot while the group lives; kNoSlot: the group has none.
class IdleGroupSlot {
 public:
  // wanted: false: it is to have none.
  IdleGroupSlot(IdleGroups& groups, IdleGroupSlots& slots, bool wanted) noexcept
      : groups_(groups), slots_(slots), slot_(wanted ? slots.Take() : IdleGroups::kNoSlot) {}
  IdleGroupSlot(const IdleGroupSlot&) = delete;
  IdleGroupSlot& operator=(const IdleGroupSlot&) = delete;
  ~IdleGroupSlot() {
    if (slot_ == IdleGroups::kNoSlot) return;
    groups_.Forget(slot_);
    slots_.Return(slot_);
  }
  int Get() const noexcept { return slot_; }

 private:
  IdleGroups& groups_;
  IdleGroupSlots& slots_;
  const int slot_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_IDLE_GROUPS_H_
