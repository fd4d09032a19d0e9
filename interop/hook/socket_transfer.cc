// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/hook/socket_transfer.h"

#include <sys/uio.h>

#include "weft/interop/hook/real_calls.h"

namespace weft::hook {

namespace {

bool IsStream(int fd) noexcept {
  int type = 0;
  socklen_t size = sizeof(type);
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

// MSG_WAITALL of a stream: until `size` bytes have come. What has come counts more than why no more comes.
ssize_t ReceiveAll(HookedCall& call, int fd, char* room, std::size_t size, int flags) {
  std::size_t received = 0;
  while (received < size) {
    const ssize_t some =
        call.RetryRead(fd, [=] { return real::recv(fd, room + received, size - received, flags | MSG_DONTWAIT); });
    if (some < 0 && received == 0) return -1;
    if (some <= 0) break;
    received += static_cast<std::size_t>(some);
  }
  return static_cast<ssize_t>(received);
}

std::size_t SizeOf(const msghdr& message) noexcept {
  std::size_t size = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) size += message.msg_iov[i].iov_len;
  return size;
}

// What is left of the message after its first `sent` bytes, without its control data, which went with the first.
// Returns how many bytes are sent in all.
ssize_t SendRest(HookedCall& call, int fd, const msghdr& message, std::size_t sent, int flags) {
  std::size_t skip = sent;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& part = message.msg_iov[i];
    if (skip >= part.iov_len) {
      skip -= part.iov_len;
      continue;
    }
    const std::size_t size = part.iov_len - skip;
    const int more = i + 1 < message.msg_iovlen ? MSG_MORE : 0;
    // A peer that has gone meanwhile shortens the call, and is the next call's error.
    const ssize_t some =
        Send(call, fd, static_cast<const char*>(part.iov_base) + skip, size, flags | more | MSG_NOSIGNAL);
    if (some > 0) sent += static_cast<std::size_t>(some);
    if (some != static_cast<ssize_t>(size)) break;
    skip = 0;
  }
  return static_cast<ssize_t>(sent);
}

}  // namespace

ssize_t Receive(HookedCall& call, int fd, void* room, std::size_t size, int flags, sockaddr* from, socklen_t* length) {
  if ((flags & MSG_WAITALL) != 0 && IsStream(fd) && !IsNonBlocking(fd)) {
    if ((flags & MSG_PEEK) == 0) return ReceiveAll(call, fd, static_cast<char*>(room), size, flags);
    // No event tells that more has come.
    ssize_t result = -1;
    call.MakeElsewhere([&] { result = real::recvfrom(fd, room, size, flags, from, length); });
    return result;
  }
  return call.RetryRead(fd, [=] { return real::recvfrom(fd, room, size, flags | MSG_DONTWAIT, from, length); });
}

ssize_t ReceiveMessage(HookedCall& call, int fd, msghdr* message, int flags) {
  if ((flags & MSG_WAITALL) != 0 && !IsNonBlocking(fd)) {
    ssize_t result = -1;
    call.MakeElsewhere([&] { result = real::recvmsg(fd, message, flags); });
    return result;
  }
  return call.RetryRead(fd, [=] { return real::recvmsg(fd, message, flags | MSG_DONTWAIT); });
}

ssize_t Send(HookedCall& call, int fd, const void* data, std::size_t size, int flags, const sockaddr* to,
             socklen_t length) {
  std::size_t sent = 0;
  for (;;) {
    const char* const rest = static_cast<const char*>(data) + sent;
    // As in SendRest().
    const int no_signal = sent != 0 ? MSG_NOSIGNAL : 0;
    const ssize_t some = call.RetryWrite(
        fd, [=] { return real::sendto(fd, rest, size - sent, flags | no_signal | MSG_DONTWAIT, to, length); });
    if (some < 0) return sent != 0 ? static_cast<ssize_t>(sent) : -1;
    sent += static_cast<std::size_t>(some);
    if (some == 0 || sent >= size) return static_cast<ssize_t>(sent);
  }
}

ssize_t SendMessage(HookedCall& call, int fd, const msghdr* message, int flags) {
  const ssize_t sent = call.RetryWrite(fd, [=] { return real::sendmsg(fd, message, flags | MSG_DONTWAIT); });
  if (sent <= 0 || static_cast<std::size_t>(sent) >= SizeOf(*message)) return sent;
  return SendRest(call, fd, *message, static_cast<std::size_t>(sent), flags);
}

}  // namespace weft::hook
