// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Where lines go while no sink is set (base/log_sink.h): to glog (default_sink_glog.cc), or to stderr in glog's format
// in a Weft without glog (default_sink_stderr.cc). CMake's option WEFT_WITH_GLOG chooses one of the two.
//
// Any thread, any fiber; may block the thread on glog's lock.
#ifndef WEFT_BASE_REPORT_DEFAULT_SINK_H_
#define WEFT_BASE_REPORT_DEFAULT_SINK_H_

#include <string_view>

#include "weft/base/log_sink.h"

namespace weft::base::log_internal {

// A line of any severity but kFatal.
void WriteToDefaultSink(LogSeverity severity, const char* file, int line, std::string_view text);

// The last line of the process, which the caller ends; glog may end it first.
void WriteFatalToDefaultSink(const char* file, int line, std::string_view text);

}  // namespace weft::base::log_internal

#endif  // WEFT_BASE_REPORT_DEFAULT_SINK_H_
