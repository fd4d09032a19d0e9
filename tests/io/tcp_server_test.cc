// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_server.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class TcpServerTest : public IoTest {
 protected:
  static TcpListener Listening() {
    TcpListener listener;
    EXPECT_FALSE(listener.Listen(SocketAddress::LoopbackIpv4(0)));
    return listener;
  }
  static TcpStream Client(const TcpServer& server) {
    TcpStream stream;
    EXPECT_FALSE(stream.Connect(server.local_address(), Soon()));
    return stream;
  }
  // Sends a line and reads the answer.
  static std::string Ask(TcpStream& stream, std::string_view line) {
    if (!stream.WriteAll(line, Soon()).ok()) return "(no write)";
    std::string answer(line.size(), '\0');
    const IoResult got = stream.ReadAll(answer.data(), answer.size(), Soon());
    return got.ok() ? answer.substr(0, got.bytes) : "(no answer: " + got.error.message() + ')';
  }
};
WEFT_INSTANTIATE_IO_SHAPES(TcpServerTest);

void Echo(TcpStream& stream) {
  char buffer[4096];
  for (IoResult got; (got = stream.ReadSome(buffer, sizeof(buffer))).ok() && got.bytes != 0;) {
    if (!stream.WriteAll(buffer, got.bytes).ok()) return;
  }
}

TEST_P(TcpServerTest, ServesManyConnections) {
  TcpServer server(Listening(), &Echo);
  ASSERT_TRUE(server.Start());
  std::vector<Fiber> clients;
  for (int c = 0; c < 50; ++c) {
    clients.emplace_back([&server, c] {
      TcpStream stream = Client(server);
      for (int i = 0; i < 10; ++i) {
        const std::string line = std::to_string(c) + ' ' + std::to_string(i);
        EXPECT_EQ(Ask(stream, line), line);
      }
    });
  }
  for (Fiber& client : clients) client.Join();
  EXPECT_EQ(server.counts().accepted, 50u);
  EXPECT_EQ(server.counts().refused, 0u);
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
  server.Stop(30s);
}

TEST_P(TcpServerTest, WhenAHandlerReturnsItsConnectionIsClosed) {
  TcpServer server(Listening(), [](TcpStream& stream) { EXPECT_TRUE(stream.WriteAll("bye").ok()); });
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  char buffer[8];
  EXPECT_EQ(client.ReadAll(buffer, sizeof(buffer), Soon()).bytes, 3u);
}

TEST_P(TcpServerTest, MoreThanMaxConnectionsWaitInTheKernel) {
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  TcpServer server(Listening(),
                   [&](TcpStream& stream) {
                     const int running = ++now;
                     for (int seen = most; seen < running && !most.compare_exchange_weak(seen, running);) {
                     }
                     Echo(stream);
                     --now;
                   },
                   {.max_connections = 3});
  ASSERT_TRUE(server.Start());
  std::vector<TcpStream> first;
  for (int i = 0; i < 3; ++i) {
    first.push_back(Client(server));
    EXPECT_EQ(Ask(first.back(), "x"), "x");
  }
  TcpStream fourth = Client(server);
  EXPECT_TRUE(fourth.WriteAll("y").ok());
  char byte;
  EXPECT_EQ(fourth.ReadSome(&byte, 1, 50ms).error, std::errc::timed_out);
  EXPECT_EQ(server.counts().open, 3u);
  first.pop_back();
  EXPECT_EQ(fourth.ReadAll(&byte, 1, Soon()).bytes, 1u);
  first.clear();
  fourth.Close();
  std::vector<Fiber> clients;
  for (int c = 0; c < 30; ++c) {
    clients.emplace_back([&server] {
      TcpStream stream = Client(server);
      EXPECT_EQ(Ask(stream, "line"), "line");
    });
  }
  for (Fiber& client : clients) client.Join();
  EXPECT_EQ(most, 3);
}

TEST_P(TcpServerTest, WhoIsNotAdmittedIsReset) {
  std::atomic<int> asked{0};
  TcpServer server(Listening(), &Echo, {.admit = [&asked] { return ++asked % 2 == 0; }});
  ASSERT_TRUE(server.Start());
  TcpStream refused;
  char byte;
  // The reset may come before Connect() has returned.
  std::error_code error = refused.Connect(server.local_address(), Soon());
  if (!error) error = refused.ReadSome(&byte, 1, Soon()).error;
  EXPECT_EQ(error, std::errc::connection_reset);
  TcpStream admitted = Client(server);
  EXPECT_EQ(Ask(admitted, "hello"), "hello");
  EXPECT_EQ(server.counts().accepted, 2u);
  EXPECT_EQ(server.counts().refused, 1u);
  EXPECT_EQ(server.counts().open, 1u);
}

TEST_P(TcpServerTest, AHandlerThatThrowsEndsItsConnectionOnly) {
  TcpServer server(Listening(), [](TcpStream& stream) {
    char byte = 0;
    while (stream.ReadAll(&byte, 1).bytes == 1) {
      if (byte == 'e') throw std::runtime_error("as asked");
      if (byte == 'i') throw 7;
      EXPECT_TRUE(stream.WriteAll({&byte, 1}).ok());
    }
  });
  ASSERT_TRUE(server.Start());
  TcpStream stays = Client(server);
  EXPECT_EQ(Ask(stays, "1"), "1");
  for (const char* how : {"e", "i"}) {
    TcpStream thrown = Client(server);
    EXPECT_EQ(Ask(thrown, "2"), "2");
    EXPECT_EQ(Ask(thrown, how), "");
  }
  EXPECT_EQ(Ask(stays, "3"), "3");
}

TEST_P(TcpServerTest, WithoutFibersConnectionsAreRefused) {
  std::atomic<bool> ran{false};
  std::optional<fiber::RefuseFiberStarts> refuse;
  FiberEvent admitted;
  TcpServer server(Listening(), [&](TcpStream&) { ran = true; }, {.admit = [&] {
                     refuse.emplace();
                     return true;
                   }});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  char byte;
  EXPECT_EQ(client.ReadSome(&byte, 1, Soon()).bytes, 0u);  // Closed.
  EXPECT_TRUE(Reaches([&] { return server.counts().refused == 1; }));
  server.Stop(30s);
  EXPECT_FALSE(ran);
  TcpServer second(Listening(), &Echo);
  EXPECT_FALSE(second.Start());
  refuse.reset();
}

// Graceful: those that wait for a request end, the request in flight is answered, no new one is accepted.
TEST_P(TcpServerTest, StopAnswersWhatIsInFlightAndEndsTheIdle) {
  for (const bool in_fiber : {true, false}) {
    FiberEvent in_handler;
    FiberEvent go_on;
    TcpServer server(Listening(), [&](TcpStream& stream) {
      char byte = 0;
      while (stream.ReadAll(&byte, 1).bytes == 1) {
        if (byte == 's') {
          in_handler.Set();
          go_on.Wait();
        }
        EXPECT_TRUE(stream.WriteAll({&byte, 1}).ok());
      }
    });
    ASSERT_TRUE(server.Start());
    std::vector<TcpStream> idle;
    for (int i = 0; i < 10; ++i) {
      idle.push_back(Client(server));
      EXPECT_EQ(Ask(idle.back(), "x"), "x");
    }
    TcpStream busy = Client(server);
    EXPECT_TRUE(busy.WriteAll("s").ok());
    in_handler.Wait();
    std::atomic<bool> stopped{false};
    Actor stopper(in_fiber, [&] {
      server.Stop(60s);
      stopped = true;
    });
    char byte = 0;
    for (TcpStream& stream : idle) {
      const IoResult end = stream.ReadSome(&byte, 1, Soon());
      EXPECT_TRUE(end.ok()) << end.error.message();
      EXPECT_EQ(end.bytes, 0u);
    }
    EXPECT_TRUE(Reaches([&] { return server.counts().open == 1; }));
    EXPECT_FALSE(stopped);
    TcpStream late;
    // The kernel hears of it when the fiber that accepts has.
    EXPECT_TRUE(Reaches([&] { return late.Connect(server.local_address(), Soon()) == std::errc::connection_refused; }));
    go_on.Set();
    EXPECT_EQ(busy.ReadAll(&byte, 1, Soon()).bytes, 1u);
    EXPECT_EQ(byte, 's');
    EXPECT_EQ(busy.ReadSome(&byte, 1, Soon()).bytes, 0u);
    stopper.Join();
    EXPECT_EQ(server.counts().open, 0u);
    server.Stop(1s);  // Once more.
    EXPECT_FALSE(server.Start());
  }
}

TEST_P(TcpServerTest, WhenTheDrainTimeIsOverConnectionsAreShutDown) {
  std::atomic<int> failed{0};
  std::atomic<int> began{0};
  TcpServer server(Listening(), [&](TcpStream& stream) {
    ++began;
    // The peer does not read.
    const std::string much(1 << 20, 'x');
    while (stream.WriteAll(much).ok()) {
    }
    ++failed;
  });
  ASSERT_TRUE(server.Start());
  std::vector<TcpStream> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Client(server));
  ASSERT_TRUE(Reaches([&] { return began == 3; }));
  const auto begin = Steady::now();
  server.Stop(100ms);
  EXPECT_GE(Steady::now() - begin, 100ms);
  EXPECT_EQ(failed, 3);
}

// What the handler has started ends with it, whatever it waits for.
TEST_P(TcpServerTest, WhenTheDrainTimeIsOverHandlersAreCancelledWithAllThatTheyHaveStarted) {
  FiberLatch waiting(4);
  std::atomic<int> cancelled{0};
  TcpServer server(Listening(), [&](TcpStream&) {
    FiberScope parts;
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(parts.Spawn([&] {
        waiting.CountDown();
        try {
          EXPECT_FALSE(FiberEvent().Wait(5s));  // At most.
        } catch (const FiberCancelled&) {
          ++cancelled;
          throw;
        }
      }));
    }
    waiting.CountDown();
    parts.Wait();
    ADD_FAILURE() << "it was not cancelled";
  });
  ASSERT_TRUE(server.Start());
  const TcpStream client = Client(server);
  waiting.Wait();
  server.Stop(10ms);
  EXPECT_EQ(cancelled, 3);
}

TEST_P(TcpServerTest, WithinTheDrainTimeNoHandlerIsCancelled) {
  FiberEvent in_handler;
  FiberEvent go_on;
  std::atomic<bool> finished{false};  // A late connection may be served, too.
  TcpServer server(Listening(), [&](TcpStream&) {
    in_handler.Set();
    go_on.Wait();
    TestCancel();
    finished = true;
  });
  ASSERT_TRUE(server.Start());
  const TcpStream client = Client(server);
  in_handler.Wait();
  Actor stopper(true, [&] { server.Stop(Soon()); });
  EXPECT_TRUE(Reaches([&] {
    TcpStream late;
    return late.Connect(server.local_address(), Soon()) == std::errc::connection_refused;
  }));
  go_on.Set();
  stopper.Join();
  EXPECT_TRUE(finished);
}

TEST_P(TcpServerTest, TheDestructorStops) {
  for (const bool in_fiber : {true, false}) {
    Actor actor(in_fiber, [] {
      TcpStream client;
      {
        TcpServer server(Listening(), &Echo);
        ASSERT_TRUE(server.Start());
        client = Client(server);
        EXPECT_EQ(Ask(client, "x"), "x");
      }
      char byte;
      const IoResult end = client.ReadSome(&byte, 1, Soon());
      EXPECT_EQ(end.bytes, 0u);
      const TcpServer never_started(Listening(), &Echo);
    });
  }
}

TEST_P(TcpServerTest, TheDestructorStopsItInACancelledScope) {
  Actor(true, [] {
    FiberEvent serving;
    bool over = false;
    CancelScope scope;
    EXPECT_TRUE(scope.Run([&] {
      TcpServer server(Listening(), [&](TcpStream& stream) {
        serving.Set();
        char byte;
        EXPECT_EQ(stream.ReadSome(&byte, 1).bytes, 0u);
        Shielded([] { FiberYield(); });
        over = true;
      });
      ASSERT_TRUE(server.Start());
      const TcpStream client = Client(server);
      serving.Wait();
      scope.Cancel();
    }));
    EXPECT_TRUE(over);
  }).Join();
}

TEST_P(TcpServerTest, StopWhileConnectionsComeAndGo) {
  for (int round = 0; round < Scaled(30); ++round) {
    std::atomic<bool> stop{false};
    auto server = std::make_unique<TcpServer>(Listening(), &Echo, TcpServer::Options{.max_connections = 4});
    ASSERT_TRUE(server->Start());
    const SocketAddress address = server->local_address();
    std::vector<Fiber> clients;
    for (int c = 0; c < 8; ++c) {
      clients.emplace_back([&] {
        while (!stop) {
          TcpStream stream;
          if (stream.Connect(address, 100ms)) continue;
          (void)stream.WriteAll("x", 100ms);
          char byte;
          (void)stream.ReadSome(&byte, 1, 100ms);
        }
      });
    }
    EXPECT_TRUE(Reaches([&] { return server->counts().accepted >= 5; }));
    if (round % 2 == 0) server->Stop(5s);
    server.reset();
    stop = true;
    for (Fiber& client : clients) client.Join();
  }
}

}  // namespace
}  // namespace weft::io
