// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces fiber/start/start_fiber.h in model tests: of a start, what a scope writes into the plan. The scenario starts
// the fiber.
#ifndef WEFT_FIBER_START_START_FIBER_H_
#define WEFT_FIBER_START_START_FIBER_H_

#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::fiber::detail {

struct StartPlan {
  scheduling_group::StartOptions options;
  void (*made)(void* argument, scheduling_group::FiberEntity* fiber) noexcept = nullptr;
  void* made_argument = nullptr;
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_START_START_FIBER_H_
