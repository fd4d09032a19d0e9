// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy_v2.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "weft/scheduling_group/prefetch_fiber.h"
#include "weft/scheduling_group/time_slice.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kUnusedCapacity = 2;

}  // namespace

PolicyV2::PolicyV2(const Options& options, const base::Clock& clock)
    : global_(options.run_queue_size, options.workers, options.node),
      clock_(clock),
      workers_(options.workers),
      desks_(options.workers, options.node),
      yielded_slots_(options.workers > 1 ? std::min(options.run_queue_size, kYieldedCapacity) : kUnusedCapacity,
                     options.node),
      yielded_(yielded_slots_.objects().size(), yielded_slots_.objects().data()) {}

PolicyV2::~PolicyV2() = default;

void PolicyV2::PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) {
  if (WokenFromOutside(reason, worker)) {
    global_.PushWoken(fibers, count);
  } else {
    global_.Push(fibers, count);
  }
}

WEFT_NOINLINE void PolicyV2::YieldForAll(Desk& desk, FiberEntity* fiber) {
  --desk.yields_for_all;
  if (!yielded_.TryPush(fiber)) AddTurn(desk, fiber);
}

// The oldest to the global queue. Not inlined, as all that have such arrays: they would be on the stack of each fiber
// that waits.
WEFT_NOINLINE void PolicyV2::MoveTurns(Desk& desk) {
  FiberEntity* fibers[kMaxMoved];
  const std::uint32_t n = desk.turns.PopHalf(fibers, kMaxMoved);
  if (n != 0) global_.Push(fibers, n);
  desk.took_out_of_sight = true;  // P4
}

// False: there is no room.
WEFT_NOINLINE bool PolicyV2::MoveFresh(Desk& desk) {
  FiberEntity* fibers[kMaxMoved];
  const std::size_t room = std::min<std::size_t>(global_.Room(), kMaxMoved);
  if (room == 0) return false;
  const std::size_t n = desk.fresh.PopOldest(fibers, room);
  if (n != 0) global_.Push(fibers, n);
  desk.took_out_of_sight = true;  // P4
  return true;
}

WEFT_NOINLINE FiberEntity* PolicyV2::Look(Desk& desk, bool* in_sight_again) {
  const std::int64_t now = clock_.now().time_since_epoch() / std::chrono::nanoseconds(1);
  AdaptPicks(desk, now);
  ShareYields(desk, now);
  FiberEntity* fiber = nullptr;
  if (OthersHaveHadTheirSlice(desk, now)) {
    fiber = TakeShare(desk, Yielded::kFirst, in_sight_again);
  } else if (!std::exchange(desk.local_next, false)) {
    fiber = LookOutside(desk, now, in_sight_again);
  }
  desk.look_was_last = fiber != nullptr;
  return fiber;
}

FiberEntity* PolicyV2::LookOutside(Desk& desk, std::int64_t now, bool* in_sight_again) {
  ++desk.looks;
  desk.yielded_next |= desk.looks % kYieldedFirstEvery == 0;
  // Never two looks in a row, however long the fibers run: the global queue has its share (P1).
  if (desk.looks % 2 == 0) {
    if (FiberEntity* fiber = Patrol(desk, now)) {
      *in_sight_again = true;  // P4
      return fiber;
    }
  }
  // The flag outlasts a look that has found others' fibers, or these would be found each time.
  const Yielded yielded = std::exchange(desk.yielded_next, false) ? Yielded::kFirst : Yielded::kLast;
  return TakeShare(desk, desk.others_first ? Yielded::kNot : yielded, in_sight_again);
}

// P8. A slice that ends while the others are first is one of theirs, if nobody else had a turn: it makes them first no
// longer, or those that have yielded would starve where others always loop.
bool PolicyV2::OthersHaveHadTheirSlice(Desk& desk, std::int64_t now) {
  const bool were_first = desk.others_first;
  if (std::exchange(desk.slice_is_over, false)) {
    const bool was_theirs = were_first && !desk.yielded_had_a_turn;
    desk.others_first_until = was_theirs ? now : now + std::chrono::nanoseconds(kTimeSlice).count();
    desk.yielded_had_a_turn = false;
  }
  desk.others_first = now < desk.others_first_until;
  return were_first && !desk.others_first;
}

// Others' fibers that wait for too long, and the oldest of ours, by turns where there are both.
FiberEntity* PolicyV2::Patrol(Desk& desk, std::int64_t now) {
  const auto is_due = [now](std::int64_t last, std::chrono::nanoseconds every) { return now - last >= every.count(); };
  FiberEntity* fiber = nullptr;
  if (!desk.oldest_next && is_due(desk.looked_for_stuck_at, kStuckEvery)) {
    desk.looked_for_stuck_at = now;
    fiber = TakeFromStuckDesk(desk, now);
  }
  if (fiber != nullptr) {
    desk.oldest_next = is_due(desk.served_oldest_at, kOldestEvery);
    return fiber;
  }
  desk.oldest_next = false;
  if (!is_due(desk.served_oldest_at, kOldestEvery)) return nullptr;
  desk.served_oldest_at = now;
  return desk.fresh.Steal();
}

void PolicyV2::AdaptPicks(Desk& desk, std::int64_t now) {
  if (desk.idled) {
    desk.served_oldest_at = now;  // There was nothing. At others there may be: a fiber that yields alone idles so, too.
  } else {
    // Beyond kMemory it makes no difference.
    const auto took =
        std::min(static_cast<std::uint64_t>(now - desk.looked_at.load(std::memory_order_relaxed)), kMemory);
    desk.busy_for += took - (desk.busy_for * took >> kMemoryBits);
    desk.busy_picks += (std::uint64_t{desk.picks} << kFraction) - (desk.busy_picks * took >> kMemoryBits);
    const std::uint64_t picks = (desk.busy_picks * std::chrono::nanoseconds(kLookEvery).count() >> kFraction) /
                                std::max<std::uint64_t>(desk.busy_for, 1);
    desk.picks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(picks, kMinPicks, kMaxPicks));
  }
  desk.idled = false;
  desk.picks_until_look = desk.picks;
  desk.looked_at.store(now, std::memory_order_relaxed);  // A heuristic (P3).
}

// Where fibers run for long all that yield go to where the first worker that is free takes them (P7); elsewhere so few
// that it costs nothing, and none where there is one only: it may hold a lock that others wait for
// (bench/workload --workload=mutex_yield).
void PolicyV2::ShareYields(Desk& desk, std::int64_t now) {
  if (desk.picks == kMinPicks) {
    desk.yields_for_all = kMaxPicks;  // All, until the next look.
  } else if (now - desk.yielded_for_all_at >= std::chrono::nanoseconds(kLookEvery).count() && !desk.turns.Empty()) {
    desk.yields_for_all = kYieldsShared;
    desk.yielded_for_all_at = now;
  } else {
    desk.yields_for_all = 0;
  }
}

// A fair share of the global queue and of `yielded`, so that what is there is spread over the workers; half as many as
// run from look to look, so what is local has its share too, and with fibers that run long each one comes by itself.
WEFT_NOINLINE FiberEntity* PolicyV2::TakeShare(Desk& desk, Yielded yielded, bool* in_sight_again) {
  // Mostly there is nothing, and then it shall cost nothing: the array is in another function.
  const bool some = global_.HasWork() || (yielded != Yielded::kNot && !yielded_.Empty());
  return some ? TakeShareOfSome(desk, yielded, in_sight_again) : nullptr;
}

WEFT_NOINLINE FiberEntity* PolicyV2::TakeShareOfSome(Desk& desk, Yielded yielded, bool* in_sight_again) {
  FiberEntity* fibers[kMaxPicks / 2];
  const std::size_t at_most = desk.picks / 2;
  std::size_t n = yielded == Yielded::kFirst ? PopYielded(desk, fibers, at_most) : 0;
  if (n < at_most && global_.HasWork()) {
    n += global_.PopShare(fibers + n, static_cast<std::uint32_t>(at_most - n), &desk.shares);
  }
  if (n < at_most && yielded == Yielded::kLast) n += PopYielded(desk, fibers + n, at_most - n);
  if (n == 0) return nullptr;
  desk.counts.CountVisit(n);
  PrefetchShare(fibers, n);  // While they are in our hand: from a ring another may run them.
  for (std::size_t i = 1; i < n; ++i) AddTurn(desk, fibers[i]);
  if (n > 1) *in_sight_again = true;  // P4
  return fibers[0];
}

std::size_t PolicyV2::PopYielded(Desk& desk, FiberEntity** fibers, std::size_t at_most) noexcept {
  if (yielded_.Empty()) return 0;
  desk.yielded_had_a_turn = true;
  return yielded_.PopSome(fibers, std::min(yielded_.Size() / workers_ + 1, at_most));
}

// By another worker: the older half of what is in `fresh`, or `at_least` so many of it, else half of `turns`; the
// oldest of them to be run.
WEFT_NOINLINE FiberEntity* PolicyV2::TakeHalf(Desk& from, Desk& own, std::size_t at_least) {
  const std::size_t size = from.fresh.Size();
  if (FiberEntity* oldest = size != 0 ? from.fresh.Steal() : nullptr) {
    for (std::size_t i = 1; i < std::max((size + 1) / 2, at_least); ++i) {
      FiberEntity* fiber = from.fresh.Steal();
      if (fiber == nullptr) break;
      if (!own.fresh.Push(fiber)) {
        AddTurn(own, fiber);
        break;
      }
    }
    return oldest;
  }
  if (from.turns.Empty()) return nullptr;
  FiberEntity* fibers[kMaxMoved];
  const std::uint32_t n = from.turns.PopHalf(fibers, kMaxMoved);
  if (n == 0) return nullptr;
  for (std::uint32_t i = 1; i < n; ++i) AddTurn(own, fibers[i]);
  return fibers[0];
}

FiberEntity* PolicyV2::TakeFromStuckDesk(Desk& own, std::int64_t now) {
  for (unsigned visits = std::min(workers_, kDesksPerVisit); visits != 0; --visits) {
    Desk& desk = desks_[own.visit_next++ % workers_];
    if (&desk == &own) continue;
    const std::int64_t looked_at = desk.looked_at.load(std::memory_order_relaxed);
    if (looked_at == 0 || now - looked_at < std::chrono::nanoseconds(kStuckAfter).count()) continue;
    if (FiberEntity* fiber = TakeHalf(desk, own, kTakeFromStuck)) return fiber;
    if (FiberEntity* fiber = desk.slot.Take()) return fiber;
  }
  return nullptr;
}

FiberEntity* PolicyV2::PopFromBusyWorkers(unsigned worker, SpinMemory* memory) {
  if (workers_ == 1) return nullptr;
  Desk& own = desks_[worker];
  for (unsigned step = 1; step < workers_; ++step) {
    if (FiberEntity* fiber = TakeHalf(desks_[(worker + step) % workers_], own)) return fiber;
  }
  return TakeNeglectedHandOff(desks_.objects(), worker, std::chrono::steady_clock::now(), memory);
}

// Group-local fibers that are met on the way go to the global queue, so that they hide none. Each place is searched
// once from end to end, so many local ones hide nothing that is in another place.
FiberEntity* PolicyV2::Steal(bool* in_sight_again) {
  if (FiberEntity* fiber = global_.Steal(in_sight_again)) return fiber;  // P4
  if (workers_ == 1) return nullptr;
  for (std::size_t tries = GlobalQueue::kMostTries; tries != 0; --tries) {
    FiberEntity* fiber = yielded_.TryPop();
    if (fiber == nullptr) break;
    if (FiberEntity* found = FirstForOthers(fiber, in_sight_again)) return found;
  }
  for (Desk& desk : desks_.objects()) {
    for (std::size_t tries = 0; tries < GlobalQueue::kMostTries; ++tries) {
      FiberEntity* fiber = desk.fresh.Steal();
      if (fiber == nullptr) fiber = desk.turns.Pop();
      if (fiber == nullptr) break;
      if (FiberEntity* found = FirstForOthers(fiber, in_sight_again)) return found;
    }
  }
  return nullptr;
}

FiberEntity* PolicyV2::FirstForOthers(FiberEntity* fiber, bool* in_sight_again) {
  if (!fiber->group_local()) return fiber;
  global_.Push(fiber);
  *in_sight_again = true;  // P4
  return nullptr;
}

// The callers' fences order it (SP1).
bool PolicyV2::HasWork() const {
  if (global_.HasWork() || !yielded_.Empty()) return true;
  for (const Desk& desk : desks_.objects()) {
    if (desk.slot.Full() || !desk.turns.Empty() || !desk.fresh.Empty()) return true;
  }
  return false;
}

bool PolicyV2::HasStealable() const {
  if (global_.HasWork() || !yielded_.Empty()) return true;
  for (const Desk& desk : desks_.objects()) {
    if (!desk.turns.Empty() || !desk.fresh.Empty()) return true;
  }
  return false;
}

bool PolicyV2::Full() const { return global_.Full(); }

bool PolicyV2::HalfEmpty() const { return global_.HalfEmpty(); }

std::size_t PolicyV2::Size() const {
  std::size_t size = global_.Size() + yielded_.Size();
  for (const Desk& desk : desks_.objects()) {
    size += desk.turns.Size() + desk.fresh.Size() + (desk.slot.Full() ? 1 : 0);
  }
  return size;
}

std::vector<std::span<const std::byte>> PolicyV2::Memory() const {
  const auto [others, woken] = global_.slots();
  return {std::as_bytes(std::span(this, 1)), others, woken, std::as_bytes(yielded_slots_.objects()),
          std::as_bytes(desks_.objects())};
}

std::size_t PolicyV2::OverflowCount() const { return global_.overflow_count(); }

}  // namespace weft::scheduling_group
