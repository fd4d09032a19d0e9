// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy_v1.h"

#include "weft/base/log.h"

namespace weft::scheduling_group {
namespace {

// A fiber's lines come from another core's cache or from memory (100 ns); a short fiber runs for 10 to 50 ns.
constexpr unsigned kPrefetchAhead = 2;

void PrefetchFiber(const FiberEntity* fiber) noexcept {
  const char* lines = reinterpret_cast<const char*>(fiber);
  __builtin_prefetch(lines, 1);                                               // state, context, link
  __builtin_prefetch(lines + sizeof(FiberEntity) - base::kCacheLineSize, 0);  // callable
}

}  // namespace

PolicyV1::PolicyV1(const Options& options)
    : queue_(options.run_queue_size), workers_(options.workers), slots_(new HandOffSlot[options.workers]) {}

PolicyV1::~PolicyV1() = default;

void PolicyV1::Push(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (MayUseSlot(reason, worker)) {
    HandOffSlot& slot = slots_[worker];
    // relaxed: only we fill it (V1).
    if (slot.fiber.load(std::memory_order_relaxed) == nullptr) {
      // relaxed: a spinner that reads an old ticket waits a little longer or takes the fiber a little early.
      slot.ticket.store(slot.ticket.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      // release: publishes the fiber. Pairs with the acquire exchange in PopSlot() and PopFromBusyWorkers().
      slot.fiber.store(fiber, std::memory_order_release);
      return;
    }
  }
  if (overflow_.Empty() && queue_.TryPush(fiber)) return;
  PushBatch(&fiber, 1, reason, worker);
}

bool PolicyV1::MayUseSlot(ReadyReason reason, int worker) const noexcept {
  if (worker == kNoWorker) return false;
  return reason == ReadyReason::kDisplaced || (reason == ReadyReason::kWoken && workers_ > 1);
}

void PolicyV1::PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason, int) {
  std::size_t pushed = 0;
  if (overflow_.Empty()) pushed = queue_.PushSome(fibers, count);
  if (pushed == count) return;
  const std::size_t overflown = overflow_.PushBehind(queue_, fibers + pushed, count - pushed);
  if (overflown == 0) return;
  // relaxed: statistics.
  const std::size_t ever = overflow_count_.fetch_add(overflown, std::memory_order_relaxed) + overflown;
  WEFT_LOG_EVERY_SECOND(WARNING, "PolicyV1: run queue of ", queue_.capacity(), " is full, ", overflow_.Size(),
                        " ready fibers wait beyond it (", ever, " ever did); consider a larger --fiber_run_queue_size");
}

bool PolicyV1::TryPushNew(FiberEntity* fiber, int) { return overflow_.Empty() && queue_.TryPush(fiber); }

FiberEntity* PolicyV1::Pop(unsigned worker) {
  HandOffSlot& slot = slots_[worker];
  if (slot.in_a_row < kMaxHandOffs) {
    if (FiberEntity* fiber = PopSlot(slot)) {
      ++slot.in_a_row;
      return fiber;
    }
  }
  slot.in_a_row = 0;
  FiberEntity* fiber = PopQueue();
  return fiber != nullptr ? fiber : PopSlot(slot);
}

FiberEntity* PolicyV1::PopSlot(HandOffSlot& slot) noexcept {
  if (slot.fiber.load(std::memory_order_relaxed) == nullptr) return nullptr;  // Saves the exchange.
  // acquire: pairs with the release in Push(); for the worker itself it matters not, for its rivals see V1.
  return slot.fiber.exchange(nullptr, std::memory_order_acquire);
}

FiberEntity* PolicyV1::PopQueue() noexcept {
  FiberEntity* fiber = queue_.TryPop();
  if (fiber != nullptr) PrefetchFiber(queue_.Peek(kPrefetchAhead));
  if (!overflow_.Empty()) [[unlikely]] {
    overflow_.Refill(queue_);
    if (fiber == nullptr) fiber = queue_.TryPop();
  }
  return fiber;
}

FiberEntity* PolicyV1::PopFromBusyWorkers(unsigned worker, SpinMemory* memory) {
  const auto now = std::chrono::steady_clock::now();
  const bool first = memory->seen.empty();
  if (!first && now - memory->sampled_at < kHandOffPatience) return nullptr;  // Too early to tell.
  if (first) memory->seen.assign(workers_, 0);
  memory->sampled_at = now;
  memory->active = false;
  for (unsigned other = 0; other < workers_; ++other) {
    if (other == worker) continue;
    HandOffSlot& slot = slots_[other];
    // relaxed: a heuristic. The exchange below takes whatever is there then.
    const std::uint32_t ticket = slot.ticket.load(std::memory_order_relaxed);
    const bool full = slot.fiber.load(std::memory_order_relaxed) != nullptr;
    if (!first && ticket == memory->seen[other] && full) {
      if (FiberEntity* fiber = slot.fiber.exchange(nullptr, std::memory_order_acquire)) return fiber;
    }
    if (full || (!first && ticket != memory->seen[other])) memory->active = true;
    memory->seen[other] = ticket;
  }
  return nullptr;
}

FiberEntity* PolicyV1::Steal() {
  // A group-local fiber at the head goes back behind the others, so that it hides none of them for long.
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    FiberEntity* fiber = PopQueue();
    if (fiber == nullptr || !fiber->group_local()) return fiber;
    PushBatch(&fiber, 1, ReadyReason::kYielded, kNoWorker);
  }
  return nullptr;
}

bool PolicyV1::SlotsFull() const noexcept {
  for (unsigned w = 0; w < workers_; ++w) {
    if (slots_[w].fiber.load(std::memory_order_relaxed) != nullptr) return true;
  }
  return false;
}

// relaxed throughout: the callers' fences order it (SP1).
bool PolicyV1::HasWork() const { return !queue_.Empty() || !overflow_.Empty() || SlotsFull(); }

bool PolicyV1::Full() const { return !overflow_.Empty() || queue_.Size() >= queue_.capacity(); }

bool PolicyV1::HalfEmpty() const { return overflow_.Empty() && queue_.Size() <= queue_.capacity() / 2; }

std::size_t PolicyV1::Size() const {
  std::size_t size = queue_.Size() + overflow_.Size();
  for (unsigned w = 0; w < workers_; ++w) {
    size += slots_[w].fiber.load(std::memory_order_relaxed) != nullptr ? 1 : 0;
  }
  return size;
}

std::size_t PolicyV1::OverflowCount() const { return overflow_count_.load(std::memory_order_relaxed); }

}  // namespace weft::scheduling_group
