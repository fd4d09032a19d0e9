// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/start/local_slot.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>

#include "weft/base/thread/exit.h"

namespace weft::fiber {

void PinLibraryOfLocal(std::atomic<bool>* is_pinned) noexcept {
  if (is_pinned->load(std::memory_order_relaxed)) return;  // relaxed: twice does no harm.
  static_cast<void>(base::PinLibraryOf(is_pinned));
  is_pinned->store(true, std::memory_order_relaxed);
}

LocalSlot LocalSlotRegistry::Acquire() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return LocalSlot{.serial = ++last_serial_, .index = indices_made_++};
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return LocalSlot{.serial = ++last_serial_, .index = index};
}

void LocalSlotRegistry::Release(LocalSlot slot) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(slot.index);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

}  // namespace weft::fiber
