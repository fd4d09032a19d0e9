// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/load_balancer.h"

#include <algorithm>

#include "weft/base/report/check.h"

namespace weft::io {
namespace {

// FNV-1a, then the finisher of MurmurHash3, since FNV leaves the high bits of short texts alike. The same in every
// process: all clients of some servers agree where a key belongs.
std::uint64_t HashOf(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53u;
  return hash ^ (hash >> 33);
}

}  // namespace

LoadBalancer::LoadBalancer(BalancePolicy policy, const std::vector<std::string>& names)
    : policy_(policy), servers_(names.size()) {
  WEFT_CHECK(!names.empty(), "LoadBalancer: there is no server");
  if (policy != BalancePolicy::kConsistentHash) return;
  ring_.reserve(names.size() * kPointsPerServer);
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (int point = 1; point <= kPointsPerServer; ++point) {
      // Seeds far apart: HashOf(key, 0) is a key's.
      const std::uint64_t seed = static_cast<std::uint64_t>(point) * 0x9e3779b97f4a7c15u;
      ring_.push_back({HashOf(names[i], seed), static_cast<std::uint32_t>(i)});
    }
  }
  std::sort(ring_.begin(), ring_.end(), [](const Point& a, const Point& b) { return a.at < b.at; });
}

std::optional<LoadBalancer::Picked> LoadBalancer::PickOther(Indices tried, std::string_view key) {
  std::optional<std::size_t> index;
  switch (policy_) {
    case BalancePolicy::kRoundRobin:
      index = Next(tried);
      break;
    case BalancePolicy::kLeastLoaded:
      index = LeastLoaded(tried);
      break;
    case BalancePolicy::kConsistentHash:
      index = OnRing(HashOf(key, 0), tried);
      break;
  }
  if (!index) return std::nullopt;
  return Take(*index);
}

LoadBalancer::Picked LoadBalancer::Take(std::size_t index) {
  servers_[index].calls.fetch_add(1, std::memory_order_relaxed);
  return Picked(&servers_[index], index);
}

std::optional<std::size_t> LoadBalancer::Next(Indices tried) {
  const std::size_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const std::size_t index = (first + i) % servers_.size();
    if (MayTake(index, tried)) return index;
  }
  return std::nullopt;
}

std::optional<std::size_t> LoadBalancer::LeastLoaded(Indices tried) {
  const std::size_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  std::optional<std::size_t> best;
  std::size_t fewest = 0;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const std::size_t index = (first + i) % servers_.size();
    const std::size_t calls = Calls(index);
    if (!MayTake(index, tried) || (best && calls >= fewest)) continue;
    best = index;
    fewest = calls;
  }
  return best;
}

std::optional<std::size_t> LoadBalancer::OnRing(std::uint64_t hash, Indices tried) const {
  const auto at = std::lower_bound(ring_.begin(), ring_.end(), hash,
                                   [](const Point& point, std::uint64_t value) { return point.at < value; });
  const auto first = static_cast<std::size_t>(at - ring_.begin());
  for (std::size_t i = 0; i < ring_.size(); ++i) {
    const std::size_t index = ring_[(first + i) % ring_.size()].server;
    if (MayTake(index, tried)) return index;
  }
  return std::nullopt;
}

bool LoadBalancer::MayTake(std::size_t index, Indices tried) const {
  return IsUsable(index) && std::find(tried.begin(), tried.end(), index) == tried.end();
}

void LoadBalancer::SetUsable(std::size_t index, bool usable) {
  servers_.at(index).usable.store(usable, std::memory_order_relaxed);
}

bool LoadBalancer::IsUsable(std::size_t index) const {
  return servers_.at(index).usable.load(std::memory_order_relaxed);
}

std::size_t LoadBalancer::Calls(std::size_t index) const {
  return servers_.at(index).calls.load(std::memory_order_relaxed);
}

}  // namespace weft::io
