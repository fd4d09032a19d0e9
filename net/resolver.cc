// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/io/blocking/blocking_pool.h"
#include "weft/io/io_result.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::io {
namespace {

using synchronization::Interruptible;
using synchronization::WaitAccess;
using synchronization::WaitResult;

ResolveResult SystemLookUp(const std::string& host, const std::string& service, ResolveOptions options) {
  addrinfo hints{};
  hints.ai_family = options.family;
  hints.ai_socktype = options.socket_type;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(host.c_str(), service.empty() ? nullptr : service.c_str(), &hints, &list);
  if (status == EAI_SYSTEM && errno != 0) return {ErrnoCode(errno), {}};
  if (status == EAI_SYSTEM) return {{EAI_FAIL, ResolveCategory()}, {}};
  if (status != 0) return {{status, ResolveCategory()}, {}};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(list, &::freeaddrinfo);
  ResolveResult result;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (const auto address = SocketAddress::FromSockaddr(entry->ai_addr, entry->ai_addrlen)) {
      result.addresses.push_back(*address);
    }
  }
  if (result.addresses.empty()) result.error = {EAI_NONAME, ResolveCategory()};
  return result;
}

// An address and a port as text. getaddrinfo() takes more forms (127.1, fe80::1%eth0), and refuses a wrong family.
std::optional<SocketAddress> FromText(const std::string& host, const std::string& service, int family) {
  in6_addr address;
  const bool is_ipv6 = host.find(':') != std::string::npos;
  if (family != AF_UNSPEC && family != (is_ipv6 ? AF_INET6 : AF_INET)) return std::nullopt;
  if (::inet_pton(is_ipv6 ? AF_INET6 : AF_INET, host.c_str(), &address) != 1) return std::nullopt;
  const std::string port = service.empty() ? "0" : service;
  return SocketAddress::Parse(is_ipv6 ? '[' + host + "]:" + port : host + ':' + port);
}

std::string InLowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

bool SaysThereIsNone(const std::error_code& error) {
  return error.category() == ResolveCategory() && (error.value() == EAI_NONAME || error.value() == EAI_NODATA);
}

std::error_code ErrorOf(WaitResult waited) {
  return ErrnoCode(waited == WaitResult::kTimedOut ? ETIMEDOUT : ECANCELED);
}

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "resolve"; }
  std::string message(int value) const override { return ::gai_strerror(value); }
  std::error_condition default_error_condition(int value) const noexcept override {
    switch (value) {
      case EAI_AGAIN:
        return std::errc::resource_unavailable_try_again;
      case EAI_MEMORY:
        return std::errc::not_enough_memory;
      default:
        return {value, *this};
    }
  }
};

// Never destroyed: its threads may look up when the process exits.
constinit std::atomic<Resolver*> of_the_process{nullptr};

// The child does not have the parent's threads, one of which may hold the lock.
[[maybe_unused]] const int at_fork = ::pthread_atfork(nullptr, nullptr, [] {
  of_the_process.store(nullptr, std::memory_order_relaxed);  // The child has one thread.
});

}  // namespace

// What a Resolver is made of.
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

class ResolverCore::Question final : public BlockingCall {
 public:
  Question(ResolverCore* core, const Key& the_key, const std::string& the_host)
      : key(the_key), host(the_host), core_(core) {}

  // To the pool, which owns it until Drop().
  static WaitResult Post(BlockingPool* pool, const QuestionPtr& question, Deadline deadline) {
    question->of_the_pool_ = question;
    return pool->Post(question.get(), Interruptible::kResult, deadline);
  }

  const Key key;
  const std::string host;   // as it was spelled
  std::size_t waiters = 0;  // guarded by the core's mutex
  // Written once, before `ended`. None: it was not asked (RV3).
  std::optional<ResolveResult> answer;
  FiberEvent ended;

 private:
  void Run() noexcept override {
    if (core_->MayAsk(*this)) core_->End(this, core_->Ask(*this));
  }
  void Drop() noexcept override {
    const QuestionPtr last = std::move(of_the_pool_);
    if (!ended.IsSet()) core_->End(this, std::nullopt);
  }

  ResolverCore* const core_;
  QuestionPtr of_the_pool_;
};

ResolverCore::ResolverCore(ResolverOptions options)
    : look_up_(options.look_up ? std::move(options.look_up) : ResolverLookUp(&SystemLookUp)),
      caching_(options.caching),
      pool_({.threads = options.threads, .queue_size = options.queue_size}) {}

ResolveResult ResolverCore::Resolve(const std::string& host, const std::string& service, ResolveOptions options,
                                    Deadline deadline) {
  if (const auto address = FromText(host, service, options.family)) return {{}, {*address}};
  const Key key(InLowerCase(host), service, options.family, options.socket_type);
  for (;;) {
    const Found found = FindOrMake(key, host);
    if (found.answer) return *found.answer;
    if (const auto answer = Await(found.question, found.is_new, deadline)) return *answer;
    // RV3.
    const WaitResult slept =
        synchronization::SleepUntil(std::min(deadline, Deadline(BlockingPool::kRetryAfter)), Interruptible::kResult);
    if (slept == WaitResult::kInterrupted || deadline.expired()) return {ErrorOf(slept), {}};
  }
}

ResolverCore::Found ResolverCore::FindOrMake(const Key& key, const std::string& host) {
  const std::scoped_lock lock(mutex_);
  if (const auto kept = kept_.find(key); kept != kept_.end()) {
    if (!kept->second.good_until.expired()) {
      ++counts_.from_cache;
      return {kept->second.answer, nullptr};
    }
    Drop(kept);
  }
  QuestionPtr& place = questions_[key];
  const bool is_new = place == nullptr;
  if (is_new) {
    place = std::make_shared<Question>(this, key, host);
  } else {
    ++counts_.joined;
  }
  ++place->waiters;
  return {std::nullopt, place, is_new};
}

// None: it was not asked.
std::optional<ResolveResult> ResolverCore::Await(const QuestionPtr& question, bool is_new, Deadline deadline) {
  WaitResult waited = WaitResult::kNotified;
  if (is_new) waited = Question::Post(&pool_, question, deadline);
  if (waited == WaitResult::kNotified) {
    const synchronization::WaitReason reason(synchronization::WaitKind::kNameLookUp, question.get());
    waited = WaitAccess::Wait(question->ended, deadline, Interruptible::kResult, reason);
  }
  if (waited == WaitResult::kNotified) return question->answer;
  const std::scoped_lock lock(mutex_);
  --question->waiters;  // RV2
  return ResolveResult{ErrorOf(waited), {}};
}

// False: nobody waits (RV4).
bool ResolverCore::MayAsk(const Question& question) {
  const std::scoped_lock lock(mutex_);
  if (question.waiters == 0) return false;
  ++counts_.asked;
  return true;
}

ResolveResult ResolverCore::Ask(const Question& question) const noexcept {
  try {
    const auto& [key_host, service, family, type] = question.key;
    ResolveResult found = look_up_(question.host, service, ResolveOptions{.family = family, .socket_type = type});
    if (found.ok() && found.addresses.empty()) found.error = {EAI_FAIL, ResolveCategory()};
    return found;
  } catch (...) {
    return {std::make_error_code(std::errc::not_enough_memory), {}};
  }
}

void ResolverCore::End(Question* question, std::optional<ResolveResult> answer) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    questions_.erase(question->key);  // RV1: it is the only one. The pool keeps it alive until Drop() has ended.
    if (answer) Keep(question->key, *answer);
  }
  question->answer = std::move(answer);
  question->ended.Set();
}

void ResolverCore::Keep(const Key& key, const ResolveResult& answer) {
  std::chrono::nanoseconds ttl{0};
  if (answer.ok()) {
    ttl = caching_.ttl;
  } else if (SaysThereIsNone(answer.error)) {
    ttl = caching_.negative_ttl;
  }
  if (ttl.count() <= 0 || caching_.max_entries == 0) return;
  while (kept_.size() >= caching_.max_entries) Drop(kept_.find(order_.front()));
  order_.push_back(key);
  kept_.emplace(key, Kept{answer, Deadline(ttl), std::prev(order_.end())});
}

void ResolverCore::Drop(KeptAnswers::iterator kept) {
  order_.erase(kept->second.place);
  kept_.erase(kept);
}

void ResolverCore::DropAll() {
  kept_.clear();
  order_.clear();
}

void ResolverCore::SetCaching(const ResolverCaching& caching) {
  const std::scoped_lock lock(mutex_);
  caching_ = caching;
  DropAll();
}

void ResolverCore::ForgetKept() {
  const std::scoped_lock lock(mutex_);
  DropAll();
}

ResolverCounts ResolverCore::counts() const {
  const std::scoped_lock lock(mutex_);
  ResolverCounts counts = counts_;
  counts.kept = kept_.size();
  counts.pending = questions_.size();
  return counts;
}

Resolver::Resolver(Options options) : core_(std::make_unique<ResolverCore>(std::move(options))) {}

Resolver::~Resolver() = default;

ResolveResult Resolver::Resolve(const std::string& host, const std::string& service, ResolveOptions options,
                                Deadline deadline) {
  return core_->Resolve(host, service, options, deadline);
}

void Resolver::SetCaching(const Caching& caching) { core_->SetCaching(caching); }

void Resolver::ForgetKept() { core_->ForgetKept(); }

Resolver::Counts Resolver::counts() const { return core_->counts(); }

Resolver& ProcessResolver() {
  // acquire: the object. Pairs with the release below.
  Resolver* resolver = of_the_process.load(std::memory_order_acquire);
  if (resolver != nullptr) return *resolver;
  auto made = std::make_unique<Resolver>();
  if (!of_the_process.compare_exchange_strong(resolver, made.get(), std::memory_order_acq_rel,
                                              std::memory_order_acquire)) {
    return *resolver;
  }
  return *made.release();
}

const std::error_category& ResolveCategory() {
  // Never destroyed: codes outlive static objects.
  static const auto* const category = new Category;
  return *category;
}

ResolveResult detail::Resolve(const std::string& host, const std::string& service, ResolveOptions options,
                              Deadline deadline) {
  return ProcessResolver().Resolve(host, service, options, deadline);
}

ResolveResult ResolveHost(const std::string& host, const std::string& service, Deadline deadline) {
  return detail::Resolve(host, service, ResolveOptions(), deadline);
}

}  // namespace weft::io
