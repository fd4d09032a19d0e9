// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/wait_reason.h"

#include <time.h>

namespace weft::scheduling_group {
namespace {

constexpr int kTickShift = 32;
constexpr std::uint64_t kTicks = (std::uint64_t{1} << 31) - 1;  // 31 bits: bit 63 is a ReadyStamp's.

}  // namespace

constinit std::atomic<std::uint64_t> ParkClock::word_{0};

std::uint64_t ParkClock::Now() noexcept {
  timespec time{};
  static_cast<void>(::clock_gettime(CLOCK_MONOTONIC_COARSE, &time));
  const std::int64_t milliseconds = std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
  return static_cast<std::uint64_t>(milliseconds / kTick.count()) & kTicks;
}

void ParkClock::Advance() noexcept {
  const std::uint64_t word = Now() << kTickShift;
  // relaxed: the value is all. Not stored anew: parks read the line.
  if (word_.load(std::memory_order_relaxed) != word) word_.store(word, std::memory_order_relaxed);
}

std::chrono::milliseconds ParkClock::Since(std::uint64_t stamp) noexcept {
  return static_cast<std::int64_t>((Now() - (stamp >> kTickShift)) & kTicks) * kTick;
}

}  // namespace weft::scheduling_group
