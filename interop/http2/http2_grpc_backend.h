// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GrpcBackend: one server of an Http2GrpcClient: its connections, its circuit breaker, what a health check says.
//
// How it works. A connection is made by a fiber of the backend, not by the call that needs it: a call that has little
// time does not make it begin anew, and all calls wait for the same one. Each call takes the open connection with the
// fewest calls, and waits only if there is none. A connection that has ended, or takes no more calls (GOAWAY), is
// forgotten by the next call that looks; it goes with the last of its calls.
//
// Invariants
//   GB1  One fiber makes a connection at a time (is_connecting_). Its end, whatever it is, wakes all that wait. A call
//        waits for the end of one (ends_): then there is an open connection, or the call has failed. So a server that
//        accepts and closes keeps nobody busy.
//   GB2  No connection is destroyed under mutex_: its destructor waits.
//   GB3  Fibers of tasks_ use the backend: its destructor cancels and awaits them before the rest of it goes.
//
// Who may call: any fiber and thread; AwaitConnection() and the destructor may wait.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_GRPC_BACKEND_H_
#define WEFT_INTEROP_HTTP2_HTTP2_GRPC_BACKEND_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/fiber/background_tasks.h"
#include "weft/interop/http2_client.h"
#include "weft/interop/http2_grpc_client.h"
#include "weft/net/circuit_breaker.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::interop {

// relaxed: statistics.
struct GrpcTally {
  std::atomic<std::uint64_t> calls{0}, attempts{0}, replayed{0}, connected{0}, not_connected{0};
};

struct GrpcConnection {
  GrpcConnection(std::unique_ptr<GrpcLink> the_link, const Http2Options& options)
      : link(std::move(the_link)), http(link->transport(), options) {}

  const std::unique_ptr<GrpcLink> link;
  Http2Client http;
  std::atomic<std::size_t> calls{0};  // relaxed: a hint for the choice
};

class GrpcBackend {
 public:
  // What outlives it: the options and the tally.
  GrpcBackend(GrpcPeer peer, const Http2GrpcClientOptions& options, GrpcTally* tally);
  ~GrpcBackend();
  GrpcBackend(const GrpcBackend&) = delete;
  GrpcBackend& operator=(const GrpcBackend&) = delete;

  // An open connection. timed_out and operation_canceled: of the wait; else why there is none.
  std::error_code AwaitConnection(Deadline deadline, std::shared_ptr<GrpcConnection>* to);

  const GrpcPeer& peer() const { return peer_; }
  const std::string& name() const { return name_; }
  const std::string& authority() const { return authority_; }  // of requests
  io::CircuitBreaker& breaker() { return breaker_; }
  // False: a health check says so. relaxed: a hint.
  bool is_serving() const { return is_serving_.load(std::memory_order_relaxed); }

 private:
  using Connections = std::vector<std::shared_ptr<GrpcConnection>>;

  // Under mutex_.
  std::shared_ptr<GrpcConnection> LeastUsed() const;
  Connections TakeClosed();
  // False: no fiber is started.
  bool StartToConnect();
  void Connect();  // a fiber
  std::error_code MakeConnection(std::shared_ptr<GrpcConnection>* made);
  void WatchHealth();  // a fiber

  const GrpcPeer peer_;
  const std::string name_;
  const std::string authority_;
  const Http2GrpcClientOptions& options_;
  GrpcTally& tally_;
  io::CircuitBreaker breaker_;
  std::atomic<bool> is_serving_{true};

  FiberMutex mutex_;  // guards what follows
  FiberConditionVariable changed_;
  Connections connections_;
  bool is_connecting_ = false;
  std::uint64_t ends_ = 0;   // of Connect()
  std::error_code failure_;  // the last one's, or what its connection has come to

  BackgroundTasks tasks_;  // GB3
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_GRPC_BACKEND_H_
