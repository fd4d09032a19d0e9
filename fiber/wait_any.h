// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WaitAny() is in fiber/select_tasks.h. Programs may include it by this name, too.
#ifndef WEFT_FIBER_WAIT_ANY_H_
#define WEFT_FIBER_WAIT_ANY_H_

#include "weft/fiber/select_tasks.h"

#endif  // WEFT_FIBER_WAIT_ANY_H_
