// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/start/run_as_fiber.h under tRPC-Cpp's name: "trpc/coroutine/" becomes "weft/fiber/".
// As there, a program that includes it has all its starts of fibers refused; RefuseFiberStarts does that for a scope.
#ifndef WEFT_FIBER_TESTING_MOCK_FIBER_H_
#define WEFT_FIBER_TESTING_MOCK_FIBER_H_

#include "weft/fiber/start/run_as_fiber.h"

namespace weft::fiber::testing_detail {

inline const RefuseFiberStarts refuse_all_fiber_starts;

}  // namespace weft::fiber::testing_detail

#endif  // WEFT_FIBER_TESTING_MOCK_FIBER_H_
