// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A function with a frame of 170 KiB in code that is compiled without -fstack-clash-protection.
#ifndef WEFT_TESTS_FIBER_UNPROBED_FRAME_H_
#define WEFT_TESTS_FIBER_UNPROBED_FRAME_H_

#include <cstddef>

namespace weft::fiber {

inline constexpr std::size_t kUnprobedFrame = 170 * 1024;

// Writes one byte of it, so far from its lower end.
char FillUnprobedFrame(std::size_t from_below);

}  // namespace weft::fiber

#endif  // WEFT_TESTS_FIBER_UNPROBED_FRAME_H_
