// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fibers that suspend with much on their stacks, move between workers, throw, end, and leave their stacks to others.

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr int kFibers = 200;
constexpr int kRounds = 3;

// A frame of some KiB at each depth, written before the suspension and read after it.
[[gnu::noinline]] long Descend(int depth, weft::FiberSemaphore* turn) {
  std::array<char, 3000> frame;
  std::memset(frame.data(), depth, frame.size());
  long sum = 0;
  if (depth > 0) {
    sum = Descend(depth - 1, turn);
  } else {
    turn->Release();
    weft::FiberYield();
    turn->Acquire();
    weft::FiberSleepFor(std::chrono::microseconds(100));
  }
  for (const char byte : frame) sum += byte;
  return sum;
}

long ThrowOverASuspension(weft::FiberSemaphore* turn) {
  try {
    throw std::runtime_error("caught in the fiber that throws it");
  } catch (const std::runtime_error& error) {
    const long sum = Descend(2, turn);
    return error.what()[0] == 'c' ? sum : 0;
  }
}

}  // namespace

int main() {
  weft::RuntimeOptions options;
  options.concurrency_hint = 3;
  weft::StartRuntime(options);
  weft::FiberSemaphore turn(0);
  std::array<long, kFibers> sums{};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<weft::Fiber> fibers;
    for (int i = 0; i < kFibers; ++i) {
      fibers.emplace_back([&turn, &sum = sums[static_cast<std::size_t>(i)]] { sum += ThrowOverASuspension(&turn); });
    }
    for (weft::Fiber& fiber : fibers) fiber.Join();
  }
  const bool none_left = weft::TerminateRuntime() == 0;
  long wrong = 0;
  for (const long sum : sums) wrong += sum == kRounds * 3000L * (0 + 1 + 2) ? 0 : 1;
  std::printf("%ld of %d fibers summed wrongly\n", wrong, kFibers);
  return none_left && wrong == 0 ? 0 : 1;
}
