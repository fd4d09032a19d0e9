// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/time_slice.h"

// time_slice.h uses this name. initial-exec: at a fixed distance from the thread pointer.
extern "C" {
extern constinit thread_local std::atomic<bool> weft_slice_is_over;
__attribute__((tls_model("initial-exec"), visibility("default"), used)) constinit thread_local std::atomic<bool>
    weft_slice_is_over{false};
}

namespace weft::scheduling_group {

static_assert(sizeof(weft_slice_is_over) == 1, "the assembler code reads a byte");

std::atomic<bool>* TimeSliceFlag() noexcept {
  std::atomic<bool>* flag = &weft_slice_is_over;
  asm volatile("" : "+r"(flag));  // As in CurrentWorker().
  return flag;
}

#if !WEFT_WORKER_BY_ASSEMBLER
bool TimeSliceIsOver() noexcept { return TimeSliceFlag()->load(std::memory_order_relaxed); }
#endif

void YieldAfterSlice() noexcept {
  if (WorkerBase* worker = CurrentWorker()) worker->yield_after_slice(worker);
}

}  // namespace weft::scheduling_group
