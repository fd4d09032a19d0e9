// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CircuitBreaker: stops calling a server that fails, and tries again now and then.
// Sample:
//   io::CircuitBreaker breaker({.failures = 5, .open_for = 1s});      // one for each server
//   const auto admitted = breaker.TryAdmit();
//   if (!admitted) return Unavailable();                              // at once: the server is left alone
//   const Answer answer = Call(server);
//   breaker.Report(*admitted, answer.ok());
//
// A call may end without an answer: its time was over, or it was cancelled, as a hedge is that lost. One such call says
// little: its client may have given it no time. Many say that the server hangs. ReportUnanswered() counts one as a
// failure if the server has answered nobody for Options::silence, while it was asked: a silence begins anew with the
// first call after the breaker has opened, or after as long without a call.
//
//     closed ----- so many failures in a row -----> open                 refuses
//        ^                                           |  open_for
//        |                                           v
//        +---- a probe succeeds ---- half open: few calls probe; one fails: open again, for twice as long
//
// Invariants
//   BK1  While half open it admits one call each open_for. The first outcome reported decides, however late it comes.
//   BK2  A report counts only in the state in which its call was admitted.
//
// Any fiber, any thread; nothing switches or blocks (a spin lock, held for a few instructions).
// Rejected: a rate of failures over a window, which takes a clock for each call even while it is closed.
#ifndef WEFT_NET_CIRCUIT_BREAKER_H_
#define WEFT_NET_CIRCUIT_BREAKER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace weft::io {

class CircuitBreaker {
 public:
  // That of the steady clock.
  using TimePoint = std::chrono::steady_clock::time_point;

  // When it opens, and for how long.
  struct Options {
    int failures = 5;                                             // in a row
    std::chrono::nanoseconds open_for = std::chrono::seconds(1);  // for the first time
    // At most: the time doubles with each probe that fails.
    std::chrono::nanoseconds open_for_most = std::chrono::seconds(30);
    std::chrono::nanoseconds silence = std::chrono::seconds(1);  // for ReportUnanswered()
  };
  // kClosed: calls go through; kOpen: they are refused; kHalfOpen: few go through, to see.
  enum class State : std::uint8_t { kClosed, kOpen, kHalfOpen };

  // A call that was admitted.
  class Admission {
   private:
    friend class CircuitBreaker;
    explicit Admission(std::uint64_t epoch) : epoch_(epoch) {}
    std::uint64_t epoch_;
  };

  // With all Options as they are by default.
  CircuitBreaker() : CircuitBreaker(Options()) {}
  // Begins closed.
  explicit CircuitBreaker(const Options& options);
  ~CircuitBreaker();
  CircuitBreaker(const CircuitBreaker&) = delete;
  CircuitBreaker& operator=(const CircuitBreaker&) = delete;

  // None: refused. The form with a time is for callers that know it.
  [[nodiscard]] std::optional<Admission> TryAdmit();
  [[nodiscard]] std::optional<Admission> TryAdmit(TimePoint now);
  // One of these once for each admission. A call that says nothing of the server need not report: one that was given up
  // sooner than an answer could be expected.
  void Report(Admission admission, bool succeeded);
  void Report(Admission admission, bool succeeded, TimePoint now);
  void ReportUnanswered(Admission admission, TimePoint asked_at);
  void ReportUnanswered(Admission admission, TimePoint asked_at, TimePoint now);

  // A snapshot, for reports; TryAdmit() decides.
  State state() const;

 private:
  struct Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace weft::io

#endif  // WEFT_NET_CIRCUIT_BREAKER_H_
