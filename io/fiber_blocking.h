// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberBlocking: runs code that blocks its thread (getaddrinfo, a file, a client library that knows nothing of fibers)
// without blocking a worker. The call runs on a thread of a bounded pool; only the calling fiber waits.
// Sample:
//   const int fd = FiberBlocking([&] { return ::open(path, O_RDONLY); });       // errno is the call's
//   auto row = FiberBlocking([&] { return database.Fetch(key); });              // exceptions arrive here
//   std::optional<Answer> answer = FiberBlocking([q = std::move(query)] { return Ask(q); }, 2s);  // owns q
//
// f is taken by value, as by std::thread and std::async, and called once; std::ref(f) lends it. The call owns it until
// f has ended. The caller must keep alive what f refers to:
//
//                          FiberBlocking(f)                   FiberBlocking(f, deadline)
//      returns when        f has ended, always                f has ended, the time is up, or the wait is cancelled
//      f may refer to      the caller's locals                what lives on when the caller has gone: f may run on
//                                                             (capture by value, or a std::shared_ptr)
//      result              f's: void, move-only, a reference  optional (bool if f returns nothing): no value: given up
//      in a plain thread   runs f in place                    waits for a thread of the pool, as a fiber does
//      f is kept           on the caller's stack              on the heap
//
// A returned reference must not refer to a part of f, which the call destroys: lend f with std::ref then.
//
// A call given up before it has begun never runs. One that runs cannot be stopped: it goes on on its thread of the
// pool, and its result is destroyed there (an exception is logged). As many such calls as there are threads block the
// pool until they end, so give f a time limit of its own where possible (BlockingCounts::abandoned).
//
// The pool (blocking_pool.h) has at most --fiber_blocking_threads threads, made when needed. Further calls wait in a
// queue of --fiber_blocking_queue_size, and further callers wait for room. If the system refuses every thread, that is
// logged, and the calls try again: nothing is lost.
//
// f runs in the calling fiber's execution context and with its errno (to read that after the call, include
// weft/context/switch_safe_errno.h), but outside of fibers: FiberLocals are the thread's own. Fibers and timers that it
// starts go to the groups of the caller's name. It may use all that a plain thread may (FiberMutex, FiberChannel ...),
// but not end its thread. It may wait for other blocking calls only while the pool has more threads than calls that
// wait so.
//
// Who may call: any fiber and any thread. Switches.
// Memory ordering: what the caller did before is visible to f; what f did is visible to the caller afterwards.
// The end: TerminateRuntime() waits for fibers in FiberBlocking as for all others. An unfinished one stays parked for
// ever, and the end of its f does no harm. The pool belongs to the process: the next runtime uses it too, or gets
// another one if its options differ, while the former finishes its calls. Threads may still exist when the process
// exits. A forked child gets a new pool; calls under way stay in the parent. (f itself may fork, to exec.)
#ifndef WEFT_IO_FIBER_BLOCKING_H_
#define WEFT_IO_FIBER_BLOCKING_H_

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/blocking/blocking_pool.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_state.h"

namespace weft {

namespace io {

// The pool of the process, as RuntimeOptions say; made at the first call. Any thread.
BlockingPool& ProcessBlockingPool();

namespace detail {

void LogAbandonedException(const std::exception_ptr& exception) noexcept;

// The outcome of a call: R, a reference, nothing, or an exception.
template <class R>
class CallResult {
 public:
  template <class F>
  void FillFrom(F&& f) noexcept {
    try {
      if constexpr (std::is_void_v<R>) {
        std::invoke(std::forward<F>(f));
      } else if constexpr (std::is_reference_v<R>) {
        R&& result = std::invoke(std::forward<F>(f));
        value_ = std::addressof(result);
      } else {
        value_.emplace(std::invoke(std::forward<F>(f)));
      }
    } catch (...) {
      exception_ = std::current_exception();
    }
  }

  R Take() {
    if (exception_ != nullptr) std::rethrow_exception(std::move(exception_));
    if constexpr (std::is_reference_v<R>) {
      return static_cast<R>(*value_);
    } else if constexpr (!std::is_void_v<R>) {
      return *std::move(value_);
    }
  }

  const std::exception_ptr& exception() const noexcept { return exception_; }

 private:
  using Value = std::conditional_t<
      std::is_reference_v<R>, std::remove_reference_t<R>*,
      std::conditional_t<std::is_void_v<R>, std::nullptr_t, std::optional<std::remove_cv_t<std::decay_t<R>>>>>;

  Value value_{};
  std::exception_ptr exception_;
};

// Lies on its caller's stack, since the caller waits until it has run.
template <class F>
class StackCall final : public BlockingCall {
 public:
  using Result = std::invoke_result_t<F>;

  explicit StackCall(F&& f) : f_(std::move(f)) {}
  explicit StackCall(const F& f) : f_(f) {}
  Result Take() { return result_.Take(); }

 private:
  void Run() noexcept override { result_.FillFrom(std::move(f_)); }
  void Drop() noexcept override { WEFT_FATAL("a call whose caller waits without limit was given up"); }

  F f_;
  CallResult<Result> result_;
};

// Lies on the heap, since it may run when its caller has gone.
template <class F>
class HeapCall final : public BlockingCall {
 public:
  using Result = std::invoke_result_t<F>;

  explicit HeapCall(F&& f) : f_(std::move(f)) {}
  explicit HeapCall(const F& f) : f_(f) {}
  Result Take() { return result_.Take(); }

 private:
  void Run() noexcept override { result_.FillFrom(std::move(f_)); }
  void Drop() noexcept override {
    if (result_.exception() != nullptr) LogAbandonedException(result_.exception());
    delete this;
  }

  F f_;
  CallResult<Result> result_;
};

template <class F>
using OwnedResult = std::invoke_result_t<std::decay_t<F>>;

// bool: whether it has run.
template <class F>
using LimitedResult = std::conditional_t<std::is_void_v<OwnedResult<F>>, bool,
                                         std::optional<std::remove_cv_t<std::decay_t<OwnedResult<F>>>>>;

}  // namespace detail

// As FiberBlocking(), in a given pool. For tests, and for other pools than the process's.

// Runs f() on a thread of the pool, and returns or throws what it does. No deadline, no cancellation point.
template <class F>
std::invoke_result_t<std::decay_t<F>> RunBlocking(BlockingPool& pool, F&& f) {
  detail::StackCall<std::decay_t<F>> call(std::forward<F>(f));
  static_cast<void>(pool.Execute(&call, synchronization::Interruptible::kNo, Deadline::None()));
  return call.Take();
}

// kNotified: *result has a value (is true).
template <class F>
[[nodiscard]] synchronization::WaitResult RunBlocking(BlockingPool& pool, F&& f, detail::LimitedResult<F>* result,
                                                      synchronization::Interruptible interruptible, Deadline deadline) {
  static_assert(!std::is_reference_v<detail::OwnedResult<F>>,
                "a call that may be given up cannot return a reference: what it refers to may be gone. Return a value "
                "or a std::shared_ptr");
  using Call = detail::HeapCall<std::decay_t<F>>;
  auto call = std::make_unique<Call>(std::forward<F>(f));
  const synchronization::WaitResult waited = pool.Execute(call.get(), interruptible, deadline);
  if (waited != synchronization::WaitResult::kNotified) {
    static_cast<void>(call.release());  // We do not own it any more.
  } else if constexpr (std::is_void_v<typename Call::Result>) {
    call->Take();
    *result = true;
  } else {
    result->emplace(call->Take());
  }
  return waited;
}

}  // namespace io

// Runs f() where it may block, and returns its result.
template <class F>
std::invoke_result_t<std::decay_t<F>> FiberBlocking(F&& f) {
  if (!IsRunningInFiberWorker()) {
    std::decay_t<F> owned(std::forward<F>(f));
    return std::invoke(std::move(owned));
  }
  return io::RunBlocking(io::ProcessBlockingPool(), std::forward<F>(f));
}

// The same, but gives up when the deadline passes or the caller is cancelled (a cancellation point). f may then run on,
// and must not refer to the caller's locals. No value (false, if f returns nothing): given up.
template <class F>
[[nodiscard]] io::detail::LimitedResult<F> FiberBlocking(F&& f, Deadline deadline) {
  io::detail::LimitedResult<F> result{};
  static_cast<void>(synchronization::CheckInterruptedWithResult(io::RunBlocking(
      io::ProcessBlockingPool(), std::forward<F>(f), &result, synchronization::Interruptible::kResult, deadline)));
  return result;
}

// The counts of the pool that was used last; all 0 if there was none yet. Any thread.
io::BlockingCounts GetFiberBlockingCounts() noexcept;

}  // namespace weft

#endif  // WEFT_IO_FIBER_BLOCKING_H_
