// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Log lines: WEFT_LOG(WARNING, "queue full: ", n, " fibers wait") and, for what may happen often,
// WEFT_LOG_EVERY_SECOND.
//
// A line is put together on the caller's stack first (the pieces' operator<< may run any code), then handed over in one
// call: to glog, or to the sink set by SetLogSink().  Nothing of glog is alive while user code runs, so a fiber that is
// switched away inside an operator<< does no harm.
//
// Whether glog is initialised is the program's business.  As long as it is not, lines go to stderr in glog's format,
// without glog (which would put "Logging before InitGoogleLogging()" before the first one).
//
// Any thread, any fiber.  Handing over may block the thread for as long as glog (or the sink) takes its own lock: not
// under a spin lock.

#ifndef WEFT_BASE_LOG_H_
#define WEFT_BASE_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "weft/base/cpu.h"
#include "weft/base/str_cat.h"

// severity is INFO, WARNING or ERROR.
#define WEFT_LOG(severity, ...) \
  ::weft::base::log_internal::Log(::weft::base::log_internal::k##severity, __FILE__, __LINE__, __VA_ARGS__)

// At most one line a second from this place; the next line says how many were left out.
#define WEFT_LOG_EVERY_SECOND(severity, ...)                                                                       \
  do {                                                                                                             \
    static constinit ::weft::base::log_internal::RateLimiter weft_log_limiter;                                     \
    std::uint64_t weft_log_suppressed = 0;                                                                         \
    if (weft_log_limiter.Admit(&weft_log_suppressed)) {                                                            \
      ::weft::base::log_internal::LogAfterSuppression(::weft::base::log_internal::k##severity, __FILE__, __LINE__, \
                                                      weft_log_suppressed, __VA_ARGS__);                           \
    }                                                                                                              \
  } while (false)

namespace weft::base {

enum class LogSeverity { kInfo, kWarning, kError, kFatal };

using LogSink = std::function<void(LogSeverity severity, const char* file, int line, std::string_view text)>;

// All lines go to `sink` instead of glog from now on; an empty one restores glog.  The sink may be called by several
// threads at once.  A line that another thread is handing over may still reach the former sink after SetLogSink() has
// returned.
void SetLogSink(LogSink sink);

// One finished line.  kFatal only passes the line on: it is FatalError() in base/check.h that ends the process.
void EmitLogLine(LogSeverity severity, const char* file, int line, std::string_view text);

namespace log_internal {

// In glog's format, in one write.  `severity`: its first letter.
void WriteToStderr(char severity, const char* file, int line, std::string_view text) noexcept;

inline constexpr LogSeverity kINFO = LogSeverity::kInfo;
inline constexpr LogSeverity kWARNING = LogSeverity::kWarning;
inline constexpr LogSeverity kERROR = LogSeverity::kError;

// Lets one caller a second pass.
class RateLimiter {
 public:
  constexpr RateLimiter() = default;

  // True: log now; *suppressed is how many were refused since the last line.
  bool Admit(std::uint64_t* suppressed) noexcept;
  // The same at a given time, in nanoseconds of any clock that starts above 0.
  bool AdmitAt(std::int64_t now_ns, std::uint64_t* suppressed) noexcept;

 private:
  std::atomic<std::int64_t> next_ns_{0};
  std::atomic<std::uint64_t> suppressed_{0};
};

// By value: a piece whose address was taken could not stay in a register in the caller.
template <class... Pieces>
WEFT_NOINLINE WEFT_COLD void Log(LogSeverity severity, const char* file, int line, Pieces... pieces) {
  EmitLogLine(severity, file, line, StrCat(pieces...));
}

template <class... Pieces>
WEFT_NOINLINE WEFT_COLD void LogAfterSuppression(LogSeverity severity, const char* file, int line,
                                                 std::uint64_t suppressed, Pieces... pieces) {
  if (suppressed == 0) {
    EmitLogLine(severity, file, line, StrCat(pieces...));
  } else {
    EmitLogLine(severity, file, line, StrCat(pieces..., " [", suppressed, " more like this were left out]"));
  }
}

}  // namespace log_internal

}  // namespace weft::base

#endif  // WEFT_BASE_LOG_H_
