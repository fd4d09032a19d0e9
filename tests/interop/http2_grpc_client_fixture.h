// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of Http2GrpcClient: GrpcServed, our own server of gRPC on a port; RawGrpcServer, a server that writes
// frames as the test says.
#ifndef WEFT_TESTS_INTEROP_HTTP2_GRPC_CLIENT_FIXTURE_H_
#define WEFT_TESTS_INTEROP_HTTP2_GRPC_CLIENT_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "weft/interop/http2_grpc.h"
#include "weft/interop/http2_grpc_client.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/tests/interop/http2_grpc_fixture.h"

namespace weft::interop {

// In place of a message of Protobuf; "!" cannot be parsed.
struct Note {
  std::string text;

  bool ParseFromArray(const void* data, int size) {
    text.assign(static_cast<const char*>(data), static_cast<std::size_t>(size));
    return text != "!";
  }
  std::size_t ByteSizeLong() const { return text.size(); }
  std::uint8_t* SerializeWithCachedSizesToArray(std::uint8_t* to) const {
    text.copy(reinterpret_cast<char*>(to), text.size());
    return to + text.size();
  }
};

// "/t.S/Echo" answers with the message, "/t.S/EchoAll" with each of several, "/t.S/Joined" with all in one,
// "/t.S/Count" with so many messages as the text says.
class GrpcServed {
 public:
  explicit GrpcServed(const Http2GrpcService::Options& options = {.max_message = 1 << 24})
      : service(options), http_(service.handler()), server_(Listen(), http_.ForTcpServer()) {
    EXPECT_TRUE(server_.Start());
    service.AddUnary<Note, Note>("/t.S/Echo", [](GrpcCall&, const Note& note, Note* reply) -> GrpcStatus {
      reply->text = note.text;
      return {};
    });
    service.Add("/t.S/EchoAll", [](GrpcCall& call) -> GrpcStatus {
      for (Note note; call.Read(&note);) {
        if (!call.Write(note)) break;
      }
      return {};
    });
    service.Add("/t.S/Joined", [](GrpcCall& call) -> GrpcStatus {
      Note all;
      for (Note note; call.Read(&note);) all.text += note.text;
      if (!call.Write(all)) return {GrpcCode::kAborted};
      return {};
    });
    service.Add("/t.S/Count", [](GrpcCall& call) -> GrpcStatus {
      Note note;
      if (!call.Read(&note)) return {GrpcCode::kInvalidArgument};
      for (int left = std::stoi(note.text); left > 0; --left) {
        if (!call.Write(Note{std::to_string(left)})) break;
      }
      return {};
    });
  }

  ~GrpcServed() { server_.Stop(io::Soon()); }

  std::string target() const { return address().ToString(); }
  io::SocketAddress address() const { return server_.local_address(); }
  // Calls that have begun.
  std::uint64_t begun() const { return http_.counts().requests; }

  Http2GrpcService service;

 private:
  static io::TcpListener Listen() {
    io::TcpListener listener;
    EXPECT_FALSE(listener.Listen(io::OwnLoopback()));
    return listener;
  }

  Http2Server http_;
  io::TcpServer server_;
};

// A connection of a RawGrpcServer, whose client has greeted.
class RawGrpcConnection {
 public:
  explicit RawGrpcConnection(io::TcpStream stream) : stream_(std::move(stream)), peer(&stream_) {
    char preface[24];
    EXPECT_EQ(stream_.ReadAll(preface, sizeof(preface), io::Soon()).bytes, sizeof(preface));
    static_cast<void>(peer.Await(kSettings));
    peer.SendFrame(kSettings, 0, 0);
    peer.SendFrame(kSettings, kAck, 0);
  }

  // The header fields of an answer: 200 and the type of gRPC, and `more`.
  void Begin(std::uint32_t stream, std::string_view more = {}, bool end = false) {
    const auto flags = static_cast<std::uint8_t>(kEndHeaders | (end ? kEndStream : 0));
    peer.SendFrame(kHeaders, flags, stream,
                   std::string("\x88").append(Literal("content-type", "application/grpc")).append(more));
  }
  void Message(std::uint32_t stream, std::string_view text) { peer.SendFrame(kData, 0, stream, MessageOf(text)); }
  void End(std::uint32_t stream, std::string_view status = "0", std::string_view more = {}) {
    peer.SendFrame(kHeaders, kEndHeaders | kEndStream, stream, Literal("grpc-status", status).append(more));
  }
  void Answer(std::uint32_t stream, std::string_view text) {
    Begin(stream);
    Message(stream, text);
    End(stream);
  }
  // An answer with nothing but a status.
  void Refuse(std::uint32_t stream, std::string_view status, std::string_view more = {}) {
    Begin(stream, Literal("grpc-status", status).append(more), /*end=*/true);
  }
  void GoAway(std::uint32_t last_stream, std::uint32_t code = kNoError) {
    peer.SendFrame(kGoAway, 0, 0, Number32(last_stream).append(Number32(code)));
  }
  // The body of a request, to its end.
  std::string AwaitBody(std::uint32_t stream) {
    std::string body;
    for (;;) {
      const Frame frame = peer.Await(kData, stream);
      body += frame.payload;
      if (frame.ended() || (frame.flags & kEndStream) != 0) return body;
    }
  }
  void Close() { stream_.Close(); }

 private:
  io::TcpStream stream_;

 public:
  RawPeer peer;
};

class RawGrpcServer {
 public:
  RawGrpcServer() { EXPECT_FALSE(listener_.Listen(io::OwnLoopback())); }
  std::string target() const { return listener_.local_address().ToString(); }
  io::SocketAddress address() const { return listener_.local_address(); }
  std::unique_ptr<RawGrpcConnection> Accept() {
    io::TcpStream stream;
    EXPECT_FALSE(listener_.Accept(&stream, io::Soon()));
    return std::make_unique<RawGrpcConnection>(std::move(stream));
  }

 private:
  io::TcpListener listener_;
};

}  // namespace weft::interop

#endif  // WEFT_TESTS_INTEROP_HTTP2_GRPC_CLIENT_FIXTURE_H_
