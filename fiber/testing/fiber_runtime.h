// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/start/run_as_fiber.h under tRPC-Cpp's name: "trpc/coroutine/" becomes "weft/fiber/".
// As there, RunAsFiber is in the global namespace too.
#ifndef WEFT_FIBER_TESTING_FIBER_RUNTIME_H_
#define WEFT_FIBER_TESTING_FIBER_RUNTIME_H_

#include "weft/fiber/start/run_as_fiber.h"

using weft::RunAsFiber;  // NOLINT(google-global-names-in-headers): that is what it is for.

#endif  // WEFT_FIBER_TESTING_FIBER_RUNTIME_H_
