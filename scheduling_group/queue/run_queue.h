// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RunQueue: the ready fibers of one scheduling group. OverflowList: those that found it full.
//
// A RunQueue is a bounded ring of slots for many producers and many consumers. Positions count up for ever; position p
// uses slot p % capacity in round p / capacity + 1. A slot is one word: the fiber that was put there last, and its
// round.
//
//      round(slot) == round(p) - 1, head_ > p - capacity    free: the thread that exchanges its word for
//                                                           (fiber, round(p)) has pushed that fiber
//      round(slot) == round(p), head_ <= p                  filled: the thread that moves head_ past p has popped it
//
// So a push and a pop are one compare-exchange each, and a stopped thread holds up no other one. tail_ is only a hint
// at the first free slot: a producer goes on from there until it finds one. Zeroed memory is an empty queue. Rounds
// have 22 bits: to be fooled, a thread would have to sleep through four million of them, and then find the same fiber.
//
// The fibers of an OverflowList are linked through themselves: it is unbounded, without allocation. It keeps the order:
// while it is not empty all pushes go to it, and only Refill() moves fibers from its front into the run queue. `count_`
// falls after the fiber is in the run queue, both under the lock, so a producer that sees zero comes after all fibers
// of the list.
//
// Invariants
//   RQ1  A fiber is in at most one slot of one queue (it is kReady and enters once: FS3 in fiber_state.h).
//   RQ2  A fiber pushed is popped exactly once.
//   RQ3  Fibers leave in the order of their positions: those that one thread pushed leave in the order of its pushes.
//   RQ4  A push that returned true before a full fence is seen by Empty() after a full fence that follows it.
//   RQ5  A thread that fills position p, moves head_ past it or stores it in tail_ has seen all positions before it
//        filled. So filled slots have no gap, and after a slot that is not filled none is filled.
//   RQ6  TryPush() returns false only when `capacity` fibers were in the queue.
//
// The owner may bring the slots, to choose where they lie (global_queue.h): zeroed memory, of which a page is taken
// when one of its slots is first pushed to. TryPush(), TryPushAndFence(), PushSome(): any thread. TryPop(), PopSome():
// workers of this group, or of others that steal. OverflowList: any thread.
// Proven in tests/model/run_queue_model.cc and overflow_list_model.cc.
// Source: P. Tsigas and Y. Zhang, A simple, fast and scalable non-blocking concurrent FIFO queue, SPAA 2001, with
// rounds instead of their two kinds of empty slots.
// Rejected: D. Vyukov's bounded MPMC queue (a stopped producer or consumer holds up others: docs/decisions/010); tail_
// as exact as head_ (a second locked instruction in each push); one slot per cache line (each fiber moves a line).
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_RUN_QUEUE_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_RUN_QUEUE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"

namespace weft::scheduling_group {

class FiberEntity;

class RunQueue {
 public:
  // Four to a line. With eight, a consumer close behind a producer waits for its line more often (bench/workload
  // --workload=spawn_ext --workers=1: 87 ns a fiber instead of 64).
  struct alignas(16) Slot {
    base::Atomic<std::uint64_t> word{0};
  };

  // `capacity`: a power of two, at least 2. `slots`: `capacity` new ones that outlive the queue; nullptr: its own.
  explicit RunQueue(std::size_t capacity, Slot* slots = nullptr)
      : capacity_until_(capacity),
        mask_(capacity - 1),
        round_shift_(std::countr_zero(capacity)),
        own_slots_(slots == nullptr ? new Slot[capacity]() : nullptr),
        slots_(slots == nullptr ? own_slots_.get() : slots) {
    WEFT_CHECK(capacity >= 2 && std::has_single_bit(capacity), "RunQueue: capacity must be a power of two >= 2, is ",
               capacity);
  }
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  // False: full.
  [[nodiscard]] WEFT_ALWAYS_INLINE bool TryPush(FiberEntity* fiber) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);  // As in PushSome().
    base::PrefetchForWrite(&SlotAt(tail));                             // As in PrefetchForWrite().
    if (HasCapacity(tail) && TryFill(tail, fiber)) [[likely]] {
      MoveTail(tail + 1);
      return true;
    }
    return PushSome(&fiber, 1) == 1;
  }
  // The same, and a full fence (RQ4), for which the exchange of the slot is enough.
  [[nodiscard]] WEFT_ALWAYS_INLINE bool TryPushAndFence(FiberEntity* fiber) noexcept {
    if (!TryPush(fiber)) return false;
    base::FenceAfterReadModifyWrite();
    return true;
  }

  // Pushes the first of `fibers`, as many as there is room for. Returns how many.
  [[nodiscard]] WEFT_NOINLINE std::size_t PushSome(FiberEntity* const* fibers, std::size_t count) noexcept {
    // acquire, here and in FirstFreeAfter(): a thread that passes over slots unread must see them filled (RQ5). Pairs
    // with the release in MoveTail().
    std::uint64_t tail = tail_.load(std::memory_order_acquire);
    std::size_t pushed = 0;
    PrefetchForWrite(tail, count);
    while (HasCapacity(tail)) {
      if (TryFill(tail, fibers[pushed])) [[likely]] {
        ++tail;
        if (++pushed == count) break;
      } else {
        tail = FirstFreeAfter(tail);
      }
    }
    MoveTail(tail);
    return pushed;
  }

  // The fiber `ahead` places behind the head, for a prefetch only: it may be nullptr, or have been popped by now.
  const FiberEntity* Peek(unsigned ahead) const noexcept {
    return FiberIn(
        slots_[(head_.load(std::memory_order_relaxed) + ahead) & mask_].word.load(std::memory_order_relaxed));
  }

  // nullptr: empty.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* TryPop() noexcept {
    FiberEntity* fiber;  // PopSome() writes it before it knows that it has popped.
    return PopSome(&fiber, 1) != 0 ? fiber : nullptr;
  }

  // Pops up to `max` fibers from the head in one step. Returns how many.
  [[nodiscard]] WEFT_ALWAYS_INLINE std::size_t PopSome(FiberEntity** fibers, std::size_t max) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);  // A guess; the compare-exchange confirms it.
    for (;;) {
      std::size_t found = 0;
      std::uint64_t rounds = kFilled;
      while (found < max) {
        // acquire: we see the fiber. Pairs with the release in TryFill().
        const std::uint64_t word = SlotAt(head + found).word.load(std::memory_order_acquire);
        rounds = RoundsSince(RoundBefore(head + found), word);
        if (rounds != kFilled) break;
        fibers[found++] = FiberIn(word);
      }
      if (found == 0) {
        if (rounds == kFree) return 0;
        head = head_.load(std::memory_order_relaxed);  // The slot was filled anew, so our head is old.
        continue;
      }
      // release: a thread that fills a slot anew reads what we have read, or newer. Pairs with the acquire in
      // ReloadCapacity(). No slot is filled anew before head_ is past it, so we have read what is there.
      if (head_.compare_exchange_weak(head, head + found, std::memory_order_release, std::memory_order_relaxed))
          [[likely]] {
        return found;
      }
    }
  }

  // See RQ4.
  bool Empty() const noexcept {
    // relaxed: ordered by the callers' fences. An old head_ errs towards "not empty".
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return RoundsSince(RoundBefore(head), slots_[head & mask_].word.load(std::memory_order_relaxed)) == kFree;
  }

  // The number of fibers, up to `at_most`, as exact as Empty() (RQ4). Reads each slot.
  std::size_t Count(std::size_t at_most) const noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    std::size_t n = 0;
    while (n < at_most) {
      // relaxed, all: as in Empty().
      const std::uint64_t word = slots_[(head + n) & mask_].word.load(std::memory_order_relaxed);
      const std::uint64_t rounds = RoundsSince(RoundBefore(head + n), word);
      if (rounds == kFree) break;
      ++n;
      if (rounds == kFilled) continue;
      head = head_.load(std::memory_order_relaxed);  // The slot was filled anew, so our head is old.
      n = 0;
    }
    return n;
  }

  // An estimate: after pushes at the same time it may be too small until the next push.
  std::size_t Size() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    return tail > head ? std::min<std::size_t>(tail - head, capacity()) : 0;
  }

  std::size_t capacity() const noexcept { return mask_ + 1; }

  // Whether fibers below the address `end` can be pushed. The kernel gives longer addresses only after a hint to mmap()
  // above 2^48, so each piece of memory for fibers is checked once (node_arena.cc).
  static bool FitBelow(const void* end) noexcept {
    return reinterpret_cast<std::uintptr_t>(end) <= std::uintptr_t{1} << (64 - kAddressShift);
  }

 private:
  // A fiber's address has 48 bits, of which the last six are zero: 42 bits and the round.
  static constexpr int kRoundBits = 22;
  static constexpr std::uint64_t kRoundMask = (std::uint64_t{1} << kRoundBits) - 1;
  static constexpr int kAddressShift = 16;
  static constexpr int kZeroBits = kRoundBits - kAddressShift;

  static std::uint64_t WordOf(FiberEntity* fiber, std::uint64_t round) noexcept {
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(fiber);
    WEFT_DCHECK((address & ~(~std::uintptr_t{0} >> kAddressShift)) == 0 && address % (1 << kZeroBits) == 0,
                "RunQueue: a fiber at an address of more than 48 bits, or not on a cache line");
    return address << kAddressShift | (round & kRoundMask);
  }
  static FiberEntity* FiberIn(std::uint64_t word) noexcept {
    const std::uintptr_t address = word >> kRoundBits << kZeroBits;
    return reinterpret_cast<FiberEntity*>(address);
  }
  // By how many rounds the slot's word is ahead of the round before ours.
  static constexpr std::uint64_t kFree = 0;
  static constexpr std::uint64_t kFilled = 1;
  static std::uint64_t RoundsSince(std::uint64_t round_before, std::uint64_t word) noexcept {
    return (word - round_before) & kRoundMask;
  }
  std::uint64_t RoundBefore(std::uint64_t position) const noexcept { return position >> round_shift_; }
  Slot& SlotAt(std::uint64_t position) noexcept { return slots_[position & mask_]; }

  // Whether the slot's former fiber has been popped.
  WEFT_ALWAYS_INLINE bool HasCapacity(std::uint64_t tail) noexcept {
    // acquire: we see the slot's word of the round before, or newer. Pairs with the release in ReloadCapacity() by
    // another producer, which saw it.
    return tail < capacity_until_.load(std::memory_order_acquire) || ReloadCapacity(tail);
  }
  WEFT_NOINLINE bool ReloadCapacity(std::uint64_t tail) noexcept {
    // acquire: as in HasCapacity(). Pairs with the release in PopSome().
    const std::uint64_t capacity_until = head_.load(std::memory_order_acquire) + capacity();
    capacity_until_.store(capacity_until, std::memory_order_release);
    return tail < capacity_until;
  }

  // False: another thread has filled it.
  WEFT_ALWAYS_INLINE bool TryFill(std::uint64_t position, FiberEntity* fiber) noexcept {
    Slot& slot = SlotAt(position);
    const std::uint64_t round_before = RoundBefore(position);
    std::uint64_t word = slot.word.load(std::memory_order_relaxed);
    if (RoundsSince(round_before, word) != kFree) return false;
    // release: publishes the fiber. Pairs with the acquire in PopSome(). seq_cst: for TryPushAndFence().
    return slot.word.compare_exchange_strong(word, WordOf(fiber, round_before + 1), std::memory_order_seq_cst,
                                             std::memory_order_relaxed);
  }

  // Prefetches the lines of the first slots from `position` on: else each moves twice, for the read and for the write,
  // which the exchange waits for (bench/workload --workload=yield --workers=2: 40 ns without, 38 with).
  void PrefetchForWrite(std::uint64_t position, std::size_t count) noexcept {
    constexpr std::size_t kSlotsPerLine = base::kCacheLineSize / sizeof(Slot);
    constexpr std::size_t kMost = 16;
    const std::size_t last = std::min(count, kMost) - 1;
    for (std::size_t i = 0; i < last; i += kSlotsPerLine) base::PrefetchForWrite(&SlotAt(position + i));
    base::PrefetchForWrite(&SlotAt(position + last));
  }

  // The next position to try after a filled one.
  WEFT_NOINLINE std::uint64_t FirstFreeAfter(std::uint64_t position) const noexcept {
    return std::max({position + 1, tail_.load(std::memory_order_acquire), head_.load(std::memory_order_relaxed)});
  }

  // Moves tail_ back only if another thread moves it at the same time.
  WEFT_ALWAYS_INLINE void MoveTail(std::uint64_t tail) noexcept {
    // release: the slots before it are filled (RQ5). Pairs with the acquires in PushSome() and FirstFreeAfter().
    if (tail > tail_.load(std::memory_order_relaxed)) tail_.store(tail, std::memory_order_release);
  }

  // Producers and consumers on lines of their own, both apart from what never changes.
  alignas(base::kCacheLineSize) base::Atomic<std::uint64_t> tail_{0};
  // A former head_ plus the capacity: it spares producers the consumers' line.
  base::Atomic<std::uint64_t> capacity_until_;
  alignas(base::kCacheLineSize) base::Atomic<std::uint64_t> head_{0};
  alignas(base::kCacheLineSize) const std::size_t mask_;
  const int round_shift_;
  const std::unique_ptr<Slot[]> own_slots_;
  Slot* const slots_;
};

class OverflowList {
 public:
  // relaxed: a guess for the fast path; PushBehind() and Refill() decide under the lock. HasWork() callers fence.
  bool Empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }
  // As Empty(), before a look at the run queue: a thread that sees the list emptied sees its fibers in the queue.
  // acquire: pairs with the release in RemoveFront().
  bool EmptiedInto(const RunQueue& queue) const noexcept {
    return count_.load(std::memory_order_acquire) == 0 && queue.Empty();
  }
  std::size_t Size() const noexcept { return count_.load(std::memory_order_relaxed); }

  // Pushes the fibers behind all others: into `queue` while the list is empty and the queue has room, else into the
  // list. Returns how many went into the list.
  std::size_t PushBehind(RunQueue& queue, FiberEntity* const* fibers, std::size_t count) noexcept WEFT_EXCLUDES(lock_);

  // Moves fibers from the front into `queue`, as many as there is room for.
  void Refill(RunQueue& queue) noexcept WEFT_EXCLUDES(lock_);

 private:
  void RemoveFront(FiberEntity* next) noexcept WEFT_REQUIRES(lock_);

  base::SpinLock lock_;
  FiberEntity* head_ WEFT_GUARDED_BY(lock_) = nullptr;
  FiberEntity* tail_ WEFT_GUARDED_BY(lock_) = nullptr;
  base::Atomic<std::size_t> count_{0};  // written under the lock
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_RUN_QUEUE_H_
