// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// use_fiber: a completion token of Boost.Asio (tested with 1.81) by which asynchronous operations look synchronous: the
// initiating function parks the calling fiber until the operation has completed, and returns its results.  For clients
// that are built on Asio and run by an io_context with threads of its own: Beast's, asio::ssl's, a database driver's.
// Sample:
//   std::string Ask(tcp::socket& socket) {
//     asio::async_write(socket, asio::buffer("ask\n", 4), use_fiber);                 // throws a system_error
//     std::string answer;
//     boost::system::error_code error;
//     asio::async_read_until(socket, asio::dynamic_buffer(answer), '\n', use_fiber(2s)[error]);
//     if (error == asio::error::timed_out) return "too late";
//     return answer;
//   }
//
// What the operation's completion signature is, and what the call does:
//   void(error_code, T...)           an error is thrown as boost::system::system_error; with use_fiber[error] it is
//                                    stored there (cleared if there is none), and nothing is thrown
//   void(std::exception_ptr, T...)   an exception is rethrown
//   void(T...)                       returns
//   ... and returns nothing, the T, or a std::tuple<T...>.  What can only be moved is moved.
// So asio::co_spawn(executor, an awaitable, use_fiber) runs a coroutine of Asio's and waits for it, and
// asio::as_tuple(use_fiber) and asio::bind_executor(executor, use_fiber) are tokens, too.
//
// Who may call: any fiber, which may switch, and any thread, which is blocked, but not one that runs the io_context: it
// would wait for itself. One fiber or thread at a time uses an I/O object, unless its documentation allows more.
// Memory ordering: what came before the completion handler's call is visible when the function returns. Lifetime: what
// the arguments refer to has to live until then.
//
// Giving up. use_fiber(deadline) takes a duration or a time point (weft/base/deadline.h). When it has passed, the
// operation gets Asio's terminal cancellation, and the function still waits for the completion handler, because the
// buffers are in use until then. The result is timed_out, or success if the operation had completed by then. Mostly the
// object is good for closing only after that; Asio says so of each operation. One that knows no cancellation
// (async_resolve) is waited for to its own end. The handlers of an operation with a deadline run in a strand of its
// own, so that the io_context may have several threads; so do those of one in a scope. (asio::as_tuple keeps the error
// operation_aborted.)
//
// Cancellation. The call is a cancellation point of the fiber (weft/sync/cancel_scope.h): in a cancelled scope the
// operation is cancelled in the same way, and when its handler has been called, the call throws FiberCancelled. It
// drops the operation's result, also one that came at that moment; the buffers keep what was read by then.
//
// co_spawn() with a deadline or in a scope needs an executor that runs one handler at a time, as asio::make_strand() of
// an io_context with several threads: otherwise a cancellation between two steps of the coroutine may be missed, and
// the call waits for the coroutine's own end. Boost 1.81 ends a coroutine that is cancelled before its first step by an
// exception that leaves io_context::run(): a system_error with operation_aborted. Call run() again then.
//
// If the io_context is destroyed before the operation completes, the handler is destroyed without being called: the
// result is operation_aborted. (With [error], the values are T(); a system_error if there is no T().) As long as an
// io_context is stopped and neither run again nor destroyed, a call waits.
//
// A library that takes callbacks and no tokens:
// Sample:
//   int Ask(Client& client) {  // client.AsyncAsk(std::function<void(boost::system::error_code, int)>)
//     return asio::async_initiate<const UseFiber, void(boost::system::error_code, int)>(
//         [&client](auto handler) {
//           auto shared = std::make_shared<decltype(handler)>(std::move(handler));  // std::function copies
//           client.AsyncAsk([shared](boost::system::error_code error, int answer) { (*shared)(error, answer); });
//         },
//         use_fiber);
//   }
//
// Where a library takes any stream, io::AsioStream is cheaper: the fiber calls the socket itself.
//
// Rejected: a strand for every operation (an allocation and a detour; asio_operation.h says which ones need it).
#ifndef WEFT_INTEROP_USE_FIBER_H_
#define WEFT_INTEROP_USE_FIBER_H_

#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/system/error_code.hpp>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/interop/asio/asio_operation.h"
#include "weft/sync/fiber_event.h"

namespace weft {

// The token.  A value: copy it, keep it.
class UseFiber {
 public:
  // Waits as long as it takes, and throws errors.
  constexpr UseFiber() noexcept = default;

  // Gives up at the deadline.
  UseFiber operator()(Deadline deadline) const noexcept { return UseFiber(deadline, error_); }
  // Stores an error in `error`, which lives until the call returns, instead of throwing it.
  constexpr UseFiber operator[](boost::system::error_code& error) const noexcept { return UseFiber(deadline_, &error); }

  // When the operation is given up; none: never.
  constexpr Deadline deadline() const noexcept { return deadline_; }
  // Where an error goes; nullptr: it is thrown.
  constexpr boost::system::error_code* error() const noexcept { return error_; }

 private:
  constexpr UseFiber(Deadline deadline, boost::system::error_code* error) noexcept
      : deadline_(deadline), error_(error) {}

  Deadline deadline_;
  boost::system::error_code* error_ = nullptr;
};

// The token itself: `socket.async_read_some(buffer, use_fiber)`.
inline constexpr UseFiber use_fiber;  // NOLINT: named as Asio's tokens are.

namespace interop::detail {

template <class... Args>
using AsioReturn = typename AsioHandler<Args...>::Operation::Return;

// Calls initiate(handler) and waits.
template <class... Args, class Initiate>
AsioReturn<Args...> AwaitAsio(const UseFiber& token, Initiate&& initiate) {
  typename AsioHandler<Args...>::Operation operation(!token.deadline().is_none() || CallerMayBeCancelled());
  try {
    std::forward<Initiate>(initiate)(AsioHandler<Args...>(&operation));
  } catch (...) {
    operation.AwaitHandler();
    throw;
  }
  const bool in_time = operation.Await([&](FiberEvent& ended) { return ended.Wait(token.deadline()); });
  return operation.Take(!in_time, token.error());
}

}  // namespace interop::detail
}  // namespace weft

template <class R, class... Args>
class boost::asio::async_result<weft::UseFiber, R(Args...)> {
 public:
  using return_type = weft::interop::detail::AsioReturn<Args...>;

  template <class Initiation, class... InitArgs>
  static return_type initiate(Initiation&& initiation, const weft::UseFiber& token, InitArgs&&... args) {
    return weft::interop::detail::AwaitAsio<Args...>(token, [&](auto handler) {
      std::forward<Initiation>(initiation)(std::move(handler), std::forward<InitArgs>(args)...);
    });
  }
};

// asio::bind_executor(executor, use_fiber): the operation is to know the executor, for the emission (asio_operation.h).
template <class Executor, class R, class... Args>
class boost::asio::async_result<boost::asio::executor_binder<weft::UseFiber, Executor>, R(Args...)> {
 public:
  using return_type = weft::interop::detail::AsioReturn<Args...>;

  template <class Initiation, class Token, class... InitArgs>
  static return_type initiate(Initiation&& initiation, Token&& token, InitArgs&&... args) {
    return weft::interop::detail::AwaitAsio<Args...>(token.get(), [&](auto handler) {
      // Copied before the handler is moved: its executor is the strand over `executor`, if it has one.
      const boost::asio::any_io_executor executor = handler.ExecutorFor(token.get_executor());
      std::forward<Initiation>(initiation)(boost::asio::bind_executor(executor, std::move(handler)),
                                           std::forward<InitArgs>(args)...);
    });
  }
};

#endif  // WEFT_INTEROP_USE_FIBER_H_
