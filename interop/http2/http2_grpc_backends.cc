// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_grpc_backends.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/io/socket_address.h"
#include "weft/net/resolver.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

constexpr std::chrono::seconds kLookUpPause{1};  // between two look-ups

GrpcPeer ParseTarget(const std::string& target) {
  // Not in each_address: what is an address needs no look-up either way.
  if (const auto address = io::SocketAddress::Parse(target)) {
    const std::size_t colon = target.rfind(':');
    if (address->is_unix()) return {.host = "localhost", .service = "", .address = address};
    std::string host = target.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return {.host = host, .service = target.substr(colon + 1), .address = address};
  }
  const std::size_t colon = target.rfind(':');
  WEFT_CHECK(colon != std::string::npos && colon != 0 && colon + 1 != target.size(),
             "Http2GrpcClient: a target that is no \"host:port\": ", target);
  return {.host = target.substr(0, colon), .service = target.substr(colon + 1), .address = {}};
}

}  // namespace

GrpcBackends::GrpcBackends(std::string_view targets, const Http2GrpcClientOptions& options, GrpcTally* tally)
    : options_(options), tally_(tally) {
  while (!targets.empty()) {
    const std::string_view target = targets.substr(0, targets.find(','));
    targets_.push_back(ParseTarget(std::string(target)));
    targets_.back().resolver = options_.resolver;
    targets.remove_prefix(std::min(targets.size(), target.size() + 1));
  }
  WEFT_CHECK(!targets_.empty(), "Http2GrpcClient: no target");
  if (!options_.each_address) {
    set_ = MakeSet(targets_, nullptr);
  } else {
    look_up_at_ = Deadline::TimePoint::min();
  }
}

GrpcBackends::~GrpcBackends() { tasks_.Cancel(); }

std::size_t GrpcBackends::size() const {
  const std::scoped_lock lock(mutex_);
  return set_ == nullptr ? 0 : set_->backends.size();
}

std::error_code GrpcBackends::Await(Deadline deadline, std::shared_ptr<GrpcBackendSet>* set) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ends_before = ends_;
  for (;;) {
    LookUpIfDue();
    *set = set_;
    if (set_ != nullptr) return {};
    if (ends_ != ends_before) return failure_;  // GN1
    // Not within a second, or no fiber was started.
    if (!is_looking_up_) {
      return failure_ ? failure_ : std::make_error_code(std::errc::resource_unavailable_try_again);
    }
    try {
      if (changed_.wait(lock, deadline) == std::cv_status::timeout) return std::make_error_code(std::errc::timed_out);
    } catch (const FiberCancelled&) {
      return std::make_error_code(std::errc::operation_canceled);
    }
  }
}

void GrpcBackends::LookUpSoon() {
  if (!options_.each_address) return;
  const std::scoped_lock lock(mutex_);
  look_up_at_ = std::min(look_up_at_, Deadline::After(kLookUpPause, looked_up_at_));
}

void GrpcBackends::LookUpIfDue() {
  if (is_looking_up_ || !look_up_at_.expired()) return;
  is_looking_up_ = tasks_.Start({.name = "grpc look up"}, [this] { LookUp(); });
}

void GrpcBackends::LookUp() {
  std::vector<GrpcPeer> found;
  const std::error_code failure = FindAll(&found);
  std::shared_ptr<GrpcBackendSet> set;  // GN2: after the unlock it is the former one.
  {
    const std::scoped_lock lock(mutex_);
    set = set_;
  }
  if (!failure) set = MakeSet(std::move(found), set);
  const std::scoped_lock lock(mutex_);
  is_looking_up_ = false;
  ++ends_;
  failure_ = failure;
  looked_up_at_ = FiberClock::now();
  look_up_at_ = Deadline::After(failure ? kLookUpPause : options_.resolve_after, looked_up_at_);
  set_.swap(set);
  changed_.notify_all();
}

// All or nothing: the servers of a name that cannot be looked up now stay.
std::error_code GrpcBackends::FindAll(std::vector<GrpcPeer>* found) const {
  io::Resolver& resolver = options_.resolver != nullptr ? *options_.resolver : io::ProcessResolver();
  for (const GrpcPeer& target : targets_) {
    if (target.address.has_value()) {
      found->push_back(target);
      continue;
    }
    const io::ResolveResult result =
        resolver.Resolve(target.host, target.service, {}, Deadline(options_.connect_timeout));
    if (!result.ok()) return result.error;
    for (const io::SocketAddress& address : result.addresses) {
      found->push_back({.host = target.host, .service = target.service, .address = address});
    }
  }
  return {};
}

// The set from `before`, if it has the same servers.
std::shared_ptr<GrpcBackendSet> GrpcBackends::MakeSet(std::vector<GrpcPeer> peers,
                                                      const std::shared_ptr<GrpcBackendSet>& before) const {
  std::vector<std::pair<std::string, GrpcPeer>> named;
  named.reserve(peers.size());
  for (GrpcPeer& peer : peers) named.emplace_back(peer.ToString(), std::move(peer));
  const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  std::sort(named.begin(), named.end(), less);
  named.erase(std::unique(named.begin(), named.end(), same), named.end());
  Backends backends;
  std::vector<std::string> names;
  for (auto& [name, peer] : named) {
    std::shared_ptr<GrpcBackend> backend;
    for (std::size_t i = 0; before != nullptr && i < before->backends.size(); ++i) {
      if (before->backends[i]->name() == name) backend = before->backends[i];
    }
    if (backend == nullptr) backend = std::make_shared<GrpcBackend>(std::move(peer), options_, tally_);
    backends.push_back(std::move(backend));
    names.push_back(name);
  }
  if (before != nullptr && before->backends == backends) return before;
  return std::make_shared<GrpcBackendSet>(options_.balance, std::move(backends), names);
}

}  // namespace weft::interop
