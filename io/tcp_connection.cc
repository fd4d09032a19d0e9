// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_connection.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/fiber/this_fiber.h"

namespace weft::io {
namespace {

constexpr std::chrono::seconds kNoWait{0};

bool IsCancelled(std::error_code error) { return error == std::errc::operation_canceled; }

}  // namespace

void TcpConnection::BecomeIdle() noexcept {
  if (idle_since() != kBusy) return;
  const std::chrono::nanoseconds limit = has_sent_request() ? server_->idle_timeout : server_->first_request_timeout;
  const bool drains = draining();
  const bool is_limited = limit.count() > 0;
  const TimePoint now = drains || is_limited ? std::chrono::steady_clock::now() : TimePoint();
  waits_until_.store(is_limited ? Deadline::After(limit, now).time_point() : TimePoint::max(),
                     std::memory_order_relaxed);
  idle_since_.store(drains ? now : kBeforeDrain, std::memory_order_relaxed);
}

void TcpConnection::BecomeBusy() noexcept {
  idle_since_.store(kBusy, std::memory_order_relaxed);
  if (!has_sent_request()) has_sent_request_.store(true, std::memory_order_relaxed);
}

std::error_code TcpConnection::NothingIn(std::error_code error) noexcept {
  found_nothing_ = does_not_wait_ && error == std::errc::timed_out;
  if (found_nothing_) return std::make_error_code(std::errc::resource_unavailable_try_again);
  if (error == std::errc::timed_out) CountTimeout();
  return error;
}

void TcpConnection::KeepFiber() noexcept {
  does_not_wait_ = false;
  found_nothing_ = false;
  keeps_fiber_ = true;
}

bool TcpConnection::LeaveFiber(Deadline until) noexcept {
  const bool is_looked_at = server_->idle_timeout.count() > 0 || server_->first_request_timeout.count() > 0;
  if (!until.is_none() && !is_looked_at) {
    KeepFiber();
    return false;
  }
  does_not_wait_ = true;
  keeps_fiber_ = false;
  idle_since_.store(kBusy, std::memory_order_relaxed);
  BecomeIdle();
  // The server's time-outs are of the machine's clock, also where there is a test clock.
  if (base::HasTestTime() && !until.is_none())
    until = Deadline::After(until.remaining(), std::chrono::steady_clock::now());
  waits_until_.store(std::min(Deadline(waits_until()), until).time_point(), std::memory_order_relaxed);
  return true;
}

Deadline TcpConnection::LimitOf(Deadline deadline) const noexcept {
  if (does_not_wait_) return kNoWait;
  return has_timeouts() ? std::min(deadline, Deadline(waits_until())) : deadline;
}

void TcpConnection::CountTimeout() noexcept {
  if (!has_timeouts()) return;
  if (!Deadline(waits_until()).expired()) return;  // It was the caller's deadline.
  CountOnce();
}

void TcpConnection::CountOnce() noexcept {
  if (std::exchange(is_counted_, true)) return;
  server_->timed_out.fetch_add(1, std::memory_order_relaxed);
}

bool TcpConnection::IsTurnOver() noexcept {
  const TimePoint now = std::chrono::steady_clock::now();
  turn_began_ = std::min(turn_began_, now);
  return requests_in_turn_ >= kRequestsInATurn || now - turn_began_ >= kTurn;
}

void TcpConnection::GiveWay() {
  BeginTurn();
  FiberYield();
}

IoResult TcpConnection::ReadRequest(void* data, std::size_t size, Deadline deadline) {
  IoResult got{0, std::make_error_code(std::errc::operation_canceled)};  // If the fiber is cancelled before it reads.
  BecomeIdle();
  deadline = LimitOf(deadline);
  static_cast<void>(idle_.Run([&] { got = stream_.ReadSome(data, size, deadline); }));
  if (IsCancelled(got.error) && idle_.IsCancelled()) {
    got = stream_.ReadSome(data, size, kNoWait);  // DR1
    if (got.error == std::errc::timed_out) got.error = std::make_error_code(std::errc::operation_canceled);
  }
  got.error = NothingIn(got.error);
  if (got.bytes != 0) {
    if (stream_.descriptor_.ReadHasGivenWay()) BeginTurn();
    BecomeBusy();
  } else if (size != 0 && !found_nothing_ && !keeps_fiber_) {
    has_ended_ = true;
  }
  return got;
}

std::error_code TcpConnection::AwaitRequest(Deadline deadline) {
  std::error_code error = std::make_error_code(std::errc::operation_canceled);
  BecomeIdle();
  deadline = LimitOf(deadline);
  static_cast<void>(idle_.Run([&] { error = stream_.WaitReadable(deadline); }));
  if (IsCancelled(error) && idle_.IsCancelled()) {
    error = stream_.WaitReadable(kNoWait);  // DR1
    if (error == std::errc::timed_out) error = std::make_error_code(std::errc::operation_canceled);
  }
  return NothingIn(error);
}

}  // namespace weft::io
