// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Future, Promise: a result to come. Its maker holds the Promise; the Future's holder waits, or leaves a continuation.
// WhenAll(), WhenAny(), WhenAnyWithoutException() make one Future of many.
// Sample:
//   Promise<std::string, int> promise;                          // two values; Promise<> has none
//   Future<std::string, int> future = promise.GetFuture();
//   StartFiberDetached([p = std::move(promise)]() mutable { p.SetValue("Ada", 36); });
//   Future<int> age = future.Then([](std::string&& name, int&& age) { return age + 1; });
//   const int value = age.Get();                                // parks the fiber, or blocks the thread
//   auto both = BlockingGet(WhenAll(Async(AskUser), Async(AskStock))).GetValue0();
//   auto stock = std::get<1>(both).GetValue0();                          // each is ready or failed
//   std::vector<Future<Reply>> replies = AskAllReplicas();
//   auto [index, reply] = WhenAny(std::move(replies)).Get();             // reply: std::tuple<Reply>
//
// Names and semantics are tRPC-Cpp's (trpc/common/future/, trpc/coroutine/future.h; differences: docs/from_trpc.md).
// Async() (async.h) makes Futures from functions.
//
// A Future is ready (it has the values), failed (it has an exception) or neither. Get(), GetValue() and GetException()
// take the result out, also where they throw it; Then() takes the Future itself. The Future is empty then, as after a
// move: neither ready nor failed. (If the wait is cancelled, or Then() throws, it stays as it was.)
// The first result of a Promise counts. If the Promise goes away without one, the Future fails (BrokenPromise).
//
// Then(f): f is called once, with one of
//   the values, as rvalues     f(Ts&&...). If the Future has failed f is not called, and the exception is handed on.
//   the Future itself          f(Future<Ts...>&&), ready or failed, for an f that cannot be called with the values.
// What f returns makes the Future that Then() returns: U makes Future<U>, nothing Future<>, and Future<Us...> the same,
// with the inner one's result. If f throws, that Future fails; nobody sees an exception that is not asked for.
//
// Where f runs
//   Then(f)             Where the result comes from: within SetValue() or SetException(), or, if there is a result
//                       already, within Then(). So it should be short, and must not wait for what its caller does next.
//   Then(executor, f)   Where the executor runs its tasks (executor.h): FiberExecutor() starts a fiber. If it
//                       refuses, as above.
// f runs in the execution context of Then()'s caller, if any (execution_context.h), and is destroyed before the Future
// that it makes is resolved. A chain of continuations runs in a loop: its length costs no stack.
//
//   WhenAll                    is ready when all are ready or failed. Its value is a tuple, or a vector, of them, each
//                              ready or failed. It never fails. Of no Futures it is ready at once.
//   WhenAny                    has the result of the first that is ready or failed: its index and a tuple of its
//                              values, or its exception. Of no Futures it fails.
//   WhenAnyWithoutException    has the first that is ready; if all fail, the exception of the last to do so.
//
// Each takes Futures as arguments (of any types for WhenAll, of one type for the others), a pair of iterators, or a
// vector, and moves from them. In tRPC-Cpp WhenAny of none is ready, with index 0.
//
// The losers of a WhenAny go on; their results are dropped when they come. To end them is the caller's business.
//
// Who may call: any fiber and any thread, one at a time for each Future and Promise (but several may call SetValue()
// and SetException() at once). Only Get*(), Wait() and Blocking*() may switch (a thread: block), and what f does.
// Memory ordering: what X did before SetValue() or SetException() is visible to f, and to Y after a wait has returned,
// or after IsReady() or IsFailed() has said true.
// Lifetime: Promise and Future may go away in any order. The end of a Future does not end what makes the result.
// Errors: a wait for an empty Future, and a second continuation, end the process.
// Cost: one allocation for Promise and Future; one for a Then(), two if f returns a Future that is not ready; two for a
// WhenAll() or WhenAny(), however many Futures there are, and one for the vector.
#ifndef WEFT_FIBER_FUTURE_H_
#define WEFT_FIBER_FUTURE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/base/report/check.h"
#include "weft/base/time/clock.h"
#include "weft/fiber/exception.h"
#include "weft/fiber/executor.h"
#include "weft/fiber/future/future_state.h"

namespace weft {

template <class... Ts>
class Future {
 public:
  static_assert((... && (std::is_object_v<Ts> && !std::is_const_v<Ts>)), "Future<T>: T is a plain object type");

  // The values, of which there may be none.
  using TupleValueType = std::tuple<Ts...>;
  // What makes such a Future.
  using PromiseType = Promise<Ts...>;

  // Empty.
  Future() noexcept = default;
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  // Whether there is a result to come or to take.
  bool Valid() const noexcept { return state_ != nullptr; }

  // Whether it has its values. Does not wait; false of an empty one.
  bool IsReady() const noexcept { return Valid() && state_->IsResolved() && !state_->failed(); }
  // Whether it has an exception. Does not wait; false of an empty one.
  bool IsFailed() const noexcept { return Valid() && state_->IsResolved() && state_->failed(); }

  // Waits until it is ready or failed. True. Leaves the result where it is.
  bool Wait() const { return Checked("Wait").Wait(Deadline::None()); }
  // False: not in time.
  [[nodiscard]] bool Wait(Deadline deadline) const { return Checked("Wait").Wait(deadline); }
  // The same as in tRPC-Cpp.
  bool Wait(std::uint32_t milliseconds) const { return Wait(Deadline(std::chrono::milliseconds(milliseconds))); }

  // Waits, and takes the result: nothing, the value, or a tuple of the values. Throws what it has failed with.
  auto Get() {
    [[maybe_unused]] TupleValueType values = GetValue();
    if constexpr (sizeof...(Ts) == 1) {
      return std::get<0>(std::move(values));
    } else if constexpr (sizeof...(Ts) > 1) {
      return values;
    }
  }
  // The same, always a tuple.
  TupleValueType GetValue() {
    static_cast<void>(Resolved("GetValue"));
    const auto state = std::move(state_);  // First: it is empty also if Take() throws.
    return state->Take();
  }
  // The same, the first value.
  auto GetValue0() requires(sizeof...(Ts) > 0) { return std::get<0>(GetValue()); }

  // Waits, and leaves the values where they are: the value, or a tuple if there is not just one. If it has failed,
  // throws the exception, and leaves that where it is.
  const auto& GetConstValue() const {
    if (Resolved("GetConstValue").failed()) std::rethrow_exception(state_->exception());
    if constexpr (sizeof...(Ts) == 1) {
      return std::get<0>(state_->value());
    } else {
      return state_->value();
    }
  }

  // Waits, and takes the exception. If it is ready: an empty Exception, and the values stay.
  Exception GetException() {
    if (!Resolved("GetException").failed()) return Exception();
    const auto taken = std::move(state_);
    return Exception(std::move(taken->exception()));
  }

  // See above. The Future is empty afterwards. Throws what copying or moving f throws, and has done nothing then.
  template <class F>
  auto Then(F&& f) {
    return Then(nullptr, std::forward<F>(f));
  }
  template <class F>
  auto Then(Executor* executor, F&& f) {
    using Made = fiber::detail::ThenState<std::decay_t<F>, Ts...>;
    Checked("Then");
    const auto made = base::MakeRefCounted<Made>(state_, executor, std::forward<F>(f));
    return typename Made::FutureType(Made::AttachTo(std::move(state_), made));  // f may destroy *this.
  }

 private:
  friend struct fiber::detail::FutureAccess;
  template <class... Us>
  friend class Future;
  friend PromiseType;

  using State = fiber::detail::FutureState<Ts...>;

  explicit Future(base::RefPtr<State> state) noexcept : state_(std::move(state)) {}

  State& Checked(const char* function) const {
    WEFT_CHECK(state_ != nullptr, "Future::", function, ": the Future is empty");
    return *state_;
  }
  State& Resolved(const char* function) const {
    State& state = Checked(function);
    static_cast<void>(state.Wait(Deadline::None()));
    return state;
  }

  base::RefPtr<State> state_;
};

template <class... Ts>
class Promise {
 public:
  // What GetFuture() returns.
  using FutureType = Future<Ts...>;

  // Without a result. Allocates the state that it shares with its Future.
  Promise() : state_(base::MakeRefCounted<State>()) {}
  ~Promise() { Break(); }
  Promise(Promise&&) noexcept = default;
  // The Future of the one that it was fails if it has no result (BrokenPromise).
  Promise& operator=(Promise&& other) noexcept {
    if (this == &other) return *this;
    Break();
    state_ = std::move(other.state_);
    return *this;
  }

  // The Future of the result. To be called once: further calls return the same Future, of which one may be used.
  Future<Ts...> GetFuture() noexcept { return Future<Ts...>(state_); }

  // Resolve the Future, and run its continuation. False: it has a result already, and this one is dropped.
  bool SetValue(Ts... values) {
    if (!Checked().Claim()) return false;
    fiber::detail::RunCallbacks(state_->Fill(std::move(values)...));
    return true;
  }
  template <class... Us>
  requires(sizeof...(Us) == sizeof...(Ts) &&
           std::is_constructible_v<std::tuple<Ts...>, std::tuple<Us...>>) bool SetValue(std::tuple<Us...>&& values) {
    if (!Checked().Claim()) return false;
    fiber::detail::RunCallbacks(state_->Fill(std::move(values)));
    return true;
  }
  bool SetException(Exception exception) {
    if (!Checked().Claim()) return false;
    fiber::detail::RunCallbacks(state_->FillException(exception.ptr()));
    return true;
  }

  // Whether it has been given a result, and which; also when the Future has been asked for it.
  bool IsResolved() const noexcept { return state_ != nullptr && state_->IsResolved(); }
  bool IsReady() const noexcept { return IsResolved() && !state_->failed(); }
  bool IsFailed() const noexcept { return IsResolved() && state_->failed(); }

 private:
  friend struct fiber::detail::FutureAccess;
  using State = fiber::detail::FutureState<Ts...>;

  State& Checked() const {
    WEFT_CHECK(state_ != nullptr, "Promise: it has been moved from");
    return *state_;
  }

  void Break() noexcept {
    // Nobody asks: neither a Future nor its continuation refers to it.
    if (state_ == nullptr || state_->HasOneRef() || !state_->Claim()) return;
    fiber::detail::RunCallbacks(state_->FillException(std::make_exception_ptr(BrokenPromise())));
  }

  base::RefPtr<State> state_;
};

// A Future that is ready: MakeReadyFuture(5), MakeReadyFuture<std::string>("text"), MakeReadyFuture<>().
template <class... Ts>
Future<Ts...> MakeReadyFuture(Ts... values) {
  Promise<Ts...> promise;
  promise.SetValue(std::move(values)...);
  return promise.GetFuture();
}

// A Future that has failed: MakeExceptionFuture<int>(std::runtime_error("...")).
template <class... Ts>
Future<Ts...> MakeExceptionFuture(Exception exception) {
  Promise<Ts...> promise;
  promise.SetException(std::move(exception));
  return promise.GetFuture();
}

// A Future of all of these, each ready or failed when it is ready. Takes them: std::move each.
template <class... Ts, class... Futures>
Future<std::tuple<Future<Ts...>, Futures...>> WhenAll(Future<Ts...>&& first, Futures&&... more) {
  using All = std::tuple<Future<Ts...>, Futures...>;
  static_assert((... && std::is_rvalue_reference_v<Futures&&>), "WhenAll takes the Futures: std::move them");
  return fiber::detail::WhenAllState<All>::Start(All(std::move(first), std::move(more)...), 1 + sizeof...(Futures));
}
// Of none: ready at once.
inline Future<std::tuple<>> WhenAll() { return MakeReadyFuture(std::tuple<>()); }

// A Future of all of these, in their order. Takes them.
template <class... Ts>
Future<std::vector<Future<Ts...>>> WhenAll(std::vector<Future<Ts...>>&& futures) {
  const std::size_t count = futures.size();
  return fiber::detail::WhenAllState<std::vector<Future<Ts...>>>::Start(std::move(futures), count);
}
// The same for the Futures from `first` to `last`, which are moved from.
template <std::input_iterator Iterator>
auto WhenAll(Iterator first, Iterator last) {
  return WhenAll(fiber::detail::TakeFutures(first, last));
}

// A Future of the first that is ready or failed: its index and a tuple of its values, or its exception. Of none: it
// fails.
template <class... Ts>
Future<std::size_t, std::tuple<Ts...>> WhenAny(std::vector<Future<Ts...>>&& futures) {
  return fiber::detail::WhenAnyState<fiber::detail::WhenAnyRule::kFirst, Ts...>::Start(std::move(futures));
}
// The same for the Futures from `first` to `last`, which are moved from.
template <std::input_iterator Iterator>
auto WhenAny(Iterator first, Iterator last) {
  return WhenAny(fiber::detail::TakeFutures(first, last));
}
// The same for Futures of one type: std::move each.
template <class... Ts, std::same_as<Future<Ts...>>... Futures>
Future<std::size_t, std::tuple<Ts...>> WhenAny(Future<Ts...>&& first, Futures&&... more) {
  Future<Ts...> futures[] = {std::move(first), std::move(more)...};
  return WhenAny(std::begin(futures), std::end(futures));
}

// A Future of the first that is ready: its index and a tuple of its values. If all fail: the exception of the last to
// do so. Of none: it fails.
template <class... Ts>
Future<std::size_t, std::tuple<Ts...>> WhenAnyWithoutException(std::vector<Future<Ts...>>&& futures) {
  return fiber::detail::WhenAnyState<fiber::detail::WhenAnyRule::kFirstValue, Ts...>::Start(std::move(futures));
}
// The same for the Futures from `first` to `last`, which are moved from.
template <std::input_iterator Iterator>
auto WhenAnyWithoutException(Iterator first, Iterator last) {
  return WhenAnyWithoutException(fiber::detail::TakeFutures(first, last));
}
// The same for Futures of one type: std::move each.
template <class... Ts, std::same_as<Future<Ts...>>... Futures>
Future<std::size_t, std::tuple<Ts...>> WhenAnyWithoutException(Future<Ts...>&& first, Futures&&... more) {
  Future<Ts...> futures[] = {std::move(first), std::move(more)...};
  return WhenAnyWithoutException(std::begin(futures), std::end(futures));
}

// Wait, and return the Future, ready or failed.
template <class... Ts>
Future<Ts...> BlockingGet(Future<Ts...>&& future) {
  future.Wait();
  return std::move(future);
}
template <class... Ts>
Future<Ts...> BlockingGet(Future<Ts...>* future) {
  return weft::BlockingGet(std::move(*future));
}

// No value: not in time, and `future` is as it was.
template <class... Ts>
[[nodiscard]] std::optional<Future<Ts...>> BlockingTryGet(Future<Ts...>&& future, Deadline deadline) {
  if (!future.Wait(deadline)) return std::nullopt;
  return std::move(future);
}
// The same as in tRPC-Cpp.
template <class... Ts>
[[nodiscard]] std::optional<Future<Ts...>> BlockingTryGet(Future<Ts...>&& future, std::uint32_t milliseconds) {
  return weft::BlockingTryGet(std::move(future), Deadline(std::chrono::milliseconds(milliseconds)));
}

namespace fiber {  // docs/from_trpc.md
using weft::BlockingGet;
using weft::BlockingTryGet;
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_FUTURE_H_
