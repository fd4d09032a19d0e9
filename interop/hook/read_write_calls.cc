// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hooks: read readv write writev close dup2 dup3.
//
// Of a socket: as recv() and send(). Of what else can be polled: looked at first, and then read, since there is no
// MSG_DONTWAIT. Of a file: the C library's.

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "weft/interop/hook/descriptor_notes.h"
#include "weft/interop/hook/hooked_call.h"
#include "weft/interop/hook/real_calls.h"
#include "weft/interop/hook/socket_transfer.h"

namespace weft::hook {
namespace {

// Whether the call may wait, if the descriptor is not ready: it is not O_NONBLOCK, and open for this direction.
bool MayWait(int fd, short events) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  const int other_direction = events == POLLIN ? O_WRONLY : O_RDONLY;
  return flags >= 0 && (flags & O_NONBLOCK) == 0 && (flags & O_ACCMODE) != other_direction;
}

// Waits until read() or write() of what is no socket would not wait. False: errno.
bool AwaitReady(HookedCall& call, int fd, short events) noexcept {
  pollfd polled{.fd = fd, .events = events, .revents = 0};
  while (real::poll(&polled, 1, 0) == 0 && MayWait(fd, events)) {
    if (const int error = call.Wait(fd, events, kNoDeadline); error != 0) {
      SetErrno(error);
      return false;
    }
  }
  return true;
}

// A pipe that is ready takes PIPE_BUF bytes at once. More go in parts, as the kernel would write them while it waits.
ssize_t WritePipe(HookedCall& call, int fd, const char* data, std::size_t size) noexcept {
  std::size_t written = 0;
  do {
    const std::size_t part = std::min<std::size_t>(size - written, PIPE_BUF);
    const ssize_t some = AwaitReady(call, fd, POLLOUT) ? real::write(fd, data + written, part) : -1;
    if (some < 0) return written != 0 ? static_cast<ssize_t>(written) : -1;
    written += static_cast<std::size_t>(some);
  } while (written < size);
  return static_cast<ssize_t>(written);
}

// `as_socket` may find that the kind remembered is wrong.
template <class AsSocket, class Otherwise>
ssize_t ByKind(int fd, AsSocket&& as_socket, Otherwise&& otherwise) noexcept {
  Kind kind = KindOf(fd);
  if (kind == Kind::kSocket) {
    const ssize_t result = as_socket();
    if (result >= 0 || LastErrno() != ENOTSOCK) return result;
    ForgetKind(fd);
    kind = KindOf(fd);
  }
  return otherwise(kind);
}

msghdr MessageOf(const iovec* parts, int count) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(count);
  return message;
}

bool CanBeMessage(int count) noexcept { return count > 0 && count <= IOV_MAX; }

std::size_t SizeOf(const iovec* parts, int count) noexcept {
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  return size;
}

// writev() of a pipe: as one, if a ready pipe takes it at once.
ssize_t WritePipeParts(HookedCall& call, int fd, const iovec* parts, int count) noexcept {
  if (SizeOf(parts, count) <= PIPE_BUF) return AwaitReady(call, fd, POLLOUT) ? real::writev(fd, parts, count) : -1;
  std::size_t written = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len == 0) continue;
    const ssize_t some = WritePipe(call, fd, static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    if (some < 0 && written == 0) return -1;
    if (some > 0) written += static_cast<std::size_t>(some);
    if (some != static_cast<ssize_t>(parts[i].iov_len)) break;
  }
  return static_cast<ssize_t>(written);
}

}  // namespace
}  // namespace weft::hook

using namespace weft::hook;  // NOLINT(google-build-using-namespace): what follows is C.

WEFT_HOOK ssize_t read(int fd, void* room, std::size_t size) {
  // recv() of nothing would wait.
  if (size == 0 || !InHookedFiber()) return real::read(fd, room, size);
  HookedCall call(counters::read);
  return ByKind(
      fd, [&] { return Receive(call, fd, room, size, 0, nullptr, nullptr); },
      [&](Kind kind) -> ssize_t {
        if (kind != Kind::kFile && !AwaitReady(call, fd, POLLIN)) return -1;
        return real::read(fd, room, size);
      });
}

WEFT_HOOK ssize_t readv(int fd, const iovec* parts, int count) {
  if (!CanBeMessage(count) || !InHookedFiber() || SizeOf(parts, count) == 0) return real::readv(fd, parts, count);
  HookedCall call(counters::readv);
  return ByKind(
      fd,
      [&] {
        msghdr message = MessageOf(parts, count);
        return ReceiveMessage(call, fd, &message, 0);
      },
      [&](Kind kind) -> ssize_t {
        if (kind != Kind::kFile && !AwaitReady(call, fd, POLLIN)) return -1;
        return real::readv(fd, parts, count);
      });
}

WEFT_HOOK ssize_t write(int fd, const void* data, std::size_t size) {
  if (!InHookedFiber()) return real::write(fd, data, size);
  HookedCall call(counters::write);
  return ByKind(
      fd, [&] { return Send(call, fd, data, size, 0); },
      [&](Kind kind) -> ssize_t {
        if (size == 0 || kind == Kind::kFile || IsNonBlocking(fd)) return real::write(fd, data, size);
        if (kind == Kind::kPipe) return WritePipe(call, fd, static_cast<const char*>(data), size);
        return AwaitReady(call, fd, POLLOUT) ? real::write(fd, data, size) : -1;
      });
}

WEFT_HOOK ssize_t writev(int fd, const iovec* parts, int count) {
  if (!CanBeMessage(count) || !InHookedFiber()) return real::writev(fd, parts, count);
  HookedCall call(counters::writev);
  return ByKind(
      fd,
      [&] {
        const msghdr message = MessageOf(parts, count);
        return SendMessage(call, fd, &message, 0);
      },
      [&](Kind kind) -> ssize_t {
        if (kind == Kind::kFile || IsNonBlocking(fd)) return real::writev(fd, parts, count);
        if (kind == Kind::kPipe) return WritePipeParts(call, fd, parts, count);
        return AwaitReady(call, fd, POLLOUT) ? real::writev(fd, parts, count) : -1;
      });
}

extern "C" [[noreturn]] void __chk_fail() noexcept;  // NOLINT(bugprone-reserved-identifier): the C library's.

// _FORTIFY_SOURCE: `room_size` is what the compiler knows of the room.
WEFT_HOOK ssize_t __read_chk(int fd, void* room, std::size_t size, std::size_t room_size) {
  if (size > room_size) __chk_fail();
  return read(fd, room, size);
}

WEFT_HOOK int close(int fd) {
  BeforeClose(fd);
  return real::close(fd);
}

WEFT_HOOK int dup2(int fd, int number) noexcept {
  if (fd != number) BeforeClose(number);
  return real::dup2(fd, number);
}

WEFT_HOOK int dup3(int fd, int number, int flags) noexcept {
  if (fd != number) BeforeClose(number);
  return real::dup3(fd, number, flags);
}
