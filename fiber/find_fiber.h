// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FindFiber() is in fiber/fiber.h. Programs may include it by this name, too.
#ifndef WEFT_FIBER_FIND_FIBER_H_
#define WEFT_FIBER_FIND_FIBER_H_

#include "weft/fiber/fiber.h"

#endif  // WEFT_FIBER_FIND_FIBER_H_
