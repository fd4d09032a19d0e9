// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// HTTP/2 over TlsStream. What HTTP/2 does by itself: http2_server_test.cc, http2_limits_test.cc, http2_client_test.cc.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2_client.h"
#include "weft/interop/http2_grpc.h"
#include "weft/interop/http2_grpc_client.h"
#include "weft/interop/http2_over_tls.h"
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

TlsContext ClientContext(std::vector<std::string> alpn = {"h2"}) {
  TlsClientOptions options;
  options.alpn = std::move(alpn);
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
      EXPECT_FALSE(listener.Listen(io::OwnLoopback()));
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
    EXPECT_TRUE(client.IsOpen());
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
    EXPECT_TRUE(io::Reaches([&] { return !client.IsOpen(); }));
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

// --- Http2OverTls() ---

constexpr std::size_t kOfTheServer = 2;  // fibers: the one that accepts, and the sweep

struct WaitingServer {
  explicit WaitingServer(const Http2Options& options = {}, io::TcpServer::Options tcp = {})
      : http(&Echo, options),
        server(Listen(),
               Http2OverTls(&http, ServerContext(),
                            {.refused =
                                 [this](auto& tls, auto error) {
                                   ++(error ? failed : not_http2);
                                   EXPECT_EQ(!error, tls.error_text().empty());
                                 }}),
               std::move(tcp)) {
    EXPECT_TRUE(server.Start());
  }
  static void Echo(Http2Request& request, Http2Response& response) {
    std::string body;
    EXPECT_FALSE(request.ReadAll(&body, 1 << 20, Soon()));
    EXPECT_FALSE(response.Send(200, {}, std::string(request.path()) + body));
  }
  static io::TcpListener Listen() {
    io::TcpListener listener;
    EXPECT_FALSE(listener.Listen(io::OwnLoopback()));
    return listener;
  }

  std::atomic<int> failed{0}, not_http2{0};
  Http2Server http;
  io::TcpServer server;
};

// A client whose records go through a wire that may break off in the middle of one. It has three fibers.
class WiredClient {
 public:
  static constexpr std::size_t kFibers = 3;

  explicit WiredClient(const io::TcpServer& server) {
    EXPECT_FALSE(far_.Connect(server.local_address(), Soon()));
    up_ = Fiber([this] { Carry(&near_.server, &far_); });
    down_ = Fiber([this] { Carry(&far_, &near_.server); });
    EXPECT_FALSE(tls_.Handshake(Soon()));
    client_.emplace(Http2Transport(tls_));
    EXPECT_TRUE(client_->Start());
  }
  ~WiredClient() {
    client_->Close();
    static_cast<void>(near_.client.Shutdown());
    static_cast<void>(far_.Shutdown());
    up_.Join();
    down_.Join();
  }
  void Ask(const std::string& body) {
    const Http2Answer answer =
        client_->Ask({.method = "POST", .path = "/path", .authority = kName, .scheme = "https"}, body, Soon(), 1 << 24);
    EXPECT_FALSE(answer.error) << answer.error.message();
    EXPECT_TRUE(answer.body == "/path" + body);
  }
  // The wire cuts what the client sends next in the middle, and carries the rest when the event is set.
  FiberEvent& Cut() {
    cuts_ = true;
    return mended_;
  }
  bool AwaitCut() { return is_cut_.Wait(Soon()); }
  bool IsOpen() const { return client_->IsOpen(); }

 private:
  void Carry(io::TcpStream* from, io::TcpStream* to) {
    char piece[16'384];
    for (;;) {
      const io::IoResult got = from->ReadSome(piece, sizeof(piece));
      if (!got.ok() || got.bytes == 0) break;
      std::size_t sent = 0;
      if (from == &near_.server && cuts_.exchange(false)) {
        sent = got.bytes / 2;
        EXPECT_TRUE(to->WriteAll(piece, sent).ok());
        is_cut_.Set();
        mended_.Wait();
      }
      if (!to->WriteAll(piece + sent, got.bytes - sent).ok()) break;
    }
    static_cast<void>(to->ShutdownWrite());
  }

  io::Pair near_ = io::ConnectedPair();
  io::TcpStream far_;
  std::atomic<bool> cuts_{false};
  FiberEvent is_cut_, mended_;
  Fiber up_, down_;
  const TlsContext context_ = ClientContext();
  TlsStream tls_{near_.client, context_, kName};
  std::optional<Http2Client> client_;
};

TEST_P(Http2TlsTest, AnIdleConnectionHasNoFiberAndIsServedAgain) {
  WaitingServer served;
  WiredClient client(served.server);
  for (const std::size_t size : {0, 60'000, 300'000, 1}) {
    client.Ask(std::string(size, 'b'));
    EXPECT_TRUE(io::Reaches([] { return GetFiberCount() <= kOfTheServer + WiredClient::kFibers; }));
  }
  EXPECT_EQ(served.http.counts().connections, 1u);
}

TEST_P(Http2TlsTest, ARecordThatIsCutWhileTheConnectionWaitsIsReadToItsEnd) {
  WaitingServer served;
  WiredClient client(served.server);
  client.Ask("first");
  const auto no_fiber = [] { return GetFiberCount() <= kOfTheServer + WiredClient::kFibers; };
  EXPECT_TRUE(io::Reaches(no_fiber));
  FiberEvent& mended = client.Cut();
  Fiber asks([&] { client.Ask("second"); });
  EXPECT_TRUE(client.AwaitCut());
  EXPECT_FALSE(asks.Join(350ms));
  EXPECT_EQ(GetFiberCount(), kOfTheServer + WiredClient::kFibers + 2) << "the one that asks, and the reader";
  mended.Set();
  asks.Join();
  EXPECT_TRUE(io::Reaches(no_fiber));
}

// The reader waits for the rest of a record, and not for a request.
TEST_P(Http2TlsTest, ADrainIsSeenInTheMiddleOfARecord) {
  WaitingServer served;
  WiredClient client(served.server);
  client.Ask("first");
  FiberEvent& mended = client.Cut();
  Fiber asks([&] { client.Ask("second"); });
  EXPECT_TRUE(client.AwaitCut());
  Fiber stops([&] { served.server.Stop(Soon()); });
  EXPECT_TRUE(io::Reaches([&] { return !client.IsOpen(); })) << "no GOAWAY";
  mended.Set();
  asks.Join();
  stops.Join();
}

// A connection that has made its handshake, and one request if it asks.
struct PlainTlsClient {
  explicit PlainTlsClient(const io::TcpServer& server, bool asks) {
    EXPECT_FALSE(stream.Connect(server.local_address(), Soon()));
    EXPECT_FALSE(tls.Handshake(Soon()));
    if (!asks) return;
    const std::string sent = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0) +
                             FrameOf(kSettings, kAck, 0) +
                             FrameOf(kHeaders, kEndHeaders | kEndStream, 1, RequestFields());
    EXPECT_TRUE(tls.WriteAll(sent, Soon()).ok());
  }
  // A GOAWAY, and the end by close_notify.
  void ExpectEnd() {
    std::string got;
    char room[4096];
    for (;;) {
      const io::IoResult some = tls.ReadSome(room, sizeof(room), Soon());
      EXPECT_TRUE(some.ok()) << some.error.message();
      if (some.bytes == 0) break;
      got.append(room, some.bytes);
    }
    const std::string head = FrameOf(kGoAway, 0, 0, std::string(8, '\0')).substr(0, 9);
    EXPECT_NE(got.find(head), std::string::npos);
    stream.Close();
  }

  io::TcpStream stream;
  const TlsContext context = ClientContext();
  TlsStream tls{stream, context, kName};
};

TEST_P(Http2TlsTest, AConnectionThatWaitsEndsByAnIdleTimeoutAndByADrain) {
  {
    WaitingServer served({.idle_timeout = 600ms});
    PlainTlsClient client(served.server, /*asks=*/true);
    client.ExpectEnd();
    EXPECT_TRUE(io::Reaches([&] { return served.server.counts().open == 0; }));
    EXPECT_EQ(served.http.counts().idle_timeouts, 1u);
    EXPECT_EQ(served.server.counts().timed_out, 1u);
  }
  WaitingServer served;
  PlainTlsClient client(served.server, /*asks=*/true);
  EXPECT_TRUE(io::Reaches([&] { return served.http.counts().requests == 1; }));
  EXPECT_TRUE(io::Reaches([] { return GetFiberCount() <= kOfTheServer; }));
  Fiber stops([&] { served.server.Stop(Soon()); });
  client.ExpectEnd();
  stops.Join();
  EXPECT_EQ(served.http.counts().idle_timeouts, 0u);
}

TEST_P(Http2TlsTest, WhoeverSendsNothingHasNoFiberAndIsEndedByTheServer) {
  WaitingServer served({}, {.first_request_timeout = 400ms});
  io::TcpStream silent;
  EXPECT_FALSE(silent.Connect(served.server.local_address(), Soon()));
  EXPECT_TRUE(io::Reaches([&] { return served.server.counts().open == 1; }));
  EXPECT_TRUE(io::Reaches([] { return GetFiberCount() <= kOfTheServer; }));
  char byte;
  EXPECT_EQ(silent.ReadSome(&byte, 1, Soon()).bytes, 0u);
  EXPECT_EQ(served.http.counts().connections, 0u);
  // The same after the handshake.
  PlainTlsClient shakes_hands(served.server, /*asks=*/false);
  shakes_hands.ExpectEnd();
  EXPECT_TRUE(io::Reaches([&] { return served.server.counts().open == 0; }));
  EXPECT_EQ(served.server.counts().timed_out, 2u);
  EXPECT_EQ(served.http.counts().idle_timeouts, 1u);
  EXPECT_EQ(served.failed, 0);
}

TEST_P(Http2TlsTest, WhoeverDoesNotComeToHttp2IsTold) {
  WaitingServer served;
  io::TcpStream plain;
  EXPECT_FALSE(plain.Connect(served.server.local_address(), Soon()));
  EXPECT_TRUE(plain.WriteAll("GET / HTTP/1.1\r\n\r\n", Soon()).ok());
  EXPECT_TRUE(io::Reaches([&] { return served.failed == 1; }));
  io::TcpStream other;
  EXPECT_FALSE(other.Connect(served.server.local_address(), Soon()));
  TlsClientOptions options;
  options.trust_pem = Authority().certificate();
  std::string why;
  const auto context = TlsContext::ForClient(options, &why);
  TlsStream without_alpn(other, *context, kName);
  EXPECT_FALSE(without_alpn.Handshake(Soon()));
  EXPECT_TRUE(io::Reaches([&] { return served.not_http2 == 1; }));
  EXPECT_TRUE(io::Reaches([&] { return served.server.counts().open == 0; }));
  EXPECT_EQ(served.failed, 1);
  EXPECT_EQ(served.http.counts().connections, 0u);
}

TEST_P(Http2TlsTest, AfterTheDeadlineOfStopNothingIsLeftOfConnectionsThatWait) {
  WaitingServer served;
  std::vector<std::unique_ptr<PlainTlsClient>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<PlainTlsClient>(served.server, /*asks=*/true));
  EXPECT_TRUE(io::Reaches([&] { return served.http.counts().requests == 5; }));
  EXPECT_TRUE(io::Reaches([] { return GetFiberCount() <= kOfTheServer; }));
  served.server.Stop(0s);
  EXPECT_EQ(served.server.counts().open, 0u);
}

// --- GrpcOverTls() ---

TEST_P(Http2TlsTest, AClientOfGrpcCallsOverTls) {
  InFiber([] {
    Http2GrpcService service;
    service.Add("/t.S/Scheme", [](GrpcCall& call) -> GrpcStatus {
      return call.WriteBytes(call.metadata().Find(":scheme")) ? GrpcStatus() : GrpcStatus{GrpcCode::kAborted};
    });
    Http2Server http(service.handler());
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
    io::TcpServer server(std::move(listener), Http2OverTls(&http, ServerContext()));
    ASSERT_TRUE(server.Start());
    {
      std::string scheme;
      const std::string target = server.local_address().ToString();
      Http2GrpcClient client(target, {.connect = GrpcOverTls(ClientContext(), kName)});
      const GrpcStatus status = client.CallBytes("/t.S/Scheme", "", &scheme, {.deadline = Soon()});
      EXPECT_TRUE(status.ok()) << status.message;
      EXPECT_EQ(scheme, "https");
      // The certificate is not for the address.
      Http2GrpcClient other(target, {.connect = GrpcOverTls(ClientContext())});
      EXPECT_EQ(other.CallBytes("/t.S/Scheme", "", &scheme, {.deadline = Soon()}).code, GrpcCode::kUnavailable);
      EXPECT_EQ(other.counts().not_connected, 1u);
      // Nobody has agreed on HTTP/2.
      Http2GrpcClient http1(target, {.connect = GrpcOverTls(ClientContext({}), kName)});
      EXPECT_EQ(http1.CallBytes("/t.S/Scheme", "", &scheme, {.deadline = Soon()}).code, GrpcCode::kUnavailable);
      EXPECT_EQ(http1.counts().not_connected, 1u);
    }
    server.Stop(Soon());
  });
}

}  // namespace
}  // namespace weft::interop
