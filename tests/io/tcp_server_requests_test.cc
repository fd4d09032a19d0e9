// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Connections that have a fiber only while they are served (RequestHandler).

#include <sys/socket.h>

#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/tcp_server.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/io/tcp_server_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class TcpServerRequestsTest : public TcpServerTest {
 protected:
  struct Polite;
};
WEFT_INSTANTIATE_IO_SHAPES(TcpServerRequestsTest);

void WaitUntilCancelled(std::atomic<int>* cancelled) {
  FiberEvent never;
  try {
    never.Wait();
  } catch (...) {
    ++*cancelled;
    throw;
  }
}

constexpr auto kAgain = AfterRequest::kWaitForNext;
constexpr auto kClose = AfterRequest::kClose;

// Answers one line for each call.
class Lines {
 public:
  AfterRequest Serve(TcpConnection& connection) {
    ++calls;
    char room[64];
    IoResult got = connection.ReadRequest(room);
    if (got.error == std::errc::resource_unavailable_try_again) return kClose;  // It was called in vain, and goes on.
    if (!got.ok() || got.bytes == 0) {
      if (got.ok()) ++hung_up;
      if (!got.ok() && connection.draining()) ++drained;
      return kClose;
    }
    ++begun;
    for (std::string line(room, got.bytes);; line.append(room, got.bytes)) {
      if (line.back() == '\n') return connection.stream().WriteAll(line).ok() ? kAgain : kClose;
      got = connection.stream().ReadSome(room, Soon());
      if (!got.ok() || got.bytes == 0) return kClose;
    }
  }
  RequestHandler Handler() {
    return RequestHandler([this](TcpConnection& connection) { return Serve(connection); });
  }

  std::atomic<int> calls{0};
  std::atomic<int> begun{0};
  std::atomic<int> hung_up{0};
  std::atomic<int> drained{0};
};

TEST_P(TcpServerRequestsTest, AConnectionThatWaitsHasNoFiber) {
  Lines lines;
  TcpServer server(Listening(), lines.Handler());
  ASSERT_TRUE(server.Start());
  const auto fibers = [] { return scheduling_group::EntityPool::LiveFibers(); };
  std::vector<TcpStream> clients;
  clients.push_back(Client(server));
  EXPECT_EQ(Ask(clients[0], "x\n"), "x\n");
  EXPECT_TRUE(Reaches([&] { return fibers() <= 2; })) << "the fiber that accepts, and the sweep";
  for (int i = 0; i < 40; ++i) clients.push_back(Client(server));
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 41; }));
  EXPECT_TRUE(Reaches([&] { return fibers() <= 2; })) << "those that have sent nothing have none either";
  for (TcpStream& client : clients) EXPECT_EQ(Ask(client, "y\n"), "y\n");
  EXPECT_TRUE(Reaches([&] { return fibers() <= 2; }));
  EXPECT_EQ(lines.begun, 42);
  clients.clear();
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
  EXPECT_EQ(lines.hung_up, 41);
}

TEST_P(TcpServerRequestsTest, ManyClientsGetAllTheirAnswers) {
  Lines lines;
  TcpServer server(Listening(), lines.Handler());
  ASSERT_TRUE(server.Start());
  const int requests = Scaled(200);
  std::vector<Fiber> clients;
  for (int c = 0; c < 16; ++c) {
    clients.emplace_back([&server, c, requests] {
      std::minstd_rand random(static_cast<unsigned>(c + 1));
      TcpStream stream = Client(server);
      for (int i = 0; i < requests; ++i) {
        const std::string line = std::to_string(c) + ' ' + std::to_string(i) + '\n';
        if (random() % 4 == 0) {  // In two parts.
          ASSERT_TRUE(stream.WriteAll(line.substr(0, 2)).ok());
          if (random() % 2 == 0) FiberYield();
          ASSERT_TRUE(stream.WriteAll(line.substr(2)).ok());
          std::string answer(line.size(), '\0');
          ASSERT_EQ(stream.ReadAll(answer, Soon()).bytes, line.size());
          ASSERT_EQ(answer, line);
        } else {
          ASSERT_EQ(Ask(stream, line), line);
        }
      }
    });
  }
  for (Fiber& client : clients) client.Join();
  EXPECT_EQ(lines.begun, 16 * requests);
  server.Stop(Soon());
  EXPECT_EQ(server.counts().accepted, 16u);
  EXPECT_EQ(server.counts().open, 0u);
}

// The handler takes one request at a time, and more of them are in the kernel.
TEST_P(TcpServerRequestsTest, WhatTheHandlerHasNotReadIsServedAtOnce) {
  std::atomic<int> calls{0};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     ++calls;
                     char byte;
                     if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                     return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "twelve bytes"), "twelve bytes");
  EXPECT_EQ(calls, 12);
  EXPECT_EQ(Ask(client, "!"), "!");
}

// A handler that goes on reading: it is told that nothing has come, and the connection waits without its fiber.
TEST_P(TcpServerRequestsTest, ReadRequestDoesNotWait) {
  std::atomic<int> nothing{0};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     char byte;
                     for (;;) {
                       const IoResult got = connection.ReadRequest(&byte, 1, Soon());
                       if (got.error == std::errc::resource_unavailable_try_again) ++nothing;
                       if (got.bytes == 0 || !connection.stream().WriteAll(&byte, 1).ok()) return kClose;
                     }
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(Ask(client, "some"), "some");
    EXPECT_TRUE(Reaches([&] { return nothing >= i; }));
  }
  EXPECT_TRUE(Reaches([&] { return scheduling_group::EntityPool::LiveFibers() <= 2; }));
  EXPECT_EQ(server.counts().open, 1u);
}

TEST_P(TcpServerRequestsTest, TheStateOfAConnectionLastsAsLongAsItDoes) {
  auto alive = std::make_shared<std::atomic<int>>(0);
  struct Counter {
    explicit Counter(std::shared_ptr<std::atomic<int>> shared) : alive(std::move(shared)) { ++*alive; }
    Counter(const Counter& other) : alive(other.alive) { ++*alive; }
    ~Counter() { --*alive; }
    std::shared_ptr<std::atomic<int>> alive;
    int requests = 0;
  };
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     char byte;
                     if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                     if (!connection.state().has_value()) connection.state().emplace<Counter>(alive);
                     const int count = ++std::any_cast<Counter&>(connection.state()).requests;
                     byte = static_cast<char>('0' + count);
                     return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream first = Client(server);
  TcpStream second = Client(server);
  EXPECT_EQ(Ask(first, "x"), "1");
  EXPECT_EQ(Ask(first, "x"), "2");
  EXPECT_EQ(Ask(second, "x"), "1");
  EXPECT_EQ(Ask(first, "x"), "3");
  EXPECT_EQ(*alive, 2);
  first.Close();
  EXPECT_TRUE(Reaches([&] { return *alive == 1; }));
  server.Stop(Soon());
  EXPECT_EQ(*alive, 0);
}

TEST_P(TcpServerRequestsTest, AHandlerThatThrowsEndsItsConnectionOnly) {
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     char byte;
                     if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                     if (byte == 't') throw std::runtime_error("t");
                     return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream stays = Client(server);
  EXPECT_EQ(Ask(stays, "1"), "1");
  TcpStream thrown = Client(server);
  EXPECT_EQ(Ask(thrown, "2"), "2");
  EXPECT_EQ(Ask(thrown, "t"), "");
  EXPECT_EQ(Ask(stays, "3"), "3");
}

// --- Who may end the wait ---

TEST_P(TcpServerRequestsTest, AConnectionThatAnotherFiberClosesEnds) {
  std::atomic<TcpStream*> waiting{nullptr};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     char byte;
                     if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                     waiting = &connection.stream();
                     return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
                   }));
  ASSERT_TRUE(server.Start());
  for (const bool in_fiber : {true, false}) {
    TcpStream client = Client(server);
    EXPECT_EQ(Ask(client, "x"), "x");
    // No request comes, so the connection is there until it is closed.
    Actor(in_fiber, [&] { EXPECT_TRUE(waiting.load()->Close()); }).Join();
    ExpectEnd(client);
    EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
  }
}

TEST_P(TcpServerRequestsTest, WhoWaitsTooLongIsClosed) {
  EXPECT_TRUE(InTime(40ms, [](std::chrono::milliseconds time) {
    Lines lines;
    TcpServer server(Listening(), lines.Handler(), {.first_request_timeout = time, .idle_timeout = 2 * time});
    EXPECT_TRUE(server.Start());
    const auto begin = Steady::now();
    TcpStream silent = Client(server);
    ExpectEnd(silent);
    EXPECT_GE(Steady::now() - begin, time);
    TcpStream idle = Client(server);
    const auto asked = Steady::now();
    if (Ask(idle, "x\n") != "x\n") return false;
    ExpectEnd(idle);
    EXPECT_GE(Steady::now() - asked, 2 * time);
    EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
    EXPECT_EQ(server.counts().timed_out, 2u);
    EXPECT_EQ(lines.hung_up, 0) << "the handler is not asked";
    return true;
  }));
}

TEST_P(TcpServerRequestsTest, WithoutATimeoutNobodyIsClosed) {
  EXPECT_TRUE(InTime(20ms, [](std::chrono::milliseconds time) {
    Lines lines;
    TcpServer server(Listening(), lines.Handler(), {.first_request_timeout = time});
    EXPECT_TRUE(server.Start());
    TcpStream idle = Client(server);
    if (Ask(idle, "x\n") != "x\n") return false;
    TcpStream silent = Client(server);
    ExpectEnd(silent);  // So there were sweeps.
    EXPECT_EQ(Ask(idle, "y\n"), "y\n");
    return true;
  }));
}

// Requests as long as the time-out, and clients that wait nearly as long. The time begins anew with each wait.
TEST_P(TcpServerRequestsTest, ATimeoutCountsOnlyWaits) {
  EXPECT_TRUE(InTime(100ms, [](std::chrono::milliseconds time) {
    TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                       char byte;
                       if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                       FiberSleepFor(time * 3 / 2);
                       return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
                     }),
                     {.first_request_timeout = time, .idle_timeout = time});
    EXPECT_TRUE(server.Start());
    TcpStream client = Client(server);
    return Ask(client, "x") == "x" && Ask(client, "y") == "y";
  }));
}

// Whether a client that waits 40 ms before each request gets all answers; the time-out is 100 ms.
void ExpectAnswersToAll(TcpServer& server, TcpStream (*connect)(const TcpServer&)) {
  ASSERT_TRUE(server.Start());
  for (int round = 0;; ++round) {
    Steady::duration longest{};
    bool all = true;
    auto last = Steady::now();
    TcpStream client = connect(server);
    for (int request = 0; request < 6; ++request) {
      FiberSleepFor(40ms);
      char byte = 'x';
      all = all && client.WriteAll(&byte, 1).ok() && client.ReadAll(&byte, 1, Soon()).bytes == 1;
      const auto now = Steady::now();
      longest = std::max(longest, now - std::exchange(last, now));
    }
    if (all) return;
    ASSERT_LT(round, 20);
    // On a machine that others share the client may have waited too long: a wait of the server is in two of its own.
    ASSERT_GE(longest, 50ms);
  }
}

TEST_P(TcpServerRequestsTest, ATimeoutBeginsAnewWithEachAnswer) {
  const TcpServer::Options options{.first_request_timeout = 100ms, .idle_timeout = 100ms};
  // Without ReadRequest().
  TcpServer requests(Listening(), RequestHandler([](TcpConnection& connection) {
                       char byte;
                       if (connection.stream().ReadSome(&byte, 1).bytes == 0) return kClose;
                       return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
                     }),
                     options);
  ExpectAnswersToAll(requests, &Client);
  TcpServer connections(
      Listening(),
      [](TcpConnection& connection) {
        char byte;
        while (connection.ReadRequest(&byte, 1).bytes != 0 && connection.stream().WriteAll(&byte, 1).ok()) {
        }
      },
      options);
  ExpectAnswersToAll(connections, &Client);
}

TEST_P(TcpServerRequestsTest, AWaitInTheHandlerHasTheSameTimeout) {
  std::atomic<int> timed_out{0};
  TcpServer server(Listening(),
                   [&](TcpConnection& connection) {
                     char byte;
                     for (;;) {
                       const IoResult got = connection.ReadRequest(&byte, 1);
                       if (got.error == std::errc::timed_out) ++timed_out;
                       if (got.bytes == 0 || !connection.stream().WriteAll(&byte, 1).ok()) return;
                     }
                   },
                   {.first_request_timeout = 20ms, .idle_timeout = 40ms});
  ASSERT_TRUE(server.Start());
  TcpStream silent = Client(server);
  ExpectEnd(silent);
  TcpStream idle = Client(server);
  if (Ask(idle, "x") == "x") ExpectEnd(idle);
  EXPECT_TRUE(Reaches([&] { return timed_out == 2; }));
  EXPECT_EQ(server.counts().timed_out, 2u);
}

TEST_P(TcpServerRequestsTest, AConnectionThatWaitsTooLongInItsHandlerIsCountedOnce) {
  std::atomic<int> timed_out{0};
  TcpServer server(Listening(),
                   [&](TcpConnection& connection) {
                     char byte;
                     if (connection.AwaitRequest() == std::errc::timed_out) ++timed_out;
                     if (connection.ReadRequest(&byte, 1).error == std::errc::timed_out) ++timed_out;
                   },
                   {.first_request_timeout = 5ms});
  ASSERT_TRUE(server.Start());
  TcpStream silent = Client(server);
  ExpectEnd(silent);
  EXPECT_EQ(timed_out, 2);
  EXPECT_EQ(server.counts().timed_out, 1u);
}

TEST_P(TcpServerRequestsTest, ADeadlineOfTheHandlersIsNotCountedAsATimeout) {
  std::atomic<int> timed_out{0};
  TcpServer server(Listening(),
                   [&](TcpConnection& connection) {
                     char byte;
                     if (connection.ReadRequest(&byte, 1, 5ms).error == std::errc::timed_out) ++timed_out;
                     if (connection.AwaitRequest(5ms) == std::errc::timed_out) ++timed_out;
                     if (connection.stream().ReadSome(&byte, 1).error == std::errc::timed_out) ++timed_out;
                   },
                   {.first_request_timeout = 1h, .read_timeout = 5ms});
  ASSERT_TRUE(server.Start());
  TcpStream silent = Client(server);
  ExpectEnd(silent);
  EXPECT_EQ(timed_out, 3);
  EXPECT_EQ(server.counts().timed_out, 0u);
}

// RDW1: an event, a time-out and the drain at the same time; each connection ends once, each request is answered or not
// begun.
TEST_P(TcpServerRequestsTest, RequestsAndTimeoutsAtTheSameTime) {
  for (int round = 0; round < Scaled(6); ++round) {
    Lines lines;
    TcpServer server(Listening(), lines.Handler(), {.first_request_timeout = 5ms, .idle_timeout = 5ms});
    ASSERT_TRUE(server.Start());
    std::atomic<int> answered{0};
    std::vector<Fiber> clients;
    for (int c = 0; c < 12; ++c) {
      clients.emplace_back([&, c] {
        std::minstd_rand random(static_cast<unsigned>(round * 12 + c + 1));
        for (int i = 0; i < 6; ++i) {
          TcpStream stream = Client(server);
          while (Ask(stream, "line\n") == "line\n") {
            ++answered;
            FiberSleepFor(std::chrono::microseconds(random() % 8000));
          }
        }
      });
    }
    for (Fiber& client : clients) client.Join();
    EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
    server.Stop(Soon());
    EXPECT_EQ(server.counts().accepted, 72u);
    EXPECT_GE(lines.begun, answered);
  }
}

// --- Fibers that cannot be started ---

TEST_P(TcpServerRequestsTest, ARequestWhoseFiberIsRefusedIsServedLater) {
  Lines lines;
  TcpServer server(Listening(), lines.Handler());
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "x\n"), "x\n");
  EXPECT_TRUE(Reaches([&] { return scheduling_group::EntityPool::LiveFibers() <= 2; }));
  {
    const RefuseFiberStarts refuse;
    EXPECT_TRUE(client.WriteAll("y\n", Soon()).ok());
    char byte;
    EXPECT_EQ(client.ReadSome(&byte, 1, 30ms).error, std::errc::timed_out);
    EXPECT_EQ(server.counts().open, 1u);
  }
  char answer[2];
  EXPECT_EQ(client.ReadAll(answer, sizeof(answer), Soon()).bytes, 2u);
  EXPECT_EQ(lines.begun, 2);
}

TEST_P(TcpServerRequestsTest, StopEndsConnectionsWhoseFibersAreRefused) {
  Lines lines;
  TcpServer server(Listening(), lines.Handler());
  ASSERT_TRUE(server.Start());
  std::vector<TcpStream> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Client(server));
    EXPECT_EQ(Ask(clients.back(), "x\n"), "x\n");
  }
  EXPECT_TRUE(Reaches([&] { return scheduling_group::EntityPool::LiveFibers() <= 2; }));
  const RefuseFiberStarts refuse;
  for (TcpStream& client : clients) EXPECT_TRUE(client.WriteAll("y\n", Soon()).ok());
  server.Stop(50ms);
  EXPECT_EQ(server.counts().open, 0u);
  EXPECT_EQ(lines.begun, 4);
}

TEST_P(TcpServerRequestsTest, WithoutFibersNewConnectionsAreRefused) {
  Lines lines;
  std::optional<RefuseFiberStarts> refuse;
  TcpServer server(Listening(), lines.Handler(), {.admit = [&] {
                     refuse.emplace();
                     return true;
                   }});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  ExpectEnd(client);
  EXPECT_TRUE(Reaches([&] { return server.counts().refused == 1; }));
  server.Stop(Soon());
  EXPECT_EQ(lines.calls, 0);
}

// --- Groups ---

TEST_P(TcpServerRequestsTest, ConnectionsTakeTheGroupsInTurnOrAllRunWhereTheyAreToldTo) {
  const std::size_t groups = GetSchedulingGroupCount();
  for (const bool told : {false, true}) {
    FiberAttributes attributes{.scheduling_group = told ? groups - 1 : kUnspecifiedSchedulingGroup,
                               .scheduling_group_local = true};
    std::array<std::atomic<int>, 8> in_group{};
    TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                       char byte;
                       if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                       ++in_group[GetCurrentSchedulingGroupIndex()];
                       return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
                     }),
                     {.connection_fiber = attributes});
    ASSERT_TRUE(server.Start());
    for (int i = 0; i < 8; ++i) {
      TcpStream client = Client(server);
      for (int request = 0; request < 3; ++request) EXPECT_EQ(Ask(client, "x"), "x");
    }
    for (std::size_t g = 0; g < groups; ++g) {
      // Each worker counts its own turns, and the fiber that accepts may change workers.
      const int least = told ? 24 * (g == groups - 1) : 3 * (8 / static_cast<int>(groups) - 2);
      EXPECT_GE(in_group[g], least);
    }
    server.Stop(Soon());
  }
}

// --- The drain ---

TEST_P(TcpServerRequestsTest, ADrainEndsThoseThatWait) {
  for (const bool in_fiber : {true, false}) {
    Lines lines;
    TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 10ms, .idle_at_stop = 0ms});
    ASSERT_TRUE(server.Start());
    std::vector<TcpStream> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(Client(server));
      if (i % 2 == 0) {
        EXPECT_EQ(Ask(clients.back(), "x\n"), "x\n");
      }
    }
    Actor(in_fiber, [&] { server.Stop(Soon()); }).Join();
    EXPECT_EQ(server.counts().accepted, 20u);
    EXPECT_EQ(server.counts().open, 0u);
    EXPECT_EQ(server.counts().timed_out, 0u);
    for (TcpStream& client : clients) ExpectEnd(client);
    EXPECT_EQ(lines.hung_up + lines.drained, 0) << "no handler was asked about the drain";
  }
}

// TV7. Connections that say good-bye when the server ends them.
struct TcpServerRequestsTest::Polite {
  explicit Polite(TcpServer::Options options = {.first_request_at_stop = 10ms, .idle_at_stop = 0ms})
      : server(Listening(),
               RequestHandler([this](TcpConnection& connection) { return lines.Serve(connection); },
                              [this](TcpConnection& connection) {
                                ++goodbyes;
                                EXPECT_TRUE(connection.stream().WriteAll("bye\n").ok());
                              }),
               options) {
    EXPECT_TRUE(server.Start());
  }
  static void ExpectGoodbye(TcpStream& client) {
    char said[4] = {};
    EXPECT_EQ(client.ReadAll(said, sizeof(said), Soon()).bytes, 4u);
    EXPECT_EQ(std::string(said, 4), "bye\n");
    ExpectEnd(client);
  }

  Lines lines;
  std::atomic<int> goodbyes{0};
  TcpServer server;
};

TEST_P(TcpServerRequestsTest, ADrainSaysGoodbyeToThoseThatWait) {
  for (const bool in_fiber : {true, false}) {
    Polite polite;
    std::vector<TcpStream> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(Client(polite.server));
      if (i % 2 == 0) {
        EXPECT_EQ(Ask(clients.back(), "x\n"), "x\n");
      }
    }
    Actor(in_fiber, [&] { polite.server.Stop(Soon()); }).Join();
    EXPECT_EQ(polite.goodbyes, 20);
    for (TcpStream& client : clients) Polite::ExpectGoodbye(client);
    EXPECT_EQ(polite.lines.hung_up, 0);
  }
}

TEST_P(TcpServerRequestsTest, ATimeoutSaysGoodbye) {
  EXPECT_TRUE(InTime(20ms, [](std::chrono::milliseconds time) {
    Polite polite({.first_request_timeout = time, .idle_timeout = 2 * time});
    TcpStream silent = Client(polite.server);
    Polite::ExpectGoodbye(silent);
    TcpStream idle = Client(polite.server);
    if (Ask(idle, "x\n") != "x\n") return false;
    Polite::ExpectGoodbye(idle);
    EXPECT_TRUE(Reaches([&] { return polite.server.counts().open == 0; }));
    EXPECT_EQ(polite.server.counts().timed_out, 2u);
    EXPECT_EQ(polite.goodbyes, 2);
    return true;
  }));
}

// One handler looks for its next request before it returns; the drain ends the other one's connection when it returns.
TEST_P(TcpServerRequestsTest, AHandlerThatIsBusyWhenTheDrainBeginsSaysGoodbyeAfterIt) {
  std::atomic<int> entered{0};
  FiberEvent go_on;
  std::atomic<int> goodbyes{0};
  TcpServer server(Listening(),
                   RequestHandler(
                       [&](TcpConnection& connection) {
                         char byte;
                         if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                         if (byte != 'i') {
                           ++entered;
                           go_on.Wait();
                         }
                         if (!connection.stream().WriteAll(&byte, 1).ok()) return kClose;
                         if (byte == 'l') static_cast<void>(connection.ReadRequest(&byte, 1));  // Until there is none.
                         return kAgain;
                       },
                       [&](TcpConnection& connection) {
                         ++goodbyes;
                         EXPECT_TRUE(connection.stream().WriteAll("bye\n").ok());
                       }),
                   {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream idle = Client(server);
  TcpStream looks = Client(server);
  TcpStream returns = Client(server);
  EXPECT_TRUE(idle.WriteAll("i").ok());
  EXPECT_TRUE(looks.WriteAll("l").ok());
  EXPECT_TRUE(returns.WriteAll("r").ok());
  ASSERT_TRUE(Reaches([&] { return entered == 2; }));
  Actor stopper(true, [&] { server.Stop(Soon()); });
  char answer[5];
  EXPECT_EQ(idle.ReadAll(answer, sizeof(answer), Soon()).bytes, 5u);
  EXPECT_EQ(std::string(answer, 5), "ibye\n") << "so the drain has looked at all";
  go_on.Set();
  EXPECT_EQ(looks.ReadAll(answer, sizeof(answer), Soon()).bytes, 5u);
  EXPECT_EQ(std::string(answer, 5), "lbye\n");
  EXPECT_EQ(returns.ReadAll(answer, sizeof(answer), Soon()).bytes, 5u);
  EXPECT_EQ(std::string(answer, 5), "rbye\n");
  stopper.Join();
  EXPECT_EQ(goodbyes, 3);
}

TEST_P(TcpServerRequestsTest, ATimeoutWhoseGoodbyeIsRefusedIsOne) {
  EXPECT_TRUE(InTime(20ms, [](std::chrono::milliseconds time) {
    Polite polite({.idle_timeout = time});
    TcpStream client = Client(polite.server);
    if (Ask(client, "x\n") != "x\n") return false;
    {
      const RefuseFiberStarts refuse;
      if (client.WaitReadable(5 * time) != std::errc::timed_out) return false;  // It was over before.
    }
    Polite::ExpectGoodbye(client);
    EXPECT_EQ(polite.server.counts().timed_out, 1u);
    EXPECT_EQ(polite.goodbyes, 1);
    return true;
  }));
}

TEST_P(TcpServerRequestsTest, WhoeverEndsItselfIsToldNothing) {
  Polite polite;
  TcpStream gone = Client(polite.server);
  EXPECT_EQ(Ask(gone, "x\n"), "x\n");
  gone.Close();
  EXPECT_TRUE(Reaches([&] { return polite.server.counts().open == 0; }));
  EXPECT_EQ(polite.lines.hung_up, 1);
  TcpStream cut = Client(polite.server);
  EXPECT_EQ(Ask(cut, "x\n"), "x\n");
  Actor(true, [&] { polite.server.Stop(0s); }).Join();
  ExpectEnd(cut);
  EXPECT_EQ(polite.goodbyes, 0);
}

TEST_P(TcpServerRequestsTest, AGoodbyeThatWaitsIsCancelledAtTheDeadlineOfStop) {
  std::atomic<int> cancelled{0};
  Lines lines;
  TcpServer server(Listening(),
                   RequestHandler([&](TcpConnection& connection) { return lines.Serve(connection); },
                                  [&](TcpConnection&) { WaitUntilCancelled(&cancelled); }),
                   {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "x\n"), "x\n");
  Actor(true, [&] { server.Stop(50ms); }).Join();
  EXPECT_EQ(cancelled, 1);
  ExpectEnd(client);
}

TEST_P(TcpServerRequestsTest, AGoodbyeWhoseFiberIsRefusedIsSaidLater) {
  Polite polite;
  TcpStream client = Client(polite.server);
  EXPECT_EQ(Ask(client, "x\n"), "x\n");
  std::optional<Actor> stopper;
  {
    const RefuseFiberStarts refuse;
    stopper.emplace(false, [&] { polite.server.Stop(Soon()); });
    EXPECT_EQ(client.WaitReadable(50ms), std::errc::timed_out);
  }
  Polite::ExpectGoodbye(client);
  stopper->Join();
  EXPECT_EQ(polite.goodbyes, 1);
}

TEST_P(TcpServerRequestsTest, ARequestThatHasBegunIsReadToItsEndAndAnsweredInADrain) {
  Lines lines;
  TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream begun = Client(server);
  EXPECT_EQ(Ask(begun, "first\n"), "first\n");
  EXPECT_TRUE(begun.WriteAll("half").ok());
  ASSERT_TRUE(Reaches([&] { return lines.begun == 2; }));
  TcpStream idle = Client(server);
  EXPECT_EQ(Ask(idle, "first\n"), "first\n");
  Actor stopper(true, [&] { server.Stop(Soon()); });
  ExpectEnd(idle);
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 1; }));
  EXPECT_TRUE(begun.WriteAll("\n").ok());
  char answer[5];
  EXPECT_EQ(begun.ReadAll(answer, sizeof(answer), Soon()).bytes, sizeof(answer));
  ExpectEnd(begun);
  stopper.Join();
}

// DR1: the request has come, and no worker has heard of it.
TEST_P(TcpServerRequestsTest, ARequestThatHasComeWhenTheDrainBeginsIsAnswered) {
  for (int round = 0; round < Scaled(40); ++round) {
    Lines lines;
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

TEST_P(TcpServerRequestsTest, AConnectionThatHasSentNothingMayBeginWithinItsTime) {
  Lines lines;
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
}

TEST_P(TcpServerRequestsTest, AnIdleConnectionMaySendItsNextRequestWithinItsTime) {
  Lines lines;
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

// Clients that ask one thing after the other: a request whose answer does not come was not begun.
TEST_P(TcpServerRequestsTest, ADrainLosesNoRequestThatHasCome) {
  for (int round = 0; round < Scaled(10); ++round) {
    Lines lines;
    TcpServer server(Listening(), lines.Handler(), {.first_request_at_stop = 30ms, .idle_at_stop = 3ms});
    ASSERT_TRUE(server.Start());
    std::atomic<int> answered{0};
    std::vector<Fiber> clients;
    for (int c = 0; c < 8; ++c) {
      clients.emplace_back([&] {
        TcpStream stream;
        if (stream.Connect(server.local_address(), Soon())) return;
        while (Ask(stream, "line\n") == "line\n") ++answered;
      });
    }
    EXPECT_TRUE(Reaches([&] { return answered >= 16; }));
    server.Stop(Soon());
    for (Fiber& client : clients) client.Join();
    EXPECT_EQ(lines.begun, answered);
    EXPECT_EQ(server.counts().open, 0u);
  }
}

TEST_P(TcpServerRequestsTest, AfterTheDeadlineOfStopNothingIsLeft) {
  std::atomic<int> running{0};
  std::atomic<int> cancelled{0};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     char byte;
                     if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                     if (byte == 'w') {
                       ++running;
                       WaitUntilCancelled(&cancelled);
                     }
                     return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
                   }),
                   {.first_request_at_stop = 30s, .idle_at_stop = 30s});
  ASSERT_TRUE(server.Start());
  TcpStream works = Client(server);
  EXPECT_TRUE(works.WriteAll("w").ok());
  TcpStream idle = Client(server);
  EXPECT_EQ(Ask(idle, "x"), "x");
  TcpStream fresh = Client(server);
  EXPECT_TRUE(Reaches([&] { return running == 1 && server.counts().open == 3; }));
  server.Stop(10ms);
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(server.counts().open, 0u);
  ExpectEnd(idle);
  ExpectEnd(fresh);
}

// A handler that says that it waits for the next request although it was cancelled.
TEST_P(TcpServerRequestsTest, AHandlerThatIsCancelledIsNotCalledAgain) {
  std::atomic<int> calls{0};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection&) {
                     ++calls;
                     try {
                       FiberEvent().Wait();
                     } catch (...) {
                     }
                     return kAgain;
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_TRUE(client.WriteAll("x").ok());
  EXPECT_TRUE(Reaches([&] { return calls == 1; }));
  server.Stop(5ms);
  EXPECT_EQ(calls, 1);
}

TEST_P(TcpServerRequestsTest, StopWhileConnectionsComeAndGo) {
  for (int round = 0; round < Scaled(12); ++round) {
    Lines lines;
    std::atomic<bool> stop{false};
    auto server = std::make_unique<TcpServer>(
        Listening(), lines.Handler(),
        TcpServer::Options{.max_connections = 4, .first_request_timeout = 10ms, .idle_timeout = 10ms});
    ASSERT_TRUE(server->Start());
    const SocketAddress address = server->local_address();
    std::vector<Fiber> clients;
    for (int c = 0; c < 8; ++c) {
      clients.emplace_back([&] {
        while (!stop) {
          TcpStream stream;
          if (stream.Connect(address, 100ms)) continue;
          (void)stream.WriteAll("x\n", 100ms);
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
