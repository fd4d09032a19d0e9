// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/executor.h"

#include <cstddef>
#include <new>
#include <utility>

#include "weft/fiber/fiber.h"

namespace weft {

namespace {

class OneFiberForEach final : public Executor {
 public:
  constexpr OneFiberForEach() = default;
  bool SubmitTask(Task&& task) override { return StartFiberDetached(std::move(task)); }
};

}  // namespace

Executor* FiberExecutor() noexcept {
  // Never destroyed: a task may come while the process exits.
  alignas(OneFiberForEach) static std::byte memory[sizeof(OneFiberForEach)];
  static auto* const executor = ::new (static_cast<void*>(memory)) OneFiberForEach;
  return executor;
}

}  // namespace weft
