// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// C++20 coroutines and fibers, both ways: a coroutine awaits what fibers do (InFiber, CoWait, CoGet), and a fiber waits
// for a coroutine (CoTask, AwaitInFiber).
// Sample:
//   CoTask<int> Sum(FiberChannel<int>& numbers, FiberEvent& begin) {
//     co_await begin;                                                        // a FiberEvent
//     int sum = co_await interop::InFiber([] { return Compute(); });         // f's result, or its exception
//     sum += co_await Async(Compute);                                        // a Future's, or a FiberTask's
//     while (auto item = co_await interop::CoGet(numbers)) sum += *item;     // a FiberChannel, until it is closed
//     co_return sum;
//   }
// Sample:
//   int sum = AwaitInFiber(Sum(numbers, begin));                             // parks the fiber; blocks a thread
//   std::optional<int> soon = AwaitInFiber(Sum(numbers, begin), 2s);         // nullopt: not in time
//
// A coroutine awaits. It is suspended, and a fiber is started that calls f (Wait() of the event; Get() of the channel,
// task or Future) and then resumes the coroutine on its own stack. So the awaiting thread is never blocked, and the
// coroutine runs in that fiber until it awaits again. ResumeBy(executor) hands the handle to somebody else instead:
// Sample:
//   CoTask<> OnTheLoop(boost::asio::io_context& loop) {
//     co_await interop::InFiber([] { Compute(); }).ResumeBy([&](std::coroutine_handle<> me) {
//       boost::asio::post(loop, me);
//     });
//   }
// What need not wait (the event is set, the channel has an item, the task has ended) starts no fiber, and the coroutine
// goes on where it is. f inherits the awaiting caller's FiberExecutionContext.
//
// Tasks and Futures. co_await takes the result as Get() does (several values of a Future as a tuple), or throws what
// Get() would. One coroutine takes it, and nobody else waits for that Future meanwhile; others may await the end of a
// task, too (CoWait). To await a task cancels nothing: it ends early only by its Cancel(), or where its handle goes.
//
// A fiber waits. CoTask<T> is a coroutine that starts when it is awaited, and resumes its awaiter where it ends.
// AwaitInFiber(awaitable) runs any awaitable on the caller's stack up to where it first suspends, and parks the caller
// until it has completed, wherever that is. It returns its result or rethrows its exception.
// Without a deadline the awaitable may refer to the caller's locals: the caller cannot leave before it has completed,
// and the call is no cancellation point, as FiberBlocking(f) is none. With a deadline, also Deadline::None(), it is
// one. Then the awaitable is moved, and goes on without its caller if the deadline passes or the caller is cancelled:
// it must refer to nothing that ends sooner. The result is a std::optional then, or a bool for a coroutine without a
// result. What a coroutine does in a fiber of its own (InFiber) is not in the caller's scopes.
//
// Who may call: co_await: any coroutine and thread, while the runtime runs; AwaitInFiber(): any fiber and any thread.
// Errors: if the fiber is refused, co_await throws FiberNotStarted (fiber/fiber_attributes.h); f has not run, and a
// kept task or Future is as it was. (An rvalue is destroyed, which cancels a task and waits for it.) An empty task or
// Future ends the process. A task that waits in AwaitInFiber() for a coroutine that awaits this same task waits for
// ever.
// Memory ordering: what came before the co_await is visible to f; what f did is visible after the co_await; what the
// coroutine did is visible after AwaitInFiber().
// Lifetime: a coroutine must not be destroyed while a fiber works for it (this ends the process). A kept task or Future
// stays where it is until the co_await returns; an rvalue (`co_await Ask()`) is moved into the co_await.
//
// What a coroutine on fibers has to know
//   - A co_await may come back on another fiber and another thread. A FiberMutex belongs to a fiber, so it is not held
//     over a co_await; nor is a FiberLocal, or the address of a thread_local.
//   - Between two co_awaits the body runs on a fiber's stack (of 128 KiB by default) and may call whatever parks that
//     fiber. As in all code of fibers, its thread may change in such a call and nowhere else (docs/pitfalls.md).
//   - CoTasks that await CoTasks need stack as functions that call functions do. A loop of co_awaits needs none.
//
// To make another type awaitable, write an operator co_await for it, which is found by its argument's namespace:
// Sample:
//   template <class T>
//   auto operator co_await(MyFuture<T>&& future) {
//     return interop::InFiber([future = std::move(future)]() mutable { return future.Get(); });  // parks that fiber
//   }
//
// Rejected: parking the fiber that awaits (it may be the event loop of the coroutine that is to set the event).
// Coroutines as waiters in the primitives' queues (every waker would have to know of them; a fiber costs 70 to 200 ns,
// bench/workload --workload=spawn). Future::Then() instead of a waiting fiber (the coroutine would run within
// SetValue(), in whatever thread, or in a fiber whose start may be refused when nobody can be told).
#ifndef WEFT_INTEROP_COROUTINE_H_
#define WEFT_INTEROP_COROUTINE_H_

#if !defined(__cpp_impl_coroutine)
#error "weft/interop/coroutine.h needs C++20 coroutines: g++ 10 or clang++ 14 with -std=c++20"
#endif

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/future.h"
#include "weft/interop/coroutine/awaiting.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

namespace interop {

// Resumes the coroutine in the caller: on the stack of the fiber that waited for it.
struct ResumeInPlace {
  // Resumes it, and returns when it has been suspended again or has ended.
  void operator()(std::coroutine_handle<> coroutine) const { coroutine.resume(); }
};

// What InFiber(), CoWait() and CoGet() return; to be awaited once, at once.
template <class F, class Resume = ResumeInPlace>
class [[nodiscard]] FiberCall {
 public:
  // What f returns.
  using Result = std::invoke_result_t<F&>;

  // For InFiber() and its kin.
  explicit FiberCall(F f, Resume resume = Resume()) : f_(std::move(f)), resume_(std::move(resume)) {}
  // Before it is awaited.
  FiberCall(FiberCall&& other) : FiberCall(std::move(other.f_), std::move(other.resume_)) {}
  FiberCall& operator=(FiberCall&&) = delete;
  ~FiberCall() { WEFT_CHECK(!under_way_, "weft/interop/coroutine.h: a coroutine was destroyed while its fiber runs"); }

  // `resume(handle)` is called, in the fiber that waited, instead of the handle; it must not throw.
  template <class OtherResume>
  FiberCall<F, std::decay_t<OtherResume>> ResumeBy(OtherResume&& resume) && {
    return FiberCall<F, std::decay_t<OtherResume>>(std::move(f_), std::forward<OtherResume>(resume));
  }

  bool await_ready() {
    if constexpr (requires { f_.TryNow(&result_); }) {
      return f_.TryNow(&result_);
    } else {
      return false;
    }
  }
  // Not inlined: clang before 17 may keep an inlined function's variables in the coroutine, which may be gone.
  WEFT_NOINLINE bool await_suspend(std::coroutine_handle<> coroutine) {
    under_way_ = true;
    struct Unless {
      ~Unless() {
        if (call != nullptr) call->under_way_ = false;
      }
      FiberCall* call;
    } refused{this};
    const StartRefusal refusal = fiber::detail::StartPlain("co_await", [this, coroutine] { Run(coroutine); });
    if (refusal == StartRefusal::kNone) {
      refused.call = nullptr;  // And touch nothing more: it may have been resumed, and have ended.
      return true;
    }
    refusal_ = refusal;
    return false;
  }
  Result await_resume() {
    if (!result_.has_value()) throw FiberNotStarted("co_await", refusal_);
    return result_.Take();
  }

 private:
  void Run(std::coroutine_handle<> coroutine) {
    result_.SetBy(f_);
    under_way_ = false;
    Resume resume = std::move(resume_);
    resume(coroutine);  // The last touch, unless it throws.
  }

  F f_;
  [[no_unique_address]] Resume resume_;
  bool under_way_ = false;
  StartRefusal refusal_ = StartRefusal::kNone;
  detail::CoResult<Result> result_;
};

// co_await InFiber(f): runs f in a fiber of its own. Returns what f does, or throws what it throws.
template <class F>
FiberCall<std::decay_t<F>> InFiber(F&& f) {
  return FiberCall<std::decay_t<F>>(std::forward<F>(f));
}

// co_await CoWait(event, deadline): false if it is not set in time.  CoWait(task, deadline): if the task has not ended.
// CoWait(future, deadline): if it is neither ready nor failed. They leave the result where it is.
inline auto CoWait(FiberEvent& event, Deadline deadline = {}) {
  return FiberCall<detail::TimedWait<FiberEvent>>({&event, deadline});
}
template <class T>
auto CoWait(FiberTask<T>& task, Deadline deadline = {}) {
  return FiberCall<detail::TimedWait<FiberTask<T>>>({&task, deadline});
}
template <class... Ts>
auto CoWait(Future<Ts...>& future, Deadline deadline = {}) {
  return FiberCall<detail::TimedWait<Future<Ts...>>>({&future, deadline});
}

// co_await CoGet(channel): the next item, as FiberChannel::Get().
template <class T>
auto CoGet(FiberChannel<T>& channel, Deadline deadline = {}) {
  return FiberCall<detail::ChannelGet<T>>({&channel, deadline});
}

// co_await CoGet(task), CoGet(future): the same as co_await task, for ResumeBy().
template <class T>
auto CoGet(FiberTask<T>& task) {
  return FiberCall<detail::ResultGet<FiberTask<T>&>>({task});
}
template <class T>
auto CoGet(FiberTask<T>&& task) {
  return FiberCall<detail::ResultGet<FiberTask<T>>>({std::move(task)});
}
template <class... Ts>
auto CoGet(Future<Ts...>& future) {
  return FiberCall<detail::ResultGet<Future<Ts...>&>>({future});
}
template <class... Ts>
auto CoGet(Future<Ts...>&& future) {
  return FiberCall<detail::ResultGet<Future<Ts...>>>({std::move(future)});
}

}  // namespace interop

// co_await event: until it is set.
inline auto operator co_await(FiberEvent& event) {
  return interop::FiberCall<interop::detail::PlainEventWait>({&event});
}

// co_await task: until it has ended.  Its result, or its exception, as FiberTask::Get().
template <class T>
auto operator co_await(FiberTask<T>& task) {
  return interop::CoGet(task);
}
template <class T>
auto operator co_await(FiberTask<T>&& task) {
  return interop::CoGet(std::move(task));
}

// co_await future: until it is ready or failed. Likewise, as Future::Get().
template <class... Ts>
auto operator co_await(Future<Ts...>& future) {
  return interop::CoGet(future);
}
template <class... Ts>
auto operator co_await(Future<Ts...>&& future) {
  return interop::CoGet(std::move(future));
}

// A coroutine with a result: `CoTask<T> F() { ... co_return t; }`. T may be a reference or void. It is started by
// `co_await F()` (once; a task that is kept: `co_await std::move(task)`) or AwaitInFiber(F()), and what it throws is
// thrown there. One that is never awaited never runs.
template <class T = void>
class [[nodiscard]] CoTask {
 public:
  using promise_type = interop::detail::CoPromise<T>;

  CoTask(CoTask&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  // Destroys its own coroutine, and takes over the other's.
  CoTask& operator=(CoTask&& other) noexcept {
    CoTask(std::move(other)).Swap(*this);
    return *this;
  }
  ~CoTask() {
    if (coroutine_) coroutine_.destroy();
  }

  // What co_await of a CoTask makes.
  class [[nodiscard]] Awaiter {
   public:
    bool await_ready() const noexcept { return false; }
    WEFT_NOINLINE bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
      WEFT_CHECK(coroutine_ && !coroutine_.promise().continuation, "CoTask: awaited twice, or moved from");
      promise_type& promise = coroutine_.promise();
      promise.continuation = awaiting;
      coroutine_.resume();
      return !promise.IsSecond();  // False: it has ended, and the awaiter goes on.
    }
    T await_resume() { return coroutine_.promise().result.Take(); }

   private:
    friend class CoTask;
    explicit Awaiter(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
    std::coroutine_handle<promise_type> coroutine_;
  };
  Awaiter operator co_await() && noexcept { return Awaiter(coroutine_); }

 private:
  friend promise_type;
  explicit CoTask(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  void Swap(CoTask& other) noexcept { std::swap(coroutine_, other.coroutine_); }

  std::coroutine_handle<promise_type> coroutine_;
};

// Waits until the awaitable has completed.  Its result, or its exception. Not a cancellation point.
template <class Awaitable>
interop::detail::AwaitResult<Awaitable> AwaitInFiber(Awaitable&& awaitable) {
  interop::detail::CoResult<interop::detail::AwaitResult<Awaitable>> result;
  FiberEvent ended;
  const auto wait = interop::detail::AwaitAttached(std::forward<Awaitable>(awaitable), &result);
  wait.Start(&ended);
  synchronization::WaitAccess::WaitUncancelled(ended);
  return result.Take();
}

// The same, until the deadline: std::optional of the result (a pointer for a reference), or bool. A cancellation point.
template <class Awaitable>
[[nodiscard]] interop::detail::LimitedAwaitResult<Awaitable> AwaitInFiber(Awaitable&& awaitable, Deadline deadline) {
  using Wait = interop::detail::DetachedWait<std::decay_t<Awaitable>>;
  auto shared = std::make_shared<Wait>(std::forward<Awaitable>(awaitable));
  interop::detail::AwaitDetached(shared);
  if (!shared->ended.Wait(deadline)) return {};
  return shared->TakeLimited();
}

}  // namespace weft

#endif  // WEFT_INTEROP_COROUTINE_H_
