// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ConnectToHost: a connection to a host by its name, at the first of its addresses that answers ("Happy Eyeballs",
// RFC 8305): an address that is dead, or a family that does not get through, costs a quarter of a second.
// Sample:
//   io::TcpStream stream;
//   if (auto error = io::ConnectToHost("example.com", "443", &stream, 5s)) return error;
//
// How: the addresses of the look-up are tried in its order (RFC 6724), but with alternating families. The next attempt
// begins when one fails, or 250 ms after the last one began; those before go on. The first connection made wins.
//
// The deadline is that of the whole, the look-up included. Errors: as ResolveHost() (net/resolver.h); timed_out, also
// if all attempts so far had failed; operation_canceled; setsockopt(2)'s of keep_alive and user_timeout; otherwise the
// last failure of an attempt, where one that says only that there is no way from here (network_unreachable and the
// like) counts less than others. `stream` is as it was after an error.
//
// Any fiber (switches) and any thread (blocks; without a runtime, too). The attempts take no fibers: one epoll
// descriptor waits for all, and the caller waits for that.
// Rejected: RFC 8305's separate look-ups of IPv4 and IPv6 addresses, since getaddrinfo() makes both at once; a fiber
// for each attempt (FiberScope, first success), because threads call this, too.
#ifndef WEFT_NET_CONNECT_TO_HOST_H_
#define WEFT_NET_CONNECT_TO_HOST_H_

#include <chrono>
#include <concepts>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_liveness.h"
#include "weft/io/tcp_stream.h"
#include "weft/net/resolver.h"

namespace weft::io {

// How to look the host up, and how to try its addresses.
struct ConnectOptions {
  // How long an attempt is alone. RFC 8305: 250 ms; no less than 100 ms, no more than 2 s.
  std::chrono::nanoseconds attempt_delay = std::chrono::milliseconds(250);
  int family = AF_UNSPEC;        // or AF_INET, AF_INET6 only
  Resolver* resolver = nullptr;  // nullptr: the process's
  // For peers that vanish without a word (io/tcp_liveness.h). Set once it is connected. The defaults set nothing.
  TcpKeepAlive keep_alive{.enabled = false};
  std::chrono::milliseconds user_timeout{0};
};

namespace detail {

// The families alternate, beginning with that of the first (RFC 8305, section 4); otherwise the order stays.
std::vector<SocketAddress> AlternateFamilies(const std::vector<SocketAddress>& addresses);

[[nodiscard]] std::error_code ConnectToHost(const std::string& host, const std::string& service, TcpStream* stream,
                                            const ConnectOptions& options, Deadline deadline);
}  // namespace detail

// `host` and `service` as for ResolveHost().
[[nodiscard]] inline std::error_code ConnectToHost(const std::string& host, const std::string& service,
                                                   TcpStream* stream, Deadline deadline = {}) {
  return detail::ConnectToHost(host, service, stream, ConnectOptions(), deadline);
}

// A template, so that `{}` as the last argument is not ambiguous: it means no deadline.
template <std::same_as<ConnectOptions> Options = ConnectOptions>
[[nodiscard]] std::error_code ConnectToHost(const std::string& host, const std::string& service, TcpStream* stream,
                                            const Options& options, Deadline deadline = {}) {
  return detail::ConnectToHost(host, service, stream, options, deadline);
}

// To the first of these addresses that answers, tried in this order. No address: address_not_available.
[[nodiscard]] std::error_code ConnectToFirst(std::span<const SocketAddress> addresses, TcpStream* stream,
                                             std::chrono::nanoseconds attempt_delay, Deadline deadline = {});

}  // namespace weft::io

#endif  // WEFT_NET_CONNECT_TO_HOST_H_
