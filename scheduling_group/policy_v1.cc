// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy_v1.h"

#include <algorithm>
#include <cstdint>

#include "weft/base/log.h"

namespace weft::scheduling_group {
namespace {

// A fiber's lines come from another core's cache or from memory (100 ns); a short fiber runs for 10 to 50 ns.
constexpr unsigned kPrefetchAhead = 2;

// nullptr is allowed, hence the arithmetic on a number.
void PrefetchFiber(const FiberEntity* fiber) noexcept {
  const auto callable = reinterpret_cast<std::uintptr_t>(fiber) + sizeof(FiberEntity) - base::kCacheLineSize;
  __builtin_prefetch(fiber, 1);  // state, context, link
  __builtin_prefetch(reinterpret_cast<const void*>(callable), 0);
}

// The top of a suspended fiber's stack, which the switch to it reads first; a page that was long unused misses the TLB
// too.
void PrefetchStack(const FiberEntity* fiber) noexcept {
  if (!fiber->started()) return;
  const char* top = static_cast<const char*>(fiber->context.saved_stack_pointer());
  for (std::size_t line = 0; line < 3; ++line) __builtin_prefetch(top + line * base::kCacheLineSize, 1);
}

}  // namespace

PolicyV1::PolicyV1(const Options& options)
    : slots_(options.run_queue_size, options.node),
      queue_(options.run_queue_size, slots_.objects().data()),
      workers_(options.workers),
      desks_(options.workers, options.node) {}

PolicyV1::~PolicyV1() = default;

bool PolicyV1::MayUseSlot(ReadyReason reason, int worker) const noexcept {
  if (worker == kNoWorker) return false;
  return reason == ReadyReason::kDisplaced || (reason == ReadyReason::kWoken && workers_ > 1);
}

void PolicyV1::Push(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (MayUseSlot(reason, worker)) {
    HandOffSlot& slot = desks_[worker].slot;
    // relaxed: only we fill it (V1).
    if (slot.fiber.load(std::memory_order_relaxed) == nullptr) {
      // relaxed: a spinner that reads an old ticket waits a little longer or takes the fiber a little early.
      slot.ticket.store(slot.ticket.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      // release: publishes the fiber. Pairs with the acquire exchange in PopSlot() and PopFromBusyWorkers().
      slot.fiber.store(fiber, std::memory_order_release);
      return;
    }
  }
  if (!TryPushNew(fiber, worker)) PushShared(&fiber, 1);
}

void PolicyV1::PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason, int worker) {
  if (worker != kNoWorker) FlushOutbox(desks_[worker]);  // They came first.
  PushShared(fibers, count);
}

bool PolicyV1::TryPushNew(FiberEntity* fiber, int worker) {
  if (Batches(worker)) {
    Desk& desk = desks_[worker];
    if (desk.outbox.Push(fiber)) return true;
    if (Full()) return false;
    FlushOutbox(desk);
    if (desk.outbox.Push(fiber)) return true;
  }
  return overflow_.Empty() && queue_.TryPush(fiber);
}

void PolicyV1::PushShared(FiberEntity* const* fibers, std::size_t count) {
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

void PolicyV1::FlushOutbox(Desk& desk) {
  if (desk.outbox.Empty()) return;
  FiberEntity* fibers[kMaxBatch];
  const std::uint32_t n = desk.outbox.PopAll(fibers);
  if (n != 0) PushShared(fibers, n);
}

FiberEntity* PolicyV1::Pop(unsigned worker, bool* in_sight_again) {
  Desk& desk = desks_[worker];
  if (desk.hand_offs_in_a_row < kMaxHandOffs) {
    if (FiberEntity* fiber = PopSlot(desk.slot)) {
      ++desk.hand_offs_in_a_row;
      return fiber;
    }
  }
  desk.hand_offs_in_a_row = 0;
  FiberEntity* fiber = workers_ == 1 ? PopQueue() : desk.inbox.Pop();
  if (fiber == nullptr && workers_ > 1) fiber = VisitQueue(desk, in_sight_again);
  return fiber != nullptr ? fiber : PopSlot(desk.slot);
}

FiberEntity* PolicyV1::VisitQueue(Desk& desk, bool* in_sight_again) {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  AdaptBatch(desk, now);
  if (++desk.visits % kRescueEvery == 0) {
    if (FiberEntity* fiber = TakeFromStuckDesk(desk, now)) {
      *in_sight_again = true;  // V6
      return fiber;
    }
  }
  if (!desk.outbox.Empty()) {
    if (queue_.Empty() && overflow_.Empty()) return desk.outbox.Pop();  // Nobody is before them.
    FlushOutbox(desk);
    *in_sight_again = true;  // V6
  }
  if (!overflow_.Empty()) [[unlikely]] {
    overflow_.Refill(queue_);
  }
  // A fair share, so that what is there is spread over the workers.
  const auto share = static_cast<std::uint32_t>(std::min<std::size_t>(queue_.Size() / workers_ + 1, desk.batch));
  FiberEntity* fibers[kMaxBatch];
  const std::size_t n = queue_.PopSome(fibers, share);
  desk.taken = static_cast<std::uint32_t>(n);
  if (n == 0) return overflow_.Empty() ? nullptr : overflow_.PopPast(queue_);
  for (std::size_t i = 1; i < n; ++i) PrefetchFiber(fibers[i]);
  for (std::size_t i = 1; i < n; ++i) {
    PrefetchStack(fibers[i]);          // While it is in our hand: from the inbox another may run it.
    (void)desk.inbox.Push(fibers[i]);  // It was empty and holds kMaxBatch.
  }
  if (n > 1) *in_sight_again = true;  // V6
  return fibers[0];
}

void PolicyV1::AdaptBatch(Desk& desk, std::int64_t now) {
  if (desk.taken == desk.batch) {  // Else the last visit did not bring a full batch, and time passed otherwise.
    const std::int64_t took = now - desk.visited_at.load(std::memory_order_relaxed);
    const bool quick = took < std::chrono::nanoseconds(kBatchTime).count();
    desk.batch = quick ? std::min(desk.batch * 2, kMaxBatch) : std::max(desk.batch / 2, 1u);
  }
  desk.visited_at.store(now, std::memory_order_relaxed);  // A heuristic (V5).
}

// Half of a box, into the empty inbox of the desk that takes.
FiberEntity* PolicyV1::TakeFromBoxes(Desk& from, Desk& own) {
  for (Ring* box : {&from.inbox, &from.outbox}) {
    if (box->Empty()) continue;
    FiberEntity* fibers[kMaxBatch];
    const std::uint32_t n = box->PopHalf(fibers);
    if (n == 0) continue;
    for (std::uint32_t i = 1; i < n; ++i) (void)own.inbox.Push(fibers[i]);
    return fibers[0];
  }
  return nullptr;
}

FiberEntity* PolicyV1::TakeFromStuckDesk(Desk& own, std::int64_t now) {
  for (unsigned w = 0; w < workers_; ++w) {
    Desk& desk = desks_[w];
    if (&desk == &own) continue;
    const std::int64_t since = now - desk.visited_at.load(std::memory_order_relaxed);
    if (since < std::chrono::nanoseconds(kStuckAfter).count()) continue;
    if (FiberEntity* fiber = TakeFromBoxes(desk, own)) return fiber;
  }
  return nullptr;
}

FiberEntity* PolicyV1::PopSlot(HandOffSlot& slot) noexcept {
  if (slot.fiber.load(std::memory_order_relaxed) == nullptr) return nullptr;  // Saves the exchange.
  // acquire: pairs with the release in Push().
  return slot.fiber.exchange(nullptr, std::memory_order_acquire);
}

FiberEntity* PolicyV1::PopQueue() noexcept {
  FiberEntity* fiber = queue_.TryPop();
  if (fiber != nullptr) PrefetchFiber(queue_.Peek(kPrefetchAhead));
  if (!overflow_.Empty()) [[unlikely]] {
    overflow_.Refill(queue_);
    if (fiber == nullptr) fiber = queue_.TryPop();
    if (fiber == nullptr) fiber = overflow_.PopPast(queue_);
  }
  return fiber;
}

FiberEntity* PolicyV1::PopFromBusyWorkers(unsigned worker, SpinMemory* memory) {
  if (workers_ == 1) return nullptr;
  Desk& own = desks_[worker];
  for (unsigned step = 1; step < workers_; ++step) {
    if (FiberEntity* fiber = TakeFromBoxes(desks_[(worker + step) % workers_], own)) return fiber;
  }
  const auto now = std::chrono::steady_clock::now();
  const bool first = memory->seen.empty();
  if (!first && now - memory->sampled_at < kHandOffPatience) return nullptr;  // Too early to tell.
  if (first) memory->seen.assign(workers_, 0);
  memory->sampled_at = now;
  memory->active = false;
  for (unsigned other = 0; other < workers_; ++other) {
    if (other == worker) continue;
    HandOffSlot& slot = desks_[other].slot;
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

FiberEntity* PolicyV1::Steal(bool* in_sight_again) {
  // A group-local fiber at the head goes back behind the others, so that it hides none of them.
  constexpr int kTries = 64;
  for (int i = 0; i < kTries; ++i) {
    FiberEntity* fiber = PopQueue();
    for (unsigned w = 0; fiber == nullptr && w < workers_; ++w) {
      fiber = desks_[w].inbox.Pop();
      if (fiber == nullptr) fiber = desks_[w].outbox.Pop();
    }
    if (fiber == nullptr || !fiber->group_local()) return fiber;
    PushShared(&fiber, 1);
    *in_sight_again = true;  // V6
  }
  return nullptr;
}

// The callers' fences order it (SP1). The list before the queue: fibers move from the one to the other.
bool PolicyV1::HasWork() const {
  if (!overflow_.EmptiedInto(queue_)) return true;
  for (unsigned w = 0; w < workers_; ++w) {
    const Desk& desk = desks_[w];
    if (desk.slot.fiber.load(std::memory_order_relaxed) != nullptr) return true;
    if (!desk.inbox.Empty() || !desk.outbox.Empty()) return true;
  }
  return false;
}

bool PolicyV1::HasStealable() const {
  if (!overflow_.EmptiedInto(queue_)) return true;
  for (unsigned w = 0; w < workers_; ++w) {
    if (!desks_[w].inbox.Empty() || !desks_[w].outbox.Empty()) return true;
  }
  return false;
}

bool PolicyV1::Full() const { return !overflow_.Empty() || queue_.Size() >= queue_.capacity(); }

bool PolicyV1::HalfEmpty() const { return overflow_.Empty() && queue_.Size() <= queue_.capacity() / 2; }

bool PolicyV1::FewWait() const { return overflow_.Empty() && queue_.Size() <= kFew; }

std::size_t PolicyV1::Size() const {
  std::size_t size = queue_.Size() + overflow_.Size();
  for (unsigned w = 0; w < workers_; ++w) {
    const Desk& desk = desks_[w];
    size += desk.inbox.Size() + desk.outbox.Size() + (desk.slot.fiber.load(std::memory_order_relaxed) != nullptr);
  }
  return size;
}

std::vector<std::span<const std::byte>> PolicyV1::Memory() const {
  return {std::as_bytes(std::span(this, 1)), std::as_bytes(slots_.objects()), std::as_bytes(desks_.objects())};
}

std::size_t PolicyV1::OverflowCount() const { return overflow_count_.load(std::memory_order_relaxed); }

}  // namespace weft::scheduling_group
