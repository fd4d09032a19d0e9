// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GroupStacks: the stacks of a group's fibers. One pool has those of the group's size; custom pools, made on first use
// and kept, serve fibers that ask for another size or guard.
//
// A group marks each record_every-th stack that its pool hands out, and keeps the largest use: the stack is filled with
// a pattern before it is used, and afterwards one looks how far down it was written.
//
//     top - size               top - what MeasureStack() returns                      top
//     | pattern, pattern, ...  | written                                              |
//
// Sizes and guards of custom pools are rounded up to powers of two, so that many sizes share few pools.
//
// StackWaitList: the fibers of a group that found no stack (SG2 in scheduling_group.h).
//
// Invariants
//   CP1  A custom stack has at least the requested size and less than twice it, or kMinStackSize; likewise its guard
//        (kMinGuardSize).
//   CP2  The same rounded size and guard always give the same pool.
//   SWL1  First in, first out. A fiber that can never get its stack hides no other one: Take() removes it, and the
//         group queues it again behind the ready ones.
//   SWL2  Take() may overlook a fiber added before: Empty() is a relaxed load, so that giving back a stack costs
//         nothing while no fiber waits. An idle worker's retry finds it (SG2).
//
// Any thread. Lock order: StackWaitList::lock_ is held alone (base/thread/spin_lock.h).
#ifndef WEFT_SCHEDULING_GROUP_FIBER_GROUP_STACKS_H_
#define WEFT_SCHEDULING_GROUP_FIBER_GROUP_STACKS_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <mutex>

#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/context/stack/stack_pool.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::scheduling_group {

// Both touch all pages of the stack. Whoever has the stack, while nothing runs on it.
void FillStack(void* top, std::size_t size) noexcept;
// In bytes. 0: it was not filled, or has been written down to its last word. A stack that was filled for an earlier use
// gives the largest of all uses since.
std::size_t MeasureStack(const void* top, std::size_t size) noexcept;

class GroupStacks {
 public:
  static constexpr std::size_t kMinStackSize = std::size_t{1} << 14;
  static constexpr std::size_t kMaxStackSize = std::size_t{1} << 30;
  static constexpr std::size_t kMinGuardSize = std::size_t{1} << 12;
  static constexpr std::size_t kMaxGuardSize = std::size_t{1} << 24;

  // `options`: of the group's pool; custom pools differ in sizes only. record_every: 0: never.
  explicit GroupStacks(const context::StackPool::Options& options, std::size_t record_every = 0)
      : record_every_(record_every), options_(options), pool_(options) {}
  GroupStacks(const GroupStacks&) = delete;
  GroupStacks& operator=(const GroupStacks&) = delete;
  ~GroupStacks();

  context::StackPool& pool() noexcept { return pool_; }
  const context::StackPool& pool() const noexcept { return pool_; }
  // guard_bytes 0: the group's guard. nullptr: no memory for the pool. Aborts beyond the largest sizes.
  context::StackPool* OfSize(std::size_t bytes, std::size_t guard_bytes);

  // --- Of the group's pool ---

  std::size_t record_every() const noexcept { return record_every_; }
  // From now on marks each N-th stack (`every`; 0: none), and forgets the largest use so far. The group has no fibers.
  void RecordAnew(std::size_t every) noexcept {
    record_every_ = every;
    high_water_.store(0, std::memory_order_relaxed);
  }
  // A stack that is marked. nullptr: memory is exhausted. It is released to the pool after Measure().
  void* AcquireMarked();
  // Also one that is not marked, which it ignores.
  void Measure(const void* top) noexcept;
  // Bytes that a marked stack was used to, at most, so far; 0: none has come back.
  std::size_t high_water() const noexcept { return high_water_.load(std::memory_order_relaxed); }

  // Of all pools: those of fibers, and those that workers keep at hand.
  std::size_t in_use() const;

  // StackPool::Trim() of all pools; custom pools keep no warm stacks.
  std::size_t Trim(std::size_t keep_warm);

 private:
  // Index 0 stands for the group's guard.
  static constexpr std::size_t kGuards = 1 + std::bit_width(kMaxGuardSize / kMinGuardSize);
  static constexpr std::size_t kSizes = std::bit_width(kMaxStackSize / kMinStackSize);

  context::StackPool* Make(std::atomic<context::StackPool*>& place, std::size_t bytes, std::size_t guard_bytes);

  std::size_t record_every_;
  std::atomic<std::size_t> high_water_{0};
  const context::StackPool::Options options_;
  context::StackPool pool_;
  // Indexed by log2(size / kMinStackSize) and by log2(guard / kMinGuardSize) + 1.
  std::array<std::atomic<context::StackPool*>, kSizes * kGuards> custom_{};
  std::mutex making_;  // held while a pool is made, over a system call
};

class StackWaitList {
 public:
  bool Empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }

  // The caller owns the fiber.
  void Add(FiberEntity* fiber) noexcept {
    base::SpinLockGuard guard(lock_);
    fiber->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = fiber;
    last_ = fiber;
    count_.fetch_add(1, std::memory_order_relaxed);  // SWL2
  }

  // The oldest fiber, which the caller then owns, or nullptr.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* Take() noexcept {
    if (Empty()) [[likely]] {
      return nullptr;
    }
    return TakeFirst();
  }

 private:
  WEFT_NOINLINE FiberEntity* TakeFirst() noexcept {
    base::SpinLockGuard guard(lock_);
    FiberEntity* fiber = first_;
    if (fiber == nullptr) return nullptr;
    first_ = fiber->next;
    count_.fetch_sub(1, std::memory_order_relaxed);
    return fiber;
  }

  std::atomic<std::size_t> count_{0};
  base::SpinLock lock_;
  FiberEntity* first_ WEFT_GUARDED_BY(lock_) = nullptr;
  FiberEntity* last_ WEFT_GUARDED_BY(lock_) = nullptr;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_GROUP_STACKS_H_
