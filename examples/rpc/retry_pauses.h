// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RetryPauses: the pauses between the attempts of one call; each is twice the last, less a random part of up to a half,
// so that callers that failed together do not come back together. One user.
// Source: AWS Architecture Blog, "Exponential Backoff and Jitter".
#ifndef WEFT_EXAMPLES_RPC_RETRY_PAUSES_H_
#define WEFT_EXAMPLES_RPC_RETRY_PAUSES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weft::rpc {

struct RetryOptions {
  // Of one call, the first included. 1: no call is made again.
  unsigned most_attempts = 6;
  std::chrono::milliseconds pause_least{5};
  std::chrono::milliseconds pause_most{250};
  // Of a channel's io::RetryBudget.
  double share = 0.2;
  double reserve = 200;
};

class RetryPauses {
 public:
  RetryPauses(const RetryOptions& options, std::uint64_t seed)
      : next_(options.pause_least), most_(options.pause_most), random_(seed) {}

  std::chrono::nanoseconds Next() {
    const std::chrono::nanoseconds pause = std::min(next_, most_);
    next_ = pause * 2;
    // SplitMix64.
    std::uint64_t z = random_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    const auto half = static_cast<std::uint64_t>(pause.count() / 2);
    return pause - std::chrono::nanoseconds(static_cast<std::int64_t>((z ^ (z >> 31)) % (half + 1)));
  }

 private:
  std::chrono::nanoseconds next_;
  std::chrono::nanoseconds most_;
  std::uint64_t random_;
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_RETRY_PAUSES_H_
