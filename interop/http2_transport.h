// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Transport: the byte stream below an HTTP/2 connection: TCP, TLS, or what has the same calls.
// Sample:
//     interop::Http2Transport plain(connection);             // prior knowledge, "h2c"; or of a TcpStream
//     interop::Http2Transport secure(tls, &connection);      // TLS after its handshake, with the ALPN "h2"
//
// One made of an io::TcpConnection learns of the server's drain (io/tcp_server.h). The stream outlives it, and nothing
// else reads or writes it. A handle: copies are of the same stream.
#ifndef WEFT_INTEROP_HTTP2_TRANSPORT_H_
#define WEFT_INTEROP_HTTP2_TRANSPORT_H_

#include <concepts>
#include <cstddef>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_stream.h"

namespace weft::interop {

// interop::TlsStream, of a TcpStream or of a TcpConnection.
template <class Stream>
concept Http2SecureStream = requires(Stream& stream, void* data, std::size_t size, Deadline deadline) {
  { stream.ReadRequest(data, size, deadline) } -> std::same_as<io::IoResult>;
  { stream.ReadSome(data, size, deadline) } -> std::same_as<io::IoResult>;
  { stream.AwaitRequest(deadline) } -> std::same_as<std::error_code>;
  { stream.WaitReadable(deadline) } -> std::same_as<std::error_code>;
  { stream.WriteSome(data, size, deadline) } -> std::same_as<io::IoResult>;
  { stream.ShutdownWrite(deadline) } -> std::same_as<std::error_code>;
  { stream.transport() } -> std::same_as<io::TcpStream&>;
};

class Http2Transport {
 public:
  // Over TCP, for clients and for servers without a drain.
  explicit Http2Transport(io::TcpStream& stream) : Http2Transport(&stream, &stream, nullptr, &kCallsOfTcp) {}
  // Over TCP, for servers.
  explicit Http2Transport(io::TcpConnection& connection)
      : Http2Transport(&connection.stream(), &connection.stream(), &connection, &kCallsOfTcp) {}
  // `connection`: that of which the stream was made.
  template <Http2SecureStream Stream>
  explicit Http2Transport(Stream& stream, io::TcpConnection* connection = nullptr)
      : Http2Transport(&stream, &stream.transport(), connection, &kCallsOf<Stream>) {}

  // `request`: the server's drain ends it, and its time-outs for idle connections.
  [[nodiscard]] io::IoResult Read(void* data, std::size_t size, Deadline deadline, bool request) const {
    return calls_->read(*this, data, size, deadline, request);
  }
  // The same without a buffer: returns when there is something to read. The stream gives back what it can meanwhile.
  [[nodiscard]] std::error_code Await(Deadline deadline, bool request) const {
    return calls_->await(*this, deadline, request);
  }
  // For a server's connection of an io::RequestHandler. From here on the two wait, as in other handlers.
  bool CanWaitWithoutFiber() const { return connection_ != nullptr; }
  void KeepFiber() const { connection_->KeepFiber(); }
  // Await() of a request without a wait: resource_unavailable_try_again, if the connection may go on waiting without a
  // fiber, until `until` at the latest. Otherwise it is Await(deadline), and the fiber is kept.
  [[nodiscard]] std::error_code AwaitWithoutFiber(Deadline deadline, Deadline until) const;

  // Some. With a size of 0: what the stream has kept of earlier writes.
  [[nodiscard]] io::IoResult Write(const void* data, std::size_t size, Deadline deadline) const {
    return calls_->write(*this, data, size, deadline);
  }
  // What was written goes out, then the end. May switch.
  void ShutdownWrite(Deadline deadline) const { calls_->shutdown_write(*this, deadline); }
  // Ends all calls, at once; reads still return what has come. Any thread.
  void Shutdown() const { static_cast<void>(socket_->Shutdown()); }
  // Whether the TcpServer drains; false without one.
  bool draining() const noexcept { return connection_ != nullptr && connection_->draining(); }

 private:
  struct Calls {
    io::IoResult (*read)(const Http2Transport&, void*, std::size_t, Deadline, bool);
    std::error_code (*await)(const Http2Transport&, Deadline, bool);
    io::IoResult (*write)(const Http2Transport&, const void*, std::size_t, Deadline);
    void (*shutdown_write)(const Http2Transport&, Deadline);
  };

  Http2Transport(void* stream, io::TcpStream* socket, io::TcpConnection* connection, const Calls* calls)
      : stream_(stream), socket_(socket), connection_(connection), calls_(calls) {}

  static io::IoResult ReadTcp(const Http2Transport& self, void* data, std::size_t size, Deadline deadline,
                              bool request) {
    return request && self.connection_ != nullptr ? self.connection_->ReadRequest(data, size, deadline)
                                                  : self.socket_->ReadSome(data, size, deadline);
  }
  static std::error_code AwaitTcp(const Http2Transport& self, Deadline deadline, bool request) {
    return request && self.connection_ != nullptr ? self.connection_->AwaitRequest(deadline)
                                                  : self.socket_->WaitReadable(deadline);
  }
  static io::IoResult WriteTcp(const Http2Transport& self, const void* data, std::size_t size, Deadline deadline) {
    return self.socket_->WriteSome(data, size, deadline);
  }
  static void ShutTcp(const Http2Transport& self, Deadline) { static_cast<void>(self.socket_->ShutdownWrite()); }

  template <class Stream>
  static io::IoResult ReadSecure(const Http2Transport& self, void* data, std::size_t size, Deadline deadline,
                                 bool request) {
    auto* const stream = static_cast<Stream*>(self.stream_);
    return request ? stream->ReadRequest(data, size, deadline) : stream->ReadSome(data, size, deadline);
  }
  template <class Stream>
  static std::error_code AwaitSecure(const Http2Transport& self, Deadline deadline, bool request) {
    auto* const stream = static_cast<Stream*>(self.stream_);
    return request ? stream->AwaitRequest(deadline) : stream->WaitReadable(deadline);
  }
  template <class Stream>
  static io::IoResult WriteSecure(const Http2Transport& self, const void* data, std::size_t size, Deadline deadline) {
    return static_cast<Stream*>(self.stream_)->WriteSome(data, size, deadline);
  }
  template <class Stream>
  static void ShutSecure(const Http2Transport& self, Deadline deadline) {
    static_cast<void>(static_cast<Stream*>(self.stream_)->ShutdownWrite(deadline));
  }

  static constexpr Calls kCallsOfTcp{&ReadTcp, &AwaitTcp, &WriteTcp, &ShutTcp};
  template <class Stream>
  static constexpr Calls kCallsOf{&ReadSecure<Stream>, &AwaitSecure<Stream>, &WriteSecure<Stream>, &ShutSecure<Stream>};

  void* stream_;
  io::TcpStream* socket_;
  io::TcpConnection* connection_;
  const Calls* calls_;
};

inline std::error_code Http2Transport::AwaitWithoutFiber(Deadline deadline, Deadline until) const {
  if (!connection_->LeaveFiber(until)) return Await(deadline, /*request=*/true);
  const std::error_code error = Await(deadline, /*request=*/true);
  if (error != std::errc::resource_unavailable_try_again) connection_->KeepFiber();
  return error;
}

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_TRANSPORT_H_
