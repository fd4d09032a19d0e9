// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/run.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <optional>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/runtime/runtime_flags.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/io/run_until_signal.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/cancel_scope.h"

namespace weft {

int EndSignal::Wait() {
  event_.Wait();
  return signal();
}

int EndSignal::Wait(Deadline deadline) { return event_.Wait(deadline) ? signal() : 0; }

int EndSignal::signal() const noexcept {
  // relaxed: the event carries what was done before; alone it is only a number.
  return signal_.load(std::memory_order_relaxed);
}

namespace run_internal {
namespace {

bool IsIgnored(int signal) noexcept {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Both signals, blocked, and f's end, as descriptors. The thread that waits for them made it.
class Ends {
 public:
  Ends() : blocked_(io::BlockEndSignals()), end_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM}) {
      if (!IsIgnored(signal)) sigaddset(&signals, signal);  // A blocked one is told also if it is ignored.
    }
    if (end_ >= 0) signals_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) GiveUp(errno);
  }
  ~Ends() {
    if (end_ >= 0) ::close(end_);
    if (signals_ >= 0) ::close(signals_);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  // f's fiber.
  void TellEnd() const noexcept {
    const std::uint64_t one = 1;
    if (end_ >= 0) static_cast<void>(::write(end_, &one, sizeof(one)) == sizeof(one));
  }

  // The next signal. 0: f has ended, or signals are not told.
  int Next() noexcept {
    while (signals_ >= 0) {
      pollfd polled[] = {{.fd = end_, .events = POLLIN, .revents = 0},
                         {.fd = signals_, .events = POLLIN, .revents = 0}};
      const int ready = io::PollUntil(polled, 2, Deadline::None());
      if (ready < 0) GiveUp(-ready);
      if (ready < 0 || polled[0].revents != 0) return 0;
      if (const int signal = Take()) return signal;
    }
    return 0;
  }

  // After the first signal.
  void UnblockInterrupt() noexcept {
    io::UnblockEndSignals({.interrupt = blocked_.interrupt, .terminate = false});
    blocked_.interrupt = false;
  }
  // When none has come before f's end; one that has come since then came too late.
  void Unblock() noexcept {
    while (signals_ >= 0 && Take() != 0) continue;
    io::UnblockEndSignals(blocked_);
    blocked_ = {};
  }

 private:
  int Take() noexcept {
    signalfd_siginfo info{};
    return ::read(signals_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }
  void GiveUp(int error) noexcept {
    WEFT_LOG(ERROR, "Run: the system refuses to tell of signals, with error ", error,
             ": SIGINT and SIGTERM end the process at once");
    if (signals_ >= 0) ::close(signals_);
    signals_ = -1;
    Unblock();
  }

  io::BlockedEndSignals blocked_;
  const int end_;
  int signals_ = -1;  // below 0: signals are not told
};

}  // namespace

class Main {
 public:
  Main(int (*body)(void*, EndSignal&), void* f, bool cancels) : body_(body), f_(f), cancels_(cancels) {}

  // In the fiber.
  int Call() {
    try {
      if (!cancels_) return body_(f_, end_);
      int status = 0;
      static_cast<void>(scope_.Run([&] { status = body_(f_, end_); }));
      return status;
    } catch (const FiberCancelled&) {
      WEFT_LOG(ERROR, "Run: the main fiber was cancelled, but by no signal");
    } catch (const std::exception& exception) {
      WEFT_LOG(ERROR, "Run: an exception has left the main fiber: ", exception.what());
    } catch (...) {
      WEFT_LOG(ERROR, "Run: an exception has left the main fiber, no std::exception");
    }
    return 1;
  }

  // The thread.
  void Raise(int signal) noexcept {
    end_.signal_.store(signal, std::memory_order_relaxed);  // Set() carries it.
    end_.event_.Set();
    if (cancels_) scope_.Cancel();
  }

 private:
  int (*const body_)(void*, EndSignal&);
  void* const f_;
  const bool cancels_;
  EndSignal end_;
  CancelScope scope_;
};

int Run(int& argc, char**& argv, int (*body)(void* f, EndSignal& end), void* f, bool cancels) {
  WEFT_CHECK(scheduling_group::CurrentFiber() == nullptr, "Run: called in a fiber: it is for main()");
  WEFT_CHECK(!IsRuntimeRunning(), "Run: a runtime runs already, and Run() starts its own");
  fiber::ParseFlags(&argc, &argv);
  Ends ends;  // Before there are threads.
  StartRuntime();
  Main main(body, f, cancels);
  int status = 0;
  std::optional<Fiber> runner = Fiber::TryStart({.name = "main"}, [&] {
    status = main.Call();
    ends.TellEnd();
  });
  if (!runner) {
    WEFT_LOG(ERROR, "Run: the main fiber could not be started: its start was refused, as that of a fiber may be");
    ends.Unblock();
    static_cast<void>(TerminateRuntime());
    return 1;
  }
  bool asked_to_end = false;
  while (const int signal = ends.Next()) {
    if (asked_to_end) continue;  // A second SIGTERM.
    asked_to_end = true;
    ends.UnblockInterrupt();
    main.Raise(signal);
  }
  runner->Join();
  if (!asked_to_end) ends.Unblock();
  const std::size_t unfinished = TerminateRuntime();
  return status == 0 && unfinished != 0 ? 1 : status;
}

}  // namespace run_internal
}  // namespace weft
