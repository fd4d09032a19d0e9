// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/executor.h"

#include <utility>

#include "weft/fiber/fiber.h"

namespace weft::fiber {

namespace {

class OneFiberForEach final : public Executor {
 public:
  constexpr OneFiberForEach() = default;
  bool SubmitTask(Task&& task) override { return StartFiberDetached(std::move(task)); }
};

}  // namespace

Executor* FiberExecutor() noexcept {
  // Never destroyed: a task may come while the process exits.
  static auto* const executor = new OneFiberForEach;
  return executor;
}

}  // namespace weft::fiber
