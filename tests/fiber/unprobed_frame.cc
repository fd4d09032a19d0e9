// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/tests/fiber/unprobed_frame.h"

#include "weft/base/thread/cpu.h"

namespace weft::fiber {

WEFT_NOINLINE char FillUnprobedFrame(std::size_t from_below) {
  volatile char frame[kUnprobedFrame];
  frame[from_below] = 1;
  return frame[from_below];
}

}  // namespace weft::fiber
