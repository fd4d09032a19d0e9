// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/current_worker.h"

namespace weft::scheduling_group {
namespace {

thread_local WorkerBase* current_worker = nullptr;

}  // namespace

WorkerBase* CurrentWorker() noexcept {
  WorkerBase* worker = current_worker;
  asm volatile("" : "+r"(worker));  // The result may not be inferred by looking into this function (LTO).
  return worker;
}

void SetCurrentWorker(WorkerBase* worker) noexcept { current_worker = worker; }

FiberEntity* CurrentFiber() noexcept {
  WorkerBase* worker = CurrentWorker();
  return worker != nullptr ? worker->current : nullptr;
}

}  // namespace weft::scheduling_group
