// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces scheduling_group/worker/current_worker.h in model tests: park.h beside it has what is asked for of workers,
// and nobody asks whether a thread may wait.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_
#define WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_

#include "weft/scheduling_group/fiber/park.h"

namespace weft::scheduling_group {

class NoWaitSection {
 public:
  NoWaitSection() noexcept {}  // Not trivial: a variable of it is used.
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_
