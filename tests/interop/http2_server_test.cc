// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Server: what handlers see and what clients get. Bad clients: http2_limits_test.cc.

#include "weft/interop/http2_server.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/interop/http2_client.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/interop/http2_fixture.h"

#include "testing/test_bytes.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::IoResult;
using io::Soon;

void Echo(Http2Request& request, Http2Response& response) {
  ASSERT_FALSE(response.Start(200, {{"x-path", request.path()}}));
  char piece[3000];
  for (;;) {
    const IoResult got = request.Read(piece, sizeof(piece), Soon());
    if (!got.ok()) return;
    if (got.bytes == 0) break;
    if (!response.Write(piece, got.bytes, Soon()).ok()) return;
  }
  EXPECT_FALSE(response.Finish(request.trailers()));
}

Http2RequestHead To(std::string_view path, std::string_view method = "GET") {
  return {.method = method, .path = path, .authority = "weft.example"};
}

// A client of the connection, to be used in a fiber.
class Asked {
 public:
  explicit Asked(ServedConnection& served) : client_(Http2Transport(served.client())) { EXPECT_TRUE(client_.Start()); }
  Http2Client* operator->() { return &client_; }

 private:
  Http2Client client_;
};

class Http2ServerTest : public io::IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(Http2ServerTest);

TEST_P(Http2ServerTest, AnAnswerHasFieldsABodyAndTrailers) {
  InFiber([] {
    ServedConnection served([](Http2Request& request, Http2Response& response) {
      EXPECT_EQ(request.method(), "GET");
      EXPECT_EQ(request.path(), "/a?b=c");
      EXPECT_EQ(request.authority(), "weft.example");
      EXPECT_EQ(request.scheme(), "http");
      EXPECT_EQ(request.headers().Find("x-asked"), "yes");
      EXPECT_FALSE(response.Start(201, {{"content-type", "text/plain"}}));
      EXPECT_EQ(response.Write("hel", Soon()).bytes, 3u);
      EXPECT_EQ(response.Write("lo", Soon()).bytes, 2u);
      EXPECT_FALSE(response.Finish({{"x-sum", "5"}}));
      EXPECT_EQ(response.Finish(), Http2Errc::kWrongOrder);
      EXPECT_EQ(response.Write("x", Soon()).error, Http2Errc::kWrongOrder);
      EXPECT_EQ(response.Start(200), Http2Errc::kWrongOrder);
    });
    Asked client(served);
    const Http2Answer answer =
        client->Ask({.path = "/a?b=c", .authority = "weft.example", .headers = {{"x-asked", "yes"}}}, {}, Soon());
    EXPECT_FALSE(answer.error) << answer.error.message();
    EXPECT_EQ(answer.status, 201);
    EXPECT_EQ(answer.headers.Find("content-type"), "text/plain");
    EXPECT_EQ(answer.body, "hello");
    EXPECT_EQ(answer.trailers.Find("x-sum"), "5");
  });
}

TEST_P(Http2ServerTest, BodiesLargerThanAllWindowsGoBothWaysAtOnce) {
  InFiber([] {
    ServedConnection served(&Echo, {.stream_window = 5'000, .connection_window = 65'535, .send_buffer = 1'000});
    Asked client(served);
    const std::string body = testing::TestBytes(500'000, 0);
    const Http2Answer answer = client->Ask(To("/e", "POST"), body, Soon());
    EXPECT_FALSE(answer.error) << answer.error.message();
    EXPECT_TRUE(answer.body == body) << answer.body.size();
  });
}

TEST_P(Http2ServerTest, TrailersOfARequestAreThereAfterItsBody) {
  InFiber([] {
    ServedConnection served(&Echo);
    Asked client(served);
    Http2Call call;
    ASSERT_FALSE(client->Open(To("/t", "POST"), &call, Soon()));
    ASSERT_TRUE(call.Write("body", Soon()).ok());
    ASSERT_FALSE(call.Finish({{"x-last", "word"}}));
    ASSERT_FALSE(call.AwaitAnswer(Soon()));
    char room[16];
    std::string body;
    while (const std::size_t size = call.Read(room, sizeof(room), Soon()).bytes) body.append(room, size);
    EXPECT_EQ(body, "body");
    EXPECT_EQ(call.trailers().Find("x-last"), "word");
  });
}

TEST_P(Http2ServerTest, AClientMaySendNoMoreThanTheHandlerHasRead) {
  InFiber([] {
    FiberEvent may_read;
    ServedConnection served(
        [&](Http2Request& request, Http2Response& response) {
          may_read.Wait();
          std::string body;
          EXPECT_FALSE(request.ReadAll(&body, 65'535, Soon()));
          EXPECT_EQ(body.size(), 65'535u);
          EXPECT_FALSE(response.Send(200, {}, "ok"));
        },
        {.connection_window = 65'535});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1, /*end=*/false, "POST");
    for (int i = 0; i < 4; ++i) peer.SendFrame(kData, 0, 1, std::string(16'000, 'x'));
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kWindowUpdate) << frame.stream;
    may_read.Set();
    EXPECT_GE(peer.Await(kWindowUpdate, 1).number(), 16'000u);
    peer.SendFrame(kData, kEndStream, 1, std::string(1'535, 'x'));
    EXPECT_EQ(peer.Await(kData, 1, kEndStream).payload, "ok");
  });
}

// 20 bodies of 60,000 bytes through a connection window of 65,535.
TEST_P(Http2ServerTest, WhatAHandlerDoesNotReadGivesTheConnectionsWindowBack) {
  InFiber([] {
    ServedConnection served(
        [](Http2Request&, Http2Response& response) { EXPECT_FALSE(response.Send(200, {}, "enough")); },
        {.connection_window = 65'535});
    RawPeer peer(&served.client());
    peer.Greet();
    std::int64_t window = 65'535;
    const auto take = [&](const Frame& frame) {
      if (frame.type == kWindowUpdate && frame.stream == 0) window += frame.number();
    };
    for (std::uint32_t stream = 1; stream < 41; stream += 2) {
      peer.Ask(stream, /*end=*/false, "POST");
      std::size_t sent = 0;
      bool stopped = false;
      while (sent < 60'000 && !stopped) {
        if (window >= 6'000) {
          peer.SendFrame(kData, 0, stream, std::string(6'000, 'x'));
          window -= 6'000;
          sent += 6'000;
          continue;
        }
        const Frame frame = peer.Next();
        ASSERT_FALSE(frame.ended());
        take(frame);
        stopped = frame.type == kRstStream && frame.stream == stream;
      }
      while (!stopped) {
        const Frame frame = peer.Next();
        ASSERT_FALSE(frame.ended());
        take(frame);
        stopped = frame.type == kRstStream && frame.stream == stream;
        if (stopped) {
          EXPECT_EQ(frame.code(), kNoError);
        }
      }
    }
    for (const Frame& frame : peer.UntilPingAnswer()) take(frame);
    EXPECT_GE(window, 65'535 / 2);  // nghttp2 gives it back by halves.
  });
}

TEST_P(Http2ServerTest, AnEarlyAnswerComesWholeBeforeTheClientIsToldToStop) {
  InFiber([] {
    const std::string text = testing::TestBytes(100'000, 0);
    ServedConnection served(
        [&](Http2Request&, Http2Response& response) { EXPECT_FALSE(response.Send(413, {}, text, Soon())); });
    Asked client(served);
    const Http2Answer answer = client->Ask(To("/", "POST"), testing::TestBytes(1'000'000, 0), Soon());
    EXPECT_FALSE(answer.error) << answer.error.message();
    EXPECT_EQ(answer.status, 413);
    EXPECT_TRUE(answer.body == text);
  });
}

TEST_P(Http2ServerTest, AnUploadIsStoppedAfterTheEndOfTheAnswer) {
  InFiber([] {
    FiberEvent returns;
    ServedConnection served(
        [&](Http2Request&, Http2Response& response) {
          EXPECT_FALSE(response.Send(413, {}, testing::TestBytes(70'000, 0), Soon()));
          returns.Set();
        },
        {.send_buffer = 100'000});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1, /*end=*/false, "POST");
    for (std::size_t got = 0; got < 65'535;) {
      const Frame frame = peer.Await(kData, 1);
      ASSERT_FALSE(frame.ended());
      got += frame.payload.size();
    }
    returns.Wait();
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kRstStream);
    peer.SendFrame(kWindowUpdate, 0, 0, Number32(100'000));
    peer.SendFrame(kWindowUpdate, 0, 1, Number32(100'000));
    static_cast<void>(peer.Await(kData, 1, kEndStream));
    EXPECT_EQ(peer.Await(kRstStream, 1).code(), 0u);  // NO_ERROR
    for (const Frame& frame : peer.passed()) EXPECT_NE(frame.type, kRstStream);
  });
}

TEST_P(Http2ServerTest, AnAnswerWaitsForTheClientsWindow) {
  InFiber([] {
    FiberEvent was_late, wrote;
    ServedConnection served(
        [&](Http2Request&, Http2Response& response) {
          EXPECT_FALSE(response.Start(200));
          EXPECT_EQ(response.Write(testing::TestBytes(70'000, 0), Soon()).bytes, 70'000u);
          EXPECT_EQ(response.Write(testing::TestBytes(20'000, 0), 10ms).error, std::errc::timed_out);
          was_late.Set();
          const IoResult put = response.Write(testing::TestBytes(20'000, 0), Soon());
          EXPECT_EQ(put.bytes, 20'000u) << put.error.message();
          wrote.Set();
        },
        {.send_buffer = 10'000});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1);
    std::size_t got = 0;
    while (got < 65'535) {
      const Frame frame = peer.Await(kData, 1);
      ASSERT_FALSE(frame.ended());
      got += frame.payload.size();
    }
    EXPECT_EQ(got, 65'535u);
    was_late.Wait();
    static_cast<void>(peer.UntilPingAnswer());
    EXPECT_FALSE(wrote.IsSet());
    peer.SendFrame(kWindowUpdate, 0, 0, Number32(100'000));
    peer.SendFrame(kWindowUpdate, 0, 1, Number32(100'000));
    wrote.Wait();
    EXPECT_EQ(peer.Await(kRstStream, 1).code(), kInternalError);  // One of the writes was cut short.
  });
}

TEST_P(Http2ServerTest, AResetCancelsTheHandler) {
  InFiber([] {
    FiberEvent never;
    FiberLatch began(2), cancelled(2);
    ServedConnection served([&](Http2Request& request, Http2Response& response) {
      began.CountDown();
      if (request.path() == "/waits") {
        try {
          never.Wait();
        } catch (const FiberCancelled&) {
          cancelled.CountDown();
          throw;
        }
      }
      char room[16];
      const IoResult got = request.Read(room, sizeof(room), Soon());
      EXPECT_TRUE(got.error == Http2Errc::kStreamReset || got.error == std::errc::operation_canceled);
      EXPECT_EQ(response.Start(200), Http2Errc::kStreamReset);
      cancelled.CountDown();
    });
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1, true, "GET", "/waits");
    peer.Ask(3, false, "POST", "/reads");
    began.Wait();
    peer.SendFrame(kRstStream, 0, 1, Number32(kCancel));
    peer.SendFrame(kRstStream, 0, 3, Number32(kNoError));
    EXPECT_TRUE(cancelled.Wait(Soon()));
    static_cast<void>(peer.UntilPingAnswer());  // The connection goes on.
    EXPECT_EQ(served.server().counts().reset, 2u);
  });
}

TEST_P(Http2ServerTest, TheEndOfTheConnectionEndsEveryWaitOfHandlers) {
  InFiber([] {
    FiberEvent never;
    FiberLatch began(3), ended(3);
    ServedConnection served([&](Http2Request& request, Http2Response& response) {
      if (request.path() == "/writes") {
        EXPECT_FALSE(response.Start(200));  // While there is a connection.
      }
      began.CountDown();
      char room[16];
      if (request.path() == "/reads") {
        EXPECT_FALSE(request.Read(room, sizeof(room)).ok());
      } else if (request.path() == "/writes") {
        EXPECT_FALSE(response.Write(testing::TestBytes(200'000, 0)).ok());
      } else {
        static_cast<void>(MoveOnAfter(Soon(), [&] { EXPECT_THROW(never.Wait(), FiberCancelled); }));
      }
      ended.CountDown();
    });
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1, false, "POST", "/reads");
    peer.Ask(3, true, "GET", "/writes");
    peer.Ask(5, true, "GET", "/waits");
    began.Wait();
    EXPECT_FALSE(peer.stream().ShutdownWrite());
    EXPECT_EQ(served.Join(), Http2Errc::kConnectionLost);
    EXPECT_TRUE(ended.TryWait());  // Nothing outlives Serve().
  });
}

// A client that had its answer and closed was taken for one that is lost, if the handler had not returned by then.
TEST_P(Http2ServerTest, AClientThatClosesAfterItsAnswerIsNotLost) {
  InFiber([] {
    FiberEvent may_return;
    ServedConnection served([&](Http2Request&, Http2Response& response) {
      EXPECT_FALSE(response.Send(200, {}, "answer"));
      may_return.Wait();
    });
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1);
    static_cast<void>(peer.Await(kData, 1, kEndStream));
    EXPECT_FALSE(peer.stream().ShutdownWrite());
    peer.AwaitEnd();  // Serve() has read the end.
    may_return.Set();
    EXPECT_FALSE(served.Join());
  });
}

TEST_P(Http2ServerTest, HandlersThatThrowOrSayNothingAnswer500) {
  InFiber([] {
    ServedConnection served([](Http2Request& request, Http2Response& response) {
      if (request.path() == "/silent") return;
      if (request.path() == "/late") {
        EXPECT_FALSE(response.Start(200));
        EXPECT_TRUE(response.Write("part", Soon()).ok());
      }
      if (request.path() == "/odd") throw 5;
      throw std::runtime_error("as it should");
    });
    Asked client(served);
    EXPECT_EQ(client->Ask(To("/silent"), {}, Soon()).status, 500);
    EXPECT_EQ(client->Ask(To("/throws"), {}, Soon()).status, 500);
    EXPECT_EQ(client->Ask(To("/odd"), {}, Soon()).status, 500);
    EXPECT_EQ(client->Ask(To("/late"), {}, Soon()).error, Http2Errc::kStreamReset);
  });
}

TEST_P(Http2ServerTest, AHandlerThatForgetsFinishHasAnsweredNevertheless) {
  InFiber([] {
    ServedConnection served([](Http2Request&, Http2Response& response) {
      EXPECT_FALSE(response.Start(200));
      EXPECT_TRUE(response.Write("all", Soon()).ok());
    });
    Asked client(served);
    const Http2Answer answer = client->Ask(To("/"), {}, Soon());
    EXPECT_FALSE(answer.error);
    EXPECT_EQ(answer.body, "all");
  });
}

TEST_P(Http2ServerTest, AHeadRequestAndA204GetNoBody) {
  InFiber([] {
    ServedConnection served([](Http2Request& request, Http2Response& response) {
      if (request.path() == "/pieces") {
        EXPECT_FALSE(response.Start(200));
        EXPECT_EQ(response.Write("dropped", Soon()).bytes, 7u);
        EXPECT_FALSE(response.Finish());
        return;
      }
      EXPECT_FALSE(response.Send(request.path() == "/none" ? 204 : 200, {}, "dropped"));
    });
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1, true, "HEAD", "/");
    EXPECT_EQ(peer.Await(kHeaders, 1).flags, kEndHeaders | kEndStream);
    peer.Ask(3, true, "GET", "/none");
    EXPECT_EQ(peer.Await(kHeaders, 3).flags, kEndHeaders | kEndStream);
    peer.Ask(5, true, "HEAD", "/pieces");
    EXPECT_EQ(peer.Await(kHeaders, 5).flags, kEndHeaders | kEndStream);
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kData);
  });
}

TEST_P(Http2ServerTest, FieldsThatWouldBreakTheMessageAreNotSent) {
  InFiber([] {
    ServedConnection served([](Http2Request&, Http2Response& response) {
      const std::vector<Http2Headers> bad{{{"x-a", "b\r\nset-cookie: c"}},
                                          {{"X-Upper", "a"}},
                                          {{"", "a"}},
                                          {{"x b", "a"}},
                                          {{":status", "200"}},
                                          {{"x-a", " b"}},
                                          {{"connection", "close"}},
                                          {{"te", "gzip"}},
                                          {{"x-a", {"\0", 1}}},
                                          {{"transfer-encoding", "chunked"}}};
      for (const Http2Headers& headers : bad) EXPECT_EQ(response.Start(200, headers), Http2Errc::kBadField);
      EXPECT_FALSE(response.Start(200, {{"te", "trailers"}, {"x-a", "b c"}, {"x-empty", ""}}));
      EXPECT_EQ(response.Finish({{"x-a", "b\n"}}), Http2Errc::kBadField);
      EXPECT_EQ(response.Finish({{":x", "b"}}), Http2Errc::kBadField);
      EXPECT_FALSE(response.Finish());
    });
    Asked client(served);
    const Http2Answer answer = client->Ask(To("/"), {}, Soon());
    EXPECT_FALSE(answer.error) << answer.error.message();
    EXPECT_EQ(answer.headers.size(), 4u);  // With the status.
  });
}

// RFC 9113, 8.3.1.
TEST_P(Http2ServerTest, AHostThatDiffersFromTheAuthorityMakesARequestMalformed) {
  struct Case {
    const char* scheme;
    const char* authority;  // nullptr: none
    const char* host;
    bool good;
  };
  const std::vector<Case> cases{
      {"http", "a.example", "a.example", true},
      {"http", "a.example", "A.Example", true},
      {"http", "a:80", "a", true},
      {"http", "a", "a:", true},
      {"https", "a", "a:443", true},
      {"http", "[::1]:80", "[::1]", true},
      {"http", "a:81", "a:81", true},
      {"http", nullptr, "b", true},
      {"http", "a", "b", false},
      {"http", "a", "a.example", false},
      {"http", "a:81", "a", false},
      {"http", "a", "a:443", false},
      {"https", "a:80", "a", false},
      {"http", "a", "", false},
      {"http", "[::1]:80", "[::1:80]", false},
      {"http", "a", "ab", false},
  };
  InFiber([&] {
    std::atomic<int> handled{0};
    ServedConnection served([&](Http2Request&, Http2Response& response) {
      ++handled;
      EXPECT_FALSE(response.Send(200, {}, {}));
    });
    RawPeer peer(&served.client());
    peer.Greet();
    std::uint32_t stream = 1;
    std::uint64_t bad = 0;
    for (const Case& c : cases) {
      std::string fields = Literal(":method", "GET") + Literal(":scheme", c.scheme) + Literal(":path", "/");
      if (c.authority != nullptr) fields += Literal(":authority", c.authority);
      peer.SendFrame(kHeaders, kEndHeaders | kEndStream, stream,
                     fields + Literal("x-other", "a") + Literal("host", c.host));
      Frame answer;
      do {
        answer = peer.Next();
      } while (!answer.ended() && (answer.stream != stream || (answer.type != kHeaders && answer.type != kRstStream)));
      EXPECT_EQ(answer.type, c.good ? kHeaders : kRstStream) << (c.authority ? c.authority : "none") << ' ' << c.host;
      if (!c.good) {
        EXPECT_EQ(answer.code(), kProtocolError);
        EXPECT_EQ(served.server().counts().reset, ++bad);
      }
      stream += 2;
    }
    EXPECT_EQ(handled, 8);  // Others have not come to a handler; the connection goes on.
  });
}

TEST_P(Http2ServerTest, ServingEndsWithTheFibersScope) {
  InFiber([] {
    io::Pair pair = io::ConnectedPair();
    FiberEvent began, never;
    Http2Server server([&](Http2Request&, Http2Response&) {
      began.Set();
      never.Wait();
    });
    CancelScope scope;
    Fiber serving([&] { static_cast<void>(scope.Run([&] { (void)server.Serve(Http2Transport(pair.server)); })); });
    RawPeer peer(&pair.client);
    peer.Greet();
    peer.Ask(1);
    began.Wait();
    scope.Cancel();
    EXPECT_EQ(peer.Await(kGoAway).code(), kCancel);
    static_cast<void>(pair.client.Shutdown());
    serving.Join();
  });
}

TEST_P(Http2ServerTest, ADrainAnswersWhatHasBegunAndSaysWhatHasNot) {
  InFiber([] {
    FiberEvent began, may_answer;
    Http2Server http([&](Http2Request& request, Http2Response& response) {
      if (request.path() == "/slow") {
        began.Set();
        may_answer.Wait();
      }
      EXPECT_FALSE(response.Send(200, {}, "answer"));
    });
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
    io::TcpServer server(std::move(listener),
                         [&](io::TcpConnection& connection) { EXPECT_FALSE(http.Serve(Http2Transport(connection))); });
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    RawPeer peer(&stream);
    peer.Greet();
    peer.Ask(1, true, "GET", "/slow");
    began.Wait();
    Fiber stops([&] { server.Stop(Soon()); });
    EXPECT_EQ(peer.Await(kGoAway).number(), 0x7fff'ffffu);
    const Frame ping = peer.Await(kPing);
    peer.Ask(3);  // It has crossed the GOAWAY.
    EXPECT_EQ(peer.Await(kData, 3, kEndStream).payload, "answer");
    peer.SendFrame(kPing, kAck, 0, ping.payload);
    const Frame last = peer.Await(kGoAway);
    EXPECT_EQ(last.number(), 3u);
    EXPECT_EQ(last.code(), kNoError);
    peer.Ask(5);                                // Too late: nobody answers.
    static_cast<void>(peer.UntilPingAnswer());  // It has been read: the server waits for more.
    const auto answered = std::chrono::steady_clock::now();
    may_answer.Set();
    EXPECT_EQ(peer.Await(kData, 1, kEndStream).payload, "answer");
    for (Frame frame = peer.Next(); !frame.ended(); frame = peer.Next()) EXPECT_NE(frame.stream, 5u);
    EXPECT_LT(std::chrono::steady_clock::now() - answered, io::kBeforeSoon);  // Not after a time-out.
    stream.Close();
    stops.Join();
    EXPECT_EQ(http.counts().requests, 2u);
  });
}

TEST_P(Http2ServerTest, TheEndOfADrainCancelsHandlers) {
  InFiber([] {
    FiberEvent began, never;
    Http2Server http([&](Http2Request&, Http2Response&) {
      began.Set();
      never.Wait();
    });
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
    io::TcpServer server(std::move(listener),
                         [&](io::TcpConnection& connection) { (void)http.Serve(Http2Transport(connection)); });
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    RawPeer peer(&stream);
    peer.Greet();
    peer.Ask(1);
    began.Wait();
    server.Stop(1ms);
    EXPECT_EQ(server.counts().open, 0u);
  });
}

// A handler could not: all causes cancelled it alike.
TEST_P(Http2ServerTest, AHandlerCanTellADrainFromAClientThatHasGone) {
  InFiber([] {
    struct Seen {
      FiberEvent began, looks, looked, ended;
      bool at_the_beginning = true, on_request = false, when_cancelled = false;
    };
    FiberEvent never;
    Seen resets, leaves, stays;
    resets.when_cancelled = leaves.when_cancelled = true;
    Http2Server http([&](Http2Request& request, Http2Response&) {
      Seen& seen = request.path() == "/resets" ? resets : request.path() == "/leaves" ? leaves : stays;
      seen.at_the_beginning = request.draining();
      seen.began.Set();
      try {
        seen.looks.Wait();
        seen.on_request = request.draining();
        seen.looked.Set();
        never.Wait();
      } catch (const FiberCancelled&) {
        seen.when_cancelled = request.draining();
        seen.ended.Set();
        throw;
      }
    });
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
    io::TcpServer server(std::move(listener),
                         [&](io::TcpConnection& connection) { (void)http.Serve(Http2Transport(connection)); });
    ASSERT_TRUE(server.Start());
    io::TcpStream leaver, stayer;
    ASSERT_FALSE(leaver.Connect(server.local_address(), Soon()));
    ASSERT_FALSE(stayer.Connect(server.local_address(), Soon()));
    RawPeer leaving(&leaver), staying(&stayer);
    leaving.Greet();
    staying.Greet();
    staying.Ask(1, true, "GET", "/resets");
    resets.began.Wait();
    staying.SendFrame(kRstStream, 0, 1, Number32(kCancel));
    EXPECT_TRUE(resets.ended.Wait(Soon()));
    leaving.Ask(1, true, "GET", "/leaves");
    leaves.began.Wait();
    leaver.Close();
    EXPECT_TRUE(leaves.ended.Wait(Soon()));
    staying.Ask(3, true, "GET", "/stays");
    stays.began.Wait();

    CancelScope patient;
    Fiber stops([&] { static_cast<void>(patient.Run([&] { server.Stop(); })); });
    static_cast<void>(staying.Await(kGoAway));
    stays.looks.Set();
    EXPECT_TRUE(stays.looked.Wait(Soon()));
    patient.Cancel();
    stops.Join();
    server.Stop(1ms);
    EXPECT_TRUE(stays.ended.IsSet());
    for (const Seen* seen : {&resets, &leaves, &stays}) EXPECT_FALSE(seen->at_the_beginning);
    EXPECT_FALSE(resets.when_cancelled);
    EXPECT_FALSE(leaves.when_cancelled);
    EXPECT_TRUE(stays.on_request) << "before the deadline";
    EXPECT_TRUE(stays.when_cancelled);
  });
}

}  // namespace
}  // namespace weft::interop
