// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What a program gets by being linked with observe/: --fiber_dump_signal, and the dump of a process that dies. A static
// constructor sets the hook that StartRuntime() calls. The linker takes this file from libweft_observe.a because it is
// told to look for weft_observe_dumps (CMakeLists.txt, cmake/WeftInstall.cmake).

#include <signal.h>

#include <array>
#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/runtime/dump_hook.h"
#include "weft/fiber/runtime/dump_signal.h"
#include "weft/observe/dump/dump_thread.h"
#include "weft/observe/dump/signal_dump.h"
#include "weft/observe/dump/write_dump.h"
#include "weft/observe/dump_options.h"
#include "weft/scheduling_group/watch/watch_report.h"

extern "C" __attribute__((visibility("hidden"))) const char weft_observe_dumps;
extern "C" constinit const char weft_observe_dumps = 0;

namespace weft::observe {
namespace {

// abort(), assert() and glog's CHECK; a division by zero; __builtin_trap(). Of SIGSEGV and SIGBUS the handler in
// context/stack/overflow_handler.h tells, and a check of Weft's has called the hook before.
constexpr std::array kDeaths{SIGABRT, SIGFPE, SIGILL};

// And then what would have happened without it: a fault comes again, and a signal that was sent is sent again.
void OnDeath(int signal, siginfo_t* info, void* machine_context) {
  base::CallFatalErrorHook(/*abort_follows=*/false, machine_context);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

struct sigaction ActionOf(int signal) {
  struct sigaction found = {};
  ::sigaction(signal, nullptr, &found);
  return found;
}

void HandleDeaths() {
  struct sigaction action = {};
  action.sa_sigaction = &OnDeath;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : kDeaths) {
    const struct sigaction found = ActionOf(signal);
    if ((found.sa_flags & SA_SIGINFO) != 0 || found.sa_handler != SIG_DFL) continue;  // It is the program's.
    ::sigaction(signal, &action, nullptr);
  }
}

// Async-signal-safe.
void OnFatalError(bool abort_follows, const void* machine_context) {
  if (abort_follows && ActionOf(SIGABRT).sa_sigaction == &OnDeath) return;
  DumpThread::DumpBeforeDeath(machine_context);
}

void DumpOnCrash(bool wanted) {
  if (!wanted) return base::SetFatalErrorHook(nullptr);
  const std::string error = DumpThread::Start();
  if (!error.empty()) WEFT_LOG(WARNING, "--fiber_dump_on_crash does nothing: ", error);
  base::SetFatalErrorHook(error.empty() ? &OnFatalError : nullptr);
  HandleDeaths();
}

// For the Watchdog, which does nothing else meanwhile: no source lines, and not much.
constexpr std::chrono::milliseconds kMostReadingForWatchdog{100};

std::string DescribeForWatchdog(std::string_view filter, bool running_stacks) {
  std::ostringstream out;
  static_cast<void>(WriteDump(out,
                              {.filter = std::string(filter),
                               .running_stacks = running_stacks,
                               .source_lines = false,
                               .most_frames = 32,
                               .most_groups = 8},
                              std::chrono::steady_clock::now() + kMostReadingForWatchdog));
  return std::move(out).str();
}

std::optional<std::string> Install(const RuntimeOptions& options) {
  // release: pairs with the acquire in DescribeFibers().
  scheduling_group::describe_fibers.store(&DescribeForWatchdog, std::memory_order_release);
  DumpOnCrash(options.dump_on_crash);
  if (options.dump_signal.empty()) return std::nullopt;
  const std::optional<int> signal = fiber::detail::ParseDumpSignal(options.dump_signal);
  if (signal == SignalDump::signal()) return std::nullopt;  // By a runtime before this one.
  const std::string error = SignalDump::Install(*signal, {});
  if (error.empty()) return std::nullopt;
  return "--fiber_dump_signal=" + options.dump_signal + ": must be another one: " + error;
}

// Before those that have no number: they may start the runtime.
__attribute__((constructor(101))) void SetHooks() {
  static constexpr fiber::detail::DumpHooks kHooks{.prepare = &Install, .end = &DumpThread::Stop};
  fiber::detail::SetDumpHooks(&kHooks);
}

}  // namespace
}  // namespace weft::observe
