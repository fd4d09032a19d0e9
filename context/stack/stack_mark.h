// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How much of a stack has been used: fill it before, look afterwards how far down it was written.
//
//     top - size               top - what MeasureStack() returns                      top
//     | pattern, pattern, ...  | written                                              |
//
// Both touch all pages of the stack. Whoever has the stack, while nothing runs on it.
#ifndef WEFT_CONTEXT_STACK_STACK_MARK_H_
#define WEFT_CONTEXT_STACK_STACK_MARK_H_

#include <cstddef>

namespace weft::context {

void FillStack(void* top, std::size_t size) noexcept;

// In bytes. 0: it was not filled, or has been written down to its last word. A stack that was filled for an earlier use
// gives the largest of all uses since.
std::size_t MeasureStack(const void* top, std::size_t size) noexcept;

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_MARK_H_
