// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_stream.h"

#include <limits.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>

#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket/socket.h"

namespace weft::io {
namespace {

std::size_t Total(const iovec* parts, std::size_t count) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += parts[i].iov_len;
  return total;
}

// The kernel takes no more at once; the next call sends the rest.
std::size_t AtOnce(std::size_t count) { return std::min<std::size_t>(count, IOV_MAX); }

// Blocks of a buffer in a system call: 1 KiB of a stack; 1 MiB in blocks of 16 KiB is more than a socket takes.
constexpr std::size_t kBlocksAtOnce = 64;
static_assert(kBlocksAtOnce <= IOV_MAX);

// A read into less room than that part of what the caller wants is not worth a system call.
constexpr std::size_t kLeastPart = 8;

}  // namespace

std::error_code TcpStream::Connect(const SocketAddress& address, Deadline deadline) {
  Descriptor socket;
  if (std::error_code error = OpenSocket(address.family(), SOCK_STREAM, &socket)) return error;
  if (!address.is_unix()) {
    if (std::error_code error = SetOption(socket.fd(), IPPROTO_TCP, TCP_NODELAY, 1)) return error;
  }
  if (std::error_code error = ConnectSocket(&socket, address, deadline)) return error;
  descriptor_ = std::move(socket);
  return {};
}

IoResult TcpStream::ReadSome(void* data, std::size_t size, Deadline deadline) {
  if (size == 0) return OfNothing();
  const auto receive = [&](int fd) { return ::recv(fd, data, size, 0); };
  return descriptor_.RetryRead(size, receive, deadline);
}

IoResult TcpStream::ReadSome(const iovec* parts, std::size_t count, Deadline deadline) {
  if (count == 1) return ReadSome(parts->iov_base, parts->iov_len, deadline);  // A shorter way through the kernel.
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = AtOnce(count);
  const std::size_t size = Total(parts, message.msg_iovlen);
  if (size == 0) return OfNothing();
  const auto receive = [&](int fd) { return ::recvmsg(fd, &message, 0); };
  return descriptor_.RetryRead(size, receive, deadline);
}

// The kernel would return EAGAIN without data.
IoResult TcpStream::OfNothing() const { return {0, IsOpen() ? std::error_code() : ErrnoCode(ECANCELED)}; }

IoResult TcpStream::ReadAll(void* data, std::size_t size, Deadline deadline) {
  IoResult all;
  while (all.bytes < size) {
    const IoResult some = ReadSome(static_cast<char*>(data) + all.bytes, size - all.bytes, deadline);
    all.bytes += some.bytes;
    all.error = some.error;
    if (!some.ok() || some.bytes == 0) break;
  }
  return all;
}

IoResult TcpStream::ReadInto(NoncontiguousBuffer* buffer, std::size_t max, Deadline deadline) {
  if (max == 0) return OfNothing();
  const std::span<char> room = buffer->Room(max / kLeastPart, max);
  const IoResult result = ReadSome(room.data(), std::min(room.size(), max), deadline);
  buffer->Filled(result.bytes);
  return result;
}

IoResult TcpStream::WriteSome(const void* data, std::size_t size, Deadline deadline) {
  const auto send = [&](int fd) { return ::send(fd, data, size, MSG_NOSIGNAL); };
  return descriptor_.RetryWrite(send, deadline);
}

IoResult TcpStream::WriteSome(const iovec* parts, std::size_t count, Deadline deadline) {
  if (count == 1) return WriteSome(parts->iov_base, parts->iov_len, deadline);  // As in ReadSome().
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = AtOnce(count);
  const auto send = [&](int fd) { return ::sendmsg(fd, &message, MSG_NOSIGNAL); };
  return descriptor_.RetryWrite(send, deadline);
}

IoResult TcpStream::WriteSome(const NoncontiguousBuffer& buffer, Deadline deadline) {
  iovec parts[kBlocksAtOnce];
  return WriteSome(parts, buffer.FillIovecs(parts), deadline);
}

IoResult TcpStream::WriteAll(const void* data, std::size_t size, Deadline deadline) {
  IoResult all;
  while (all.bytes < size) {
    const IoResult some = WriteSome(static_cast<const char*>(data) + all.bytes, size - all.bytes, deadline);
    all.bytes += some.bytes;
    all.error = some.error;
    if (!some.ok()) break;
  }
  return all;
}

IoResult TcpStream::WriteAll(iovec* parts, std::size_t count, Deadline deadline) {
  IoResult all;
  for (;;) {
    for (; count != 0 && parts->iov_len == 0; --count) ++parts;
    if (count == 0) return all;
    const IoResult some = WriteSome(parts, count, deadline);
    all.bytes += some.bytes;
    if (!some.ok()) {
      all.error = some.error;
      return all;
    }
    for (std::size_t left = some.bytes; left != 0; ++parts, --count) {
      const std::size_t used = std::min(left, parts->iov_len);
      parts->iov_base = static_cast<char*>(parts->iov_base) + used;
      parts->iov_len -= used;
      left -= used;
      if (parts->iov_len != 0) break;
    }
  }
}

IoResult TcpStream::WriteAll(const NoncontiguousBuffer& buffer, Deadline deadline) {
  IoResult all;
  for (auto block = buffer.begin(); all.ok() && block != buffer.end();) {
    iovec parts[kBlocksAtOnce];
    std::size_t count = 0;
    for (; count < kBlocksAtOnce && block != buffer.end(); ++block) {
      parts[count++] = {.iov_base = const_cast<char*>(block->data()), .iov_len = block->size()};
    }
    const IoResult some = WriteAll(parts, count, deadline);
    all.bytes += some.bytes;
    all.error = some.error;
  }
  return all;
}

std::error_code TcpStream::ShutdownWrite() { return ShutdownHow(SHUT_WR); }

std::error_code TcpStream::Shutdown() { return ShutdownHow(SHUT_RDWR); }

std::error_code TcpStream::ShutdownRead() { return ShutdownHow(SHUT_RD); }

std::error_code TcpStream::ShutdownHow(int how) {
  if (how != SHUT_WR) descriptor_.NoteReadIsShut();
  return descriptor_.Once([how](int fd) { return ::shutdown(fd, how); });
}

std::error_code TcpStream::GetTcpInfo(void* info, std::size_t size) const {
  socklen_t length = static_cast<socklen_t>(size);
  return descriptor_.Once([&](int fd) { return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length); });
}

void TcpStream::Reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  (void)descriptor_.Once([&now](int fd) { return ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); });
  (void)Close();
}

std::error_code TcpStream::SetNoDelay(bool no_delay) {
  const int value = no_delay ? 1 : 0;
  return descriptor_.Once(
      [&value](int fd) { return ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof(value)); });
}

std::error_code TcpStream::SetTimeouts(const Timeouts& timeouts) {
  if (timeouts.read.count() < 0 || timeouts.write.count() < 0) return ErrnoCode(EINVAL);
  return descriptor_.SetWaitLimits(timeouts.read, timeouts.write);
}

std::error_code TcpStream::SetKeepAlive(const TcpKeepAlive& keep_alive) {
  return io::SetKeepAlive(&descriptor_, keep_alive);
}

std::error_code TcpStream::SetUserTimeout(std::chrono::milliseconds timeout) {
  return io::SetUserTimeout(&descriptor_, timeout);
}

SocketAddress TcpStream::local_address() const { return LocalAddress(descriptor_); }

SocketAddress TcpStream::peer_address() const { return PeerAddress(descriptor_); }

}  // namespace weft::io
