// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GrpcBackends: the servers of an Http2GrpcClient: its targets, or the addresses that a look-up finds for them.
//
// How it works. A set of servers never changes: a look-up that finds others makes a new set, which shares the backends
// that stay, with their connections; one that finds the same keeps it, with its turns. A call keeps the set that it has
// chosen from. A fiber of its own looks up: calls go on with the set that is there, and only the first ones wait.
//
// Invariants
//   GN1  One look-up at a time (is_looking_up_). Its end wakes all that wait for a set: they find one, or why there is
//        none.
//   GN2  No set is destroyed under mutex_: the destructor of a backend waits.
//
// Who may call: any fiber and thread; Await() and the destructor may wait.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_GRPC_BACKENDS_H_
#define WEFT_INTEROP_HTTP2_HTTP2_GRPC_BACKENDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/fiber/background_tasks.h"
#include "weft/interop/http2/http2_grpc_backend.h"
#include "weft/interop/http2_grpc_client.h"
#include "weft/net/load_balancer.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::interop {

struct GrpcBackendSet {
  GrpcBackendSet(io::BalancePolicy policy, std::vector<std::shared_ptr<GrpcBackend>> the_backends,
                 const std::vector<std::string>& names)
      : backends(std::move(the_backends)), balancer(policy, names) {}

  const std::vector<std::shared_ptr<GrpcBackend>> backends;
  io::LoadBalancer balancer;  // by the same index
};

class GrpcBackends {
 public:
  // What outlives it: the options and the tally. A target that is none ends the process.
  GrpcBackends(std::string_view targets, const Http2GrpcClientOptions& options, GrpcTally* tally);
  ~GrpcBackends();
  GrpcBackends(const GrpcBackends&) = delete;
  GrpcBackends& operator=(const GrpcBackends&) = delete;

  // timed_out and operation_canceled: of the wait; else why there are no servers.
  std::error_code Await(Deadline deadline, std::shared_ptr<GrpcBackendSet>* set);
  // A connection has been lost: the servers may be others now.
  void LookUpSoon();
  std::size_t size() const;

 private:
  using Backends = std::vector<std::shared_ptr<GrpcBackend>>;

  std::shared_ptr<GrpcBackendSet> MakeSet(std::vector<GrpcPeer> peers,
                                          const std::shared_ptr<GrpcBackendSet>& before) const;
  // Under mutex_.
  void LookUpIfDue();
  void LookUp();  // a fiber
  std::error_code FindAll(std::vector<GrpcPeer>* found) const;

  const Http2GrpcClientOptions& options_;
  GrpcTally* const tally_;
  std::vector<GrpcPeer> targets_;

  mutable FiberMutex mutex_;  // guards what follows
  FiberConditionVariable changed_;
  std::shared_ptr<GrpcBackendSet> set_;  // nullptr: none yet
  bool is_looking_up_ = false;
  std::uint64_t ends_ = 0;  // of LookUp()
  std::error_code failure_;
  Deadline::TimePoint looked_up_at_;
  Deadline look_up_at_;  // none: never

  BackgroundTasks tasks_;  // the last member: uses the others
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_GRPC_BACKENDS_H_
