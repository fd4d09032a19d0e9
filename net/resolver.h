// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ResolveHost: the addresses of a host's name, by the C library's getaddrinfo() (hosts file, DNS, whatever
// nsswitch.conf says) on a thread of its own pool, so that only the caller waits.
// Sample:
//   const io::ResolveResult found = io::ResolveHost("example.com", "443", 2s);
//   for (const io::SocketAddress& address : found.addresses) ...     // in the order in which to try them (RFC 6724)
//
// To connect there, ConnectToHost() (net/connect_to_host.h) tries them all.
//
// Errors
//   timed_out, operation_canceled    as in io_result.h
//   ResolveCategory()         of getaddrinfo(): EAI_NONAME (no such host), EAI_AGAIN (no server answers; equals
//                             std::errc::resource_unavailable_try_again) ...
//   others                    of the system, if getaddrinfo() returns EAI_SYSTEM
//
// Resolver: looks names of hosts up, with threads of its own, so that dead name servers delay no file. ResolveHost()
// uses the process's; make another one for other limits, or another source of names.
// Sample:
//   io::ProcessResolver().SetCaching({.ttl = 30s, .negative_ttl = 5s});     // at the start of a program
//   io::Resolver::Options options;
//   options.look_up = [](const std::string& host, const std::string& service, io::ResolveOptions wanted) {
//     return AskConsul(host, service, wanted);              // may block; on a thread of this resolver
//   };
//   io::Resolver resolver(options);
//   const io::ResolveResult found = resolver.Resolve("shop.internal", "http", {}, 2s);
//
// An address as text is answered in place. For a name:
//
//   kept, and not too old:  that answer
//   asked for right now:    waits with the others for that answer        (the same name, service and options)
//   else:                   puts the question into the queue, and waits
//   a thread of the pool:   takes the oldest question; if somebody waits for it, looks up, keeps the answer as
//                           SetCaching() says, wakes all who wait
//
// Nothing is kept unless SetCaching() was called, since getaddrinfo() does not say how long an answer is good. Kept are
// answers (ttl) and "there is no such name" (negative_ttl), but no failures to find out. When there are too many, the
// oldest go.
//
// Invariants
//   RV1  One question at a time for equal calls: a question is in `questions_` from the call that makes it to its end,
//        and calls look there under the lock.
//   RV2  The waiters of a question do not depend on each other. The pool owns it (BlockingPool::Post()), and a waiter
//        that gives up leaves the count only.
//   RV3  Every question ends: with an answer, or without one (no room or no thread in time, or nobody waited). Those
//        who wait then, or joined meanwhile, ask anew after a pause.
//   RV4  A question that nobody waits for when its turn comes is not asked.
//
// When a call is given up, its look-up goes on until the C library's time-outs end it (resolv.conf), and holds one of
// the threads. Without SetCaching() only the system may have a cache.
//
// Who may call: any fiber (may switch) and any thread (may block). A cancelled Resolve() returns operation_canceled.
// Memory ordering: what the source of names did is visible to all who get its answer.
// Lifetime: no call may be under way when it is destroyed. The destructor waits for look-ups that are, given up or not.
// In a forked child ResolveHost() asks anew, with threads of the child; the parent's other resolvers must not be used.
// Rejected: FiberBlocking()'s pool (200 dead look-ups delayed ReadFile() by 10 s); c-ares (it tells how long an answer
// is good and needs no threads, but does not know what nsswitch.conf adds to DNS and the hosts file, as mDNS or LDAP);
// the first caller's fiber asks for all (if it is cancelled before its turn, the others lose their place in the queue).
#ifndef WEFT_NET_RESOLVER_H_
#define WEFT_NET_RESOLVER_H_

#include <sys/socket.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/io/socket_address.h"

namespace weft::io {

// Which addresses are wanted.
struct ResolveOptions {
  int family = AF_UNSPEC;         // or AF_INET, AF_INET6 only
  int socket_type = SOCK_STREAM;  // for SOCK_DGRAM a service may have another port
};

// The addresses of a host, or why there are none.
struct ResolveResult {
  // None, or why there are no addresses.
  std::error_code error;
  std::vector<SocketAddress> addresses;  // at least one, unless there was an error

  // Whether there was no error.
  bool ok() const noexcept { return !error; }
};

// The category of the EAI_ numbers of <netdb.h>. Any thread.
const std::error_category& ResolveCategory();

// On a thread of the resolver; several at once. Returns an answer or an error; an exception is not_enough_memory.
using ResolverLookUp =
    std::function<ResolveResult(const std::string& host, const std::string& service, ResolveOptions)>;

// 0: not kept.
struct ResolverCaching {
  std::chrono::nanoseconds ttl{0};           // of an answer
  std::chrono::nanoseconds negative_ttl{0};  // of EAI_NONAME and EAI_NODATA
  // Answers that are kept at most.
  std::size_t max_entries = 1024;
};

// What a resolver is made from.
struct ResolverOptions {
  // Look-ups that run at once; a thread each, made when needed. As many as for other blocking calls: one that no
  // server answers holds its thread for 10 s.
  std::int64_t threads = 64;
  std::int64_t queue_size = 1024;  // look-ups that wait for a thread; further callers wait for room
  // How long answers are kept; by default not at all.
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

class ResolverCore;

class Resolver {
 public:
  // The types above, under shorter names.
  using LookUp = ResolverLookUp;
  using Caching = ResolverCaching;
  using Options = ResolverOptions;
  using Counts = ResolverCounts;

  // With as many threads as for other blocking calls, and no cache.
  Resolver() : Resolver(Options()) {}
  // As `options` say. The threads are made when they are needed.
  explicit Resolver(Options options);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // As ResolveHost().
  [[nodiscard]] ResolveResult Resolve(const std::string& host, const std::string& service, ResolveOptions options = {},
                                      Deadline deadline = {});

  // From now on. Forgets what is kept.
  void SetCaching(const Caching& caching);
  // Look-ups that are under way are kept as they come.
  void ForgetKept();
  // Since it was made; a snapshot. Any fiber and any thread.
  Counts counts() const;

 private:
  const std::unique_ptr<ResolverCore> core_;
};

// That of ResolveHost(): made at the first call, never destroyed.
Resolver& ProcessResolver();

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

#endif  // WEFT_NET_RESOLVER_H_
