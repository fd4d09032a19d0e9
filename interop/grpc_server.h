// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// gRPC services whose handlers run in fibers: ServeUnary, ServeServerStream, FiberServerContext, FiberServerWriter,
// ShutdownServer.  For programs that have gRPC for C++ (tested with 1.51), by the CMake target weft::grpc.
// Sample:
//   class Greeter final : public pb::Greeter::CallbackService {  // what protoc's gRPC plugin generates
//     grpc::ServerUnaryReactor* Greet(grpc::CallbackServerContext* context, const pb::Ask* ask,
//                                     pb::Answer* answer) override {
//       return weft::interop::ServeUnary(
//           context, ask, answer,
//           [this](weft::interop::FiberServerContext& call, const pb::Ask& ask, pb::Answer* answer) {
//             answer->set_text(LookUp(ask.name()));  // may park the fiber; its thread serves others
//             return grpc::Status::OK;
//           });
//     }
//     grpc::ServerWriteReactor<pb::Answer>* Watch(grpc::CallbackServerContext* context, const pb::Ask* ask) override {
//       return weft::interop::ServeServerStream<pb::Answer>(
//           context, ask, [](auto& call, const pb::Ask& ask, weft::interop::FiberServerWriter<pb::Answer>& writer) {
//             pb::Answer answer;
//             while (Next(ask, &answer) && writer.Write(answer)) {  // parks the fiber until gRPC has taken it
//             }
//             return call.IsCancelled() ? grpc::Status::CANCELLED : grpc::Status::OK;
//           });
//     }
//   };
//
// How it works.  gRPC's callback API: gRPC polls and parses in threads of its own and calls the generated method there;
// that starts a fiber and returns. The fiber runs the handler and hands gRPC the answer, which is serialised and mostly
// written to the socket right there. The call's object lives until gRPC says that all is over (OnDone), in one of its
// threads.
//
//     gRPC's threads   method -> Start ---------------------- OnWriteDone, OnCancel ----------- OnDone: delete
//                                  |                             ^             |                   ^
//     fiber                        +--> handler ... Write -------+       woken +---> ... Finish ---+
//
// Invariants
//   GS1  Finish is called exactly once for each call: at the end of its fiber, or by a refused start.
//   GS2  After Finish the fiber touches nothing of the call; it has left the call's scope, and the handler, and what it
//        captured, has been destroyed before. So when grpc::Server::Shutdown() has returned no fiber uses the service
//        any more (one may still be ending: TerminateRuntime() waits for it).
//   GS3  Nothing that runs in gRPC's threads waits for a fiber. (Starting one may wait for capacity of the run queue,
//        up to --fiber_start_timeout_ms, as in any plain thread.)
//
// Errors.  A refused start (too many fibers are queued, or the runtime is ending) answers RESOURCE_EXHAUSTED, and the
// handler does not run. A handler that throws answers UNKNOWN, as gRPC's own do; the exception is logged, not sent. A
// call whose peer has gone, or whose deadline has passed, is cancelled: FiberServerContext says so, and writes fail.
//
// Scopes (sync/cancel_scope.h).  The handler runs in a CancelScope that ends with its call: at the client's deadline,
// when the client has cancelled or gone, when ShutdownServer()'s time is over.  Then all that the handler waits for
// throws FiberCancelled, in its fiber and in those of its FiberScopes, and the call is answered with DEADLINE_EXCEEDED
// or CANCELLED.  What it asks of others inherits the deadline (CurrentDeadline(), grpc_client.h).  WaitCancelled()
// returns; a handler that has work to do afterwards does it under a shield.
//
// Order of life: StartRuntime() before the server is built; ShutdownServer() (or ~Server) before TerminateRuntime(). A
// call that comes in without a runtime ends the process.
//
// gRPC inside fibers: a call into gRPC runs on the fiber's stack and never suspends the fiber, so its thread-local
// variables are safe. Code that gRPC calls back from within (interceptors, credentials plugins) must not wait. Build
// servers and channels in plain threads: gRPC starts its threads then, and a thread started by a worker inherits the
// worker's CPUs.
//
// Memory ordering: what gRPC's thread did before it called the method is visible to the handler; what the handler did
// is visible to OnDone by gRPC's own order (tests/interop/grpc_reactors_test.cc).
//
// Rejected: the completion queue API with a polling thread of ours (slots to post for each method, a shutdown order
// between server, queue and thread: the callback API does all that). Handlers in gRPC's synchronous threads (a thread
// for each call, which fibers avoid).

#ifndef WEFT_INTEROP_GRPC_SERVER_H_
#define WEFT_INTEROP_GRPC_SERVER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/grpc_completion.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait_access.h"

namespace weft::interop {

namespace detail {
template <class Reactor>
class ServerCall;
template <class Request, class Response, class Handler>
class ServerStreamCall;
}  // namespace detail

// What a handler knows of its call.  Lives as long as the handler runs, for any fiber and any thread.
class FiberServerContext {
 public:
  FiberServerContext(const FiberServerContext&) = delete;
  FiberServerContext& operator=(const FiberServerContext&) = delete;

  // True: the peer has gone or has cancelled, the deadline has passed, or the server is shutting down and its calls'
  // time is over.  Nobody will read the answer.
  bool IsCancelled() const noexcept { return cancelled_.IsSet() || scope_.IsCancelled(); }

  // Parks until the call is cancelled.  With a deadline it is a sleep that a cancellation ends; false: the deadline
  // passed.  A cancellation point for other scopes than the call's own.
  void WaitCancelled() { static_cast<void>(WaitCancelled(weft::Deadline::None())); }
  [[nodiscard]] bool WaitCancelled(weft::Deadline deadline) {
    try {
      return cancelled_.Wait(deadline);
    } catch (const FiberCancelled&) {
      if (!scope_.IsCancelled()) throw;
    }
    // Our timer was first. gRPC, which counts in milliseconds, follows: the client must not get an answer before that.
    return synchronization::WaitAccess::WaitUncancelled(cancelled_, deadline);
  }

  // When the client stops waiting, on gRPC's clock; time_point::max() if it set no deadline.  Converts to a
  // weft::Deadline.
  std::chrono::system_clock::time_point Deadline() const { return context_->deadline(); }

  // For a call that the handler makes on behalf of this one: inherits the deadline and is cancelled with it.
  std::unique_ptr<grpc::ClientContext> NewClientContext() const {
    return grpc::ClientContext::FromCallbackServerContext(*context_);
  }

  grpc::CallbackServerContext& grpc_context() const noexcept { return *context_; }

 private:
  template <class Reactor>
  friend class detail::ServerCall;
  explicit FiberServerContext(grpc::CallbackServerContext* context) : context_(context), scope_(context->deadline()) {}

  grpc::CallbackServerContext* const context_;
  FiberEvent cancelled_;
  CancelScope scope_;
};

// Where the handler of a server-streaming method writes.  One fiber at a time.
template <class Response>
class FiberServerWriter {
 public:
  FiberServerWriter(const FiberServerWriter&) = delete;
  FiberServerWriter& operator=(const FiberServerWriter&) = delete;

  // Parks until gRPC has taken the message (as much as the client's flow control lets through).  False: the call is
  // cancelled or broken, and all further writes will fail too.
  [[nodiscard]] bool Write(const Response& response, grpc::WriteOptions options = grpc::WriteOptions()) {
    written_.Begin("FiberServerWriter::Write");
    reactor_.StartWrite(&response, options);
    return written_.Await();
  }

 private:
  template <class Request, class AnyResponse, class Handler>
  friend class detail::ServerStreamCall;
  explicit FiberServerWriter(grpc::ServerWriteReactor<Response>& reactor) : reactor_(reactor) {}

  grpc::ServerWriteReactor<Response>& reactor_;
  detail::GrpcCompletion written_;
};

namespace detail {

inline void LogThrown(const char* what) { WEFT_LOG_EVERY_SECOND(ERROR, "a gRPC handler has thrown: ", what); }

// What calls of all kinds share.  Reactor: grpc::ServerUnaryReactor or grpc::ServerWriteReactor<Response>.
template <class Reactor>
class ServerCall : public Reactor {
 public:
  // In gRPC's thread, in the generated method.
  void Start(const FiberAttributes& attributes) {
    if (StartFiberDetached(attributes, [this] { Run(); })) return;
    DropHandler();
    this->Finish(grpc::Status(
        grpc::StatusCode::RESOURCE_EXHAUSTED,
        "weft: no fiber could be started for this call: too many are queued, or the fiber runtime is ending"));
  }

 protected:
  explicit ServerCall(grpc::CallbackServerContext* context) : context_(context) {}
  ~ServerCall() override = default;
  FiberServerContext& context() { return context_; }

 private:
  virtual grpc::Status CallHandler() = 0;
  virtual void DropHandler() noexcept = 0;

  grpc::Status CallHandlerCatching() {
    try {
      return CallHandler();
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
    DropHandler();
    this->Finish(std::move(status));  // GS2: the last touch.
  }

  void OnCancel() final {
    context_.cancelled_.Set();  // First: WaitCancelled() returns.
    context_.scope_.Cancel();
  }
  void OnDone() final { delete this; }

  FiberServerContext context_;
};

template <class Request, class Response, class Handler>
class ServerUnaryCall final : public ServerCall<grpc::ServerUnaryReactor> {
 public:
  template <class H>
  ServerUnaryCall(grpc::CallbackServerContext* context, const Request* request, Response* response, H&& handler)
      : ServerCall(context),
        request_(request),
        response_(response),
        handler_(std::in_place, std::forward<H>(handler)) {}

 private:
  grpc::Status CallHandler() override { return (*handler_)(this->context(), *request_, response_); }
  void DropHandler() noexcept override { handler_.reset(); }

  const Request* const request_;
  Response* const response_;
  std::optional<Handler> handler_;
};

template <class Request, class Response, class Handler>
class ServerStreamCall final : public ServerCall<grpc::ServerWriteReactor<Response>> {
 public:
  template <class H>
  ServerStreamCall(grpc::CallbackServerContext* context, const Request* request, H&& handler)
      : ServerCall<grpc::ServerWriteReactor<Response>>(context),
        request_(request),
        writer_(*this),
        handler_(std::in_place, std::forward<H>(handler)) {}

 private:
  grpc::Status CallHandler() override { return (*handler_)(this->context(), *request_, writer_); }
  void DropHandler() noexcept override { handler_.reset(); }
  void OnWriteDone(bool ok) override { writer_.written_.End(ok); }

  const Request* const request_;
  FiberServerWriter<Response> writer_;
  std::optional<Handler> handler_;
};

}  // namespace detail

// Runs handler(FiberServerContext&, const Request&, Response*) -> grpc::Status in a fiber. For the generated method, in
// gRPC's thread, which returns the result. `attributes`: of the fiber (name, stack).
template <class Request, class Response, class Handler>
requires std::is_invocable_r_v < grpc::Status, std::decay_t<Handler>
&, FiberServerContext&, const Request&,
    Response* > [[nodiscard]] grpc::ServerUnaryReactor* ServeUnary(const FiberAttributes& attributes,
                                                                   grpc::CallbackServerContext* context,
                                                                   const Request* request, Response* response,
                                                                   Handler&& handler) {
  auto* const call = new detail::ServerUnaryCall<Request, Response, std::decay_t<Handler>>(
      context, request, response, std::forward<Handler>(handler));
  call->Start(attributes);
  return call;
}

template <class Request, class Response, class Handler>
requires std::is_invocable_r_v < grpc::Status, std::decay_t<Handler>
&, FiberServerContext&, const Request&,
    Response* > [[nodiscard]] grpc::ServerUnaryReactor* ServeUnary(grpc::CallbackServerContext* context,
                                                                   const Request* request, Response* response,
                                                                   Handler&& handler) {
  return ServeUnary(FiberAttributes(), context, request, response, std::forward<Handler>(handler));
}

// Runs handler(FiberServerContext&, const Request&, FiberServerWriter<Response>&) -> grpc::Status in a fiber; else as
// ServeUnary.  Response is to be named: ServeServerStream<Answer>(...).
template <class Response, class Request, class Handler>
requires std::is_invocable_r_v < grpc::Status, std::decay_t<Handler>
&, FiberServerContext&, const Request&,
    FiberServerWriter<Response>& >
        [[nodiscard]] grpc::ServerWriteReactor<Response>* ServeServerStream(const FiberAttributes& attributes,
                                                                            grpc::CallbackServerContext* context,
                                                                            const Request* request, Handler&& handler) {
  auto* const call = new detail::ServerStreamCall<Request, Response, std::decay_t<Handler>>(
      context, request, std::forward<Handler>(handler));
  call->Start(attributes);
  return call;
}

template <class Response, class Request, class Handler>
requires std::is_invocable_r_v < grpc::Status, std::decay_t<Handler>
&, FiberServerContext&, const Request&,
    FiberServerWriter<Response>& >
        [[nodiscard]] grpc::ServerWriteReactor<Response>* ServeServerStream(grpc::CallbackServerContext* context,
                                                                            const Request* request, Handler&& handler) {
  return ServeServerStream<Response>(FiberAttributes(), context, request, std::forward<Handler>(handler));
}

// Ends the server: it takes no more calls; those under way may go on until `drain_until` and are then cancelled.
// Returns when the last handler has returned. Any thread and any fiber (which it parks; grpc::Server::Shutdown() would
// block its worker), but no handler of this server: it would wait for itself.  gRPC also waits, until then, for clients
// to confirm that they have seen the end.
inline void ShutdownServer(grpc::Server& server, weft::Deadline drain_until = {}) {
  using SystemTime = std::chrono::system_clock::time_point;
  // The steady clock first: time that passes between the two reads makes it late, not early.
  const std::chrono::nanoseconds left = drain_until.remaining();
  const SystemTime now = std::chrono::system_clock::now();
  const SystemTime deadline = left > SystemTime::max() - now ? SystemTime::max() : now + left;
  if (!IsRunningInFiberWorker()) {
    server.Shutdown(deadline);
    return;
  }
  FiberEvent over;
  std::thread thread([&server, &over, deadline] {
    server.Shutdown(deadline);
    over.Set();
  });
  Shielded([&over] { over.Wait(); });
  thread.join();  // It is over already.
}

}  // namespace weft::interop

#endif  // WEFT_INTEROP_GRPC_SERVER_H_
