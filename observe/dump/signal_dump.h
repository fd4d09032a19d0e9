// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SignalDump: the signal that makes FiberDump (dump_thread.h) write a dump. For DumpFibersOnSignal() and for
// --fiber_dump_signal. One in a process. Any thread.
#ifndef WEFT_OBSERVE_DUMP_SIGNAL_DUMP_H_
#define WEFT_OBSERVE_DUMP_SIGNAL_DUMP_H_

#include <optional>
#include <string>

#include "weft/observe/dump_options.h"

namespace weft::observe {

class SignalDump {
 public:
  // "": it is installed; else why not, and nothing has changed.
  [[nodiscard]] static std::string Install(int signal, const DumpOptions& options);

  // The one of this process.
  static std::optional<int> signal() noexcept;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_SIGNAL_DUMP_H_
