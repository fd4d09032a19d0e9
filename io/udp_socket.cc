// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/udp_socket.h"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket/socket.h"
#include "weft/io/socket/socket_file.h"

namespace weft::io {

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
    file_.reset();  // of the socket before it
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

SocketAddress UdpSocket::local_address() const { return LocalAddress(descriptor_); }

}  // namespace weft::io
