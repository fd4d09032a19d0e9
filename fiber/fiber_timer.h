// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// timer/fiber_timer.h under tRPC-Cpp's name: "trpc/coroutine/" becomes "weft/fiber/".
#ifndef WEFT_FIBER_FIBER_TIMER_H_
#define WEFT_FIBER_FIBER_TIMER_H_

#include "weft/timer/fiber_timer.h"

#endif  // WEFT_FIBER_FIBER_TIMER_H_
