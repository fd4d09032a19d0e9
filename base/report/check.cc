// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/report/check.h"

#include <atomic>
#include <cstdlib>

#include "weft/base/report/default_sink.h"
#include "weft/base/report/log.h"

namespace weft::base {

namespace {

std::atomic<CheckContextHook> context_hook{nullptr};
constinit std::atomic<FatalErrorHook> fatal_error_hook{nullptr};

// A check that fails while the hook or the sink reports another one must not call them again.
thread_local bool is_reporting = false;

WEFT_TLS_ACCESSOR bool BeginReport() {
  OpaqueBarrier();
  if (is_reporting) return false;
  is_reporting = true;
  return true;
}

}  // namespace

// release / acquire in FatalError(): what the caller set up for the hook is visible to it.
void SetCheckContextHook(CheckContextHook hook) { context_hook.store(hook, std::memory_order_release); }

// release / acquire: as above.
void SetFatalErrorHook(FatalErrorHook hook) { fatal_error_hook.store(hook, std::memory_order_release); }

WEFT_COLD void CallFatalErrorHook(bool abort_follows, const void* machine_context) noexcept {
  if (FatalErrorHook hook = fatal_error_hook.load(std::memory_order_acquire)) hook(abort_follows, machine_context);
}

WEFT_COLD void FatalError(const char* file, int line, const char* function, const std::string& text) {
  std::string message = text + " (in " + function;
  if (BeginReport()) {
    if (CheckContextHook hook = context_hook.load(std::memory_order_acquire)) {
      std::string context = hook();
      if (!context.empty()) message += "; " + context;
    }
    message += ")";
    EmitLogLine(LogSeverity::kFatal, file, line, message);
  } else {
    message += ")";
  }
  log_internal::WriteFatalToDefaultSink(file, line, message);
  CallFatalErrorHook();
  std::abort();
}

}  // namespace weft::base
