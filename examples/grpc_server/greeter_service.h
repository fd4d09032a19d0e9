// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The service of greeter.proto, its handlers as fibers: they are written as if they blocked.  A call that its client
// has given up, or whose deadline has passed, ends its handler wherever that waits: nothing here asks for it.
// gRPC's own services run beside it, in gRPC's threads: health (grpc.health.v1), for load balancers and Kubernetes, and
// reflection, for grpcurl and the like.
#ifndef WEFT_EXAMPLES_GRPC_SERVER_GREETER_SERVICE_H_
#define WEFT_EXAMPLES_GRPC_SERVER_GREETER_SERVICE_H_

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "weft/fiber/this_fiber.h"
#include "weft/interop/grpc_server.h"

#include "call_counts.h"
#include "greeter.grpc.pb.h"

namespace weft::examples {

class GreeterService final : public Greeter::CallbackService, public CallCounts {
 public:
  // gRPC calls these in a thread of its own; each starts a fiber and returns.
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const EchoRequest* request,
                                 EchoReply* reply) override {
    return interop::ServeUnary(context, request, reply,
                               [this](auto&&... call) { return Count([&] { return HandleEcho(call...); }); });
  }
  grpc::ServerBidiReactor<EchoRequest, EchoReply>* EchoAll(grpc::CallbackServerContext* context) override {
    return interop::ServeBidiStream<EchoRequest, EchoReply>(
        context, [this](auto&&... call) { return Count([&] { return HandleEchoAll(call...); }); });
  }
  grpc::ServerReadReactor<EchoRequest>* EchoJoined(grpc::CallbackServerContext* context, EchoReply* reply) override {
    return interop::ServeClientStream<EchoRequest>(
        context, reply, [this](auto&&... call) { return Count([&] { return HandleEchoJoined(call...); }); });
  }
  grpc::ServerWriteReactor<GreetReply>* Greet(grpc::CallbackServerContext* context,
                                              const GreetRequest* request) override {
    return interop::ServeServerStream<GreetReply>(
        context, request, [this](auto&&... call) { return Count([&] { return HandleGreet(call...); }); });
  }

 private:
  static grpc::Status HandleEcho(interop::FiberServerContext&, const EchoRequest& request, EchoReply* reply) {
    if (request.delay_ms() != 0) FiberSleepFor(std::chrono::milliseconds(request.delay_ms()));
    reply->set_payload(request.payload());
    return grpc::Status::OK;
  }

  static grpc::Status HandleEchoAll(interop::FiberServerContext& call, interop::FiberServerReader<EchoRequest>& reader,
                                    interop::FiberServerWriter<EchoReply>& writer) {
    EchoRequest request;
    EchoReply reply;
    while (reader.Read(&request)) {
      static_cast<void>(HandleEcho(call, request, &reply));
      if (!writer.Write(reply)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }

  static grpc::Status HandleEchoJoined(interop::FiberServerContext&, interop::FiberServerReader<EchoRequest>& reader,
                                       EchoReply* reply) {
    EchoRequest request;
    while (reader.Read(&request)) reply->mutable_payload()->append(request.payload());
    return grpc::Status::OK;
  }

  static grpc::Status HandleGreet(interop::FiberServerContext&, const GreetRequest& request,
                                  interop::FiberServerWriter<GreetReply>& writer) {
    const std::chrono::milliseconds interval(request.interval_ms());
    GreetReply reply;
    for (std::uint32_t i = 1; i <= request.times(); ++i) {
      if (i != 1) FiberSleepFor(interval);
      reply.set_greeting("hello " + request.name() + ", for the " + std::to_string(i) + ". time");
      if (!writer.Write(reply)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }
};

// Serves at `address` ("127.0.0.1:0": a free port; "unix:/path"); *bound is the real address. nullptr: it is not
// available.
inline std::unique_ptr<grpc::Server> StartServer(const std::string& address, GreeterService* service,
                                                 std::string* bound) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // Otherwise a second server on the same port would start, and get a part of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  // For the server as a whole gRPC says so itself.
  if (server != nullptr) server->GetHealthCheckService()->SetServingStatus(Greeter::service_full_name(), true);
  const bool has_port = !address.starts_with("unix");
  *bound = has_port ? address.substr(0, address.rfind(':')) + ":" + std::to_string(port) : address;
  return server;
}

}  // namespace weft::examples

#endif  // WEFT_EXAMPLES_GRPC_SERVER_GREETER_SERVICE_H_
