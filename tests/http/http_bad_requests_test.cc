// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// http::Server: clients of HTTP/1 that break its rules, or take too long. Of HTTP/2: interop/http2_limits_test.cc.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/http/connection/http1_parser.h"
#include "weft/interop/http2_error.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/http/http_fixture.h"

namespace weft::http {
namespace {

using namespace std::chrono_literals;
using interop::Http2Errc;
using io::Soon;

using Step = Http1Parser::Step;

void Fail(Request& request, Response&) { ADD_FAILURE() << "this came to the handler: " << request.target(); }

// A parser that gets a request piece by piece.
class FedParser {
 public:
  explicit FedParser(std::uint32_t max_header = 16 * 1024) : parser_(max_header, &request) {}

  Step Put(std::string_view bytes) {
    const auto room = input.prepare(bytes.size());
    bytes.copy(static_cast<char*>(room.data()), bytes.size());
    input.commit(bytes.size());
    Step step = parser_.ParseHeader(&input);
    while (step == Step::kDone && !parser_.has_ended()) {
      char part[7];
      std::size_t got = 0;
      step = parser_.ParseBody(&input, part, &got);
      body.append(part, got);
    }
    return step;
  }
  // In two pieces.
  Step Put(std::string_view bytes, std::size_t first) {
    const Step step = Put(bytes.substr(0, first));
    return step == Step::kRefused ? step : Put(bytes.substr(first));
  }
  const Http1Parser& parser() const { return parser_; }

  Http1Request request;
  boost::beast::flat_buffer input;
  std::string body;

 private:
  Http1Parser parser_;
};

constexpr std::string_view kChunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

class HttpBadRequestsTest : public io::IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(HttpBadRequestsTest);

TEST_P(HttpBadRequestsTest, AreAnsweredAndEndTheConnection) {
  const std::string host = "Host: h\r\n";
  const std::string large(20'000, 'x');
  const struct {
    std::string sent;
    std::string_view status;
  } kCases[] = {
      {"no request\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},                                    // no Host
      {"GET / HTTP/1.1\r\n" + host + host + "\r\n", "400"},                 // two
      {"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", "400"},                       // two in one
      {"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "400"},                   // in two lines
      {"GET path HTTP/1.1\r\n" + host + "\r\n", "400"},                     // none of the forms of a target
      {"GET * HTTP/1.1\r\n" + host + "\r\n", "400"},                        // which is for OPTIONS
      {"GET http:///x HTTP/1.1\r\n" + host + "\r\n", "400"},                // no host in it
      {"GET / HTTP/1.1\r\n" + host + "Bad Name: x\r\n\r\n", "400"},         //
      {"GET / HTTP/1.1\r\n" + host + "No-Value\r\n\r\n", "400"},            //
      {"GET / HTTP/2.0\r\n" + host + "\r\n", "505"},                        //
      {"CONNECT h:80 HTTP/1.1\r\n" + host + "\r\n", "501"},                 //
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: x\r\n\r\n", "400"},  //
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", "501"},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\n" + host + "Expect: miracles\r\n\r\n", "417"},
      {"GET /" + large + " HTTP/1.1\r\n" + host + "\r\n", "414"},
      {"GET / HTTP/1.1\r\n" + host + "X: " + large + "\r\n\r\n", "431"},
      {"GET / HTTP/1.1\r\n" + host + "X: y\r\n" + "Half", "400"},  // the client has finished
      {"P", "400"},                                                // it has, too; it might have been HTTP/2
  };
  InFiber([&] {
    ListeningServer served(&Fail);
    for (const auto& [sent, status] : kCases) {
      Client client(served);
      client.Send(sent);
      EXPECT_TRUE(!(sent.ends_with("Half") || sent == "P") || !client.stream().ShutdownWrite());
      const std::string answer = client.Answer();
      EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::string(status) + ' ')) << sent.substr(0, 100) << answer;
      EXPECT_EQ(Client::Field(answer, "connection"), "close");
      EXPECT_TRUE(client.IsOver());
    }
    EXPECT_EQ(served.http().counts().refused, std::size(kCases));
    EXPECT_EQ(served.http().counts().too_large, 2u);
    EXPECT_EQ(served.http().counts().requests, 0u);
  });
}

// Beast's limit is for what it gets at once, for the line and for each field.
TEST(Http1ParserTest, AHeaderHasTheSameLimitInPiecesAndAtOnce) {
  FedParser pieces(1'000);
  ASSERT_EQ(pieces.Put("GET / HTTP/1.1\r\nHost: h\r\n"), Step::kNeedsMore);
  int count = 0;
  while (count < 100 && pieces.Put("X: 0123456789\r\n") == Step::kNeedsMore) ++count;
  EXPECT_LT(count, 1'000 / 15);
  EXPECT_EQ(pieces.parser().status(), 431);
  FedParser at_once(1'000);
  EXPECT_EQ(at_once.Put(Get("/" + std::string(800, 'p'), "X: " + std::string(700, 'x') + "\r\n")), Step::kRefused);
  EXPECT_EQ(at_once.parser().status(), 431);
  FedParser small(1'000);
  std::string fields;
  for (int i = 0; i < 100; ++i) fields += "X:\r\n";
  EXPECT_EQ(small.Put(Get("/", fields)), Step::kRefused) << "a field counts for its memory, too";
  EXPECT_EQ(small.parser().status(), 431);
}

TEST(Http1ParserTest, PiecesMayEndAnywhere) {
  for (const std::string& request :
       {"\r\nGET /1 HTTP/1.7\r\nHost: h\r\n\r\n" + std::string(),
        std::string(kChunked) + "2;a=\"b\\\"c\"\t; d\r\nok\r\n01\r\n!\r\n0;x\r\nA: b\r\n\r\n"}) {
    for (std::size_t first = 1; first < request.size(); ++first) {
      FedParser parser;
      EXPECT_EQ(parser.Put(request, first), Step::kDone) << first << request;
      EXPECT_EQ(parser.body, request.starts_with("P") ? "ok!" : "");
      EXPECT_EQ(parser.input.size(), 0u);
    }
    FedParser by_byte;
    for (std::size_t i = 0; i < request.size(); ++i) {
      EXPECT_EQ(by_byte.Put(request.substr(i, 1)), i + 1 < request.size() ? Step::kNeedsMore : Step::kDone) << i;
    }
  }
}

TEST(Http1ParserTest, AnotherVersionIsToldInPiecesToo) {
  const std::string_view request = "GET /1 HTTP/2.0\r\nHost: h\r\n\r\n";
  for (std::size_t first = 1; first < request.size(); ++first) {
    FedParser parser;
    EXPECT_EQ(parser.Put(request, first), Step::kRefused);
    EXPECT_EQ(parser.parser().status(), 505) << first;
  }
}

TEST(Http1ParserTest, AChunksHeaderHasNoControls) {
  for (const std::string_view header : {"2;a=\"\nxx\"\r\n", "2;a=\"\x01\"\r\n", "2;a=\"\x7f\"\r\n", "0;a=\"\x01\"\r\n",
                                        "2;a=\"\r\n", "2\n", "2\r\r\n"}) {
    FedParser parser;
    EXPECT_EQ(parser.Put(std::string(kChunked) + std::string(header)), Step::kRefused)
        << ::testing::PrintToString(header);
    EXPECT_EQ(parser.parser().status(), 400);
  }
}

TEST(Http1ParserTest, AChunksHeaderHasALimit) {
  for (const std::string_view end : {"", "\r\nx\r\n"}) {  // It comes in pieces, or at once.
    FedParser parser;
    EXPECT_EQ(parser.Put(std::string(kChunked) + "1;" + std::string(3'000, 'x')), Step::kNeedsMore);
    EXPECT_EQ(parser.Put(std::string(2'000, 'x') + std::string(end)), Step::kRefused);
    EXPECT_EQ(parser.parser().status(), 400);
  }
  FedParser fits;
  EXPECT_EQ(fits.Put(std::string(kChunked) + "1;" + std::string(3'000, 'x') + "\r\nx\r\n0\r\n\r\n"), Step::kDone);
}

TEST(Http1ParserTest, TrailersMayHaveWhatTheirLimitSays) {
  for (const std::size_t size : {300'000, 600'000}) {
    FedParser parser(500'000);
    const std::string trailers = "0\r\nX: " + std::string(size, 'y') + "\r\n\r\n";
    const bool fits = size == 300'000;
    EXPECT_EQ(parser.Put(std::string(kChunked) + trailers, kChunked.size() + size - 100),
              fits ? Step::kDone : Step::kRefused);
    EXPECT_EQ(parser.parser().status(), fits ? 0 : 431);
  }
}

TEST(Http1ParserTest, CloseWinsOverKeepAliveInHttp10) {
  FedParser kept;
  ASSERT_EQ(kept.Put("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), Step::kDone);
  EXPECT_TRUE(kept.parser().keep_alive());
  FedParser closed;
  ASSERT_EQ(closed.Put("GET / HTTP/1.0\r\nConnection: keep-alive, Close\r\n\r\n"), Step::kDone);
  EXPECT_FALSE(closed.parser().keep_alive());
}

TEST_P(HttpBadRequestsTest, ALaterMinorVersionIsTakenForOurs) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      EXPECT_EQ(request.version(), 11);
      EXPECT_FALSE(response.Send(200, {}, "ok"));
    });
    Client client(served);
    client.Send("GET / HTTP/1.7\r\nHost: h\r\n\r\n");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "ok");
  });
}

TEST_P(HttpBadRequestsTest, TheHostOfAWholeTargetCounts) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      EXPECT_FALSE(response.Send(200, {}, std::string(request.authority()) + '|' + std::string(request.target())));
    });
    Client client(served);
    client.Send("GET HTTP://a.example:8/x?y HTTP/1.1\r\nHost: b.example\r\n\r\n");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "a.example:8|/x?y");
    client.Send("GET http://a.example?y HTTP/1.1\r\nHost: b.example\r\n\r\n");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "a.example|/?y");
    client.Send("OPTIONS * HTTP/1.1\r\nHost: b.example\r\n\r\n");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "b.example|*");
  });
}

// What is behind it would be taken for a request.
TEST_P(HttpBadRequestsTest, ABodyThatIsNoneOfHttpEndsTheConnection) {
  InFiber([] {
    std::error_code seen;
    ListeningServer served([&](Request& request, Response& response) {
      if (request.path() == "/ignores") return static_cast<void>(response.Send(200, {}, "ok"));
      std::string body;
      seen = request.ReadAll(&body, 1'000, Soon());
    });
    for (const std::string_view path : {"/reads", "/ignores"}) {
      Client client(served);
      client.Send("POST " + std::string(path) + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" +
                  Get("/smuggled"));
      const std::string answer = client.Answer();
      EXPECT_TRUE(answer.starts_with(path == "/reads" ? "HTTP/1.1 400 " : "HTTP/1.1 200 ")) << answer;
      EXPECT_TRUE(client.IsOver());
    }
    EXPECT_EQ(seen, Http2Errc::kProtocolError);
    EXPECT_EQ(served.http().counts().requests, 2u);
  });
}

TEST_P(HttpBadRequestsTest, ABodyThatIsCutOffIsNotTakenForTheWhole) {
  InFiber([] {
    FiberEvent ended;
    std::error_code seen;
    ListeningServer served([&](Request& request, Response&) {
      std::string body;
      seen = request.ReadAll(&body, 1'000, Soon());
      ended.Set();
    });
    Client client(served);
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf");
    EXPECT_FALSE(client.stream().ShutdownWrite());
    ASSERT_TRUE(ended.Wait(Soon()));
    EXPECT_EQ(seen, Http2Errc::kConnectionLost);
    EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 400 ")) << "for a handler that has not answered";
  });
}

TEST_P(HttpBadRequestsTest, ABodyThatIsNotThereInTimeIsAnsweredSo) {
  InFiber([] {
    ListeningServer served([&](Request& request, Response&) {
      std::string body;
      EXPECT_EQ(request.ReadAll(&body, 1'000, Deadline(1ms)), std::errc::timed_out);
    });
    Client client(served);
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf");
    const std::string answer = client.Answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 ")) << answer;
    EXPECT_EQ(Client::Field(answer, "connection"), "close");
  });
}

TEST_P(HttpBadRequestsTest, ABodyThatIsTooLargeForReadAllSaysSo) {
  InFiber([] {
    ListeningServer served([](Request& request, Response& response) {
      std::string body = "had: ";
      if (request.ReadAll(&body, 4, Soon()) == std::errc::message_size) {
        return static_cast<void>(response.Send(413, {}, body));
      }
      EXPECT_FALSE(response.Send(200, {}, body));
    });
    Client client(served);
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nfour");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "had: four");
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nfive!" + Get("/"));
    EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 413 "));
    EXPECT_EQ(Client::BodyOf(client.Answer()), "had: ");
  });
}

TEST_P(HttpBadRequestsTest, TrailersHaveALimit) {
  InFiber([] {
    std::error_code seen;
    FiberEvent ended;
    ListeningServer served([&](Request& request, Response&) {
      std::string body;
      seen = request.ReadAll(&body, 1'000, Soon());
      ended.Set();
    });
    Client client(served);
    client.Send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(20'000, 'y') +
                "\r\n\r\n");
    ASSERT_TRUE(ended.Wait(Soon()));
    EXPECT_EQ(seen, Http2Errc::kProtocolError);
    EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 431 "));
  });
}

class HttpTimesTest : public io::IoTest {};
WEFT_INSTANTIATE_ONE_IO_SHAPE(HttpTimesTest);

TEST_P(HttpTimesTest, AHeaderThatTakesTooLongIsAnswered) {
  InFiber([] {
    ListeningServer served(&Fail, {.header_timeout = 20ms});
    for (const std::string_view begun : {"GET / HTTP/1.1\r\n", "P"}) {  // The latter may be HTTP/2, too.
      Client client(served);
      client.Send(begun);
      EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 408 ")) << begun;
      EXPECT_TRUE(client.IsOver());
    }
    EXPECT_EQ(served.http().counts().header_timeouts, 2u);
  });
}

TEST_P(HttpTimesTest, AClientInPlainTextThatSendsNothingIsClosed) {
  InFiber([] {
    ListeningServer served(&Fail, {.limits = {.idle_timeout = 0ms, .settings_timeout = 20ms}});
    Client client(served);
    EXPECT_TRUE(client.IsOver());
  });
}

TEST_P(HttpTimesTest, AConnectionThatWaitsTooLongIsClosed) {
  InFiber([] {
    ListeningServer served([](Request&, Response& response) { EXPECT_FALSE(response.Send(200, {}, "ok")); },
                           {.limits = {.idle_timeout = 20ms}});
    Client client(served);
    client.Send(Get("/"));
    EXPECT_EQ(Client::BodyOf(client.Answer()), "ok");
    EXPECT_TRUE(client.IsOver());
  });
}

TEST_P(HttpTimesTest, AClientThatTakesNothingOrSendsNothingIsGivenUp) {
  InFiber([] {
    std::error_code read;
    std::error_code written;
    FiberEvent ended;
    ListeningServer served(
        [&](Request& request, Response& response) {
          char byte = 0;
          if (request.path() == "/send") {
            read = request.Read(&byte, 1).error;
          } else {
            EXPECT_FALSE(response.Start(200));
            do written = response.Write(std::string(100'000, 'x')).error;
            while (!written);
          }
          ended.Set();
        },
        {.limits = {.stream_timeout = 20ms}});
    Client silent(served);
    silent.Send("POST /send HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n");
    ASSERT_TRUE(ended.Wait(Soon()));
    EXPECT_EQ(read, std::errc::timed_out);
    ended.Reset();
    Client full(served);
    full.Send(Get("/take"));
    ASSERT_TRUE(ended.Wait(Soon()));
    EXPECT_EQ(written, std::errc::timed_out);
  });
}

}  // namespace
}  // namespace weft::http
