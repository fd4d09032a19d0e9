// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A runtime, a gRPC server on a port of its own with the service Relay (relay.proto), and a client of it, around each
// test.  Each test says what the handlers do.
#ifndef WEFT_TESTS_INTEROP_RELAY_FIXTURE_H_
#define WEFT_TESTS_INTEROP_RELAY_FIXTURE_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <relay.grpc.pb.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "weft/interop/grpc_client.h"
#include "weft/interop/grpc_server.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::interop {

using tests::Answer;
using tests::Ask;
using tests::Relay;

// gRPC counts in milliseconds, at both ends, and from a time that it may have read a while before: on a busy machine a
// deadline is over by up to 40 ms early.
inline constexpr std::chrono::milliseconds kGrpcMayBeEarly{200};

inline Ask AskOf(int number) {
  Ask ask;
  ask.set_number(number);
  return ask;
}

inline Answer AnswerOf(int number) {
  Answer answer;
  answer.set_number(number);
  return answer;
}

class RelayService final : public Relay::CallbackService {
 public:
  // Set before the first call.
  std::function<grpc::Status(FiberServerContext&, const Ask&, Answer*)> one = [](auto&, const Ask& ask,
                                                                                 Answer* answer) {
    answer->set_number(ask.number());
    answer->set_payload(ask.payload());
    return grpc::Status::OK;
  };
  std::function<grpc::Status(FiberServerContext&, const Ask&, FiberServerWriter<Answer>&)> many =
      [](auto&, const Ask& ask, auto& writer) {
        Answer answer;
        for (int i = 0; i < ask.number(); ++i) {
          answer.set_number(i);
          if (!writer.Write(answer)) return grpc::Status::CANCELLED;
        }
        return grpc::Status::OK;
      };
  std::function<grpc::Status(FiberServerContext&, FiberServerReader<Ask>&, Answer*)> sum = [](auto&, auto& reader,
                                                                                              Answer* answer) {
    Ask ask;
    while (reader.Read(&ask)) answer->set_number(answer->number() + ask.number());
    return grpc::Status::OK;
  };
  std::function<grpc::Status(FiberServerContext&, FiberServerReader<Ask>&, FiberServerWriter<Answer>&)> chat =
      [](auto&, auto& reader, auto& writer) {
        Ask ask;
        Answer answer;
        while (reader.Read(&ask)) {
          answer.set_number(ask.number());
          answer.set_payload(ask.payload());
          if (!writer.Write(answer)) return grpc::Status::CANCELLED;
        }
        return grpc::Status::OK;
      };

  grpc::ServerUnaryReactor* One(grpc::CallbackServerContext* context, const Ask* ask, Answer* answer) override {
    return ServeUnary(FiberAttributes{.name = "one"}, context, ask, answer, one);
  }
  grpc::ServerWriteReactor<Answer>* Many(grpc::CallbackServerContext* context, const Ask* ask) override {
    return ServeServerStream<Answer>(context, ask, many);
  }
  grpc::ServerReadReactor<Ask>* Sum(grpc::CallbackServerContext* context, Answer* answer) override {
    return ServeClientStream<Ask>(FiberAttributes{.name = "sum"}, context, answer, sum);
  }
  grpc::ServerBidiReactor<Ask, Answer>* Chat(grpc::CallbackServerContext* context) override {
    return ServeBidiStream<Ask, Answer>(context, chat);
  }
};

// Without a runtime of its own.
struct RelayWorld {
  RelayWorld() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
    stub = Relay::NewStub(NewChannel());
  }

  // It probes the bandwidth, which widens its windows, and sends frames of its own at any time.
  enum class Probes : bool { kNo, kYes };

  std::shared_ptr<grpc::Channel> NewChannel(Probes probes = Probes::kYes) const {
    grpc::ChannelArguments arguments;
    // Not the connection of a test before to a port of the same number.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, probes == Probes::kYes ? 1 : 0);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  grpc::Status CallOne(grpc::ClientContext* context, const Ask& ask, Answer* answer) const {
    return CallUnary(*stub, &Relay::Stub::async::One, context, ask, answer);
  }
  grpc::Status CallOne(int number) const {
    grpc::ClientContext context;
    Ask ask;
    ask.set_number(number);
    Answer answer;
    const grpc::Status status = CallOne(&context, ask, &answer);
    EXPECT_TRUE(!status.ok() || answer.number() == number) << answer.number() << " is the answer to " << number;
    return status;
  }

  RelayService service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
  std::unique_ptr<Relay::Stub> stub;
};

class InEachShapeWithRelay : public fiber::InEachShape, protected RelayWorld {};

inline std::string Describe(const grpc::Status& status) {
  return std::to_string(status.error_code()) + " " + status.error_message();
}

inline ::testing::AssertionResult HasCode(const grpc::Status& status, grpc::StatusCode code) {
  if (status.error_code() == code) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "the status is " << Describe(status);
}

#define EXPECT_STATUS(status, code) EXPECT_TRUE(HasCode(status, grpc::StatusCode::code))
#define EXPECT_STATUS_OK(status) EXPECT_STATUS(status, OK)

}  // namespace weft::interop

#endif  // WEFT_TESTS_INTEROP_RELAY_FIXTURE_H_
