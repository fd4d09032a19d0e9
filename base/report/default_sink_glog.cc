// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <glog/logging.h>

#include "weft/base/report/check.h"
#include "weft/base/report/default_sink.h"
#include "weft/base/report/log.h"

namespace weft::base::log_internal {

namespace {

int ToGlog(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo:
      return google::GLOG_INFO;
    case LogSeverity::kWarning:
      return google::GLOG_WARNING;
    case LogSeverity::kError:
    case LogSeverity::kFatal:
      break;
  }
  return google::GLOG_ERROR;
}

}  // namespace

void WriteToDefaultSink(LogSeverity severity, const char* file, int line, std::string_view text) {
  const int glog_severity = ToGlog(severity);
  if (google::IsGoogleLoggingInitialized()) {
    google::LogMessage(file, line, glog_severity).stream() << text;
  } else if (glog_severity >= FLAGS_minloglevel) {
    WriteToStderr(google::GetLogSeverityName(glog_severity)[0], file, line, text);
  }
}

void WriteFatalToDefaultSink(const char* file, int line, std::string_view text) {
  if (google::IsGoogleLoggingInitialized()) {
    CallFatalErrorHook(/*abort_follows=*/true);
    google::LogMessageFatal(file, line).stream() << text;  // Aborts, unless the user's failure function returns.
  } else {
    WriteToStderr('F', file, line, text);
  }
}

}  // namespace weft::base::log_internal
