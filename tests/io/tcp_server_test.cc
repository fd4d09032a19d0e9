// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/io/late_handshake.h"
#include "weft/tests/io/tcp_server_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

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

// Others run while it waits for the next request: it need not give way besides.
TEST_P(TcpServerTest, AClientThatAwaitsEachAnswerEndsNoTurn) {
  std::atomic<int> turns_over{0};
  const auto serve = [&turns_over](TcpConnection& connection) {
    char byte;
    for (IoResult got; (got = connection.ReadRequest(&byte, 1)).ok() && got.bytes != 0;) {
      if (connection.CountRequest()) ++turns_over;
      if (!connection.stream().WriteAll(&byte, 1).ok()) return;
    }
  };
  TcpServer server(Listening(), serve);
  ASSERT_TRUE(server.Start());
  InFiber([&server] {
    TcpStream client = Client(server);
    for (std::uint32_t i = 0; i < 4 * TcpConnection::kRequestsPerLook; ++i) EXPECT_EQ(Ask(client, "x"), "x");
  });
  server.Stop(30s);
  EXPECT_EQ(turns_over, 0);
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
  std::optional<RefuseFiberStarts> refuse;
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
    TcpServer server(Listening(),
                     [&](TcpStream& stream) {
                       char byte = 0;
                       while (stream.ReadAll(&byte, 1).bytes == 1) {
                         if (byte == 's') {
                           in_handler.Set();
                           go_on.Wait();
                         }
                         EXPECT_TRUE(stream.WriteAll({&byte, 1}).ok());
                       }
                     },
                     {.first_request_at_stop = 20ms, .idle_at_stop = 10ms});
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

TEST_P(TcpServerTest, ConnectionsTakeTheGroupsInTurnOrAllRunWhereTheyAreToldTo) {
  const std::size_t groups = GetSchedulingGroupCount();
  for (const bool told : {false, true}) {
    FiberAttributes attributes{.scheduling_group = told ? groups - 1 : kUnspecifiedSchedulingGroup,
                               .scheduling_group_local = true,
                               .name = "a connection"};
    std::array<std::atomic<int>, 8> in_group{};
    const auto count = [&](TcpStream&) {
      EXPECT_EQ(GetFiberName(), "a connection");
      ++in_group[GetCurrentSchedulingGroupIndex()];
    };
    TcpServer server(Listening(), count, {.connection_fiber = attributes});
    ASSERT_TRUE(server.Start());
    for (int i = 0; i < 8; ++i) {
      TcpStream client = Client(server);
      ExpectEnd(client);
    }
    for (std::size_t g = 0; g < groups; ++g) {
      // Each worker counts its own turns, and the fiber that accepts may change workers.
      const int least = told ? 8 * (g == groups - 1) : 8 / static_cast<int>(groups) - 2;
      EXPECT_GE(in_group[g], least);
    }
  }
}

TEST(TcpServerInNamedGroups, ConnectionsHaveTheNameOfTheStarterOrThatOfTheOptions) {
  const IoRuntime runtime(fiber::NamedGroupsOf("latency:2,batch:2"));
  const auto expect_all_in = [](const std::string& name, bool from_batch, const TcpServer::Options& options) {
    std::atomic<int> here{0};
    std::atomic<int> requests{0};
    const auto count = [&] {
      ++requests;
      if (GetSchedulingGroupName(GetCurrentSchedulingGroupIndex()) == name) ++here;
    };
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    TcpServer server(std::move(listener), RequestHandler([&](TcpConnection& connection) {
                       char byte;
                       if (connection.ReadRequest(&byte, 1).bytes == 0) return AfterRequest::kClose;
                       count();
                       return connection.stream().WriteAll(&byte, 1).ok() ? AfterRequest::kWaitForNext
                                                                          : AfterRequest::kClose;
                     }),
                     options);
    if (from_batch) {
      Fiber({.scheduling_group = SchedulingGroupNamed("batch")}, [&] { ASSERT_TRUE(server.Start()); }).Join();
    } else {
      ASSERT_TRUE(server.Start());
    }
    for (int i = 0; i < 4; ++i) {
      TcpStream client;
      ASSERT_FALSE(client.Connect(server.local_address(), Soon()));
      for (int request = 0; request < 3; ++request) {
        char byte = 'x';
        ASSERT_TRUE(client.WriteAll(&byte, 1, Soon()).ok());
        ASSERT_TRUE(client.ReadAll(&byte, 1, Soon()).ok());
      }
    }
    server.Stop(Soon());
    EXPECT_EQ(requests, 12);
    EXPECT_EQ(here, 12) << name;
  };
  expect_all_in("latency", /*from_batch=*/false, {});
  expect_all_in("batch", /*from_batch=*/true, {});
  const FiberAttributes in_batch{.scheduling_group = SchedulingGroupNamed("batch")};
  expect_all_in("batch", /*from_batch=*/false, {.connection_fiber = in_batch});
}

constexpr std::size_t kStackOfConnections = 512 * 1024;  // Not the default.

void ExpectTheFiberOfAConnection() {
  EXPECT_EQ(GetFiberName(), "a connection");
  EXPECT_EQ(scheduling_group::CurrentFiber()->stack_size(), kStackOfConnections);
}

TEST_P(TcpServerTest, TheFiberOfAConnectionHasTheNameAndTheStackOfTheOptions) {
  std::atomic<bool> handled{false};
  const auto handle = [&](TcpStream&) {
    ExpectTheFiberOfAConnection();
    handled = true;
  };
  TcpServer server(Listening(), handle,
                   {.connection_fiber = {.name = "a connection", .stack_size = kStackOfConnections}});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  ExpectEnd(client);
  EXPECT_TRUE(handled);
}

TEST_P(TcpServerTest, TheFiberOfEachRequestHasTheNameAndTheStackOfTheOptions) {
  std::mutex mutex;
  std::set<std::uint64_t> fibers;
  const auto handle = [&](TcpConnection& connection) {
    char byte;
    if (connection.ReadRequest(&byte, 1).bytes == 0) return AfterRequest::kClose;
    ExpectTheFiberOfAConnection();
    {
      const std::scoped_lock lock(mutex);
      fibers.insert(GetFiberId());
    }
    return connection.stream().WriteAll(&byte, 1).ok() ? AfterRequest::kWaitForNext : AfterRequest::kClose;
  };
  TcpServer server(Listening(), RequestHandler(handle),
                   {.connection_fiber = {.name = "a connection", .stack_size = kStackOfConnections}});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  // A fiber serves several requests if they come soon enough.
  EXPECT_TRUE(Reaches([&] {
    EXPECT_EQ(Ask(client, "x"), "x");
    const std::scoped_lock lock(mutex);
    return fibers.size() >= 3;
  }));
}

// --- The drain ---

// Answers lines, one after the other, and says by Counts how its connections ended.
class LineServer {
 public:
  void Serve(TcpConnection& connection) {
    std::string line;
    for (;;) {
      char room[64];
      const bool begins = line.empty();
      const IoResult got = begins ? connection.ReadRequest(room) : connection.stream().ReadSome(room, Soon());
      if (!got.ok() || got.bytes == 0) {
        if (begins && got.error == std::errc::operation_canceled && connection.draining()) ++drained;
        if (begins && got.ok()) ++hung_up;
        return;
      }
      line.append(room, got.bytes);
      ++reads;
      if (line.back() != '\n') continue;
      if (!connection.stream().WriteAll(line).ok()) return;
      line.clear();
    }
  }
  auto Handler() {
    return [this](TcpConnection& connection) { Serve(connection); };
  }

  std::atomic<int> reads{0};
  std::atomic<int> drained{0};
  std::atomic<int> hung_up{0};
};

TEST_P(TcpServerTest, ARequestThatHasBegunIsReadToItsEndAndAnsweredInADrain) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream begun = Client(server);
  EXPECT_EQ(Ask(begun, "first\n"), "first\n");
  TcpStream idle = Client(server);
  EXPECT_EQ(Ask(idle, "first\n"), "first\n");
  EXPECT_TRUE(begun.WriteAll("half").ok());
  ASSERT_TRUE(Reaches([&] { return lines.reads == 3; }));
  Actor stopper(true, [&] { server.Stop(Soon()); });
  ExpectEnd(idle);
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 1; }));
  EXPECT_EQ(Ask(begun, "\n"), "h");  // As many bytes as were sent.
  char rest[4];
  EXPECT_EQ(begun.ReadAll(rest, sizeof(rest), Soon()).bytes, sizeof(rest));
  ExpectEnd(begun);
  stopper.Join();
  EXPECT_EQ(lines.drained, 2);
  EXPECT_EQ(lines.hung_up, 0);
}

TEST_P(TcpServerTest, AClientThatHasHungUpIsNoDrain) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler());
  ASSERT_TRUE(server.Start());
  {
    TcpStream client = Client(server);
    EXPECT_EQ(Ask(client, "x\n"), "x\n");
  }
  EXPECT_TRUE(Reaches([&] { return lines.hung_up == 1; }));
  EXPECT_EQ(lines.drained, 0);
}

// DR1: the request has come, and no worker has heard of it.
TEST_P(TcpServerTest, ARequestThatHasComeWhenTheDrainBeginsIsAnswered) {
  for (int round = 0; round < Scaled(20); ++round) {
    LineServer lines;
    TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
    ASSERT_TRUE(server.Start());
    TcpStream client = Client(server);
    EXPECT_EQ(Ask(client, "1\n"), "1\n");
    Actor(true, [&] {
      EXPECT_EQ(::send(client.fd(), "2\n", 2, MSG_NOSIGNAL), 2);
      server.Stop(Soon());
    }).Join();
    char answer[2] = {};
    EXPECT_EQ(client.ReadAll(answer, sizeof(answer), Soon()).bytes, 2u);
    EXPECT_EQ(answer[0], '2');
  }
}

// TV1: the connection has come, and no worker has heard of it.
TEST_P(TcpServerTest, AConnectionThatHasComeWhenTheDrainBeginsIsServed) {
  for (int round = 0; round < Scaled(20); ++round) {
    LineServer lines;
    TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 5ms, .idle_at_stop = 0ms});
    ASSERT_TRUE(server.Start());
    TcpStream client = Client(server);
    EXPECT_EQ(Ask(client, "1\n"), "1\n");
    Actor(true, [&] {
      const SocketAddress address = server.local_address();
      const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
      EXPECT_EQ(::connect(fd, address.data(), address.size()), 0);
      EXPECT_EQ(::send(fd, "2\n", 2, MSG_NOSIGNAL), 2);
      server.Stop(Soon());
      char answer[2] = {};
      EXPECT_EQ(::recv(fd, answer, sizeof(answer), MSG_WAITALL), 2);
      EXPECT_EQ(answer[0], '2');
      ::close(fd);
    }).Join();
  }
}

TEST_P(TcpServerTest, WhatWaitsInTheKernelIsAcceptedAndAnsweredInADrain) {
  FiberEvent go_on;
  std::atomic<int> asked{0};
  LineServer lines;
  const auto admit = [&] {
    if (++asked == 1) go_on.Wait();  // Holds the fiber that accepts. That it does so no more ends it not.
    return true;
  };
  TcpServer server(Listening(), lines.Handler(), {.admit = admit, .first_request_at_stop = 10ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  std::vector<TcpStream> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(Client(server));
    EXPECT_TRUE(clients.back().WriteAll("line\n").ok());
  }
  ASSERT_TRUE(Reaches([&] { return asked == 1; }));
  EXPECT_FALSE(server.StopAccepting(5ms));
  // The drain has looked, and there was no connection.
  Actor(true, [&] { EXPECT_FALSE(MoveOnAfter(20ms, [&] { server.Stop(Soon()); })); }).Join();
  Actor stopper(true, [&] { server.Stop(Soon()); });
  go_on.Set();
  for (TcpStream& client : clients) {
    char answer[5];
    EXPECT_EQ(client.ReadAll(answer, sizeof(answer), Soon()).bytes, sizeof(answer));
    ExpectEnd(client);
  }
  stopper.Join();
  EXPECT_EQ(server.counts().accepted, 10u);
  EXPECT_TRUE(IsRefused(server));
}

// What the connection has come to: 0: it is made; an error; EINPROGRESS: neither.
int MadeWithin(const Descriptor& client, std::chrono::milliseconds time) {
  pollfd made{.fd = client.fd(), .events = POLLOUT, .revents = 0};
  if (::poll(&made, 1, static_cast<int>(time.count())) == 0) return EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof(error);
  EXPECT_EQ(::getsockopt(client.fd(), SOL_SOCKET, SO_ERROR, &error, &size), 0);
  return error;
}

void ExpectAnswer(const Descriptor& client) {
  EXPECT_EQ(::send(client.fd(), "1\n", 2, MSG_NOSIGNAL), 2);
  pollfd answered{.fd = client.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&answered, 1, 30'000), 1);
  char answer[2] = {};
  EXPECT_EQ(::recv(client.fd(), answer, sizeof(answer), MSG_WAITALL), 2);
  EXPECT_EQ(answer[0], '1');
}

// TV1: the kernel reset connections that it had made behind the last look.
TEST_P(TcpServerTest, AConnectionThatIsMadeInADrainIsServedAndAtLastNoneIsMade) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 60s, .handshakes_at_stop = 60s});
  ASSERT_TRUE(server.Start());
  EXPECT_FALSE(server.StopAccepting(5ms));  // It waits for handshakes that have begun.
  for (;;) {
    const Descriptor client = Connecting(server.local_address());
    const int made = MadeWithin(client, 100ms);
    if (made == EINPROGRESS) break;
    ASSERT_EQ(made, 0);
    ExpectAnswer(client);
  }
  server.Stop(0ms);
  EXPECT_TRUE(IsRefused(server));
}

class TcpServerHandshakeTest : public TcpServerTest {};
WEFT_INSTANTIATE_ONE_IO_SHAPE(TcpServerHandshakeTest);

// TV1
TEST_P(TcpServerHandshakeTest, AHandshakeThatHasBegunWhenTheDrainBeginsComesToItsEnd) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 60s, .handshakes_at_stop = 60s});
  ASSERT_TRUE(server.Start());
  const SocketAddress address = server.local_address();
  LateHandshake late(address);
  EXPECT_FALSE(server.StopAccepting(5ms));
  ASSERT_TRUE(Reaches([&] { return MadeWithin(Connecting(address), 50ms) == EINPROGRESS; })) << "others may begin";
  const Descriptor& client = late.GoOn();
  EXPECT_EQ(MadeWithin(client, 30s), 0);
  ExpectAnswer(client);
  server.Stop(0ms);
}

TEST_P(TcpServerTest, TheDeadlineOfAStopEndsTheWaitForHandshakes) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(), {.handshakes_at_stop = 60s});
  ASSERT_TRUE(server.Start());
  Actor(true, [&] { server.Stop(10ms); }).Join();
  EXPECT_TRUE(IsRefused(server));
}

TEST_P(TcpServerTest, WhatWaitsForRoomIsAcceptedInADrainToo) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(),
                   {.max_connections = 1, .first_request_at_stop = 10ms, .idle_at_stop = 10ms});
  ASSERT_TRUE(server.Start());
  std::vector<TcpStream> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Client(server));
    EXPECT_TRUE(clients.back().WriteAll("line\n").ok());
  }
  ASSERT_TRUE(Reaches([&] { return lines.reads == 1; }));
  Actor stopper(true, [&] { server.Stop(Soon()); });
  for (TcpStream& client : clients) {
    char answer[5];
    EXPECT_EQ(client.ReadAll(answer, sizeof(answer), Soon()).bytes, sizeof(answer));
  }
  stopper.Join();
  EXPECT_EQ(server.counts().accepted, 4u);
}

TEST_P(TcpServerTest, AConnectionThatHasSentNothingMayBeginWithinItsTime) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 30s, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream idle = Client(server);
  EXPECT_EQ(Ask(idle, "x\n"), "x\n");
  TcpStream fresh = Client(server);
  ASSERT_TRUE(Reaches([&] { return server.counts().open == 2; }));
  Actor stopper(true, [&] { server.Stop(Soon()); });
  ExpectEnd(idle);
  EXPECT_EQ(Ask(fresh, "x\n"), "x\n");
  ExpectEnd(fresh);
  stopper.Join();
  EXPECT_EQ(lines.drained, 2);
}

TEST_P(TcpServerTest, AConnectionThatSendsNothingEndsAfterItsTime) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 20ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream fresh = Client(server);
  ASSERT_TRUE(Reaches([&] { return server.counts().open == 1; }));
  server.Stop(Soon());
  EXPECT_EQ(lines.drained, 1);
  ExpectEnd(fresh);
}

TEST_P(TcpServerTest, AnIdleConnectionMaySendItsNextRequestWithinItsTime) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 0ms, .idle_at_stop = 30s});
  ASSERT_TRUE(server.Start());
  TcpStream idle = Client(server);
  EXPECT_EQ(Ask(idle, "x\n"), "x\n");
  Actor stopper(true, [&] { server.Stop(Soon()); });
  EXPECT_TRUE(Reaches([&] { return IsRefused(server); }));
  EXPECT_EQ(Ask(idle, "y\n"), "y\n");
  idle.Close();
  stopper.Join();
  EXPECT_EQ(lines.drained, 0);
}

TEST_P(TcpServerTest, AHandlerOfStreamsGetsTheRequestOfAConnectionThatHasSentNothing) {
  TcpServer server(Listening(), &Echo, {.first_request_at_stop = 30s, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream fresh = Client(server);
  ASSERT_TRUE(Reaches([&] { return server.counts().open == 1; }));
  Actor stopper(true, [&] { server.Stop(Soon()); });
  EXPECT_TRUE(Reaches([&] { return IsRefused(server); }));
  EXPECT_EQ(Ask(fresh, "x"), "x");
  fresh.Close();
  stopper.Join();
}

// A dialogue in which the server has spoken last.
TEST_P(TcpServerTest, AHandlerOfStreamsGetsTheNextRequestWithinTheIdleTime) {
  TcpServer server(Listening(), &Echo, {.first_request_at_stop = 0ms, .idle_at_stop = 30s});
  ASSERT_TRUE(server.Start());
  TcpStream idle = Client(server);
  EXPECT_EQ(Ask(idle, "x"), "x");
  Actor stopper(true, [&] { server.Stop(Soon()); });
  EXPECT_TRUE(Reaches([&] { return IsRefused(server); }));
  EXPECT_EQ(Ask(idle, "y"), "y");
  idle.Close();
  stopper.Join();
}

TEST_P(TcpServerTest, AClientThatIsNeverIdleIsNotEndedBeforeTheTimeForFirstRequests) {
  EXPECT_TRUE(InTime(40ms, [](std::chrono::milliseconds idle) {
    LineServer lines;
    TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = kSoon, .idle_at_stop = idle});
    EXPECT_TRUE(server.Start());
    TcpStream client = Client(server);
    EXPECT_EQ(Ask(client, "x\n"), "x\n");
    Actor stopper(true, [&] { server.Stop(Soon()); });
    EXPECT_TRUE(Reaches([&] { return IsRefused(server); }));
    bool answered = true;  // False also where the client was kept waiting, and idle.
    for (const auto end = Steady::now() + 3 * idle; answered && Steady::now() < end;) {
      answered = Ask(client, "y\n") == "y\n";
    }
    if (answered) ExpectEnd(client);
    client.Close();
    stopper.Join();
    return answered;
  }));
}

TEST_P(TcpServerTest, AClientThatIsNeverIdleIsEndedAfterTheTimeForFirstRequests) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 40ms, .idle_at_stop = 20ms});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "x\n"), "x\n");
  Actor stopper(true, [&] { server.Stop(Soon()); });
  while (Ask(client, "y\n") == "y\n") {
  }
  stopper.Join();
  EXPECT_EQ(lines.drained, 1);
}

TEST_P(TcpServerTest, AStopWaitsForNoRoomAndClosesTheListenerAtOnce) {
  FiberEvent go_on;
  std::atomic<int> begun{0};
  const auto handler = [&](TcpStream& stream) {
    char byte = 0;
    if (stream.ReadAll(&byte, 1).bytes != 1) return;
    if (++begun == 1) go_on.Wait();
    EXPECT_TRUE(stream.WriteAll({&byte, 1}).ok());
  };
  TcpServer server(Listening(), handler, {.max_connections = 1});
  ASSERT_TRUE(server.Start());
  TcpStream first = Client(server);
  EXPECT_TRUE(first.WriteAll("1").ok());
  ASSERT_TRUE(Reaches([&] { return begun == 1; }));
  std::vector<TcpStream> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(Client(server));
    EXPECT_TRUE(others.back().WriteAll("2").ok());
  }
  EXPECT_TRUE(server.StopAccepting(Soon()));
  EXPECT_TRUE(IsRefused(server));
  char byte = 0;
  for (TcpStream& other : others) EXPECT_EQ(other.ReadAll(&byte, 1, Soon()).bytes, 1u);
  go_on.Set();
  EXPECT_EQ(first.ReadAll(&byte, 1, Soon()).bytes, 1u);
  server.Stop(Soon());
  EXPECT_EQ(server.counts().accepted, 4u);
}

TEST_P(TcpServerTest, AtTheDeadlineOfStopAdmitIsCancelled) {
  FiberEvent asked;
  std::atomic<bool> cancelled{false};
  const auto admit = [&] {
    asked.Set();
    try {
      EXPECT_FALSE(FiberEvent().Wait(Soon()));
    } catch (const FiberCancelled&) {
      cancelled = true;
      throw;
    }
    return true;
  };
  TcpServer server(Listening(), &Echo, {.admit = admit});
  ASSERT_TRUE(server.Start());
  const TcpStream client = Client(server);
  asked.Wait();
  server.Stop(10ms);
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(server.counts().accepted, 1u);
  EXPECT_EQ(server.counts().refused, 1u);
  EXPECT_EQ(server.counts().open, 0u);
}

TEST_P(TcpServerTest, WhenAdmitThrowsTheConnectionIsRefusedAndTheServerGoesOn) {
  std::atomic<int> asked{0};
  const auto admit = [&] {
    if (++asked == 1) throw std::runtime_error("as asked");
    return true;
  };
  TcpServer server(Listening(), &Echo, {.admit = admit});
  ASSERT_TRUE(server.Start());
  TcpStream refused;
  char byte;
  std::error_code error = refused.Connect(server.local_address(), Soon());
  if (!error) error = refused.ReadSome(&byte, 1, Soon()).error;
  EXPECT_EQ(error, std::errc::connection_reset);
  TcpStream admitted = Client(server);
  EXPECT_EQ(Ask(admitted, "hello"), "hello");
  EXPECT_EQ(server.counts().refused, 1u);
}

TEST_P(TcpServerTest, StopReturnsInTimeWhileAClientMakesLongCalls) {
  std::atomic<int> begun{0};
  TcpServer server(Listening(), [&](TcpConnection& connection) {
    char byte = 0;
    while (connection.ReadRequest(&byte, 1).bytes == 1) {
      ++begun;
      FiberSleepFor(1h);
    }
  });
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_TRUE(client.WriteAll("many requests").ok());
  ASSERT_TRUE(Reaches([&] { return begun == 1; }));
  const auto begin = Steady::now();
  server.Stop(20ms);
  EXPECT_GE(Steady::now() - begin, 20ms);
  EXPECT_LT(Steady::now() - begin, kBeforeSoon);
  EXPECT_EQ(begun, 1);
}

TEST_P(TcpServerTest, WhenAcceptingHasStoppedConnectionsGoOn) {
  LineServer lines;
  TcpServer server(Listening(), lines.Handler());
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "x\n"), "x\n");
  EXPECT_TRUE(server.StopAccepting(Soon()));
  EXPECT_TRUE(IsRefused(server));
  EXPECT_EQ(Ask(client, "y\n"), "y\n");
  server.Stop(Soon());
  EXPECT_EQ(lines.drained, 1);
  TcpServer never_started(Listening(), lines.Handler());
  EXPECT_TRUE(never_started.StopAccepting());
  EXPECT_TRUE(IsRefused(never_started));
}

// --- A server that still serves when its runtime has ended ---

class TcpServerOfAnEndedRuntimeDeathTest : public ::testing::Test {
 protected:
  static constexpr const char* kLine =
      "the server at [0-9.]+:[0-9]+ had not ended when the runtime was terminated, and never will";

  TcpServerOfAnEndedRuntimeDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static std::unique_ptr<TcpServer> Serve() {
    TcpListener listener;
    if (listener.Listen(OwnLoopback())) std::abort();
    RuntimeOptions options;
    options.concurrency_hint = 2;
    options.terminate_timeout = 1ms;
    StartRuntime(options);
    static std::atomic<bool> asked{false};
    auto server = std::make_unique<TcpServer>(std::move(listener), [](TcpStream& stream) {
      char byte;
      asked = stream.ReadAll(&byte, 1).ok();
      Echo(stream);
    });
    if (!server->Start()) std::abort();
    Fiber([&] {
      static TcpStream client;
      if (client.Connect(server->local_address()) || !client.WriteAll("x").ok()) std::abort();
    }).Join();
    while (!asked) std::this_thread::yield();
    if (TerminateRuntime() != 2) std::abort();  // The fiber that accepts, and the handler.
    return server;
  }
};

TEST_F(TcpServerOfAnEndedRuntimeDeathTest, StopSaysSo) {
  EXPECT_DEATH(Serve()->Stop(1s), std::string("TcpServer::Stop: ") + kLine);
  EXPECT_DEATH(Serve()->StopAccepting(), std::string("TcpServer::StopAccepting: ") + kLine);
}

TEST_F(TcpServerOfAnEndedRuntimeDeathTest, TheDestructorSaysSo) {
  EXPECT_DEATH(Serve().reset(), std::string("TcpServer::Stop: ") + kLine);
  // Also if another runtime runs.
  EXPECT_DEATH(
      {
        auto server = Serve();
        StartRuntime(RuntimeOptions());
        server.reset();
      },
      std::string("TcpServer::Stop: ") + kLine);
}

TEST_F(TcpServerOfAnEndedRuntimeDeathTest, AStaticOneDoesNotHoldUpTheExit) {
  EXPECT_EXIT(
      {
        static std::unique_ptr<TcpServer> server;
        server = Serve();
        std::exit(42);
      },
      ::testing::ExitedWithCode(42), kLine);
}

TEST_F(TcpServerOfAnEndedRuntimeDeathTest, OneThatWasStoppedInTimeMayGoAtAnyTime) {
  RuntimeOptions options;
  options.concurrency_hint = 2;
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(OwnLoopback()));
  StartRuntime(options);
  {
    TcpServer server(std::move(listener), &Echo);
    ASSERT_TRUE(server.Start());
    server.Stop();
    EXPECT_EQ(TerminateRuntime(), 0u);
    EXPECT_FALSE(server.HasLostItsRuntime());
    server.Stop();
  }
}

TEST(TcpServerInNamedGroups, BlockingCallOfAFiberStartsUnderItsName) {
  const IoRuntime runtime(fiber::NamedGroupsOf("first:2,second:2"));
  Fiber({.scheduling_group = SchedulingGroupNamed("second")}, [] {
    std::string name;
    const auto note_name = [&] { name = GetSchedulingGroupName(GetCurrentSchedulingGroupIndex()); };
    FiberBlocking([&] { Fiber(note_name).Join(); });
    EXPECT_EQ(name, "second");
    FiberBlocking([&] {
      FiberEvent fired;
      name.clear();
      SetFiberDetachedTimer(std::chrono::steady_clock::now(), [&] {
        note_name();
        fired.Set();
      });
      fired.Wait();
    });
    EXPECT_EQ(name, "second");
  }).Join();
}

TEST(TcpServerInNamedGroups, ANameOfSeveralGroupsIsUsedInTurn) {
  RuntimeOptions options = fiber::NamedGroupsOf("web:6,batch:2");
  options.scheduling_group_size = 2;
  const IoRuntime runtime(options);
  for (const bool named : {false, true}) {
    std::array<std::atomic<int>, 8> in_group{};
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    TcpServer server(
        std::move(listener), [&](TcpStream&) { ++in_group[GetCurrentSchedulingGroupIndex()]; },
        {.connection_fiber = {.scheduling_group = named ? SchedulingGroupNamed("web") : kUnspecifiedSchedulingGroup,
                              .scheduling_group_local = true}});
    ASSERT_TRUE(server.Start());
    for (int i = 0; i < 30; ++i) {
      TcpStream client;
      ASSERT_FALSE(client.Connect(server.local_address(), Soon()));
      char byte;
      EXPECT_EQ(client.ReadSome(&byte, 1, Soon()).bytes, 0u);
    }
    server.Stop(Soon());
    for (int g = 0; g < 3; ++g) EXPECT_GE(in_group[g], 5) << "group " << g << " named " << named;
  }
}

}  // namespace
}  // namespace weft::io
