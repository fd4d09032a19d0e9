// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/wait/lock_owner.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::synchronization {

namespace {

using scheduling_group::FiberEntity;

struct Range {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
};

// Empty if pthreads does not know it.
Range FindStackOfThread() noexcept {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* low = nullptr;
  std::size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &low, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return {};
  return {reinterpret_cast<std::uintptr_t>(low), reinterpret_cast<std::uintptr_t>(low) + size};
}

WEFT_TLS_ACCESSOR Range StackOfThread() noexcept {
  base::OpaqueBarrier();
  thread_local const Range range = FindStackOfThread();
  return range;
}

// At least the size that was asked for.
Range StackOf(const FiberEntity& fiber) noexcept {
  const auto top = reinterpret_cast<std::uintptr_t>(fiber.stack_top());
  const std::size_t size = fiber.stack_size() != 0 ? fiber.stack_size() : fiber.group()->options().stack_size;
  return {top - size, top};
}

}  // namespace

WEFT_NOINLINE bool LockOwner::IsCaller() const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(address_.load(std::memory_order_relaxed));
  if (address == 0) return false;
  const FiberEntity* const fiber = scheduling_group::CurrentFiber();
  const Range stack = fiber != nullptr ? StackOf(*fiber) : StackOfThread();
  return stack.low <= address && address < stack.high;
}

}  // namespace weft::synchronization
