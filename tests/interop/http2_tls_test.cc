// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// HTTP/2 over TlsStream. What HTTP/2 does by itself: http2_server_test.cc, http2_limits_test.cc, http2_client_test.cc.

#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "weft/fiber/fiber_scope.h"
#include "weft/interop/http2_client.h"
#include "weft/interop/http2_server.h"
#include "weft/interop/tls_context.h"
#include "weft/interop/tls_stream.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/interop/http2_fixture.h"
#include "weft/tests/interop/tls_certificates.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::Soon;

const char* const kName = "weft.example";

const TestAuthority& Authority() {
  static const TestAuthority authority;
  return authority;
}

TlsContext ServerContext() {
  PemPair pair = Authority().Issue(std::string("DNS:") + kName);
  TlsServerOptions options;
  options.alpn = {"h2"};
  options.certificate_chain_pem = std::move(pair.certificate);
  options.private_key_pem = std::move(pair.key);
  std::string why;
  auto made = TlsContext::ForServer(options, &why);
  EXPECT_TRUE(made.has_value()) << why;
  return *made;
}

TlsContext ClientContext() {
  TlsClientOptions options;
  options.alpn = {"h2"};
  options.trust_pem = Authority().certificate();
  std::string why;
  auto made = TlsContext::ForClient(options, &why);
  EXPECT_TRUE(made.has_value()) << why;
  return *made;
}

// A TcpServer of HTTP/2 over TLS, and a client of it.
class Http2TlsTest : public io::IoTest {
 protected:
  struct Ends {
    explicit Ends(Http2Server::Handler handler, const Http2Options& options = {}) : http(std::move(handler), options) {
      io::TcpListener listener;
      EXPECT_FALSE(listener.Listen(io::SocketAddress::LoopbackIpv4(0)));
      server.emplace(std::move(listener), [this](io::TcpConnection& connection) {
        TlsStream secure(connection, server_context);
        if (secure.Handshake(Soon()) || secure.alpn() != "h2") return;
        why = http.Serve(Http2Transport(secure, &connection));
      });
      EXPECT_TRUE(server->Start());
      EXPECT_FALSE(stream.Connect(server->local_address(), Soon()));
      tls.emplace(stream, client_context, kName);
      EXPECT_FALSE(tls->Handshake(Soon()));
      EXPECT_EQ(tls->alpn(), "h2");
    }

    const TlsContext server_context = ServerContext();
    const TlsContext client_context = ClientContext();
    std::error_code why;  // after Stop()
    Http2Server http;
    std::optional<io::TcpServer> server;
    io::TcpStream stream;
    std::optional<TlsStream> tls;
  };
};
WEFT_INSTANTIATE_IO_SHAPES(Http2TlsTest);

TEST_P(Http2TlsTest, ManyFibersSendAndGetBodiesOverOneConnection) {
  InFiber([] {
    Ends ends([](Http2Request& request, Http2Response& response) {
      EXPECT_FALSE(response.Start(200));
      char piece[5'000];
      for (;;) {
        const io::IoResult got = request.Read(piece, sizeof(piece), Soon());
        if (got.bytes == 0) break;
        if (!response.Write(piece, got.bytes, Soon()).ok()) return;
      }
      EXPECT_FALSE(response.Finish({{"x-done", request.path()}}));
    });
    Http2Client client{Http2Transport(*ends.tls)};
    ASSERT_TRUE(client.Start());
    FiberScope scope;
    for (int fiber = 0; fiber < 8; ++fiber) {
      ASSERT_TRUE(scope.Spawn([&, fiber] {
        for (int i = 1; i <= io::Scaled(8); ++i) {
          const std::string body(static_cast<std::size_t>(i * 30'000), static_cast<char>('a' + fiber));
          const std::string path = std::string("/").append(std::to_string(fiber));
          const Http2Answer answer = client.Ask({.method = "POST", .path = path, .authority = kName, .scheme = "https"},
                                                body, Soon(), 1 << 24);
          EXPECT_FALSE(answer.error) << answer.error.message();
          EXPECT_TRUE(answer.body == body);
          EXPECT_EQ(answer.trailers.Find("x-done"), path);
        }
      }));
    }
    scope.Wait();
    EXPECT_TRUE(client.is_open());
    client.Close();
    ends.server->Stop(Soon());
    EXPECT_FALSE(ends.why) << ends.why.message();
  });
}

TEST_P(Http2TlsTest, ADrainAnswersAndSaysGoodbye) {
  InFiber([] {
    FiberEvent began, may_answer;
    Ends ends([&](Http2Request&, Http2Response& response) {
      began.Set();
      may_answer.Wait();
      EXPECT_FALSE(response.Send(200, {}, "answer"));
    });
    Http2Client client{Http2Transport(*ends.tls)};
    ASSERT_TRUE(client.Start());
    Fiber asks([&] {
      const Http2Answer answer = client.Ask({.authority = kName, .scheme = "https"}, {}, Soon());
      EXPECT_FALSE(answer.error) << answer.error.message();
      EXPECT_EQ(answer.body, "answer");
    });
    began.Wait();
    Fiber stops([&] { ends.server->Stop(Soon()); });
    EXPECT_TRUE(io::Reaches([&] { return !client.is_open(); }));
    EXPECT_EQ(client.Ask({.authority = kName}, {}, Soon()).error, Http2Errc::kNotBegun);
    may_answer.Set();
    asks.Join();
    stops.Join();
    EXPECT_FALSE(ends.why) << ends.why.message();
  });
}

TEST_P(Http2TlsTest, AClientThatDoesNotReadIsLeftAfterTheWriteTimeout) {
  InFiber([] {
    FiberEvent ended;
    Ends ends(
        [&](Http2Request&, Http2Response& response) {
          EXPECT_FALSE(response.Start(200));
          EXPECT_FALSE(response.Write(std::string(50'000'000, 'x'), Soon()).ok());
          ended.Set();
        },
        {.write_timeout = 200ms});
    const auto send = [&](const std::string& bytes) { EXPECT_TRUE(ends.tls->WriteAll(bytes, Soon()).ok()); };
    send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0, std::string("\0\4", 2) + Number32(0x7fff'ffff)));
    send(FrameOf(kSettings, kAck, 0) + FrameOf(kWindowUpdate, 0, 0, Number32(0x7000'0000)));
    send(FrameOf(kHeaders, kEndHeaders | kEndStream, 1, RequestFields()));
    EXPECT_TRUE(ended.Wait(Soon()));
    EXPECT_TRUE(io::Reaches([&] { return ends.server->counts().open == 0; }));
    EXPECT_EQ(ends.why, std::errc::timed_out) << ends.why.message();
    ends.server->Stop(Soon());
  });
}

}  // namespace
}  // namespace weft::interop
