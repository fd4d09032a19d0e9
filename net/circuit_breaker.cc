// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/circuit_breaker.h"

#include <algorithm>

#include "weft/base/report/check.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"

namespace weft::io {

struct CircuitBreaker::Core {
  explicit Core(const Options& the_options) : options(the_options), pause(the_options.open_for) {}

  // BK2
  bool Counts(std::uint64_t admitted_in) const WEFT_REQUIRES(lock) {
    return admitted_in == epoch && state != State::kOpen;
  }

  void Count(bool succeeded, TimePoint now) WEFT_REQUIRES(lock) {
    if (state == State::kHalfOpen) {
      if (succeeded) {
        state = State::kClosed;
        ++epoch;
        pause = options.open_for;
      } else {
        pause = std::min(2 * pause, options.open_for_most);
        Open(now);
      }
    } else if (succeeded) {
      failures = 0;
    } else if (++failures >= options.failures) {
      Open(now);
    }
  }

  void Open(TimePoint now) WEFT_REQUIRES(lock) {
    state = State::kOpen;
    ++epoch;
    failures = 0;
    silent_since = TimePoint::max();  // A probe's own time counts.
    admits_at = now + pause;
  }

  const Options options;
  mutable base::SpinLock lock;
  State state WEFT_GUARDED_BY(lock) = State::kClosed;
  std::uint64_t epoch WEFT_GUARDED_BY(lock) = 0;  // counts changes of the state (BK2)
  int failures WEFT_GUARDED_BY(lock) = 0;         // in a row, while it is closed
  std::chrono::nanoseconds pause WEFT_GUARDED_BY(lock);
  TimePoint admits_at WEFT_GUARDED_BY(lock);  // the next probe, unless it is closed
  TimePoint answered_at WEFT_GUARDED_BY(lock) = TimePoint::min();
  // Of the calls without an answer: when the first one was asked, or the last answer came meanwhile. max(): none.
  TimePoint silent_since WEFT_GUARDED_BY(lock) = TimePoint::max();
  TimePoint unanswered_at WEFT_GUARDED_BY(lock) = TimePoint::min();  // the last of them; only with a silent_since
};

CircuitBreaker::CircuitBreaker(const Options& options) : core_(std::make_unique<Core>(options)) {
  WEFT_CHECK(options.failures >= 1 && options.open_for.count() > 0 && options.open_for_most >= options.open_for,
             "CircuitBreaker: failures ", options.failures, ", open_for ", options.open_for.count(),
             " ns, open_for_most ", options.open_for_most.count(), " ns: at least 1, above 0, no less than open_for");
  WEFT_CHECK(options.silence.count() > 0, "CircuitBreaker: silence ", options.silence.count(), " ns: above 0");
}

CircuitBreaker::~CircuitBreaker() = default;

std::optional<CircuitBreaker::Admission> CircuitBreaker::TryAdmit() {
  {
    const base::SpinLockGuard guard(core_->lock);
    if (core_->state == State::kClosed) return Admission(core_->epoch);
  }
  return TryAdmit(std::chrono::steady_clock::now());
}

std::optional<CircuitBreaker::Admission> CircuitBreaker::TryAdmit(TimePoint now) {
  Core& core = *core_;
  const base::SpinLockGuard guard(core.lock);
  if (core.state == State::kClosed) return Admission(core.epoch);
  if (now < core.admits_at) return std::nullopt;
  if (core.state == State::kOpen) ++core.epoch;
  core.state = State::kHalfOpen;
  core.admits_at = now + core.options.open_for;  // BK1
  return Admission(core.epoch);
}

void CircuitBreaker::Report(Admission admission, bool succeeded) {
  Report(admission, succeeded, std::chrono::steady_clock::now());
}

void CircuitBreaker::Report(Admission admission, bool succeeded, TimePoint now) {
  Core& core = *core_;
  const base::SpinLockGuard guard(core.lock);
  if (!core.Counts(admission.epoch_)) return;
  if (succeeded) {
    core.answered_at = now;
    core.silent_since = TimePoint::max();
  }
  core.Count(succeeded, now);
}

void CircuitBreaker::ReportUnanswered(Admission admission, TimePoint asked_at) {
  ReportUnanswered(admission, asked_at, std::chrono::steady_clock::now());
}

void CircuitBreaker::ReportUnanswered(Admission admission, TimePoint asked_at, TimePoint now) {
  Core& core = *core_;
  const base::SpinLockGuard guard(core.lock);
  if (!core.Counts(admission.epoch_)) return;
  // Nobody has asked meanwhile: that was no silence.
  const bool is_silent = core.silent_since != TimePoint::max();
  if (is_silent && asked_at - core.unanswered_at >= core.options.silence) core.silent_since = asked_at;
  core.unanswered_at = std::max(core.unanswered_at, now);
  core.silent_since = std::min(core.silent_since, std::max(asked_at, core.answered_at));
  if (now - core.silent_since >= core.options.silence) core.Count(false, now);
}

CircuitBreaker::State CircuitBreaker::state() const {
  const base::SpinLockGuard guard(core_->lock);
  return core_->state;
}

}  // namespace weft::io
