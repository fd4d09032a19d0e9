// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PriorityPolicy: a scheduling policy of a user's own. It runs fibers by their FiberAttributes::priority, 7 first.
//
// Each priority has a level, first in, first out: whatever makes a fiber ready, it goes to the end of its level. One
// lock guards all levels.
//
//   Pop     seven of eight   the highest level that has fibers
//           each eighth      the next level that has fibers, below that of the last such turn; below the lowest comes
//                            the highest again. So each level has a turn in 8 * 8 pops, and none starves.
//   Steal   the highest level that has a fiber which may leave its group
//
// A level is two lists, one of them for group-local fibers, so that a thief need not look for the others. A level that
// has both gives from them by turns.
//
// Why no wake-up is lost (SP1 to SP3 in scheduling_policy.h): the counts behind HasWork() and HasStealable() change
// under the lock, with the lists. After a push and the two fences a reader finds the push's count or a later one, and
// these count the fiber until it is handed out. All fibers are in the levels, where any worker finds them: no worker
// keeps one for itself, and none is hidden for a moment, so must_notify stays as it is.
//
// The bounded queue is that of all levels together: when it is full of fibers of low priority, starts of high priority
// wait, too. (Else TryPushNew() would compare the level's own count.)
//
// Simpler than v1 and v2, and slower where many workers meet at the lock: they have local queues and none.
#ifndef WEFT_EXAMPLES_PRIORITY_POLICY_PRIORITY_POLICY_H_
#define WEFT_EXAMPLES_PRIORITY_POLICY_PRIORITY_POLICY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace examples {

class PriorityPolicy final : public weft::scheduling_group::SchedulingPolicy {
 public:
  using FiberEntity = weft::scheduling_group::FiberEntity;
  using ReadyReason = weft::scheduling_group::ReadyReason;
  using SpinMemory = weft::scheduling_group::SpinMemory;

  static constexpr int kLevels = FiberEntity::kMaxPriority + 1;
  static constexpr std::uint32_t kTurnEvery = 8;

  explicit PriorityPolicy(const Options& options) : capacity_(options.run_queue_size) {}

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override { PushBatch(&fiber, 1, reason, worker); }
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override;
  [[nodiscard]] bool TryPushNew(FiberEntity* fiber, int worker) override;
  [[nodiscard]] FiberEntity* Pop(unsigned worker, bool* must_notify) override;
  [[nodiscard]] FiberEntity* PopFromBusyWorkers(unsigned, SpinMemory*) override { return nullptr; }
  [[nodiscard]] FiberEntity* Steal(bool* must_notify) override;

  bool HasWork() const override { return Size() != 0; }
  // relaxed, here and below: the callers' fences order it, or it is an estimate.
  bool HasStealable() const override { return stealable_.load(std::memory_order_relaxed) != 0; }
  bool Full() const override { return Size() >= capacity_; }
  bool HalfEmpty() const override { return Size() <= capacity_ / 2; }
  std::size_t Size() const override { return size_.load(std::memory_order_relaxed); }
  std::size_t OverflowCount() const override { return overflow_.load(std::memory_order_relaxed); }

 private:
  // Fibers that are linked through themselves: it never needs memory.
  class List {
   public:
    bool Empty() const noexcept { return first_ == nullptr; }
    void Push(FiberEntity* fiber) noexcept {
      fiber->next = nullptr;
      (Empty() ? first_ : last_->next) = fiber;
      last_ = fiber;
    }
    // There is one.
    FiberEntity* Pop() noexcept { return std::exchange(first_, first_->next); }

   private:
    FiberEntity* first_ = nullptr;
    FiberEntity* last_ = nullptr;
  };
  struct Level {
    bool Empty() const noexcept { return stealable.Empty() && local.Empty(); }

    List stealable;
    List local;
    bool local_next = false;
  };

  void Add(FiberEntity* fiber) WEFT_REQUIRES(lock_);
  // There is a fiber.
  Level& NextLevel() WEFT_REQUIRES(lock_);
  FiberEntity* Take(Level& level, bool local) WEFT_REQUIRES(lock_);
  // The highest level below `end` that has fibers; -1: there is none.
  int HighestBelow(int end) const WEFT_REQUIRES(lock_);

  const std::size_t capacity_;
  weft::base::SpinLock lock_;
  std::array<Level, kLevels> levels_ WEFT_GUARDED_BY(lock_);
  std::uint32_t pops_ WEFT_GUARDED_BY(lock_) = 0;
  int turn_ WEFT_GUARDED_BY(lock_) = kLevels - 1;  // the level of the last turn
  // Written under the lock.
  std::atomic<std::size_t> size_{0};
  std::atomic<std::size_t> stealable_{0};
  std::atomic<std::size_t> overflow_{0};
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_PRIORITY_POLICY_PRIORITY_POLICY_H_
