// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FrameLines(): a stack as lines of text: address, function, source.
#ifndef WEFT_OBSERVE_WAITS_FRAME_LINES_H_
#define WEFT_OBSERVE_WAITS_FRAME_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "weft/observe/dump/stack_unwinder.h"

namespace weft::observe {

// The innermost first. `words`: the used part of the stack, which begins at `low`. Empty: it cannot be unwound.
std::vector<std::string> FrameLines(StackUnwinder* unwinder, std::uint64_t low,
                                    const std::vector<std::uint64_t>& words);

// "0x7ffc10".
std::string Hex(std::uint64_t value);

// "the stack of <who>:" and the lines; "" if there are none.
std::string StackText(const std::string& who, const std::vector<std::string>& lines);

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_WAITS_FRAME_LINES_H_
