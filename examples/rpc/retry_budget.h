// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RetryBudget: how many calls may be made again: a share of all calls, and a reserve for bursts. While a server is down
// for all, the calls that are made again add at most that share to the load; a limit of attempts alone would multiply
// it. RetryPauses: the pauses between the attempts of one call; each is twice the last, less a random part of up to a
// half, so that callers that failed together do not come back together.
//
// RetryBudget: any fiber and thread; relaxed, since it only counts. RetryPauses: one user.
// Source: retry budgets of Finagle and gRPC; jitter as in the AWS Architecture Blog, "Exponential Backoff and Jitter".
#ifndef WEFT_EXAMPLES_RPC_RETRY_BUDGET_H_
#define WEFT_EXAMPLES_RPC_RETRY_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft::rpc {

struct RetryOptions {
  // Of one call, the first included. 1: no call is made again.
  unsigned most_attempts = 6;
  std::chrono::milliseconds pause_least{5};
  std::chrono::milliseconds pause_most{250};
  // Retries for each call, and how many at most may be saved up, with which a channel begins.
  double share = 0.2;
  double reserve = 200;
};

class RetryBudget {
 public:
  explicit RetryBudget(const RetryOptions& options)
      : each_(Thousandths(options.share)), most_(Thousandths(options.reserve)), left_(most_) {}

  // A call is made.
  void Deposit() noexcept {
    if (left_.load(std::memory_order_relaxed) < most_) left_.fetch_add(each_, std::memory_order_relaxed);
  }
  // True: a call may be made again.
  [[nodiscard]] bool Withdraw() noexcept {
    std::int64_t left = left_.load(std::memory_order_relaxed);
    while (left >= kOne) {
      if (left_.compare_exchange_weak(left, left - kOne, std::memory_order_relaxed)) return true;
    }
    return false;
  }

 private:
  static constexpr std::int64_t kOne = 1000;
  static std::int64_t Thousandths(double number) { return static_cast<std::int64_t>(std::max(number, 0.0) * kOne); }

  const std::int64_t each_;
  const std::int64_t most_;  // and a deposit or two, when several come together
  std::atomic<std::int64_t> left_;
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

#endif  // WEFT_EXAMPLES_RPC_RETRY_BUDGET_H_
