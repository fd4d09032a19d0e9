// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// MayNotWait: while it lives, a start by the calling thread, in a fiber or not, neither waits nor switches: if the run
// queue is full the fiber goes into the overflow list (start_when_full.h). Its owner does not switch meanwhile.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_MAY_NOT_WAIT_H_
#define WEFT_SCHEDULING_GROUP_WORKER_MAY_NOT_WAIT_H_

#include <utility>

#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/thread_may_wait.h"

namespace weft::scheduling_group {

class MayNotWait {
 public:
  MayNotWait() noexcept : worker_(CurrentWorker()) {
    if (worker_ != nullptr) {
      could_ = !std::exchange(worker_->must_not_switch, true);
    } else {
      could_ = ThreadMayWait();
      SetThreadMayWait(false);
    }
  }
  MayNotWait(const MayNotWait&) = delete;
  MayNotWait& operator=(const MayNotWait&) = delete;
  ~MayNotWait() {
    if (worker_ != nullptr) {
      worker_->must_not_switch = !could_;
    } else {
      SetThreadMayWait(could_);
    }
  }

 private:
  WorkerBase* const worker_;
  bool could_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_MAY_NOT_WAIT_H_
