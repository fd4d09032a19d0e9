// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/queue/global_queue.h"

#include <algorithm>

#include "weft/base/report/log.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kUnusedCapacity = 2;

}  // namespace

QueueLevel::QueueLevel(std::size_t capacity, int node)
    : slots_(capacity, node, numa::kZeroIsNew), queue_(capacity, slots_.objects().data()) {}

void QueueLevel::Push(FiberEntity* const* fibers, std::size_t count) {
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

// Called when fibers wait behind the ring. popped: the fiber that came from the ring, or nullptr.
WEFT_NOINLINE FiberEntity* QueueLevel::PopPastRing(FiberEntity* popped) noexcept {
  overflow_.Refill(queue_);
  return popped != nullptr ? popped : queue_.TryPop();
}

std::size_t QueueLevel::PopShare(FiberEntity** fibers, unsigned sharers, std::uint32_t at_most) noexcept {
  if (!overflow_.Empty()) [[unlikely]] {
    overflow_.Refill(queue_);
  }
  return queue_.PopSome(fibers, std::min<std::size_t>(queue_.Size() / sharers + 1, at_most));
}

GlobalQueue::GlobalQueue(std::size_t capacity, unsigned sharers, int node)
    : normal_(capacity, node),
      woken_(sharers > 1 ? capacity : kUnusedCapacity, node),
      woken_level_(sharers > 1 ? &woken_ : &normal_),
      sharers_(sharers) {}

FiberEntity* GlobalQueue::Steal(bool* must_notify) noexcept {
  for (QueueLevel* level : {&normal_, &woken_}) {
    std::size_t behind = 0;
    for (std::size_t tries = 0; tries <= behind; ++tries) {
      FiberEntity* fiber = level->Pop();
      if (fiber == nullptr) break;
      if (!fiber->group_local()) return fiber;
      if (tries == 0) behind = level->CountReady(kMostTries - 1);
      level->Push(&fiber, 1);
      *must_notify = true;
    }
  }
  return nullptr;
}

std::size_t GlobalQueue::PopShare(FiberEntity** fibers, std::uint32_t at_most, std::uint32_t* times) noexcept {
  const bool normal_first = ++*times % kNormalFirstEvery == 0;
  QueueLevel& first = normal_first ? normal_ : woken_;
  QueueLevel& second = normal_first ? woken_ : normal_;
  const std::size_t n = first.PopShare(fibers, sharers_, at_most);
  return n == at_most ? n : n + second.PopShare(fibers + n, sharers_, at_most - static_cast<std::uint32_t>(n));
}

}  // namespace weft::scheduling_group
