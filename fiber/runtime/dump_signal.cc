// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/dump_signal.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace weft::fiber::detail {

bool MayBeDumpSignal(int signal) noexcept {
  constexpr std::array kNot{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGKILL, SIGSTOP};
  struct sigaction found = {};
  return std::find(kNot.begin(), kNot.end(), signal) == kNot.end() && ::sigaction(signal, nullptr, &found) == 0;
}

std::optional<int> ParseDumpSignal(const std::string& text) {
  const std::string_view name = std::string_view(text).substr(text.starts_with("SIG") ? 3 : 0);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* const known = ::sigabbrev_np(signal);
    const bool is_it = (known != nullptr && name == known) || text == std::to_string(signal);
    if (is_it && MayBeDumpSignal(signal)) return signal;
  }
  return std::nullopt;
}

}  // namespace weft::fiber::detail
