// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TcpServer: accepts connections and runs a handler for each in a fiber of its own.
// Sample:
//     io::TcpListener listener;
//     if (auto error = listener.Listen(*io::SocketAddress::Parse("0.0.0.0:8080"))) return error;
//     io::TcpServer server(std::move(listener), [](io::TcpStream& stream) { ... });  // ends: the connection is closed
//     if (!server.Start()) ...
//     ...
//     server.Stop(5s);
//
// Who may call: Start(), Stop() and the destructor: one fiber or thread at a time, but not a handler. counts(),
// local_address(): any.
// Many fibers call the handler at the same time. An exception that leaves it is logged, and ends only that connection.
//
// Stop() is graceful. It accepts no more connections. Handlers that read get what has come and then the end of the
// stream: those that wait for a next request end, and others answer the one that they have. At the deadline it cancels
// the handlers that still run, each with all that it has called and all fibers of its scopes (sync/cancel_scope.h), and
// shuts their connections down both ways. It returns when all handlers have returned. So a handler that shares locals
// with fibers that it has started has them in a FiberScope, or waits for them under a shield.
// To end a request whose client has gone: io/cancel_on_hangup.h.
#ifndef WEFT_IO_TCP_SERVER_H_
#define WEFT_IO_TCP_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "weft/base/deadline.h"
#include "weft/base/intrusive_list.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::io {

class TcpServer {
 public:
  using Handler = std::function<void(TcpStream&)>;

  struct Options {
    // The most connections at once; more wait in the kernel. 0: no limit.
    std::size_t max_connections = 0;
    // Called for each connection, in the fiber that accepts. False: resets it at once. Empty: accepts all.
    std::function<bool()> admit{};
  };

  TcpServer(TcpListener listener, Handler handler, Options options);
  TcpServer(TcpListener listener, Handler handler);
  // Stop() with a deadline that has passed.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // Once. False: the runtime starts no more fibers.
  [[nodiscard]] bool Start();
  // Returns when the last handler has returned; further calls return at once. Without a deadline it cancels no handler
  // and shuts no connection down. A cancellation point; what it then leaves running ends with the next call, or with
  // the destructor.
  void Stop(Deadline drain_until = {});

  SocketAddress local_address() const { return local_address_; }
  struct Counts {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;  // by Options::admit, or because no fiber could be started
    std::size_t open = 0;       // connections whose handlers run
  };
  Counts counts() const;

 private:
  struct Connection {
    TcpStream stream;
    CancelScope scope;  // around its handler
    base::ListHook hook;
  };

  void AcceptAll();
  bool WaitForCapacity();
  void Serve(Connection* connection);
  void End(Connection* connection);
  bool AllEnded() const { return !accepting_ && open_ == 0; }

  const Handler handler_;
  const Options options_;
  TcpListener listener_;
  SocketAddress local_address_;

  mutable FiberMutex mutex_;
  FiberConditionVariable changed_;  // a connection has ended, or the server stops
  base::IntrusiveList<Connection, &Connection::hook> connections_;
  std::size_t open_ = 0;
  bool accepting_ = false;
  bool stopping_ = false;
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace weft::io

#endif  // WEFT_IO_TCP_SERVER_H_
