// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/run_until_signal.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <chrono>

#include "weft/base/check.h"
#include "weft/scheduling_group/park.h"

namespace weft::io {
namespace {

sigset_t EndSignals() noexcept {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

BlockedEndSignals BlockEndSignals() noexcept {
  const sigset_t signals = EndSignals();
  sigset_t before;
  sigemptyset(&before);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  return {.interrupt = sigismember(&before, SIGINT) == 0, .terminate = sigismember(&before, SIGTERM) == 0};
}

void UnblockEndSignals(BlockedEndSignals blocked) noexcept {
  sigset_t signals;
  sigemptyset(&signals);
  if (blocked.interrupt) sigaddset(&signals, SIGINT);
  if (blocked.terminate) sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int WaitForEndSignal(Deadline deadline) noexcept {
  WEFT_CHECK(scheduling_group::CurrentFiber() == nullptr, "WaitForEndSignal: it blocks its thread, and is in a fiber");
  const sigset_t signals = EndSignals();
  for (;;) {
    const std::chrono::nanoseconds left = deadline.remaining();
    timespec timeout{};
    timeout.tv_sec = left / std::chrono::seconds(1);
    timeout.tv_nsec = (left % std::chrono::seconds(1)).count();
    const int signal =
        deadline.is_none() ? ::sigwaitinfo(&signals, nullptr) : ::sigtimedwait(&signals, nullptr, &timeout);
    if (signal > 0) return signal;
    if (errno == EAGAIN && deadline.expired()) return 0;  // EINTR: another signal's handler has run.
  }
}

}  // namespace weft::io
