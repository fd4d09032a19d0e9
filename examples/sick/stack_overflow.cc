// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: a fiber recurses deeper than its stack. It dies.
//
//   what is wrong    the depth is the input's, and a fiber has 128 KiB of stack, not a thread's 8 MiB
//   what shows it    the line "stack overflow in fiber 'parser'", with its size, and the backtrace after it, which has
//                    the function that recurses
//   what to do       a limit for the depth; a larger stack for this fiber: Fiber::Attributes::stack_size
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <string>

#include "weft/weft.h"

namespace {

[[gnu::noinline]] int DepthOf(const std::string& text, std::size_t at) {
  volatile char scratch[200] = {};  // What a parser keeps of each level.
  scratch[at % sizeof(scratch)] = text[at];
  return text[at] == '(' ? DepthOf(text, at + 1) + (scratch[at % sizeof(scratch)] != 0 ? 1 : 0) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  weft::StartRuntime();

  const std::string text(100'000, '(');
  int depth = 0;
  weft::Fiber parser({.name = "parser"}, [&] { depth = DepthOf(text, 0); });
  parser.Join();

  return weft::TerminateRuntime() == 0 && depth > 0 ? 0 : 1;
}
