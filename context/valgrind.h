// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What Valgrind must be told of stacks, so that it takes a switch for a switch and not for an enormous frame (memcheck
// then reports reads and writes on the stack as invalid). Compiled in where Valgrind's header is installed; out of
// Valgrind a call is a few instructions, and there is one for each stack that is mapped, none for each switch.
//
// A stack is not taken back when it is unmapped: a range that nobody's stack pointer is in does no harm.

#ifndef WEFT_CONTEXT_VALGRIND_H_
#define WEFT_CONTEXT_VALGRIND_H_

#ifdef WEFT_HAVE_VALGRIND  // By CMakeLists.txt.
#include <valgrind/valgrind.h>
#endif

namespace weft::context {

#ifdef WEFT_HAVE_VALGRIND
inline bool RunsOnValgrind() { return RUNNING_ON_VALGRIND != 0; }
// [low, high): one stack.
inline void TellValgrindOfStack(const void* low, const void* high) {
  static_cast<void>(VALGRIND_STACK_REGISTER(low, high));
}
#else
inline bool RunsOnValgrind() { return false; }
inline void TellValgrindOfStack(const void* /*low*/, const void* /*high*/) {}
#endif

}  // namespace weft::context

#endif  // WEFT_CONTEXT_VALGRIND_H_
