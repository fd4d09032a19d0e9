// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberTimedMutex, which is in fiber_mutex.h.
#ifndef WEFT_SYNC_FIBER_TIMED_MUTEX_H_
#define WEFT_SYNC_FIBER_TIMED_MUTEX_H_

#include "weft/sync/fiber_mutex.h"  // IWYU pragma: export

#endif  // WEFT_SYNC_FIBER_TIMED_MUTEX_H_
