// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LoadBalancer: which of several servers the next call goes to.
// Sample:
//   io::LoadBalancer balancer(io::BalancePolicy::kLeastLoaded, {"10.0.0.1:80", "10.0.0.2:80"});
//   if (const auto pick = balancer.Pick()) {        // counts as a call of that server until it goes
//     Call(servers[pick->index()]);
//   }                                               // none: no server is usable
//   if (const auto other = balancer.PickOther(tried)) Call(servers[other->index()]);     // one not tried before
//   balancer.SetUsable(0, false);                   // what a health check or a CircuitBreaker has found
//
// Policies
//   kRoundRobin       one after the other
//   kLeastLoaded      the one with the fewest calls under way; the next in turn among equals
//   kConsistentHash   by Pick(key): a key stays at its server, and when one comes or goes, only its share of the keys
//                     moves. A server has kPointsPerServer points on a ring; a key belongs to the next usable one.
//
// kConsistentHash depends on the servers' names, not on their order. The set of servers is fixed.
// Any fiber and any thread; nothing blocks. Pick() takes O(servers), kConsistentHash O(log servers) while all are
// usable. Counts of calls are exact, but two picks at once may see the same ones. A Picked ends before its balancer.
#ifndef WEFT_NET_LOAD_BALANCER_H_
#define WEFT_NET_LOAD_BALANCER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::io {

// How a server is chosen: see above.
enum class BalancePolicy : std::uint8_t { kRoundRobin, kLeastLoaded, kConsistentHash };

class LoadBalancer {
  struct Server;

 public:
  // Shares of servers differ by about 1 / sqrt(points): by 10 %.
  static constexpr int kPointsPerServer = 100;

  // A call of a server.
  class Picked {
   public:
    Picked(Picked&& other) noexcept : server_(std::exchange(other.server_, nullptr)), index_(other.index_) {}
    Picked& operator=(Picked&&) = delete;
    ~Picked() {
      if (server_ != nullptr) server_->calls.fetch_sub(1, std::memory_order_relaxed);  // A hint for other picks.
    }
    // The server's place among the names, from 0.
    std::size_t index() const noexcept { return index_; }

   private:
    friend class LoadBalancer;
    Picked(Server* server, std::size_t index) : server_(server), index_(index) {}
    Server* server_;
    std::size_t index_;
  };

  // One server for each name; at least one.
  LoadBalancer(BalancePolicy policy, const std::vector<std::string>& names);

  // None: no server is usable.
  [[nodiscard]] std::optional<Picked> Pick() { return Pick(std::string_view()); }
  // By the key, if the policy is kConsistentHash.
  [[nodiscard]] std::optional<Picked> Pick(std::string_view key) { return PickOther({}, key); }
  // The same without some servers: those that a call has tried, when it is made again or a second time. Few.
  [[nodiscard]] std::optional<Picked> PickOther(std::span<const std::size_t> tried, std::string_view key = {});

  // All are usable at first.
  void SetUsable(std::size_t index, bool usable);
  // Whether the server is used. At first all are.
  bool IsUsable(std::size_t index) const;
  // Calls under way.
  std::size_t Calls(std::size_t index) const;
  // How many servers there are.
  std::size_t size() const noexcept { return servers_.size(); }

 private:
  // relaxed, both: hints.
  struct Server {
    std::atomic<std::size_t> calls{0};
    std::atomic<bool> usable{true};
  };
  struct Point {
    std::uint64_t at;
    std::uint32_t server;
  };

  using Indices = std::span<const std::size_t>;
  std::optional<std::size_t> Next(Indices tried);
  std::optional<std::size_t> LeastLoaded(Indices tried);
  std::optional<std::size_t> OnRing(std::uint64_t hash, Indices tried) const;
  bool MayTake(std::size_t index, Indices tried) const;
  Picked Take(std::size_t index);

  const BalancePolicy policy_;
  std::vector<Server> servers_;
  std::vector<Point> ring_;  // sorted
  std::atomic<std::size_t> turn_{0};
};

}  // namespace weft::io

#endif  // WEFT_NET_LOAD_BALANCER_H_
