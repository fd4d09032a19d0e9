// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces scheduling_group/worker/may_not_wait.h in model tests: nobody asks whether a thread may wait.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_MAY_NOT_WAIT_H_
#define WEFT_SCHEDULING_GROUP_WORKER_MAY_NOT_WAIT_H_

namespace weft::scheduling_group {

class MayNotWait {
 public:
  MayNotWait() noexcept {}  // Not trivial: a variable of it is used.
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_MAY_NOT_WAIT_H_
