// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GrpcCaller: what an Http2GrpcClient is made of: which server an attempt of a call goes to, and how often there are
// further ones. GrpcAttempt: a call at one server.
//
//     Unary()        by the policy: once, Retry() or Hedge() (net/retry.h), of
//       Once()       replays: while a server has not begun the call, at once, kMostReplays times, of
//         Begin()    a server of the set by balancer, health and breaker, and a connection to it
//         Exchange() the call by Http2Client::Ask()
// Streams (http2_grpc_client_stream.h) make their attempts by Begin(), too.
//
// Invariants
//   GK1  A server's breaker hears of each attempt once, or never: GrpcAttempt::Report(). What says nothing of the
//   server
//        is not reported: calls that it has not begun, and those whose messages or metadata are at fault.
//   GK2  Nobody is in a call when it is destroyed: calls_.
//
// Who may call: any fiber and thread.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_GRPC_CALLER_H_
#define WEFT_INTEROP_HTTP2_HTTP2_GRPC_CALLER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/interop/http2/http2_grpc_backend.h"
#include "weft/interop/http2/http2_grpc_backends.h"
#include "weft/interop/http2/http2_grpc_requests.h"
#include "weft/interop/http2_client.h"
#include "weft/interop/http2_grpc_client.h"
#include "weft/net/budgets.h"
#include "weft/net/circuit_breaker.h"
#include "weft/net/load_balancer.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::interop {

// A call as its caller wants it; views.
struct GrpcOrder {
  std::string_view path;
  const Http2Headers& metadata;
  std::string_view key;
  Deadline deadline;  // the caller's scopes included
  const GrpcCallPolicy& policy;
};

// The servers that a call has been at: its attempts go to others, as long as there are some.
class GrpcTried {
 public:
  void Add(const GrpcBackend* backend) {
    const std::scoped_lock lock(mutex_);
    backends_.push_back(backend);
  }
  // Of those of the set.
  std::vector<std::size_t> IndicesIn(const GrpcBackendSet& set) const;

 private:
  mutable FiberMutex mutex_;  // hedges are several
  std::vector<const GrpcBackend*> backends_;
};

struct GrpcAttempt {
  GrpcAttempt() = default;
  ~GrpcAttempt();
  GrpcAttempt(const GrpcAttempt&) = delete;
  GrpcAttempt& operator=(const GrpcAttempt&) = delete;

  GrpcBackend& backend() const { return *set->backends[picked->index()]; }
  GrpcWhere Where(std::string_view path) const {
    return {.scheme = connection->link->scheme(), .authority = backend().authority(), .path = path};
  }
  // GK1. `answered`: what came is an answer of gRPC.
  void Report(std::error_code error, bool answered, Deadline deadline);

  // In this order they are made, and the reverse one they go.
  std::shared_ptr<GrpcBackendSet> set;
  std::optional<io::LoadBalancer::Picked> picked;
  std::optional<io::CircuitBreaker::Admission> admitted;
  io::CircuitBreaker::TimePoint asked_at;
  std::shared_ptr<GrpcConnection> connection;
  Http2Call call;  // a stream's
};

// How a unary call, or an attempt of one, has ended.
struct GrpcOutcome {
  GrpcStatus status;
  bool not_begun = false;  // it may be made again, whatever it is
  Http2Headers metadata;
  std::string body;
  Http2Headers trailers;
  std::string server;
  std::size_t attempts = 0;

  bool ok() const noexcept { return status.ok(); }  // for Retry()
};

class GrpcCaller {
 public:
  static constexpr int kMostReplays = 3;

  GrpcCaller(std::string_view targets, Http2GrpcClientOptions options);
  ~GrpcCaller();
  GrpcCaller(const GrpcCaller&) = delete;
  GrpcCaller& operator=(const GrpcCaller&) = delete;

  const Http2GrpcClientOptions& options() const { return options_; }
  const GrpcTally& tally() const { return tally_; }
  io::RetryBudget* budget() { return &budget_; }
  std::size_t servers() const { return backends_.size(); }
  Deadline DeadlineOf(const GrpcCallOptions& options) const;
  const GrpcCallPolicy& PolicyOf(const GrpcCallOptions& options) const {
    return options.policy != nullptr ? *options.policy : options_.policy;
  }

  // A whole unary call; `framed`: its message.
  GrpcOutcome Unary(const GrpcOrder& order, std::string_view framed);

  // kOk: the attempt has a connection. *not_begun: another attempt may be made at once.
  GrpcStatus Begin(const GrpcOrder& order, GrpcTried* tried, GrpcAttempt* attempt, bool* not_begun);
  // After an error: the servers may be others now, if the attempt's connection takes no more calls.
  void LookUpIfLost(const GrpcAttempt& attempt);
  void CountReplay() { tally_.replayed.fetch_add(1, std::memory_order_relaxed); }
  void CountCall() { tally_.calls.fetch_add(1, std::memory_order_relaxed); }
  void CountAttempt() { tally_.attempts.fetch_add(1, std::memory_order_relaxed); }

  // GK2
  void EnterCall() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void LeaveCall() { calls_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  bool Choose(const GrpcOrder& order, const GrpcTried& tried, GrpcAttempt* attempt);
  GrpcOutcome Once(const GrpcOrder& order, std::string_view framed, std::size_t again, GrpcTried* tried);
  GrpcOutcome Exchange(const GrpcOrder& order, std::string_view framed, std::size_t again, GrpcAttempt* attempt);

  const Http2GrpcClientOptions options_;
  GrpcTally tally_;
  io::RetryBudget budget_;
  std::atomic<std::size_t> calls_{0};  // relaxed: a check of misuse
  GrpcBackends backends_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_GRPC_CALLER_H_
