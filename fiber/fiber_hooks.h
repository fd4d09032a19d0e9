// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// OnFiberStop() and OnFiberYield() are in fiber/this_fiber.h. Programs may include it by this name, too.
#ifndef WEFT_FIBER_FIBER_HOOKS_H_
#define WEFT_FIBER_FIBER_HOOKS_H_

#include "weft/fiber/this_fiber.h"

#endif  // WEFT_FIBER_FIBER_HOOKS_H_
