// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/retry.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "weft/base/report/check.h"
#include "weft/base/time/clock.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::retry_internal {
namespace {

// In [0, 1). SplitMix64 of a counter: no state that threads share but this word.
double Random() noexcept {
  static constinit std::atomic<std::uint64_t> counter{0};
  // relaxed: only that each caller has another number. The clock: processes that began together differ, too.
  std::uint64_t z = counter.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed) +
                    static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

bool Withdraw(io::RetryBudget* budget) noexcept { return budget == nullptr || budget->Withdraw(); }
void GiveBack(io::RetryBudget* budget) noexcept {
  if (budget != nullptr) budget->GiveBack();
}

}  // namespace

Attempts::Attempts(const RetryPolicy& policy)
    : policy_(policy), next_pause_(static_cast<double>(policy.initial_backoff.count())) {
  WEFT_CHECK(policy.max_attempts > 0, "Retry: no attempts");
  WEFT_CHECK(policy.initial_backoff.count() >= 0 && policy.max_backoff.count() >= 0, "Retry: backoffs of ",
             policy.initial_backoff.count(), " to ", policy.max_backoff.count(), " ns");
  WEFT_CHECK(policy.backoff_multiplier >= 1, "Retry: backoff_multiplier is ", policy.backoff_multiplier);  // Nor NaN.
  WEFT_CHECK(policy.jitter >= 0 && policy.jitter <= 1, "Retry: jitter is ", policy.jitter);
  if (policy.budget != nullptr) policy.budget->Deposit();
}

std::chrono::nanoseconds Attempts::NextPause() noexcept {
  const double pause = std::min(next_pause_, static_cast<double>(policy_.max_backoff.count()));
  next_pause_ = pause * policy_.backoff_multiplier;
  return base::SaturatingNanoseconds(std::chrono::duration<double, std::nano>(pause * (1 - policy_.jitter * Random())));
}

bool Attempts::Again() {
  if (made_ == policy_.max_attempts) return false;
  const std::chrono::nanoseconds pause = NextPause();
  if (pause >= TimeLeft() || !Withdraw(policy_.budget)) return false;
  try {
    FiberSleepFor(pause);
  } catch (...) {
    GiveBack(policy_.budget);
    throw;
  }
  ++made_;
  return true;
}

HedgeCore::HedgeCore(const HedgeOptions& options) : options_(options), most_(options.max_attempts) {
  WEFT_CHECK(options.max_attempts > 0, "Hedge: no attempts");
  if (options.budget != nullptr) options.budget->Deposit();
}

// Until something has happened, or it is time. It may return earlier while the stack is unwound under a limit that has
// passed; the wait without a deadline then goes on.
void HedgeCore::Await(std::unique_lock<FiberMutex>& lock) {
  const auto happened = [this] { return over || has_failed_ || running_ == 0; };
  if (started_ == most_ || next_at_.is_none()) {
    changed_.wait(lock, happened);
  } else {
    static_cast<void>(changed_.wait(lock, happened, next_at_));
  }
}

bool HedgeCore::AwaitNext() {
  if (started_ > 0) {
    std::unique_lock lock(mutex);
    for (;;) {
      Await(lock);
      if (over) return false;
      // Its attempts may have ended by a cancellation that has not come to the caller's own waits yet.
      synchronization::TestCancelledByChain();
      const bool may_start = has_failed_ || running_ == 0 || next_at_.expired();
      has_failed_ = false;
      if (may_start && started_ < most_ && Withdraw(options_.budget)) break;
      if (running_ == 0) return false;
      next_at_ = Deadline::None();  // Next time when one has failed.
    }
    ++running_;
  } else {
    running_ = 1;
  }
  ++started_;
  next_at_ = options_.delay;
  return true;
}

void HedgeCore::NotStarted() noexcept {
  if (started_ > 1) GiveBack(options_.budget);
  most_ = started_;  // No more.
  const std::scoped_lock lock(mutex);
  --running_;
}

void HedgeCore::Ended() noexcept {
  const std::scoped_lock lock(mutex);
  --running_;
  has_failed_ = true;
  changed_.notify_all();
}

}  // namespace weft::retry_internal
