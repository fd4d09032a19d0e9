// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Weft's part of a program's --helpshort and --version: the runtime's flags by group, and Weft's version. gflags
// answers both while it parses the command line, and ends the process; its --helpshort lists only the flags of the
// program's own file. Validators of these two flags have Weft's part printed at exit().
#ifndef WEFT_FIBER_RUNTIME_FLAG_HELP_H_
#define WEFT_FIBER_RUNTIME_FLAG_HELP_H_

#include <string>

namespace weft::fiber::detail {

// Before the command line is parsed; any number of times.
void InstallFlagHelp();

// The flags of the runtime by group, each with its meaning, type and default, as gflags prints them.
std::string DescribeFlags();

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_FLAG_HELP_H_
