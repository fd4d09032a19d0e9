// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/this_fiber.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/fiber/fiber_local.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/watch/group_attention.h"
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
  const scheduling_group::ReadSection section;
  std::size_t sum = 0;
  for (const scheduling_group::SchedulingGroup* group : scheduling_group::AllGroups()) sum += group->queue_size();
  return sum;
}

// --- Hooks ---

namespace {

using fiber::detail::FiberLocalHeader;
using fiber::detail::FiberLocalTable;
using fiber::detail::LocalSlot;
using Hook = base::UniqueFunction<void()>;

// In the fiber's table, as a value that belongs to no FiberLocal.
struct StopHook {
  FiberLocalHeader header;
  Hook hook;
};

// In the slot below.
struct YieldHooks {
  FiberLocalHeader header;
  std::vector<Hook> hooks;
};

template <class T>
T* Whole(FiberLocalHeader* header) {
  static_assert(offsetof(T, header) == 0);
  return std::launder(reinterpret_cast<T*>(header));
}

LocalSlot YieldSlot() {
  static const LocalSlot slot = fiber::detail::FiberLocalSlots().Acquire();
  return slot;
}

// In place of the header that the table has made there.
template <class T>
T* MakeIn(FiberLocalTable& table) {
  FiberLocalHeader* const made = table.Allocate(sizeof(T), alignof(T));
  const FiberLocalHeader header = *made;
  return ::new (static_cast<void*>(made)) T{header, {}};
}

YieldHooks* FindYieldHooks(scheduling_group::FiberEntity* self) {
  if (self->fiber_local_slots() == nullptr) return nullptr;
  FiberLocalHeader* const header = static_cast<FiberLocalTable*>(self->fiber_local_slots())->Find(YieldSlot());
  return header != nullptr ? Whole<YieldHooks>(header) : nullptr;
}

void RunYieldHooksOfFiber(scheduling_group::FiberEntity* self) noexcept {
  YieldHooks* const yield_hooks = FindYieldHooks(self);
  if (yield_hooks == nullptr) return;
  scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
  WEFT_CHECK(!worker->must_not_switch, "OnFiberYield: a hook waits or yields");
  worker->must_not_switch = true;
  for (Hook& hook : yield_hooks->hooks) hook();
  worker->must_not_switch = false;
}

void CheckCaller(const char* function, const Hook& hook) {
  WEFT_CHECK(scheduling_group::CurrentFiber() != nullptr, function, ": the caller is not a fiber");
  WEFT_CHECK(static_cast<bool>(hook), function, ": the hook is empty");
}

}  // namespace

void OnFiberStop(Hook hook) {
  CheckCaller("OnFiberStop", hook);
  FiberLocalTable& table = FiberLocalTable::OfCaller();
  auto* const made = MakeIn<StopHook>(table);
  made->hook = std::move(hook);
  made->header.destroy = [](FiberLocalHeader* header) {
    auto* const self = Whole<StopHook>(header);
    self->hook();
    self->~StopHook();
  };
  table.AdoptWithoutSlot(&made->header);
}

void OnFiberYield(Hook hook) {
  CheckCaller("OnFiberYield", hook);
  WEFT_CHECK(!scheduling_group::CurrentWorker()->must_not_switch, "OnFiberYield: called by a hook");
  YieldHooks* yield_hooks = FindYieldHooks(scheduling_group::CurrentFiber());
  if (yield_hooks == nullptr) {
    // release: the function. Pairs with the acquire in Worker::BeforeLeaving().
    scheduling_group::yield_hook_runner.store(&RunYieldHooksOfFiber, std::memory_order_release);
    FiberLocalTable& table = FiberLocalTable::OfCaller();
    yield_hooks = MakeIn<YieldHooks>(table);
    yield_hooks->header.destroy = [](FiberLocalHeader* header) {
      scheduling_group::UnwatchLeaving();
      Whole<YieldHooks>(header)->~YieldHooks();
    };
    table.Adopt(YieldSlot(), &yield_hooks->header);
    scheduling_group::WatchLeaving();
  }
  yield_hooks->hooks.push_back(std::move(hook));
}

}  // namespace weft
