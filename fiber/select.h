// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The former name of "weft/fiber/select_tasks.h", for one version.
#ifndef WEFT_FIBER_SELECT_H_
#define WEFT_FIBER_SELECT_H_

#include "weft/fiber/select_tasks.h"  // IWYU pragma: export

#endif  // WEFT_FIBER_SELECT_H_
