// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Broken invariants and misuse end the process, with a message that says what, where and in which fiber.
//
//   WEFT_CHECK(owner_ == self, "FiberMutex::unlock: not the owner (owner ", owner_, ")");   also in release builds
//   WEFT_DCHECK(...)                         only without NDEBUG; not evaluated otherwise
//   WEFT_FATAL("bad flag value ", value);    always
//   WEFT_UNREACHABLE();                      a place that cannot be reached
//
// The pieces after the condition are the message, evaluated and streamed (<<) on failure only, out of line: a check
// that holds costs one branch. Without pieces the message is the condition. The message goes to the log sink
// (base/report/log.h), if one is set, then to glog's FATAL (stderr, log file, backtrace, abort()), or, if the program
// has not initialised glog, to stderr, before abort(). Refusals by the system or a limit (no memory, queue full) are
// returned.
//
// The FatalErrorHook runs before the process dies, where a check fails, std::terminate() is called, or a fault has no
// handler but ours: observe/ writes a dump of the fibers there.
#ifndef WEFT_BASE_REPORT_CHECK_H_
#define WEFT_BASE_REPORT_CHECK_H_

#include <string>

#include "weft/base/report/str_cat.h"
#include "weft/base/thread/cpu.h"

#define WEFT_CHECK(cond, ...)                                                                                    \
  do {                                                                                                           \
    if (WEFT_UNLIKELY(!(cond))) {                                                                                \
      ::weft::base::check_internal::CheckFailed(__FILE__, __LINE__, __func__, #cond __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                                            \
  } while (false)

#ifdef NDEBUG
#define WEFT_DCHECK(cond, ...)                                                                                   \
  do {                                                                                                           \
    if (false) {                                                                                                 \
      static_cast<void>(cond);                                                                                   \
      ::weft::base::check_internal::CheckFailed(__FILE__, __LINE__, __func__, #cond __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                                            \
  } while (false)
#else
#define WEFT_DCHECK(...) WEFT_CHECK(__VA_ARGS__)
#endif

#define WEFT_FATAL(...) ::weft::base::check_internal::Fatal(__FILE__, __LINE__, __func__ __VA_OPT__(, ) __VA_ARGS__)

#define WEFT_UNREACHABLE() WEFT_FATAL("reached a place that cannot be reached")

namespace weft::base {

// What the message says about the caller: the fiber layer gives the running fiber's name and id. nullptr: nothing. The
// hook runs once, in the failing thread, and must not fail a check itself.
using CheckContextHook = std::string (*)();
void SetCheckContextHook(CheckContextHook hook);

// Called by each thread that is about to end the process. It may be in a signal handler, and hold any lock: the hook is
// async-signal-safe, comes back in bounded time, and does not mind a second call. nullptr: none.
// abort_follows: first comes a message (glog's), then abort(). A hook that handles SIGABRT leaves it to that.
// machine_context: that of a signal's handler; nullptr: it is called where the error is.
using FatalErrorHook = void (*)(bool abort_follows, const void* machine_context);
void SetFatalErrorHook(FatalErrorHook hook);
void CallFatalErrorHook(bool abort_follows = false, const void* machine_context = nullptr) noexcept;

// What messages call a fiber that has no name.
inline constexpr const char* kUnnamedFiber = "(unnamed)";

// Logs "<text> (in <function>; <context>)" and aborts.
[[noreturn]] void FatalError(const char* file, int line, const char* function, const std::string& text);

namespace check_internal {

// By value: a piece whose address was taken could not stay in a register in the caller.
template <class... Pieces>
[[noreturn]] WEFT_NOINLINE WEFT_COLD void CheckFailed(const char* file, int line, const char* function,
                                                      const char* condition, Pieces... pieces) {
  if constexpr (sizeof...(pieces) == 0) {
    FatalError(file, line, function, StrCat("Check failed: ", condition));
  } else {
    FatalError(file, line, function, StrCat(pieces...));
  }
}

template <class... Pieces>
[[noreturn]] WEFT_NOINLINE WEFT_COLD void Fatal(const char* file, int line, const char* function, Pieces... pieces) {
  FatalError(file, line, function, StrCat(pieces...));
}

}  // namespace check_internal

}  // namespace weft::base

#endif  // WEFT_BASE_REPORT_CHECK_H_
