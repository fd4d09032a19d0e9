// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_task.h"

#include "weft/base/report/check.h"
#include "weft/base/report/str_cat.h"
#include "weft/fiber/start/scope_core.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

TaskCancelled::TaskCancelled(const std::string& task) : std::runtime_error(base::StrCat(task, " was cancelled")) {}
TaskCancelled::~TaskCancelled() = default;

namespace fiber::detail {

void RunTask(JoinState* state, void (*procedure)(void*), void* argument) {
  try {
    procedure(argument);
  } catch (const FiberCancelled&) {
    state->cancelled = true;
  } catch (...) {
    state->exception = std::current_exception();
  }
  if (ScopeCore* const scope = state->owning_scope) {
    if (state->cancelled) {
      scope->OnCancelled();
    } else if (state->exception != nullptr) {
      scope->OnFailed(state->exception);
    } else {
      scope->OnSucceeded();
    }
  }
  LeaveScopesOfCaller();
}

bool AwaitTask(JoinState* state, Deadline deadline, const char* function) {
  synchronization::BeginCancellationPoint();
  return synchronization::CheckInterruptedWithResult(state->Await(deadline, function)) ==
         synchronization::WaitResult::kNotified;
}

void AwaitTaskUncancelled(JoinState* state) noexcept { state->AwaitUncancelled("FiberTask::~FiberTask"); }

void CheckTaskResult(const JoinState& state) {
  if (state.exception != nullptr) std::rethrow_exception(state.exception);
  // Not ended: its fiber is lost, and the process exits, which does not wait for it (runtime_end.h).
  if (state.cancelled || !state.ended.IsSet()) throw TaskCancelled(state.Describe());
}

void FailEmptyTask(const char* function) {
  WEFT_FATAL("FiberTask::", function, ": there is no task (it was moved from, or its result has been taken)");
}

}  // namespace fiber::detail
}  // namespace weft
