// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/run_until_signal.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/parker.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/scheduling_group/fiber/park.h"

namespace weft::io {
namespace {

sigset_t EndSignals() noexcept {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// Where a seccomp filter refuses sigtimedwait(2). Below 0: this is refused, too.
int WaitBySignalFd(const sigset_t& signals, Deadline deadline) noexcept {
  const int fd = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return -1;
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  int result = 0;
  for (;;) {
    const int ready = PollUntil(&polled, 1, deadline);
    result = ready < 0 ? -1 : 0;
    if (ready <= 0) break;
    signalfd_siginfo info{};
    const ssize_t got = ::read(fd, &info, sizeof(info));
    result = got == sizeof(info) ? static_cast<int>(info.ssi_signo) : -1;
    if (result > 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  ::close(fd);
  return result;
}

// Nothing tells of the signals: they end the process, and this returns at the deadline.
void WaitWithoutSignals(int error, Deadline deadline) noexcept {
  WEFT_LOG(ERROR, "WaitForEndSignal: the system refuses both sigtimedwait(2), with error ", error,
           ", and signalfd(2): SIGINT and SIGTERM end the process at once");
  UnblockEndSignals();
  base::Parker parker;
  while (!deadline.expired()) {
    if (deadline.is_none()) parker.Park();
    const auto until = Deadline::After(deadline.remaining(), std::chrono::steady_clock::now());  // On the wall.
    static_cast<void>(parker.ParkUntil(until.time_point()));
  }
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
    if (errno == EAGAIN && deadline.expired()) return 0;
    if (errno == EAGAIN || errno == EINTR) continue;  // EINTR: another signal's handler has run.
    const int error = errno;
    const int by_fd = WaitBySignalFd(signals, deadline);
    if (by_fd < 0) WaitWithoutSignals(error, deadline);
    return std::max(by_fd, 0);
  }
}

}  // namespace weft::io
