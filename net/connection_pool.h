// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ConnectionPool: connections to one server, kept for the next call.
// Sample:
//   const auto connect = [](io::TcpStream* stream, Deadline deadline) {
//     return io::ConnectToHost("db.internal", "5432", stream, deadline);
//   };
//   io::ConnectionPool pool(connect);
//   io::ConnectionPool::Lease lease;
//   if (auto error = pool.Acquire(&lease, 2s)) return error;
//   if (auto error = Ask(*lease)) return error;      // the lease closes the connection: who knows what is left in it
//   lease.GiveBack();                                // it is as it was: the next caller may have it
//
// Acquire() takes the connection that was given back last, if it is healthy: not idle for too long, open, without an
// error, and with nothing to read (the end, or an answer that nobody has waited for). Otherwise it closes that one and
// looks at the next; without any it connects. At most max_connections are lent; further callers wait.
//
// A connection that was healthy may be closed by its server before the request has arrived: Lease::is_reused() tells
// whether to make a request that changes nothing again, on a new connection.
//
// Any fiber (switches) and any thread (blocks). A lease is its holder's alone. Errors: timed_out, operation_canceled
// (while it waits for its turn), and what connecting says, or setsockopt(2) of keep_alive and user_timeout.
// Lifetime: all leases end before the pool. Later calls, or CloseIdle(), close connections idle for too long.
#ifndef WEFT_NET_CONNECTION_POOL_H_
#define WEFT_NET_CONNECTION_POOL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/io/tcp_liveness.h"
#include "weft/io/tcp_stream.h"

namespace weft::io {

class ConnectionPool {
 public:
  // Makes a connection; called by Acquire(), in its caller, with its deadline.
  using Connect = std::function<std::error_code(TcpStream* stream, Deadline deadline)>;

  // How many connections, and for how long.
  struct Options {
    std::size_t max_connections = 64;  // lent at a time
    std::size_t max_idle = 16;         // kept; the one that is idle longest goes
    // One that was idle for longer is closed, and not lent.
    std::chrono::nanoseconds idle_timeout = std::chrono::seconds(30);
    // For peers that vanish (io/tcp_liveness.h): set after `connect`, not on Unix sockets. The defaults set nothing.
    TcpKeepAlive keep_alive{.enabled = false};
    std::chrono::milliseconds user_timeout{0};
  };

  // What the pool has counted since it was made, and has now.
  struct Counts {
    std::uint64_t connected = 0;  // connections made
    std::uint64_t reused = 0;     // calls that got one which another call had before
    std::uint64_t unhealthy = 0;  // idle ones that were closed, because of their state or their age
    std::size_t lent = 0;         // now
    std::size_t idle = 0;         // now
  };

  // A connection that is lent.
  class Lease {
   public:
    // Of no connection.
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      Close();
      pool_ = std::exchange(other.pool_, nullptr);
      stream_ = std::move(other.stream_);
      is_reused_ = other.is_reused_;
      return *this;
    }
    ~Lease() { Close(); }

    TcpStream& operator*() noexcept { return stream_; }
    TcpStream* operator->() noexcept { return &stream_; }
    // Whether it has a connection.
    explicit operator bool() const noexcept { return pool_ != nullptr; }
    bool is_reused() const noexcept { return is_reused_; }  // another call had it before

    void GiveBack();  // only if nothing of this call is left in the stream
    void Close();     // the destructor does so, too

   private:
    friend class ConnectionPool;
    ConnectionPool* pool_ = nullptr;
    TcpStream stream_;
    bool is_reused_ = false;
  };

  // `connect` makes the connections, as options say how many. Makes none yet.
  explicit ConnectionPool(Connect connect) : ConnectionPool(std::move(connect), Options()) {}
  ConnectionPool(Connect connect, const Options& options);
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // Success: *lease has a connection. A former one of *lease is closed before.
  [[nodiscard]] std::error_code Acquire(Lease* lease, Deadline deadline = {});
  // Those that are not lent. Any fiber and any thread.
  void CloseIdle();  // all that are not lent
  // A snapshot. Any fiber and any thread.
  Counts counts() const;

 private:
  struct Core;

  bool TakeIdle(TcpStream* stream);
  void End(TcpStream* stream, bool keep);

  const std::unique_ptr<Core> core_;
};

}  // namespace weft::io

#endif  // WEFT_NET_CONNECTION_POOL_H_
