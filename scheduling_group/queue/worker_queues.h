// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a worker keeps at hand, and other workers can still take: a HandOffSlot, LocalRings and a LocalDeque. Only the
// owner fills them. The policies put them together.
//
// HandOffSlot: the fiber that a worker runs next, ahead of its queues. A fiber that wakes another one puts it there, so
// that message passing stays on one core. A fiber that starts another while the queue is full waits there until the new
// one waits or ends, so that a tree of fibers larger than the queue runs depth first, with few stacks.
//
// LocalRing: a few ready fibers, first in, first out: a bounded ring with one producer, the owner, whose pushes are
// plain stores, and many consumers. A pop moves `head_` by compare-exchange, which costs the owner little, since no
// other worker touches the line while all are busy.
//
// LocalDeque: the fibers that a worker's fibers have started. The worker takes the newest, thieves the oldest: a tree
// of fibers runs depth first, with few stacks, and a thief takes the largest subtree. A bounded ring: positions count
// up for ever, position p uses slot p % kCapacity, and the fibers are at top_ .. bottom_ - 1.
//
//   the owner pushes       slot[bottom] = fiber; bottom + 1                         no locked instruction
//   the owner pops         bottom - 1; full fence; look at top                      a compare-exchange for the last one
//   a thief takes one      look at top; full fence; look at bottom; read the slot; compare-exchange top to top + 1
//   the owner takes many   as a thief, top to top + n: only it moves bottom_
//
// Invariants
//   HS1  Only its worker fills a slot, and only an empty one. Any worker of the group empties it, by an exchange.
//   HS2  While a worker of the group is idle, a fiber waits in a slot for about 2 * kHandOffPatience at most: a spinner
//        samples the slots every kHandOffPatience and takes a fiber that two samples find under the same ticket. Like
//        any push, filling a slot is followed by a full fence and a notification. No worker goes to sleep while a slot
//        is full (HasWork).
//   HS3  A worker serves its slot at most kMaxHandOffs times in a row while other fibers wait for it, so ping-pong
//        starves none. The policy that owns the slot counts.
//   LR1  Only the owner moves tail_ and writes slots; slot i is written for position p only when head_ > p - kCapacity.
//   LR2  A consumer that moves head_ from h to h + n has read the slots of h .. h + n - 1 as they were pushed: a slot
//        is overwritten only after head_ has passed it, and then the compare-exchange fails.
//   LR3  A fiber pushed before a full fence is seen by Empty() after a full fence that follows it, until it is taken.
//   LD1  Only the owner moves bottom_ and writes slots; it writes position p's only when top_ > p - kCapacity.
//   LD2  A fiber pushed is taken once. When the owner goes down to position p and a thief goes up to it, the one whose
//        fence is second sees the other. The compare-exchange of top_ decides who gets the last fiber.
//   LD3  As LR3, of a LocalDeque.
//
// Proven in tests/model/hand_off_slot_model.cc, local_ring_model.cc and local_deque_model.cc; HS3 is tested in
// tests/scheduling_group/policy_test.cc.
//
// Source: for LocalRing the per-processor queues of Go's scheduler; for LocalDeque D. Chase and Y. Lev, Dynamic
// circular work-stealing deque, SPAA 2005; N. M. Le and others, Correct and efficient work-stealing for weak memory
// models, PPoPP 2013. (The release on each store to bottom_ is ours: C++20 has no release sequence through the owner's
// own relaxed stores.)
// Rejected: taking a fiber from a slot at first sight (it moves to another core just before its own worker would have
// run it); slots biased to their worker until a spinner revokes the bias by membarrier(2) (saves 8 ns for a second
// protocol with six invariants: docs/decisions/001); stealing half of a deque in one step (the owner needs a locked
// instruction for each pop that a thief's half may reach); its top and bottom in one word (a locked instruction for
// each push).
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_WORKER_QUEUES_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_WORKER_QUEUES_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"

namespace weft::scheduling_group {

class FiberEntity;

// Well above the 50 to 100 ns that a fiber of a message-passing pair runs between two hand-offs.
inline constexpr std::chrono::microseconds kHandOffPatience{3};
inline constexpr std::uint32_t kMaxHandOffs = 16;

class alignas(base::kCacheLineSize) HandOffSlot {
 public:
  // Its worker. False: the slot is full.
  [[nodiscard]] bool TryFill(FiberEntity* fiber) noexcept {
    if (Full()) return false;  // Only we fill it (HS1).
    CountFilling();
    // release: publishes the fiber. Pairs with the acquire in Take().
    fiber_.store(fiber, std::memory_order_release);
    return true;
  }

  // As TryFill(), and a full fence. One exchange costs less than a store and a fence.
  [[nodiscard]] WEFT_ALWAYS_INLINE bool TryFillAndFence(FiberEntity* fiber) noexcept {
    if (Full()) return false;
    CountFilling();
    // seq_cst: publishes the fiber as in TryFill(), and FenceAfterReadModifyWrite() requires it.
    fiber_.exchange(fiber, std::memory_order_seq_cst);
    base::FenceAfterReadModifyWrite();
    return true;
  }

  // Any worker of the group. nullptr: the slot is empty.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* Take() noexcept {
    if (!Full()) return nullptr;  // Saves the exchange.
    // acquire: pairs with the release in TryFill() and TryFillAndFence().
    return fiber_.exchange(nullptr, std::memory_order_acquire);
  }

  // relaxed, both: callers order them by fences, or use them for heuristics.
  [[nodiscard]] bool Full() const noexcept { return fiber_.load(std::memory_order_relaxed) != nullptr; }
  std::uint32_t ticket() const noexcept { return ticket_.load(std::memory_order_relaxed); }

 private:
  // relaxed: a spinner that reads an old ticket waits a little longer or takes the fiber a little early.
  void CountFilling() noexcept {
    ticket_.store(ticket_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  base::Atomic<FiberEntity*> fiber_{nullptr};
  base::Atomic<std::uint32_t> ticket_{0};  // counts fillings
};

// What a spinning worker remembers of the other workers' slots between two searches.
struct SpinMemory {
  std::vector<std::uint32_t> seen;  // by worker; for the policy
  std::chrono::steady_clock::time_point sampled_at;
  bool active = false;  // at `sampled_at` the group's workers were handing fibers to each other

  void Forget() {
    seen.clear();
    active = false;
  }
};

// By the spinning worker `self`, at the time `now`: takes a fiber that another worker has left in its slot for
// kHandOffPatience (HS2). nullptr: there is none. worker_queues[i].slot is the slot of worker i.
template <class WorkerQueues>
FiberEntity* TakeNeglectedHandOff(std::span<WorkerQueues> worker_queues, unsigned self,
                                  std::chrono::steady_clock::time_point now, SpinMemory* memory) {
  const bool first = memory->seen.empty();
  if (!first && now - memory->sampled_at < kHandOffPatience) return nullptr;  // Too early to tell.
  if (first) memory->seen.assign(worker_queues.size(), 0);
  memory->sampled_at = now;
  memory->active = false;
  for (unsigned other = 0; other < worker_queues.size(); ++other) {
    if (other == self) continue;
    HandOffSlot& slot = worker_queues[other].slot;
    const std::uint32_t ticket = slot.ticket();
    const bool full = slot.Full();
    const bool changed = !first && ticket != memory->seen[other];
    memory->seen[other] = ticket;
    if (!first && full && !changed) {
      // The slot may have changed since; any fiber will do.
      if (FiberEntity* fiber = slot.Take()) return fiber;
    }
    memory->active |= full || changed;
  }
  return nullptr;
}

// Push(), PushSome(): the owner. Pop(), PopAll(), PopHalf(), Empty(), Size(): any worker.
template <std::uint32_t kRingCapacity>
class alignas(base::kCacheLineSize) LocalRing {
 public:
  static constexpr std::uint32_t kCapacity = kRingCapacity;
  static_assert((kCapacity & (kCapacity - 1)) == 0, "a power of two");

  // The owner. False: full.
  [[nodiscard]] bool Push(FiberEntity* fiber) noexcept { return PushSome(&fiber, 1) == 1; }

  // The owner: the first of `fibers`, as many as there is room for, in one step. Returns how many.
  [[nodiscard]] WEFT_ALWAYS_INLINE std::uint32_t PushSome(FiberEntity* const* fibers, std::uint32_t count) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);  // Ours (LR1).
    // acquire: the consumers' reads of the slots are over. Pairs with the release in Take().
    const std::uint32_t capacity = kCapacity - (tail - head_.load(std::memory_order_acquire));
    const std::uint32_t pushed = std::min(count, capacity);
    if (pushed == 0) return 0;
    for (std::uint32_t i = 0; i < pushed; ++i) {
      slots_[(tail + i) % kCapacity].store(fibers[i], std::memory_order_relaxed);
    }
    // release: publishes the slots and the fibers. Pairs with the acquire in Take().
    tail_.store(tail + pushed, std::memory_order_release);
    return pushed;
  }

  // Any worker: the oldest fiber; nullptr: empty.
  [[nodiscard]] FiberEntity* Pop() noexcept {
    FiberEntity* fiber;  // Take() writes it before it knows that it has popped.
    return Take(&fiber, [](std::uint32_t) { return 1u; }) != 0 ? fiber : nullptr;
  }

  // Any worker: all fibers, oldest first. `fibers` has room for kCapacity. Returns how many.
  [[nodiscard]] std::uint32_t PopAll(FiberEntity** fibers) noexcept {
    return Take(fibers, [](std::uint32_t size) { return size; });
  }

  // Any worker: the older half, at least one, at most `max`.
  [[nodiscard]] std::uint32_t PopHalf(FiberEntity** fibers, std::uint32_t max = kCapacity) noexcept {
    return Take(fibers, [max](std::uint32_t size) { return std::min((size + 1) / 2, max); });
  }

  // relaxed: ordered by the callers' fences (LR3).
  bool Empty() const noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    return tail_.load(std::memory_order_relaxed) == head;
  }
  // An estimate, 0 .. kCapacity. relaxed: either may be older than the other.
  std::uint32_t Size() const noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const auto size = static_cast<std::int32_t>(tail_.load(std::memory_order_relaxed) - head);
    return static_cast<std::uint32_t>(std::clamp<std::int32_t>(size, 0, kCapacity));
  }

 private:
  template <class HowMany>
  std::uint32_t Take(FiberEntity** fibers, HowMany how_many) noexcept {
    std::uint32_t head = head_.load(std::memory_order_relaxed);  // A guess; the compare-exchange confirms it.
    for (;;) {
      // acquire: we see the slots and the fibers. Pairs with the release in PushSome().
      const std::uint32_t size = tail_.load(std::memory_order_acquire) - head;
      if (size == 0) return 0;
      if (size > kCapacity) {  // Our head_ is old, or our tail_ is older than head_.
        head = head_.load(std::memory_order_relaxed);
        continue;
      }
      const std::uint32_t n = how_many(size);
      for (std::uint32_t i = 0; i < n; ++i) {
        fibers[i] = slots_[(head + i) % kCapacity].load(std::memory_order_relaxed);
      }
      // release: our reads of the slots are over. Pairs with the acquire in PushSome(), also through later takers'
      // exchanges (a release sequence). No acquire: tail_ carries what we take, and a tail_ older than the head_ read
      // on failure shows as a size above kCapacity.
      if (head_.compare_exchange_strong(head, head + n, std::memory_order_release, std::memory_order_relaxed)) {
        return n;
      }
    }
  }

  base::Atomic<std::uint32_t> head_{0};
  base::Atomic<std::uint32_t> tail_{0};
  base::Atomic<FiberEntity*> slots_[kCapacity]{};
};

// Push(), PopNewest(), PopOldest(): the owner. Steal(), Empty(), Size(): any thread.
template <std::int64_t kDequeCapacity>
class alignas(base::kCacheLineSize) LocalDeque {
 public:
  static constexpr std::int64_t kCapacity = kDequeCapacity;
  static_assert((kCapacity & (kCapacity - 1)) == 0, "a power of two");

  // The owner. False: full.
  [[nodiscard]] bool Push(FiberEntity* fiber) noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // Ours (LD1).
    if (bottom - top_seen_ == kCapacity) {
      // acquire: the takers' reads of the slot are over. Pairs with the release in Steal().
      top_seen_ = top_.load(std::memory_order_acquire);
      if (bottom - top_seen_ == kCapacity) return false;
    }
    SlotAt(bottom).store(fiber, std::memory_order_relaxed);
    // release: publishes the slot and the fiber. Pairs with the acquire in Steal().
    bottom_.store(bottom + 1, std::memory_order_release);
    return true;
  }

  // The owner: the newest fiber; nullptr: empty.
  [[nodiscard]] FiberEntity* PopNewest() noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    // relaxed: top_ only grows, so an old value errs towards "not empty".
    if (top_.load(std::memory_order_relaxed) > bottom) return nullptr;
    // release, here and below: a thief that reads this value also sees the fibers beneath.
    bottom_.store(bottom, std::memory_order_release);
    // StoreLoad: we see a thief's top_, or it sees our bottom_ (LD2). Pairs with the fence in Steal().
    base::ThreadFence(std::memory_order_seq_cst);
    std::int64_t top = top_.load(std::memory_order_relaxed);
    if (top < bottom) return SlotAt(bottom).load(std::memory_order_relaxed);
    FiberEntity* fiber = nullptr;
    // The last one. relaxed: it is our own fiber, in our own slot.
    if (top == bottom && top_.compare_exchange_strong(top, top + 1, std::memory_order_relaxed)) {
      fiber = SlotAt(bottom).load(std::memory_order_relaxed);
    }
    bottom_.store(bottom + 1, std::memory_order_release);
    return fiber;
  }

  // The owner: up to `max` of the oldest, oldest first, in one step. Returns how many.
  [[nodiscard]] std::size_t PopOldest(FiberEntity** fibers, std::size_t max) noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    std::int64_t top = top_.load(std::memory_order_relaxed);  // A guess; the compare-exchange confirms it.
    for (;;) {
      const std::int64_t n = std::min<std::int64_t>(bottom - top, static_cast<std::int64_t>(max));
      if (n <= 0) return 0;
      for (std::int64_t i = 0; i < n; ++i) fibers[i] = SlotAt(top + i).load(std::memory_order_relaxed);
      // relaxed: our own fibers, in our own slots.
      if (top_.compare_exchange_strong(top, top + n, std::memory_order_relaxed)) return static_cast<std::size_t>(n);
    }
  }

  // Any thread: the oldest fiber; nullptr: empty.
  [[nodiscard]] FiberEntity* Steal() noexcept {
    for (;;) {
      std::int64_t top = top_.load(std::memory_order_relaxed);
      // relaxed: an empty deque costs no fence.
      if (top >= bottom_.load(std::memory_order_relaxed)) return nullptr;
      // StoreLoad, in effect: if the owner read a top_ older than ours, we read the bottom_ that it had stored before
      // (LD2). Pairs with the fence in PopNewest().
      base::ThreadFence(std::memory_order_seq_cst);
      // acquire: we see the slot and the fiber. Pairs with the release in Push().
      if (top >= bottom_.load(std::memory_order_acquire)) return nullptr;
      FiberEntity* fiber = SlotAt(top).load(std::memory_order_relaxed);
      // release: our read of the slot is over. Pairs with the acquire in Push(), also through later takers' exchanges.
      if (top_.compare_exchange_strong(top, top + 1, std::memory_order_release, std::memory_order_relaxed)) {
        return fiber;
      }
    }
  }

  // relaxed: ordered by the callers' fences (LD3).
  bool Empty() const noexcept {
    const std::int64_t top = top_.load(std::memory_order_relaxed);
    return bottom_.load(std::memory_order_relaxed) <= top;
  }
  // An estimate, 0 .. kCapacity. relaxed: either may be older than the other.
  std::size_t Size() const noexcept {
    const std::int64_t top = top_.load(std::memory_order_relaxed);
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(bottom_.load(std::memory_order_relaxed) - top, 0, kCapacity));
  }

 private:
  base::Atomic<FiberEntity*>& SlotAt(std::int64_t position) noexcept {
    return slots_[static_cast<std::size_t>(position) % std::size_t{kCapacity}];
  }

  // The thieves' line and the owner's.
  base::Atomic<std::int64_t> top_{0};
  alignas(base::kCacheLineSize) base::Atomic<std::int64_t> bottom_{0};
  std::int64_t top_seen_ = 0;  // The owner's copy: spares it the thieves' line.
  alignas(base::kCacheLineSize) base::Atomic<FiberEntity*> slots_[std::size_t{kCapacity}]{};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_WORKER_QUEUES_H_
