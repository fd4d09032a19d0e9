// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Log lines: WEFT_LOG(WARNING, "queue full: ", n, " fibers wait"), and WEFT_LOG_EVERY_SECOND for what happens often.
//
// A line is put together on the caller's stack, then handed over in one call, to the sink set by SetLogSink()
// (base/log_sink.h) or to glog: so a fiber may switch inside an operator<<. Until the program initialises glog, lines
// go to stderr in glog's format, without glog (which would print "Logging before InitGoogleLogging()" first). So they
// do always in a Weft that is built without glog.
//
// Any thread, any fiber. May block the thread on the lock of glog or the sink: not for use under a spin lock.
#ifndef WEFT_BASE_REPORT_LOG_H_
#define WEFT_BASE_REPORT_LOG_H_

#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "weft/base/log_sink.h"
#include "weft/base/report/str_cat.h"
#include "weft/base/thread/cpu.h"

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

// One finished line. kFatal does not end the process: FatalError() in base/report/check.h does.
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

  // Returns whether to log now. Then *suppressed is how many lines were refused since the last one.
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

#endif  // WEFT_BASE_REPORT_LOG_H_
