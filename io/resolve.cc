// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/resolve.h"

#include <netdb.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "weft/io/fiber_blocking.h"
#include "weft/io/io_result.h"

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

// Runs on a thread of the pool.
ResolveResult Ask(const std::string& host, const std::string& service, ResolveOptions options) {
  addrinfo hints{};
  hints.ai_family = options.family;
  hints.ai_socktype = options.socket_type;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(host.c_str(), service.empty() ? nullptr : service.c_str(), &hints, &list);
  if (status == EAI_SYSTEM) return {ErrnoCode(errno), {}};
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

}  // namespace

ResolveResult detail::Resolve(const std::string& host, const std::string& service, ResolveOptions options,
                              Deadline deadline) {
  std::optional<ResolveResult> result;
  // Copies, since the thread may still ask when the caller has gone.
  const auto ask = [=] { return Ask(host, service, options); };
  const synchronization::WaitResult waited =
      RunBlocking(ProcessBlockingPool(), ask, &result, synchronization::Interruptible::kYes, deadline);
  switch (waited) {
    case synchronization::WaitResult::kNotified:
      return *std::move(result);
    case synchronization::WaitResult::kTimedOut:
      return {std::make_error_code(std::errc::timed_out), {}};
    case synchronization::WaitResult::kInterrupted:
      return {std::make_error_code(std::errc::operation_canceled), {}};
  }
  return {};  // Not reached.
}

ResolveResult ResolveHost(const std::string& host, const std::string& service, Deadline deadline) {
  return detail::Resolve(host, service, ResolveOptions(), deadline);
}

const std::error_category& ResolveCategory() {
  // Never destroyed: codes outlive static objects.
  static const auto* const category = new Category;
  return *category;
}

}  // namespace weft::io
