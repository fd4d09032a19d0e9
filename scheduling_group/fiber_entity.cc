// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber_entity.h"

#include <cstdint>
#include <cstring>
#include <new>

namespace weft::scheduling_group {

FiberHooks fiber_hooks;

namespace {

// A copy; nullptr: there is no memory.
char* CopyName(const char* name) {
  const std::size_t size = std::strlen(name) + 1;
  auto* const copy = new (std::nothrow) char[size];
  if (copy != nullptr) std::memcpy(copy, name, size);
  return copy;
}

}  // namespace

WEFT_NOINLINE bool FiberEntity::SetOptions(const StartOptions& options, std::size_t default_stack_size) noexcept {
  if (options.name != nullptr && (name_ = CopyName(options.name)) == nullptr) return false;
  execution_context = options.execution_context;
  on_exit_ = options.on_exit;
  on_exit_arg_ = options.on_exit_arg;
  stack_size_ = static_cast<std::uint32_t>(options.stack_size);
  guard_size_ = static_cast<std::uint32_t>(options.guard_size);
  if (options.guard_size != 0 && options.stack_size == 0) {
    stack_size_ = static_cast<std::uint32_t>(default_stack_size);
  }
  return true;
}

}  // namespace weft::scheduling_group
