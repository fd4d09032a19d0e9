// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StopOnCancel: a std::stop_token that is stopped when the calling fiber is cancelled, for a library that knows the
// standard's tokens and not Weft. CancelOnStop (sync/cancel_on_stop.h) is the other way round.
// Sample:
//   scope.Run([&] {
//     const StopOnCancel stop;                      // if `scope`, or one around it, is cancelled, or Fiber::Cancel()
//     Compress(file, stop.Token());                 // looks at token.stop_requested() from time to time
//   });
//
// How it works: a fiber of its own waits inside the scopes of the calling one until they are cancelled, and calls
// request_stop(). So the token's callbacks run in that fiber, under a shield and no lock, and not in the canceller,
// which may be a timer's thread. The caller may even block its worker. Where nothing can cancel the caller (outside of
// scopes, in a plain thread) there is no such fiber, and stop is never requested.
//
// A callback that is registered after the request is called at once, by whoever registers it. No callback may wait
// (park its fiber): the standard library tells by the thread whether ~stop_callback is inside of the callback, so one
// that waits may be gone too early.
//
// Who may call: any fiber and any thread; Token() while it exists (a token may stay longer). It is a local variable; it
// and scopes are left in the reverse order of their making (it is a FiberScope). The constructor may switch where too
// many fibers start at once. The destructor may switch, to wait for callbacks that run; it is no cancellation point.
// After it stop is not requested any more.
// Memory ordering: what X did before Cancel() is visible after stop_requested() has said true, and in callbacks.
// Errors: throws std::bad_alloc, and FiberNotStarted (fiber_attributes.h).
// Cost: a fiber for each (bench/fiber/spawn_benchmark.cc).
// Rejected: request_stop() by whoever cancels: Cancel() walks under spin locks, and where it has left them it may be a
// timer's thread, which a user's callback would hold up. A fiber that is started when the cancellation comes: the start
// may be refused. A thread of the pool of FiberBlocking(): all may be in calls that wait for this very stop.
#ifndef WEFT_FIBER_STOP_ON_CANCEL_H_
#define WEFT_FIBER_STOP_ON_CANCEL_H_

#include <optional>
#include <stop_token>

#include "weft/fiber/fiber_scope.h"
#include "weft/sync/fiber_event.h"

namespace weft {

class StopOnCancel {
 public:
  // Of the scopes that the calling fiber is in. May switch, where too many fibers start at once.
  StopOnCancel();
  ~StopOnCancel();
  StopOnCancel(const StopOnCancel&) = delete;
  StopOnCancel& operator=(const StopOnCancel&) = delete;

  // The token, which may be copied and kept.
  [[nodiscard]] std::stop_token Token() const noexcept { return source_.get_token(); }

 private:
  void Watch() noexcept;  // The other fiber.

  std::stop_source source_;
  FiberEvent no_more_;
  std::optional<FiberScope> watcher_;
};

}  // namespace weft

#endif  // WEFT_FIBER_STOP_ON_CANCEL_H_
