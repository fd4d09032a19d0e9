// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// http::Server: what becomes of the answers that handlers give, whole ones and broken ones, one by one and in batches.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "weft/fiber/this_fiber.h"
#include "weft/http/connection/begun_stream.h"
#include "weft/http/connection/http1_writer.h"
#include "weft/http/connection/http_date.h"
#include "weft/interop/http2_client.h"
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

void SayPath(Request& request, Response& response) { EXPECT_FALSE(response.Send(200, {}, request.path())); }

const std::string_view kSettings("\0\0\0\4\0\0\0\0\0", 9);  // A client's first frame.

class HttpAnswersTest : public io::IoTest {};
WEFT_INSTANTIATE_ONE_IO_SHAPE(HttpAnswersTest);

TEST_P(HttpAnswersTest, WritesAfterOneThatHasFailedTakeNothing) {
  InFiber([] {
    FiberEvent ended;
    ListeningServer served([&](Request&, Response& response) {
      EXPECT_FALSE(response.Start(200));
      const std::string piece(64 * 1024, 'x');
      IoResult put;
      do put = response.Write(piece, Deadline(1ms));
      while (put.ok());
      EXPECT_EQ(put.error, std::errc::timed_out);
      for (int i = 0; i < 3; ++i) {
        put = response.Write(piece, Soon());
        EXPECT_EQ(put.error, std::errc::broken_pipe);
        EXPECT_EQ(put.bytes, 0u);
      }
      EXPECT_EQ(response.Finish(), std::errc::broken_pipe);
      ended.Set();
    });
    Client client(served);
    client.Send(Get("/"));
    ASSERT_TRUE(ended.Wait(Soon()));
    EXPECT_TRUE(Reaches([&] { return served.http().counts().broken_off == 1; }));
  });
}

TEST_P(HttpAnswersTest, ABrokenAnswerTakesNoneOfItsBatchWithIt) {
  InFiber([] {
    ListeningServer served(
        [](Request& request, Response& response) {
          if (request.path() == "/2") {
            EXPECT_FALSE(response.Start(200, {{"content-length", "9"}}));
            response.Reset();
            EXPECT_EQ(response.Flush(Soon()), std::errc::broken_pipe);
            return;
          }
          SayPath(request, response);
        },
        {.batches_pipelined_answers = true});
    Client client(served);
    client.Send(Get("/1") + Get("/2"));
    const std::string all = client.Until("(the end)");
    EXPECT_TRUE(all.starts_with("HTTP/1.1 200 ") && all.ends_with("\r\n\r\n/1")) << all;
  });
}

TEST_P(HttpAnswersTest, ABatchGoesOutBeforeItWaitsForTheRestOfARequest) {
  InFiber([] {
    ListeningServer served(&SayPath, {.batches_pipelined_answers = true});
    for (const std::string_view next : {"G", "P"}) {  // One of them may be the beginning of HTTP/2.
      Client client(served);
      client.Send(Get("/1") + std::string(next));
      EXPECT_EQ(Client::BodyOf(client.Answer()), "/1") << next;
    }
  });
}

TEST_P(HttpAnswersTest, AClientThatHasFinishedGetsTheAnswersBeforeThatOfAHandlerThatWaits) {
  InFiber([] {
    FiberEvent begun;
    ListeningServer served(
        [&](Request& request, Response& response) {
          if (request.path() == "/2") {
            begun.Set();
            FiberSleepFor(1h);
          }
          SayPath(request, response);
        },
        {.batches_pipelined_answers = true});
    Client client(served);
    client.Send(Get("/1") + Get("/2"));
    ASSERT_TRUE(begun.Wait(Soon()));
    EXPECT_FALSE(client.stream().ShutdownWrite());
    EXPECT_EQ(Client::BodyOf(client.Answer()), "/1");
  });
}

// Writes of the peer that have come, if it waits after each of them (tcp_info::tcpi_data_segs_in of linux/tcp.h).
std::uint32_t SegmentsIn(Client& client) {
  char info[232];
  socklen_t size = sizeof(info);
  EXPECT_EQ(::getsockopt(client.stream().fd(), IPPROTO_TCP, TCP_INFO, info, &size), 0);
  std::uint32_t count = 0;
  std::memcpy(&count, info + 152, sizeof(count));
  return count;
}

TEST_P(HttpAnswersTest, FlushSendsTheAnswersBeforeAndTheHead) {
  InFiber([] {
    ListeningServer served(
        [](Request& request, Response& response) {
          const bool has_begun = request.path() == "/3";
          if (has_begun) static_cast<void>(response.Start(200, {{"content-length", "0"}}));
          if (has_begun || request.path() == "/2") static_cast<void>(response.Flush(Soon()));
          if (!has_begun) SayPath(request, response);
        },
        {.batches_pipelined_answers = true});
    for (const auto& [pipeline, answers, writes] :
         {std::tuple<std::string, int, unsigned>{Get("/1") + Get("/1") + Get("/1"), 3, 1},
          {Get("/1") + Get("/2") + Get("/1"), 3, 2},
          {Get("/1") + Get("/3") + Get("/1"), 3, 2}}) {
      Client client(served);
      client.Send(pipeline);
      for (int i = 0; i < answers; ++i) EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 200 "));
      EXPECT_EQ(SegmentsIn(client), writes) << pipeline;
    }
  });
}

// Of chunks that have come.
std::string BytesInChunks(std::string_view chunks) {
  std::string bytes;
  while (!chunks.empty()) {
    const std::size_t size = std::strtoull(std::string(chunks.substr(0, 20)).c_str(), nullptr, 16);
    const std::size_t begin = chunks.find("\r\n") + 2;
    bytes += chunks.substr(begin, size);
    EXPECT_EQ(chunks.substr(begin + size, 2), "\r\n");
    chunks.remove_prefix(begin + size + 2);
  }
  return bytes;
}

TEST_P(HttpAnswersTest, LargePiecesGoOutFromWhereTheyLie) {
  std::string text;
  for (int i = 0; text.size() < 300'000; ++i) text += std::to_string(i) + ' ';
  const Server::Handler handler = [&](Request& request, Response& response) {
    NoncontiguousBuffer body;
    for (std::size_t at = 0, size = 1; at < text.size(); at += size, size = size * 3 + 1) {
      body.Append(NoncontiguousBuffer(std::string_view(text).substr(at, size)));
    }
    const std::string length = std::to_string(text.size());
    if (request.path() == "/whole") return static_cast<void>(response.Send(200, {}, text, Soon()));
    EXPECT_FALSE(response.Start(200, request.path() == "/length" ? Fields{{"content-length", length}} : Fields{}));
    const IoResult put = request.query() == "blocks" ? response.Write(body, Soon()) : response.Write(text, Soon());
    EXPECT_TRUE(put.ok());
    EXPECT_EQ(put.bytes, text.size());
  };
  InFiber([&] {
    ListeningServer served(handler);
    Client client(served);
    for (const std::string_view target : {"/whole", "/length", "/length?blocks"}) {
      client.Send(Get(target));
      EXPECT_EQ(Client::BodyOf(client.Answer()), text) << target;
    }
    for (const std::string_view target : {"/chunks", "/chunks?blocks"}) {
      client.Send("HEAD " + std::string(target) + " HTTP/1.1\r\nHost: h\r\n\r\n" + Get(target));
      EXPECT_TRUE(client.Answer(/*has_body=*/false).starts_with("HTTP/1.1 200 "));
      EXPECT_TRUE(client.Answer(/*has_body=*/false).starts_with("HTTP/1.1 200 "));
      std::string chunks = client.Until("\r\n0\r\n\r\n");
      chunks.resize(chunks.size() - 5);
      EXPECT_EQ(BytesInChunks(chunks), text) << target;
    }
  });
}

TEST_P(HttpAnswersTest, ALongChunkIsOneWriteWithWhatIsAroundIt) {
  InFiber([] {
    const std::string piece(10'000, 'x');
    ListeningServer served([&](Request& request, Response& response) {
      EXPECT_FALSE(response.Start(200, {}));
      for (int i = 0; i < 2; ++i) EXPECT_EQ(response.Write(piece, Soon()).bytes, piece.size());
      EXPECT_FALSE(response.Finish({{"x-path", request.path()}}));
    });
    Client client(served);
    client.Send(Get("/1"));
    EXPECT_TRUE(client.Until("x-path: /1\r\n\r\n").ends_with("xx\r\n0\r\nx-path: /1\r\n\r\n"));
    EXPECT_EQ(SegmentsIn(client), 3u);
  });
}

TEST_P(HttpAnswersTest, ABodyIsReadBehindAnAnswerThatWasGivenUp) {
  InFiber([] {
    std::string body;
    FiberEvent begun, ended;
    ListeningServer served([&](Request& request, Response& response) {
      begun.Set();
      EXPECT_FALSE(response.Start(200));
      response.Reset();
      EXPECT_FALSE(request.ReadAll(&body, 100, Soon()));
      ended.Set();
    });
    Client client(served);
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n");
    ASSERT_TRUE(begun.Wait(Soon()));
    client.Send("body");
    ASSERT_TRUE(ended.Wait(Soon()));
    EXPECT_EQ(body, "body");
    EXPECT_TRUE(client.IsOver());
  });
}

TEST_P(HttpAnswersTest, Http2BeginsWithAConnectionOnly) {
  InFiber([] {
    for (const bool batches : {false, true}) {
      ListeningServer served(&SayPath, {.batches_pipelined_answers = batches});
      const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(kSettings);
      Client together(served);
      together.Send(Get("/1") + preface);
      EXPECT_EQ(Client::BodyOf(together.Answer()), "/1");
      EXPECT_TRUE(together.Answer().starts_with("HTTP/1.1 505 "));
      Client later(served);
      later.Send(Get("/1"));
      EXPECT_EQ(Client::BodyOf(later.Answer()), "/1");
      later.Send(preface);
      EXPECT_TRUE(later.Answer().starts_with("HTTP/1.1 505 "));
    }
  });
}

TEST_P(HttpAnswersTest, AnAnswerHasOneLengthAtMost) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      if (request.path() == "/204") return static_cast<void>(response.Send(204, {{"content-length", "5"}}, "hello"));
      EXPECT_EQ(response.Send(200, {{"content-length", "2"}, {"content-length", "200"}}, "ok"), Http2Errc::kBadField);
      EXPECT_FALSE(response.Start(200));
      EXPECT_EQ(response.Finish({{"content-length", "99"}}), Http2Errc::kBadField);
    });
    Client client(served);
    client.Send(Get("/204") + Get("/", "Connection: close\r\n"));
    const std::string all = client.Until("(the end)");
    EXPECT_EQ(all.find("content-length"), std::string::npos) << all;
    EXPECT_TRUE(all.ends_with("\r\n\r\n0\r\n\r\n")) << all;

    io::TcpStream stream = served.Connect();
    Http2Client http2{interop::Http2Transport(stream)};
    ASSERT_TRUE(http2.Start());
    const Http2Answer none = http2.Ask({.path = "/204", .authority = "h"}, {}, Soon());
    EXPECT_EQ(none.status, 204);
    EXPECT_FALSE(none.headers.Has("content-length"));
    EXPECT_EQ(http2.Ask({.path = "/", .authority = "h"}, {}, Soon()).status, 200);
  });
}

TEST_P(HttpAnswersTest, AnotherLengthThanWasSaidBreaksAnAnswerOfHttp2) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      if (request.path() == "/send") {
        EXPECT_EQ(response.Send(200, {{"content-length", "9"}}, "less"), Http2Errc::kWrongOrder);
        return;
      }
      EXPECT_FALSE(response.Start(200, {{"content-length", "4"}}));
      EXPECT_TRUE(response.Write(request.path() == "/less" ? "les" : "four", Soon()).ok());
      if (request.path() == "/more") {
        EXPECT_EQ(response.Write("more", Soon()).error, Http2Errc::kWrongOrder);
      } else if (request.path() == "/less") {
        EXPECT_EQ(response.Finish(), Http2Errc::kWrongOrder);
      }
    });
    io::TcpStream stream = served.Connect();
    Http2Client http2{interop::Http2Transport(stream)};
    ASSERT_TRUE(http2.Start());
    EXPECT_EQ(http2.Ask({.path = "/whole", .authority = "h"}, {}, Soon()).body, "four");
    EXPECT_EQ(http2.Ask({.method = "HEAD", .path = "/whole", .authority = "h"}, {}, Soon()).status, 200);
    for (const char* const path : {"/less", "/more", "/send"}) {
      EXPECT_TRUE(http2.Ask({.path = path, .authority = "h"}, {}, Soon()).error) << path;
    }
  });
}

TEST_P(HttpAnswersTest, AnAnswerOfHttp2ThatItsHandlerLeavesShortIsBroken) {
  InFiber([] {
    ListeningServer served([](Request&, Response& response) {
      EXPECT_FALSE(response.Start(200, {{"content-length", "4"}}));
      EXPECT_TRUE(response.Write("les", Soon()).ok());
    });
    Client client(served);                                    // Of its own: Http2Client would find out.
    const std::string_view fields = "\x82\x86\x84\x41\x01h";  // GET http://h/, by RFC 7541
    const std::string headers = std::string("\0\0\6\1\5\0\0\0\1", 9) + std::string(fields);
    client.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(kSettings) + headers);
    const std::string_view reset("\0\0\4\3\0\0\0\0\1", 9);  // RST_STREAM
    EXPECT_TRUE(client.Until(reset).ends_with(reset));
  });
}

TEST_P(HttpAnswersTest, AStatusThatIsNotFinalIsRefused) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      for (const int status : {-1, 0, 103, 199, 600}) {
        EXPECT_EQ(response.Start(status), Http2Errc::kBadField);
        EXPECT_EQ(response.Send(status, {}, ""), Http2Errc::kBadField);
      }
      SayPath(request, response);
    });
    Client client(served);
    client.Send(Get("/1"));
    EXPECT_EQ(Client::BodyOf(client.Answer()), "/1");
    io::TcpStream stream = served.Connect();
    Http2Client http2{interop::Http2Transport(stream)};
    ASSERT_TRUE(http2.Start());
    EXPECT_EQ(http2.Ask({.path = "/2", .authority = "h"}, {}, Soon()).body, "/2");
  });
}

TEST_P(HttpAnswersTest, AWholeAnswerThatWasSentIsNotBrokenOffByItsClientsEnd) {
  InFiber([] {
    FiberEvent ended;
    ListeningServer served([&](Request& request, Response& response) {
      SayPath(request, response);
      try {
        FiberSleepFor(1h);  // A line in the log, say.
      } catch (const FiberCancelled&) {
        ended.Set();
        throw;
      }
    });
    {
      Client client(served);
      client.Send(Get("/1"));
      EXPECT_EQ(Client::BodyOf(client.Answer()), "/1");
    }
    ASSERT_TRUE(ended.Wait(Soon()));
    EXPECT_TRUE(Reaches([&] { return served.server().counts().open == 0; }));
    EXPECT_EQ(served.http().counts().broken_off, 0u);
  });
}

TEST_P(HttpAnswersTest, WhatComesBeforeStartIsNoStart) {
  InFiber([] {
    ListeningServer served([](Request&, Response& response) {
      EXPECT_EQ(response.Write(NoncontiguousBuffer(), Soon()).error, Http2Errc::kWrongOrder);
      EXPECT_EQ(response.Write("", Soon()).error, Http2Errc::kWrongOrder);
      response.Reset();
      EXPECT_FALSE(response.started());
    });
    Client client(served);
    client.Send(Get("/"));
    EXPECT_TRUE(client.IsOver());
  });
}

TEST_P(HttpAnswersTest, AReadAfterARefusalDoesNotWaitForABodyThatNobodyAskedFor) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      EXPECT_FALSE(response.Start(404));
      char room[10];
      EXPECT_EQ(request.Read(room, sizeof(room), Soon()).error, Http2Errc::kWrongOrder);
    });
    Client client(served);
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    const std::string all = client.Until("0\r\n\r\n");
    EXPECT_TRUE(all.starts_with("HTTP/1.1 404 ") && all.ends_with("\r\n\r\n0\r\n\r\n")) << all;
  });
}

TEST_P(HttpAnswersTest, TheAuthorityOfHttp2MayBeInHost) {
  InFiber([] {
    ListeningServer served(
        [](Request& request, Response& response) { EXPECT_FALSE(response.Send(200, {}, request.authority())); });
    io::TcpStream stream = served.Connect();
    Http2Client http2{interop::Http2Transport(stream)};
    ASSERT_TRUE(http2.Start());
    EXPECT_EQ(http2.Ask({.path = "/", .headers = {{"host", "weft.example"}}}, {}, Soon()).body, "weft.example");
  });
}

// A handler may catch std::bad_alloc, or this, and end its answer.
TEST(Http1WriterTest, AnAnswerThatMemoryDidNotSufficeForIsBroken) {
  volatile std::size_t all = std::numeric_limits<std::ptrdiff_t>::max();
  for (const bool says_length : {false, true}) {
    Http1Writer writer;
    writer.Begin(/*head_only=*/false, 11);
    const std::string length = std::to_string(all);
    ASSERT_FALSE(writer.Start(200, says_length ? Fields{{"content-length", length}} : Fields{}, {}, false));
    EXPECT_THROW(static_cast<void>(writer.Put({"x", all})), std::length_error);
    EXPECT_TRUE(writer.broken());
    EXPECT_EQ(writer.End({}), Http2Errc::kWrongOrder);
  }
}

TEST(HttpDateTest, IsOfThisSecond) {
  const auto rendered = [] {
    const time_t now = ::time(nullptr);
    tm utc;
    ::gmtime_r(&now, &utc);
    char text[30];
    ::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
    return std::string(text);
  };
  std::string before, date, after;
  do {
    before = rendered();
    date = HttpDate::Now().text();
    after = rendered();
  } while (before != after || date != before);  // The coarse clock is late by a tick.
  EXPECT_EQ(date.size(), 29u);
}

}  // namespace
}  // namespace weft::http
