// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/runtime.h under tRPC-Cpp's name: "trpc/coroutine/" becomes "weft/fiber/".
#ifndef WEFT_FIBER_FIBER_RUNTIME_H_
#define WEFT_FIBER_FIBER_RUNTIME_H_

#include "weft/fiber/runtime.h"

#endif  // WEFT_FIBER_FIBER_RUNTIME_H_
