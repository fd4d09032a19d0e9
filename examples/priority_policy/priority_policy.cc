// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/priority_policy/priority_policy.h"

#include <atomic>
#include <cstddef>

namespace examples {
namespace {

// Under the lock. relaxed: the lock orders the writers; see HasWork() for the readers.
void Increment(std::atomic<std::size_t>* count) {
  count->store(count->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}
void Decrement(std::atomic<std::size_t>* count) {
  count->store(count->load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

}  // namespace

void PriorityPolicy::PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason /*reason*/, int /*worker*/) {
  weft::base::SpinLockGuard guard(lock_);
  for (std::size_t i = 0; i < count; ++i) {
    if (Full()) Increment(&overflow_);
    Add(fibers[i]);
  }
}

bool PriorityPolicy::TryPushNew(FiberEntity* fiber, int /*worker*/) {
  weft::base::SpinLockGuard guard(lock_);
  if (Full()) return false;
  Add(fiber);
  return true;
}

PriorityPolicy::FiberEntity* PriorityPolicy::Pop(unsigned /*worker*/, bool* /*must_notify*/) {
  if (!HasWork()) return nullptr;  // Without the lock: idle workers look often.
  weft::base::SpinLockGuard guard(lock_);
  if (!HasWork()) return nullptr;
  Level& level = NextLevel();
  const bool local = level.stealable.Empty() || (level.local_next && !level.local.Empty());
  level.local_next = !local;
  return Take(level, local);
}

PriorityPolicy::FiberEntity* PriorityPolicy::Steal(bool* /*must_notify*/) {
  if (!HasStealable()) return nullptr;
  weft::base::SpinLockGuard guard(lock_);
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    if (!level->stealable.Empty()) return Take(*level, /*local=*/false);
  }
  return nullptr;
}

void PriorityPolicy::Add(FiberEntity* fiber) {
  Level& level = levels_[fiber->priority()];
  if (fiber->group_local()) {
    level.local.Push(fiber);
  } else {
    level.stealable.Push(fiber);
    Increment(&stealable_);
  }
  Increment(&size_);
}

PriorityPolicy::Level& PriorityPolicy::NextLevel() {
  int next = HighestBelow(kLevels);
  if (++pops_ % kTurnEvery == 0) {
    if (const int below = HighestBelow(turn_); below >= 0) next = below;
    turn_ = next;
  }
  return levels_[static_cast<std::size_t>(next)];
}

PriorityPolicy::FiberEntity* PriorityPolicy::Take(Level& level, bool local) {
  Decrement(&size_);
  if (local) return level.local.Pop();
  Decrement(&stealable_);
  return level.stealable.Pop();
}

int PriorityPolicy::HighestBelow(int end) const {
  while (--end >= 0 && levels_[static_cast<std::size_t>(end)].Empty()) {
  }
  return end;
}

}  // namespace examples
