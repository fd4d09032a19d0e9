// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What one client may take of a server of examples/rpc, and peers that vanish.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "weft/examples/rpc/frame.h"
#include "weft/examples/rpc/heartbeat.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/examples/rpc/server_report.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/tcp_stream.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/rpc/rpc_fixture.h"

#include "examples/rpc/meta.pb.h"

namespace weft::rpc {
namespace {

class RpcLimitsTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, RpcLimitsTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{2, 2}), &fiber::NameOf);

// --- Limits ---

// The answer to the request with this id, which has to be the next frame.
AnswerMeta AnswerOf(RawClient& client, std::uint64_t id) {
  Frame frame;
  AnswerMeta meta;
  EXPECT_TRUE(client.Receive(&frame, &meta));
  EXPECT_EQ(frame.header.kind, FrameKind::kAnswer);
  EXPECT_EQ(frame.header.correlation_id, id);
  return meta;
}

std::string CancelBytes(std::uint64_t id) { return BytesOf(MakeFrame(FrameKind::kCancel, id, nullptr, nullptr)); }

TEST_P(RpcLimitsTest, OneConnectionDoesNotTakeTheRequestsOfAllOthers) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service, {.max_in_flight = 3, .max_in_flight_per_connection = 2});
    RawClient greedy(server->local_address());
    greedy.Send(RequestBytes(1, "x") + RequestBytes(2, "x") + RequestBytes(3, "x"));
    const AnswerMeta refused = AnswerOf(greedy, 3);
    EXPECT_EQ(refused.error_code(), OVERLOADED);
    EXPECT_TRUE(refused.not_begun());
    EXPECT_NE(refused.error_text().find("connection"), std::string::npos) << refused.error_text();
    RawClient other(server->local_address());
    other.Send(RequestBytes(1, "at once"));
    EXPECT_EQ(AnswerOf(other, 1).error_code(), OK);
    EXPECT_EQ(server->counts().over_connection_limit, 1u);
    EXPECT_EQ(server->counts().overloaded, 1u);
    while (server->counts().in_flight != 2) FiberYield();  // A request counts until its answer is written.
    // A call that has ended makes room.
    scene.AwaitBegun(2);
    greedy.Send(CancelBytes(1));
    EXPECT_EQ(AnswerOf(greedy, 1).error_code(), CANCELED);
    greedy.Send(RequestBytes(4, "at once"));
    EXPECT_EQ(AnswerOf(greedy, 4).error_code(), OK);
  });
}

TEST_P(RpcLimitsTest, RequestsInFlightHaveABudgetOfMemory) {
  InFiber([] {
    WaitsForEver scene;
    constexpr std::size_t kSize = 100'000;
    // Room for two large requests and a small one.
    RunningServer server(&scene.service, {.max_request_memory = 2 * kSize + 4 * Server::kCallMemory});
    RawClient client(server->local_address());
    const std::string large(kSize, 'x');
    client.Send(RequestBytes(1, large) + RequestBytes(2, large) + RequestBytes(3, large));
    const AnswerMeta refused = AnswerOf(client, 3);
    EXPECT_EQ(refused.error_code(), OVERLOADED);
    EXPECT_TRUE(refused.not_begun());
    client.Send(RequestBytes(4, "at once"));
    EXPECT_EQ(AnswerOf(client, 4).error_code(), OK);
    EXPECT_EQ(server->counts().over_memory, 1u);
    EXPECT_EQ(server->counts().overloaded, 1u);
    scene.AwaitBegun(2);
    client.Send(CancelBytes(1));
    EXPECT_EQ(AnswerOf(client, 1).error_code(), CANCELED);
    while (server->counts().in_flight != 1) FiberYield();  // Its memory is given back just after its answer.
    client.Send(RequestBytes(5, large));
    scene.AwaitBegun(3);
    client.Send(RequestBytes(6, large));
    EXPECT_EQ(AnswerOf(client, 6).error_code(), OVERLOADED);
  });
}

TEST_P(RpcLimitsTest, RefusedRequestsTakeNothingOfTheBudget) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service, {.max_in_flight_per_connection = 1,
                                          .max_request_memory = 10 * Server::kCallMemory,
                                          .admit = [n = 0]() mutable { return n++ % 2 == 0; }});
    RawClient client(server->local_address());
    client.Send(RequestBytes(1, "x"));
    scene.AwaitBegun(1);
    // Each second one by `admit`, the others by the connection's limit.
    for (std::uint64_t id = 2; id < 102; ++id) {
      client.Send(RequestBytes(id, "x"));
      EXPECT_EQ(AnswerOf(client, id).error_code(), OVERLOADED);
    }
    EXPECT_EQ(server->counts().over_memory, 0u);
    EXPECT_EQ(server->counts().over_connection_limit, 50u);
    EXPECT_EQ(server->counts().overloaded, 100u);
    EXPECT_EQ(server->counts().in_flight, 1u);
  });
}

TEST_P(RpcLimitsTest, ConnectionsOfOneHostAreLimited) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.connections = {.max_connections_per_host = 1}});
    RawClient first(server->local_address());
    first.Send(RequestBytes(1, "x"));
    EXPECT_EQ(AnswerOf(first, 1).error_code(), OK);
    io::TcpStream second;
    std::error_code error = second.Connect(server->local_address(), kSoon);
    char byte = 0;
    if (!error) error = second.ReadSome(&byte, 1, kSoon).error;  // The reset comes during the connect, or after it.
    EXPECT_EQ(error, std::errc::connection_reset) << error.message();
    const Server::Counts counts = server->counts();
    EXPECT_EQ(counts.over_host_limit, 1u);
    EXPECT_EQ(counts.refused_connections, 1u);
    EXPECT_EQ(counts.accepted_connections, 2u);
  });
}

TEST_P(RpcLimitsTest, RequestsThatComeAfterTheStopAreCounted) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service);
    RawClient client(server->local_address());
    client.Send(RequestBytes(1, "x"));
    scene.AwaitBegun(1);
    Fiber stopper([&] { server->Stop(60s); });
    Frame frame;
    EXPECT_TRUE(client.ReceiveAny(&frame));
    EXPECT_EQ(frame.header.kind, FrameKind::kFarewell);
    client.Send(RequestBytes(2, "x") + RequestBytes(3, "x"));
    for (const std::uint64_t id : {2, 3}) EXPECT_EQ(AnswerOf(client, id).error_code(), UNAVAILABLE);
    EXPECT_EQ(server->counts().unavailable, 2u);
    EXPECT_EQ(server->counts().requests, 1u);
    EXPECT_EQ(server->counts().overloaded, 0u);
    client.Send(CancelBytes(1));
    EXPECT_EQ(AnswerOf(client, 1).error_code(), CANCELED);
    client.stream().Close();
    stopper.Join();
  });
}

TEST(RpcServerCounts, AreThereBeforeTheStart) {
  const Server server;
  EXPECT_EQ(server.counts().accepted_connections, 0u);
}

TEST(RpcServerReport, HasEachCount) {
  const Server::Counts counts{.connections = 101,
                              .in_flight = 102,
                              .requests = 103,
                              .overloaded = 104,
                              .over_connection_limit = 105,
                              .over_memory = 106,
                              .unavailable = 107,
                              .vanished = 108,
                              .idle = 109,
                              .late = 110,
                              .bad = 111,
                              .answers = 112,
                              .writes = 113,
                              .reads = 114,
                              .accepted_connections = 115,
                              .refused_connections = 116,
                              .over_host_limit = 117};
  std::ostringstream out;
  PrintServerReport(counts, out);
  EXPECT_EQ(out.str(),
            "connections 115, refused 116 (of their host too many 117), vanished 108, idle 109\n"
            "requests 103, overloaded 104 (of their connection too many 105, memory 106), late 110, bad 111, "
            "after the stop 107; frames sent 112 by 113 writes, reads 114\n");
}

// --- Peers that vanish: they are connected, and say nothing ---

constexpr Heartbeat::Options kSoonGivenUp{.ping_after = 20ms, .timeout = 20ms};
// For peers that answer: on a busy machine, too.
constexpr Heartbeat::Options kOftenAsked{.ping_after = 5ms, .timeout = 60s};

std::string PongBytes(const Frame& ping) {
  return BytesOf(MakeFrame(FrameKind::kPong, ping.header.correlation_id, nullptr, nullptr));
}

// TCP_KEEPIDLE of this process's sockets that are connected to `server`, or, `accepted`, are its connections; 0: none,
// or one without keep-alive.
int KeepAliveIdleOf(const io::SocketAddress& server, bool accepted) {
  const auto* const expected = reinterpret_cast<const sockaddr_in*>(server.data());
  for (int fd = 0; fd < 1'024; ++fd) {
    sockaddr_in local{};
    sockaddr_in peer{};
    socklen_t size = sizeof(local);
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) continue;
    size = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;  // Also of the listener.
    if ((accepted ? local : peer).sin_port != expected->sin_port) continue;
    int enabled = 0;
    int idle = 0;
    size = sizeof(int);
    EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &enabled, &size), 0);
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size), 0);
    return enabled != 0 ? idle : 0;
  }
  return 0;
}

TEST_P(RpcLimitsTest, TcpAsksForBothEndsIfItIsToldTo) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.connections = {.keep_alive = {.idle = 70s}}});
    {
      Client client(server->local_address(), {.keep_alive = {.idle = 50s}});
      EXPECT_EQ(client.CodeOf("x"), OK);
      EXPECT_EQ(KeepAliveIdleOf(server->local_address(), /*accepted=*/false), 50);
      EXPECT_EQ(KeepAliveIdleOf(server->local_address(), /*accepted=*/true), 70);
    }
    Client refused(server->local_address(), {.keep_alive = {.probes = 1'000}});
    Controller controller;
    refused.Echo(&controller, "x");
    EXPECT_EQ(controller.error_code(), UNAVAILABLE);
    EXPECT_NE(controller.ErrorText().find("Invalid argument"), std::string::npos) << controller.ErrorText();
  });
}

TEST_P(RpcLimitsTest, AClientThatVanishesIsGivenUpAndItsCallsAreCancelled) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service, {.heartbeat = kSoonGivenUp});
    RawClient idle(server->local_address());
    RawClient busy(server->local_address());
    busy.Send(RequestBytes(1, "x"));
    scene.AwaitEnded(1);
    RawClient cut_short(server->local_address());
    cut_short.Send(RequestBytes(1, "x").substr(0, 10));
    Frame frame;
    AnswerMeta meta;
    for (RawClient* client : {&idle, &busy, &cut_short}) {
      ASSERT_TRUE(client->Receive(&frame, &meta));
      EXPECT_EQ(frame.header.kind, FrameKind::kPing);
      while (client->Receive(&frame, &meta)) EXPECT_NE(frame.header.kind, FrameKind::kPing) << "asked twice";
    }
    while (server->counts().connections != 0) FiberYield();
    EXPECT_EQ(server->counts().vanished, 3u);
    EXPECT_EQ(server->counts().in_flight, 0u);
  });
}

// Its connection takes no more bytes: the writer does not hold the end up.
TEST_P(RpcLimitsTest, AClientThatVanishesInTheMiddleOfAnAnswerIsGivenUp) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.limits = {.max_body = 20'000'000},
                                 .writing = {.timeout = 1h},
                                 .heartbeat = {.ping_after = 1s, .timeout = 20ms}});
    RawClient client(server->local_address());
    const int size = 64 << 10;
    ASSERT_EQ(setsockopt(client.stream().fd(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
    // More than the sockets hold. A client that a busy machine holds up for a second is given up while it sends.
    static_cast<void>(client.stream().WriteAll(RequestBytes(1, std::string(12'000'000, 'x')), kSoon));
    while (server->counts().vanished == 0) FiberYield();
    server->Stop(Deadline::None());  // Returns when the writer has ended, too.
  });
}

TEST_P(RpcLimitsTest, AClientThatAnswersPingsIsKept) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.heartbeat = kOftenAsked});
    RawClient client(server->local_address());
    Frame frame;
    AnswerMeta meta;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(client.Receive(&frame, &meta));
      EXPECT_EQ(frame.header.kind, FrameKind::kPing);
      client.Send(PongBytes(frame));
    }
    // A request is an answer, too: the next silence is followed by a ping, not by the end.
    ASSERT_TRUE(client.Receive(&frame, &meta));
    EXPECT_EQ(frame.header.kind, FrameKind::kPing);
    client.Send(RequestBytes(1, "x"));
    EXPECT_EQ(AnswerOf(client, 1).error_code(), OK);
    ASSERT_TRUE(client.Receive(&frame, &meta));
    EXPECT_EQ(frame.header.kind, FrameKind::kPing);
    EXPECT_EQ(server->counts().vanished, 0u);
  });
}

TEST_P(RpcLimitsTest, AServerAnswersPings) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.heartbeat = {.ping_after = 0ms}});
    RawClient client(server->local_address());
    client.Send(BytesOf(MakeFrame(FrameKind::kPing, 77, nullptr, nullptr)));
    Frame frame;
    AnswerMeta meta;
    ASSERT_TRUE(client.Receive(&frame, &meta));
    EXPECT_EQ(frame.header.kind, FrameKind::kPong);
    EXPECT_EQ(frame.header.correlation_id, 77u);
  });
}

TEST_P(RpcLimitsTest, CallsToAServerThatVanishesEnd) {
  InFiber([] {
    RawServer server;
    Client client(server.address(), {.heartbeat = kSoonGivenUp});
    Controller controller;
    Fiber caller([&] { client.Echo(&controller, "x"); });
    io::TcpStream stream = server.Accept();
    caller.Join();
    EXPECT_EQ(controller.error_code(), CONNECTION_LOST);
    EXPECT_FALSE(controller.not_begun());
    EXPECT_NE(controller.ErrorText().find("ping"), std::string::npos) << controller.ErrorText();
  });
}

TEST_P(RpcLimitsTest, ACallWaitsForAServerThatAnswersPings) {
  InFiber([] {
    RawServer server;
    Client client(server.address(), {.heartbeat = kOftenAsked});
    Controller controller;
    std::string answer;
    Fiber caller([&] { answer = client.Echo(&controller, "x"); });
    RawClient peer(server.Accept());
    Frame frame;
    Frame request;
    AnswerMeta meta;
    for (int pings = 0; pings < 3;) {
      ASSERT_TRUE(peer.ReceiveAny(&frame));
      if (frame.header.kind == FrameKind::kPing) {
        peer.Send(PongBytes(frame));
        ++pings;
      } else {
        ASSERT_EQ(frame.header.kind, FrameKind::kRequest);
        request = frame;
      }
    }
    EchoAnswer body;
    body.set_payload("late");
    peer.Send(BytesOf(MakeFrame(FrameKind::kAnswer, request.header.correlation_id, nullptr, &body)));
    caller.Join();
    EXPECT_EQ(controller.error_code(), OK) << controller.ErrorText();
    EXPECT_EQ(answer, "late");
  });
}

// Both ends ask each other, and no call is lost by it.
TEST_P(RpcLimitsTest, AChannelAndAServerThatAreIdleKeepEachOther) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.heartbeat = kOftenAsked});
    Client client(server->local_address(), {.heartbeat = kOftenAsked});
    EXPECT_EQ(client.CodeOf("x"), OK);
    const auto idle = client.channel().counts();
    while (client.channel().counts().reads < idle.reads + 10) FiberYield();  // pings and pongs
    EXPECT_EQ(client.CodeOf("x"), OK);
    EXPECT_EQ(client.channel().counts().connects, 1u);
    EXPECT_EQ(server->counts().vanished, 0u);
  });
}

TEST_P(RpcLimitsTest, AnIdleConnectionIsEndedAndTheNextCallMakesAnother) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.connections = {.idle_timeout = 20ms}});
    Client client(server->local_address());
    for (unsigned calls = 1; calls <= 3; ++calls) {
      EXPECT_EQ(client.CodeOf("x"), OK);
      while (server->counts().connections != 0) FiberYield();
      EXPECT_EQ(server->counts().idle, calls);
      EXPECT_EQ(client.channel().counts().connects, calls);
    }
  });
}

TEST_P(RpcLimitsTest, AnIdleConnectionWhoseClientStaysIsClosed) {
  InFiber([] {
    EchoServiceImpl echo;
    // The pings' time is not the one that ends it.
    RunningServer server(&echo, {.heartbeat = kOftenAsked, .connections = {.idle_timeout = 20ms}});
    RawClient client(server->local_address());
    Frame frame;
    bool told = false;
    bool answered = false;
    while (client.ReceiveAny(&frame)) {
      if (frame.header.kind == FrameKind::kPing) client.Send(PongBytes(frame));
      if (frame.header.kind == FrameKind::kAnswer) answered = true;
      if (frame.header.kind != FrameKind::kFarewell) continue;
      EXPECT_EQ(frame.header.correlation_id, static_cast<std::uint64_t>(FarewellReason::kIdle));
      EXPECT_FALSE(std::exchange(told, true));
      client.Send(RequestBytes(7, "x"));  // It had not read it yet.
    }
    EXPECT_TRUE(told);
    EXPECT_TRUE(answered);
    EXPECT_EQ(server->counts().idle, 1u);
    EXPECT_EQ(server->counts().vanished, 0u);
  });
}

TEST_P(RpcLimitsTest, ACallInFlightKeepsItsConnection) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service, {.heartbeat = kOftenAsked, .connections = {.idle_timeout = 5ms}});
    RawClient client(server->local_address());
    client.Send(RequestBytes(1, "x"));
    scene.AwaitBegun(1);
    Frame frame;
    for (int pings = 0; pings < 10; ++pings) {  // A silent client is asked, although idle_timeout is shorter.
      ASSERT_TRUE(client.ReceiveAny(&frame));
      ASSERT_EQ(frame.header.kind, FrameKind::kPing);
      client.Send(PongBytes(frame));
    }
    EXPECT_EQ(server->counts().idle, 0u);
    client.Send(CancelBytes(1));
    do {
      ASSERT_TRUE(client.ReceiveAny(&frame));
    } while (frame.header.kind == FrameKind::kPing);
    EXPECT_EQ(frame.header.kind, FrameKind::kAnswer);
    do {
      ASSERT_TRUE(client.ReceiveAny(&frame));
    } while (frame.header.kind == FrameKind::kPing);
    EXPECT_EQ(frame.header.kind, FrameKind::kFarewell);
  });
}

}  // namespace
}  // namespace weft::rpc
