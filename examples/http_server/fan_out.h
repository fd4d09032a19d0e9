// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// AskServices: asks many services at the same time, each in a fiber of its own, and returns the answers that have come
// by a deadline.
//
// The services are made up: the i-th needs 20 ms * (i + 1), and answers with the number of primes below 100 * (i + 1).
// They belong to a FiberScope (weft/fiber/fiber_scope.h): at the deadline, and when the caller is cancelled, those that
// still wait are ended, and when AskServices() returns none is left.
#ifndef WEFT_EXAMPLES_HTTP_SERVER_FAN_OUT_H_
#define WEFT_EXAMPLES_HTTP_SERVER_FAN_OUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/base/deadline.h"

namespace examples {

struct FanOutResult {
  std::vector<std::optional<std::uint32_t>> answers;  // nothing: it came too late
};

// A fiber; waits, and is a cancellation point.
FanOutResult AskServices(std::uint32_t n, weft::Deadline deadline);

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_FAN_OUT_H_
