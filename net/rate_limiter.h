// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RateLimiter: at most so many calls a second, and so many at once after a pause.
// Sample:
//   RateLimiter limiter({.per_second = 100, .burst = 10});
//   if (!limiter.TryAcquire()) return Refuse();               // a server: more than its clients may
//   limiter.Acquire();                                        // a client: waits for its turn
//   if (!limiter.Acquire(bytes, 50ms)) return Refuse();       // many units; not if it would take longer
//
// How it works. GCRA: one word holds the theoretical arrival time, at which all units that were taken are earned. A
// caller moves it on by its units' time; its turn is `burst` units before what it has written. So callers have their
// turns in the order in which they reserve them, and each sleeps until its own.
//
// Who may call: any fiber and any thread. TryAcquire() never switches or blocks. Acquire() may switch (a thread:
// block); it is a cancellation point, and returns a reservation when it throws, unless its turn has come meanwhile.
// Turns that others hold stay as they are: what was returned goes to those that come next, whose turns may then be
// those of others in line. A return may also bring the time below what others hold; the next call begins at `now`, and
// one of the others that gives up later returns its units a second time. So the rate may be exceeded by as many units
// as were returned.
// More than `burst` units at once: TryAcquire() never has them; Acquire() waits until they are earned.
//
// Memory ordering: none: it only counts. Lifetime: outlives all calls.
// Errors: options that cannot be, and an n below 0, end the process with a line. A time-out is false.
// Time is FiberClock's: one limiter is not used both with and without a test clock. A unit takes a whole number of
// nanoseconds, rounded up: 1 % slower at most up to 10 million a second.
// Rejected: a lock and a queue of waiters (turns move up when one gives up, but each call takes the lock); tokens and
// the time of the last refill (two words).
// Source: GCRA, ITU-T I.371; Go's x/time/rate for reservations.
#ifndef WEFT_NET_RATE_LIMITER_H_
#define WEFT_NET_RATE_LIMITER_H_

#include <atomic>
#include <cstdint>
#include <limits>

#include "weft/base/deadline.h"

namespace weft {

class RateLimiter {
 public:
  // How many, and how many at once.
  struct Options {
    double per_second = 0;   // units; one in 10^9 seconds to 10^9 a second. To be given
    std::int64_t burst = 1;  // units that may be taken at once when none were for a while; earned in 10^9 s at most
  };
  // Begins with a full burst.
  explicit RateLimiter(const Options& options);
  RateLimiter(const RateLimiter&) = delete;
  RateLimiter& operator=(const RateLimiter&) = delete;

  // True: n units were taken.
  [[nodiscard]] bool TryAcquire(std::int64_t n = 1) noexcept;

  // Returns when it is the caller's turn.
  void Acquire(std::int64_t n = 1);
  // False, at once: its turn would come after the deadline; nothing is reserved. With a deadline that has passed as
  // TryAcquire().
  [[nodiscard]] bool Acquire(std::int64_t n, Deadline deadline);

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  // When it is the caller's turn, in ns of FiberClock. kNever: after `latest`, or beyond the clock's end; nothing is
  // reserved.
  std::int64_t Reserve(std::int64_t n, std::int64_t now, std::int64_t latest) noexcept;
  void SleepUntil(std::int64_t turn, std::int64_t n);

  const std::int64_t interval_;   // ns for one unit
  const std::int64_t tolerance_;  // for the burst
  // When what was taken is earned. Before `now`: as if it were now. So the first value suits every clock.
  std::atomic<std::int64_t> earned_{std::numeric_limits<std::int64_t>::min()};
};

}  // namespace weft

#endif  // WEFT_NET_RATE_LIMITER_H_
