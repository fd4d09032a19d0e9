// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/fiber_entity.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

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
  name_is_static_ = options.name_is_static;
  name_ = options.name == nullptr || options.name_is_static ? options.name : CopyName(options.name);
  if (name_ == nullptr && options.name != nullptr) return false;
  flags_ |= kHasColdFields;
  execution_context_ = options.execution_context;
  owner_ = options.owner;
  stack_size_ = static_cast<std::uint32_t>(options.stack_size);
  guard_size_ = static_cast<std::uint32_t>(options.guard_size);
  if (options.guard_size != 0 && options.stack_size == 0) {
    stack_size_ = static_cast<std::uint32_t>(default_stack_size);
  }
  return true;
}

WEFT_NOINLINE FiberOwner* FiberEntity::ResetColdFields() noexcept {
  stack_size_ = 0;
  guard_size_ = 0;
  custom_stack_pool_ = nullptr;
  fiber_local_slots_ = nullptr;
  execution_context_ = nullptr;
  const char* const name = std::exchange(name_, nullptr);
  if (name_is_static_ == 0) delete[] name;
  return std::exchange(owner_, nullptr);
}

WEFT_NOINLINE void FiberEntity::LeaveAllScopes() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  cancel_word.lock();
  cancel_word.Unlock(0);
}

}  // namespace weft::scheduling_group
