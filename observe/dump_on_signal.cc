// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump_on_signal.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <sstream>
#include <string_view>
#include <thread>

#include "weft/base/report/log.h"
#include "weft/observe/dump/own_signals.h"
#include "weft/observe/dump_fibers.h"

namespace weft {
namespace {

// Written before the handler is installed, once.
constinit std::atomic<bool> installed{false};
constinit int wake_fd = -1;
constinit pid_t of_process = -1;

void OnSignal(int /*signal*/) {
  if (::getpid() != of_process) return;  // A forked child: the descriptor is its parent's, too.
  const int saved_errno = errno;
  const std::uint64_t one = 1;
  // It fails if it is full: then a dump is to be made anyhow.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd, &one, sizeof(one));
  errno = saved_errno;
}

// Not by std::cerr: <iostream> brings a static object that is destroyed while threads may still use it.
void WriteToStderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EAGAIN) {  // A pipe that does not block, and is full.
      pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
      if (::poll(&room, 1, /*timeout=*/1000) == 0) return;
      continue;
    }
    if (written < 0 && errno != EINTR) return;  // There is nobody to tell.
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void DumpWhenWoken(const DumpOptions& options) {
  ::pthread_setname_np(::pthread_self(), "FiberDump");
  for (;;) {
    std::uint64_t count = 0;
    if (::read(wake_fd, &count, sizeof(count)) != sizeof(count)) {
      if (errno == EINTR) continue;
      WEFT_LOG(ERROR, "DumpFibersOnSignal: its descriptor is closed: there are no more dumps: ", std::strerror(errno));
      return;
    }
    std::ostringstream out;
    static_cast<void>(DumpFibers(out, options));
    WriteToStderr(out.view());
  }
}

// With all signals blocked: they are for the program's threads.
bool StartThread(const DumpOptions& options) {
  sigset_t all;
  sigset_t former;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &former);
  bool started = true;
  try {
    std::thread([options] { DumpWhenWoken(options); }).detach();
  } catch (const std::exception& error) {
    WEFT_LOG(ERROR, "DumpFibersOnSignal: there is no thread: ", error.what());
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
  return started;
}

}  // namespace

bool DumpFibersOnSignal(int signal, const DumpOptions& options) {
  struct sigaction found = {};
  // After a fault's handler the fault comes again.
  constexpr std::array kFaults{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
  const bool is_fault = std::find(kFaults.begin(), kFaults.end(), signal) != kFaults.end();
  if (::sigaction(signal, nullptr, &found) != 0 || is_fault || signal == SIGKILL || signal == SIGSTOP) {
    WEFT_LOG(ERROR, "DumpFibersOnSignal: signal ", signal, " cannot be handled");
    return false;
  }
  const bool is_used = (found.sa_flags & SA_SIGINFO) != 0 || found.sa_handler != SIG_DFL;
  if (is_used || installed.exchange(true, std::memory_order_relaxed)) {
    WEFT_LOG(ERROR, "DumpFibersOnSignal: signal ", signal, " (", ::strsignal(signal),
             ") is not taken: ", is_used ? "it is used already" : "another signal makes dumps already");
    return false;
  }
  of_process = ::getpid();
  wake_fd = ::eventfd(0, EFD_CLOEXEC);
  if (wake_fd < 0) {
    WEFT_LOG(ERROR, "DumpFibersOnSignal: there is no descriptor: ", std::strerror(errno));
  }
  if (wake_fd < 0 || !StartThread(options)) {
    if (wake_fd >= 0) ::close(wake_fd);
    installed.store(false, std::memory_order_relaxed);
    return false;
  }
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  observe::AddOwnSignal(signal, action);
  ::sigaction(signal, &action, nullptr);
  return true;
}

}  // namespace weft
