// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/future.h under tRPC-Cpp's name of the header of WhenAll() and WhenAny().
#ifndef WEFT_FIBER_FUTURE_UTILITY_H_
#define WEFT_FIBER_FUTURE_UTILITY_H_

#include "weft/fiber/future.h"

#endif  // WEFT_FIBER_FUTURE_UTILITY_H_
