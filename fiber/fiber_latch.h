// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/fiber_latch.h under tRPC-Cpp's name: "trpc/coroutine/" becomes "weft/fiber/".
#ifndef WEFT_FIBER_FIBER_LATCH_H_
#define WEFT_FIBER_FIBER_LATCH_H_

#include "weft/sync/fiber_latch.h"

#endif  // WEFT_FIBER_FIBER_LATCH_H_
