// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TcpListener: accepts connections, TCP or Unix. For the usual server there is TcpServer (io/tcp_server.h).
//
// Who may call: as io/reactor/descriptor.h; several fibers may accept from one listener.
// Without descriptors or memory for another connection Accept() logs it (once a second), waits a little and tries
// again; new connections wait in the kernel meanwhile. It skips connections that have gone before it accepts them.
#ifndef WEFT_IO_TCP_LISTENER_H_
#define WEFT_IO_TCP_LISTENER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_liveness.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/fiber_event.h"

namespace weft::io {

class SocketFile;

class TcpListener {
 public:
  // How it listens.
  struct Options {
    // Connections that the kernel keeps until they are accepted; its own limit is net.core.somaxconn.
    int backlog = 4096;
    // Several listeners on one port, each of which gets a share of the connections.
    bool reuse_port = false;
    // The socket will be passed to another process, which accepts from it, too: see StopHandshakes().
    bool shared = false;
  };

  // Not open: Listen() or Adopt() comes first.
  TcpListener();
  // The other one is not open then. No fiber is in a call of either.
  TcpListener(TcpListener&& other) noexcept;
  TcpListener& operator=(TcpListener&& other) noexcept;
  ~TcpListener();

  // Replaces its former socket. Port 0: the kernel chooses (local_address()).
  // A Unix socket's file is removed when the listener is closed or destroyed, unless others may have the socket (as in
  // StopHandshakes()). If the path is a socket that refuses connections, as a killed process leaves it, it is replaced;
  // a live one sees a connection that ends at once. Anything else at the path is address_in_use, and stays. Another
  // process that begins to listen in the same directory is waited for, a second at most; after a wait in vain nothing
  // is replaced, and the file is not removed.
  [[nodiscard]] std::error_code Listen(const SocketAddress& address, const Options& options);
  [[nodiscard]] std::error_code Listen(const SocketAddress& address) { return Listen(address, Options()); }

  // Takes over a listening socket of another origin (systemd's: net/systemd_listeners.h), replacing the former one. It
  // becomes non-blocking, which all who share it see, and is closed on exec. Errors, which leave `fd` as it was:
  // bad_file_descriptor; not_a_socket; wrong_protocol_type: no stream socket; address_family_not_supported: neither IP
  // nor Unix; protocol_not_supported: IP, but not TCP; invalid_argument: it does not listen.
  [[nodiscard]] std::error_code Adopt(int fd);
  // The same without taking it over.
  [[nodiscard]] static std::error_code CheckAdoptable(int fd);

  // Waits for a connection. Small writes on it go out at once (TCP_NODELAY).
  [[nodiscard]] std::error_code Accept(TcpStream* stream, Deadline deadline = {});

  // For the connections that the kernel makes from now on (io/tcp_liveness.h); those that wait already stay as they
  // are. After Listen() or Adopt(). Errors: of setsockopt(2); a Unix socket says operation_not_supported.
  std::error_code SetKeepAlive(const TcpKeepAlive& keep_alive);
  std::error_code SetUserTimeout(std::chrono::milliseconds timeout);

  // From now until Close() the kernel drops SYN segments, as if the network had lost them: no handshake begins, and
  // those that have begun go on. So a server that ends can accept the last connections; one that the kernel made after
  // its last Accept() would be reset, with its request. Clients send a dropped SYN again after a second.
  // Others that have the socket would get no connections either. So this refuses an adopted socket, one opened with
  // Options::shared or before a fork(), and one that exec does not close. Beside no other call.
  // Errors: setsockopt(2)'s; operation_canceled: not open; operation_not_supported: such a socket, or a Unix one.
  std::error_code StopHandshakes();

  // Fibers in Accept() get operation_canceled. False: it was not open. Any thread.
  bool Close();
  // Whether it listens. Any thread.
  bool IsOpen() const { return descriptor_.IsOpen(); }
  // Where it listens, with the port that the kernel has chosen; (none) if it does not.
  SocketAddress local_address() const;
  // For setsockopt() and the like. -1: not open.
  int fd() const { return descriptor_.fd(); }

 private:
  friend struct detail::SelectAccess;

  void Take(Descriptor socket, std::unique_ptr<SocketFile> file, bool shared, std::uint32_t forks_before);
  bool MayBeShared() const;
  void RemoveFile() const;  // before the socket is closed

  Descriptor descriptor_;
  std::unique_ptr<SocketFile> file_;  // that it has made; changed by Take() and operator= only
  std::unique_ptr<FiberEvent> closed_;
  bool shared_ = false;
  bool drops_syns_ = false;
  std::uint32_t forks_before_ = 0;  // that the process knew of before it opened the socket
};

// A listener listens on what its address says; the name is for readers.
using UnixListener = TcpListener;

}  // namespace weft::io

#endif  // WEFT_IO_TCP_LISTENER_H_
