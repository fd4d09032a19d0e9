// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "http_server/fan_out.h"

#include <chrono>

#include "weft/weft.h"

namespace examples {
namespace {

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

}  // namespace

FanOutResult AskServices(std::uint32_t n, weft::Deadline deadline) {
  FanOutResult result{.answers = decltype(FanOutResult::answers)(n)};
  weft::FiberScope calls({.deadline = deadline});
  for (std::uint32_t service = 0; service < n; ++service) {
    const bool started = calls.Spawn([&answer = result.answers[service], service] {
      // Stands for a remote call.
      weft::FiberSleepFor(std::chrono::milliseconds(20) * (service + 1));
      answer = CountPrimesBelow(100 * (service + 1));
    });
    if (!started) break;  // No memory for it: its answer is missing.
  }
  calls.Wait();
  return result;
}

}  // namespace examples
