// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The gflags of the runtime: their definition, and the only place that reads them. Each flag is named `fiber_` + the
// field of RuntimeOptions it fills (+ `_ms` for a time), and has that field's default. Flags come from the command
// line, from `--flagfile=conf/low_latency.flags`, or from code before the runtime starts.
//
// Weft's part of a program's --helpshort and --version: gflags answers both while it parses the command line, and ends
// the process; its --helpshort lists only the flags of the program's own file. So validators of these two flags have
// the runtime's flags, by group, or Weft's version printed at exit().
#ifndef WEFT_FIBER_RUNTIME_RUNTIME_FLAGS_H_
#define WEFT_FIBER_RUNTIME_RUNTIME_FLAGS_H_

#include <optional>
#include <string>

#include "weft/fiber/runtime_options.h"

namespace weft::fiber {

// Fills *options from the flags as they stand. Returns nothing, or the line that refuses a flag whose text is not a
// value at all (ranges are ValidateOptions' business). Any thread, as long as no one sets flags meanwhile.
[[nodiscard]] std::optional<std::string> ReadFlags(RuntimeOptions* options);

// Takes the flags off the command line: of argc and argv stay the program's name and what is no flag. gflags ends the
// process where it finds an unknown flag or a value that cannot be, and after --help. For Run() (io/run.h).
void ParseFlags(int* argc, char*** argv);

// Checks the flag files named on the command line (--flagfile=, also in other flag files) for unknown flags and lines
// that are none, which gflags passes over. Returns nothing, or "<file>:<line>: " and what is wrong. For StartRuntime().
[[nodiscard]] std::optional<std::string> CheckFlagFiles();
// The same for one file, and those that it names.
[[nodiscard]] std::optional<std::string> CheckFlagFile(const std::string& path);

}  // namespace weft::fiber

#endif  // WEFT_FIBER_RUNTIME_RUNTIME_FLAGS_H_
