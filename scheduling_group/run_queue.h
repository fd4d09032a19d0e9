// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RunQueue: the ready fibers of one scheduling group.
//
// A bounded ring of slots for many producers and many consumers. Positions count up for ever; position p uses slot
// p % capacity in round p / capacity. A slot's `turn` says whose it is in which round:
//
//      turn == 2 * round        empty: the producer that owns position p may fill it
//      turn == 2 * round + 1    filled: the consumer that owns position p may take it, and sets 2 * (round + 1)
//
// A producer owns the positions it moved `tail_` over, a consumer those it moved `head_` over. Zeroed memory is an
// empty queue. Turns are 32 bits: a thread would have to sleep for 2^31 rounds between two of its instructions to be
// fooled.
//
// Invariants
//   RQ1  A fiber is in at most one slot of one queue (it is kReady and enters once: FS3 in fiber_state.h).
//   RQ2  A fiber pushed is popped exactly once: a slot is filled and emptied only by the owner of its position.
//   RQ3  Fibers leave in the order of the positions: those pushed by one thread one after the other leave in that
//        order.
//   RQ4  A push that returned true before a full fence is seen by Empty() after a full fence that follows it: Empty()
//        compares tail_, which the push moved before it returned. It may say "not empty" of a fiber about to be
//        published.
//
// The slots may be its owner's, who knows where they should lie (global_queue.h).
//
// TryPush(), PushSome(): any thread. TryPop(), PopSome(): workers of this group, or of others that steal.
// Proven in tests/model/run_queue_model.cc.
// Source: D. Vyukov's bounded MPMC queue; rounds instead of sequence numbers, so that no slot needs initialising.
// Rejected: one slot per cache line (a burst of fibers then moves one line each instead of one for four).
#ifndef WEFT_SCHEDULING_GROUP_RUN_QUEUE_H_
#define WEFT_SCHEDULING_GROUP_RUN_QUEUE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/base/atomic.h"
#include "weft/base/check.h"
#include "weft/base/cpu.h"

namespace weft::scheduling_group {

class FiberEntity;

class RunQueue {
 public:
  struct Slot {
    base::Atomic<std::uint32_t> turn{0};
    base::Atomic<FiberEntity*> fiber{nullptr};  // The position's owner's (RQ2); an atomic for Peek().
  };

  // `capacity`: a power of two, at least 2. `slots`: so many, as new; they outlive the queue. nullptr: it makes some.
  explicit RunQueue(std::size_t capacity, Slot* slots = nullptr)
      : mask_(capacity - 1),
        round_shift_(std::countr_zero(capacity)),
        own_slots_(slots == nullptr ? new Slot[capacity]() : nullptr),
        slots_(slots == nullptr ? own_slots_.get() : slots) {
    WEFT_CHECK(capacity >= 2 && std::has_single_bit(capacity), "RunQueue: capacity must be a power of two >= 2, is ",
               capacity);
  }
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  // False: full (or a consumer has not yet emptied the slot it owns).
  [[nodiscard]] bool TryPush(FiberEntity* fiber) noexcept {  // As PushSome(), which says why each order.
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = SlotAt(tail);
      const std::uint32_t empty = EmptyTurn(tail);
      const std::uint32_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == empty) [[likely]] {
        if (tail_.compare_exchange_weak(tail, tail + 1, std::memory_order_relaxed)) {
          slot.fiber.store(fiber, std::memory_order_relaxed);
          slot.turn.store(empty + 1, std::memory_order_release);
          return true;
        }
      } else if (IsLater(turn, empty)) {
        tail = tail_.load(std::memory_order_relaxed);
      } else {
        return false;
      }
    }
  }

  // Pushes the first of `fibers`, as many as there is room for, in one step. Returns how many.
  [[nodiscard]] std::size_t PushSome(FiberEntity* const* fibers, std::size_t count) noexcept {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // A guess; the compare-exchange confirms it.
    for (;;) {
      std::size_t room = 0;
      bool moved = false;
      while (room < count && room <= mask_) {
        // acquire: the consumer's read of the slot is over before we write. Pairs with the release in PopSome().
        const std::uint32_t turn = SlotAt(tail + room).turn.load(std::memory_order_acquire);
        if (turn == EmptyTurn(tail + room)) {
          ++room;
        } else {
          moved = IsLater(turn, EmptyTurn(tail + room));  // Filled in this round: our `tail` is old.
          break;
        }
      }
      if (room == 0) {
        if (!moved) return 0;
        tail = tail_.load(std::memory_order_relaxed);
        continue;
      }
      // relaxed: the slots' turns carry the fibers. (Empty() reads tail_ between fences: RQ4.)
      if (tail_.compare_exchange_weak(tail, tail + room, std::memory_order_relaxed)) {
        for (std::size_t i = 0; i < room; ++i) {
          Slot& slot = SlotAt(tail + i);
          slot.fiber.store(fibers[i], std::memory_order_relaxed);
          // release: publishes slot.fiber and the fiber. Pairs with the acquire in PopSome().
          slot.turn.store(EmptyTurn(tail + i) + 1, std::memory_order_release);
        }
        return room;
      }
    }
  }

  // The fiber that is `ahead` places behind the head, to be prefetched, not used: it may be nullptr or another's by
  // now.
  const FiberEntity* Peek(unsigned ahead) const noexcept {
    return slots_[(head_.load(std::memory_order_relaxed) + ahead) & mask_].fiber.load(std::memory_order_relaxed);
  }

  // nullptr: empty (or the fiber at the head is not published yet: its producer will notify).
  [[nodiscard]] FiberEntity* TryPop() noexcept {  // As PopSome(), which says why each order.
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = SlotAt(head);
      const std::uint32_t filled = EmptyTurn(head) + 1;
      const std::uint32_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == filled) [[likely]] {
        if (head_.compare_exchange_weak(head, head + 1, std::memory_order_relaxed)) {
          FiberEntity* fiber = slot.fiber.load(std::memory_order_relaxed);
          slot.turn.store(filled + 1, std::memory_order_release);
          return fiber;
        }
      } else if (IsLater(turn, filled)) {
        head = head_.load(std::memory_order_relaxed);
      } else {
        return nullptr;
      }
    }
  }

  // Pops up to `max` fibers from the head in one step. Returns how many.
  [[nodiscard]] std::size_t PopSome(FiberEntity** fibers, std::size_t max) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);  // A guess; the compare-exchange confirms it.
    for (;;) {
      std::size_t found = 0;
      bool moved = false;
      while (found < max && found <= mask_) {
        // acquire: we see the fiber. Pairs with the release in PushSome().
        const std::uint32_t turn = SlotAt(head + found).turn.load(std::memory_order_acquire);
        if (turn == EmptyTurn(head + found) + 1) {
          ++found;
        } else {
          moved = IsLater(turn, EmptyTurn(head + found) + 1);  // Emptied already: our `head` is old.
          break;
        }
      }
      if (found == 0) {
        if (!moved) return 0;
        head = head_.load(std::memory_order_relaxed);
        continue;
      }
      // relaxed: the slots' turns carry the fibers.
      if (head_.compare_exchange_weak(head, head + found, std::memory_order_relaxed)) {
        for (std::size_t i = 0; i < found; ++i) {
          Slot& slot = SlotAt(head + i);
          fibers[i] = slot.fiber.load(std::memory_order_relaxed);
          // release: our read of the slot is over. Pairs with the acquire in PushSome().
          slot.turn.store(EmptyTurn(head + i) + 2, std::memory_order_release);
        }
        return found;
      }
    }
  }

  // See RQ4.
  bool Empty() const noexcept {
    // relaxed: ordered by the callers' fences. head_ first: an old head_ or a new tail_ errs towards "not empty".
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return tail_.load(std::memory_order_relaxed) == head;
  }

  // An estimate.
  std::size_t Size() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    return tail > head ? std::min<std::size_t>(tail - head, capacity()) : 0;
  }

  std::size_t capacity() const noexcept { return mask_ + 1; }

 private:
  friend class PreemptedConsumer;  // Of tests: stops where a thread may be preempted.

  Slot& SlotAt(std::uint64_t position) noexcept { return slots_[position & mask_]; }
  std::uint32_t EmptyTurn(std::uint64_t position) const noexcept {
    return static_cast<std::uint32_t>(position >> round_shift_) * 2;
  }
  static bool IsLater(std::uint32_t turn, std::uint32_t expected) noexcept {
    return static_cast<std::int32_t>(turn - expected) > 0;
  }

  // Producers and consumers on lines of their own, both apart from what never changes.
  alignas(base::kCacheLineSize) base::Atomic<std::uint64_t> tail_{0};
  alignas(base::kCacheLineSize) base::Atomic<std::uint64_t> head_{0};
  alignas(base::kCacheLineSize) const std::size_t mask_;
  const int round_shift_;
  const std::unique_ptr<Slot[]> own_slots_;
  Slot* const slots_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_RUN_QUEUE_H_
