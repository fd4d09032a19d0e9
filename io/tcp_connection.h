// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TcpConnection: a connection of a TcpServer (io/tcp_server.h), for handlers whose protocol has requests and answers.
// Its ReadRequest() tells the server that the connection is between two requests, so that TcpServer::Stop() ends idle
// connections only.
// A RequestHandler (io/tcp_server.h) is the body of the loop below; between two requests its connection has no fiber.
// Sample:
//     void Serve(io::TcpConnection& connection) {
//       char line[256];
//       for (;;) {
//         io::IoResult got = connection.ReadRequest(line, sizeof(line), 60s);
//         if (!got.ok() || got.bytes == 0) return;   // the drain, the deadline, an error; or the client has finished
//         while (line[got.bytes - 1] != '\n') {      // a request that has begun is read to its end
//           const io::IoResult more = connection.stream().ReadSome(line + got.bytes, sizeof(line) - got.bytes, 5s);
//           if (!more.ok() || more.bytes == 0) return;
//           got.bytes += more.bytes;
//         }
//         if (!connection.stream().WriteAll(line, got.bytes).ok()) return;
//       }
//     }
// When draining(), a protocol that can (HTTP's "Connection: close") marks its answer as the last, and ends. Otherwise a
// handler goes on, as above, until ReadRequest() ends, or requests that have come would be lost.
//
// How it works. ReadRequest() reads in a CancelScope of its own, which Stop() cancels. Scopes are level-triggered, and
// a read that need not wait succeeds: so a request that has come is read also in a drain, and later calls do not wait.
//
// Turns. A fiber that need not wait keeps its worker until its time slice ends (scheduling_group/worker/time_slice.h).
// Reads give way after a few in a row (FD5 in io/reactor/fd_slot.h), but one read may bring hundreds of requests, and a
// client that pipelines without end sends the next ones meanwhile. A handler that takes several requests out of a read
// counts each by CountRequest(). When that is true, it writes what is ready, and calls GiveWay().
//
// Invariants
//   DR1  A drain ends ReadRequest() only if the kernel, asked once more after the cancellation, has no byte for it.
//   DR2  A drain disturbs nothing but ReadRequest() and AwaitRequest() until its deadline.
//
// Who may call: draining(): any fiber and thread. The others: the handler, one fiber at a time.
#ifndef WEFT_IO_TCP_CONNECTION_H_
#define WEFT_IO_TCP_CONNECTION_H_

#include <any>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"

namespace weft::io {

class TcpConnection {
 public:
  // What all connections of a server share.
  struct Server {
    std::atomic<bool> draining{false};  // relaxed, a hint
    // How long a connection may wait for its first request and for each further one. 0: no limit.
    std::chrono::nanoseconds first_request_timeout{0};
    std::chrono::nanoseconds idle_timeout{0};
    std::atomic<std::uint64_t> timed_out{0};  // connections that have waited longer; relaxed, a statistic
  };

  // For a server: TcpServer makes its connections.
  explicit TcpConnection(Server* server) : server_(server) {}
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  // The connection, for reads and writes as of any TcpStream. Its address stays the same.
  TcpStream& stream() noexcept { return stream_; }
  const TcpStream& stream() const noexcept { return stream_; }

  // Reads the first bytes of a request: as TcpStream::ReadSome(). The drain ends it with operation_canceled, as a
  // cancellation does; then draining() is true. The server's time-out for requests ends it with timed_out, as
  // `deadline` does.
  // In a RequestHandler, unless it calls KeepFiber(), neither it nor AwaitRequest() waits: without bytes they return
  // resource_unavailable_try_again, and the connection goes on waiting, whatever the handler returns. After a
  // ReadRequest() that found the end of the stream, or an error, it is closed, whatever the handler returns.
  [[nodiscard]] IoResult ReadRequest(void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult ReadRequest(std::span<char> room, Deadline deadline = {}) {
    return ReadRequest(room.data(), room.size(), deadline);
  }
  // Waits until ReadRequest() may be worth a try, for handlers that keep no buffer meanwhile. It may return too early;
  // so what reads next is ReadRequest(). Errors as there.
  [[nodiscard]] std::error_code AwaitRequest(Deadline deadline = {});

  // TcpServer::Stop() was called: the present answer should say that it is the last. A hint, unless ReadRequest() has
  // just been ended by it.
  bool draining() const noexcept { return server_->draining.load(std::memory_order_relaxed); }

  // How many requests of a connection are answered in a row while others wait: so many, or as many as take so long,
  // found after each kRequestsPerLook. The first look begins that time, so that a few requests cost no clock: a turn is
  // longer by the time of the first kRequestsPerLook. A ReadRequest() that waits, or gives way (FD5), begins one, too.
  // The end of a turn costs a write, a switch and cold caches, some us, and others wait for a turn of each connection
  // that is ready.
  static constexpr std::uint32_t kRequestsInATurn = 1024;
  static constexpr std::uint32_t kRequestsPerLook = 32;
  static constexpr std::chrono::microseconds kTurn{100};
  // After a request that was answered. True: the turn is over (see above).
  [[nodiscard]] bool CountRequest() noexcept { return ++requests_in_turn_ % kRequestsPerLook == 0 && IsTurnOver(); }
  // As FiberYield(); the next turn begins.
  void GiveWay();

  // For what stands between a connection and its handler, as TLS does. Whether the client's first request has come:
  // false after a ReadRequest() that has read only what goes before it (a handshake), so that first_request_timeout
  // still holds; true once it has come.
  void SetHasSentRequest(bool has) noexcept {
    if (has_sent_request() != has) has_sent_request_.store(has, std::memory_order_relaxed);
  }
  // Whether a ReadRequest() has found bytes of the client's first request, or more.
  bool has_sent_request() const noexcept { return has_sent_request_.load(std::memory_order_relaxed); }
  // No further request can come: a RequestHandler's connection is closed, whatever the handler returns.
  void MarkAsEnded() noexcept { has_ended_ = true; }

  // For a RequestHandler whose connection has many requests at once, as HTTP/2 has, and a fiber while it is busy. From
  // here on ReadRequest() and AwaitRequest() wait, as in other handlers, but once the client's first request has come
  // the server's time-outs do not end them; and what the handler returns counts, whatever the two have found.
  void KeepFiber() noexcept;
  // The opposite: they do not wait again, and the time-outs begin anew. `until`: when the wait for the next request has
  // taken too long, unless it has before; found when the server next looks at its time-outs. False: the fiber is kept,
  // for the server has none, and would never look.
  [[nodiscard]] bool LeaveFiber(Deadline until) noexcept;

  // What a handler keeps from one request to the next. Destroyed with the connection, before TcpServer::Stop() returns,
  // in no particular thread: its destructor does not wait.
  std::any& state() noexcept { return state_; }

 private:
  friend class TcpServer;

  using TimePoint = Deadline::TimePoint;

  // By the server. Any thread.
  void EndIfIdle() noexcept { idle_.Cancel(); }
  // Since when it waits for a request: kBeforeDrain, a point in the drain, or kBusy: it does not wait.
  TimePoint idle_since() const noexcept { return idle_since_.load(std::memory_order_relaxed); }
  static constexpr TimePoint kBeforeDrain = TimePoint::min();
  static constexpr TimePoint kBusy = TimePoint::max();
  static constexpr TimePoint kNotLooked = TimePoint::max();
  // When its wait for a request has taken too long; max(): never.
  TimePoint waits_until() const noexcept { return waits_until_.load(std::memory_order_relaxed); }

  // By whoever serves it. From here on it waits for a request; nothing happens if it does so already.
  void BecomeIdle() noexcept;
  // A request has begun, or is over.
  void BecomeBusy() noexcept;
  // What ReadRequest() and AwaitRequest() return of what they have got, or not.
  std::error_code NothingIn(std::error_code error) noexcept;
  bool IsTurnOver() noexcept;
  void BeginTurn() noexcept {
    requests_in_turn_ = 0;
    turn_began_ = kNotLooked;
  }
  // A wait for a request has ended with timed_out.
  void CountTimeout() noexcept;
  // By its owner (TV3): the time of its wait is over.
  void CountOnce() noexcept;
  bool has_timeouts() const noexcept { return !keeps_fiber_ || !has_sent_request(); }
  Deadline LimitOf(Deadline deadline) const noexcept;

  TcpStream stream_;
  CancelScope idle_;
  Server* const server_;
  // relaxed, all three: they decide about time limits only.
  std::atomic<bool> has_sent_request_{false};
  std::atomic<TimePoint> idle_since_{kBusy};
  std::atomic<TimePoint> waits_until_{TimePoint::max()};
  // For a RequestHandler, all three.
  bool does_not_wait_ = false;
  bool keeps_fiber_ = false;
  bool found_nothing_ = false;  // the last of the two calls
  bool has_ended_ = false;      // a ReadRequest() found the end, or an error; or MarkAsEnded()
  bool is_counted_ = false;     // in Server::timed_out
  std::uint32_t requests_in_turn_ = 0;
  TimePoint turn_began_ = kNotLooked;  // at its first look
  std::any state_;
};

}  // namespace weft::io

#endif  // WEFT_IO_TCP_CONNECTION_H_
