// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TcpConnection: a connection of a TcpServer (io/tcp_server.h), for handlers whose protocol has requests and answers.
// Its ReadRequest() tells the server that the connection is between two requests, so that TcpServer::Stop() ends idle
// connections only.
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
// A protocol that can say so (HTTP's "Connection: close") says with an answer that it is the last when draining(), and
// ends: its client makes the requests that it has sent meanwhile again. Without that a handler goes on, as above, until
// ReadRequest() ends: requests that have come would be lost, and their client could not know it.
//
// How it works. ReadRequest() reads in a CancelScope of its own, which Stop() cancels. Scopes are level-triggered, and
// a read that need not wait succeeds: so a request that has come is read also in a drain, and later calls do not wait.
//
// Invariants
//   DR1  A drain ends ReadRequest() only if the kernel has no byte for it: after the cancellation the kernel is asked
//        once more. (The reactor may not have reported the latest bytes.)
//   DR2  A drain disturbs nothing but ReadRequest() and AwaitRequest() until its deadline.
//
// Who may call: ReadRequest(), AwaitRequest(): a fiber, one at a time. draining(): any fiber and thread.
#ifndef WEFT_IO_TCP_CONNECTION_H_
#define WEFT_IO_TCP_CONNECTION_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"

namespace weft::io {

class TcpConnection {
 public:
  explicit TcpConnection(const std::atomic<bool>* draining) : draining_(draining) {}
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  TcpStream& stream() noexcept { return stream_; }
  const TcpStream& stream() const noexcept { return stream_; }

  // Reads the first bytes of a request, while the connection is idle: as TcpStream::ReadSome(). The drain ends it with
  // operation_canceled, as any cancellation does; then draining() is true. A peer that has gone is the end or an error
  // of its own, so that a handler can tell one from the other.
  [[nodiscard]] IoResult ReadRequest(void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult ReadRequest(std::span<char> room, Deadline deadline = {}) {
    return ReadRequest(room.data(), room.size(), deadline);
  }
  // Waits until ReadRequest() may be worth a try, for handlers that keep no buffer meanwhile. It may return too early;
  // so what reads next is ReadRequest(). Errors as there.
  [[nodiscard]] std::error_code AwaitRequest(Deadline deadline = {});

  // TcpServer::Stop() was called: the present answer is the last, and should say so. A hint, unless ReadRequest() has
  // just been ended by it.
  bool draining() const noexcept { return draining_->load(std::memory_order_relaxed); }

 private:
  friend class TcpServer;

  using TimePoint = Deadline::TimePoint;

  // By the server. Any thread.
  void EndIfIdle() noexcept { idle_.Cancel(); }
  bool has_sent_request() const noexcept { return has_sent_request_.load(std::memory_order_relaxed); }
  // Since when it waits for a request: kBeforeDrain, a point in the drain, or kBusy: it does not wait.
  TimePoint idle_since() const noexcept { return idle_since_.load(std::memory_order_relaxed); }
  static constexpr TimePoint kBeforeDrain = TimePoint::min();
  static constexpr TimePoint kBusy = TimePoint::max();

  // By the two calls, around their waits.
  void BecomeIdle() noexcept {
    idle_since_.store(draining() ? std::chrono::steady_clock::now() : kBeforeDrain, std::memory_order_relaxed);
  }
  void BecomeBusy() noexcept { idle_since_.store(kBusy, std::memory_order_relaxed); }

  TcpStream stream_;
  CancelScope idle_;
  const std::atomic<bool>* const draining_;
  // relaxed, both: they decide about time limits only.
  std::atomic<bool> has_sent_request_{false};
  std::atomic<TimePoint> idle_since_{kBusy};
};

}  // namespace weft::io

#endif  // WEFT_IO_TCP_CONNECTION_H_
