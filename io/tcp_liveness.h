// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TcpKeepAlive: when TCP takes a peer for gone that has vanished without a word: it lost its power, its network, or its
// way through a firewall. There are two such peers:
//
//     one that should send        The socket has nothing to send, so TCP has nothing to miss: a read waits for ever.
//                                 Keep-alive probes ask the peer: TcpStream::SetKeepAlive().
//     one that should acknowledge TCP sends the bytes again for some 15 minutes (net.ipv4.tcp_retries2) before it gives
//                                 up: TcpStream::SetUserTimeout() says how long. Where it is set, it also says when
//                                 keep-alive gives up, instead of `probes`.
//
// Then calls of the stream end with timed_out. A peer that is alive but silent answers probes: time-outs of the
// application end it (TcpStream::SetTimeouts(), TcpServer::Options::idle_timeout). A listener hands both on to its
// connections, without a system call for each. Both are options of TcpServer, ConnectToHost() and ConnectionPool.
#ifndef WEFT_IO_TCP_LIVENESS_H_
#define WEFT_IO_TCP_LIVENESS_H_

#include <chrono>
#include <system_error>

namespace weft::io {

// With these a peer is gone after two minutes of silence. At most 32,767 s, 32,767 s and 127.
struct TcpKeepAlive {
  // Whether the kernel sends probes.
  bool enabled = true;
  std::chrono::seconds idle{60};      // silence before the first probe
  std::chrono::seconds interval{10};  // between two probes
  int probes = 6;                     // without an answer: the peer is gone
};

// For a TcpListener or a TcpStream: sets keep_alive if it is enabled, and user_timeout unless it is 0. Unix sockets
// have neither, which is no error. Errors: as those two calls.
template <class Socket>
[[nodiscard]] std::error_code SetLiveness(Socket* socket, const TcpKeepAlive& keep_alive,
                                          std::chrono::milliseconds user_timeout) {
  std::error_code error;
  if (keep_alive.enabled) error = socket->SetKeepAlive(keep_alive);
  if (!error && user_timeout.count() != 0) error = socket->SetUserTimeout(user_timeout);
  return error == std::errc::operation_not_supported ? std::error_code() : error;
}

}  // namespace weft::io

#endif  // WEFT_IO_TCP_LIVENESS_H_
