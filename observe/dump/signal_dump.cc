// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/signal_dump.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "weft/fiber/runtime/dump_signal.h"
#include "weft/observe/dump/dump_thread.h"
#include "weft/observe/dump/own_signals.h"

namespace weft::observe {
namespace {

// The process that has one, in the upper half, and the signal; 0: none. A child of a fork may have its own.
constinit std::atomic<std::uint64_t> owner{0};

std::uint64_t OwnerOf(int signal) noexcept {
  return static_cast<std::uint64_t>(::getpid()) << 32 | static_cast<std::uint32_t>(signal);
}
bool IsOfThisProcess(std::uint64_t some) noexcept { return some >> 32 == OwnerOf(0) >> 32; }

void OnSignal(int /*signal*/) {
  const int saved_errno = errno;
  DumpThread::AskForDump();
  errno = saved_errno;
}

}  // namespace

std::optional<int> SignalDump::signal() noexcept {
  const std::uint64_t now = owner.load(std::memory_order_relaxed);  // The two numbers are all.
  return IsOfThisProcess(now) ? std::optional<int>(static_cast<std::int32_t>(now)) : std::nullopt;
}

std::string SignalDump::Install(int signal, const DumpOptions& options) {
  if (!fiber::detail::MayBeDumpSignal(signal)) return "signal " + std::to_string(signal) + " cannot be handled";
  const std::string name = "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  struct sigaction found = {};
  ::sigaction(signal, nullptr, &found);
  const bool is_ours = (found.sa_flags & SA_SIGINFO) == 0 && found.sa_handler == &OnSignal;  // A parent's.
  if (!is_ours && ((found.sa_flags & SA_SIGINFO) != 0 || found.sa_handler != SIG_DFL)) {
    return name + " is not taken: it is used already";
  }
  std::uint64_t former = owner.load(std::memory_order_relaxed);
  // relaxed: the signal handler is installed later.
  if (IsOfThisProcess(former) || !owner.compare_exchange_strong(former, OwnerOf(signal), std::memory_order_relaxed)) {
    return name + " is not taken: another signal makes dumps already";
  }
  DumpThread::SetOptions(options);
  if (std::string error = DumpThread::Start(); !error.empty()) {
    owner.store(former, std::memory_order_relaxed);
    return error;
  }
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  AddOwnSignal(signal, action);
  ::sigaction(signal, &action, nullptr);
  DumpThread::Receive(signal);
  return "";
}

}  // namespace weft::observe
