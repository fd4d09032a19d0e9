// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RequestBudget: how many requests a server has in work at a time, and how much memory they hold, over all of its
// connections. What exceeds a limit is refused at once and counted; nothing waits.
// Sample:
//     io::RequestBudget budget({.requests = 1000, .bytes = 64 << 20});
//     io::RequestBudget::Share share(&budget);
//     if (!share.Begin()) return 503;                         // as many requests as there may be
//     for (std::string_view part = Read(); !part.empty(); part = Read()) {
//       if (!share.Take(part.size())) return 503;             // no memory for the rest of this request
//       ...
//     }
//     ...
//     return 200;                                             // ~Share() gives everything back
//
// A request that is larger than `bytes` alone is never taken. Of two that come at the same time and do not fit
// together, each may take a part, and both be refused.
//
// Who may call: any fiber and any thread; nothing waits. A Share is used by one at a time.
// Memory ordering: none: the counters are a limit, and carry nothing. Lifetime: the budget outlives its shares.
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
#ifndef WEFT_NET_BUDGETS_H_
#define WEFT_NET_BUDGETS_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "weft/base/report/check.h"

namespace weft::io {

class RequestBudget {
 public:
  // What may be in work at a time.
  struct Limits {
    std::size_t requests = 0;  // 0: no limit
    std::size_t bytes = 0;     // 0: no limit
  };
  // What is in work, and what was refused.
  struct Counts {
    std::size_t requests = 0;         // now; 0 without a limit
    std::size_t bytes = 0;            // now; 0 without a limit
    std::uint64_t over_requests = 0;  // refused by the one limit
    std::uint64_t over_bytes = 0;     // and by the other
  };
  class Share;

  // Counts against these limits.
  explicit RequestBudget(const Limits& limits) noexcept : requests_(limits.requests), bytes_(limits.bytes) {}

  // A snapshot. Any fiber and any thread.
  [[nodiscard]] Counts counts() const noexcept {
    return {requests_.used(), bytes_.used(), requests_.refused(), bytes_.refused()};
  }

  // Without a Share: each success is given back once.
  [[nodiscard]] bool BeginRequest() noexcept { return requests_.Take(1); }
  void EndRequest() noexcept { requests_.GiveBack(1); }
  [[nodiscard]] bool TakeBytes(std::size_t bytes) noexcept { return bytes_.Take(bytes); }
  void GiveBackBytes(std::size_t bytes) noexcept { bytes_.GiveBack(bytes); }

 private:
  // relaxed: as the head says. Without a limit nothing is counted, so that no line is shared by all requests.
  class Limited {
   public:
    explicit Limited(std::size_t most) noexcept : most_(most) {}

    bool Take(std::size_t n) noexcept {
      if (most_ == 0) return true;
      // Compared before it is added: one request that is refused does not refuse others meanwhile.
      std::size_t used = used_.load(std::memory_order_relaxed);
      do {
        if (n > most_ || used > most_ - n) {
          refused_.fetch_add(1, std::memory_order_relaxed);
          return false;
        }
      } while (!used_.compare_exchange_weak(used, used + n, std::memory_order_relaxed));
      return true;
    }
    void GiveBack(std::size_t n) noexcept {
      if (most_ == 0) return;
      [[maybe_unused]] const std::size_t before = used_.fetch_sub(n, std::memory_order_relaxed);
      WEFT_DCHECK(before >= n, "RequestBudget: ", n, " are given back, of ", before);
    }
    std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
    std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

   private:
    const std::size_t most_;
    std::atomic<std::size_t> used_{0};  // at most most_
    std::atomic<std::uint64_t> refused_{0};
  };

  Limited requests_;
  Limited bytes_;
};

// What one request has of a budget. Gives it back at its end, or by Clear().
class RequestBudget::Share {
 public:
  // Of `budget`, which outlives it. Has nothing yet.
  explicit Share(RequestBudget* budget) noexcept : budget_(budget) {}
  ~Share() { Clear(); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // False: as many are in work as may be. Not again before Clear().
  [[nodiscard]] bool Begin() noexcept {
    WEFT_DCHECK(!begun_, "RequestBudget::Share::Begin: it has begun");
    begun_ = budget_->BeginRequest();
    return begun_;
  }
  // False: these bytes would be above the limit; the share keeps what it has.
  [[nodiscard]] bool Take(std::size_t bytes) noexcept {
    if (!budget_->TakeBytes(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  std::size_t bytes() const noexcept { return bytes_; }  // that it has, also without a limit
  // Gives back what it has; it can begin anew.
  void Clear() noexcept {
    if (bytes_ != 0) budget_->GiveBackBytes(bytes_);
    if (begun_) budget_->EndRequest();
    bytes_ = 0;
    begun_ = false;
  }

 private:
  RequestBudget* const budget_;
  std::size_t bytes_ = 0;
  bool begun_ = false;
};

class RetryBudget {
 public:
  // How much may be added to the requests.
  struct Options {
    double share = 0.2;    // of the requests; thousandths count
    double reserve = 100;  // at most so many are saved up, or one, if that is more; it begins with the reserve
  };
  // Begins with the reserve. A share of 0, with a reserve of 0: never allows a call.
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

#endif  // WEFT_NET_BUDGETS_H_
