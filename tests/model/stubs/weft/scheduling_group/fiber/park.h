// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces scheduling_group/fiber/park.h in model tests of sync (fiber_state_model.cc explores the real transitions).
// The scenario assigns fibers to model threads by SetFiber().
#ifndef WEFT_SCHEDULING_GROUP_FIBER_PARK_H_
#define WEFT_SCHEDULING_GROUP_FIBER_PARK_H_

#include <array>
#include <cstddef>
#include <utility>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {

namespace model_fibers {
inline std::array<FiberEntity*, 16> of_thread{};
}  // namespace model_fibers

// The scenario, anew in each execution: nullptr makes the model thread a plain thread.
inline void SetFiber(int model_thread, FiberEntity* fiber) { model_fibers::of_thread[model_thread] = fiber; }

inline FiberEntity* CurrentFiber() noexcept { return model_fibers::of_thread[model::CurrentThread()]; }

// To sync, each fiber seems to have a worker of its own.
inline FiberEntity* CurrentWorker() noexcept { return CurrentFiber(); }

inline unsigned UnwindingDepth() noexcept { return 0; }
inline bool IsUnwinding() noexcept { return false; }
inline void PrepareToPark(FiberEntity*, WaitReason = {}) noexcept {}
inline void SetWaitReason(FiberEntity*, WaitReason) noexcept {}
// As a worker does before a fiber leaves its stack.
inline void RunYieldHook(FiberEntity* self) noexcept {
  if (auto* const hook = std::exchange(self->yield_hook, nullptr)) hook(self);
}
inline void ParkPrepared(FiberEntity* self) noexcept {
  RunYieldHook(self);
  self->parker.Park();
}
inline void ParkKeeping(FiberEntity* self) noexcept { ParkPrepared(self); }
inline void ParkAndPublish(FiberEntity* self, bool (*publish)(void*) noexcept, void* argument,
                           WaitReason = {}) noexcept {
  RunYieldHook(self);
  if (publish(argument)) self->parker.Park();
}
inline void Unpark(FiberEntity* fiber) noexcept {
  MODEL_CHECK(fiber->parker.Unpark(), "a fiber is woken twice for one park (FS2)");
}
inline void UnparkPublished(FiberEntity* fiber) noexcept { Unpark(fiber); }
inline void UnparkRemote(FiberEntity* const* fibers, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) Unpark(fibers[i]);
}
inline void YieldCurrentFiber() noexcept { model::SpinHint(); }

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_PARK_H_
