// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ResolveHost: the addresses of a host's name, by the C library's getaddrinfo() (hosts file, DNS, whatever
// nsswitch.conf says) on a thread of its own pool (net/resolver.h), so that only the caller waits.
// Sample:
//   const io::ResolveResult found = io::ResolveHost("example.com", "443", 2s);
//   for (const io::SocketAddress& address : found.addresses) ...     // in the order in which to try them (RFC 6724)
//
// To connect there, ConnectToHost() (net/connect_to_host.h) tries them all.
//
// Any fiber and any thread (which also waits for the pool); switches. Equal calls that come while one is under way get
// its answer. When a call is given up, its look-up goes on until the C library's time-outs end it (resolv.conf), and
// holds one of the 64 threads for look-ups.
//
// Errors
//   timed_out, operation_canceled    as in io_result.h
//   ResolveCategory()         of getaddrinfo(): EAI_NONAME (no such host), EAI_AGAIN (no server answers; equals
//                             std::errc::resource_unavailable_try_again) ...
//   others                    of the system, if getaddrinfo() returns EAI_SYSTEM
// Answers are not kept, unless ProcessResolver().SetCaching() was called (net/resolver.h), or the system has a cache.
#ifndef WEFT_NET_RESOLVE_H_
#define WEFT_NET_RESOLVE_H_

#include <concepts>
#include <string>

#include "weft/base/deadline.h"
#include "weft/net/resolve_result.h"

namespace weft::io {

namespace detail {
[[nodiscard]] ResolveResult Resolve(const std::string& host, const std::string& service, ResolveOptions options,
                                    Deadline deadline);
}  // namespace detail

// `host`: a name, or an address as text. `service`: a port as text, a name of /etc/services, or empty for port 0.
[[nodiscard]] ResolveResult ResolveHost(const std::string& host, const std::string& service, Deadline deadline = {});

// A template, so that `{}` as the third argument is not ambiguous: it means no deadline.
template <std::same_as<ResolveOptions> Options = ResolveOptions>
[[nodiscard]] ResolveResult ResolveHost(const std::string& host, const std::string& service, Options options,
                                        Deadline deadline = {}) {
  return detail::Resolve(host, service, options, deadline);
}

}  // namespace weft::io

#endif  // WEFT_NET_RESOLVE_H_
