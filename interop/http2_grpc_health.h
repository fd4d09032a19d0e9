// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2GrpcHealth: the health service that load balancers, Kubernetes and gRPC's own clients ask
// (grpc.health.v1.Health: Check and Watch), for an Http2GrpcService. By the CMake target weft::http2, without Protobuf.
// Sample:
//     interop::Http2GrpcService service;
//     interop::Http2GrpcHealth health;
//     health.AddTo(&service);
//     health.SetServing("weft.examples.Greeter", true);
//     ...
//     health.Shutdown();          // at the end, before the server drains
//
// The server as a whole, "", serves from the beginning. Of a name that was never set Check() says kNotFound, and
// Watch() SERVICE_UNKNOWN. A Watch() is a stream that lasts until the client leaves it, and tells it of each change; of
// several in a row perhaps only of the last. Shutdown() ends it with kUnavailable, so that a drain need not wait for
// it; a later one ends at once. That of a vanished client lasts until TCP finds out, or Http2Options::ping_after has
// passed twice.
// The protocol: grpc/grpc, doc/health-checking.md.
//
// Who may call: any fiber and any thread; may switch. AddTo(): before the service serves. An Http2GrpcHealth outlives
// the service's calls.
#ifndef WEFT_INTEROP_HTTP2_GRPC_HEALTH_H_
#define WEFT_INTEROP_HTTP2_GRPC_HEALTH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "weft/interop/http2_grpc.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::interop {

class Http2GrpcHealth {
 public:
  // The server as a whole serves; of other names nothing is known.
  Http2GrpcHealth();
  Http2GrpcHealth(const Http2GrpcHealth&) = delete;
  Http2GrpcHealth& operator=(const Http2GrpcHealth&) = delete;

  // Adds Check and Watch to the service, before it serves.
  void AddTo(Http2GrpcService* service);

  // `service`: "package.Service"; "": the server as a whole. After Shutdown() nothing changes any more.
  void SetServing(std::string_view service, bool serving);
  // Nothing serves any more: watchers are told, and their streams end.
  void Shutdown();

 private:
  enum class Status : std::uint8_t { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };  // grpc.health.v1's
  struct Request;
  struct Reply;

  Status StatusOf(std::string_view service) const;  // under mutex_
  GrpcStatus Check(std::string_view service, Reply* reply);
  GrpcStatus Watch(GrpcCall& call);

  FiberMutex mutex_;
  FiberConditionVariable changed_;
  std::map<std::string, Status, std::less<>> services_;
  bool is_shut_down_ = false;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_GRPC_HEALTH_H_
