// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/global_queue.h"

#include <algorithm>

#include "weft/base/log.h"

namespace weft::scheduling_group {

GlobalQueue::GlobalQueue(std::size_t capacity, int node)
    : slots_(capacity, node), queue_(capacity, slots_.objects().data()) {}

void GlobalQueue::Push(FiberEntity* const* fibers, std::size_t count) {
  std::size_t pushed = 0;
  if (overflow_.Empty()) pushed = queue_.PushSome(fibers, count);
  if (pushed == count) return;
  const std::size_t overflown = overflow_.PushBehind(queue_, fibers + pushed, count - pushed);
  if (overflown == 0) return;
  // relaxed: statistics.
  const std::size_t ever = overflow_count_.fetch_add(overflown, std::memory_order_relaxed) + overflown;
  WEFT_LOG_EVERY_SECOND(WARNING, "GlobalQueue: run queue of ", queue_.capacity(), " is full, ", overflow_.Size(),
                        " ready fibers wait beyond it (", ever, " ever did); consider a larger --fiber_run_queue_size");
}

// Fibers wait behind the ring. popped: what came from it, nullptr: nothing.
WEFT_NOINLINE FiberEntity* GlobalQueue::PopPastRing(FiberEntity* popped) noexcept {
  overflow_.Refill(queue_);
  if (popped == nullptr) popped = queue_.TryPop();
  if (popped == nullptr) popped = overflow_.PopPast(queue_);
  return popped;
}

std::size_t GlobalQueue::PopShare(FiberEntity** fibers, unsigned sharers, std::uint32_t at_most) noexcept {
  if (!overflow_.Empty()) [[unlikely]] {
    overflow_.Refill(queue_);
  }
  const std::size_t n = queue_.PopSome(fibers, std::min<std::size_t>(queue_.Size() / sharers + 1, at_most));
  if (n != 0 || overflow_.Empty()) return n;
  fibers[0] = overflow_.PopPast(queue_);
  return fibers[0] != nullptr ? 1 : 0;
}

}  // namespace weft::scheduling_group
