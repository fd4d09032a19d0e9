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
// Who may call: Start(), StopAccepting(), Stop() and the destructor: one fiber or thread at a time, but not a handler.
// counts(), local_address(): any.
// Many fibers call the handler at the same time. An exception that leaves it is logged, and ends only that connection.
//
// Stop() drains:
//
//     accepting --Stop()--> accepts what waits in the kernel, closes the listener; ends idle connections
//               --no connection is left--> ends
//               --the deadline--> cancels the handlers, shuts their connections down --they have returned--> ends
//
// What is idle the handler says: it takes a TcpConnection (io/tcp_connection.h), and waits for a request by
// ReadRequest(). It is ended there when it has waited for Options::idle_at_stop of the drain, in which a busy client's
// next request comes. A client that is never idle for so long is ended after Options::first_request_at_stop of the
// drain, at the next wait for which no request has come. A connection that has sent no request yet has
// first_request_at_stop from its acceptance. Requests that have begun are read to their end and answered.
//
// A handler that takes a TcpStream says nothing. After idle_at_stop of the drain its reads get what has come and then
// the end of the stream: a handler that waits for a next request ends, and another answers the request that it has. On
// a TCP connection that has sent nothing yet, or has sent something since the last answer, that is put off for
// first_request_at_stop, so that the request may come to its end.
//
// The handler may close the stream, but not move from it or assign to it: Stop() uses it at the same time.
//
// At the deadline all handlers that still run are cancelled, each with all that it has called and all fibers of its
// scopes (sync/cancel_scope.h), and their connections are shut down both ways. Stop() returns when all handlers have
// returned. So a handler that shares locals with fibers that it has started has them in a FiberScope, or waits for them
// under a shield; and one that shields itself from cancellation for long holds Stop() up.
// To end a request whose client has gone: io/cancel_on_hangup.h.
//
// Invariants
//   TV1  A connection that the kernel has made before the last look at the listener is accepted, and its handler runs;
//        unless the deadline of Stop() passes before, or the process has no descriptors. The listener closes right
//        after that look; what comes between the two is reset, unless another process has the socket, too. The look
//        waits for no handler: Options::max_connections does not count any more.
//   TV2  After the deadline (cut_) no connection is added, and all that are there are cancelled once: both under the
//        lock.
#ifndef WEFT_IO_TCP_SERVER_H_
#define WEFT_IO_TCP_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "weft/base/deadline.h"
#include "weft/base/intrusive_list.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::io {

class TcpServer {
 public:
  using Handler = std::function<void(TcpStream&)>;
  using ConnectionHandler = std::function<void(TcpConnection&)>;

  struct Options {
    // The most connections at once; more wait in the kernel. 0: no limit. Stop() accepts those that wait, too: it would
    // otherwise have to keep the listener open, and the clients that it ends would come back to it.
    std::size_t max_connections = 0;
    // Called for each connection, in the fiber that accepts. False: resets it at once. Empty: accepts all. Cancelled at
    // the deadline of Stop(); an exception that leaves it is logged, and means false.
    std::function<bool()> admit{};
    // How the fiber of each connection is started: its group, name and stack. As it is, the connections take the groups
    // in turn, wherever they were accepted.
    FiberAttributes connection_fiber{.scheduling_group = kUnspecifiedSchedulingGroup};
    // For Stop(), as above. Clients that have no request in flight notice neither.
    std::chrono::milliseconds first_request_at_stop{1000};
    std::chrono::milliseconds idle_at_stop{100};
  };

  TcpServer(TcpListener listener, ConnectionHandler handler, Options options);
  TcpServer(TcpListener listener, ConnectionHandler handler);
  TcpServer(TcpListener listener, Handler handler, Options options);
  TcpServer(TcpListener listener, Handler handler);
  // Stop() with a deadline that has passed.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // Once. False: the runtime starts no more fibers.
  [[nodiscard]] bool Start();
  // The beginning of Stop(), for a server that tells its clients before it stops: accepts what waits, closes the
  // listener and returns; connections go on. False: the deadline has passed before, while Options::admit waited; it is
  // done later. A cancellation point, as Stop().
  bool StopAccepting(Deadline deadline = {});
  // Returns when the last handler has returned; further calls return at once. Without a deadline it cancels no handler
  // and shuts no connection down. A cancellation point; what it then leaves running ends with the next call, or with
  // the destructor.
  void Stop(Deadline drain_until = {});

  SocketAddress local_address() const { return local_address_; }
  struct Counts {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;  // by Options::admit; or no fiber could be started, or the deadline of Stop() had passed
    std::size_t open = 0;       // connections whose handlers run
  };
  Counts counts() const;

 private:
  using TimePoint = Deadline::TimePoint;

  struct Connection {
    explicit Connection(const std::atomic<bool>* draining) : connection(draining) {}
    TcpConnection connection;
    CancelScope scope;  // around its handler
    TimePoint accepted_at;
    bool told = false;  // that it ends when it is idle; guarded by the server's lock
    base::ListHook hook;
  };

  void AcceptAll();
  // False: no more. `in_scope`: waits, until StopAcceptingLocked() cancels it.
  bool AcceptOne(bool in_scope);
  // As above, and what was accepted.
  bool Accept(TcpStream* stream, Deadline deadline);
  bool Admits();
  // False: the deadline of Stop() has passed.
  bool Add(Connection* connection);
  bool WaitForCapacity();
  void Serve(Connection* connection);
  void End(Connection* connection);

  void CheckCanStop(const char* caller) const;

  // Under the lock.
  bool AllEnded() const { return !accepting_ && open_ == 0; }
  void StopAcceptingLocked();
  // Ends connections that are idle, or will when they are, as far as it is time; returns when the next one is due.
  Deadline EndIdle(TimePoint now);
  TimePoint WhenToEnd(const Connection& connection, TimePoint now) const;
  TimePoint WhenToEndStream(const Connection& connection, TimePoint now) const;
  void Cut();

  const ConnectionHandler handler_;
  const bool knows_idle_;  // the handler takes a TcpConnection
  const Options options_;
  TcpListener listener_;
  SocketAddress local_address_;
  CancelScope accept_scope_;           // around the waits for connections
  CancelScope admit_scope_;            // around Options::admit; cancelled at the deadline of Stop()
  std::atomic<bool> draining_{false};  // for the handlers; relaxed, a hint

  mutable FiberMutex mutex_;
  FiberConditionVariable changed_;  // a connection has ended, or the server stops
  base::IntrusiveList<Connection, &Connection::hook> connections_;
  std::size_t open_ = 0;
  bool accepting_ = false;
  bool stopping_ = false;    // accepts what waits and no more
  bool cut_ = false;         // the deadline of Stop() has passed
  TimePoint drain_began_{};  // when draining_ was set
  Deadline look_at_;         // of the drain: when a connection is due to be looked at; none: none is
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace weft::io

#endif  // WEFT_IO_TCP_SERVER_H_
