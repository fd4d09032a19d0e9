// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/thread_parker.h"

#include <sched.h>

#include "weft/base/time/test_time.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {

MainContext* MainContext::OfCaller() noexcept {
  const WorkerBase* const worker = CurrentWorker();
  return worker != nullptr && worker->current == nullptr ? worker->main_context : nullptr;
}

void ThreadParker::Prepare() noexcept {
  MainContext* const main_context = MainContext::OfCaller();
  loop_group_ = main_context != nullptr ? main_context->Group() : nullptr;
}

bool ThreadParker::Park(Deadline deadline) noexcept {
  if (deadline.is_none() && WEFT_UNLIKELY(LostFibers::Any())) LostFibers::WarnOfWait();
  if (loop_group_ != nullptr) {
    if (!parker_.BeginWaitElsewhere()) return true;
    MainContext::OfCaller()->RunUntilUnparked(&parker_, deadline);
    return parker_.EndWaitElsewhere();
  }
  if (base::HasTestTime() && CurrentWorker() != nullptr) {
    // It counts as a runner: LDR4 in fiber/loop/loop_core.h.
    return base::ParkInTestTime(&parker_, deadline.time_point(), base::Waits::kRunner);
  }
  if (!deadline.is_none()) return base::ParkUntil(&parker_, deadline.time_point());
  parker_.Park();
  return true;
}

// As FiberLoop::Wake().
void ThreadParker::TellLoop(SchedulingGroup* loop_group) noexcept { loop_group->Notify(); }

void YieldThread() noexcept {
  MainContext* const main_context = MainContext::OfCaller();
  if (main_context == nullptr || !main_context->RunSome()) static_cast<void>(sched_yield());
}

}  // namespace weft::scheduling_group
