// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/udp_socket.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket/socket.h"

namespace weft::io {
namespace {

// 80 bytes of a stack each.
constexpr std::size_t kSentAtOnce = 32;

// The kernel's limits for UDP_SEGMENT: UDP_MAX_SEGMENTS of its older versions, and what fits into an IPv4 packet.
constexpr std::size_t kMostSegments = 64;
constexpr std::size_t kMostBytes = 65'507;

// Kernels before 4.18 ignore the control message and would send all as one datagram. `fd`: an open UDP socket.
bool KernelSegments(int fd) {
  static const bool segments = [fd] {
    int size = 0;
    socklen_t length = sizeof(size);
    return ::getsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, &length) == 0;
  }();
  return segments;
}

// What a kernel says that cannot segment here: no checksum offload, a segment above the path's MTU, and so on.
bool IsRefusalToSegment(std::error_code error) {
  return error == std::errc::invalid_argument || error == std::errc::io_error || error == std::errc::message_size ||
         error == std::errc::operation_not_supported;
}

void SetName(msghdr* message, const SocketAddress& to) {
  if (to.family() == AF_UNSPEC) return;
  message->msg_name = const_cast<sockaddr*>(to.data());
  message->msg_namelen = to.size();
}

}  // namespace

UdpSocket::UdpSocket() = default;
UdpSocket::UdpSocket(UdpSocket&& other) noexcept = default;

UdpSocket& UdpSocket::operator=(UdpSocket&& other) noexcept {
  if (this == &other) return *this;
  RemoveFile();
  descriptor_ = std::move(other.descriptor_);
  file_ = std::move(other.file_);
  return *this;
}

UdpSocket::~UdpSocket() { RemoveFile(); }

void UdpSocket::RemoveFile() const {
  if (file_ != nullptr) file_->Remove(descriptor_);
}

bool UdpSocket::Close() {
  RemoveFile();
  return descriptor_.Close();
}

std::error_code UdpSocket::Bind(const SocketAddress& address) {
  const std::uint32_t forks_before = ForksSoFar();
  Descriptor socket;
  if (std::error_code error = OpenSocket(address.family(), SOCK_DGRAM, &socket)) return error;
  std::unique_ptr<SocketFile> file;
  if (std::error_code error = SocketFile::Bind(socket.fd(), address, forks_before, &file)) return error;
  RemoveFile();
  descriptor_ = std::move(socket);
  file_ = std::move(file);
  return {};
}

std::error_code UdpSocket::Connect(const SocketAddress& address) {
  if (!IsOpen()) {
    if (std::error_code error = OpenSocket(address.family(), SOCK_DGRAM, &descriptor_)) return error;
  }
  return ::connect(fd(), address.data(), address.size()) == 0 ? std::error_code() : ErrnoCode(errno);
}

IoResult UdpSocket::SendTo(const void* data, std::size_t size, const SocketAddress& to, Deadline deadline) {
  const auto send = [&](int fd) { return ::sendto(fd, data, size, MSG_NOSIGNAL, to.data(), to.size()); };
  return descriptor_.RetryWrite(send, deadline);
}

IoResult UdpSocket::ReceiveFrom(void* data, std::size_t size, SocketAddress* from, bool* truncated, Deadline deadline) {
  iovec part{.iov_base = data, .iov_len = size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const auto receive = [&](int fd) {
    message.msg_name = from != nullptr ? from->data() : nullptr;
    message.msg_namelen = from != nullptr ? SocketAddress::kCapacity : 0;
    return ::recvmsg(fd, &message, 0);
  };
  const IoResult result = descriptor_.RetryRead(0, receive, deadline);
  if (result.ok() && from != nullptr) from->set_size(message.msg_namelen);
  if (truncated != nullptr) *truncated = result.ok() && (message.msg_flags & MSG_TRUNC) != 0;
  return result;
}

IoResult UdpSocket::Send(const void* data, std::size_t size, Deadline deadline) {
  const auto send = [&](int fd) { return ::send(fd, data, size, MSG_NOSIGNAL); };
  return descriptor_.RetryWrite(send, deadline);
}

DatagramsResult UdpSocket::ReceiveMany(std::span<Datagram> datagrams, Deadline deadline) {
  if (datagrams.empty()) return {0, IsOpen() ? std::error_code() : ErrnoCode(ECANCELED)};
  const std::size_t most = std::min(datagrams.size(), kMostReceived);
  mmsghdr messages[kMostReceived];
  iovec parts[kMostReceived];
  const auto receive = [&](int fd) {
    for (std::size_t i = 0; i < most; ++i) {
      Datagram& datagram = datagrams[i];
      parts[i] = {.iov_base = datagram.data, .iov_len = datagram.size};
      messages[i] = {};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_name = datagram.peer.data();
      messages[i].msg_hdr.msg_namelen = SocketAddress::kCapacity;
    }
    return ::recvmmsg(fd, messages, static_cast<unsigned>(most), 0, nullptr);
  };
  const IoResult result = descriptor_.RetryRead(0, receive, deadline);
  for (std::size_t i = 0; i < result.bytes; ++i) {
    Datagram& datagram = datagrams[i];
    datagram.size = messages[i].msg_len;
    datagram.peer.set_size(messages[i].msg_hdr.msg_namelen);
    datagram.truncated = (messages[i].msg_hdr.msg_flags & MSG_TRUNC) != 0;
  }
  return {result.bytes, result.error};
}

DatagramsResult UdpSocket::SendMany(std::span<const Datagram> datagrams, Deadline deadline) {
  DatagramsResult all;
  while (all.ok() && all.datagrams < datagrams.size()) {
    const std::size_t count = std::min(datagrams.size() - all.datagrams, kSentAtOnce);
    mmsghdr messages[kSentAtOnce];
    iovec parts[kSentAtOnce];
    for (std::size_t i = 0; i < count; ++i) {
      const Datagram& datagram = datagrams[all.datagrams + i];
      parts[i] = {.iov_base = datagram.data, .iov_len = datagram.size};
      messages[i] = {};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      SetName(&messages[i].msg_hdr, datagram.peer);
    }
    const auto send = [&](int fd) { return ::sendmmsg(fd, messages, static_cast<unsigned>(count), MSG_NOSIGNAL); };
    const IoResult some = descriptor_.RetryWrite(send, deadline);
    all.datagrams += some.bytes;
    all.error = some.error;
  }
  return all;
}

IoResult UdpSocket::SendSegments(const void* data, std::size_t size, std::size_t segment, const SocketAddress& to,
                                 Deadline deadline) {
  if (segment == 0) return {0, ErrnoCode(EINVAL)};
  if (!IsOpen()) return {0, ErrnoCode(ECANCELED)};
  auto* const bytes = const_cast<char*>(static_cast<const char*>(data));
  bool segments_here = !local_address().is_unix();
  IoResult all;
  while (all.ok() && all.bytes < size) {
    const std::size_t left = size - all.bytes;
    if (!segments_here || segment > kMostBytes / 2) {
      std::array<Datagram, kSentAtOnce> several;
      std::size_t count = 0;
      for (std::size_t at = 0; at < left && count < several.size(); at += segment) {
        several[count++] = {.data = bytes + all.bytes + at, .size = std::min(segment, left - at), .peer = to};
      }
      const DatagramsResult some = SendMany({several.data(), count}, deadline);
      all.bytes = std::min(size, all.bytes + some.datagrams * segment);
      all.error = some.error;
      continue;
    }
    const std::size_t part = std::min(left, std::min(kMostSegments, kMostBytes / segment) * segment);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(std::uint16_t))] = {};
    iovec piece{.iov_base = bytes + all.bytes, .iov_len = part};
    msghdr message{};
    SetName(&message, to);
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const cut = CMSG_FIRSTHDR(&message);
    cut->cmsg_level = SOL_UDP;
    cut->cmsg_type = UDP_SEGMENT;
    cut->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto size16 = static_cast<std::uint16_t>(segment);
    std::memcpy(CMSG_DATA(cut), &size16, sizeof(size16));
    // The descriptor stays open during the call, so that KernelSegments() asks this socket.
    const auto send = [&](int fd) -> ssize_t {
      if (KernelSegments(fd)) return ::sendmsg(fd, &message, MSG_NOSIGNAL);
      errno = EOPNOTSUPP;
      return -1;
    };
    const IoResult some = descriptor_.RetryWrite(send, deadline);
    if (IsRefusalToSegment(some.error)) {
      segments_here = false;
      continue;
    }
    all.bytes += some.bytes;
    all.error = some.error;
  }
  return all;
}

SocketAddress UdpSocket::local_address() const { return LocalAddress(descriptor_); }

}  // namespace weft::io
