// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What gRPC calls of all kinds have in common on the server's side: FiberServerContext, and ServerCall, which runs the
// handler. Users include grpc_server.h, which describes the whole.
//
// How it works. gRPC polls and parses in threads of its own and calls the generated method there, which starts a fiber
// and returns. The fiber runs the handler and hands gRPC the answer, which is mostly written to the socket right there.
// The call's object lives until gRPC calls OnDone, in one of its threads.
//
//     gRPC's threads   method -> Start ---------- OnReadDone, OnWriteDone, OnCancel ----------- OnDone: delete
//                                  |                        ^             |                        ^
//     fiber                        +--> handler ... Read, Write           +--> woken ... Finish ---+
//
// Invariants
//   GS1  Finish is called exactly once for each call: at the end of its fiber, or by a refused start.
//   GS2  After Finish the fiber touches nothing of the call; it has left the call's scope, and the handler, and what it
//        captured, has been destroyed before. So when grpc::Server::Shutdown() has returned no fiber uses the service
//        any more (one may still be ending: TerminateRuntime() waits for it).
//   GS3  Nothing that runs in gRPC's threads waits for a fiber. (Starting one may wait for capacity of the run queue,
//        up to --fiber_start_timeout_ms, as in any plain thread.)
//   GS4  When the handler has returned no other fiber is in a read or a write of its call (ServerCall checks it as well
//        as it can: one that comes later finds a call that may be gone).
//   GS5  A read that a cancelled fiber has left may be under way at Finish. It fills the reader's own message and wakes
//        nobody. gRPC ends it when it closes the stream, which Finish brings about, and calls OnDone after that (GC3).
//   GS6  A client stream that breaks off is not taken for one that has ended. gRPC ends a read without a message for
//        both, and calls OnCancel at any time after. But it has closed the stream for writing first: sending the
//        initial metadata fails then, and succeeds if the client has merely sent all. gRPC also ends a read so at a
//        message that it cannot parse; the mark in the reader's message tells it (grpc_completion.h). The exception:
//        messages that are not protobuf's, or of its lite runtime, have no mark. The first of them that cannot be
//        parsed is taken for the end.
//
// Memory ordering: what gRPC's thread did before it called the method is visible to the handler; what the handler did
// is visible to OnDone by gRPC's own order (tests/interop/grpc_reactors_test.cc).
#ifndef WEFT_INTEROP_GRPC_SERVER_CALL_H_
#define WEFT_INTEROP_GRPC_SERVER_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::interop {

template <class Request>
class FiberServerReader;

namespace detail {
template <class Reactor, class Handler>
class ServerCall;
}  // namespace detail

// What a handler knows of its call.  Lives as long as the handler runs, for any fiber and any thread.
class FiberServerContext {
 public:
  FiberServerContext(const FiberServerContext&) = delete;
  FiberServerContext& operator=(const FiberServerContext&) = delete;

  // True: the peer has gone or cancelled, the deadline has passed, or the server's shutdown has ended the call: nobody
  // will read the answer. gRPC does not say which: a handler that must know of a shutdown asks whoever calls
  // ShutdownServer().
  bool IsCancelled() const noexcept { return cancelled_.IsSet() || scope_.IsCancelled(); }

  // Parks until the call is cancelled.  With a deadline it is a sleep that a cancellation ends; false: the deadline
  // passed.  A cancellation point for other scopes than the call's own.
  void WaitCancelled() { static_cast<void>(WaitCancelled(weft::Deadline::None())); }
  [[nodiscard]] bool WaitCancelled(weft::Deadline deadline) {
    try {
      if (!deadline.is_none()) return cancelled_.Wait(deadline);
      cancelled_.Wait();  // It promises that the call is cancelled: no limit ends it while the stack unwinds.
      return true;
    } catch (const FiberCancelled& cancelled) {
      if (!scope_.IsCauseOf(cancelled)) throw;
    }
    // Our timer was first. gRPC, which counts in milliseconds, follows: the client must not get an answer before that.
    return synchronization::WaitAccess::WaitUncancelled(cancelled_, deadline);
  }

  // When the client stops waiting, on gRPC's clock; max() if it set no deadline. Converts to a weft::Deadline.
  std::chrono::system_clock::time_point Deadline() const { return context_->deadline(); }

  // For a call that the handler makes on behalf of this one: inherits the deadline and is cancelled with it.
  std::unique_ptr<grpc::ClientContext> NewClientContext() const {
    return grpc::ClientContext::FromCallbackServerContext(*context_);
  }

  // gRPC's own context of the call: metadata, peer, compression. Lives as long as this.
  grpc::CallbackServerContext& grpc_context() const noexcept { return *context_; }

 private:
  template <class Reactor, class Handler>
  friend class detail::ServerCall;
  template <class Request>
  friend class FiberServerReader;

  // For a message that cannot be parsed: gRPC has thrown it away. OnCancel follows, and the client is told.
  void CancelBecauseOfAMessage() {
    WEFT_LOG_EVERY_SECOND(ERROR, "a gRPC client has sent a message that cannot be parsed; its call is cancelled");
    context_->TryCancel();
  }

  // For a read that has ended without a message. OnCancel may still be on its way, so the scope is cancelled here.
  // ByChain: OnCancel may be in Cancel(), which has then marked the scope, and not yet this fiber.
  void ThrowIfCancelled(bool broken_off) {
    if (!broken_off && !IsCancelled()) return;
    scope_.Cancel();
    if (IsRunningInFiberWorker()) synchronization::TestCancelledByChain();
  }

  explicit FiberServerContext(grpc::CallbackServerContext* context) : context_(context), scope_(context->deadline()) {}

  grpc::CallbackServerContext* const context_;
  FiberEvent cancelled_;
  CancelScope scope_;
};

namespace detail {

// What the functions Serve...() take for a handler.
template <class Handler, class... Arguments>
concept ServerHandler = std::is_invocable_r_v<grpc::Status, std::add_lvalue_reference_t<std::decay_t<Handler>>,
                                              FiberServerContext&, Arguments...>;

inline void LogThrown(const char* what) { WEFT_LOG_EVERY_SECOND(ERROR, "a gRPC handler has thrown: ", what); }

// Reactor: grpc::ServerUnaryReactor, or one of the three for streams.
template <class Reactor, class Handler>
class ServerCall : public Reactor {
 public:
  // In gRPC's thread, in the generated method.
  void Start(const FiberAttributes& attributes) {
    if (fiber::detail::StartNamed("grpc call", attributes, [this] { Run(); })) return;
    handler_.reset();
    this->Finish(grpc::Status(
        grpc::StatusCode::RESOURCE_EXHAUSTED,
        "weft: no fiber could be started for this call: too many are queued, or the fiber runtime is ending"));
  }

 protected:
  template <class H>
  ServerCall(grpc::CallbackServerContext* context, H&& handler)
      : context_(context), handler_(std::in_place, std::forward<H>(handler)) {}
  ~ServerCall() override = default;
  FiberServerContext& context() { return context_; }

 private:
  virtual grpc::Status CallHandler(Handler& handler) = 0;
  virtual void CheckNobodyUsesIt() const {}

  grpc::Status CallHandlerCatching() {
    try {
      return CallHandler(*handler_);
    } catch (const FiberCancelled&) {
      throw;
    } catch (const std::exception& exception) {
      LogThrown(exception.what());
    } catch (...) {
      LogThrown("something that is no std::exception");
    }
    return grpc::Status(grpc::StatusCode::UNKNOWN, "the handler of this method has thrown an exception");
  }

  void Run() {
    grpc::Status status;
    CancelScope& scope = context_.scope_;
    if (!scope.Run([&] { status = CallHandlerCatching(); })) {
      status = scope.DeadlineHasPassed() ? grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline has passed")
                                         : grpc::Status(grpc::StatusCode::CANCELLED, "the call is cancelled");
    }
    handler_.reset();
    CheckNobodyUsesIt();              // GS4
    this->Finish(std::move(status));  // GS2: the last touch.
  }

  void OnCancel() final {
    context_.cancelled_.Set();  // First: WaitCancelled() returns.
    context_.scope_.Cancel();
  }
  void OnDone() final { delete this; }

  FiberServerContext context_;
  std::optional<Handler> handler_;
};

}  // namespace detail
}  // namespace weft::interop

#endif  // WEFT_INTEROP_GRPC_SERVER_CALL_H_
