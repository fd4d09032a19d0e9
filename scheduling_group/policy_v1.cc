// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy_v1.h"

#include <algorithm>
#include <cstdint>

#include "weft/scheduling_group/prefetch_fiber.h"

namespace weft::scheduling_group {

PolicyV1::PolicyV1(const Options& options)
    : queue_(options.run_queue_size, options.workers, options.node),
      workers_(options.workers),
      desks_(options.workers, options.node) {}

PolicyV1::~PolicyV1() = default;

void PolicyV1::PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) {
  if (WokenFromOutside(reason, worker)) {
    queue_.PushWoken(fibers, count);
    return;
  }
  if (worker != kNoWorker) FlushOutbox(desks_[worker]);  // They came first.
  queue_.Push(fibers, count);
}

WEFT_NOINLINE void PolicyV1::PushRarelyAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
  Push(fiber, reason, worker);
  base::ThreadFence(std::memory_order_seq_cst);
}

WEFT_NOINLINE bool PolicyV1::PushBehindOutbox(Desk& desk, FiberEntity* fiber) {
  if (Full()) return false;
  FlushOutbox(desk);
  desk.took_out_of_sight = true;  // V6
  return desk.outbox.Push(fiber) || queue_.TryPush(fiber);
}

WEFT_NOINLINE void PolicyV1::FlushOutbox(Desk& desk) {
  if (desk.outbox.Empty()) return;
  FiberEntity* fibers[kMaxBatch];
  const std::uint32_t n = desk.outbox.PopAll(fibers);
  if (n != 0) queue_.Push(fibers, n);
}

WEFT_NOINLINE FiberEntity* PolicyV1::VisitQueue(Desk& desk, bool* in_sight_again) {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  AdaptBatch(desk, now);
  if (++desk.visits % kRescueEvery == 0) {
    if (FiberEntity* fiber = TakeFromStuckDesk(desk, now)) {
      *in_sight_again = true;  // V6
      return fiber;
    }
  }
  if (!desk.outbox.Empty()) {
    if (!queue_.HasWork()) return desk.outbox.Pop();  // Nobody is before them.
    FlushOutbox(desk);
    *in_sight_again = true;  // V6
  }
  FiberEntity* fibers[kMaxBatch];
  const std::size_t n = queue_.PopShare(fibers, desk.batch, &desk.shares);
  desk.taken = static_cast<std::uint32_t>(n);
  if (n == 0) return nullptr;
  desk.counts.CountVisit(n);
  PrefetchShare(fibers, n);  // While they are in our hand: from a ring another may run them.
  if (n > 1) {
    KeepForLater(desk, fibers + 1, n - 1);
    *in_sight_again = true;  // V6
  }
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

// The inbox of a worker that comes here is empty, and holds kMaxBatch; but for one that looks at others' desks first.
void PolicyV1::KeepForLater(Desk& desk, FiberEntity* const* fibers, std::size_t count) {
  const std::size_t kept = desk.inbox.PushSome(fibers, static_cast<std::uint32_t>(count));
  if (kept != count) queue_.Push(fibers + kept, count - kept);
}

// Half of a box, into the inbox of the desk that takes.
FiberEntity* PolicyV1::TakeFromBoxes(Desk& from, Desk& own) {
  for (Ring* box : {&from.inbox, &from.outbox}) {
    if (box->Empty()) continue;
    FiberEntity* fibers[kMaxBatch];
    const std::uint32_t n = box->PopHalf(fibers);
    if (n == 0) continue;
    KeepForLater(own, fibers + 1, n - 1);
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

FiberEntity* PolicyV1::PopFromBusyWorkers(unsigned worker, SpinMemory* memory) {
  if (workers_ == 1) return nullptr;
  Desk& own = desks_[worker];
  for (unsigned step = 1; step < workers_; ++step) {
    if (FiberEntity* fiber = TakeFromBoxes(desks_[(worker + step) % workers_], own)) return fiber;
  }
  return TakeNeglectedHandOff(desks_.objects(), worker, std::chrono::steady_clock::now(), memory);
}

FiberEntity* PolicyV1::Steal(bool* in_sight_again) {
  if (FiberEntity* fiber = queue_.Steal(in_sight_again)) return fiber;  // V6
  if (workers_ == 1) return nullptr;
  for (Desk& desk : desks_.objects()) {
    for (Ring* box : {&desk.inbox, &desk.outbox}) {
      // Once from end to end, however fast its worker adds to it. Group-local fibers go to the queue, so that they hide
      // none.
      for (std::uint32_t tries = kMaxBatch; tries != 0; --tries) {
        FiberEntity* fiber = box->Pop();
        if (fiber == nullptr) break;
        if (!fiber->group_local()) return fiber;
        queue_.Push(fiber);
        *in_sight_again = true;  // V6
      }
    }
  }
  return nullptr;
}

// The callers' fences order it (SP1).
bool PolicyV1::HasWork() const {
  if (queue_.HasWork()) return true;
  for (unsigned w = 0; w < workers_; ++w) {
    const Desk& desk = desks_[w];
    if (desk.slot.Full()) return true;
    if (!desk.inbox.Empty() || !desk.outbox.Empty()) return true;
  }
  return false;
}

bool PolicyV1::HasStealable() const {
  if (queue_.HasWork()) return true;
  for (unsigned w = 0; w < workers_; ++w) {
    if (!desks_[w].inbox.Empty() || !desks_[w].outbox.Empty()) return true;
  }
  return false;
}

bool PolicyV1::Full() const { return queue_.Full(); }

bool PolicyV1::HalfEmpty() const { return queue_.HalfEmpty(); }

std::size_t PolicyV1::Size() const {
  std::size_t size = queue_.Size();
  for (unsigned w = 0; w < workers_; ++w) {
    const Desk& desk = desks_[w];
    size += desk.inbox.Size() + desk.outbox.Size() + (desk.slot.Full());
  }
  return size;
}

std::vector<std::span<const std::byte>> PolicyV1::Memory() const {
  const auto [others, woken] = queue_.slots();
  return {std::as_bytes(std::span(this, 1)), others, woken, std::as_bytes(desks_.objects())};
}

std::size_t PolicyV1::OverflowCount() const { return queue_.overflow_count(); }

}  // namespace weft::scheduling_group
