// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LoopResult is in fiber/fiber_loop.h. Programs may include it by this name, too.
#ifndef WEFT_FIBER_LOOP_RESULT_H_
#define WEFT_FIBER_LOOP_RESULT_H_

#include "weft/fiber/fiber_loop.h"

#endif  // WEFT_FIBER_LOOP_RESULT_H_
