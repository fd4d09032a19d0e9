// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How a fiber waits for a coroutine (CoResult, CoPromise, AwaitAttached), and a coroutine for fibers: what
// coroutine.h is made of.
//
// AwaitAttached() and AwaitDetached() are coroutines that await one awaitable and then set an event for the fiber that
// waits:
//
//     AwaitAttached  the waiter holds the coroutine, the awaitable and the result on its stack, and waits to the end
//     AwaitDetached  the coroutine shares them with the waiter, which may leave before; it destroys itself at its end
//
// Invariants
//   CO1  Their last touch of what the waiter owns is FiberEvent::Set(). AwaitAttached()'s coroutine is suspended by
//        then, so that the waiter may destroy it while Set() has not returned.
//   CO2  Two meet where a CoTask ends: the call that has started it, and the task itself. The second resumes the
//        awaiter; the first touches nothing of the task afterwards. So a task that ends at once is no deeper call,
//        and a loop over such tasks needs no stack, with any compiler and optimisation.
//
// Rejected: symmetric transfer from awaiter to task (g++ makes it a jump at -O2 only; else a loop fills the stack).
#ifndef WEFT_INTEROP_COROUTINE_AWAITING_H_
#define WEFT_INTEROP_COROUTINE_AWAITING_H_

#include <atomic>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/future.h"
#include "weft/fiber/future/future_state.h"
#include "weft/sync/channel_result.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"

namespace weft {

template <class T>
class CoTask;

namespace interop {
namespace detail {

template <class Awaitable>
concept HasMemberCoAwait = requires(Awaitable&& awaitable) {
  std::forward<Awaitable>(awaitable).operator co_await();
};
template <class Awaitable>
concept HasFreeCoAwait = requires(Awaitable&& awaitable) {
  operator co_await(std::forward<Awaitable>(awaitable));
};

template <class Awaitable>
decltype(auto) AwaiterOf(Awaitable&& awaitable) {
  if constexpr (HasMemberCoAwait<Awaitable>) {
    return std::forward<Awaitable>(awaitable).operator co_await();
  } else if constexpr (HasFreeCoAwait<Awaitable>) {
    return operator co_await(std::forward<Awaitable>(awaitable));
  } else {
    return std::forward<Awaitable>(awaitable);
  }
}

// What co_await gives: a value, an lvalue reference or void.
template <class T>
using KeptResult = std::conditional_t<std::is_lvalue_reference_v<T>, T, std::remove_cvref_t<T>>;

template <class Awaitable>
using AwaitResult = KeptResult<decltype(AwaiterOf(std::declval<Awaitable>()).await_resume())>;

// Of a call that may be late.
template <class Awaitable>
using LimitedAwaitResult = std::conditional_t<
    std::is_void_v<AwaitResult<Awaitable>>, bool,
    std::optional<std::conditional_t<std::is_lvalue_reference_v<AwaitResult<Awaitable>>,
                                     std::remove_reference_t<AwaitResult<Awaitable>>*, AwaitResult<Awaitable>>>>;

// A result or an exception, set once and taken once.
template <class T>
class CoResult {
 public:
  // Of f().
  template <class F>
  void SetBy(F&& f) noexcept {
    try {
      Emplace(std::forward<F>(f));
    } catch (...) {
      Fail();
    }
  }
  // In a handler.
  void Fail() noexcept { thrown_ = std::current_exception(); }

  bool has_value() const noexcept { return value_.has_value() || thrown_ != nullptr; }

  T Take() {
    if (thrown_ != nullptr) std::rethrow_exception(std::move(thrown_));
    if constexpr (std::is_lvalue_reference_v<T>) {
      return **value_;
    } else if constexpr (!std::is_void_v<T>) {
      return *std::move(value_);
    }
  }

 private:
  struct Nothing {};
  using Kept = std::conditional_t<
      std::is_void_v<T>, Nothing,
      std::conditional_t<std::is_lvalue_reference_v<T>, std::remove_reference_t<T>*, std::remove_reference_t<T>>>;

  template <class F>
  void Emplace(F&& f) {
    if constexpr (std::is_void_v<T>) {
      std::invoke(std::forward<F>(f));
      value_.emplace();
    } else if constexpr (std::is_lvalue_reference_v<T>) {
      value_.emplace(&std::invoke(std::forward<F>(f)));
    } else {
      value_.emplace(std::invoke(std::forward<F>(f)));
    }
  }

  std::optional<Kept> value_;
  std::exception_ptr thrown_;
};

// --- CoTask's promise ---

template <class T>
class CoPromiseBase {
 public:
  struct AtEnd {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    WEFT_NOINLINE std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> coroutine) const noexcept {
      const std::coroutine_handle<> awaiting = coroutine.promise().continuation;
      return coroutine.promise().IsSecond() ? awaiting : std::noop_coroutine();  // CO2
    }
    void await_resume() const noexcept {}
  };

  // Asked once by each of the two that meet (CO2).
  bool IsSecond() noexcept {
    // acq_rel: hands over the result, and the awaiter as it is suspended. Pairs with itself.
    return met_.exchange(true, std::memory_order_acq_rel);
  }

  std::suspend_always initial_suspend() const noexcept { return {}; }
  AtEnd final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { result.Fail(); }

  CoResult<T> result;
  std::coroutine_handle<> continuation;

 private:
  base::Atomic<bool> met_{false};
};

template <class T>
class CoReturn : public CoPromiseBase<T> {
 public:
  template <class U = T>
  requires std::is_convertible_v<U, T>
  void return_value(U&& value) {
    this->result.SetBy([&]() -> T { return std::forward<U>(value); });
  }
};

template <>
class CoReturn<void> : public CoPromiseBase<void> {
 public:
  void return_void() noexcept {
    result.SetBy([] {});
  }
};

template <class T>
class CoPromise : public CoReturn<T> {
 public:
  CoTask<T> get_return_object() noexcept { return CoTask<T>(std::coroutine_handle<CoPromise>::from_promise(*this)); }
};

// --- Those that await ---

// Owns a suspended coroutine that sets an event when it has ended.
class Attached {
 public:
  struct promise_type {
    struct AtEnd {
      bool await_ready() const noexcept { return false; }
      // Not inlined: see FiberCall::await_suspend().
      WEFT_NOINLINE void await_suspend(std::coroutine_handle<promise_type> coroutine) const noexcept {
        coroutine.promise().ended->Set();  // CO1
      }
      void await_resume() const noexcept {}
    };
    Attached get_return_object() noexcept { return Attached(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    AtEnd final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }  // It catches all.

    FiberEvent* ended = nullptr;
  };

  explicit Attached(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  Attached(Attached&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Attached& operator=(Attached&&) = delete;
  ~Attached() {
    if (coroutine_) coroutine_.destroy();
  }

  // Runs it up to where it first suspends.
  void Start(FiberEvent* ended) const {
    coroutine_.promise().ended = ended;
    coroutine_.resume();
  }

 private:
  std::coroutine_handle<promise_type> coroutine_;
};

template <class Awaitable>
Attached AwaitAttached(Awaitable&& awaitable, CoResult<AwaitResult<Awaitable>>* result) {
  using Result = AwaitResult<Awaitable>;
  try {
    // A name for the awaiter: g++ 12 would copy one that is an xvalue. And what the result refers to may be in it.
    decltype(auto) awaiter = AwaiterOf(std::forward<Awaitable>(awaitable));
    if constexpr (std::is_void_v<Result>) {
      co_await awaiter;
      result->SetBy([] {});
    } else {
      decltype(auto) value = co_await awaiter;
      result->SetBy([&]() -> Result { return static_cast<decltype(value)&&>(value); });
    }
  } catch (...) {
    result->Fail();
  }
}

// A coroutine that nobody owns.
struct Detached {
  struct promise_type {
    Detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }  // It catches all.
  };
};

template <class Awaitable>
struct DetachedWait {
  explicit DetachedWait(Awaitable&& of) : awaitable(std::move(of)) {}
  explicit DetachedWait(const Awaitable& of) : awaitable(of) {}

  LimitedAwaitResult<Awaitable> TakeLimited() {
    if constexpr (std::is_void_v<AwaitResult<Awaitable>>) {
      result.Take();
      return true;
    } else if constexpr (std::is_lvalue_reference_v<AwaitResult<Awaitable>>) {
      return &result.Take();
    } else {
      return result.Take();
    }
  }

  Awaitable awaitable;
  CoResult<AwaitResult<Awaitable>> result;
  FiberEvent ended;
};

template <class Awaitable>
Detached AwaitDetached(std::shared_ptr<DetachedWait<Awaitable>> shared) {
  using Result = AwaitResult<Awaitable>;
  try {
    decltype(auto) awaiter = AwaiterOf(std::move(shared->awaitable));  // As in AwaitAttached().
    if constexpr (std::is_void_v<Result>) {
      co_await awaiter;
      shared->result.SetBy([] {});
    } else {
      decltype(auto) value = co_await awaiter;
      shared->result.SetBy([&]() -> Result { return static_cast<decltype(value)&&>(value); });
    }
  } catch (...) {
    shared->result.Fail();
  }
  shared->ended.Set();
}

}  // namespace detail
}  // namespace interop
}  // namespace weft

namespace weft::interop::detail {

// What a coroutine can await of fibers: the functions that a FiberCall calls.
//
//   operator()()      waits; in a fiber of its own, which is in nobody's scopes
//   TryNow(&result)   where the coroutine runs: sets the result and says true if there is no need to wait. It neither
//                     waits nor is a cancellation point: the coroutine may run in a fiber that is cancelled.

// Whether a wait for it would return at once.
inline bool IsThere(const FiberEvent& event) noexcept { return event.IsSet(); }
template <class T>
bool IsThere(const FiberTask<T>& task) noexcept {
  return task.IsReady();
}
template <class... Ts>
bool IsThere(const Future<Ts...>& future) noexcept {
  WEFT_CHECK(future.Valid(), "co_await: the Future is empty");
  return future.IsReady() || future.IsFailed();
}

// Get() of what IsThere(), without its cancellation point.
template <class T>
T TakeResult(FiberTask<T>& task) {
  return fiber::detail::TaskAccess::Take(task);
}
template <class... Ts>
auto TakeResult(Future<Ts...>& future) {
  const auto state = std::move(fiber::detail::FutureAccess::State(future));
  [[maybe_unused]] std::tuple<Ts...> values = state->Take();
  if constexpr (sizeof...(Ts) == 1) {
    return std::get<0>(std::move(values));
  } else if constexpr (sizeof...(Ts) > 1) {
    return values;
  }
}

struct PlainEventWait {
  void operator()() const { event->Wait(); }
  bool TryNow(CoResult<void>* set) const {
    if (!event->IsSet()) return false;
    set->SetBy([] {});
    return true;
  }
  FiberEvent* event;
};

// Of a FiberEvent, FiberTask or Future.
template <class Awaited>
struct TimedWait {
  bool operator()() const { return awaited->Wait(deadline); }
  bool TryNow(CoResult<bool>* there) const {
    if (!IsThere(*awaited)) return false;
    there->SetBy([] { return true; });
    return true;
  }
  Awaited* awaited;
  Deadline deadline;
};

template <class T>
struct ChannelGet {
  ChannelItem<T> operator()() const { return channel->Get(deadline); }
  bool TryNow(CoResult<ChannelItem<T>>* got) const {
    ChannelItem<T> item = channel->TryGet();
    if (item.result() == ChannelResult::kWouldBlock) return false;
    got->SetBy([&] { return std::move(item); });
    return true;
  }
  FiberChannel<T>* channel;
  Deadline deadline;
};

// Of a FiberTask or Future; or, with &, of one that somebody else keeps.
template <class Handle>
struct ResultGet {
  auto operator()() {
    handle.Wait();
    return TakeResult(handle);
  }
  template <class T>
  bool TryNow(CoResult<T>* result) {
    if (!IsThere(handle)) return false;
    result->SetBy([this] { return TakeResult(handle); });
    return true;
  }
  Handle handle;
};

}  // namespace weft::interop::detail

#endif  // WEFT_INTEROP_COROUTINE_AWAITING_H_
