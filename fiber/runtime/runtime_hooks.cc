// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_hooks.h"

#include <cxxabi.h>
#include <pthread.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <typeinfo>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/exit.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber_local.h"
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

// --- std::terminate() ---

std::terminate_handler former = nullptr;

std::string TypeName(const std::type_info& type) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = demangled != nullptr ? demangled : type.name();
  std::free(demangled);
  return name;
}

std::string WhyTerminate() {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) {
    return base::IsInThreadExit() ? "pthread_exit() was called, or its worker's thread was cancelled: a fiber ends by "
                                    "returning from its function"
                                  : "without an exception, std::terminate() was called, or pthread_exit()";
  }
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return base::StrCat("an exception was not caught: ", TypeName(typeid(error)), ": ", error.what());
  } catch (...) {
    return base::StrCat("an exception was not caught: ", TypeName(*abi::__cxa_current_exception_type()));
  }
}

void OnTerminate() {
  const FiberEntity* const fiber = scheduling_group::CurrentFiber();
  if (fiber != nullptr) WEFT_LOG(ERROR, DescribeFiber(*fiber), ": ", WhyTerminate());
  // libstdc++'s own handler says what was thrown, and aborts.
  base::CallFatalErrorHook(
      /*abort_follows=*/fiber == nullptr && former == &__gnu_cxx::__verbose_terminate_handler);
  if (former != nullptr) former();
  std::abort();
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
  former = std::set_terminate(&OnTerminate);
  context::SetDescribeRunningFiber(&DescribeForOverflow);
  context::InstallOverflowHandler();
  PrepareForLeakChecker();
  // It fails without memory: a child then gets no explanation, but the runtime may start.
  (void)::pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

}  // namespace weft::fiber::detail
