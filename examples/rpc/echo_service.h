// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EchoServiceImpl: sends back the request's payload and its attachment, after sleep_us.
#ifndef WEFT_EXAMPLES_RPC_ECHO_SERVICE_H_
#define WEFT_EXAMPLES_RPC_ECHO_SERVICE_H_

#include <chrono>
#include <utility>

#include "weft/examples/rpc/rpc_controller.h"
#include "weft/fiber/this_fiber.h"

#include "examples/rpc/echo.pb.h"

namespace weft::rpc {

class EchoServiceImpl final : public EchoService {
 public:
  void Echo(google::protobuf::RpcController* base, const EchoRequest* request, EchoAnswer* answer,
            google::protobuf::Closure* done) override {
    if (request->sleep_us() != 0) FiberSleepFor(std::chrono::microseconds(request->sleep_us()));
    answer->set_payload(request->payload());
    auto* const controller = static_cast<Controller*>(base);
    controller->answer_attachment() = std::move(controller->request_attachment());
    done->Run();
  }
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_ECHO_SERVICE_H_
