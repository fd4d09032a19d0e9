// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ResolverCore: what a Resolver is made of (net/resolver.h has the protocol and its invariants).
#ifndef WEFT_NET_NAME_RESOLVER_CORE_H_
#define WEFT_NET_NAME_RESOLVER_CORE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "weft/base/deadline.h"
#include "weft/io/blocking/blocking_pool.h"
#include "weft/net/resolve_result.h"
#include "weft/net/resolver_options.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::io {

class ResolverCore {
 public:
  explicit ResolverCore(ResolverOptions options);

  ResolveResult Resolve(const std::string& host, const std::string& service, ResolveOptions options, Deadline deadline);
  void SetCaching(const ResolverCaching& caching);
  void ForgetKept();
  ResolverCounts counts() const;

 private:
  // Host (in lower case), service, family, type of socket.
  using Key = std::tuple<std::string, std::string, int, int>;

  class Question;
  using QuestionPtr = std::shared_ptr<Question>;

  struct Kept {
    ResolveResult answer;
    Deadline good_until;
    std::list<Key>::iterator place;  // in order_
  };
  using KeptAnswers = std::map<Key, Kept>;

  // What a caller finds: an answer, or a question to wait for, which it may have to post.
  struct Found {
    std::optional<ResolveResult> answer;
    QuestionPtr question;
    bool is_new = false;
  };

  Found FindOrMake(const Key& key, const std::string& host);
  std::optional<ResolveResult> Await(const QuestionPtr& question, bool is_new, Deadline deadline);
  bool MayAsk(const Question& question);
  ResolveResult Ask(const Question& question) const noexcept;
  void End(Question* question, std::optional<ResolveResult> answer) noexcept;
  // With the mutex.
  void Keep(const Key& key, const ResolveResult& answer);
  void Drop(KeptAnswers::iterator kept);
  void DropAll();

  const ResolverLookUp look_up_;
  mutable FiberMutex mutex_;  // guards what follows, but for the pool
  ResolverCaching caching_;
  std::map<Key, QuestionPtr> questions_;
  KeptAnswers kept_;
  std::list<Key> order_;  // the oldest first
  ResolverCounts counts_;
  BlockingPool pool_;  // Last: its calls use the others.
};

}  // namespace weft::io

#endif  // WEFT_NET_NAME_RESOLVER_CORE_H_
