// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What tests of examples/rpc share: servers, clients, and ends of a connection that do not know the protocol's rules.
#ifndef WEFT_TESTS_RPC_RPC_FIXTURE_H_
#define WEFT_TESTS_RPC_RPC_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "weft/examples/rpc/echo_service.h"
#include "weft/examples/rpc/frame.h"
#include "weft/examples/rpc/rpc_channel.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/io/io_fixture.h"
#include "weft/tests/testing/patience.h"

#include "examples/rpc/echo.pb.h"
#include "examples/rpc/meta.pb.h"

namespace weft::rpc {

using namespace std::chrono_literals;
using google::protobuf::Closure;

using testing::InTime;
using testing::kBeforeSoon;
using testing::kSoon;

// Answers as the test prescribes.
class ScriptedService final : public EchoService {
 public:
  using Script = std::function<void(Controller*, const EchoRequest*, EchoAnswer*, Closure*)>;
  explicit ScriptedService(Script script) : script_(std::move(script)) {}
  void Echo(google::protobuf::RpcController* controller, const EchoRequest* request, EchoAnswer* answer,
            Closure* done) override {
    script_(static_cast<Controller*>(controller), request, answer, done);
  }

 private:
  const Script script_;
};

inline const io::SocketAddress kAnyPort = io::OwnLoopback();

// A server, running.
class RunningServer {
 public:
  explicit RunningServer(google::protobuf::Service* service, Server::Options options = {},
                         const io::SocketAddress& address = kAnyPort)
      : server_(std::move(options)) {
    server_.AddService(service);
    const std::error_code error = server_.Start(address);
    EXPECT_FALSE(error) << error.message();
  }
  Server* operator->() { return &server_; }

 private:
  Server server_;
};

// A channel, running, and calls over it.
class Client {
 public:
  explicit Client(const io::SocketAddress& server, Channel::Options options = {}) : channel_(server, options) {
    EXPECT_TRUE(channel_.Start());
  }

  // Returns the answer's payload; the controller has the outcome.
  std::string Echo(Controller* controller, const std::string& payload) {
    EchoRequest request;
    EchoAnswer answer;
    request.set_payload(payload);
    EchoService::Stub(&channel_).Echo(controller, &request, &answer, nullptr);
    return answer.payload();
  }
  ErrorCode CodeOf(const std::string& payload) {
    Controller controller;
    Echo(&controller, payload);
    return controller.error_code();
  }
  Channel& channel() { return channel_; }

 private:
  Channel channel_;
};

// One end of a connection, without a Channel or a Server.
class RawClient {
 public:
  explicit RawClient(io::TcpStream stream) : stream_(std::move(stream)) {}
  explicit RawClient(const io::SocketAddress& server) {
    const std::error_code error = stream_.Connect(server, kSoon);
    EXPECT_FALSE(error) << error.message();
  }
  void Send(const std::string& bytes) { EXPECT_TRUE(stream_.WriteAll(bytes, kSoon).ok()); }
  // False: the peer has closed. A reset is an error, unless `may_be_reset`: what we sent last is lost.
  bool ReceiveAny(Frame* frame, bool may_be_reset = false) {
    for (;;) {
      switch (reader_.Next(frame)) {
        case FrameReader::Result::kFrame:
          return true;
        case FrameReader::Result::kNeedMore:
          break;
        default:
          ADD_FAILURE() << reader_.error();
          return false;
      }
      const std::span<char> room = reader_.Room();
      const io::IoResult result = stream_.ReadSome(room.data(), room.size(), kSoon);
      EXPECT_TRUE(result.ok() || (may_be_reset && result.error == std::errc::connection_reset))
          << result.error.message();
      if (!result.ok() || result.bytes == 0) return false;
      reader_.Filled(result.bytes);
    }
  }
  bool Receive(Frame* frame, AnswerMeta* meta) {
    meta->Clear();
    return ReceiveAny(frame) && meta->ParseFromArray(frame->meta.data(), static_cast<int>(frame->meta.size()));
  }
  io::TcpStream& stream() { return stream_; }

 private:
  io::TcpStream stream_;
  FrameReader reader_{FrameLimits{}};
};

inline std::string BytesOf(OutFramePtr frame) {
  return std::string(frame->head(), frame->head_size) + frame->attachment.Get().ToString();
}

inline std::string RequestBytes(std::uint64_t id, const std::string& payload, std::uint64_t timeout_us = 0,
                                const std::string& service = "weft.rpc.EchoService",
                                const std::string& method = "Echo") {
  RequestMeta meta;
  meta.set_service(service);
  meta.set_method(method);
  meta.set_timeout_us(timeout_us);
  EchoRequest request;
  request.set_payload(payload);
  return BytesOf(MakeFrame(FrameKind::kRequest, id, &meta, &request));
}

inline std::string FrameBytes(const FrameHeader& header, const std::string& rest) {
  std::string bytes(FrameHeader::kSize, '\0');
  EncodeHeader(header, bytes.data());
  return bytes + rest;
}

// Accepts connections and gives them to the test.
class RawServer {
 public:
  RawServer() { EXPECT_FALSE(listener_.Listen(kAnyPort)); }
  io::TcpStream Accept() {
    io::TcpStream stream;
    EXPECT_FALSE(listener_.Accept(&stream, kSoon));
    return stream;
  }
  io::SocketAddress address() const { return listener_.local_address(); }

 private:
  io::TcpListener listener_;
};

// What handlers wait for that know nothing of calls: `begun` counts them, `ended` those that a cancellation has ended.
class WaitsForEver {
 public:
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  ScriptedService service{[this](Controller*, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
    if (request->payload() == "at once") {
      answer->set_payload(request->payload());
      return done->Run();
    }
    FiberScope parts;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(parts.Spawn([this] { Wait(); }));
    Wait();
  }};

  void Wait() {
    ++begun;
    try {
      FiberEvent().Wait();
    } catch (const FiberCancelled&) {
      ++ended;
      throw;
    }
  }
  // Three of each call.
  void AwaitBegun(int calls) const {
    while (begun != 3 * calls) FiberYield();
  }
  void AwaitEnded(int calls) const {
    while (ended != 3 * calls) FiberYield();
  }
};

}  // namespace weft::rpc

#endif  // WEFT_TESTS_RPC_RPC_FIXTURE_H_
