// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/execution_context.h under tRPC-Cpp's name: "trpc/coroutine/" becomes "weft/fiber/".
#ifndef WEFT_FIBER_FIBER_EXECUTION_CONTEXT_H_
#define WEFT_FIBER_FIBER_EXECUTION_CONTEXT_H_

#include "weft/fiber/execution_context.h"

#endif  // WEFT_FIBER_FIBER_EXECUTION_CONTEXT_H_
