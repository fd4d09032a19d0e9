// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 connections come and go for a while, in plain text and over TLS, with calls that are made at the same time, in
// pieces, with deadlines, in scopes that are cancelled, given up half-way, and whose connection is closed under them;
// beside servers that are drained and replaced all the time, on sockets that stay.
//
// What must hold
//   - An answer is its request's, and whole.
//   - If the drains are patient, a call is answered, or has not begun, unless its client ended it.
//   - Stop() returns when it should, and then no handler and no fiber of one is left.
//   - No call lasts for ever, and in the end no descriptor is left.
//
// For how long: soak.h.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2_client.h"
#include "weft/interop/http2_over_tls.h"
#include "weft/interop/http2_server.h"
#include "weft/interop/tls_context.h"
#include "weft/interop/tls_stream.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/interop/tls_certificates.h"

#include "stress/soak.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using stress::kLateAtMost;
using stress::kLong;
using stress::Steady;

struct TlsContexts {
  TlsContexts() {
    const TestAuthority authority;
    PemPair pair = authority.Issue("DNS:weft");
    TlsServerOptions server_options;
    server_options.alpn = {"h2"};
    server_options.certificate_chain_pem = std::move(pair.certificate);
    server_options.private_key_pem = std::move(pair.key);
    TlsClientOptions client_options;
    client_options.alpn = {"h2"};
    client_options.trust_pem = authority.certificate();
    // libssl counts the references to a session, which connections share that resume it, unseen by ThreadSanitizer.
    server_options.resumption = client_options.resumption = !WEFT_TSAN;
    std::string why;
    server = TlsContext::ForServer(server_options, &why);
    client = TlsContext::ForClient(client_options, &why);
    EXPECT_TRUE(server.has_value() && client.has_value()) << why;
  }
  std::optional<TlsContext> server, client;
};

struct Tally {
  std::atomic<std::uint64_t> connections{0}, answered{0}, bytes{0}, not_begun{0}, timed_out{0}, cancelled{0},
      given_up{0}, cut{0};
};

// One server and what its handlers do.
class Generation {
 public:
  // nullptr: plain text. `waits`: idle connections have no fiber.
  Generation(io::TcpListener listener, const TlsContexts* tls, bool waits) : tls_(tls) {
    const io::TcpServer::Options options{.first_request_at_stop = kLong};  // No client connects and says nothing.
    if (waits) {
      server_.emplace(std::move(listener), tls == nullptr ? http_.ForTcpServer() : Http2OverTls(&http_, *tls->server),
                      options);
    } else {
      server_.emplace(std::move(listener),
                      io::TcpServer::ConnectionHandler([this](io::TcpConnection& connection) { Serve(connection); }),
                      options);
    }
    EXPECT_TRUE(server_->Start());
  }

  void Stop(std::chrono::milliseconds grace) {
    const auto begin = Steady::now();
    server_->Stop(grace);
    EXPECT_LT(Steady::now() - begin, grace + kLateAtMost);
    EXPECT_EQ(server_->counts().open, 0u);
    EXPECT_EQ(http_.counts().handlers, 0u);
    EXPECT_EQ(http_.counts().protocol_errors, 0u);
    EXPECT_EQ(running_, 0) << "fibers of requests have outlived their server's Stop()";
  }

 private:
  void Serve(io::TcpConnection& connection) {
    if (tls_ == nullptr) return static_cast<void>(http_.Serve(Http2Transport(connection)));
    TlsStream secure(connection, *tls_->server);
    if (secure.Handshake(kLong)) return;
    static_cast<void>(http_.Serve(Http2Transport(secure, &connection)));
  }

  // "/nap": sleeps for as long as "x-us" says, in several fibers. "/echo": the body, piece by piece.
  void Serve(Http2Request& request, Http2Response& response) {
    const stress::Counted counted(&running_);
    const std::string key(request.headers().Find("x-key"));
    if (request.path() == "/nap") {
      const std::chrono::microseconds how_long(std::atoi(std::string(request.headers().Find("x-us")).c_str()));
      FiberScope fan_out;
      for (int part = 1; part <= 3; ++part) {
        static_cast<void>(fan_out.Spawn([this, nap = how_long / part] {
          const stress::Counted also_counted(&running_);
          FiberSleepFor(nap);
        }));
      }
      fan_out.Wait();
      static_cast<void>(response.Send(200, {{"x-key", key}}, key));
      return;
    }
    if (response.Start(200, {{"x-key", key}})) return;
    char piece[3000];
    std::size_t bytes = 0;
    for (;;) {
      const io::IoResult got = request.Read(piece, sizeof(piece), kLong);
      if (!got.ok()) return;
      if (got.bytes == 0) break;
      bytes += got.bytes;
      if (!response.Write(piece, got.bytes, kLong).ok()) return;
    }
    static_cast<void>(response.Finish({{"x-bytes", std::to_string(bytes)}}));
  }

  const TlsContexts* const tls_;
  std::atomic<int> running_{0};  // handlers and their fibers
  Http2Server http_{[this](Http2Request& request, Http2Response& response) { Serve(request, response); }};
  std::optional<io::TcpServer> server_;
};

// One server after the other on one socket, and their clients.
class Place : public stress::Succession<Generation> {
 public:
  explicit Place(bool patient, const TlsContexts* tls = nullptr)
      : Succession(patient,
                   [tls, waits = false](io::TcpListener listener) mutable {
                     waits = !waits;  // In turn.
                     return std::make_unique<Generation>(std::move(listener), tls, waits);
                   }),
        tls_(tls) {}

  // One connection: some fibers make calls on it, and now and then it is closed meanwhile.
  void Visit(std::minstd_rand& random) {
    io::TcpStream stream;
    if (const std::error_code error = stream.Connect(address(), kLong)) return Wrong("connect", error);
    std::optional<TlsStream> secure;
    if (tls_ != nullptr) {
      secure.emplace(stream, *tls_->client, "weft");
      if (const std::error_code error = secure->Handshake(kLong)) {
        if (patient() || error == std::errc::timed_out) Wrong("a handshake", error);
        return;
      }
    }
    Http2Client client{secure.has_value() ? Http2Transport(*secure) : Http2Transport(stream)};
    ASSERT_TRUE(client.Start());
    tally.connections.fetch_add(1);
    std::atomic<bool> closed{false};
    FiberScope callers;
    for (int i = 1 + static_cast<int>(random() % 6); i > 0; --i) {
      const bool spawned = callers.Spawn([this, &client, &closed, seed = static_cast<unsigned>(random())] {
        std::minstd_rand dice(seed);
        for (int calls = 1 + static_cast<int>(dice() % 6); calls > 0 && client.IsOpen(); --calls) {
          Call(client, dice, closed);
          // About as long as a connection has a fiber without a request.
          if (dice() % 16 == 0) FiberSleepFor(std::chrono::microseconds(80'000 + dice() % 60'000));
        }
      });
      EXPECT_TRUE(spawned);
    }
    if (random() % 8 == 0) {
      FiberSleepFor(std::chrono::microseconds(random() % 5000));
      closed = true;
      client.Close();
    }
    callers.Wait();
  }

  bool HasSeenAll() const {
    return restarts() > 0 && tally.answered > 0 && tally.bytes > 0 && tally.timed_out > 0 && tally.cancelled > 0 &&
           tally.given_up > 0;
  }

  Tally tally;

 private:
  void Call(Http2Client& client, std::minstd_rand& dice, const std::atomic<bool>& closed) {
    const std::string key = std::to_string(dice());
    switch (dice() % 8) {
      case 0: {  // Is late, most of the time.
        const auto error = Nap(client, key, 1 + dice() % 50'000, std::chrono::microseconds(1 + dice() % 2000));
        if (error == std::errc::timed_out) return static_cast<void>(tally.timed_out.fetch_add(1));
        return Check(error, closed);
      }
      case 1: {
        std::error_code error;
        CancelScope scope{Deadline(std::chrono::microseconds(dice() % 3000))};
        static_cast<void>(scope.Run([&] { error = Nap(client, key, 1 + dice() % 50'000, kLong); }));
        if (error == std::errc::operation_canceled) return static_cast<void>(tally.cancelled.fetch_add(1));
        return Check(error, closed);
      }
      case 2:
      case 3:
      case 4:
        return Check(Nap(client, key, dice() % 1000, kLong), closed);
      default: {
        const std::size_t size = dice() % 4 == 0 ? dice() % 150'000 : dice() % 1000;
        return Check(Echo(client, key, size, dice() % 8 == 0, dice), closed);
      }
    }
  }

  std::error_code Nap(Http2Client& client, const std::string& key, std::uint64_t us, Deadline deadline) {
    const std::string how_long = std::to_string(us);
    const Http2Answer answer = client.Ask(
        {.path = "/nap", .authority = "weft", .headers = {{"x-key", key}, {"x-us", how_long}}}, {}, deadline);
    if (answer.error) return answer.error;
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, key);
    EXPECT_EQ(answer.headers.Find("x-key"), key);
    tally.answered.fetch_add(1);
    return {};
  }

  // One fiber writes while this one reads. `gives_up`: somewhere on the way.
  std::error_code Echo(Http2Client& client, const std::string& key, std::size_t size, bool gives_up,
                       std::minstd_rand& dice) {
    std::string sent(size, '\0');
    for (char& c : sent) c = static_cast<char>(dice());
    Http2Call call;
    const Http2RequestHead head{.method = "POST", .path = "/echo", .authority = "weft", .headers = {{"x-key", key}}};
    if (const auto error = client.Open(head, &call, kLong)) return error;
    std::error_code write_error;
    FiberScope writer;
    EXPECT_TRUE(writer.Spawn([&] {
      write_error = call.Write(sent, kLong).error;
      if (!write_error) write_error = call.Finish();
    }));
    std::string got;
    std::error_code error = call.AwaitAnswer(kLong);
    const std::size_t give_up_at = gives_up ? dice() % (size + 1) : size + 1;
    while (!error && got.size() < give_up_at) {
      char piece[5000];
      const io::IoResult read = call.Read(piece, sizeof(piece), kLong);
      error = read.error;
      if (read.bytes == 0) break;
      got.append(piece, read.bytes);
    }
    if (gives_up) call.Cancel();
    writer.Wait();
    EXPECT_EQ(got, sent.substr(0, got.size())) << "an echo is not what was sent";
    tally.bytes.fetch_add(got.size());
    if (gives_up) {
      tally.given_up.fetch_add(1);
      return {};
    }
    if (error) return error;
    EXPECT_EQ(got.size(), size);
    EXPECT_FALSE(write_error) << write_error.message();
    EXPECT_EQ(call.status(), 200);
    EXPECT_EQ(call.headers().Find("x-key"), key);
    EXPECT_EQ(call.trailers().Find("x-bytes"), std::to_string(size));
    tally.answered.fetch_add(1);
    return {};
  }

  // How a call may end that its fiber has not ended.
  void Check(std::error_code error, const std::atomic<bool>& closed) {
    if (!error) return;
    if (error == Http2Errc::kNotBegun) return static_cast<void>(tally.not_begun.fetch_add(1));
    if (error == std::errc::timed_out || (patient() && !closed)) return Wrong("a call", error);
    tally.cut.fetch_add(1);
  }

  void Wrong(const char* what, std::error_code error) {
    ADD_FAILURE() << what << ": " << error.message() << (patient() ? ", beside patient drains" : "");
  }

  const TlsContexts* const tls_;
};

class Http2Soak : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, Http2Soak, ::testing::Values(1, 2, 6));

TEST_P(Http2Soak, ConnectionsAndServersComeAndGo) {
  const stress::SoakRuntime runtime(GetParam());
  const auto end = Steady::now() + stress::SoakTime();
  const TlsContexts tls;
  Place patient(true), impatient(false), secure(true, &tls);
  Place* const places[] = {&patient, &impatient, &secure};
  constexpr int kClients = 16 / stress::kScale;
  FiberLatch done(std::size(places) * (kClients + 1));
  for (Place* place : places) stress::StartVisitors(place, kClients, end, &done);
  done.Wait();
  for (Place* place : places) {
    place->StopForGood();
    const Tally& counts = place->tally;
    std::cout << place->restarts() << " restarts, " << counts.connections << " connections, " << counts.answered
              << " answered, " << counts.bytes << " bytes, " << counts.not_begun << " not begun, " << counts.timed_out
              << " timed out, " << counts.cancelled << " cancelled, " << counts.given_up << " given up, " << counts.cut
              << " cut\n";
    EXPECT_TRUE(place->HasSeenAll());
  }
  EXPECT_LT(Steady::now(), end + stress::kUntilAllIsSeen + kLateAtMost) << "a wake-up was lost";
}

}  // namespace
}  // namespace weft::interop
