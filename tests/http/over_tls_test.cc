// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// http::OverTls: both versions behind one port, chosen by ALPN.

#include "weft/http/over_tls.h"

#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2_client.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/http/http_fixture.h"
#include "weft/tests/interop/tls_certificates.h"

namespace weft::http {
namespace {

using namespace std::chrono_literals;
using interop::TestAuthority;
using interop::TlsContext;
using interop::TlsStream;
using io::IoResult;
using io::Reaches;
using io::Soon;

const char* const kName = "weft.example";

const TestAuthority& Authority() {
  static const TestAuthority authority;
  return authority;
}

TlsContext ServerContext() {
  interop::PemPair pair = Authority().Issue(std::string("DNS:") + kName);
  interop::TlsServerOptions options;
  options.alpn = {"h2", "http/1.1"};
  options.certificate_chain_pem = std::move(pair.certificate);
  options.private_key_pem = std::move(pair.key);
  std::string why;
  auto made = TlsContext::ForServer(options, &why);
  EXPECT_TRUE(made.has_value()) << why;
  return *made;
}

TlsContext ClientContext(std::vector<std::string> alpn) {
  interop::TlsClientOptions options;
  options.alpn = std::move(alpn);
  options.trust_pem = Authority().certificate();
  std::string why;
  auto made = TlsContext::ForClient(options, &why);
  EXPECT_TRUE(made.has_value()) << why;
  return *made;
}

class OverTlsTest : public io::IoTest {
 protected:
  static io::TcpListener Listening() {
    io::TcpListener listener;
    EXPECT_FALSE(listener.Listen(io::OwnLoopback()));
    return listener;
  }
};
WEFT_INSTANTIATE_IO_SHAPES(OverTlsTest);

TEST_P(OverTlsTest, TheClientChoosesTheVersion) {
  InFiber([] {
    Server http([](Request& request, Response& response) {
      EXPECT_EQ(request.scheme(), "https");
      EXPECT_FALSE(response.Send(200, {}, std::to_string(request.version())));
    });
    io::TcpServer server(Listening(), OverTls(&http, ServerContext()));
    ASSERT_TRUE(server.Start());
    for (const std::vector<std::string>& alpn : {std::vector<std::string>{"h2"}, {"http/1.1"}, {}}) {
      io::TcpStream stream;
      ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
      const TlsContext context = ClientContext(alpn);
      TlsStream tls(stream, context, kName);
      ASSERT_FALSE(tls.Handshake(Soon()));
      if (tls.alpn() == "h2") {
        interop::Http2Client client{interop::Http2Transport(tls)};
        ASSERT_TRUE(client.Start());
        EXPECT_EQ(client.Ask({.authority = kName, .scheme = "https"}, {}, Soon()).body, "20");
        continue;
      }
      for (int i = 0; i < 3; ++i) {  // Two requests at once, of which it reads ahead; it waits without a fiber.
        const std::string request = "GET / HTTP/1.1\r\nHost: weft.example\r\n\r\n";
        ASSERT_TRUE(tls.WriteAll(request + request, Soon()).ok());
        std::string all;
        char room[4096];
        while (all.find("\r\n\r\n11", all.find("\r\n\r\n11") + 1) == std::string::npos) {
          const IoResult got = tls.ReadSome(room, sizeof(room), Soon());
          ASSERT_NE(got.bytes, 0u) << got.error.message();
          all.append(room, got.bytes);
        }
        EXPECT_TRUE(Reaches([&] { return GetFiberCount() <= kFibersAtRest; }));
      }
    }
    server.Stop(Soon());
  });
}

// TLS reads ahead: both records are in its buffer when the handler is done with the first.
TEST_P(OverTlsTest, WhatWasReadAheadIsAnswered) {
  InFiber([] {
    FiberEvent begun;
    FiberEvent may_answer;
    Server http([&](Request& request, Response& response) {
      if (request.path() == "/0") {
        begun.Set();
        may_answer.Wait();
      }
      EXPECT_FALSE(response.Send(200, {}, request.path()));
    });
    io::TcpServer server(Listening(), OverTls(&http, ServerContext()));
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    const TlsContext context = ClientContext({"http/1.1"});
    TlsStream tls(stream, context, kName);
    ASSERT_FALSE(tls.Handshake(Soon()));
    ASSERT_TRUE(tls.WriteAll(Get("/0"), Soon()).ok());
    ASSERT_TRUE(begun.Wait(Soon()));
    for (const std::string_view path : {"/1", "/2"}) ASSERT_TRUE(tls.WriteAll(Get(path), Soon()).ok());
    may_answer.Set();
    std::string all;
    char room[4096];
    while (!all.ends_with("\r\n\r\n/2")) {
      const IoResult got = tls.ReadSome(room, sizeof(room), Soon());
      ASSERT_NE(got.bytes, 0u) << got.error.message() << all;
      all.append(room, got.bytes);
    }
    server.Stop(Soon());
  });
}

// Those of up to 64 KiB are copied, longer ones and the ends of their chunks are not.
TEST_P(OverTlsTest, PiecesOfAnySizeComeInTheirOrder) {
  std::string text;
  for (int i = 0; text.size() < 300'000; ++i) text += std::to_string(i) + ' ';
  std::string chunks;
  const std::vector<std::pair<std::size_t, const char*>> pieces = {
      {1, "1"}, {10'000, "2710"}, {100'000, "186a0"}, {2, "2"}, {65'536, "10000"}};
  for (std::size_t at = 0; const auto& [size, hex] : pieces) {
    chunks += std::string(hex) + "\r\n" + text.substr(std::exchange(at, at + size), size) + "\r\n";
  }
  InFiber([&] {
    Server http([&](Request&, Response& response) {
      EXPECT_FALSE(response.Start(200));
      for (std::size_t at = 0; const auto& [size, hex] : pieces) {
        EXPECT_EQ(response.Write(std::string_view(text).substr(std::exchange(at, at + size), size), Soon()).bytes,
                  size);
      }
    });
    io::TcpServer server(Listening(), OverTls(&http, ServerContext()));
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    const TlsContext context = ClientContext({"http/1.1"});
    TlsStream tls(stream, context, kName);
    ASSERT_FALSE(tls.Handshake(Soon()));
    ASSERT_TRUE(tls.WriteAll(Get("/", "Connection: close\r\n"), Soon()).ok());
    std::string all;
    char room[4096];
    for (IoResult got; (got = tls.ReadSome(room, sizeof(room), Soon())).bytes != 0;) all.append(room, got.bytes);
    EXPECT_TRUE(Client::BodyOf(all) == chunks + "0\r\n\r\n") << all.size();
    server.Stop(Soon());
  });
}

TEST_P(OverTlsTest, ALastAnswerEndsWithTlsOwnEnd) {
  InFiber([] {
    Server http([](Request&, Response& response) { EXPECT_FALSE(response.Send(200, {}, "ok")); });
    io::TcpServer server(Listening(), OverTls(&http, ServerContext()));
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    const TlsContext context = ClientContext({"http/1.1"});
    TlsStream tls(stream, context, kName);
    ASSERT_FALSE(tls.Handshake(Soon()));
    ASSERT_TRUE(tls.WriteAll("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", Soon()).ok());
    char room[4096];
    IoResult got;
    do got = tls.ReadSome(room, sizeof(room), Soon());
    while (got.bytes != 0);
    EXPECT_FALSE(got.error) << got.error.message();
    server.Stop(Soon());
  });
}

TEST_P(OverTlsTest, TheClientsOwnEndIsAnswered) {
  InFiber([] {
    Server http([](Request&, Response& response) { EXPECT_FALSE(response.Send(200, {}, "ok")); });
    io::TcpServer server(Listening(), OverTls(&http, ServerContext()));
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    const TlsContext context = ClientContext({"http/1.1"});
    TlsStream tls(stream, context, kName);
    ASSERT_FALSE(tls.Handshake(Soon()));
    ASSERT_TRUE(tls.WriteAll(Get("/"), Soon()).ok());
    std::string all;
    char room[4096];
    while (!all.ends_with("ok")) {
      const IoResult got = tls.ReadSome(room, sizeof(room), Soon());
      ASSERT_NE(got.bytes, 0u);
      all.append(room, got.bytes);
    }
    EXPECT_FALSE(tls.ShutdownWrite(Soon()));
    const IoResult got = tls.ReadSome(room, sizeof(room), Soon());
    EXPECT_FALSE(got.error) << got.error.message();
    server.Stop(Soon());
  });
}

// The drain begins after the head of the answer, which cannot say any more that it is the last.
TEST_P(OverTlsTest, ADrainBehindAnAnswerEndsWithTlsOwnEnd) {
  InFiber([] {
    FiberEvent begun;
    Server http([&](Request& request, Response& response) {
      EXPECT_FALSE(response.Start(200, {{"content-length", "2"}}));
      EXPECT_TRUE(response.Write("ok", Soon()).ok());
      begun.Set();
      EXPECT_TRUE(Reaches([&] { return request.draining(); }));
    });
    io::TcpServer server(Listening(), OverTls(&http, ServerContext()), {.first_request_at_stop = 0ms});
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    const TlsContext context = ClientContext({"http/1.1"});
    TlsStream tls(stream, context, kName);
    ASSERT_FALSE(tls.Handshake(Soon()));
    ASSERT_TRUE(tls.WriteAll(Get("/"), Soon()).ok());
    ASSERT_TRUE(begun.Wait(Soon()));
    Fiber stop([&] { server.Stop(Soon()); });
    char room[4096];
    IoResult got;
    do got = tls.ReadSome(room, sizeof(room), Soon());
    while (got.bytes != 0);
    EXPECT_FALSE(got.error) << got.error.message();
    stop.Join();
  });
}

}  // namespace
}  // namespace weft::http
