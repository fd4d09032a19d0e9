// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/fiber_blocking_noncontiguous_buffer.h under tRPC-Cpp's name: "trpc/coroutine/" becomes "weft/fiber/".
#ifndef WEFT_FIBER_FIBER_BLOCKING_NONCONTIGUOUS_BUFFER_H_
#define WEFT_FIBER_FIBER_BLOCKING_NONCONTIGUOUS_BUFFER_H_

#include "weft/sync/fiber_blocking_noncontiguous_buffer.h"

#endif  // WEFT_FIBER_FIBER_BLOCKING_NONCONTIGUOUS_BUFFER_H_
