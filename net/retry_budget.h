// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RetryBudget: how many calls may be made beside the first one of a request: calls that are made again, and hedges.
// Sample:
//   io::RetryBudget hedges({.share = 0.1, .reserve = 100}); // of all requests together
//   hedges.Deposit();                                       // a request
//   Ask(first);
//   if (is_slow && hedges.Withdraw()) Ask(second);          // one in ten may
//
// The budget is a share of all requests, and a reserve for bursts. While servers are slow or down for all, the further
// calls add at most that share to their load; a limit of attempts for each request alone would multiply it.
//
// Any fiber and thread; nothing blocks. relaxed, since it only counts.
// Source: retry budgets of Finagle, retry throttling of gRPC.
#ifndef WEFT_NET_RETRY_BUDGET_H_
#define WEFT_NET_RETRY_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "weft/base/report/check.h"

namespace weft::io {

class RetryBudget {
 public:
  struct Options {
    double share = 0.2;    // of the requests; thousandths count
    double reserve = 100;  // at most so many are saved up, or one, if that is more; it begins with the reserve
  };
  explicit RetryBudget(const Options& options)
      : each_(Thousandths(options.share)),
        most_(std::max(Thousandths(options.reserve), each_ > 0 ? kOne : 0)),
        left_(Thousandths(options.reserve)) {}
  RetryBudget() : RetryBudget(Options()) {}

  // A request has come.
  void Deposit() noexcept {
    if (left_.load(std::memory_order_relaxed) < most_) left_.fetch_add(each_, std::memory_order_relaxed);
  }
  // True: one more call may be made.
  [[nodiscard]] bool Withdraw() noexcept {
    std::int64_t left = left_.load(std::memory_order_relaxed);
    while (left >= kOne) {
      if (left_.compare_exchange_weak(left, left - kOne, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  // After a Withdraw(): the call was not made.
  void GiveBack() noexcept { left_.fetch_add(kOne, std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kOne = 1000;
  static constexpr double kMost = 1e12;  // of either option: no sum overflows
  static std::int64_t Thousandths(double number) {
    WEFT_CHECK(!std::isnan(number), "RetryBudget: share or reserve is no number");
    return static_cast<std::int64_t>(std::clamp(number, 0.0, kMost) * kOne);
  }

  const std::int64_t each_;
  const std::int64_t most_;  // and a deposit or two, or what is given back, when several come together
  std::atomic<std::int64_t> left_;
};

}  // namespace weft::io

#endif  // WEFT_NET_RETRY_BUDGET_H_
