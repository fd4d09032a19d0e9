// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Retry() makes a call that has failed again, after a pause. Hedge() makes a call that is slow a second time, beside
// the first; the first success counts.
// Sample:
//   io::RetryBudget budget;                                   // one for all requests to these servers
//   std::error_code error = Retry({.max_attempts = 4, .budget = &budget}, [&] { return stream.Connect(address); });
//   Reply reply = Retry({}, [&] { return FailAfter(100ms, [&] { return Ask(); }); });
//   reply = Retry({}, [&] { return AskOrThrow(); }, [](std::exception_ptr failure) { return IsTransient(failure); });
//   std::optional<Reply> first = Hedge({.delay = 20ms}, [&](std::size_t attempt) { return AskReplica(attempt); });
//
// Failures: a bool that is false; a std::error_code that is set; an object whose ok() says false; an empty
// std::optional; a std::exception. Other results are successes, also none (void). FiberCancelled, and exceptions that
// are no std::exception, pass through at once: a Hedge() then cancels and awaits its other attempts.
//
// Retry(policy, f [, retryable]) calls f() until it succeeds, `max_attempts` times at most, and returns the last result
// or throws the last exception. It gives up earlier, without a pause,
//   where retryable(failure) says false (it takes that result, or that std::exception_ptr; others are retryable),
//   where the pause would not end before the caller's deadline (TimeLeft() in sync/cancel_scope.h),
//   where the budget is used up.
// The first pause is `initial_backoff`; each is `backoff_multiplier` times the last one, up to `max_backoff`, less a
// random part, so that callers that failed together do not come back together.
//
// Hedge(options, f) calls f(0) in a fiber, and f(1), f(2) ... in others, `max_attempts` in all: each when the last one
// was started `delay` ago and none has succeeded, or at once when one has failed; if the budget allows it. The first
// success is returned; the others are then cancelled, and have ended when Hedge() returns. An attempt that was being
// started when another one succeeded begins nevertheless, cancelled. If all fail it is the last failure. f is called by
// several fibers at a time. Take as delay what nineteen of twenty calls do not take.
//
// The budget (net/budgets.h) gets a Deposit() for each call of Retry() or Hedge(), and pays for each attempt after
// the first. An attempt that was paid for and not made is given back.
//
// Who may call: any fiber and any thread. Both may switch (a thread: block), and are cancellation points: a cancelled
// Hedge() cancels its attempts and awaits them. An attempt that heeds no cancellation (it computes, or is in
// FiberBlocking()) is waited for. A success that has come before the cancellation is returned.
// Memory ordering: f's attempts are visible to the caller. Lifetime: nothing is used after the return.
// Errors: policies that cannot be end the process with a line. Hedge() throws FiberNotStarted
// (fiber/fiber_attributes.h) if its first fiber is refused; if a later one is, the others go on. A std::exception that
// a result throws while it is kept is a failure of its attempt; what it throws when moved to the caller comes out.
// Time is FiberClock's.
// Source: exponential backoff with jitter (AWS Architecture Blog), retry throttling of gRPC; Dean and Barroso, The Tail
// at Scale, 2013.
#ifndef WEFT_NET_RETRY_H_
#define WEFT_NET_RETRY_H_

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/net/budgets.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

// How often a call is made again, and after which pauses.
struct RetryPolicy {
  std::size_t max_attempts = 3;  // in all
  // The first pause, before its random part is taken off.
  std::chrono::nanoseconds initial_backoff = std::chrono::milliseconds(50);
  double backoff_multiplier = 2;  // from one pause to the next, at least 1
  // No pause is longer.
  std::chrono::nanoseconds max_backoff = std::chrono::seconds(5);
  double jitter = 0.5;                // the part of a pause that is random, 0 to 1
  io::RetryBudget* budget = nullptr;  // nullptr: no budget. Outlives the call.
};

// When a call is made a second time, beside the first.
struct HedgeOptions {
  // After the start of the last attempt. By default another one is made only when one has failed.
  std::chrono::nanoseconds delay = std::chrono::nanoseconds::max();
  std::size_t max_attempts = 2;       // in all
  io::RetryBudget* budget = nullptr;  // nullptr: no budget. Outlives the call.
};

namespace retry_internal {

template <class R>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class R>
bool IsFailure(const R& result) {
  if constexpr (std::is_same_v<R, bool>) {
    return !result;
  } else if constexpr (std::is_same_v<R, std::error_code>) {
    return static_cast<bool>(result);
  } else if constexpr (kIsOptional<R>) {
    return !result.has_value();
  } else if constexpr (requires {
                         { result.ok() } -> std::convertible_to<bool>;
                       }) {
    return !result.ok();
  } else {
    return false;
  }
}

struct AlwaysRetryable {
  template <class Failure>
  bool operator()(const Failure&) const noexcept {
    return true;
  }
};
// Whether `retryable` can be asked of a failure of f.
template <class Retryable, class Result>
inline constexpr bool kTakesFailures = std::is_invocable_r_v<bool, Retryable&, const std::exception_ptr&> ||
                                       std::is_invocable_r_v<bool, Retryable&, const Result&>;
template <class Retryable>
inline constexpr bool kTakesFailures<Retryable, void> =
    std::is_invocable_r_v<bool, Retryable&, const std::exception_ptr&>;

template <class Retryable, class Failure>
bool IsRetryable(Retryable& retryable, const Failure& failure) {
  if constexpr (std::is_invocable_r_v<bool, Retryable&, const Failure&>) {
    return retryable(failure);
  } else {
    return true;
  }
}

// The attempts of one Retry().
class Attempts {
 public:
  explicit Attempts(const RetryPolicy& policy);
  // After a failure. True: the pause is over, and another attempt shall be made.
  [[nodiscard]] bool Again();

 private:
  std::chrono::nanoseconds NextPause() noexcept;

  const RetryPolicy& policy_;
  std::size_t made_ = 1;
  double next_pause_;  // in ns
};

template <class F, class Retryable>
auto RetryCalls(const RetryPolicy& policy, F& f, Retryable&& retryable) -> std::decay_t<std::invoke_result_t<F&>> {
  using Result = std::decay_t<std::invoke_result_t<F&>>;
  static_assert(kTakesFailures<Retryable, Result>,
                "Retry: `retryable` takes what f returns, or a std::exception_ptr, and returns a bool");
  Attempts attempts(policy);
  for (;;) {
    std::exception_ptr failed;  // Its catch block is left before anything waits.
    if constexpr (std::is_void_v<Result>) {
      try {
        f();
        return;
      } catch (const std::exception&) {
        failed = std::current_exception();
      }
    } else {
      std::optional<Result> result;
      try {
        result.emplace(f());
      } catch (const std::exception&) {
        failed = std::current_exception();
      }
      if (failed == nullptr) {
        if (!IsFailure(*result) || !IsRetryable(retryable, *result) || !attempts.Again()) return *std::move(result);
        continue;
      }
    }
    if (!IsRetryable(retryable, failed) || !attempts.Again()) std::rethrow_exception(failed);
  }
}

// The attempts of one Hedge(): who runs, and when another one is to be started. The caller:
//     while (core.AwaitNext()) start one more; Start() says what came of it
class HedgeCore {
 public:
  explicit HedgeCore(const HedgeOptions& options);

  // While it lives an attempt is being started. It was not, unless done() was called.
  class Start {
   public:
    explicit Start(HedgeCore* core) noexcept : core_(core) {}
    ~Start() {
      if (core_ != nullptr) core_->NotStarted();
    }
    Start(const Start&) = delete;
    Start& operator=(const Start&) = delete;
    void done() noexcept { core_ = nullptr; }

   private:
    HedgeCore* core_;
  };
  // While it lives an attempt runs.
  class Running {
   public:
    explicit Running(HedgeCore* core) noexcept : core_(core) {}
    ~Running() { core_->Ended(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    HedgeCore* const core_;
  };

  // The caller. True: attempt number() shall be started now. False: one has succeeded, or all have failed.
  [[nodiscard]] bool AwaitNext();
  std::size_t number() const noexcept { return started_ - 1; }

  // Guards what follows, and the attempts' results.
  FiberMutex mutex;
  bool over = false;  // one has succeeded, or an exception passes through

 private:
  void Await(std::unique_lock<FiberMutex>& lock);
  void NotStarted() noexcept;
  void Ended() noexcept;

  const HedgeOptions& options_;
  // The caller's.
  std::size_t started_ = 0;
  std::size_t most_;
  Deadline next_at_;

  FiberConditionVariable changed_;
  std::size_t running_ = 0;
  bool has_failed_ = false;  // since the caller looked last
};

template <class Result>
struct HedgeResult {
  using Kept = std::conditional_t<std::is_void_v<Result>, bool, Result>;
  std::optional<Kept> result;
  std::exception_ptr exception;  // in its place

  // Under the core's mutex.
  void Fail(std::exception_ptr why) noexcept {
    result.reset();
    exception = std::move(why);
  }
  Result Take() {
    if (exception != nullptr) std::rethrow_exception(exception);
    if constexpr (!std::is_void_v<Result>) return *std::move(result);
  }
};

template <class Result, class F>
void CallInto(HedgeCore* core, HedgeResult<Result>* kept, F& f, std::size_t number) {
  const auto keep = [&](auto&& result, bool is_failure) {
    const std::scoped_lock lock(core->mutex);
    if (core->over) return;
    kept->result.emplace(std::forward<decltype(result)>(result));
    kept->exception = nullptr;
    core->over = !is_failure;
  };
  if constexpr (std::is_void_v<Result>) {
    f(number);
    keep(true, false);
  } else {
    Result result = f(number);
    const bool is_failure = IsFailure(result);
    keep(std::move(result), is_failure);
  }
}

template <class Result, class F>
void RunAttempt(HedgeCore* core, HedgeResult<Result>* kept, F& f, std::size_t number) {
  const HedgeCore::Running running(core);
  const auto fail = [&](bool passes_through) {
    const std::scoped_lock lock(core->mutex);
    if (core->over) return;
    kept->Fail(std::current_exception());
    core->over = passes_through;
  };
  try {
    CallInto(core, kept, f, number);
  } catch (const std::exception&) {
    fail(false);
  } catch (...) {  // Also FiberCancelled: the fiber ends with it.
    fail(true);
  }
}

}  // namespace retry_internal

// Calls f() until it succeeds, as `policy` says; returns its last result or throws its last exception. `retryable` is
// asked for each failure whether to go on. Any fiber and any thread; sleeps in between; a cancellation point.
template <class F>
auto Retry(const RetryPolicy& policy, F&& f) {
  return retry_internal::RetryCalls(policy, f, retry_internal::AlwaysRetryable());
}
template <class F, class Retryable>
auto Retry(const RetryPolicy& policy, F&& f, Retryable&& retryable) {
  return retry_internal::RetryCalls(policy, f, retryable);
}

// Calls f(0), f(1) ... in fibers, a further one when those before are slow or have failed; returns the first success,
// or the last failure. The others have ended then. Any fiber and any thread; switches (a thread: blocks); a
// cancellation point.
template <class F>
auto Hedge(const HedgeOptions& options, F&& f) {
  using Result = std::decay_t<std::invoke_result_t<F&, std::size_t>>;
  retry_internal::HedgeCore core(options);
  retry_internal::HedgeResult<Result> kept;
  {
    FiberScope attempts({.policy = ScopePolicy::kCollect});
    while (core.AwaitNext()) {
      retry_internal::HedgeCore::Start start(&core);
      const std::size_t number = core.number();
      auto attempt = [&core, &kept, &f, number] { retry_internal::RunAttempt(&core, &kept, f, number); };
      if (number == 0) {
        fiber::detail::ScopeAccess::Spawn(attempts, "Hedge", attempt);
      } else if (!attempts.Spawn(attempt)) {
        continue;
      }
      start.done();
    }
  }  // Cancels and awaits the others. No cancellation point: a success is not thrown away.
  return kept.Take();
}

}  // namespace weft

#endif  // WEFT_NET_RETRY_H_
