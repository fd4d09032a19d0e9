// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Resolver: looks names of hosts up, with threads of its own, so that dead name servers delay no file. ResolveHost()
// (net/resolve.h) uses the process's; make another one for other limits, or another source of names.
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
// Who may call: any fiber (may switch) and any thread (may block). A cancelled Resolve() returns operation_canceled.
// Memory ordering: what the source of names did is visible to all who get its answer.
// Lifetime: no call may be under way when it is destroyed. The destructor waits for look-ups that are, given up or not.
// In a forked child ResolveHost() asks anew, with threads of the child; the parent's other resolvers must not be used.
// Rejected: FiberBlocking()'s pool (200 dead look-ups delayed ReadFile() by 10 s); c-ares (it tells how long an answer
// is good and needs no threads, but does not know what nsswitch.conf adds to DNS and the hosts file, as mDNS or LDAP);
// the first caller's fiber asks for all (if it is cancelled before its turn, the others lose their place in the queue).
#ifndef WEFT_NET_RESOLVER_H_
#define WEFT_NET_RESOLVER_H_

#include <memory>
#include <string>

#include "weft/base/deadline.h"
#include "weft/net/resolve_result.h"
#include "weft/net/resolver_options.h"

namespace weft::io {

class ResolverCore;

class Resolver {
 public:
  using LookUp = ResolverLookUp;
  using Caching = ResolverCaching;
  using Options = ResolverOptions;
  using Counts = ResolverCounts;

  Resolver() : Resolver(Options()) {}
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
  Counts counts() const;

 private:
  const std::unique_ptr<ResolverCore> core_;
};

// That of ResolveHost(): made at the first call, never destroyed.
Resolver& ProcessResolver();

}  // namespace weft::io

#endif  // WEFT_NET_RESOLVER_H_
