// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber::Await: a fiber waits for a std::future, or a std::shared_future, without blocking its worker.
// Sample:
//   std::future<Row> row = database.FetchAsync(key);            // of a library that knows nothing of fibers
//   std::optional<Row> in_time = fiber::Await(row, 50ms);       // no value: not in time, `row` is as it was
//   Row late = fiber::Await(row);                               // or what the future throws
//
// A std::future cannot tell anybody that it has become ready; all that it offers is to block a thread. So a thread of
// the pool of blocking calls waits for it, and the fiber for that thread (FiberBlocking, fiber_blocking.h).
//
// What it costs: nothing if the future is ready. Otherwise one of the pool's --fiber_blocking_threads for as long as
// the future takes, and the way there and back (bench/io/fiber_blocking_benchmark.cc). As many such waits as there are
// threads hold up all other blocking calls: where many fibers wait, resolve a weft::Promise (fiber/future.h) instead,
// whose Future parks the fiber alone.
//
// Deadline: the thread of the pool waits that long, since the caller's future must not be in use any more when the call
// returns. If it takes long to get such a thread, the call returns by so much later than at the deadline; a future that
// is ready by then counts as in time.
//
// A deferred function (std::launch::deferred) runs in the caller, whatever the deadline, as std::future::get() has it.
//
// Who may call: any fiber, and any thread, which then waits as std::future does. Switches. Cannot be cancelled.
// Memory ordering: that of the future.
#ifndef WEFT_IO_AWAIT_STD_FUTURE_H_
#define WEFT_IO_AWAIT_STD_FUTURE_H_

#include <functional>
#include <future>
#include <optional>
#include <type_traits>

#include "weft/base/clocks.h"
#include "weft/base/deadline.h"
#include "weft/io/fiber_blocking.h"

namespace weft {

namespace io::detail {

// False: not in time. StdFuture: std::future<T> or std::shared_future<T>.
template <class StdFuture>
bool AwaitReady(const StdFuture& future, Deadline deadline) {
  if (future.wait_for(std::chrono::seconds(0)) != std::future_status::timeout) return true;  // Also if deferred.
  if (deadline.expired()) return false;
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

namespace fiber {

// Waits, and returns or throws what future.get() does.
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

}  // namespace fiber

}  // namespace weft

#endif  // WEFT_IO_AWAIT_STD_FUTURE_H_
