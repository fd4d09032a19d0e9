// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tells Valgrind of stacks, so that it does not take a switch for an enormous frame. Compiled in where Valgrind's
// header is installed. Outside of Valgrind a call costs a few instructions, once for each mapped stack. Unmapped stacks
// stay registered: no stack pointer will be in them.
#ifndef WEFT_CONTEXT_SWITCH_VALGRIND_H_
#define WEFT_CONTEXT_SWITCH_VALGRIND_H_

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

#endif  // WEFT_CONTEXT_SWITCH_VALGRIND_H_
