// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/time/cycle_clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft::base {

constinit std::atomic<bool> CycleClock::is_steady_{false};

void CycleClock::Choose() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kLeaf = 0x80000007;
  constexpr unsigned kInvariant = 1U << 8;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(kLeaf, &eax, &ebx, &ecx, &edx) == 0 || (edx & kInvariant) == 0) return;
  is_steady_.store(true, std::memory_order_relaxed);
#endif
}

std::uint64_t CycleClock::OfSteadyClock() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

CycleScale::Reading CycleScale::Reading::Now() noexcept {
  constexpr int kTries = 4;
  Reading best;
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = CycleClock::Now();
    const auto time = std::chrono::steady_clock::now();
    const std::uint64_t took = CycleClock::Now() - before;
    if (took >= least) continue;
    least = took;
    best = {.cycles = before + took / 2, .time = time};
  }
  return best;
}

CycleScale::CycleScale(const Reading& first, const Reading& last) noexcept : last_(last) {
  const std::uint64_t cycles = last.cycles - first.cycles;
  const auto ns = (last.time - first.time) / std::chrono::nanoseconds(1);
  ns_per_cycle_ = cycles != 0 ? static_cast<double>(ns) / static_cast<double>(cycles) : 0.0;
}

std::chrono::steady_clock::time_point CycleScale::TimeOf(std::uint64_t cycles) const noexcept {
  const auto ago = static_cast<double>(static_cast<std::int64_t>(last_.cycles - cycles)) * ns_per_cycle_;
  return last_.time - std::chrono::nanoseconds(static_cast<std::int64_t>(ago));
}

}  // namespace weft::base
