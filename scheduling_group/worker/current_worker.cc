// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/current_worker.h"

// current_worker.h uses this name. initial-exec: at a fixed distance from the thread pointer.
extern "C" {
extern constinit thread_local weft::scheduling_group::WorkerBase* weft_current_worker;
__attribute__((tls_model("initial-exec"), visibility("default"),
               used)) constinit thread_local weft::scheduling_group::WorkerBase* weft_current_worker = nullptr;
}

namespace weft::scheduling_group {
namespace {

thread_local bool may_not_wait = false;

}  // namespace

#if !WEFT_WORKER_BY_ASSEMBLER
WorkerBase* CurrentWorker() noexcept {
  WorkerBase* worker = weft_current_worker;
  asm volatile("" : "+r"(worker));  // So that LTO cannot infer the result.
  return worker;
}
#endif

void SetCurrentWorker(WorkerBase* worker) noexcept { weft_current_worker = worker; }

void SetThreadMayWait(bool may_wait) noexcept {
  base::OpaqueBarrier();
  may_not_wait = !may_wait;
}

bool ThreadMayWait() noexcept {
  base::OpaqueBarrier();
  return !may_not_wait;
}

}  // namespace weft::scheduling_group
