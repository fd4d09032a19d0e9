// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Which signals may make a dump of the fibers (--fiber_dump_signal, observe/dump_on_signal.h). Any thread.
#ifndef WEFT_FIBER_RUNTIME_DUMP_SIGNAL_H_
#define WEFT_FIBER_RUNTIME_DUMP_SIGNAL_H_

#include <optional>
#include <string>

namespace weft::fiber::detail {

// Whether it is a signal that can be handled, and none of a fault, which would come again after its handler.
[[nodiscard]] bool MayBeDumpSignal(int signal) noexcept;

// The signal of that name, with or without SIG, or of that number: "USR2", "SIGUSR2", "12". Nothing: there is none, or
// it may not be one.
[[nodiscard]] std::optional<int> ParseDumpSignal(const std::string& text);

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_DUMP_SIGNAL_H_
