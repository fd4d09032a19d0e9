// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PeerLimit: counts the connections that each host has to a TcpServer, and refuses those above a limit.
//
// A host is an IPv4 address (mapped to IPv6, too), or the first 64 bits of an IPv6 address, since a customer of a
// provider may choose the rest (RFC 6177) and would otherwise be as many hosts as it likes. Unix sockets have no host.
//
// An ordered map, because clients choose the keys: no set of addresses makes a look-up slow.
//
// Who may call: any fiber and thread. Nothing switches, also under the lock.
#ifndef WEFT_IO_SOCKET_PEER_LIMIT_H_
#define WEFT_IO_SOCKET_PEER_LIMIT_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "weft/io/socket_address.h"

namespace weft::io {

class PeerLimit {
 public:
  struct Host {
    int family;
    std::uint64_t prefix;
    friend auto operator<=>(const Host&, const Host&) = default;  // NOLINT
  };
  static std::optional<Host> HostOf(const SocketAddress& address) noexcept;

  // `most`: connections of one host, at least 1.
  explicit PeerLimit(std::size_t most) : most_(most) {}

  // False: the host has as many as it may, or there is no memory. True: Leave() must follow.
  [[nodiscard]] bool Enter(const Host& host) noexcept;
  void Leave(const Host& host) noexcept;

 private:
  const std::size_t most_;
  std::mutex mutex_;                         // memory is allocated under it
  std::map<Host, std::size_t> connections_;  // guarded by mutex_; none has 0
};

}  // namespace weft::io

#endif  // WEFT_IO_SOCKET_PEER_LIMIT_H_
