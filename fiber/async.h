// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Async: calls a function in a new fiber, and returns the Future of what it returns.
// Sample:
//   Future<int> sum = Async([](int a, int b) { return a + b; }, 1, 2);
//   const int three = sum.Get();                                  // or BlockingGet(&sum).GetValue0()
//
// f(args...) is called once; function and arguments are kept as Fiber keeps them (fiber.h), and destroyed before the
// Future is resolved. If f returns a U, the Future is a Future<U>; if nothing, a Future<>; if a Future, that one. If f
// throws, the Future fails with the exception.
//
// The Future does not own the fiber: nobody waits for it when the Future goes away. What f refers to must live until
// the Future is ready or failed; collect.h has forms that wait. If the fiber cannot be started (fiber.h), f has not
// run, and the Future fails with FiberNotStarted.
// Who may call: any fiber and any thread, while a runtime runs. Starting may yield, as with Fiber; Launch::Dispatch
// switches to the new fiber. The fiber inherits the caller's execution context unless it is given one.
// Memory ordering: what the caller did before is visible to f; what f did is visible to whoever waits for the Future.
// Cost: one allocation; bench/fiber/async_benchmark.cc.
#ifndef WEFT_FIBER_ASYNC_H_
#define WEFT_FIBER_ASYNC_H_

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/fiber/exception.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/future.h"
#include "weft/fiber/future/future_state.h"

namespace weft {

namespace fiber::detail {

// What the fiber runs.
template <class Call>
class AsyncProcedure {
 public:
  using Return = std::invoke_result_t<Call>;
  using FutureType = typename ResultOf<Return>::FutureType;
  using PromiseType = typename FutureType::PromiseType;

  AsyncProcedure(Call&& call, PromiseType promise) : call_(std::move(call)), promise_(std::move(promise)) {}
  // Only before it has run.
  AsyncProcedure(AsyncProcedure&& other) noexcept(std::is_nothrow_move_constructible_v<Call>)
      : call_(std::move(other.call_)), promise_(std::move(other.promise_)) {}
  ~AsyncProcedure() {
    if (!has_run_) call_.~Call();
  }

  void operator()() {
    Outcome<Return> outcome([this]() -> Return { return std::move(call_)(); });
    has_run_ = true;
    call_.~Call();  // FU7
    RunCallbacks(outcome.MoveTo(FutureAccess::State(promise_)));
  }

 private:
  // A union, to be destroyed early. (g++ warns of an std::optional here, that it might be read while it is empty.)
  union {
    Call call_;
  };
  PromiseType promise_;
  bool has_run_ = false;
};

template <class F, class... Args>
auto StartAsync(const FiberAttributes& attributes, F&& f, Args&&... args) {
  CheckNotEmpty("Async", f);
  auto call = BindCall(std::forward<F>(f), std::forward<Args>(args)...);
  using Procedure = AsyncProcedure<decltype(call)>;
  typename Procedure::PromiseType promise;
  auto future = promise.GetFuture();
  const StartRefusal refusal =
      Start("Async", PlanStart("Async", attributes), Procedure(std::move(call), std::move(promise)));
  if (refusal != StartRefusal::kNone) {
    typename Procedure::PromiseType refused;
    refused.SetException(FiberNotStarted(attributes.name, refusal));
    return refused.GetFuture();
  }
  return future;
}

}  // namespace fiber::detail

template <class F, class... Args>
requires fiber::detail::FiberProcedure<F, Args...>
auto Async(const FiberAttributes& attributes, F&& f, Args&&... args) {
  return fiber::detail::StartAsync(attributes, std::forward<F>(f), std::forward<Args>(args)...);
}

// tRPC-Cpp's forms: how, in which group (an index, kNearestSchedulingGroup or kUnspecifiedSchedulingGroup) and in which
// context (nullptr: the caller's).
template <class F, class... Args>
requires fiber::detail::FiberProcedure<F, Args...>
auto Async(Launch policy, std::size_t scheduling_group, FiberExecutionContext* execution_context, F&& f,
           Args&&... args) {
  const FiberAttributes attributes{
      .launch_policy = policy, .scheduling_group = scheduling_group, .execution_context = execution_context};
  return fiber::detail::StartAsync(attributes, std::forward<F>(f), std::forward<Args>(args)...);
}

template <class F, class... Args>
requires fiber::detail::FiberProcedure<F, Args...>
auto Async(Launch policy, std::size_t scheduling_group, F&& f, Args&&... args) {
  const FiberAttributes attributes{.launch_policy = policy, .scheduling_group = scheduling_group};
  return fiber::detail::StartAsync(attributes, std::forward<F>(f), std::forward<Args>(args)...);
}

template <class F, class... Args>
requires fiber::detail::FiberProcedure<F, Args...>
auto Async(Launch policy, F&& f, Args&&... args) {
  return fiber::detail::StartAsync(FiberAttributes{.launch_policy = policy}, std::forward<F>(f),
                                   std::forward<Args>(args)...);
}

template <class F, class... Args>
requires fiber::detail::FiberProcedure<F, Args...>
auto Async(F&& f, Args&&... args) {
  return fiber::detail::StartAsync(FiberAttributes(), std::forward<F>(f), std::forward<Args>(args)...);
}

namespace fiber {
using weft::Async;  // docs/from_trpc.md
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_ASYNC_H_
