// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SocketAddress: the address of a socket: an IPv4 or IPv6 address with port, or a Unix socket's path. A value.
//
//     "127.0.0.1:8080"   "[::1]:8080"   "[fe80::1%eth0]:8080"   "unix:/run/x.sock"   "unix:@abstract"
//
// Parse() resolves no names: ResolveHost() (net/resolver.h) does.
#ifndef WEFT_IO_SOCKET_ADDRESS_H_
#define WEFT_IO_SOCKET_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::io {

class SocketAddress {
 public:
  // No address: family() is AF_UNSPEC.
  SocketAddress() noexcept;

  // Text as above; nullopt for other text.
  static std::optional<SocketAddress> Parse(std::string_view text);
  // 0.0.0.0, which is any address of the machine; 127.0.0.1.
  static SocketAddress AnyIpv4(std::uint16_t port);
  static SocketAddress LoopbackIpv4(std::uint16_t port);
  // nullopt: it has another family, or is too short.
  static std::optional<SocketAddress> FromSockaddr(const sockaddr* address, socklen_t length);

  // AF_INET, AF_INET6, AF_UNIX; AF_UNSPEC: no address.
  int family() const noexcept { return storage_.generic.sa_family; }
  // Whether it is the path of a Unix socket.
  bool is_unix() const noexcept { return family() == AF_UNIX; }
  std::uint16_t port() const noexcept;  // 0 for a Unix socket
  // Text for Parse(); "(none)" for no address, "unix:" for a Unix socket without a name.
  std::string ToString() const;

  // For system calls.
  const sockaddr* data() const noexcept { return &storage_.generic; }
  sockaddr* data() noexcept { return &storage_.generic; }
  socklen_t size() const noexcept { return size_; }
  static constexpr socklen_t kCapacity = sizeof(sockaddr_un);
  // After the kernel has written to data(). For a peer without a name it writes nothing, not even the family.
  void set_size(socklen_t size) noexcept {
    if (size < sizeof(sa_family_t)) {
      *this = SocketAddress();
    } else {
      size_ = size < kCapacity ? size : kCapacity;
    }
  }

  friend bool operator==(const SocketAddress& a, const SocketAddress& b) noexcept;

 private:
  union Storage {
    sockaddr generic;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
    sockaddr_un local;
  };

  Storage storage_;
  socklen_t size_;
};

}  // namespace weft::io

#endif  // WEFT_IO_SOCKET_ADDRESS_H_
