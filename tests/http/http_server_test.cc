// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// http::Server: what handlers see and what clients get, in both versions. Bad clients: http_bad_requests_test.cc.

#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>

#include "weft/fiber/this_fiber.h"
#include "weft/http/server.h"
#include "weft/interop/http2_client.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/http/http_fixture.h"

namespace weft::http {
namespace {

using namespace std::chrono_literals;
using interop::Http2Answer;
using interop::Http2Client;
using interop::Http2Errc;
using io::IoResult;
using io::Reaches;
using io::Soon;

void SayHello(Request&, Response& response) {
  EXPECT_FALSE(response.Send(200, {{"content-type", "text/plain"}}, "hello\n"));
}

// Piece by piece, with the request's trailers.
void Echo(Request& request, Response& response) {
  ASSERT_FALSE(response.Start(200, {{"x-method", request.method()}}));
  char piece[3000];
  for (;;) {
    const IoResult got = request.Read(piece, sizeof(piece), Soon());
    if (!got.ok()) return;
    if (got.bytes == 0) break;
    if (!response.Write(piece, got.bytes, Soon()).ok()) return;
  }
  EXPECT_FALSE(response.Finish(request.trailers()));
}

class HttpServerTest : public io::IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(HttpServerTest);

TEST_P(HttpServerTest, OneHandlerAnswersBothVersions) {
  InFiber([] {
    int version = 0;
    ListeningServer served([&](Request& request, Response& response) {
      version = request.version();
      EXPECT_STREQ(scheduling_group::CurrentFiber()->name(), version == 20 ? "http2 request" : "http connection");
      EXPECT_EQ(request.method(), "GET");
      EXPECT_EQ(request.target(), "/a?b=c");
      EXPECT_EQ(request.path(), "/a");
      EXPECT_EQ(request.query(), "b=c");
      EXPECT_EQ(request.authority(), "weft.example");
      EXPECT_EQ(request.scheme(), "http");
      EXPECT_EQ(request.headers().Find("x-asked"), "Yes");
      EXPECT_FALSE(request.draining());
      SayHello(request, response);
      EXPECT_TRUE(response.started());
      EXPECT_EQ(response.Finish(), Http2Errc::kWrongOrder);
      EXPECT_EQ(response.Write("x", Soon()).error, Http2Errc::kWrongOrder);
      EXPECT_EQ(response.Start(200), Http2Errc::kWrongOrder);
    });
    Client client(served);
    client.Send(Get("/a?b=c", "X-Asked: Yes\r\n"));
    const std::string answer = client.Answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_EQ(Client::BodyOf(answer), "hello\n");
    EXPECT_EQ(Client::Field(answer, "content-length"), "6");
    EXPECT_EQ(Client::Field(answer, "date").size(), 29u);
    EXPECT_EQ(Client::Field(answer, "connection"), "(none)");
    EXPECT_EQ(version, 11);

    io::TcpStream stream = served.Connect();
    Http2Client http2{interop::Http2Transport(stream)};
    ASSERT_TRUE(http2.Start());
    const Http2Answer second =
        http2.Ask({.path = "/a?b=c", .authority = "weft.example", .headers = {{"x-asked", "Yes"}}}, {}, Soon());
    EXPECT_EQ(second.status, 200) << second.error.message();
    EXPECT_EQ(second.body, "hello\n");
    EXPECT_EQ(second.headers.Find("date").size(), 29u);
    EXPECT_EQ(second.headers.Find("content-length"), "6");
    EXPECT_EQ(version, 20);
    EXPECT_EQ(served.http().counts().requests, 1u);
    EXPECT_EQ(served.http().counts().http2.requests, 1u);
  });
}

TEST_P(HttpServerTest, APrefaceMayComeInPieces) {
  InFiber([] {
    ListeningServer served(&SayHello);
    io::TcpStream stream = served.Connect();
    ASSERT_TRUE(stream.WriteAll("P", Soon()).ok());
    ASSERT_TRUE(Reaches([&] { return GetFiberCount() > kFibersAtRest; }));
    for (const std::string_view piece : {"RI * HT", "TP/2.0\r\n", "\r\nSM\r\n\r\n"}) {
      ASSERT_TRUE(stream.WriteAll(piece, Soon()).ok());
      FiberYield();
    }
    ASSERT_TRUE(stream.WriteAll(std::string_view("\0\0\0\4\0\0\0\0\0", 9), Soon()).ok());  // SETTINGS
    char head[9];
    ASSERT_TRUE(stream.ReadAll(head, sizeof(head), Soon()).ok());
    EXPECT_EQ(head[3], 4) << "the server's SETTINGS";
  });
}

TEST_P(HttpServerTest, AnswersToPipelinedRequestsComeInOrder) {
  InFiber([] {
    for (const bool batches : {false, true}) {
      ListeningServer served(
          [](Request& request, Response& response) { EXPECT_FALSE(response.Send(200, {}, request.path())); },
          {.batches_pipelined_answers = batches});
      Client client(served);
      client.Send(Get("/1") + Get("/2") + "\r\n" + Get("/3"));
      for (const std::string_view path : {"/1", "/2", "/3"}) EXPECT_EQ(Client::BodyOf(client.Answer()), path);
      client.Send(Get("/4", "Connection: close\r\n"));
      EXPECT_EQ(Client::Field(client.Answer(), "connection"), "close");
      EXPECT_TRUE(client.IsOver());
    }
  });
}

TEST_P(HttpServerTest, AConnectionThatWaitsHasNoFiber) {
  InFiber([] {
    ListeningServer served(&SayHello);
    Client client(served);
    for (int i = 0; i < 3; ++i) {
      client.Send(Get("/"));
      EXPECT_EQ(Client::BodyOf(client.Answer()), "hello\n");
      EXPECT_TRUE(Reaches([&] { return GetFiberCount() <= kFibersAtRest; }));
    }
  });
}

TEST_P(HttpServerTest, BodiesInChunksGoBothWays) {
  InFiber([] {
    ListeningServer served(&Echo);
    Client client(served);
    client.Send(
        "POST /e HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n"
        "X-Last: word\r\n\r\n");
    const std::string head = client.Until("\r\n\r\n");
    EXPECT_EQ(Client::Field(head, "transfer-encoding"), "chunked");
    EXPECT_EQ(Client::Field(head, "x-method"), "POST");
    const std::string body = client.Until("0\r\nx-last: word\r\n\r\n");
    EXPECT_TRUE(body == "7\r\nabcdefg\r\n0\r\nx-last: word\r\n\r\n" ||
                body == "3\r\nabc\r\n4\r\ndefg\r\n0\r\nx-last: word\r\n\r\n")
        << body;
    client.Send(Get("/"));  // The connection goes on.
    EXPECT_TRUE(client.Until("\r\n\r\n").starts_with("HTTP/1.1 200"));
  });
}

TEST_P(HttpServerTest, LargeBodiesGoBothWaysInOneConnection) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      std::string body;
      EXPECT_FALSE(request.ReadAll(&body, 1'000'000, Soon()));
      EXPECT_FALSE(response.Send(200, {}, body, Soon()));
    });
    Client client(served);
    const std::string body(1'000'000, 'x');
    for (int i = 0; i < 2; ++i) {
      const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
      client.Send(head + body);
      EXPECT_TRUE(Client::BodyOf(client.Answer()) == body);
    }
  });
}

TEST_P(HttpServerTest, AnEmptyPieceIsNoEnd) {
  InFiber([] {
    ListeningServer served([](Request&, Response& response) {
      EXPECT_FALSE(response.Start(200));
      EXPECT_TRUE(response.Write("", Soon()).ok());
      EXPECT_TRUE(response.Write(NoncontiguousBuffer("blocks"), Soon()).ok());
      EXPECT_FALSE(response.Finish());
    });
    Client client(served);
    client.Send(Get("/"));
    EXPECT_EQ(Client::BodyOf(client.Until("0\r\n\r\n")), "6\r\nblocks\r\n0\r\n\r\n");
  });
}

TEST_P(HttpServerTest, AClientThatExpectsContinueIsAskedForItsBody) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      if (request.path() == "/no") return static_cast<void>(response.Send(413, {}, ""));
      if (request.path() == "/echo") return Echo(request, response);
      std::string body;
      EXPECT_FALSE(request.ReadAll(&body, 100, Soon()));
      EXPECT_FALSE(response.Send(200, {}, body));
    });
    const auto asking = [](std::string_view path) {
      return "POST " + std::string(path) + " HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    };
    Client client(served);
    client.Send(asking("/all"));
    EXPECT_EQ(client.Until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.Send("body");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "body");
    client.Send(asking("/echo"));
    EXPECT_EQ(client.Until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.Send("body");
    EXPECT_TRUE(client.Until("0\r\n\r\n").ends_with("4\r\nbody\r\n0\r\n\r\n"));
    client.Send(asking("/no"));
    const std::string refused = client.Answer();
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 413 ")) << refused;
    EXPECT_EQ(Client::Field(refused, "connection"), "close");
  });
}

TEST_P(HttpServerTest, AClientOfHttp10GetsWhatItUnderstands) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      EXPECT_EQ(request.version(), 10);
      if (request.path() == "/known") return SayHello(request, response);
      EXPECT_FALSE(response.Start(200));
      EXPECT_TRUE(response.Write("no chunks", Soon()).ok());
    });
    Client client(served);
    client.Send("GET /known HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(Client::Field(client.Answer(), "connection"), "keep-alive");
    client.Send("GET /unknown HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(Client::Field(client.Until("\r\n\r\n"), "connection"), "close");
    EXPECT_EQ(client.Until("(the end)"), "no chunks");
  });
}

TEST_P(HttpServerTest, HeadAndNoContentHaveNoBody) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      if (request.path() == "/none") return static_cast<void>(response.Send(204, {}, "dropped"));
      SayHello(request, response);
    });
    Client client(served);
    client.Send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + Get("/none") + Get("/"));
    EXPECT_EQ(Client::Field(client.Answer(/*has_body=*/false), "content-length"), "6");
    const std::string none = client.Answer();
    EXPECT_TRUE(none.starts_with("HTTP/1.1 204 No Content\r\n"));
    EXPECT_EQ(Client::Field(none, "content-length"), "(none)");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "hello\n");
  });
}

TEST_P(HttpServerTest, WhatAHandlerLeavesUndoneIsDone) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      if (request.path() == "/nothing") return;
      if (request.path() == "/throws") throw std::runtime_error("the handler's own");
      EXPECT_EQ(response.Send(200, {{"Upper", "case"}}, ""), Http2Errc::kBadField);
      EXPECT_EQ(response.Send(200, {{"x", "two\r\nlines: 1"}}, ""), Http2Errc::kBadField);
      EXPECT_EQ(response.Send(200, {{"transfer-encoding", "chunked"}}, ""), Http2Errc::kBadField);
      EXPECT_EQ(response.Send(200, {{"content-length", "-1"}}, ""), Http2Errc::kBadField);
      EXPECT_FALSE(response.started());
      EXPECT_FALSE(response.Start(200));
      EXPECT_TRUE(response.Write("no finish", Soon()).ok());
    });
    Client client(served);
    client.Send(Get("/nothing") + Get("/throws") + Get("/bad"));
    EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 500 "));
    EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 500 "));
    EXPECT_TRUE(client.Until("0\r\n\r\n").ends_with("9\r\nno finish\r\n0\r\n\r\n"));
  });
}

TEST_P(HttpServerTest, AnAnswerThatIsNotWholeDoesNotLookAsIfItWere) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      if (request.path() == "/less") return static_cast<void>(response.Send(200, {{"content-length", "9"}}, "less"));
      if (request.path() == "/more") {
        EXPECT_FALSE(response.Start(200, {{"content-length", "2"}}));
        EXPECT_EQ(response.Write("more", Soon()).error, Http2Errc::kWrongOrder);
        return;
      }
      EXPECT_FALSE(response.Start(200));
      EXPECT_TRUE(response.Write("part", Soon()).ok());
      if (request.path() == "/throws") throw std::runtime_error("the handler's own");
      response.Reset();
    });
    for (const std::string_view path : {"/less", "/more", "/throws", "/resets"}) {
      Client client(served);
      client.Send(Get(path));
      const std::string all = client.Until("(the end)");
      EXPECT_EQ(all.find("0\r\n\r\n"), std::string::npos) << path << ": " << all;
      EXPECT_TRUE(path != "/less" || all.find("less") == std::string::npos) << all;
    }
    EXPECT_EQ(served.http().counts().broken_off, 4u);
    Client old(served);
    old.Send("GET /throws HTTP/1.0\r\n\r\n");
    char room[1000];
    IoResult got;
    do got = old.stream().ReadSome(room, sizeof(room), Soon());
    while (got.bytes != 0);
    EXPECT_EQ(got.error, std::errc::connection_reset) << "its regular end would say that this was all";
  });
}

TEST_P(HttpServerTest, ABodyThatNobodyReadsIsThrownAway) {
  InFiber([] {
    ListeningServer served(&SayHello);
    Client client(served);
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x') + Get("/"));
    EXPECT_EQ(Client::BodyOf(client.Answer()), "hello\n");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "hello\n");
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n" + std::string(300'000, 'x'));
    EXPECT_EQ(Client::BodyOf(client.Answer()), "hello\n");
    EXPECT_TRUE(client.IsOver());
  });
}

TEST_P(HttpServerTest, TheHeadersOfChunksThatNobodyReadsCountToo) {
  InFiber([] {
    ListeningServer served(&SayHello);
    Client client(served);
    std::string chunks;
    for (int i = 0; i < 300; ++i) chunks += "1;a=" + std::string(1'000, 'x') + "\r\ny\r\n";
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n" + Get("/"));
    EXPECT_EQ(Client::BodyOf(client.Answer()), "hello\n");
    EXPECT_TRUE(client.IsOver());
  });
}

TEST_P(HttpServerTest, AHandlerWhoseClientHasGoneIsCancelled) {
  InFiber([] {
    FiberEvent begun;
    FiberEvent ended;
    ListeningServer served([&](Request&, Response&) {
      begun.Set();
      try {
        FiberSleepFor(1h);
      } catch (const FiberCancelled&) {
        ended.Set();
        throw;
      }
    });
    {
      Client client(served);
      client.Send(Get("/"));
      ASSERT_TRUE(begun.Wait(Soon()));
    }
    EXPECT_TRUE(ended.Wait(Soon()));
  });
}

TEST_P(HttpServerTest, ADrainAnswersTheRequestThatHasBegun) {
  InFiber([] {
    FiberEvent begun;
    FiberEvent may_answer;
    ListeningServer served(
        [&](Request& request, Response& response) {
          begun.Set();
          may_answer.Wait();
          EXPECT_TRUE(request.draining());
          SayHello(request, response);
        },
        {}, {.first_request_at_stop = 0ms});
    Client idle(served);
    Client client(served);
    client.Send(Get("/"));
    ASSERT_TRUE(begun.Wait(Soon()));
    Fiber stop([&] { served.server().Stop(Soon()); });
    EXPECT_TRUE(idle.IsOver());  // The drain has begun.
    may_answer.Set();
    const std::string answer = client.Answer();
    EXPECT_EQ(Client::Field(answer, "connection"), "close");
    EXPECT_EQ(Client::BodyOf(answer), "hello\n");
    EXPECT_TRUE(client.IsOver());
    stop.Join();
  });
}

}  // namespace
}  // namespace weft::http
