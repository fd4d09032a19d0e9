// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HedgedSearch: asks one of several replicas. It asks another one too when the first has not answered within the hedge
// delay, or has failed. The first answer counts; the other call is cancelled. So a slow or dead replica costs the hedge
// delay and a little more work instead of its own time (Dean and Barroso, "The Tail at Scale", 2013). Hedges have a
// budget (io::RetryBudget), so that replicas that are all slow get little more work than without.
//
// Each attempt goes to the replica with the fewest calls under way (io::LoadBalancer), of those that have a connection,
// or are making the first one, and that this request has not tried. A replica whose calls fail again and again is left
// alone for a while (io::CircuitBreaker): calls fail that the server did not take, or that ended with their connection.
// An answer of its own, also a failure, is a success. A call that was cancelled or came to its deadline fails if the
// server is silent (CircuitBreaker::ReportUnanswered()), unless it has waited for less than the hedge delay: a client
// that gives no time, or goes away, says nothing of the server. So a server that hangs is left alone, although hedges
// cut its calls short.
//
// Each attempt is a fiber of a FiberScope that ends with the first success (weft/fiber/fiber_scope.h), and makes a call
// that blocks it. So a loser's call is cancelled, and its server told; and when Ask()'s caller is cancelled, all are.
// When Ask() returns, no attempt is left.
//
// Ask(): any fiber, several at once; a cancellation point. The channels outlive it.
#ifndef WEFT_EXAMPLES_PROXY_HEDGED_SEARCH_H_
#define WEFT_EXAMPLES_PROXY_HEDGED_SEARCH_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/examples/rpc/rpc_channel.h"
#include "weft/net/budgets.h"
#include "weft/net/circuit_breaker.h"
#include "weft/net/load_balancer.h"

#include "examples/proxy/search.pb.h"

namespace weft::proxy {

class HedgedSearch {
 public:
  struct Result {
    rpc::ErrorCode code = rpc::OK;
    std::string text;  // why it failed
    SearchAnswer answer;
  };

  struct Options {
    // At most two replicas are asked at the same time. Infinite: the second only when the first has failed.
    std::chrono::microseconds hedge_delay = std::chrono::microseconds::max();
    io::RetryBudget::Options hedging{.share = 0.1, .reserve = 100};
    io::CircuitBreaker::Options breaking{};
  };
  HedgedSearch(std::vector<rpc::Channel*> replicas, const Options& options);

  // UNAVAILABLE, too, if there is no replica to ask.
  Result Ask(const SearchRequest& request, Deadline deadline);

  struct Counts {
    std::uint64_t hedged = 0;       // a second replica was asked because the first was slow
    std::uint64_t hedges_won = 0;   // and was the first to answer
    std::uint64_t not_hedged = 0;   // it was not, for lack of budget
    std::uint64_t failed_over = 0;  // another replica was asked because one had failed
  };
  Counts counts() const;

  struct ReplicaState {
    io::SocketAddress server;
    io::CircuitBreaker::State breaker = io::CircuitBreaker::State::kClosed;
    std::uint64_t refused = 0;  // attempts that the breaker sent elsewhere
    std::size_t under_way = 0;
  };
  std::vector<ReplicaState> replicas() const;

 private:
  struct Race;
  struct Replica {
    rpc::Channel* channel = nullptr;
    io::CircuitBreaker breaker;
    std::atomic<std::uint64_t> refused{0};

    explicit Replica(const io::CircuitBreaker::Options& breaking) : breaker(breaking) {}
  };
  // A replica that may be asked.
  struct Choice {
    io::LoadBalancer::Picked picked;
    io::CircuitBreaker::Admission admitted;
  };

  // What a call that has ended says of its server.
  void Report(Replica* replica, io::CircuitBreaker::Admission admitted, rpc::ErrorCode code,
              io::CircuitBreaker::TimePoint asked_at) const;
  // Whether the second replica may be asked.
  bool MayHedge();
  // None: there is none beside those that were tried.
  std::optional<Choice> Choose(std::span<const std::size_t> tried);

  std::deque<Replica> replicas_;
  io::LoadBalancer balancer_;
  io::RetryBudget hedges_;
  const std::chrono::microseconds hedge_delay_;
  const std::chrono::nanoseconds patience_;  // a call that ends sooner without an answer says nothing of its server
  std::atomic<std::uint64_t> hedged_{0};
  std::atomic<std::uint64_t> hedges_won_{0};
  std::atomic<std::uint64_t> not_hedged_{0};
  std::atomic<std::uint64_t> failed_over_{0};
};

}  // namespace weft::proxy

#endif  // WEFT_EXAMPLES_PROXY_HEDGED_SEARCH_H_
