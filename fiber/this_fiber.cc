// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/this_fiber.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weft/base/report/check.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/outside_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/worker.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

namespace fiber::detail {

void SleepFor(std::chrono::nanoseconds duration) {
  const synchronization::UnendedWait named("FiberSleepFor()");
  synchronization::CheckInterrupted(synchronization::SleepFor(duration, synchronization::Interruptible::kYes));
}

}  // namespace fiber::detail

void FiberYield() {
  scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
  const scheduling_group::FiberEntity* self = nullptr;
  if (worker != nullptr) self = worker->current;
  WEFT_CHECK(self != nullptr, "FiberYield: the caller is not a fiber");
  static_cast<scheduling_group::Worker*>(worker)->YieldCurrent();  // As YieldCurrentFiber(), without a second look.
  if (WEFT_UNLIKELY(self->cancel_word.pending_or_timed())) synchronization::TestCancelled();
}

void FiberSleepUntil(Deadline deadline) {
  const synchronization::UnendedWait named("FiberSleepUntil()");
  synchronization::CheckInterrupted(synchronization::SleepUntil(deadline, synchronization::Interruptible::kYes));
}

bool IsRunningInFiberWorker() noexcept { return scheduling_group::CurrentFiber() != nullptr; }

std::uint64_t GetFiberId() noexcept {
  const scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  return self != nullptr ? self->id() : 0;
}

std::string_view GetFiberName() noexcept {
  const scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  return self != nullptr ? self->name() : "";
}

std::size_t GetFiberCount() {
  // A thread that is not in the child may hold a lock of the pool.
  return scheduling_group::IsForkedChild() ? 0 : scheduling_group::EntityPool::LiveFibers();
}

std::size_t GetFiberQueueSize() {
  const scheduling_group::OutsideSection section;
  std::size_t sum = 0;
  for (const scheduling_group::SchedulingGroup* group : scheduling_group::AllGroups()) sum += group->queue_size();
  return sum;
}

}  // namespace weft
