// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions that all sockets share, and the file of a Unix socket.
//
// SocketFile: the file of a Unix socket that listens, or receives datagrams. Its maker removes it; one that was left
// behind is taken over.
//
//     a dead socket  --refuses a connection: unlink()-->  no file  --bind(), listen()-->  ours  --Remove()-->  no file
//
// A listener refuses connections between its bind() and its listen(), too. So both, and the look at a file that is
// there, happen under a lock on the directory (flock(2)): of several processes that start at once, one gets the path.
// Without that lock (no permission to read the directory, a file system that has none, somebody who keeps it) nothing
// is taken over, and a file that is there is an error. A file that is made while somebody else keeps the lock stays:
// the other may have taken it over already, and what is then found at the path is the other's.
//
// Invariants
//   SOF1  Remove() removes no other's file. It compares device and inode; a socket that is open keeps its inode, so
//         nobody else is given that number. It does so once: of two Close() at once the second one ends without it,
//         and the slot of the descriptor (FD4) keeps the socket open until the first one is done.
//   SOF2  Only a socket that refuses connections is removed, and under the lock. A program that does not take the lock
//         may put another file in its place right before the unlink(); nothing prevents that.
//   SOF3  What others may have keeps its file: after a fork() either side may go on, and so may a program that was
//         given the socket over an exec().
// Abstract names have no file. Any thread; may wait for the lock.
// Rejected: a lock file beside the socket (it stays); an abstract name as the lock (anybody can take it, and it holds
// in one network namespace only); binding to another name first, and renaming (getsockname() tells it for ever).
#ifndef WEFT_IO_SOCKET_SOCKET_H_
#define WEFT_IO_SOCKET_SOCKET_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_liveness.h"

namespace weft::io {

// Opens a non-blocking socket that exec closes; `type` is SOCK_STREAM or SOCK_DGRAM.
[[nodiscard]] std::error_code OpenSocket(int family, int type, Descriptor* socket);

// Whether a TCP socket is connected to itself. A connect() to a port of this machine on which nobody listens may be
// given that port as its own, and then meets itself; nobody could listen there as long as it is open.
bool IsConnectedToItself(int fd) noexcept;

// Connects and waits until it is connected. Fiber or thread. One that meets itself is refused; the caller closes it.
[[nodiscard]] std::error_code ConnectSocket(Descriptor* socket, const SocketAddress& address, Deadline deadline);

// Counts the forks of this process and of those that it was forked from. If the count has changed since a socket was
// opened, another process may have that socket, too.
std::uint32_t ForksSoFar() noexcept;

std::error_code SetOption(int fd, int level, int option, int value);

// For TcpStream and TcpListener.
std::error_code SetKeepAlive(Descriptor* socket, const TcpKeepAlive& keep_alive);
std::error_code SetUserTimeout(Descriptor* socket, std::chrono::milliseconds timeout);

// (none): the socket is closed, or not connected.
SocketAddress LocalAddress(const Descriptor& socket);
SocketAddress PeerAddress(const Descriptor& socket);

class SocketFile {
 public:
  // Listen() binds and listens, Bind() only binds. `forks_before`: ForksSoFar() before the socket was opened. *file
  // becomes the file that was made; nullptr for an address without a file, and after an error.
  [[nodiscard]] static std::error_code Listen(int fd, const SocketAddress& address, int backlog,
                                              std::uint32_t forks_before, std::unique_ptr<SocketFile>* file);
  [[nodiscard]] static std::error_code Bind(int fd, const SocketAddress& address, std::uint32_t forks_before,
                                            std::unique_ptr<SocketFile>* file);

  // Of `socket`, before it is closed (SOF1). Nothing, if it is closed already, and the second time.
  void Remove(const Descriptor& socket) const noexcept;

 private:
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    bool is_socket = false;  // false: there is no file, or another one
    friend bool operator==(const Identity&, const Identity&) = default;
  };

  class DirectoryLock;

  SocketFile(std::string path, Identity identity, std::uint32_t forks_before)
      : path_(std::move(path)), identity_(identity), forks_before_(forks_before) {}

  static std::error_code BindUnder(const DirectoryLock& lock, int type, int fd, const SocketAddress& address,
                                   std::uint32_t forks_before, std::unique_ptr<SocketFile>* file);
  static Identity Look(const std::string& path) noexcept;
  // Removes the file of a dead socket. False: the path has a live socket or no socket, or the file cannot be removed.
  static bool RemoveDead(int type, const SocketAddress& address, const std::string& path) noexcept;
  void RemoveOurs() const noexcept;

  const std::string path_;
  const Identity identity_;
  const std::uint32_t forks_before_;
  mutable std::atomic<bool> is_removed_{false};  // relaxed: it only says who does it
};

}  // namespace weft::io

#endif  // WEFT_IO_SOCKET_SOCKET_H_
