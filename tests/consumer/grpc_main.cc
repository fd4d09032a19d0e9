// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A gRPC service in fibers, and a call of it, by find_package(weft COMPONENTS grpc).

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <cstdio>
#include <memory>
#include <string>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/grpc_client.h"
#include "weft/interop/grpc_server.h"

#include "twice.grpc.pb.h"

namespace {

class Service final : public consumer::Doubler::CallbackService {
  grpc::ServerUnaryReactor* Twice(grpc::CallbackServerContext* context, const consumer::Number* request,
                                  consumer::Number* response) override {
    return weft::interop::ServeUnary(
        context, request, response,
        [](weft::interop::FiberServerContext&, const consumer::Number& number, consumer::Number* answer) {
          weft::FiberYield();
          answer->set_value(2 * number.value());
          return grpc::Status::OK;
        });
  }
};

int CallTwice(const std::string& address) {
  const auto stub = consumer::Doubler::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  consumer::Number number;
  number.set_value(21);
  consumer::Number answer;
  weft::Fiber([&] {
    grpc::ClientContext context;
    const grpc::Status status =
        weft::interop::CallUnary(*stub, &consumer::Doubler::Stub::async::Twice, &context, number, &answer);
    if (!status.ok()) std::printf("%s\n", status.error_message().c_str());
  }).Join();
  return answer.value();
}

}  // namespace

int main() {
  weft::StartRuntime();
  int answer = 0;
  {
    Service service;
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    answer = CallTwice("127.0.0.1:" + std::to_string(port));
    weft::interop::ShutdownServer(*server, std::chrono::seconds(5));
  }
  const bool none_left = weft::TerminateRuntime() == 0;
  std::printf("twice 21 is %d\n", answer);
  return answer == 42 && none_left ? 0 : 1;
}
