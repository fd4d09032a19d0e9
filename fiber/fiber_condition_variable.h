// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/fiber_condition_variable.h under tRPC-Cpp's name: "trpc/coroutine/" becomes "weft/fiber/".
#ifndef WEFT_FIBER_FIBER_CONDITION_VARIABLE_H_
#define WEFT_FIBER_FIBER_CONDITION_VARIABLE_H_

#include "weft/sync/fiber_condition_variable.h"

#endif  // WEFT_FIBER_FIBER_CONDITION_VARIABLE_H_
