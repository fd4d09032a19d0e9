// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy/policy_v2.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "weft/scheduling_group/queue/global_queue.h"
#include "weft/scheduling_group/worker/time_slice.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kUnusedCapacity = 2;

}  // namespace

PolicyV2::PolicyV2(const Options& options, const base::Clock& clock)
    : PolicyBase(options),
      clock_(clock),
      yielded_slots_(options.workers > 1 ? std::min(options.run_queue_size, kYieldedCapacity) : kUnusedCapacity,
                     options.node, numa::kZeroIsNew),
      yielded_(yielded_slots_.objects().size(), yielded_slots_.objects().data()) {}

PolicyV2::~PolicyV2() = default;

WEFT_NOINLINE void PolicyV2::YieldForAll(WorkerQueues& queues, FiberEntity* fiber) {
  --queues.yields_for_all;
  if (!yielded_.TryPush(fiber)) PushFifo(queues, fiber);
}

// Moves the oldest to the global queue. Not inlined: the array would be on the stack of each fiber that waits.
WEFT_NOINLINE void PolicyV2::SpillFifo(WorkerQueues& queues) {
  FiberEntity* fibers[kMaxMoved];
  const std::uint32_t n = queues.fifo.PopHalf(fibers, kMaxMoved);
  if (n != 0) global_.Push(fibers, n);
  queues.must_notify = true;  // P4
}

// False: there is no room.
WEFT_NOINLINE bool PolicyV2::SpillLifo(WorkerQueues& queues) {
  FiberEntity* fibers[kMaxMoved];
  const std::size_t capacity = std::min<std::size_t>(global_.RemainingCapacity(), kMaxMoved);
  if (capacity == 0) return false;
  const std::size_t n = queues.lifo.PopOldest(fibers, capacity);
  if (n != 0) global_.Push(fibers, n);
  queues.must_notify = true;  // P4
  return true;
}

WEFT_NOINLINE FiberEntity* PolicyV2::Check(WorkerQueues& queues, bool* must_notify) {
  const std::int64_t now = clock_.now().time_since_epoch() / std::chrono::nanoseconds(1);
  AdaptTicks(queues, now);
  ShareYields(queues, now);
  FiberEntity* fiber = nullptr;
  if (OthersHaveHadTheirSlice(queues, now)) {
    fiber = TakeShare(queues, Yielded::kFirst, must_notify);
  } else if (!std::exchange(queues.local_next, false)) {
    fiber = CheckOutside(queues, now, must_notify);
  }
  queues.check_was_last = fiber != nullptr;
  return fiber;
}

FiberEntity* PolicyV2::CheckOutside(WorkerQueues& queues, std::int64_t now, bool* must_notify) {
  ++queues.checks;
  queues.yielded_next |= queues.checks % kYieldedFirstEvery == 0;
  // Not at two checks in a row, however long fibers run: the global queue has its share (P1).
  if (queues.checks % 2 == 0) {
    if (FiberEntity* fiber = Patrol(queues, now)) {
      *must_notify = true;  // P4
      return fiber;
    }
  }
  // The flag outlasts a check that took a stuck worker's fiber: those could come each time.
  const Yielded yielded = std::exchange(queues.yielded_next, false) ? Yielded::kFirst : Yielded::kLast;
  return TakeShare(queues, queues.others_first ? Yielded::kNot : yielded, must_notify);
}

// P8. If a slice ends while the others are first, and no fiber of `yielded` ran in it, the others had that slice: their
// priority ends. Else `yielded` would starve where the others always loop.
bool PolicyV2::OthersHaveHadTheirSlice(WorkerQueues& queues, std::int64_t now) {
  const bool were_first = queues.others_first;
  if (std::exchange(queues.slice_is_over, false)) {
    const bool was_theirs = were_first && !queues.yielded_had_a_turn;
    queues.others_first_until = was_theirs ? now : now + std::chrono::nanoseconds(kTimeSlice).count();
    queues.yielded_had_a_turn = false;
  }
  queues.others_first = now < queues.others_first_until;
  return were_first && !queues.others_first;
}

// Takes stuck workers' fibers and the oldest of our own, by turns where there are both.
FiberEntity* PolicyV2::Patrol(WorkerQueues& queues, std::int64_t now) {
  const auto is_due = [now](std::int64_t last, std::chrono::nanoseconds every) { return now - last >= every.count(); };
  FiberEntity* fiber = nullptr;
  if (!queues.oldest_next && is_due(queues.checked_stuck_at, kStuckEvery)) {
    queues.checked_stuck_at = now;
    fiber = TakeFromStuckWorker(queues, now);
  }
  if (fiber != nullptr) {
    queues.oldest_next = is_due(queues.served_oldest_at, kOldestEvery);
    return fiber;
  }
  queues.oldest_next = false;
  if (!is_due(queues.served_oldest_at, kOldestEvery)) return nullptr;
  queues.served_oldest_at = now;
  return queues.lifo.Steal();
}

void PolicyV2::AdaptTicks(WorkerQueues& queues, std::int64_t now) {
  if (queues.idled) {
    // There was nothing. At others there may be: a fiber that yields alone idles so, too.
    queues.served_oldest_at = now;
  } else {
    // More than kMemory makes no difference.
    const auto took =
        std::min(static_cast<std::uint64_t>(now - queues.checked_at.load(std::memory_order_relaxed)), kMemory);
    queues.busy_for += took - (queues.busy_for * took >> kMemoryBits);
    queues.busy_ticks += (std::uint64_t{queues.ticks} << kFraction) - (queues.busy_ticks * took >> kMemoryBits);
    const std::uint64_t ticks = (queues.busy_ticks * std::chrono::nanoseconds(kCheckEvery).count() >> kFraction) /
                                std::max<std::uint64_t>(queues.busy_for, 1);
    queues.ticks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ticks, kMinTicks, kMaxTicks));
  }
  queues.idled = false;
  queues.ticks_until_check = queues.ticks;
  queues.checked_at.store(now, std::memory_order_relaxed);  // A heuristic (P3).
}

// P7. Where fibers run for long, all that yield go to `yielded`; of short ones so few that it costs nothing. A single
// yielding fiber stays: it may hold a lock that others wait for (bench/workload --workload=mutex_yield).
void PolicyV2::ShareYields(WorkerQueues& queues, std::int64_t now) {
  if (queues.ticks == kMinTicks) {
    queues.yields_for_all = kMaxTicks;  // All, until the next check.
  } else if (now - queues.yielded_for_all_at >= std::chrono::nanoseconds(kCheckEvery).count() && !queues.fifo.Empty()) {
    queues.yields_for_all = kYieldsShared;
    queues.yielded_for_all_at = now;
  } else {
    queues.yields_for_all = 0;
  }
}

// Takes an equal share of the global queue and of `yielded`. At most half as many as run from check to check, so local
// fibers have their share too, and fibers that run long come one by one.
WEFT_NOINLINE FiberEntity* PolicyV2::TakeShare(WorkerQueues& queues, Yielded yielded, bool* must_notify) {
  // Mostly there is nothing, and that must be cheap: the array is in another function.
  const bool some = global_.HasWork() || (yielded != Yielded::kNot && !yielded_.Empty());
  return some ? TakeShareOfSome(queues, yielded, must_notify) : nullptr;
}

WEFT_NOINLINE FiberEntity* PolicyV2::TakeShareOfSome(WorkerQueues& queues, Yielded yielded, bool* must_notify) {
  FiberEntity* fibers[kMaxTicks / 2];
  const std::size_t at_most = queues.ticks / 2;
  std::size_t n = yielded == Yielded::kFirst ? PopYielded(queues, fibers, at_most) : 0;
  if (n < at_most && global_.HasWork()) {
    n += global_.PopShare(fibers + n, static_cast<std::uint32_t>(at_most - n), &queues.shares);
  }
  if (n < at_most && yielded == Yielded::kLast) n += PopYielded(queues, fibers + n, at_most - n);
  if (n == 0) return nullptr;
  queues.counts.CountVisit(n);
  PrefetchShare(fibers, n);  // While only we hold them: from a ring another worker may run them.
  for (std::size_t i = 1; i < n; ++i) PushFifo(queues, fibers[i]);
  if (n > 1) *must_notify = true;  // P4
  return fibers[0];
}

std::size_t PolicyV2::PopYielded(WorkerQueues& queues, FiberEntity** fibers, std::size_t at_most) noexcept {
  if (yielded_.Empty()) return 0;
  queues.yielded_had_a_turn = true;
  return yielded_.PopSome(fibers, std::min(yielded_.Size() / workers_ + 1, at_most));
}

// Takes from another worker the older half of `lifo`, at least `at_least`, else half of `fifo`. Returns the oldest.
WEFT_NOINLINE FiberEntity* PolicyV2::TakeHalf(WorkerQueues& from, WorkerQueues& own, std::size_t at_least) {
  const std::size_t size = from.lifo.Size();
  if (FiberEntity* oldest = size != 0 ? from.lifo.Steal() : nullptr) {
    for (std::size_t i = 1; i < std::max((size + 1) / 2, at_least); ++i) {
      FiberEntity* fiber = from.lifo.Steal();
      if (fiber == nullptr) break;
      if (!own.lifo.Push(fiber)) {
        PushFifo(own, fiber);
        break;
      }
    }
    return oldest;
  }
  if (from.fifo.Empty()) return nullptr;
  FiberEntity* fibers[kMaxMoved];
  const std::uint32_t n = from.fifo.PopHalf(fibers, kMaxMoved);
  if (n == 0) return nullptr;
  for (std::uint32_t i = 1; i < n; ++i) PushFifo(own, fibers[i]);
  return fibers[0];
}

FiberEntity* PolicyV2::TakeFromStuckWorker(WorkerQueues& own, std::int64_t now) {
  for (unsigned visits = std::min(workers_, kWorkersPerVisit); visits != 0; --visits) {
    WorkerQueues& queues = worker_queues_[own.visit_next++ % workers_];
    if (&queues == &own) continue;
    const std::int64_t checked_at = queues.checked_at.load(std::memory_order_relaxed);
    if (checked_at == 0 || now - checked_at < std::chrono::nanoseconds(kStuckAfter).count()) continue;
    if (FiberEntity* fiber = TakeHalf(queues, own, kTakeFromStuck)) return fiber;
    if (FiberEntity* fiber = queues.slot.Take()) return fiber;
  }
  return nullptr;
}

FiberEntity* PolicyV2::PopFromBusyWorkers(unsigned worker, SpinMemory* memory) {
  return PopFromOthers(worker, memory, [this](WorkerQueues& from, WorkerQueues& own) { return TakeHalf(from, own); });
}

// The tries are limited for each queue, so that group-local fibers, which go to the global queue, hide no other queue.
FiberEntity* PolicyV2::Steal(bool* must_notify) {
  if (FiberEntity* fiber = global_.Steal(must_notify)) return fiber;  // P4
  if (workers_ == 1) return nullptr;
  for (std::size_t tries = GlobalQueue::kMostTries; tries != 0; --tries) {
    FiberEntity* fiber = yielded_.TryPop();
    if (fiber == nullptr) break;
    if (FiberEntity* found = IfForOthers(fiber, must_notify)) return found;
  }
  for (WorkerQueues& queues : worker_queues_.objects()) {
    for (std::size_t tries = 0; tries < GlobalQueue::kMostTries; ++tries) {
      FiberEntity* fiber = queues.lifo.Steal();
      if (fiber == nullptr) fiber = queues.fifo.Pop();
      if (fiber == nullptr) break;
      if (FiberEntity* found = IfForOthers(fiber, must_notify)) return found;
    }
  }
  return nullptr;
}

std::vector<std::span<const std::byte>> PolicyV2::Memory() const {
  const auto [normal, woken] = global_.slots();
  return {std::as_bytes(std::span(this, 1)), normal, woken, std::as_bytes(yielded_slots_.objects()),
          std::as_bytes(worker_queues_.objects())};
}

}  // namespace weft::scheduling_group
