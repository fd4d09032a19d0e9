// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "http_server/fan_out.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "weft/weft.h"

namespace examples {
namespace {

// What a call shares with the fibers that it starts.
struct Call {
  explicit Call(std::uint32_t n) : open(n), result{.answers = decltype(FanOutResult::answers)(n)} {}

  weft::FiberLatch open;
  weft::FiberEvent over;  // the deadline has passed
  weft::FiberMutex mutex;
  FanOutResult result;    // guarded by the mutex until the caller takes it
  bool is_taken = false;  // likewise
};

std::uint32_t CountPrimesBelow(std::uint32_t limit) {
  std::uint32_t primes = 0;
  for (std::uint32_t candidate = 2; candidate < limit; ++candidate) {
    bool prime = true;
    for (std::uint32_t divisor = 2; prime && divisor * divisor <= candidate; ++divisor) {
      prime = candidate % divisor != 0;
    }
    primes += prime ? 1 : 0;
  }
  return primes;
}

void AskOne(Call* call, std::uint32_t service) {
  // Stands for a remote call that can be cancelled.
  if (!call->over.Wait(std::chrono::milliseconds(20) * (service + 1))) {
    const std::uint32_t answer = CountPrimesBelow(100 * (service + 1));
    const std::lock_guard guard(call->mutex);
    if (!call->is_taken) call->result.answers[service] = answer;
  }
  call->open.CountDown();
}

}  // namespace

FanOutResult AskServices(std::uint32_t n, weft::Deadline deadline) {
  const auto call = std::make_shared<Call>(n);
  for (std::uint32_t service = 0; service < n; ++service) {
    const bool started = weft::StartFiberDetached([call, service] { AskOne(call.get(), service); });
    if (!started) call->open.CountDown();  // No memory for it: its answer is missing.
  }
  (void)call->open.Wait(deadline);
  call->over.Set();
  const std::lock_guard guard(call->mutex);
  call->is_taken = true;
  return std::move(call->result);
}

}  // namespace examples
