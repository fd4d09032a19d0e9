// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SetLogSink(): gives Weft's log lines to a log of yours.
// Sample:
//   base::SetLogSink([](base::LogSeverity severity, const char* file, int line, std::string_view text) {
//     const bool is_bad = severity >= base::LogSeverity::kError;
//     WriteToJournal(is_bad ? "err" : "info", file, line, text);
//   });
//
// Without a sink lines go to glog, if the program has called google::InitGoogleLogging(), else to stderr in glog's
// format. glog's flags (--minloglevel ...) hold in both cases, but not for a sink, which gets every line. A Weft
// without glog (CMake's option WEFT_WITH_GLOG=OFF) writes every line to stderr.
//
// The sink is called by each thread and fiber that has something to say, by several at once, and from the middle of the
// scheduler. It must not throw, suspend the fiber or call Weft; it may block its thread for a moment. It runs on the
// stack of the fiber that logs, which may be small (--fiber_stack_size).
//
// kFatal: the process ends by abort() when the sink has returned. The text then goes to glog's FATAL, or to stderr, as
// well.
#ifndef WEFT_BASE_LOG_SINK_H_
#define WEFT_BASE_LOG_SINK_H_

#include <functional>
#include <string_view>

namespace weft::base {

// How bad a line is. kFatal: the process ends after it.
enum class LogSeverity { kInfo, kWarning, kError, kFatal };

// `file` and `line`: the place in Weft's source; `file` stays valid. `text` has no newline at its end, and is gone when
// the sink has returned.
using LogSink = std::function<void(LogSeverity severity, const char* file, int line, std::string_view text)>;

// All lines go to `sink` from now on; an empty one restores the default. Any thread, at any time, also before
// StartRuntime(); does not switch. A thread that is in the former sink stays in it for the rest of its line, and the
// last one to leave it destroys it.
void SetLogSink(LogSink sink);

}  // namespace weft::base

#endif  // WEFT_BASE_LOG_SINK_H_
