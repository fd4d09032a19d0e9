// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Connections of rpc::Server that rest: nothing has come for a while, and they have no fiber.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/examples/rpc/frame.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/start/run_as_fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/io_result.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/rpc/rpc_fixture.h"

#include "examples/rpc/meta.pb.h"

namespace weft::rpc {
namespace {

class RpcRestTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, RpcRestTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{2, 2}), &fiber::NameOf);

class RpcRestInGroupsTest : public RpcRestTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, RpcRestInGroupsTest, ::testing::Values(fiber::Shape{2, 2}), &fiber::NameOf);

constexpr Heartbeat::Options kNoPings{.ping_after = 0ms};

void AwaitFibers(std::size_t count) {
  while (GetFiberCount() > count) FiberYield();
}

// The test's, and of the listener the one that accepts and its sweep.
constexpr std::size_t kFibers = 3;

// A server that has been started.
struct Scene {
  explicit Scene(const Server::Options& options)
      : fibers(kFibers + (options.heartbeat.ping_after > 0ms || options.connections.idle_timeout > 0ms ? 1 : 0)),
        server(&waits.service, options) {}

  static void Call(RawClient& client, std::uint64_t id) {
    client.Send(RequestBytes(id, "at once"));
    ExpectAnswer(client, id, OK);
  }
  static void ExpectAnswer(RawClient& client, std::uint64_t id, ErrorCode code) {
    Frame frame;
    AnswerMeta meta;
    ASSERT_TRUE(client.Receive(&frame, &meta));
    ASSERT_EQ(frame.header.kind, FrameKind::kAnswer);
    EXPECT_EQ(frame.header.correlation_id, id);
    EXPECT_EQ(meta.error_code(), code) << meta.error_text();
  }
  std::vector<RawClient> Clients(int count) {
    std::vector<RawClient> clients;
    for (int i = 0; i < count; ++i) clients.emplace_back(server->local_address());
    return clients;
  }
  // Until all connections rest.
  void AwaitRest() const { AwaitFibers(fibers); }

  const std::size_t fibers;  // while all connections rest
  WaitsForEver waits;
  RunningServer server;
};

TEST_P(RpcRestTest, AnIdleConnectionHasNoFiber) {
  InFiber([] {
    Scene scene({.heartbeat = kNoPings});
    std::vector<RawClient> clients = scene.Clients(20);
    for (std::uint64_t id = 1; id <= 3; ++id) {
      for (std::size_t i = 0; i < clients.size(); i += id) Scene::Call(clients[i], id);
      scene.AwaitRest();
      EXPECT_EQ(scene.server->counts().connections, clients.size());
    }
    clients.clear();
    while (scene.server->counts().connections != 0) FiberYield();
  });
}

TEST_P(RpcRestTest, AFrameWhosePartsComeLateIsWhole) {
  InFiber([] {
    Scene scene({.heartbeat = kNoPings});
    std::vector<RawClient> clients = scene.Clients(3);
    const std::string request = RequestBytes(1, "at once");
    for (const std::size_t cut : {std::size_t{1}, FrameHeader::kSize, request.size() - 1}) {
      for (RawClient& client : clients) client.Send(request.substr(0, cut));
      scene.AwaitRest();
      for (RawClient& client : clients) client.Send(request.substr(cut));
      for (RawClient& client : clients) Scene::ExpectAnswer(client, 1, OK);
    }
  });
}

// The first call's answer comes while its connection rests, and so does the cancellation of the second.
TEST_P(RpcRestTest, AConnectionRestsWhileItsCallsRun) {
  InFiber([] {
    FiberEvent answer;
    ScriptedService service([&](Controller*, const EchoRequest* request, EchoAnswer*, Closure* done) {
      if (request->payload() == "for ever") FiberEvent().Wait();
      if (request->payload() == "later") answer.Wait();
      done->Run();
    });
    RunningServer server(&service, {.heartbeat = kNoPings});
    RawClient client(server->local_address());
    client.Send(RequestBytes(1, "later") + RequestBytes(2, "for ever"));
    while (server->counts().in_flight != 2) FiberYield();
    AwaitFibers(kFibers + 2);
    answer.Set();
    Scene::ExpectAnswer(client, 1, OK);
    AwaitFibers(kFibers + 1);
    client.Send(BytesOf(MakeFrame(FrameKind::kCancel, 2, nullptr, nullptr)));
    Scene::ExpectAnswer(client, 2, CANCELED);
    client.Send(BytesOf(MakeFrame(FrameKind::kCancel, 2, nullptr, nullptr)));  // Nobody's.
    AwaitFibers(kFibers);
    client.Send(BytesOf(MakeFrame(FrameKind::kCancel, 2, nullptr, nullptr)));
    Scene::Call(client, 3);
  });
}

// More than a connection keeps in one list.
TEST_P(RpcRestTest, AConnectionRestsWithManyCalls) {
  InFiber([] {
    constexpr std::uint64_t kCalls = 40;
    WaitsForEver waits;
    RunningServer server(&waits.service, {.heartbeat = kNoPings});
    RawClient client(server->local_address());
    for (std::uint64_t id = 1; id <= kCalls; ++id) {
      client.Send(RequestBytes(id, "x"));
      waits.AwaitBegun(static_cast<int>(id));
    }
    for (std::uint64_t id = kCalls; id != 0; --id) {
      client.Send(BytesOf(MakeFrame(FrameKind::kCancel, id, nullptr, nullptr)));
      Scene::ExpectAnswer(client, id, CANCELED);
    }
    Scene::Call(client, 1);
    while (server->counts().in_flight != 0) FiberYield();  // A request counts until its answer is written.
  });
}

TEST_P(RpcRestTest, AClientThatGoesWhileACallRunsCancelsIt) {
  InFiber([] {
    Scene scene({.heartbeat = kNoPings});
    {
      RawClient client(scene.server->local_address());
      client.Send(RequestBytes(1, "x"));
      scene.waits.AwaitBegun(1);
      AwaitFibers(scene.fibers + 3);
    }
    scene.waits.AwaitEnded(1);
    while (scene.server->counts().connections != 0) FiberYield();
  });
}

TEST_P(RpcRestTest, AClientIsAskedAndGivenUpWhileItsConnectionRests) {
  InFiber([] {
    EXPECT_TRUE(InTime(100ms, [](std::chrono::milliseconds time) {
      Scene scene({.heartbeat = {.ping_after = time, .timeout = time}});
      std::vector<RawClient> clients = scene.Clients(2);
      Frame frame;
      clients[0].Send(RequestBytes(1, "at once"));
      if (!clients[0].ReceiveAny(&frame) || frame.header.kind != FrameKind::kAnswer) return false;
      scene.AwaitRest();  // Or they are asked before that, on a busy machine.
      for (RawClient& client : clients) {
        if (!client.ReceiveAny(&frame)) return false;
        EXPECT_EQ(frame.header.kind, FrameKind::kPing);
      }
      clients[0].Send(BytesOf(MakeFrame(FrameKind::kPong, 0, nullptr, nullptr)));
      EXPECT_FALSE(clients[1].ReceiveAny(&frame));
      if (scene.server->counts().vanished != 1 || !clients[0].ReceiveAny(&frame)) return false;
      EXPECT_EQ(frame.header.kind, FrameKind::kPing) << "the next one";
      return true;
    }));
  });
}

// Its bytes have come, but no fiber can read them.
TEST_P(RpcRestTest, AClientThatHasSentSomethingIsNotGivenUp) {
  InFiber([] {
    EXPECT_TRUE(InTime(100ms, [](std::chrono::milliseconds time) {
      Scene scene({.heartbeat = {.ping_after = time, .timeout = time}});
      RawClient speaks(scene.server->local_address());
      RawClient silent(scene.server->local_address());
      Frame frame;
      {
        while (scene.server->counts().connections != 2 && scene.server->counts().vanished == 0) FiberYield();
        const RefuseFiberStarts refuse;
        speaks.Send(RequestBytes(1, "at once"));
        while (scene.server->counts().vanished == 0) FiberYield();
        FiberSleepFor(time * 5 / 2);  // It is asked again.
      }
      do {
        if (!speaks.ReceiveAny(&frame)) return false;
      } while (frame.header.kind == FrameKind::kPing);
      EXPECT_EQ(frame.header.kind, FrameKind::kAnswer);
      while (silent.ReceiveAny(&frame)) {
      }
      return scene.server->counts().vanished == 1;
    }));
  });
}

// A client whose answer the sockets do not hold: its reader waits for room, and would not hear it.
struct ReadsLate {
  explicit ReadsLate(Server::Options options) {
    options.limits.max_body = 20'000'000;
    options.writing = {.max_unsent = 1, .timeout = 1h};
    server.emplace(&echo, std::move(options));
    client.emplace(server.value()->local_address());
    const int size = 64 << 10;
    EXPECT_EQ(setsockopt(client->stream().fd(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
    // When the second one is read, there is no room.
    in_time = Calls(1, RequestBytes(1, std::string(12'000'000, 'x'))) && Calls(2, RequestBytes(2, "y"));
  }
  // False: the server has given the client up before.
  bool Calls(std::uint64_t calls, const std::string& request) {
    if (!client->stream().WriteAll(request, kSoon).ok()) return false;
    for (;;) {
      const Server::Counts counts = server.value()->counts();
      if (counts.vanished + counts.idle != 0) return false;
      if (counts.requests == calls && counts.in_flight == 0) return true;
      FiberYield();
    }
  }
  // True: it has got the answer.
  bool Reads() {
    FrameReader reader({.max_body = 20'000'000});
    for (;;) {
      Frame frame;
      if (reader.Next(&frame) == FrameReader::Result::kFrame) {
        if (frame.header.kind == FrameKind::kAnswer) return true;
        continue;
      }
      const std::span<char> room = reader.Room();
      const io::IoResult got = client->stream().ReadSome(room.data(), room.size(), kSoon);
      if (!got.ok() || got.bytes == 0) return false;
      reader.Filled(got.bytes);
    }
  }

  EchoServiceImpl echo;
  std::optional<RunningServer> server;
  std::optional<RawClient> client;
  bool in_time = false;
};

TEST_P(RpcRestTest, AClientThatReadsLateIsNotGivenUp) {
  InFiber([] {
    EXPECT_TRUE(InTime(150ms, [](std::chrono::milliseconds time) {
      ReadsLate late({.heartbeat = {.ping_after = time, .timeout = time}});
      if (!late.in_time) return false;
      RawClient silent(late.server.value()->local_address());
      while (late.server.value()->counts().vanished == 0) FiberYield();
      Frame frame;
      while (silent.ReceiveAny(&frame)) {
      }
      EXPECT_TRUE(late.Reads());
      if (late.server.value()->counts().vanished != 1) return false;
      // It is heard again: now it can be silent, too.
      while (late.server.value()->counts().vanished == 1) FiberYield();
      return true;
    }));
  });
}

TEST_P(RpcRestTest, AClientThatReadsLateIsNotIdle) {
  InFiber([] {
    // Longer than the request takes to come.
    EXPECT_TRUE(InTime(500ms, [](std::chrono::milliseconds idle) {
      ReadsLate late({.heartbeat = kNoPings, .connections = {.idle_timeout = idle}});
      if (!late.in_time) return false;
      RawClient silent(late.server.value()->local_address());
      Frame frame;
      while (silent.ReceiveAny(&frame)) {  // Told, and a second later ended.
      }
      EXPECT_EQ(late.server.value()->counts().idle, 1u);
      EXPECT_TRUE(late.Reads());
      while (late.server.value()->counts().idle == 1) FiberYield();
      return true;
    }));
  });
}

// Its request has come, but no fiber can read it.
TEST_P(RpcRestTest, AClientThatHasSentARequestIsNotIdle) {
  InFiber([] {
    EXPECT_TRUE(InTime(50ms, [](std::chrono::milliseconds time) {
      Scene scene({.heartbeat = kNoPings, .connections = {.idle_timeout = time}});
      const std::uint64_t idle = scene.server->counts().idle;
      RawClient speaks(scene.server->local_address());
      RawClient silent(scene.server->local_address());
      Frame frame;
      {
        while (scene.server->counts().connections != 2 && scene.server->counts().idle == idle) FiberYield();
        const RefuseFiberStarts refuse;
        speaks.Send(RequestBytes(1, "at once"));
        EXPECT_TRUE(silent.ReceiveAny(&frame));
        EXPECT_EQ(frame.header.kind, FrameKind::kFarewell);
        FiberSleepFor(3 * time);
        if (scene.server->counts().idle != idle + 1) return false;
      }
      Scene::ExpectAnswer(speaks, 1, OK);
      return true;
    }));
  });
}

// The connection ends while a request is on its way, which begins then.
TEST_P(RpcRestTest, AnIdleConnectionThatEndsLosesNoCall) {
  InFiber([] {
    FiberEvent answer;
    std::atomic<int> begun{0};
    ScriptedService service([&](Controller*, const EchoRequest*, EchoAnswer*, Closure* done) {
      ++begun;
      answer.Wait();
      done->Run();
    });
    for (const bool idles : {false, true}) {
      answer.Reset();
      begun = 0;
      Server::Options options{.heartbeat = kNoPings};
      (idles ? options.connections.idle_timeout : options.connections.first_request_timeout) = 20ms;
      RunningServer server(&service, std::move(options));
      RawClient client(server->local_address());
      Frame frame;
      ASSERT_TRUE(client.ReceiveAny(&frame));
      EXPECT_EQ(frame.header.kind, FrameKind::kFarewell);
      client.Send(RequestBytes(1, "x"));  // It had not read it yet.
      while (begun == 0) FiberYield();
      FiberSleepFor(1500ms);  // Longer than the connection lingers.
      EXPECT_EQ(server->counts().in_flight, 1u);
      answer.Set();
      Scene::ExpectAnswer(client, 1, OK);
      EXPECT_FALSE(client.ReceiveAny(&frame));
      EXPECT_EQ(server->counts().idle, 1u);
    }
  });
}

TEST_P(RpcRestTest, BothTimeoutsOfASilentClientAreOne) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo,
                         {.heartbeat = kNoPings, .connections = {.first_request_timeout = 50ms, .idle_timeout = 50ms}});
    std::vector<RawClient> clients;
    for (int i = 0; i < 20; ++i) clients.emplace_back(server->local_address());
    for (RawClient& client : clients) {
      Frame frame;
      ASSERT_TRUE(client.ReceiveAny(&frame));
      EXPECT_EQ(frame.header.kind, FrameKind::kFarewell);
      EXPECT_FALSE(client.ReceiveAny(&frame));
    }
    EXPECT_EQ(server->counts().idle, clients.size());
  });
}

// Each ping waited behind the ready fibers, and the time for the answer was counted from the first one.
TEST_P(RpcRestTest, ManyClientsThatAnswerAreKeptOnABusyServer) {
  InFiber([] {
    EchoServiceImpl echo;
    EXPECT_TRUE(InTime(300ms, [&](std::chrono::milliseconds time) {
      RunningServer server(&echo, {.heartbeat = {.ping_after = time / 3, .timeout = time}});
      std::vector<RawClient> clients;
      std::vector<Fiber> answering;
      std::atomic<int> pings{0};
      std::atomic<bool> stop{false};
      for (int i = 0; i < 200; ++i) clients.emplace_back(server->local_address());
      for (RawClient& client : clients) {
        answering.emplace_back([&] {
          Frame frame;
          while (client.ReceiveAny(&frame, /*may_be_reset=*/true)) {  // At the end, with a pong on its way.
            if (frame.header.kind != FrameKind::kPing) continue;
            ++pings;
            const std::string pong =
                BytesOf(MakeFrame(FrameKind::kPong, frame.header.correlation_id, nullptr, nullptr));
            if (!client.stream().WriteAll(pong, kSoon).ok()) return;
          }
        });
      }
      Fiber busy([&] {
        while (!stop) {
          const auto until = std::chrono::steady_clock::now() + 5ms;
          while (std::chrono::steady_clock::now() < until) {
          }
          FiberYield();
        }
      });
      while (pings < 600 && server->counts().vanished == 0) FiberSleepFor(1ms);
      const bool none_has_vanished = server->counts().vanished == 0;
      stop = true;
      busy.Join();
      server->Stop(0s);
      for (Fiber& client : answering) client.Join();
      return none_has_vanished;
    }));
  });
}

// --- The end ---

// Whether they have sent something before, or not.
TEST_P(RpcRestTest, ADrainTellsThoseThatRest) {
  InFiber([] {
    Scene scene({.heartbeat = kNoPings});
    std::vector<RawClient> clients = scene.Clients(10);
    for (std::size_t i = 0; i < clients.size(); i += 2) Scene::Call(clients[i], 1);
    scene.AwaitRest();
    while (scene.server->counts().connections != clients.size()) FiberYield();
    Fiber stopper([&] { scene.server->Stop(60s); });
    for (RawClient& client : clients) {
      Frame frame;
      ASSERT_TRUE(client.ReceiveAny(&frame));
      EXPECT_EQ(frame.header.kind, FrameKind::kFarewell);
      EXPECT_EQ(frame.header.correlation_id, static_cast<std::uint64_t>(FarewellReason::kStopping));
      client.Send(RequestBytes(9, "at once"));  // It had not read it yet.
      Scene::ExpectAnswer(client, 9, UNAVAILABLE);
      client.stream().Close();
    }
    stopper.Join();
    EXPECT_EQ(scene.server->counts().unavailable, clients.size());
  });
}

TEST_P(RpcRestTest, AStopWithoutTimeEndsThoseThatRest) {
  for (const bool in_fiber : {true, false}) {
    std::optional<Scene> scene;
    std::vector<RawClient> clients;
    InFiber([&] {
      scene.emplace(Server::Options{.heartbeat = kNoPings});
      clients = scene->Clients(10);
      for (std::size_t i = 0; i < 5; ++i) Scene::Call(clients[i], 1);
      clients[5].Send(RequestBytes(1, "x"));
      clients[6].Send(RequestBytes(1, "x").substr(0, 7));
      scene->waits.AwaitBegun(1);
      AwaitFibers(scene->fibers + 3);
      while (scene->server->counts().connections != clients.size()) FiberYield();
      if (in_fiber) scene->server->Stop(0s);
    });
    scene->server->Stop(0s);
    EXPECT_EQ(scene->server->counts().connections, 0u);
    EXPECT_EQ(scene->waits.ended, 3);
    InFiber([&] {
      for (RawClient& client : clients) {
        Frame frame;
        while (client.ReceiveAny(&frame)) {
        }
      }
      clients.clear();
      scene.reset();
    });
  }
}

// SC7: the ends of their streams come to connections whose fibers cannot be started yet.
TEST_P(RpcRestTest, AStopWaitsForThoseThatRest) {
  InFiber([] {
    Scene scene({.heartbeat = kNoPings});
    std::vector<RawClient> clients = scene.Clients(3);
    for (RawClient& client : clients) Scene::Call(client, 1);
    scene.AwaitRest();
    FiberEvent begins;
    Fiber stopper([&] {
      begins.Wait();
      scene.server->Stop(0s);
    });
    {
      const RefuseFiberStarts refuse;
      begins.Set();
      FiberSleepFor(50ms);  // The deadline is over, and the listener would end what rests.
      EXPECT_EQ(scene.server->counts().connections, 3u);
    }
    stopper.Join();
    EXPECT_EQ(scene.server->counts().connections, 0u);
  });
}

// A connection that entered between Stop()'s last look and its cut was awaited for ever.
TEST_P(RpcRestTest, AStopWhileClientsConnect) {
  InFiber([] {
    for (int round = 0; round < 10; ++round) {
      WaitsForEver waits;
      RunningServer server(&waits.service, {.heartbeat = kNoPings});
      const io::SocketAddress address = server->local_address();
      std::atomic<bool> stop{false};
      std::vector<Fiber> clients;
      for (int i = 0; i < 8; ++i) {
        clients.emplace_back([&] {
          std::vector<io::TcpStream> streams;  // Silent ones, which stay.
          while (!stop) {
            io::TcpStream stream;
            if (!stream.Connect(address, 100ms)) streams.push_back(std::move(stream));
            FiberYield();
          }
        });
      }
      while (server->counts().connections < 10) FiberYield();
      server->Stop(round % 2 == 0 ? Deadline(std::chrono::milliseconds(0)) : Deadline(10ms));
      EXPECT_EQ(server->counts().connections, 0u);
      stop = true;
      for (Fiber& client : clients) client.Join();
    }
  });
}

// A request that comes with the connection, in the drain, is refused in words.
TEST_P(RpcRestTest, AClientThatIsAcceptedInTheDrainIsAnswered) {
  InFiber([] {
    FiberEvent go_on;
    std::atomic<bool> asked{false};
    WaitsForEver waits;
    RunningServer server(&waits.service, {.heartbeat = kNoPings, .connections = {.admit = [&] {
                                                                   asked = true;
                                                                   go_on.Wait();
                                                                   return true;
                                                                 }}});
    RawClient client(server->local_address());
    client.Send(RequestBytes(1, "at once"));
    while (!asked) FiberYield();
    Fiber stopper([&] { server->Stop(60s); });
    while (!server->draining()) FiberYield();
    go_on.Set();
    Frame frame;
    AnswerMeta meta;
    int farewells = 0;
    int answers = 0;
    while (client.Receive(&frame, &meta)) {  // Until Stop() ends it.
      if (frame.header.kind == FrameKind::kFarewell) {
        ++farewells;
        continue;
      }
      ++answers;
      EXPECT_EQ(meta.error_code(), UNAVAILABLE);
      EXPECT_TRUE(meta.not_begun());
    }
    EXPECT_EQ(farewells, 1);
    EXPECT_EQ(answers, 1);
    stopper.Join();
  });
}

// Its first fiber comes late.
TEST_P(RpcRestInGroupsTest, AClientThatIsGreetedInTheDrainIsAnswered) {
  InFiber([this] {
    std::atomic<std::size_t> computing{0};
    std::atomic<bool> go_on{false};
    const FiberAttributes there{.scheduling_group = 1, .scheduling_group_local = true};
    std::vector<Fiber> busy;
    for (std::size_t i = 0; i < workers(); ++i) {
      busy.emplace_back(there, [&] {
        ++computing;
        while (!go_on) {
        }
      });
    }
    while (computing != workers()) FiberYield();
    WaitsForEver waits;
    RunningServer server(
        &waits.service, {.heartbeat = kNoPings, .connections = {.connection_fiber = there, .handshakes_at_stop = 0ms}});
    RawClient client(server->local_address());
    client.Send(RequestBytes(1, "at once"));
    while (server->counts().accepted_connections == 0) FiberYield();
    Fiber stopper({.scheduling_group = 0, .scheduling_group_local = true}, [&] { server->Stop(60s); });
    while (!server->draining()) FiberYield();
    FiberSleepFor(100ms);  // It would have cut the connections by now.
    go_on = true;
    Frame frame;
    AnswerMeta meta;
    do {
      ASSERT_TRUE(client.Receive(&frame, &meta));
    } while (frame.header.kind == FrameKind::kFarewell);
    EXPECT_EQ(meta.error_code(), UNAVAILABLE);
    client.stream().Close();
    stopper.Join();
    for (Fiber& fiber : busy) fiber.Join();
  });
}

// The bad frame ended the connection, and the call was nobody's any more.
TEST_P(RpcRestTest, AStopCancelsACallBeforeABadFrame) {
  InFiber([] {
    WaitsForEver waits;
    RunningServer server(&waits.service, {.heartbeat = kNoPings});
    RawClient client(server->local_address());
    client.Send(RequestBytes(1, "x") + std::string(100, 'x'));
    waits.AwaitBegun(1);
    while (server->counts().bad == 0) FiberYield();
    server->Stop(10ms);
    EXPECT_EQ(waits.ended, 3);
  });
}

TEST_P(RpcRestTest, AClientThatSendsNothingIsToldAndClosed) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service, {.heartbeat = kNoPings, .connections = {.first_request_timeout = 20ms}});
    RawClient silent(server->local_address());
    RawClient late(server->local_address());
    Frame frame;
    for (RawClient* client : {&silent, &late}) {
      ASSERT_TRUE(client->ReceiveAny(&frame));
      EXPECT_EQ(frame.header.kind, FrameKind::kFarewell);
      EXPECT_EQ(frame.header.correlation_id, static_cast<std::uint64_t>(FarewellReason::kIdle));
    }
    Scene::Call(late, 1);  // It had not read it yet.
    EXPECT_FALSE(silent.ReceiveAny(&frame));
    EXPECT_FALSE(late.ReceiveAny(&frame));
    EXPECT_EQ(server->counts().idle, 2u);
    RawClient speaks(server->local_address());
    Scene::Call(speaks, 1);
    Scene::Call(speaks, 2);
  });
}

}  // namespace
}  // namespace weft::rpc
