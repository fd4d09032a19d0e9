// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/resolve.h"

#include "weft/net/resolver.h"

namespace weft::io {

ResolveResult detail::Resolve(const std::string& host, const std::string& service, ResolveOptions options,
                              Deadline deadline) {
  return ProcessResolver().Resolve(host, service, options, deadline);
}

ResolveResult ResolveHost(const std::string& host, const std::string& service, Deadline deadline) {
  return detail::Resolve(host, service, ResolveOptions(), deadline);
}

}  // namespace weft::io
