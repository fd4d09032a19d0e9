// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/resolver.h"

#include <netdb.h>
#include <pthread.h>

#include <atomic>
#include <utility>

#include "weft/net/name/resolver_core.h"

namespace weft::io {
namespace {

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

}  // namespace weft::io
