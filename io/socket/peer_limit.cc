// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/socket/peer_limit.h"

#include <netinet/in.h>

#include <cstring>
#include <mutex>
#include <new>

namespace weft::io {

std::optional<PeerLimit::Host> PeerLimit::HostOf(const SocketAddress& address) noexcept {
  if (address.family() == AF_INET) {
    return Host{AF_INET, reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr.s_addr};
  }
  if (address.family() != AF_INET6) return std::nullopt;
  const in6_addr& ipv6 = reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ipv6)) return Host{AF_INET, ipv6.s6_addr32[3]};
  std::uint64_t prefix;
  std::memcpy(&prefix, ipv6.s6_addr, sizeof(prefix));
  return Host{AF_INET6, prefix};
}

bool PeerLimit::Enter(const Host& host) noexcept {
  const std::lock_guard guard(mutex_);
  try {
    std::size_t& count = connections_[host];
    if (count >= most_) return false;
    ++count;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void PeerLimit::Leave(const Host& host) noexcept {
  const std::lock_guard guard(mutex_);
  const auto found = connections_.find(host);
  if (--found->second == 0) connections_.erase(found);
}

}  // namespace weft::io
