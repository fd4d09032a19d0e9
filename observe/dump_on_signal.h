// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpFibersOnSignal(): `kill -USR2 <pid>` makes the process write a dump of its fibers to stderr.
// Sample:
//   if (!weft::DumpFibersOnSignal(SIGUSR2)) return 1;   // the log says why
//
// A program that starts the runtime by its flags needs no call: --fiber_dump_signal=SIGUSR2.
//
// The handler only wakes a thread of its own, which makes the dump (dump_fibers.h): nothing is done on the stack that
// the signal interrupts, and a worker goes on at once. Signals that come while a dump is being written make one more.
// That thread takes the signal if all others block it.
//
// Once in a process; there is no way back. Any thread, before the signal may come: until then its default action holds,
// which mostly ends the process. False, with one line in the log: the signal is used already (it has a handler or is
// ignored), is none that can be handled, or there is no thread. The child of a fork ignores the signal.
#ifndef WEFT_OBSERVE_DUMP_ON_SIGNAL_H_
#define WEFT_OBSERVE_DUMP_ON_SIGNAL_H_

#include "weft/observe/dump_options.h"

namespace weft {

[[nodiscard]] bool DumpFibersOnSignal(int signal, const DumpOptions& options = {});

}  // namespace weft

#endif  // WEFT_OBSERVE_DUMP_ON_SIGNAL_H_
