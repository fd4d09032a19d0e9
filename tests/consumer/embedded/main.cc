// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <weft/base/log_sink.h>
#include <weft/version.h>

#ifndef FLAGS_OF_THE_PROJECT
#error "the project's own flags have gone"
#endif

int main() {
  weft::base::SetLogSink(nullptr);
  return WEFT_VERSION_NUMBER > 0 ? 0 : 1;
}
