// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ResolveResult: what a look-up of a host's name returns (net/resolve.h, net/resolver.h).
#ifndef WEFT_NET_RESOLVE_RESULT_H_
#define WEFT_NET_RESOLVE_RESULT_H_

#include <sys/socket.h>

#include <system_error>
#include <vector>

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

// The category of the EAI_ numbers of <netdb.h>. Any thread.
const std::error_category& ResolveCategory();

}  // namespace weft::io

#endif  // WEFT_NET_RESOLVE_RESULT_H_
