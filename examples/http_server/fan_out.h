// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// AskServices: asks many services at the same time, each in a fiber of its own, and returns the answers that have come
// by a deadline.
//
// The services are made up: the i-th needs 20 ms * (i + 1), and answers with the number of primes below 100 * (i + 1).
// At the deadline the remaining fibers are told to give up. Nobody waits for them: what they share with the caller
// lives until the last of them has ended.
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

// A fiber; waits.
FanOutResult AskServices(std::uint32_t n, weft::Deadline deadline);

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_FAN_OUT_H_
