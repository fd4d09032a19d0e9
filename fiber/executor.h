// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Executor: where the continuation of a Future runs (future.h, Then()).
// Sample:
//   future.Then(FiberExecutor(), [](Reply&& reply) { Store(std::move(reply)); });   // may wait
//
// Any fiber and any thread may submit. An executor must outlive its tasks. From tRPC-Cpp (common/future/executor.h).
#ifndef WEFT_FIBER_EXECUTOR_H_
#define WEFT_FIBER_EXECUTOR_H_

#include "weft/base/unique_function.h"

namespace weft {

class Executor {
 public:
  // What an executor runs: once.
  using Task = UniqueFunction<void()>;

  virtual ~Executor() = default;

  // True: the executor runs `task` once, now or later; a task that it drops leaves a Future that is never ready.
  // False: it has not run it and never will; the caller does. Must not throw.
  virtual bool SubmitTask(Task&& task) = 0;
};

// Runs each task in a new fiber (StartFiberDetached). Never destroyed.
Executor* FiberExecutor() noexcept;

namespace fiber {
using weft::FiberExecutor;  // docs/from_trpc.md
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_EXECUTOR_H_
