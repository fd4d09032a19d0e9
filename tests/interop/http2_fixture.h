// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of HTTP/2: RawPeer, the other end of a connection, which writes frames as the test says, good or bad; and
// ServedConnection, a connection served by an Http2Server in a fiber.
#ifndef WEFT_TESTS_INTEROP_HTTP2_FIXTURE_H_
#define WEFT_TESTS_INTEROP_HTTP2_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/interop/http2_error.h"
#include "weft/interop/http2_server.h"
#include "weft/interop/http2_transport.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::interop {

enum FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9
};
constexpr std::uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4, kPadded = 8;
constexpr std::uint32_t kNoError = 0, kProtocolError = 1, kInternalError = 2, kSettingsTimeout = 4, kRefusedStream = 7,
                        kCancel = 8, kEnhanceYourCalm = 11;

struct Frame {
  std::uint8_t type = 0xff;  // 0xff: the connection has ended
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;
  std::string payload;

  bool ended() const { return type == 0xff; }
  std::uint32_t number(std::size_t at = 0) const {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4 && i < payload.size(); ++i) {
      value = value << 8 | static_cast<std::uint8_t>(payload[i]);
    }
    return value;
  }
  std::uint32_t code() const { return number(type == kGoAway ? 4 : 0); }
};

inline std::string Number32(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  return text;
}

inline std::string FrameOf(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload = {}) {
  std::string frame = Number32(static_cast<std::uint32_t>(payload.size()) << 8 | type);
  frame += static_cast<char>(flags);
  return frame.append(Number32(stream)).append(payload);
}

// As HPACK writes a field that is in no table. Up to 126 bytes each.
inline std::string Literal(std::string_view name, std::string_view value) {
  std::string text = "\x10";
  text += static_cast<char>(name.size());
  text.append(name);
  text += static_cast<char>(value.size());
  return text.append(value);
}

inline std::string RequestFields(std::string_view method = "GET", std::string_view path = "/") {
  return Literal(":method", method) + Literal(":scheme", "http") + Literal(":path", path) + Literal(":authority", "x");
}

// HPACK: an entry of thousands of bytes for the dynamic table, and then references of a byte each to it.
constexpr std::size_t kBombEntry = 4'000;
inline std::string BombEntry() {
  // 0x40: with indexing; 0x7f: 127 bytes of the value and as many more as the next two say, by seven bits.
  std::string entry = std::string("\x40\x06", 2) + "x-bomb" + '\x7f';
  constexpr std::size_t kRest = kBombEntry - 127;
  entry += static_cast<char>(0x80 | (kRest & 0x7f));
  entry += static_cast<char>(kRest >> 7);
  return entry.append(kBombEntry, 'b');
}
inline std::string BombOf(std::size_t references) { return std::string(references, '\xbe'); }

class RawPeer {
 public:
  explicit RawPeer(io::TcpStream* stream) : stream_(*stream) {}

  void Send(std::string_view bytes) { EXPECT_TRUE(stream_.WriteAll(bytes, io::Soon()).ok()); }
  void SendFrame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload = {}) {
    Send(FrameOf(type, flags, stream, payload));
  }
  // A client's. `settings`: of 6 bytes each.
  void Greet(std::string_view settings = {}) {
    Send(std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + FrameOf(kSettings, 0, 0, settings) +
         FrameOf(kSettings, kAck, 0));
  }
  void Ask(std::uint32_t stream, bool end = true, std::string_view method = "GET", std::string_view path = "/") {
    SendFrame(kHeaders, kEndHeaders | (end ? kEndStream : 0), stream, RequestFields(method, path));
  }

  // The next one; an end: the connection has ended.
  Frame Next() {
    char head[9];
    if (stream_.ReadAll(head, sizeof(head), io::Soon()).bytes != sizeof(head)) return {};
    const auto byte = [&](int i) { return static_cast<std::uint8_t>(head[i]); };
    Frame frame{.type = byte(3),
                .flags = byte(4),
                .stream = static_cast<std::uint32_t>(byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8)),
                .payload = std::string(static_cast<std::size_t>(byte(0) << 16 | byte(1) << 8 | byte(2)), '\0')};
    if (stream_.ReadAll(frame.payload.data(), frame.payload.size(), io::Soon()).bytes != frame.payload.size())
      return {};
    return frame;
  }
  // The next one of this type, or an end; frames before it go to passed().
  Frame Find(std::uint8_t type, std::optional<std::uint32_t> stream = {}, std::uint8_t flags = 0) {
    for (;;) {
      Frame frame = Next();
      if (frame.ended()) return frame;
      const bool fits = frame.type == type && (!stream.has_value() || frame.stream == *stream);
      if (fits && (frame.flags & flags) == flags) return frame;
      passed_.push_back(std::move(frame));
    }
  }
  Frame Await(std::uint8_t type, std::optional<std::uint32_t> stream = {}, std::uint8_t flags = 0) {
    Frame frame = Find(type, stream, flags);
    EXPECT_FALSE(frame.ended()) << "the connection has ended before a frame of type " << int{type};
    return frame;
  }
  // What has been passed over so far is forgotten; then whatever comes until the answers to two PINGs: the first one
  // may overtake what was made before it.
  std::vector<Frame> UntilPingAnswer() {
    passed_.clear();
    for (int i = 0; i < 2; ++i) {
      SendFrame(kPing, 0, 0, "answer!!");
      static_cast<void>(Await(kPing, 0, kAck));
    }
    return std::exchange(passed_, {});
  }
  void AwaitEnd() {
    while (!Next().ended()) {
    }
  }

  const std::vector<Frame>& passed() const { return passed_; }
  io::TcpStream& stream() { return stream_; }

 private:
  io::TcpStream& stream_;
  std::vector<Frame> passed_;
};

// For streams that fill soon: as little as the kernel gives.
inline void ShrinkSendBuffer(io::TcpStream& from) {
  const int size = 1;
  ::setsockopt(from.fd(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}
// Not with much to send both ways, which stands still for tens of seconds: a kernel without room drops what it has
// allowed, and the acknowledgements with it.
inline void ShrinkBuffers(io::TcpStream& from, io::TcpStream& to) {
  const int size = 1;
  ShrinkSendBuffer(from);
  ::setsockopt(to.fd(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

// A fiber: serves the one end; `client` is the other one.
class ServedConnection {
 public:
  explicit ServedConnection(Http2Server::Handler handler, const Http2Options& options = {},
                            io::Pair pair = io::ConnectedPair())
      : pair_(std::move(pair)),
        server_(std::move(handler), options),
        fiber_([this] { why_ = server_.Serve(Http2Transport(pair_.server)); }) {}
  ~ServedConnection() {
    if (!fiber_.Joinable()) return;
    static_cast<void>(pair_.client.Shutdown());
    fiber_.Join();
  }

  io::TcpStream& client() { return pair_.client; }
  io::Pair& pair() { return pair_; }
  const Http2Server& server() const { return server_; }
  // Waits until Serve() has returned; what it said.
  std::error_code Join() {
    EXPECT_TRUE(fiber_.Join(io::Soon()));
    return why_;
  }

 private:
  io::Pair pair_;
  Http2Server server_;
  std::error_code why_;
  Fiber fiber_;
};

// A TcpServer of an Http2Server, on a port of its own.
class ListeningServer {
 public:
  explicit ListeningServer(Http2Server::Handler handler, io::TcpServer::Options options = {})
      : http_(std::move(handler)),
        server_(Listen(), io::TcpServer::ConnectionHandler([this](io::TcpConnection& connection) {
                  EXPECT_FALSE(http_.Serve(Http2Transport(connection)));
                }),
                std::move(options)) {
    EXPECT_TRUE(server_.Start());
  }
  io::SocketAddress address() const { return server_.local_address(); }
  io::TcpServer& server() { return server_; }
  const Http2Server& http() const { return http_; }

 private:
  static io::TcpListener Listen() {
    io::TcpListener listener;
    EXPECT_FALSE(listener.Listen(io::OwnLoopback()));
    return listener;
  }

  Http2Server http_;
  io::TcpServer server_;
};

}  // namespace weft::interop

#endif  // WEFT_TESTS_INTEROP_HTTP2_FIXTURE_H_
