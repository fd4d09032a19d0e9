// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <weft/base/log_sink.h>
#include <weft/base/report/check.h>
#include <weft/base/report/log.h>
#include <weft/version.h>

#ifndef FLAGS_OF_THE_PROJECT
#error "the project's own flags have gone"
#endif

int main(int count, char**) {
  weft::base::SetLogSink(nullptr);
  if (count > 1) {
    WEFT_LOG(WARNING, "a line");
    WEFT_FATAL("the last line");
  }
  return WEFT_VERSION_NUMBER > 0 ? 0 : 1;
}
