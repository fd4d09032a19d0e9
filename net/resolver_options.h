// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ResolverOptions: the limits, the cache and the source of names of a Resolver (net/resolver.h).
#ifndef WEFT_NET_RESOLVER_OPTIONS_H_
#define WEFT_NET_RESOLVER_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "weft/net/resolve_result.h"

namespace weft::io {

// On a thread of the resolver; several at once. Returns an answer or an error; an exception is not_enough_memory.
using ResolverLookUp =
    std::function<ResolveResult(const std::string& host, const std::string& service, ResolveOptions)>;

// 0: not kept.
struct ResolverCaching {
  std::chrono::nanoseconds ttl{0};           // of an answer
  std::chrono::nanoseconds negative_ttl{0};  // of EAI_NONAME and EAI_NODATA
  std::size_t max_entries = 1024;
};

struct ResolverOptions {
  // Look-ups that run at once; a thread each, made when needed. As many as for other blocking calls: one that no
  // server answers holds its thread for 10 s.
  std::int64_t threads = 64;
  std::int64_t queue_size = 1024;  // look-ups that wait for a thread; further callers wait for room
  ResolverCaching caching;
  ResolverLookUp look_up;  // empty: getaddrinfo()
};

// Since it was made.
struct ResolverCounts {
  std::uint64_t asked = 0;       // look-ups begun
  std::uint64_t joined = 0;      // calls that waited for another one's
  std::uint64_t from_cache = 0;  // calls that a kept answer served
  std::size_t kept = 0;          // answers at present, some of them too old
  std::size_t pending = 0;       // look-ups in the queue or running
};

}  // namespace weft::io

#endif  // WEFT_NET_RESOLVER_OPTIONS_H_
