// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// gRPC services whose handlers run in fibers: ServeUnary, FiberServerContext, ShutdownServer; streams:
// grpc_server_stream.h, which this file includes. For programs that have gRPC (tested with 1.51): target weft::grpc.
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
//   };
//
// gRPC polls and parses in threads of its own; each call gets a fiber, which runs the handler (grpc_server_call.h).
//
// Errors. A refused start (too many fibers are queued, or the runtime is ending) answers RESOURCE_EXHAUSTED. A handler
// that throws answers UNKNOWN, as gRPC's own do; the exception is logged, not sent.
//
// Scopes (sync/cancel_scope.h). The handler runs in a CancelScope that ends with its call: at the client's deadline,
// when the client has cancelled or gone, when ShutdownServer()'s time is over. Then all that it waits for throws
// FiberCancelled, also in the fibers of its FiberScopes, but writes fail and WaitCancelled() returns. The call is
// answered with DEADLINE_EXCEEDED or CANCELLED. Work that remains to be done needs a shield. Calls that the handler
// makes inherit the deadline (CurrentDeadline(), grpc_client.h).
//
// Order of life: StartRuntime() before the server is built; ShutdownServer() (or ~Server) before TerminateRuntime(). A
// call that comes in without a runtime ends the process.
//
// gRPC inside fibers: a call into gRPC runs on the fiber's stack and never suspends the fiber, so its thread-local
// variables are safe. Code that gRPC calls back from within (interceptors, credentials plugins) must not wait. Build
// servers and channels in plain threads: gRPC starts threads then, which would inherit the CPUs of a worker.
//
// Rejected: the completion queue API (needs a polling thread of ours); gRPC's synchronous threads (one for each call).
#ifndef WEFT_INTEROP_GRPC_SERVER_H_
#define WEFT_INTEROP_GRPC_SERVER_H_

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/grpc_server_call.h"
#include "weft/interop/grpc_server_stream.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"

namespace weft::interop {

namespace detail {

template <class Request, class Response, class Handler>
class ServerUnaryCall final : public ServerCall<grpc::ServerUnaryReactor, Handler> {
 public:
  template <class H>
  ServerUnaryCall(grpc::CallbackServerContext* context, const Request* request, Response* response, H&& handler)
      : ServerUnaryCall::ServerCall(context, std::forward<H>(handler)), request_(request), response_(response) {}

 private:
  grpc::Status CallHandler(Handler& handler) override { return handler(this->context(), *request_, response_); }

  const Request* const request_;
  Response* const response_;
};

}  // namespace detail

// Runs handler(FiberServerContext&, const Request&, Response*) -> grpc::Status in a fiber. For the generated method, in
// gRPC's thread, which returns the result. `attributes`: of the fiber (name, stack).
template <class Request, class Response, detail::ServerHandler<const Request&, Response*> Handler>
[[nodiscard]] grpc::ServerUnaryReactor* ServeUnary(const FiberAttributes& attributes,
                                                   grpc::CallbackServerContext* context, const Request* request,
                                                   Response* response, Handler&& handler) {
  auto* const call = new detail::ServerUnaryCall<Request, Response, std::decay_t<Handler>>(
      context, request, response, std::forward<Handler>(handler));
  call->Start(attributes);
  return call;
}

// The same in a fiber with the usual attributes.
template <class Request, class Response, detail::ServerHandler<const Request&, Response*> Handler>
[[nodiscard]] grpc::ServerUnaryReactor* ServeUnary(grpc::CallbackServerContext* context, const Request* request,
                                                   Response* response, Handler&& handler) {
  return ServeUnary(FiberAttributes(), context, request, response, std::forward<Handler>(handler));
}

// Ends the server: it takes no more calls; those under way may go on until `drain_until` and are then cancelled.
// Watchers of the server's health are told first; a watch is a call under way, too. Returns when the last handler has
// returned. Any thread and any fiber (which it parks; grpc::Server::Shutdown() would block its worker), but no handler
// of this server: it would wait for itself. gRPC also waits until then for clients to confirm the end, and closes a
// connection at its last answer: if the client has just sent something (a ping, say), the kernel resets it, and the
// client may see UNAVAILABLE for unsent answers. A call that reaches the server while it begins to stop may be lost and
// end with UNAVAILABLE, too, as with any server of gRPC's library. The stop of an Http2GrpcService (http2_grpc.h, and
// the program grpc_http2_server) loses none.
inline void ShutdownServer(grpc::Server& server, weft::Deadline drain_until = {}) {
  if (auto* health = server.GetHealthCheckService()) health->Shutdown();
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
