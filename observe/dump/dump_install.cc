// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What a program gets by being linked with observe/: --fiber_dump_signal, and the dump of a process that dies. The
// static constructor sets the hook that StartRuntime() calls. The linker takes this file from libweft_observe.a because
// it is told to look for weft_observe_dumps (CMakeLists.txt, cmake/WeftInstall.cmake).

#include <signal.h>

#include <optional>
#include <string>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/runtime/dump_hook.h"
#include "weft/fiber/runtime/dump_signal.h"
#include "weft/observe/dump/dump_thread.h"
#include "weft/observe/dump/signal_dump.h"

extern "C" __attribute__((visibility("hidden"))) const char weft_observe_dumps;
extern "C" constinit const char weft_observe_dumps = 0;

namespace weft::observe {
namespace {

void SetAbortAction(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGABRT, &action, nullptr);
}

// And then what would have happened without it.
void OnAbort(int signal) {
  base::CallFatalErrorHook();
  SetAbortAction(SIG_DFL);
  ::raise(signal);
}

// For abort(), assert() and glog's CHECK. (A check of Weft's has called the hook before.)
void HandleAbort() {
  struct sigaction found = {};
  if (::sigaction(SIGABRT, nullptr, &found) != 0) return;
  if ((found.sa_flags & SA_SIGINFO) != 0 || found.sa_handler != SIG_DFL) return;  // It is the program's.
  SetAbortAction(&OnAbort);
}

void DumpOnCrash(bool wanted) {
  if (!wanted) return base::SetFatalErrorHook(nullptr);
  const std::string error = DumpThread::Start();
  if (!error.empty()) WEFT_LOG(WARNING, "--fiber_dump_on_crash does nothing: ", error);
  base::SetFatalErrorHook(error.empty() ? &DumpThread::DumpBeforeDeath : nullptr);
  HandleAbort();
}

std::optional<std::string> Install(const RuntimeOptions& options) {
  DumpOnCrash(options.dump_on_crash);
  if (options.dump_signal.empty()) return std::nullopt;
  const std::optional<int> signal = fiber::detail::ParseDumpSignal(options.dump_signal);
  if (signal == SignalDump::signal()) return std::nullopt;  // By a runtime before this one.
  const std::string error = SignalDump::Install(*signal, {});
  if (error.empty()) return std::nullopt;
  return "--fiber_dump_signal=" + options.dump_signal + ": must be another one: " + error;
}

[[maybe_unused]] const bool is_set = (fiber::detail::SetDumpHook(&Install), true);

}  // namespace
}  // namespace weft::observe
