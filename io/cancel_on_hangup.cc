// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/cancel_on_hangup.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>

#include "weft/io/reactor/poll_until.h"
#include "weft/scheduling_group/fiber/park.h"

namespace weft::io {
namespace {

bool HasHungUp(int fd, bool read_is_shut, Hangup what) noexcept {
  tcp_info info{};
  socklen_t size = sizeof(info);
  // poll(2) would not tell the peer's end from our own ShutdownRead().
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
    switch (info.tcpi_state) {
      case TCP_CLOSE:  // A reset, or an error that ends the connection.
        return true;
      case TCP_CLOSE_WAIT:  // The peer's FIN has come; below, we have sent one, too.
      case TCP_LAST_ACK:
      case TCP_CLOSING:
        return what == Hangup::kEnd;
      default:
        return false;
    }
  }
  pollfd polled{.fd = fd, .events = POLLRDHUP, .revents = 0};
  if (PollUntil(&polled, 1, std::chrono::seconds(0)) <= 0) return false;
  if ((polled.revents & (POLLHUP | POLLERR)) != 0) return true;
  return what == Hangup::kEnd && !read_is_shut;
}

}  // namespace

CancelOnHangup::CancelOnHangup(TcpStream& stream, CancelScope* scope, Hangup what) : scope_(scope), what_(what) {
  if (scheduling_group::CurrentFiber() != nullptr) slot_ = stream.descriptor_.StartWatching(this, &error_);
}

void CancelOnHangup::MayHaveHungUp(int fd, bool read_is_shut) noexcept {
  if (hung_up() || !HasHungUp(fd, read_is_shut, what_)) return;
  hung_up_.store(true, std::memory_order_relaxed);
  scope_->Cancel();
}

}  // namespace weft::io
