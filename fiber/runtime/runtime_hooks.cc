// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_hooks.h"

#include <pthread.h>

#include <string>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/runtime/terminate_handler.h"
#include "weft/fiber/runtime/unfinished_fibers.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/timer/callback/callback_timer.h"

namespace weft::fiber::detail {

namespace {

using scheduling_group::FiberEntity;

void DestroyFiberLocals(FiberEntity* self) {
  DestroyFiberLocalTable(static_cast<FiberLocalTable*>(self->fiber_local_slots()));
  self->set_fiber_local_slots(nullptr);
}

// May run on the stack of the fiber that ends, or of a caller whose start was refused.
void ReleaseExecutionContext(FiberEntity* fiber) {
  auto* const context = static_cast<FiberExecutionContext*>(fiber->execution_context());
  fiber->set_execution_context(nullptr);
  context->Release();
  // Destructors of the context's values may have used fiber-locals anew.
  if (fiber->fiber_local_slots() != nullptr) DestroyFiberLocals(fiber);
}

std::string DescribeCaller() {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  return self != nullptr ? DescribeFiber(*self) : std::string();
}

// Async-signal-safe.
bool DescribeForOverflow(context::OverflowInfo* info) {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr) return false;
  info->name = self->name();
  info->id = self->id();
  info->stack_top = self->stack_top();
  return true;
}

}  // namespace

void InstallRuntimeHooks(void (*after_fork_in_child)()) {
  scheduling_group::fiber_hooks = {.destroy_fiber_locals = &DestroyFiberLocals,
                                   .release_execution_context = &ReleaseExecutionContext};
  timer::execution_context_hooks = {
      .add_reference =
          [](void* context) {
            static_cast<FiberExecutionContext*>(context)->AddRef();
            return context;
          },
      .release = [](void* context) { static_cast<FiberExecutionContext*>(context)->Release(); }};
  base::SetCheckContextHook(&DescribeCaller);
  InstallTerminateHandler();
  context::SetDescribeRunningFiber(&DescribeForOverflow);
  context::InstallOverflowHandler();
  PrepareForLeakChecker();
  // It fails without memory: a child then gets no explanation, but the runtime may start.
  (void)::pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

}  // namespace weft::fiber::detail
