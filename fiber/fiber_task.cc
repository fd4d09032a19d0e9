// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_task.h"

#include "weft/base/check.h"
#include "weft/base/str_cat.h"
#include "weft/fiber/scope_core.h"
#include "weft/scheduling_group/forked_child.h"
#include "weft/scheduling_group/park.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait_access.h"

namespace weft {

TaskCancelled::TaskCancelled(const std::string& task) : std::runtime_error(base::StrCat(task, " was cancelled")) {}
TaskCancelled::~TaskCancelled() = default;

TaskRefused::TaskRefused(const std::string& task)
    : std::runtime_error(base::StrCat("the start of task ", task,
                                      " was refused: too many fibers are queued, memory is exhausted or the runtime is "
                                      "going down")) {}
TaskRefused::~TaskRefused() = default;

namespace fiber::detail {

void RunTask(JoinState* state, void (*procedure)(void*), void* argument) {
  try {
    procedure(argument);
  } catch (const FiberCancelled&) {
    state->cancelled = true;
  } catch (...) {
    state->exception = std::current_exception();
  }
  if (state->slot != nullptr) {
    ScopeCore* const scope = ScopeCore::Of(state->slot);
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

void CheckMayAwait(const JoinState& state, const char* function) {
  const scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  WEFT_CHECK(self == nullptr || self->id() != state.id, "FiberTask: ", state.Describe(),
             " waits for itself (its last handle may not be among its own captures)");
  if (!state.ended.IsSet()) scheduling_group::CheckNotForkedChild(function);
}

bool AwaitTask(JoinState* state, Deadline deadline) {
  CheckMayAwait(*state, "FiberTask::Wait");
  return state->ended.Wait(deadline);
}

void AwaitTaskUncancelled(JoinState* state) noexcept {
  CheckMayAwait(*state, "FiberTask::Wait");
  synchronization::WaitAccess::WaitUncancelled(state->ended);
}

void ThrowTaskRefused(const std::string& name) {
  throw TaskRefused(name.empty() ? base::kUnnamedFiber : base::StrCat("'", name, "'"));
}

void CheckTaskResult(const JoinState& state) {
  if (state.exception != nullptr) std::rethrow_exception(state.exception);
  if (state.cancelled) throw TaskCancelled(state.Describe());
}

void FailEmptyTask(const char* function) {
  WEFT_FATAL("FiberTask::", function, ": there is no task (it was moved from, or its result has been taken)");
}

}  // namespace fiber::detail
}  // namespace weft
