// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Server::ForTcpServer(): connections that wait without a fiber.

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <any>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2/http2_frame_room.h"
#include "weft/interop/http2_client.h"
#include "weft/interop/http2_server.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/interop/http2_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::InTime;
using io::Reaches;
using io::Soon;
using std::chrono::milliseconds;

class Http2WaitingTest : public io::IoTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, Http2WaitingTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{2, 2}), &fiber::NameOf);

constexpr std::size_t kOfTheServer = 2;  // the fiber that accepts, and the sweep

bool NoConnectionHasAFiber() {
  return Reaches([] { return GetFiberCount() <= kOfTheServer; });
}

void AnswerPath(Http2Request& request, Http2Response& response) {
  EXPECT_FALSE(response.Send(200, {}, request.path()));
}

class Server {
 public:
  explicit Server(Http2Server::Handler handler, const Http2Options& options = {}, io::TcpServer::Options tcp = {})
      : http(std::move(handler), options), server(Listen(), http.ForTcpServer(), std::move(tcp)) {
    EXPECT_TRUE(server.Start());
  }
  // One that says no limit to the TcpServer, and no good-bye.
  static io::RequestHandler WithoutLimit(Http2Server* http) {
    using Kept = std::shared_ptr<Http2Connection>;
    return io::RequestHandler([http](io::TcpConnection& connection) {
      std::any& state = connection.state();
      if (!state.has_value()) state = std::make_shared<Http2Connection>(http, Http2Transport(connection));
      return std::any_cast<Kept&>(state)->Serve();
    });
  }
  static io::TcpListener Listen() {
    io::TcpListener listener;
    EXPECT_FALSE(listener.Listen(io::OwnLoopback()));
    return listener;
  }

  Http2Server http;
  io::TcpServer server;
};

// Has greeted.
class Client {
 public:
  explicit Client(const io::TcpServer& server, bool greets = true) {
    EXPECT_FALSE(stream.Connect(server.local_address(), Soon()));
    if (greets) peer.Greet();
  }
  void Send(std::string_view path) { peer.Ask(next_, true, "GET", path); }
  void ExpectAnswer(std::string_view path) {
    EXPECT_EQ(peer.Await(kData, next_, kEndStream).payload, path);
    next_ += 2;
  }
  void Ask(std::string_view path) {
    Send(path);
    ExpectAnswer(path);
  }
  // False: the connection has ended before the answer, because this came late.
  bool AskInTime(std::string_view path) {
    Send(path);
    const Frame answer = peer.Find(kData, next_, kEndStream);
    next_ += 2;
    if (answer.ended()) return false;
    EXPECT_EQ(answer.payload, path);
    return true;
  }
  // The drain's two GOAWAYs, and the end.
  void ExpectDrain(std::uint32_t last) {
    EXPECT_EQ(peer.Await(kGoAway).number(), 0x7fff'ffffu);
    const Frame ping = peer.Await(kPing);
    peer.SendFrame(kPing, kAck, 0, ping.payload);
    EXPECT_EQ(peer.Await(kGoAway).number(), last);
    ExpectEnd();
  }
  void ExpectEnd() {
    peer.AwaitEnd();
    stream.Close();
  }

  io::TcpStream stream;
  RawPeer peer{&stream};

 private:
  std::uint32_t next_ = 1;
};

TEST_P(Http2WaitingTest, AnIdleConnectionHasNoFiber) {
  Server served(&AnswerPath);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(std::make_unique<Client>(served.server));
  for (int round = 0; round < 3; ++round) {
    for (const auto& client : clients) client->Ask("/round");
    EXPECT_TRUE(NoConnectionHasAFiber());
    EXPECT_EQ(served.server.counts().open, 20u);
  }
  EXPECT_EQ(served.http.counts().connections, 20u);
  EXPECT_EQ(served.http.counts().requests, 60u);
  EXPECT_EQ(served.http.counts().idle_timeouts, 0u);
}

TEST_P(Http2WaitingTest, TheMemoryOfAConnectionThatWaitsSleeps) {
  if (WEFT_ASAN) GTEST_SKIP() << "none sleeps";
  // The next session takes the region that was given back last.
  const std::size_t size = Http2FrameRoom::Size();
  char* const region = Http2Regions::Take(size);
  ASSERT_NE(region, nullptr);
  Http2Regions::GiveBack(region, size);
  const auto has_pages = [&] {
    std::vector<unsigned char> pages(size / Http2FrameRoom::PageSize());
    EXPECT_EQ(::mincore(region, size, pages.data()), 0);
    return std::ranges::any_of(pages, [](unsigned char page) { return (page & 1) != 0; });
  };
  Server served(&AnswerPath);
  Client client(served.server);
  for (int round = 0; round < 2; ++round) {
    client.Ask("/round");
    EXPECT_TRUE(Reaches([&] { return !has_pages(); }));
  }
  char* const other = Http2Regions::Take(size);
  EXPECT_NE(other, region) << "it is no session's";
  Http2Regions::GiveBack(other, size);
}

TEST_P(Http2WaitingTest, AClientThatHasGreetedOnlyHasNoFiber) {
  Server served(&AnswerPath);
  Client client(served.server);
  static_cast<void>(client.peer.Await(kSettings, 0, kAck));
  EXPECT_TRUE(NoConnectionHasAFiber());
  client.Ask("/first");
}

// The state of HPACK belongs to the connection.
TEST_P(Http2WaitingTest, FieldsThatWereSentBeforeAreKnownAfterwards) {
  Server served(&AnswerPath);
  Client client(served.server);
  const std::string others = Literal(":method", "GET") + Literal(":scheme", "http") + Literal(":authority", "x");
  std::string path = Literal(":path", "/kept");
  path[0] = '\x40';  // Into the table, whose first entry has the number 62.
  client.peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 1, others + path);
  EXPECT_EQ(client.peer.Await(kData, 1, kEndStream).payload, "/kept");
  EXPECT_TRUE(NoConnectionHasAFiber());
  client.peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 3, others + "\xbe");
  EXPECT_EQ(client.peer.Await(kData, 3, kEndStream).payload, "/kept");
}

TEST_P(Http2WaitingTest, AConnectionWaitsWithItsFiberWhileAHandlerRuns) {
  FiberEvent may_answer;
  Server served([&](Http2Request& request, Http2Response& response) {
    may_answer.Wait();
    AnswerPath(request, response);
  });
  Client client(served.server);
  client.Send("/late");
  for (int i = 0; i < 2; ++i) static_cast<void>(client.peer.Await(kSettings));
  EXPECT_EQ(client.stream.WaitReadable(350ms), std::errc::timed_out);
  EXPECT_EQ(GetFiberCount(), kOfTheServer + 2) << "the reader, and the handler";
  may_answer.Set();
  client.ExpectAnswer("/late");
  EXPECT_TRUE(NoConnectionHasAFiber()) << "nothing has come since the handler ended";
}

TEST_P(Http2WaitingTest, WhatComesWhileAHandlerRunsIsServed) {
  FiberEvent may_answer;
  Server served([&](Http2Request& request, Http2Response& response) {
    if (request.path() == "/late") may_answer.Wait();
    AnswerPath(request, response);
  });
  Client client(served.server);
  for (int i = 0; i < 2; ++i) static_cast<void>(client.peer.Await(kSettings));
  client.Send("/late");
  EXPECT_EQ(client.stream.WaitReadable(350ms), std::errc::timed_out);
  client.peer.Ask(3, true, "GET", "/meanwhile");
  EXPECT_EQ(client.peer.Await(kData, 3, kEndStream).payload, "/meanwhile");
  may_answer.Set();
  client.ExpectAnswer("/late");
}

TEST_P(Http2WaitingTest, WhatWasSentAndNotReadByTheClientIsSentBeforeTheConnectionWaits) {
  constexpr std::size_t kBody = 4'000'000;
  Server served([](Http2Request&, Http2Response& response) {
    EXPECT_FALSE(response.Send(200, {}, std::string(kBody, 'b'), Soon()));
  });
  Client client(served.server, /*greets=*/false);
  client.peer.Greet(std::string("\0\4", 2) + Number32(0x7fff'ffff));
  client.peer.SendFrame(kWindowUpdate, 0, 0, Number32(0x7000'0000));
  client.Send("/large");
  for (int i = 0; i < 2; ++i) static_cast<void>(client.peer.Await(kSettings));
  EXPECT_FALSE(client.stream.WaitReadable(Soon()));
  std::size_t got = 0;
  for (bool ended = false; !ended;) {
    const Frame frame = client.peer.Await(kData, 1);
    got += frame.payload.size();
    ended = frame.ended() || (frame.flags & kEndStream) != 0;
  }
  EXPECT_EQ(got, kBody);
  EXPECT_TRUE(NoConnectionHasAFiber());
}

TEST_P(Http2WaitingTest, WhoeverHasNotAcknowledgedOurSettingsIsWatchedByAFiber) {
  EXPECT_TRUE(InTime(150ms, [](milliseconds time) {
    Server served(&AnswerPath, {.settings_timeout = time});
    Client client(served.server, /*greets=*/false);
    client.peer.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0));
    if (!client.AskInTime("/")) return false;
    EXPECT_EQ(client.peer.Await(kGoAway).code(), kSettingsTimeout);
    client.ExpectEnd();
    EXPECT_TRUE(Reaches([&] { return served.server.counts().open == 0; }));
    EXPECT_EQ(served.http.counts().settings_timeouts, 1u);
    return true;
  }));
}

TEST_P(Http2WaitingTest, AConnectionThatIsPingedWhileItIsIdleKeepsItsFiber) {
  // Longer than a reader stays that is not pinged.
  EXPECT_TRUE(InTime(150ms, [](milliseconds ping_after) {
    Server served(&AnswerPath, {.idle_timeout = 0ms, .ping_after = ping_after});
    Client client(served.server);
    if (!client.AskInTime("/")) return false;
    for (int i = 0; i < 2; ++i) {
      const Frame ping = client.peer.Find(kPing);
      if (ping.ended()) return false;
      client.peer.SendFrame(kPing, kAck, 0, ping.payload);
    }
    if (!client.AskInTime("/again")) return false;
    EXPECT_GT(GetFiberCount(), kOfTheServer);
    return true;
  }));
}

// Otherwise nobody would end it.
TEST_P(Http2WaitingTest, AConnectionWhoseTimeTheServerDoesNotWatchKeepsItsFiber) {
  EXPECT_TRUE(InTime(200ms, [](milliseconds idle) {
    Http2Server http(&AnswerPath, {.idle_timeout = idle});
    io::TcpServer server(Server::Listen(), Server::WithoutLimit(&http));
    EXPECT_TRUE(server.Start());
    Client client(server);
    if (!client.AskInTime("/")) return false;
    EXPECT_EQ(client.peer.Await(kGoAway).number(), 1u);
    client.ExpectEnd();
    EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
    EXPECT_EQ(http.counts().idle_timeouts, 1u);
    EXPECT_EQ(server.counts().timed_out, 0u) << "it was not the server";
    return true;
  }));
}

// --- Ends ---

TEST_P(Http2WaitingTest, AnIdleTimeoutEndsAConnectionThatWaits) {
  EXPECT_TRUE(InTime(300ms, [](milliseconds idle) {
    Server served(&AnswerPath, {.idle_timeout = idle});
    Client client(served.server);
    if (!client.AskInTime("/")) return false;
    EXPECT_TRUE(NoConnectionHasAFiber());
    const Frame goaway = client.peer.Await(kGoAway);
    EXPECT_EQ(goaway.number(), 1u);
    EXPECT_EQ(goaway.code(), kNoError);
    client.ExpectEnd();
    EXPECT_TRUE(Reaches([&] { return served.server.counts().open == 0; }));
    EXPECT_EQ(served.http.counts().idle_timeouts, 1u);
    // Else it came to wait so late that the connection itself saw the time-out.
    return served.server.counts().timed_out == 1;
  }));
}

// It keeps the connection of no request alive.
TEST_P(Http2WaitingTest, AnIdleTimeoutDoesNotBeginAnewWithAPing) {
  Http2Server http(&AnswerPath, {.idle_timeout = 400ms});
  // That of the TcpServer does. The shorter one makes it look often.
  io::TcpServer server(Server::Listen(), Server::WithoutLimit(&http),
                       {.first_request_timeout = 800ms, .idle_timeout = 1h});
  ASSERT_TRUE(server.Start());
  Client client(server);
  client.Ask("/");
  EXPECT_TRUE(NoConnectionHasAFiber());
  client.peer.SendFrame(kPing, 0, 0, "answer!!");
  static_cast<void>(client.peer.Await(kPing, 0, kAck));
  EXPECT_TRUE(NoConnectionHasAFiber());
  EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; })) << "there is no good-bye to wait for";
  EXPECT_EQ(server.counts().timed_out, 1u);
}

TEST_P(Http2WaitingTest, ATimeoutOfTheServerEndsAConnectionThatWaits) {
  EXPECT_TRUE(InTime(250ms, [](milliseconds idle) {
    Server served(&AnswerPath, {}, {.idle_timeout = idle});
    Client client(served.server);
    if (!client.AskInTime("/")) return false;
    EXPECT_EQ(client.peer.Await(kGoAway).code(), kNoError);
    client.ExpectEnd();
    EXPECT_TRUE(Reaches([&] { return served.server.counts().open == 0; }));
    EXPECT_EQ(served.http.counts().idle_timeouts, 1u);
    EXPECT_EQ(served.server.counts().timed_out, 1u);
    return true;
  }));
}

// The client's last bytes are older than the time-out when the answer is sent.
TEST_P(Http2WaitingTest, ATimeoutOfTheServerIsNotThatOfARequest) {
  EXPECT_TRUE(InTime(300ms, [](milliseconds idle) {
    FiberEvent may_answer;
    Server served(
        [&](Http2Request& request, Http2Response& response) {
          if (request.path() == "/late") may_answer.Wait();
          AnswerPath(request, response);
        },
        {}, {.idle_timeout = idle});
    Client client(served.server);
    for (int i = 0; i < 2; ++i) {
      if (client.peer.Find(kSettings).ended()) return false;
    }
    client.Send("/late");
    EXPECT_EQ(client.stream.WaitReadable(idle + 100ms), std::errc::timed_out);
    may_answer.Set();
    client.ExpectAnswer("/late");
    EXPECT_TRUE(NoConnectionHasAFiber());
    // It would end at once if its time had begun before the answer.
    if (client.stream.WaitReadable(idle / 4) != std::errc::timed_out) return false;
    return client.AskInTime("/next") && served.server.counts().timed_out == 0;
  })) << "it began before the answer";
}

TEST_P(Http2WaitingTest, WhoeverSendsNothingIsEndedByTheServer) {
  Server served(&AnswerPath, {}, {.first_request_timeout = 100ms});
  Client client(served.server, /*greets=*/false);
  EXPECT_EQ(client.peer.Await(kGoAway).number(), 0u);
  client.ExpectEnd();
  EXPECT_TRUE(Reaches([&] { return served.server.counts().open == 0; }));
  EXPECT_EQ(served.server.counts().timed_out, 1u);
  EXPECT_EQ(served.http.counts().idle_timeouts, 1u);
}

// Nobody has made SETTINGS for it that it could leave without an acknowledgement; it held its connection for ever.
TEST_P(Http2WaitingTest, WhoeverSendsNothingIsEndedByTheTimeForTheSettings) {
  EXPECT_TRUE(InTime(100ms, [](milliseconds time) {
    Server served(&AnswerPath, {.idle_timeout = 0ms, .settings_timeout = time, .ping_after = 1h});
    Client silent(served.server, /*greets=*/false);
    Client speaks(served.server);
    if (!speaks.AskInTime("/")) return false;
    EXPECT_EQ(silent.peer.Await(kGoAway).number(), 0u);
    silent.ExpectEnd();
    EXPECT_TRUE(Reaches([&] { return served.server.counts().open <= 1; }));
    return speaks.AskInTime("/again");
  }));
}

// The buffers were given back after 100 ms of silence, before the answer, which made them anew.
TEST_P(Http2WaitingTest, AnAnswerThatComesLateLeavesNoBuffer) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizers keep memory of their own";
  constexpr std::size_t kConnections = 10;
  constexpr std::size_t kBody = 60'000;  // The client's windows hold it.
  Server served([](Http2Request& request, Http2Response& response) {
    if (request.path() == "/") return static_cast<void>(response.Send(200, {}, request.path()));
    FiberSleepFor(150ms);
    EXPECT_FALSE(response.Send(200, {}, std::string(kBody, 'x')));
  });
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<Client>(served.server));
    clients.back()->Ask("/");
  }
  EXPECT_TRUE(NoConnectionHasAFiber());
  const std::size_t before = ::mallinfo2().uordblks;
  for (const auto& client : clients) client->Send("/late");
  for (const auto& client : clients) {
    std::size_t got = 0;
    while (got < kBody) got += client->peer.Await(kData, 3).payload.size();
    EXPECT_EQ(got, kBody);
  }
  EXPECT_TRUE(NoConnectionHasAFiber());
  EXPECT_LT(::mallinfo2().uordblks, before + kConnections * 24'000);
}

TEST_P(Http2WaitingTest, AClientThatGoesWhileItsConnectionWaitsLeavesNothing) {
  Server served(&AnswerPath);
  for (const bool resets : {false, true}) {
    Client client(served.server);
    client.Ask("/");
    EXPECT_TRUE(NoConnectionHasAFiber());
    if (resets) {
      client.stream.Reset();
    } else {
      client.stream.Close();
    }
    EXPECT_TRUE(Reaches([&] { return served.server.counts().open == 0; }));
  }
  EXPECT_TRUE(NoConnectionHasAFiber());
  EXPECT_EQ(served.http.counts().idle_timeouts, 0u);
  EXPECT_EQ(served.http.counts().protocol_errors, 0u);
}

TEST_P(Http2WaitingTest, ADrainSaysGoodbyeToConnectionsThatWait) {
  Server served(&AnswerPath);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<Client>(served.server));
  for (const auto& client : clients) client->Ask("/");
  EXPECT_TRUE(NoConnectionHasAFiber());
  Fiber stops([&] { served.server.Stop(Soon()); });
  for (const auto& client : clients) client->ExpectDrain(1);
  stops.Join();
  EXPECT_EQ(served.http.counts().idle_timeouts, 0u);
  EXPECT_EQ(served.server.counts().timed_out, 0u);
}

TEST_P(Http2WaitingTest, ARequestThatComesAfterTheFirstGoAwayOfADrainIsServed) {
  Server served(&AnswerPath);
  Client client(served.server);
  client.Ask("/");
  EXPECT_TRUE(NoConnectionHasAFiber());
  Fiber stops([&] { served.server.Stop(Soon()); });
  EXPECT_EQ(client.peer.Await(kGoAway).number(), 0x7fff'ffffu);
  const Frame ping = client.peer.Await(kPing);
  client.Ask("/late");
  client.peer.SendFrame(kPing, kAck, 0, ping.payload);
  EXPECT_EQ(client.peer.Await(kGoAway).number(), 3u);
  client.ExpectEnd();
  stops.Join();
}

TEST_P(Http2WaitingTest, AConnectionThatDrainsDoesNotWaitWithoutAFiber) {
  // Neither a time-out nor the drain looks at it soon.
  Server served(&AnswerPath, {.idle_timeout = 1h}, {.first_request_at_stop = io::kSoon, .idle_at_stop = io::kSoon});
  Client client(served.server);
  client.Ask("/");
  const auto began = std::chrono::steady_clock::now();
  Fiber stops([&] { served.server.Stop(Soon()); });
  for (bool drains = false; !drains;) {  // It learns of the drain by the bytes that come.
    client.peer.SendFrame(kPing, 0, 0, "answer!!");
    const Frame frame = client.peer.Next();
    ASSERT_FALSE(frame.ended());
    drains = frame.type == kGoAway;
  }
  // It gets no answer to its own PING, and says the last GOAWAY after a second.
  EXPECT_EQ(client.peer.Await(kGoAway).number(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - began, io::kBeforeSoon);
  client.ExpectEnd();
  stops.Join();
}

TEST_P(Http2WaitingTest, ADrainEndsAConnectionThatIsServed) {
  FiberEvent began, may_answer;
  Server served([&](Http2Request& request, Http2Response& response) {
    began.Set();
    may_answer.Wait();
    AnswerPath(request, response);
  });
  Client client(served.server);
  client.Send("/");
  began.Wait();
  Fiber stops([&] { served.server.Stop(Soon()); });
  EXPECT_EQ(client.peer.Await(kGoAway).number(), 0x7fff'ffffu);
  may_answer.Set();
  client.ExpectAnswer("/");
  EXPECT_EQ(client.peer.Await(kGoAway).number(), 1u);
  client.ExpectEnd();
  stops.Join();
}

TEST_P(Http2WaitingTest, ADrainSaysGoodbyeToWhoeverHasSentNothing) {
  Server served(&AnswerPath);
  Client client(served.server, /*greets=*/false);
  EXPECT_TRUE(Reaches([&] { return served.server.counts().open == 1; }));
  Fiber stops([&] { served.server.Stop(Soon()); });
  EXPECT_EQ(client.peer.Await(kGoAway).number(), 0x7fff'ffffu);
  client.peer.Greet();
  client.Ask("/after_all");
  EXPECT_EQ(client.peer.Await(kGoAway).number(), 1u);
  client.ExpectEnd();
  stops.Join();
}

TEST_P(Http2WaitingTest, AfterTheDeadlineOfStopNothingIsLeft) {
  for (const bool all_wait : {true, false}) {
    FiberEvent never;
    Server served([&](Http2Request& request, Http2Response& response) {
      if (request.path() == "/waits") never.Wait();
      AnswerPath(request, response);
    });
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 10; ++i) clients.push_back(std::make_unique<Client>(served.server));
    for (const auto& client : clients) client->Ask("/");
    if (all_wait) {
      EXPECT_TRUE(NoConnectionHasAFiber());
    }
    // Some are about to wait, or are served.
    for (std::size_t i = all_wait ? 10 : 0; i < 5; ++i) clients[i]->Send("/waits");
    served.server.Stop(0s);
    EXPECT_EQ(served.server.counts().open, 0u);
    EXPECT_EQ(served.http.counts().handlers, 0u);
    EXPECT_TRUE(Reaches([] { return GetFiberCount() == 0; }));
  }
}

// --- Fibers that cannot be started ---

TEST_P(Http2WaitingTest, ARequestWhoseFiberIsRefusedIsServedLater) {
  Server served(&AnswerPath);
  Client client(served.server);
  client.Ask("/");
  EXPECT_TRUE(NoConnectionHasAFiber());
  {
    const RefuseFiberStarts refuse;
    client.Send("/later");
    EXPECT_EQ(client.stream.WaitReadable(50ms), std::errc::timed_out);
  }
  client.ExpectAnswer("/later");
}

TEST_P(Http2WaitingTest, AnIdleTimeoutWhoseFiberIsRefusedIsCountedOnce) {
  EXPECT_TRUE(InTime(300ms, [](milliseconds idle) {
    Server served(&AnswerPath, {.idle_timeout = idle});
    Client client(served.server);
    if (!client.AskInTime("/")) return false;
    EXPECT_TRUE(NoConnectionHasAFiber());
    if (served.http.counts().idle_timeouts != 0) return false;
    {
      const RefuseFiberStarts refuse;
      EXPECT_TRUE(Reaches([&] { return served.server.counts().timed_out == 1; }));
      if (client.stream.WaitReadable(50ms) != std::errc::timed_out) return false;  // It was over before it was refused.
    }
    EXPECT_EQ(client.peer.Await(kGoAway).code(), kNoError);
    client.ExpectEnd();
    EXPECT_TRUE(Reaches([&] { return served.server.counts().open == 0; }));
    EXPECT_EQ(served.http.counts().idle_timeouts, 1u);
    EXPECT_EQ(served.server.counts().timed_out, 1u);
    return true;
  }));
}

// --- A writer that is still at work ---

// What TLS would be if the kernel took nothing.
class StuckStream {
 public:
  StuckStream(io::TcpConnection* connection, FiberEvent* may_write) : connection_(connection), may_write_(may_write) {}
  io::IoResult ReadRequest(void* data, std::size_t size, Deadline deadline) {
    return connection_->ReadRequest(data, size, deadline);
  }
  io::IoResult ReadSome(void* data, std::size_t size, Deadline deadline) {
    return connection_->stream().ReadSome(data, size, deadline);
  }
  std::error_code AwaitRequest(Deadline deadline) { return connection_->AwaitRequest(deadline); }
  std::error_code WaitReadable(Deadline deadline) { return connection_->stream().WaitReadable(deadline); }
  io::IoResult WriteSome(const void* data, std::size_t size, Deadline deadline) {
    if (!may_write_->Wait(deadline)) return {0, std::make_error_code(std::errc::timed_out)};
    return connection_->stream().WriteSome(data, size, deadline);
  }
  std::error_code ShutdownWrite(Deadline) { return connection_->stream().ShutdownWrite(); }
  io::TcpStream& transport() { return connection_->stream(); }

 private:
  io::TcpConnection* const connection_;
  FiberEvent* const may_write_;
};

TEST_P(Http2WaitingTest, AConnectionDoesNotWaitBeforeItsAnswerIsWritten) {
  struct Kept {
    Kept(io::TcpConnection* tcp, Http2Server* http, FiberEvent* may_write)
        : stream(tcp, may_write), connection(http, Http2Transport(stream, tcp)) {}
    StuckStream stream;
    Http2Connection connection;
  };
  FiberEvent may_write;
  may_write.Set();
  std::atomic<int> waits{0};
  Http2Server http(&AnswerPath);
  io::RequestHandler handler([&](io::TcpConnection& connection) {
    std::any& state = connection.state();
    if (!state.has_value()) state = std::make_shared<Kept>(&connection, &http, &may_write);
    const io::AfterRequest after = std::any_cast<std::shared_ptr<Kept>&>(state)->connection.Serve();
    waits += after == io::AfterRequest::kWaitForNext ? 1 : 0;
    return after;
  });
  handler.SetLongestWaits(60s, 60s);
  io::TcpServer server(Server::Listen(), std::move(handler));
  ASSERT_TRUE(server.Start());
  Client client(server);
  client.Ask("/");
  EXPECT_TRUE(Reaches([&] { return waits == 1; }));
  may_write.Reset();
  client.Send("/written_late");
  EXPECT_TRUE(Reaches([&] { return http.counts().requests == 2; }));
  EXPECT_EQ(client.stream.WaitReadable(350ms), std::errc::timed_out);
  EXPECT_EQ(waits, 1);
  may_write.Set();
  client.ExpectAnswer("/written_late");
  EXPECT_TRUE(Reaches([&] { return waits == 2; }));
}

// --- At the same time ---

// A request is served, or the client learns that it has not begun.
TEST_P(Http2WaitingTest, NoRequestIsLostWhereWaitsBeginAndEnd) {
  const std::chrono::milliseconds limits[] = {60'000ms, 150ms};
  for (const std::chrono::milliseconds idle_timeout : limits) {
    Server served(&AnswerPath, {.idle_timeout = idle_timeout});
    std::atomic<int> answered{0}, not_begun{0};
    std::atomic<bool> stopping{false};
    std::vector<Fiber> clients;
    for (unsigned seed = 1; seed <= 16; ++seed) {
      clients.emplace_back([&, seed] {
        std::minstd_rand random(seed);
        while (!stopping) {
          io::TcpStream stream;
          if (stream.Connect(served.server.local_address(), Soon())) continue;
          Http2Client client{Http2Transport(stream)};
          ASSERT_TRUE(client.Start());
          for (bool good = true; good && !stopping;) {
            const Http2Answer answer = client.Ask({.path = "/x", .authority = "x"}, {}, Soon());
            good = !answer.error;
            ++(good ? answered : not_begun);
            EXPECT_TRUE(good || answer.error == Http2Errc::kNotBegun) << answer.error.message();
            // About as long as a reader stays; and as a wait is.
            FiberSleepFor(std::chrono::microseconds(80'000 + random() % 100'000));
          }
          client.Close();
        }
      });
    }
    EXPECT_TRUE(Reaches([&] { return answered >= io::Scaled(150); }));
    stopping = true;
    served.server.Stop(Soon());
    for (Fiber& client : clients) client.Join();
    EXPECT_EQ(served.http.counts().requests, static_cast<std::uint64_t>(answered));
    EXPECT_EQ(served.http.counts().protocol_errors, 0u);
  }
}

// Whoever is about to wait, waits, or is woken when the deadline of Stop() passes.
TEST_P(Http2WaitingTest, StopAtAnyTimeLeavesNothing) {
  std::minstd_rand random(1);
  for (int round = 0; round < io::Scaled(8); ++round) {
    Server served([](Http2Request& request, Http2Response& response) {
      static_cast<void>(response.Send(200, {}, request.path()));  // The deadline of Stop() may end it.
    });
    std::vector<Fiber> clients;
    for (unsigned seed = 1; seed <= 24; ++seed) {
      clients.emplace_back([&, seed] {
        std::minstd_rand pauses(seed);
        io::TcpStream stream;
        if (stream.Connect(served.server.local_address(), Soon())) return;
        Http2Client client{Http2Transport(stream)};
        ASSERT_TRUE(client.Start());
        while (!client.Ask({.path = "/x", .authority = "x"}, {}, Soon()).error) {
          FiberSleepFor(std::chrono::microseconds(95'000 + pauses() % 15'000));
        }
        client.Close();
      });
    }
    EXPECT_TRUE(Reaches([&] { return served.http.counts().requests >= 24; }));
    FiberSleepFor(std::chrono::microseconds(90'000 + random() % 120'000));
    served.server.Stop(std::chrono::milliseconds(round % 2));
    EXPECT_EQ(served.server.counts().open, 0u);
    EXPECT_EQ(served.http.counts().handlers, 0u);
    for (Fiber& client : clients) client.Join();
  }
}

}  // namespace
}  // namespace weft::interop
