// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/report/default_sink.h"
#include "weft/base/report/log.h"

namespace weft::base::log_internal {

void WriteToDefaultSink(LogSeverity severity, const char* file, int line, std::string_view text) {
  WriteToStderr("IWEF"[static_cast<int>(severity)], file, line, text);
}

void WriteFatalToDefaultSink(const char* file, int line, std::string_view text) {
  WriteToStderr('F', file, line, text);
}

}  // namespace weft::base::log_internal
