// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// More cases for Select() (sync/select.h): the end of a task, of a fiber, and a result.
// Sample:
//   Select(OnEnd(task, [&] { Use(task.Get()); }),             // Get() does not wait any more
//          OnEnd(fiber, [&] { fiber.Join(); }),
//          OnReady(future, [&] { Use(future.Get()); }),
//          OnSet(stop), OnDeadline(2s));
//
//   OnEnd(task, f)      a FiberTask has ended, in whatever way: Get() does not wait
//   OnEnd(fiber, f)     a joinable Fiber has ended: Join() does not wait
//   OnReady(future, f)  a Future is ready or has failed: Get() does not wait
//
// f is called without arguments, and may be left out. A case takes nothing: the next Select() finds it ready again.
//
// Who may call: as Select(); its cancellation does not touch the tasks. Memory ordering: as that of Get() or Join().
// Lifetime: the handle stays, and is not moved, until Select() returns. Nobody joins the Fiber meanwhile, or takes the
// task's result. A Future is named once, and by one Select() at a time.
// Ends the process: an empty handle; a task that selects its own end.
#ifndef WEFT_FIBER_SELECT_H_
#define WEFT_FIBER_SELECT_H_

#include <functional>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/future.h"
#include "weft/fiber/future/future_core.h"
#include "weft/sync/select.h"

namespace weft {

namespace fiber::detail {

// The event that a task or a fiber sets when it ends.
struct EndAccess {
  template <class T>
  static FiberEvent* Of(const FiberTask<T>& task) {
    return Checked(task.Checked("OnEnd"));
  }
  static FiberEvent* Of(const Fiber& fiber) {
    fiber.CheckJoinable("OnEnd");
    return Checked(fiber.state_);
  }

 private:
  static FiberEvent* Checked(JoinState* state) {
    state->CheckMayAwait("OnEnd");
    return &state->ended;
  }
};

template <class F>
struct OnReadySpec {
  using Case = FutureCase;
  Case MakeCase(synchronization::Selection* selection) const { return Case(selection, core); }
  void Then(Case&) { std::invoke(then); }
  FutureCore* core;
  F then;
};

}  // namespace fiber::detail

template <class T, class F = synchronization::DoNothing>
auto OnEnd(const FiberTask<T>& task, F then = {}) {
  return synchronization::OnQueueSpec<FiberEvent, F>{fiber::detail::EndAccess::Of(task), std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnEnd(const Fiber& fiber, F then = {}) {
  return synchronization::OnQueueSpec<FiberEvent, F>{fiber::detail::EndAccess::Of(fiber), std::move(then)};
}
template <class... Ts, class F = synchronization::DoNothing>
auto OnReady(Future<Ts...>& future, F then = {}) {
  WEFT_CHECK(future.Valid(), "OnReady: the Future is empty");
  return fiber::detail::OnReadySpec<F>{fiber::detail::FutureAccess::State(future).get(), std::move(then)};
}

}  // namespace weft

#endif  // WEFT_FIBER_SELECT_H_
