// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// LoopDriver: users' functions in the loop's main context, and their waits.

#include <optional>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/loop/loop_driver.h"
#include "weft/fiber/runtime/unfinished_fibers.h"

namespace weft::fiber::detail {

using scheduling_group::CurrentWorker;
using scheduling_group::Worker;
using scheduling_group::WorkerBase;

// Whether the caller is a fiber of the loop. It may be none of another loop of the thread.
bool LoopDriver::IsInFiber(const char* caller) const {
  const WorkerBase* const worker = CurrentWorker();
  if (worker == nullptr || worker->current == nullptr) return false;
  WEFT_CHECK(worker == &worker_, caller, ": the caller is ", DescribeFiber(*worker->current), ", of another loop");
  return true;
}

bool LoopDriver::Ask(Predicate predicate, void* argument) {
  const InMainContext in(this);
  return predicate(argument);
}

// LDR3. The sleep has been announced, and still is, unless the predicate says true, throws or has waited.
bool LoopDriver::AskAsleep(Predicate predicate, void* argument) {
  announced_ = true;
  bool is_over = false;
  try {
    is_over = Ask(predicate, argument);
  } catch (...) {
    if (std::exchange(announced_, false)) worker_.WakeUp();
    throw;
  }
  if (is_over && std::exchange(announced_, false)) worker_.WakeUp();
  return is_over;
}

void LoopDriver::RunUntilUnparked(base::Parker* parker, Deadline deadline) noexcept {
  if (std::exchange(announced_, false)) worker_.WakeUp();
  const Worker::LoopCallWaits waits(&worker_);
  const FiberExecutionContext::Scope scope(context_);
  static_cast<void>(
      Drive([](void* argument) { return !static_cast<base::Parker*>(argument)->waits_elsewhere(); }, parker, deadline));
}

bool LoopDriver::RunSome() noexcept {
  if (std::exchange(announced_, false)) worker_.WakeUp();
  const Worker::LoopCallWaits waits(&worker_);
  const FiberExecutionContext::Scope scope(context_);
  LookAfterTimers();
  return worker_.RunNext() || PollFoundWork();
}

void LoopDriver::RunEagerly(scheduling_group::FiberEntity* fiber) {
  constexpr const char* kName = "FiberLoop::AddTaskEager";
  struct Start {
    Worker* worker;
    scheduling_group::FiberEntity* fiber;
  } start{.worker = &worker_, .fiber = fiber};
  if (IsInFiber(kName)) {
    return worker_.CallOnLoop(
        worker_.current, Worker::LoopCallKind::kAtOnce,
        [](void* argument) { static_cast<Start*>(argument)->worker->RunEagerly(static_cast<Start*>(argument)->fiber); },
        &start);
  }
  std::optional<In> in;
  std::optional<Worker::LoopCallsQueue> queue;
  if (CurrentWorker() != &worker_) {
    in.emplace(this, kName, In::kLooksAtNothing);
  } else if (worker_.main_context == nullptr) {
    queue.emplace(&worker_);  // LDR6: a timer's callback calls. RunNext(), which follows, serves the calls.
  }
  const InMainContext none(&worker_, nullptr);
  worker_.RunEagerly(fiber);
}

void LoopDriver::CallInMainContext(void (*call)(void*), void* argument) {
  constexpr const char* kName = "FiberLoop::RunInMainContext";
  struct Call {
    LoopDriver* driver;
    void (*call)(void*);
    void* argument;

    static void Run(void* self) {
      const auto [driver, call, argument] = *static_cast<const Call*>(self);
      const InMainContext in(driver);
      call(argument);
    }
  } in_main_context{.driver = this, .call = call, .argument = argument};
  if (IsInFiber(kName)) {
    return worker_.CallOnLoop(worker_.current, Worker::LoopCallKind::kMayWait, &Call::Run, &in_main_context);
  }
  if (in_) return call(argument);
  const In in(this, kName, In::kLooksAtNothing);
  Call::Run(&in_main_context);
}

}  // namespace weft::fiber::detail
