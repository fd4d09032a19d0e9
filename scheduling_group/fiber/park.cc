// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/park.h"

#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/idle/adoption.h"
#include "weft/scheduling_group/worker/worker.h"

namespace weft::scheduling_group {

void ParkPrepared(FiberEntity* self) noexcept {
  if (self->state().ResumedInPlace()) return;
  static_cast<Worker*>(CurrentWorker())->Park(self);
}

void ParkKeeping(FiberEntity* self) noexcept {
  auto* const worker = static_cast<Worker*>(CurrentWorker());
  if (self->state().ResumedInPlace()) return worker->GiveUpTimers();
  worker->ParkKeeping(self);  // As in ParkPrepared(): one more frame of a cold stack costs 70 ns a sleeper.
}

void ParkAndPublish(FiberEntity* self, bool (*publish)(void*) noexcept, void* argument, WaitReason reason) noexcept {
  self->set_wait_reason(reason);
  static_cast<Worker*>(CurrentWorker())->ParkAndPublish(self, publish, argument);
}

namespace {

// Before the push the fiber keeps the runtime alive, after it the section does.
WEFT_NOINLINE void ReadyFromOutside(SchedulingGroup* group, FiberEntity* fiber) noexcept {
  const ReadSection section;
  fiber->set_partner(kNoPartner);
  group->ReadyBy(nullptr, SchedulingPolicy::kNoWorker, fiber, ReadyReason::kWoken);
}

// Also a fiber that comes to the caller's group by it: it goes where those woken from outside go (AD4).
WEFT_NOINLINE void ReadyAcrossGroups(WorkerBase* caller, FiberEntity* fiber) noexcept {
  SchedulingGroup* const group = GroupAfterWake(caller, fiber);
  group->ReadyBy(caller, SchedulingPolicy::kNoWorker, fiber, ReadyReason::kWoken);
}

// By the waker, whom the fiber now belongs to.
WEFT_ALWAYS_INLINE void ReadyWoken(FiberEntity* fiber) noexcept {
  SchedulingGroup* group = fiber->group();
  WorkerBase* caller = CurrentWorker();
  if (caller == nullptr) return ReadyFromOutside(group, fiber);
  if (caller->group != group) return ReadyAcrossGroups(caller, fiber);
  fiber->set_partner(kNoPartner);
  group->ReadyBy(caller, static_cast<int>(caller->index), fiber, ReadyReason::kWoken);
}

}  // namespace

void Unpark(FiberEntity* fiber) noexcept {
  if (fiber->state().OnWoken() == WakeResult::kEnqueue) ReadyWoken(fiber);
}

void UnparkPublished(FiberEntity* fiber) noexcept {
  fiber->state().OnTaken();
  ReadyWoken(fiber);
}

void UnparkRemote(FiberEntity* const* fibers, std::size_t count, bool as_from_outside) noexcept {
  constexpr std::size_t kChunk = 64;
  const ReadSection section;  // As in ReadyFromOutside().
  FiberEntity* ready[kChunk];
  std::size_t n = 0;
  SchedulingGroup* group = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    FiberEntity* fiber = fibers[i];
    // Fibers that slept for long are no longer in a cache.
    constexpr std::size_t kAhead = 8;
    if (i + kAhead < count) __builtin_prefetch(fibers[i + kAhead], 1);
    if (fiber->state().OnWoken() != WakeResult::kEnqueue) continue;
    fiber->set_partner(kNoPartner);
    if (n == kChunk || (n != 0 && fiber->group() != group)) {
      group->ReadyBatch(ready, n, ReadyReason::kWoken, as_from_outside);
      n = 0;
    }
    group = fiber->group();
    ready[n++] = fiber;
  }
  if (n != 0) group->ReadyBatch(ready, n, ReadyReason::kWoken, as_from_outside);
}

void YieldCurrentFiber() noexcept {
  static_cast<Worker*>(CurrentWorker())->YieldCurrent();  // A jump: the inlined switch is there once, and is large.
}

void RunInsteadOfCurrent(FiberEntity* fiber) noexcept {
  WorkerBase* worker = CurrentWorker();
  static_cast<Worker*>(worker)->RunInstead(worker->current, Worker::SwitchReason::kYielded, fiber);
}

}  // namespace weft::scheduling_group
