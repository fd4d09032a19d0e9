// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// CallCounts: how the calls of a service have ended, for both servers. Any fiber.
#ifndef WEFT_EXAMPLES_GRPC_SERVER_CALL_COUNTS_H_
#define WEFT_EXAMPLES_GRPC_SERVER_CALL_COUNTS_H_

#include <atomic>
#include <cstdint>

#include "weft/sync/fiber_cancelled.h"

namespace weft::examples {

class CallCounts {
 public:
  std::uint64_t answered() const { return answered_; }
  std::uint64_t cancelled() const { return cancelled_; }

 protected:
  // Returns what handle() returns: a status with ok().
  template <class Handle>
  auto Count(Handle&& handle) try {
    auto status = handle();
    ++(status.ok() ? answered_ : cancelled_);
    return status;
  } catch (const FiberCancelled&) {
    ++cancelled_;
    throw;
  }

 private:
  std::atomic<std::uint64_t> answered_{0};
  std::atomic<std::uint64_t> cancelled_{0};
};

}  // namespace weft::examples

#endif  // WEFT_EXAMPLES_GRPC_SERVER_CALL_COUNTS_H_
