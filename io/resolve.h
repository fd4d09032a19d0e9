// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ResolveHost: the addresses of a host's name, by the C library's getaddrinfo() (hosts file, DNS, whatever
// nsswitch.conf says) on a thread of the blocking pool (io/fiber_blocking.h), so that only the caller waits.
// Sample:
//   const io::ResolveResult found = io::ResolveHost("example.com", "443", 2s);
//   for (const io::SocketAddress& address : found.addresses) ...     // in the order in which to try them (RFC 6724)
//
// Any fiber and any thread (which also waits for the pool); switches. A call that is given up holds a thread of the
// pool until the C library's time-outs end it (resolv.conf; by default 5 s and 2 attempts for each server).
//
// Errors
//   timed_out, operation_canceled    as in io_result.h
//   ResolveCategory()         of getaddrinfo(): EAI_NONAME (no such host), EAI_AGAIN (no server answers; equals
//                             std::errc::resource_unavailable_try_again) ...
//   others                    of the system, if getaddrinfo() returns EAI_SYSTEM
// It keeps no cache: two calls ask twice, unless the system has one.
#ifndef WEFT_IO_RESOLVE_H_
#define WEFT_IO_RESOLVE_H_

#include <sys/socket.h>

#include <concepts>
#include <string>
#include <system_error>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/io/socket_address.h"

namespace weft::io {

struct ResolveOptions {
  int family = AF_UNSPEC;         // or AF_INET, AF_INET6 only
  int socket_type = SOCK_STREAM;  // for SOCK_DGRAM a service may have another port
};

struct ResolveResult {
  std::error_code error;
  std::vector<SocketAddress> addresses;  // at least one, unless there was an error

  bool ok() const noexcept { return !error; }
};

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

// The category of the EAI_ numbers of <netdb.h>.
const std::error_category& ResolveCategory();

}  // namespace weft::io

#endif  // WEFT_IO_RESOLVE_H_
