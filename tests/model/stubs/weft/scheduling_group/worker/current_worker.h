// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces scheduling_group/worker/current_worker.h in model tests: park.h beside it has what is asked for.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_
#define WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_

#include "weft/scheduling_group/fiber/park.h"

#endif  // WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_
