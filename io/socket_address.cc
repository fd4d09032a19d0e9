// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <charconv>
#include <cstddef>
#include <cstring>

namespace weft::io {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::size_t kPathOffset = offsetof(sockaddr_un, sun_path);

std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

// 0: none.
std::uint32_t ParseScope(const std::string& text) {
  const unsigned index = ::if_nametoindex(text.c_str());
  if (index != 0) return index;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

}  // namespace

SocketAddress::SocketAddress() noexcept : size_(sizeof(sa_family_t)) {
  std::memset(&storage_, 0, sizeof(storage_));
  storage_.generic.sa_family = AF_UNSPEC;
}

std::optional<SocketAddress> SocketAddress::Parse(std::string_view text) {
  SocketAddress address;
  const bool has_zero = text.find('\0') != std::string_view::npos;  // libc and the kernel would stop reading there.
  if (text.starts_with(kUnixPrefix)) {
    const std::string_view path = text.substr(kUnixPrefix.size());
    const bool abstract = path.starts_with('@');
    if (has_zero && !abstract) return std::nullopt;
    // A path ends with a zero, an abstract name begins with one.
    if (path.empty() || path.size() + (abstract ? 0 : 1) > sizeof(sockaddr_un::sun_path)) return std::nullopt;
    address.storage_.local.sun_family = AF_UNIX;
    std::memcpy(address.storage_.local.sun_path, path.data(), path.size());
    if (abstract) address.storage_.local.sun_path[0] = '\0';
    address.size_ = static_cast<socklen_t>(kPathOffset + path.size() + (abstract ? 0 : 1));
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || has_zero) return std::nullopt;
  const std::optional<std::uint16_t> port = ParsePort(text.substr(colon + 1));
  if (!port.has_value()) return std::nullopt;
  std::string host(text.substr(0, colon));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    std::uint32_t scope = 0;
    if (const std::size_t percent = host.find('%'); percent != std::string::npos) {
      scope = ParseScope(host.substr(percent + 1));
      if (scope == 0) return std::nullopt;
      host.resize(percent);
    }
    if (::inet_pton(AF_INET6, host.c_str(), &address.storage_.ipv6.sin6_addr) != 1) return std::nullopt;
    address.storage_.ipv6.sin6_family = AF_INET6;
    address.storage_.ipv6.sin6_port = htons(*port);
    address.storage_.ipv6.sin6_scope_id = scope;
    address.size_ = sizeof(sockaddr_in6);
    return address;
  }
  if (::inet_pton(AF_INET, host.c_str(), &address.storage_.ipv4.sin_addr) != 1) return std::nullopt;
  address.storage_.ipv4.sin_family = AF_INET;
  address.storage_.ipv4.sin_port = htons(*port);
  address.size_ = sizeof(sockaddr_in);
  return address;
}

SocketAddress SocketAddress::AnyIpv4(std::uint16_t port) {
  SocketAddress address;
  address.storage_.ipv4.sin_family = AF_INET;
  address.storage_.ipv4.sin_port = htons(port);
  address.storage_.ipv4.sin_addr.s_addr = htonl(INADDR_ANY);
  address.size_ = sizeof(sockaddr_in);
  return address;
}

SocketAddress SocketAddress::LoopbackIpv4(std::uint16_t port) {
  SocketAddress address = AnyIpv4(port);
  address.storage_.ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

std::optional<SocketAddress> SocketAddress::FromSockaddr(const sockaddr* address, socklen_t length) {
  if (address == nullptr || length < sizeof(sa_family_t) || length > kCapacity) return std::nullopt;
  const bool whole = (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) ||
                     (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) ||
                     address->sa_family == AF_UNIX;
  if (!whole) return std::nullopt;
  SocketAddress copy;
  std::memcpy(&copy.storage_, address, length);
  copy.size_ = length;
  return copy;
}

std::uint16_t SocketAddress::port() const noexcept {
  if (family() == AF_INET) return ntohs(storage_.ipv4.sin_port);
  if (family() == AF_INET6) return ntohs(storage_.ipv6.sin6_port);
  return 0;
}

std::string SocketAddress::ToString() const {
  char text[INET6_ADDRSTRLEN];
  switch (family()) {
    case AF_INET:
      ::inet_ntop(AF_INET, &storage_.ipv4.sin_addr, text, sizeof(text));
      return std::string(text) + ':' + std::to_string(port());
    case AF_INET6: {
      ::inet_ntop(AF_INET6, &storage_.ipv6.sin6_addr, text, sizeof(text));
      std::string scope;
      if (storage_.ipv6.sin6_scope_id != 0) scope = '%' + std::to_string(storage_.ipv6.sin6_scope_id);
      return '[' + std::string(text) + scope + "]:" + std::to_string(port());
    }
    case AF_UNIX: {
      const std::size_t length = size_ > kPathOffset ? size_ - kPathOffset : 0;
      const char* path = storage_.local.sun_path;
      if (length != 0 && path[0] == '\0') return std::string(kUnixPrefix) + '@' + std::string(path + 1, length - 1);
      return std::string(kUnixPrefix) + std::string(path, ::strnlen(path, length));
    }
    default:
      return "(none)";
  }
}

bool operator==(const SocketAddress& a, const SocketAddress& b) noexcept {
  return a.size_ == b.size_ && std::memcmp(&a.storage_, &b.storage_, a.size_) == 0;
}

}  // namespace weft::io
