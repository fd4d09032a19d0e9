// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/own_signals.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "weft/base/report/check.h"

namespace weft::observe {
namespace {

constexpr int kSignals = 64;

// By the signal's number. 0: none.
constinit std::array<std::atomic<std::uintptr_t>, kSignals + 1> handlers{};

// With or without SA_SIGINFO: they are one word.
std::uintptr_t HandlerOf(const struct sigaction& action) noexcept {
  return reinterpret_cast<std::uintptr_t>(action.sa_handler);
}

}  // namespace

void AddOwnSignal(int signal, const struct sigaction& action) noexcept {
  WEFT_CHECK(signal > 0 && signal <= kSignals, "AddOwnSignal: no signal");
  // relaxed: OwnSignals() asks the kernel.
  handlers[static_cast<std::size_t>(signal)].store(HandlerOf(action), std::memory_order_relaxed);
}

std::uint64_t OwnSignals() noexcept {
  std::uint64_t own = 0;
  for (int signal = 1; signal <= kSignals; ++signal) {
    const std::uintptr_t handler = handlers[static_cast<std::size_t>(signal)].load(std::memory_order_relaxed);
    struct sigaction now = {};
    if (handler == 0 || ::sigaction(signal, nullptr, &now) != 0 || HandlerOf(now) != handler) continue;
    own |= std::uint64_t{1} << (signal - 1);
  }
  return own;
}

}  // namespace weft::observe
