// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump_on_signal.h"

#include <string>

#include "weft/base/report/log.h"
#include "weft/observe/dump/signal_dump.h"

namespace weft {

bool DumpFibersOnSignal(int signal, const DumpOptions& options) {
  const std::string error = observe::SignalDump::Install(signal, options);
  if (!error.empty()) WEFT_LOG(ERROR, "DumpFibersOnSignal: ", error);
  return error.empty();
}

}  // namespace weft
