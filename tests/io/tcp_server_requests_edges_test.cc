// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Connections that have a fiber only while they are served, where others act at the same time: a fiber of another
// request polls, the sweep has them in its hands, the server stops; or the handler does not look.

#include <sys/socket.h>

#include <algorithm>
#include <any>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/tcp_server.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/io/tcp_server_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class TcpServerRequestsEdgesTest : public TcpServerTest {
 protected:
  // Until no connection is being served: those that accept and sweep are left.
  [[nodiscard]] static bool AllWait() {
    return Reaches([] { return scheduling_group::EntityPool::LiveFibers() <= 2; });
  }
};
WEFT_INSTANTIATE_IO_SHAPES(TcpServerRequestsEdgesTest);

constexpr auto kAgain = AfterRequest::kWaitForNext;
constexpr auto kClose = AfterRequest::kClose;

AfterRequest EchoByte(TcpConnection& connection) {
  char byte;
  if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
  return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
}

// A fiber that another request leaves polls, and starts it.
TEST_P(TcpServerRequestsEdgesTest, ARequestIsNotInTheContextOfAnother) {
  std::atomic<int> foreign{0};
  std::atomic<int> calls{0};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     ++calls;
                     if (FiberExecutionContext::Current() != nullptr) ++foreign;
                     return EchoByte(connection);
                   }));
  ASSERT_TRUE(server.Start());
  std::atomic<bool> stop{false};
  std::vector<Fiber> busy;
  for (int i = 0; i < 16; ++i) {
    busy.emplace_back([&] {
      FiberExecutionContext::Create()->Execute([&] {
        while (!stop) FiberYield();
      });
    });
  }
  std::thread([&] {
    TcpStream client = Client(server);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(Ask(client, "x"), "x");
  }).join();
  stop = true;
  for (Fiber& fiber : busy) fiber.Join();
  EXPECT_EQ(foreign, 0) << "of " << calls;
}

// What the state uses, the user may destroy when Stop() has returned.
TEST_P(TcpServerRequestsEdgesTest, TheStateOfAConnectionIsDestroyedBeforeStopReturns) {
  struct Counted {
    explicit Counted(std::atomic<int>* count) : alive(count) { ++*alive; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() {
      std::this_thread::sleep_for(1ms);  // For a Stop() that would not wait for it.
      --*alive;
    }
    std::atomic<int>* alive;
  };
  for (int round = 0; round < Scaled(50); ++round) {
    std::atomic<int> alive{0};
    TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                       connection.state() = std::make_shared<Counted>(&alive);
                       return EchoByte(connection);
                     }));
    ASSERT_TRUE(server.Start());
    TcpStream client = Client(server);
    EXPECT_EQ(Ask(client, "x"), "x");
    client.Close();
    server.Stop(Soon());
    EXPECT_EQ(alive, 0);
  }
}

TEST_P(TcpServerRequestsEdgesTest, CancelAfterIsOfOneRequest) {
  EXPECT_TRUE(InTime(50ms, [](std::chrono::milliseconds time) {
    const auto time_is_over = std::make_shared<FiberEvent>();
    TcpServer server(
        Listening(), RequestHandler([&](TcpConnection& connection) {
          char byte;
          if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
          if (byte == '1') {
            CancelAfter(time);
            EXPECT_TRUE(SetFiberDetachedTimer(Steady::now() + time, [time_is_over] { time_is_over->Set(); }));
          }
          FiberSleepFor(1ms);
          return connection.stream().WriteAll(&byte, 1).ok() ? kAgain : kClose;
        }));
    EXPECT_TRUE(server.Start());
    TcpStream client = Client(server);
    if (Ask(client, "1") != "1") return false;
    EXPECT_TRUE(time_is_over->Wait(Soon()));
    EXPECT_EQ(Ask(client, "2"), "2");  // Nobody is to be cancelled any more.
    return true;
  }));
}

// While the sweep starts one connection, others that it has taken are in no list.
TEST_P(TcpServerRequestsEdgesTest, TheDrainSeesConnectionsThatTheSweepHasTaken) {
  constexpr int kConnections = 200;
  for (int round = 0; round < Scaled(40); ++round) {
    TcpServer server(Listening(), RequestHandler(EchoByte), {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
    ASSERT_TRUE(server.Start());
    std::vector<TcpStream> clients;
    for (int i = 0; i < kConnections; ++i) clients.push_back(Client(server));
    for (TcpStream& client : clients) EXPECT_EQ(Ask(client, "x"), "x");
    ASSERT_TRUE(AllWait());
    {
      const RefuseFiberStarts refuse;
      const std::uint64_t before = runtime_.counts().events;
      for (TcpStream& client : clients) EXPECT_TRUE(client.WriteAll("y").ok());
      ASSERT_TRUE(Reaches([&] { return runtime_.counts().events >= before + kConnections; }));
    }
    // The sweep comes within 5 ms, and Stop() at another moment of it in each round.
    std::this_thread::sleep_for(std::chrono::microseconds(round * 250));
    const auto begin = Steady::now();
    server.Stop(Soon());
    ASSERT_LT(Steady::now() - begin, kBeforeSoon) << "it was the deadline";
  }
}

// An error queue that nobody reads (zero copy, time stamps): poll(2) says POLLERR for ever.
TEST_P(TcpServerRequestsEdgesTest, AnErrorQueueIsNoRequest) {
  std::atomic<int> calls{0};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     ++calls;
                     char byte;
                     if (connection.ReadRequest(&byte, 1).bytes == 0) return kClose;
                     const int fd = connection.stream().fd();
                     const int on = 1;
                     EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), 0);
                     static char out = 'x';
                     return ::send(fd, &out, 1, MSG_NOSIGNAL | MSG_ZEROCOPY) == 1 ? kAgain : kClose;
                   }),
                   {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "x"), "x");
  const auto begin = Steady::now();
  server.Stop(Soon());
  EXPECT_LT(Steady::now() - begin, kBeforeSoon) << "it was the deadline";
  EXPECT_LT(calls, 10);
}

TEST_P(TcpServerRequestsEdgesTest, TheDeadlineOfStopCallsNoHandler) {
  std::atomic<int> calls{0};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     ++calls;
                     return EchoByte(connection);
                   }));
  ASSERT_TRUE(server.Start());
  std::vector<TcpStream> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(Client(server));
  for (TcpStream& client : clients) EXPECT_EQ(Ask(client, "x"), "x");
  ASSERT_TRUE(AllWait());
  const int before = calls;
  server.Stop(0ms);
  EXPECT_EQ(calls - before, 0);
}

TEST_P(TcpServerRequestsEdgesTest, AHandlerThatDoesNotLookForTheEndIsCalledForItOnce) {
  std::atomic<int> calls{0};
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     ++calls;
                     static_cast<void>(EchoByte(connection));
                     return kAgain;
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "x"), "x");
  client.Close();
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
  EXPECT_LT(calls, 10);
}

// --- Greetings ---

TEST_P(TcpServerRequestsEdgesTest, AServerThatGreetsSpeaksFirstAndOnce) {
  std::atomic<int> greetings{0};
  const auto serve = [](TcpConnection& connection) {
    EXPECT_EQ(std::any_cast<std::string>(connection.state()), "greeted");
    return EchoByte(connection);
  };
  TcpServer server(Listening(), RequestHandler(serve, {}, [&](TcpConnection& connection) {
                     ++greetings;
                     connection.state() = std::string("greeted");
                     return connection.stream().WriteAll("hello\n").ok() ? kAgain : kClose;
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  char room[6];
  EXPECT_EQ(client.ReadAll(room, sizeof(room), Soon()).bytes, 6u);
  EXPECT_EQ(std::string(room, 6), "hello\n");
  EXPECT_TRUE(AllWait());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask(client, "x"), "x");
  EXPECT_EQ(greetings, 1);
}

TEST_P(TcpServerRequestsEdgesTest, AGreetingMayEndTheConnection) {
  std::atomic<int> goodbyes{0};
  TcpServer server(Listening(), RequestHandler(
                                    &EchoByte, [&](TcpConnection&) { ++goodbyes; },
                                    [n = std::make_shared<std::atomic<int>>()](TcpConnection&) {
                                      if (++*n == 2) throw std::runtime_error("no second one");
                                      return *n == 1 ? kClose : kAgain;
                                    }));
  ASSERT_TRUE(server.Start());
  for (int i = 0; i < 2; ++i) {
    TcpStream client = Client(server);
    ExpectEnd(client);
  }
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "x"), "x");
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 1; }));
  EXPECT_EQ(goodbyes, 0);
}

// The greeting is no request: the client still has to send its first one in time.
TEST_P(TcpServerRequestsEdgesTest, TheFirstRequestIsDueAfterTheGreeting) {
  std::atomic<int> goodbyes{0};
  TcpServer server(Listening(),
                   RequestHandler(
                       &EchoByte, [&](TcpConnection&) { ++goodbyes; }, [](TcpConnection&) { return kAgain; }),
                   {.first_request_timeout = 20ms, .idle_timeout = 1h});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  ExpectEnd(client);
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
  EXPECT_EQ(server.counts().timed_out, 1u);
  EXPECT_EQ(goodbyes, 1);
}

// The drain finds it in its greeting, and ends it afterwards.
TEST_P(TcpServerRequestsEdgesTest, AConnectionThatIsGreetedInADrainSaysGoodbye) {
  FiberEvent go_on;
  std::atomic<bool> greets{false};
  std::atomic<int> goodbyes{0};
  TcpServer server(Listening(),
                   RequestHandler(
                       &EchoByte, [&](TcpConnection&) { ++goodbyes; },
                       [&](TcpConnection&) {
                         greets = true;
                         go_on.Wait();
                         return kAgain;
                       }),
                   {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  ASSERT_TRUE(Reaches([&] { return greets.load(); }));
  Actor stopper(true, [&] { server.Stop(Soon()); });
  ASSERT_TRUE(Reaches([&] { return IsRefused(server); }));
  go_on.Set();
  stopper.Join();
  ExpectEnd(client);
  EXPECT_EQ(goodbyes, 1);
}

TEST_P(TcpServerRequestsEdgesTest, AShieldedGreetingHoldsTheStopAndCallsNobody) {
  FiberEvent go_on;
  std::atomic<bool> greets{false};
  std::atomic<int> calls{0};
  const auto count = [&](TcpConnection&) {
    ++calls;
    return kClose;
  };
  TcpServer server(Listening(), RequestHandler(
                                    count, [&](TcpConnection& connection) { static_cast<void>(count(connection)); },
                                    [&](TcpConnection&) {
                                      greets = true;
                                      Shielded([&] { go_on.Wait(); });
                                      return kAgain;
                                    }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_TRUE(client.WriteAll("x", Soon()).ok());
  ASSERT_TRUE(Reaches([&] { return greets.load(); }));
  Actor stopper(true, [&] { server.Stop(0s); });
  ASSERT_TRUE(Reaches([&] { return client.WaitReadable(Deadline(0s)) != std::errc::timed_out; })) << "it is shut down";
  go_on.Set();
  stopper.Join();
  EXPECT_EQ(calls, 0);
}

TEST_P(TcpServerRequestsEdgesTest, AGreetingThatWaitsIsCancelledAtTheDeadlineOfStop) {
  std::atomic<int> begun{0};
  TcpServer server(Listening(), RequestHandler(&EchoByte, {}, [&](TcpConnection&) {
                     ++begun;
                     FiberEvent().Wait();
                     return kAgain;
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  ASSERT_TRUE(Reaches([&] { return begun == 1; }));
  Actor(true, [&] { server.Stop(20ms); }).Join();
  ExpectEnd(client);
  EXPECT_EQ(server.counts().open, 0u);
}

// --- KeepFiber() and LeaveFiber() ---

// Answers bytes until nothing comes for so long; then the connection waits without a fiber. 'c' closes it, and 'w'
// waits at once.
struct Keeper {
  AfterRequest Serve(TcpConnection& connection, std::chrono::milliseconds patience, Deadline until = {}) {
    ++calls;
    connection.KeepFiber();
    for (;;) {
      char byte;
      const IoResult got = connection.ReadRequest(&byte, 1, patience);
      if (got.error == std::errc::timed_out) {
        ++out_of_patience;
        if (!connection.LeaveFiber(until)) {
          ++kept;
          connection.KeepFiber();
          continue;
        }
        if (connection.AwaitRequest() == std::errc::resource_unavailable_try_again) return kClose;  // It waits.
        connection.KeepFiber();
        continue;
      }
      if (got.error == std::errc::operation_canceled) ++cancelled;
      if (got.bytes == 0) return kClose;
      EXPECT_TRUE(connection.stream().WriteAll(&byte, 1).ok());
      if (byte == 'c') return kClose;
      if (byte == 'w') return kAgain;
    }
  }
  std::atomic<int> calls{0}, out_of_patience{0}, kept{0}, cancelled{0};
};

TEST_P(TcpServerRequestsEdgesTest, AHandlerMayKeepItsFiberAndLeaveIt) {
  EXPECT_TRUE(InTime(50ms, [](std::chrono::milliseconds patience) {
    Keeper keeper;
    TcpServer server(Listening(),
                     RequestHandler([&](TcpConnection& connection) { return keeper.Serve(connection, patience); }));
    EXPECT_TRUE(server.Start());
    TcpStream client = Client(server);
    EXPECT_EQ(Ask(client, "a"), "a");
    EXPECT_EQ(Ask(client, "b"), "b");
    EXPECT_TRUE(AllWait());
    if (keeper.calls != 1) return false;
    EXPECT_EQ(keeper.out_of_patience, 1);
    EXPECT_EQ(Ask(client, "w"), "w") << "what it returns counts";
    EXPECT_TRUE(AllWait());
    EXPECT_EQ(Ask(client, "c"), "c");
    ExpectEnd(client);
    EXPECT_EQ(keeper.calls, 3);
    EXPECT_EQ(keeper.out_of_patience, 1);
    return true;
  }));
}

TEST_P(TcpServerRequestsEdgesTest, WhatAHandlerDidNotFindBeforeItKeepsItsFiberDoesNotCount) {
  TcpServer server(Listening(), RequestHandler([&](TcpConnection& connection) {
                     static_cast<void>(EchoByte(connection));
                     char byte;
                     EXPECT_EQ(connection.ReadRequest(&byte, 1).error, std::errc::resource_unavailable_try_again);
                     connection.KeepFiber();
                     return kClose;
                   }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "a"), "a");
  ExpectEnd(client);
}

TEST_P(TcpServerRequestsEdgesTest, TheTimeoutsOfTheServerAreNotForAHandlerThatKeepsItsFiber) {
  EXPECT_TRUE(InTime(50ms, [](std::chrono::milliseconds time) {
    Keeper keeper;
    TcpServer server(Listening(),
                     RequestHandler([&](TcpConnection& connection) { return keeper.Serve(connection, 4 * time); }),
                     {.idle_timeout = time});
    EXPECT_TRUE(server.Start());
    TcpStream client = Client(server);
    EXPECT_EQ(Ask(client, "a"), "a");
    EXPECT_EQ(client.WaitReadable(2 * time), std::errc::timed_out);
    if (Ask(client, "b") != "b" || keeper.calls != 1) return false;
    ExpectEnd(client);
    EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
    EXPECT_EQ(keeper.out_of_patience, 1) << "it began anew when the fiber went";
    EXPECT_EQ(server.counts().timed_out, 1u);
    return true;
  }));
}

TEST_P(TcpServerRequestsEdgesTest, AHandlerThatKeepsItsFiberIsEndedByTheDrain) {
  Keeper keeper;
  TcpServer server(Listening(),
                   RequestHandler([&](TcpConnection& connection) { return keeper.Serve(connection, 30s); }));
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  EXPECT_EQ(Ask(client, "a"), "a");
  Actor(true, [&] { server.Stop(Soon()); }).Join();
  ExpectEnd(client);
  EXPECT_EQ(keeper.cancelled, 1);
}

TEST_P(TcpServerRequestsEdgesTest, AHandlerSaysHowLongItsConnectionMayWait) {
  // By LeaveFiber(): the server looks, because it has a time-out of its own.
  Keeper keeper;
  TcpServer looks(Listening(),
                  RequestHandler([&](TcpConnection& connection) { return keeper.Serve(connection, 20ms, 100ms); }),
                  {.first_request_timeout = 400ms, .idle_timeout = 1h});
  ASSERT_TRUE(looks.Start());
  TcpStream client = Client(looks);
  EXPECT_EQ(Ask(client, "a"), "a");
  ExpectEnd(client);
  EXPECT_EQ(keeper.kept, 0);
  // One that never looks leaves it to the handler.
  TcpServer never_looks(
      Listening(), RequestHandler([&](TcpConnection& connection) { return keeper.Serve(connection, 20ms, 100ms); }));
  ASSERT_TRUE(never_looks.Start());
  TcpStream another = Client(never_looks);
  EXPECT_EQ(Ask(another, "a"), "a");
  EXPECT_TRUE(Reaches([&] { return keeper.kept >= 2; }));
  EXPECT_EQ(Ask(another, "c"), "c");
  ExpectEnd(another);
}

TEST_P(TcpServerRequestsEdgesTest, AHandlersLongestWaitIsATimeoutOfTheServer) {
  for (const auto own : {0ms, 50ms, 3'600'000ms}) {
    RequestHandler handler(&EchoByte);
    const auto others = own == 50ms ? 3'600'000ms : 50ms;
    handler.SetLongestWaits(others, others);
    TcpServer server(Listening(), std::move(handler), {.first_request_timeout = own, .idle_timeout = own});
    ASSERT_TRUE(server.Start());
    TcpStream silent = Client(server);
    ExpectEnd(silent);
    TcpStream idle = Client(server);
    EXPECT_EQ(Ask(idle, "a"), "a");
    ExpectEnd(idle);
    EXPECT_TRUE(Reaches([&] { return server.counts().timed_out == 2; }));
  }
}

// A loop has its own reactor and its own fibers. A thread that stops the server finds a request of which the loop has
// not heard yet, and must not serve it: there is no runtime.
TEST(TcpServerRequestsInLoopTest, AThreadThatStopsTheServerLeavesARequestToTheLoop) {
  FiberLoop loop;
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(OwnLoopback()));
  TcpServer server(std::move(listener), RequestHandler(EchoByte), {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  std::atomic<bool> is_busy{false};
  std::atomic<bool> is_stopping{false};
  loop.AddTask([&] { ASSERT_TRUE(server.Start()); });
  std::thread other([&] {
    TcpStream client;
    EXPECT_FALSE(client.Connect(server.local_address(), Soon()));
    char byte = 'x';
    EXPECT_TRUE(client.WriteAll(&byte, 1, Soon()).ok());
    EXPECT_EQ(client.ReadSome(&byte, 1, Soon()).bytes, 1u);
    loop.AddTaskRemote([&] {
      is_busy = true;
      while (!is_stopping) std::this_thread::sleep_for(1ms);
      // Stop() finds the request meanwhile. Nothing outside it can be seen by then; if it takes longer the test shows
      // nothing, and passes.
      std::this_thread::sleep_for(100ms);
    });
    while (!is_busy) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(client.WriteAll(&byte, 1, Soon()).ok());
    is_stopping = true;
    server.Stop(Soon());
    EXPECT_EQ(client.ReadSome(&byte, 1, Soon()).bytes, 1u);
  });
  loop.Run();
  other.join();
}

}  // namespace
}  // namespace weft::io
