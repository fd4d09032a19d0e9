// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_connection.h"

#include <chrono>
#include <utility>

namespace weft::io {
namespace {

constexpr std::chrono::seconds kNoWait{0};

bool IsCancelled(std::error_code error) { return error == std::errc::operation_canceled; }

}  // namespace

IoResult TcpConnection::ReadRequest(void* data, std::size_t size, Deadline deadline) {
  IoResult got{0, std::make_error_code(std::errc::operation_canceled)};  // If the fiber is cancelled before it reads.
  BecomeIdle();
  static_cast<void>(idle_.Run([&] { got = stream_.ReadSome(data, size, deadline); }));
  if (IsCancelled(got.error) && idle_.IsCancelled()) {
    got = stream_.ReadSome(data, size, kNoWait);  // DR1
    if (got.error == std::errc::timed_out) got.error = std::make_error_code(std::errc::operation_canceled);
  }
  if (got.bytes != 0) BecomeBusy();
  if (got.bytes != 0 && !has_sent_request()) has_sent_request_.store(true, std::memory_order_relaxed);
  return got;
}

std::error_code TcpConnection::AwaitRequest(Deadline deadline) {
  std::error_code error = std::make_error_code(std::errc::operation_canceled);
  BecomeIdle();
  static_cast<void>(idle_.Run([&] { error = stream_.WaitReadable(deadline); }));
  if (IsCancelled(error) && idle_.IsCancelled()) {
    error = stream_.WaitReadable(kNoWait);  // DR1
    if (error == std::errc::timed_out) error = std::make_error_code(std::errc::operation_canceled);
  }
  if (!error) BecomeBusy();
  return error;
}

}  // namespace weft::io
