// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Await: a fiber waits for a std::future, or a std::shared_future, without blocking its worker.
// Sample:
//   std::future<Row> row = database.FetchAsync(key);            // of a library that knows nothing of fibers
//   std::optional<Row> in_time = Await(row, 50ms);              // no value: not in time, `row` is as it was
//   Row late = Await(row);                                      // or what the future throws
//
// A std::future can do nothing but block a thread. So a thread of the pool of blocking calls waits for it, and the
// fiber waits for that thread (FiberBlocking, fiber_blocking.h).
//
// Cost: nothing if the future is ready. Otherwise one of the pool's --fiber_blocking_threads for as long as the future
// takes, and the way there and back (bench/io/fiber_blocking_benchmark.cc). Where many fibers wait, they hold up all
// other blocking calls: resolve a weft::Promise (fiber/future.h) instead.
//
// Deadline: the thread of the pool waits until then, since the future must not be in use when the call returns. If such
// a thread comes late, the call returns late; a future that is ready by then counts as in time.
//
// Cancellation: the call throws FiberCancelled, and the future can be waited for again. For a caller that may be
// cancelled (it is in a scope; each Fiber is) the thread waits for 10 ms at a time, and checks in between whether its
// caller still waits. That costs two allocations and a wake-up every 10 ms, and delays a cancelled caller by as much.
//
// A deferred function (std::launch::deferred) runs in the caller, whatever the deadline, as std::future::get() has it.
//
// Who may call: any fiber, and any thread, which then waits as std::future does. Switches. A cancellation point.
// Memory ordering: that of the future.
#ifndef WEFT_IO_AWAIT_STD_FUTURE_H_
#define WEFT_IO_AWAIT_STD_FUTURE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <type_traits>

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/time/clock.h"
#include "weft/io/fiber_blocking.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

namespace io::detail {

// The caller lends its future to a thread of the pool, and recalls it when it is cancelled.
class FutureLoan {
 public:
  // How long the thread waits before it looks whether it is recalled.
  static constexpr std::chrono::milliseconds kSlice{10};

  // The thread, before it touches the future. False: it was recalled, and may be gone.
  [[nodiscard]] bool Begin() noexcept {
    // relaxed: it only decides who is first. `ended_` orders the rest.
    return !met_.exchange(true, std::memory_order_relaxed);
  }
  // relaxed: a hint to hurry.
  [[nodiscard]] bool IsRecalled() const noexcept { return recalled_.load(std::memory_order_relaxed); }
  // The thread has touched the future for the last time.
  void End() noexcept { ended_.Set(); }

  // The caller: returns when the thread touches the future no more.
  void Recall() noexcept {
    recalled_.store(true, std::memory_order_relaxed);  // See IsRecalled() and Begin().
    if (met_.exchange(true, std::memory_order_relaxed)) synchronization::WaitAccess::WaitUncancelled(ended_);
  }

 private:
  base::Atomic<bool> met_{false};
  base::Atomic<bool> recalled_{false};
  FiberEvent ended_;
};

// The thread of the pool. True: ready.
template <class StdFuture>
bool WaitLent(const StdFuture& future, Deadline deadline, const FutureLoan& loan) {
  std::chrono::nanoseconds left = deadline.remaining();
  while (!loan.IsRecalled()) {
    const auto slice = std::min<std::chrono::nanoseconds>(left, FutureLoan::kSlice);
    if (future.wait_for(slice) == std::future_status::ready) return true;
    left = std::min(left - slice, deadline.remaining());  // A test's clock may stand still meanwhile.
    if (left.count() <= 0) return false;
  }
  return false;
}

// As AwaitReady(), for a caller that may be cancelled.
template <class StdFuture>
bool AwaitLent(const StdFuture& future, Deadline deadline, synchronization::Interruptible how) {
  const auto loan = std::make_shared<FutureLoan>();
  const auto wait = [&future, deadline, loan] {
    if (!loan->Begin()) return false;
    const bool ready = WaitLent(future, deadline, *loan);
    loan->End();
    return ready;
  };
  std::optional<bool> ready;
  const synchronization::WaitResult waited = RunBlocking(ProcessBlockingPool(), wait, &ready, how, Deadline::None());
  if (waited != synchronization::WaitResult::kNotified) loan->Recall();
  return synchronization::CheckInterruptedWithResult(waited) == synchronization::WaitResult::kNotified && *ready;
}

// False: not in time. StdFuture: std::future<T> or std::shared_future<T>.
template <class StdFuture>
bool AwaitReady(const StdFuture& future, Deadline deadline) {
  if (future.wait_for(std::chrono::seconds(0)) != std::future_status::timeout) return true;  // Also if deferred.
  if (deadline.expired()) return false;
  const auto how = deadline.is_none() ? synchronization::Interruptible::kYes : synchronization::Interruptible::kResult;
  if (synchronization::MayBeCancelled(scheduling_group::CurrentFiber(), how)) return AwaitLent(future, deadline, how);
  return FiberBlocking([&future, deadline] {
    if (!deadline.is_none()) return future.wait_for(deadline.remaining()) == std::future_status::ready;
    future.wait();
    return true;
  });
}

// bool: there was a result, which is nothing.
template <class T>
using AwaitedInTime = std::conditional_t<
    std::is_void_v<T>, bool,
    std::optional<std::conditional_t<std::is_reference_v<T>, std::reference_wrapper<std::remove_reference_t<T>>, T>>>;

template <class StdFuture, class T>
AwaitedInTime<T> AwaitInTime(StdFuture& future, Deadline deadline) {
  if (!AwaitReady(future, deadline)) return {};
  if constexpr (std::is_void_v<T>) {
    future.get();
    return true;
  } else {
    return AwaitedInTime<T>(future.get());
  }
}

}  // namespace io::detail

// Waits, and returns or throws what future.get() does; throws FiberCancelled, and then the future is as it was.
template <class T>
T Await(std::future<T>& future) {
  static_cast<void>(io::detail::AwaitReady(future, Deadline::None()));
  return future.get();
}
template <class T>
decltype(auto) Await(const std::shared_future<T>& future) {
  static_cast<void>(io::detail::AwaitReady(future, Deadline::None()));
  return future.get();
}

// The same, in time: a std::optional, of a std::reference_wrapper if T is a reference; true, if T is void.
// No value (false): not in time, and the future is as it was.
template <class T>
[[nodiscard]] auto Await(std::future<T>& future, Deadline deadline) {
  return io::detail::AwaitInTime<std::future<T>, T>(future, deadline);
}
template <class T>
[[nodiscard]] auto Await(const std::shared_future<T>& future, Deadline deadline) {
  return io::detail::AwaitInTime<const std::shared_future<T>, T>(future, deadline);
}

namespace fiber {
using weft::Await;  // docs/from_trpc.md
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_IO_AWAIT_STD_FUTURE_H_
