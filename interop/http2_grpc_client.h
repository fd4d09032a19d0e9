// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2GrpcClient: calls of gRPC by Http2Client, without gRPC's library: it finds the servers, keeps connections to
// them, and calls from any fiber. For programs that have nghttp2, by the CMake target weft::http2.
// Sample:
//     interop::Http2GrpcClient client("greeter.internal:50051");
//     EchoRequest request;
//     EchoReply reply;
//     interop::GrpcStatus status = client.Call("/weft.examples.Greeter/Echo", request, &reply, {.deadline = 2s});
//     if (!status.ok()) Log(static_cast<int>(status.code), status.message);
//     interop::GrpcClientCall call = client.Open("/weft.examples.Greeter/EchoAll", {.deadline = 10s});
//     if (call.Write(request)) call.WritesDone();           // messages both ways, as many as there are
//     while (call.Read(&reply)) Log(reply.payload());
//     status = call.Finish();
// For gRPC's own library: interop/grpc_client.h. The server's side: interop/http2_grpc.h.
//
// Messages are Protobuf's, or whatever has its ParseFromArray(), ByteSizeLong() and SerializeWithCachedSizesToArray();
// or bytes. Those of the server may be compressed by gzip; ours are not.
//
// Servers. Each target "host:port" is one server, reached at the first address that answers; with `each_address` each
// address of the name is a server, and the name is looked up again after a while, and when a connection is lost. Each
// call goes to one of them (`balance`), but for those that a health check (`health_service`) has found not to serve,
// and those that a circuit breaker leaves alone: so many connections or answers in a row have failed. An answer of
// gRPC, whatever it says, is no failure. Connections are made when they are needed, and kept.
//
// Again. A call that a server has not begun, says HTTP/2 (GOAWAY, REFUSED_STREAM, no connection), is made again at
// once, at another server if there is one, three times at most: nothing has happened yet. What else is made again, says
// GrpcCallPolicy. A stream can be made again until its answer begins, while its messages fit in
// Http2Options::send_buffer.
//
// Ends. The deadline, or that of the caller's scopes if that is earlier, goes to the server, and ends the call:
// kDeadlineExceeded. A cancelled fiber's call ends with kCancelled; nothing here throws FiberCancelled. Either resets
// the stream, which tells the server. An answer that is none of gRPC, or breaks off, has the status that gRPC's
// documents say: kUnavailable if its connection was lost, kUnknown without grpc-status, kInternal for bad messages,
// kResourceExhausted for too large ones, and so on. Keep-alive: http2.ping_after, by PINGs while there are calls.
// gRPC's servers want 5 minutes or more between two.
//
// Who may call: any fiber (may switch) and any thread (is blocked), while the runtime runs. A GrpcClientCall: one reads
// while another one writes; Cancel() is for anybody. All calls end before the client is destroyed; its destructor waits
// for its connections to end. Memory of a call: its messages, and max_message for an answer as far as it has come.
#ifndef WEFT_INTEROP_HTTP2_GRPC_CLIENT_H_
#define WEFT_INTEROP_HTTP2_GRPC_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/interop/http2_grpc_status.h"  // IWYU pragma: export
#include "weft/interop/http2_headers.h"
#include "weft/interop/http2_options.h"
#include "weft/interop/http2_transport.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_stream.h"
#include "weft/net/budgets.h"
#include "weft/net/circuit_breaker.h"
#include "weft/net/load_balancer.h"
#include "weft/net/resolver.h"
#include "weft/net/retry.h"

namespace weft::interop {

class GrpcCaller;
class GrpcClientStream;

// Which calls are made again after a failure, or a second time when they are slow.
struct GrpcCallPolicy {
  // With max_attempts above 1 a call that has failed with one of `codes` is made again after a pause. A stream, too, if
  // its answer has not begun. Without a budget of its own it has the client's.
  RetryPolicy retry{.max_attempts = 1};
  // With max_attempts above 1 unary calls are not made again, but beside: at another server, when no answer has come
  // for `delay`, or one of `codes`. The first answer counts, the others are cancelled.
  HedgeOptions hedge{.max_attempts = 1};
  // What may be made again. kOk does not count.
  std::set<GrpcCode> codes{GrpcCode::kUnavailable};
};

// What goes with one call.
struct GrpcCallOptions {
  // Of the whole, with all that is made again.
  Deadline deadline = {};
  // Fields that go to the server: as http2_headers.h, but no "grpc-..." or "content-type". Those whose names end with
  // "-bin" have base64.
  Http2Headers metadata = {};
  // For BalancePolicy::kConsistentHash. Good until the call's end.
  std::string_view key = {};
  // In place of the client's. Outlives the call.
  const GrpcCallPolicy* policy = nullptr;
};

// What comes with an answer beside its message.
struct GrpcAnswer {
  // The header fields of the answer, with those of HTTP/2 and gRPC. Empty: there was none.
  Http2Headers metadata;
  // Those after the last message. An answer that has only one section of fields, with its status, has it in both.
  Http2Headers trailers;
  // Which server has answered, or failed last.
  std::string server;
  std::size_t attempts = 0;  // by the policy; 1: it was made once
};

// A server that a connection is to be made to.
struct GrpcPeer {
  // Of the target.
  std::string host;
  std::string service;
  // With each_address: its address; otherwise `host` is to be looked up.
  std::optional<io::SocketAddress> address;
  io::Resolver* resolver = nullptr;  // for the look-up; nullptr: the process's

  // For people: "host:service", with the address if there is one.
  std::string ToString() const;
  // By TCP, to the address, or to the first address of the name that answers.
  [[nodiscard]] std::error_code Connect(io::TcpStream* stream, Deadline deadline) const;
};

// The byte stream below a connection, for GrpcConnect: it owns what it reads and writes.
class GrpcLink {
 public:
  // For derived classes.
  GrpcLink() = default;
  // Ends the stream, whose connection has gone.
  virtual ~GrpcLink() = default;
  GrpcLink(const GrpcLink&) = delete;
  GrpcLink& operator=(const GrpcLink&) = delete;
  // Of the stream, connected.
  virtual Http2Transport transport() = 0;
  // ":scheme" of requests: "http" or "https".
  virtual std::string_view scheme() const = 0;
};

// Makes a connection; called in a fiber of the client, several at once. For TLS: GrpcOverTls() in http2_over_tls.h.
using GrpcConnect =
    std::function<std::error_code(const GrpcPeer& peer, Deadline deadline, std::unique_ptr<GrpcLink>* link)>;

// What an Http2GrpcClient is made from.
struct Http2GrpcClientOptions {
  // --- Servers ---
  // Which of several servers a call goes to.
  io::BalancePolicy balance = io::BalancePolicy::kRoundRobin;
  // Each address of a name is a server, and not the name.
  bool each_address = false;
  // How old an answer of the look-up may be. After a failure it is asked anew, but not within a second.
  std::chrono::milliseconds resolve_after{30'000};
  io::Resolver* resolver = nullptr;  // nullptr: the process's. Outlives the client.
  // The service that is watched for by gRPC's health protocol ("": the whole server); none: no health checks. A server
  // that does not have the protocol serves.
  std::optional<std::string> health_service{};
  // When a server is left alone.
  io::CircuitBreaker::Options breaker{};

  // --- Connections ---
  // Empty: TCP in plain text.
  GrpcConnect connect{};
  // The look-up included, and the handshakes below HTTP/2.
  std::chrono::milliseconds connect_timeout{5'000};
  // At most so many to a server. A further one is made when each has calls_per_connection calls.
  std::size_t connections_per_server = 1;
  std::size_t calls_per_connection = 100;
  // ":authority" of requests; empty: the target.
  std::string authority{};
  // Limits and time-outs of each connection. send_buffer is how much of a stream's messages is kept to be sent again.
  // Streams that nobody reads hold stream_window of connection_window each, until nothing comes for any call: with
  // these, 128 streams.
  Http2Options http2{.connection_window = 8 << 20, .ping_without_calls = false};

  // --- Calls ---
  std::size_t max_message = 4 << 20;  // that is taken of a server
  // Of calls that name no other.
  GrpcCallPolicy policy{};
  // Of all calls that are made again or twice, unless their policy has another one.
  io::RetryBudget::Options budget{};
};

// A call of which messages are streamed: a stream of the client, of the server, or of both. Move only.
// Reads and writes that return false: the call has ended, and Finish() says how.
class GrpcClientCall {
 public:
  GrpcClientCall();  // of no call
  // Gives it up, if it has not ended.
  ~GrpcClientCall();
  GrpcClientCall(GrpcClientCall&& other) noexcept;
  GrpcClientCall& operator=(GrpcClientCall&& other) noexcept;

  // Sends a message. True does not say that it has arrived.
  template <class Message>
  [[nodiscard]] bool Write(const Message& message);
  [[nodiscard]] bool WriteBytes(std::string_view message);
  // No more messages come. Waits only while the call is made again.
  void WritesDone();

  // The server's next message. False: there is none, or the call has failed.
  template <class Message>
  [[nodiscard]] bool Read(Message* message);
  [[nodiscard]] bool ReadBytes(std::string_view* message);  // *message is good until the next read

  // Until the answer has begun. False: the call has ended without.
  [[nodiscard]] bool AwaitMetadata();
  // After that, or after the first Read().
  const Http2Headers& metadata() const;

  // WritesDone(), if that has not been said; reads what is left, and drops it; waits for the status. Then nobody reads
  // or writes. To leave a long answer: Cancel() before.
  GrpcStatus Finish();
  // After Finish().
  const GrpcAnswer& answer() const;

  // The call ends with kCancelled, if it has not ended. Any fiber and thread, at any time; does not wait for the
  // server.
  void Cancel();
  // Whether it has a call, also one that has ended.
  bool IsOpen() const noexcept { return stream_ != nullptr; }

 private:
  friend class Http2GrpcClient;
  explicit GrpcClientCall(std::unique_ptr<GrpcClientStream> stream) noexcept;
  // A message behind its head. Empty: it is larger than gRPC allows.
  template <class Message>
  static std::string Framed(const Message& message) {
    const std::size_t size = message.ByteSizeLong();
    std::string framed = FrameOf(size);
    if (framed.empty()) return framed;
    message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(framed.data() + (framed.size() - size)));
    return framed;
  }
  static std::string FrameOf(std::size_t size);  // room for so many bytes behind their head
  bool WriteFramed(std::string_view framed);
  void FailUnparsable();
  GrpcClientStream& Checked(const char* caller) const;

  std::unique_ptr<GrpcClientStream> stream_;
};

class Http2GrpcClient {
 public:
  // The type above, under a shorter name.
  using Options = Http2GrpcClientOptions;

  // `targets`: "host:port", where the host is a name or an address ("[::1]:443"), or "unix:<path>"; several by commas.
  // Connects to nobody yet. A text that is none of these ends the process.
  explicit Http2GrpcClient(std::string_view targets, Options options = {});
  // When no call is left (else the process ends).
  ~Http2GrpcClient();
  Http2GrpcClient(const Http2GrpcClient&) = delete;
  Http2GrpcClient& operator=(const Http2GrpcClient&) = delete;

  // A unary call: one message each way. `path`: "/package.Service/Method". *reply counts only if the status is
  // kOk. *answer, if there is one, is set in any case.
  template <class Request, class Reply>
  [[nodiscard]] GrpcStatus Call(std::string_view path, const Request& request, Reply* reply,
                                const GrpcCallOptions& options = {}, GrpcAnswer* answer = nullptr);
  [[nodiscard]] GrpcStatus CallBytes(std::string_view path, std::string_view request, std::string* reply,
                                     const GrpcCallOptions& options = {}, GrpcAnswer* answer = nullptr);
  // A call with a stream of messages, of either side or of both. It may wait for a connection. If it fails, the call's
  // Finish() says why.
  [[nodiscard]] GrpcClientCall Open(std::string_view path, const GrpcCallOptions& options = {});

  // What it has counted since it was made.
  struct Counts {
    // Calls that were made, of all kinds.
    std::uint64_t calls = 0;
    std::uint64_t attempts = 0;  // without those that a server has not begun
    std::uint64_t replayed = 0;  // those: calls made again, since a server had not begun them
    // Connections that were made, and that could not be.
    std::uint64_t connected = 0;
    std::uint64_t not_connected = 0;
    std::size_t servers = 0;  // now
  };
  // Any fiber and thread; a snapshot.
  Counts counts() const;

 private:
  using Parse = bool (*)(void* reply, std::string_view message);
  // `framed`: the message and its head; empty, if it is too large.
  GrpcStatus CallFramed(std::string_view path, std::string_view framed, Parse parse, void* reply,
                        const GrpcCallOptions& options, GrpcAnswer* answer);

  const std::unique_ptr<GrpcCaller> caller_;
};

template <class Message>
bool GrpcClientCall::Write(const Message& message) {
  return WriteFramed(Framed(message));
}

template <class Message>
bool GrpcClientCall::Read(Message* message) {
  std::string_view bytes;
  if (!ReadBytes(&bytes)) return false;
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return true;
  FailUnparsable();
  return false;
}

template <class Request, class Reply>
GrpcStatus Http2GrpcClient::Call(std::string_view path, const Request& request, Reply* reply,
                                 const GrpcCallOptions& options, GrpcAnswer* answer) {
  const Parse parse = [](void* to, std::string_view message) {
    return static_cast<Reply*>(to)->ParseFromArray(message.data(), static_cast<int>(message.size()));
  };
  return CallFramed(path, GrpcClientCall::Framed(request), parse, reply, options, answer);
}

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_GRPC_CLIENT_H_
