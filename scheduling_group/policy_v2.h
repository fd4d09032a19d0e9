// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PolicyV2: each worker keeps what its fibers start and wake, and who has nothing takes half of what another one has.
// For fork-join and other computation: no line is shared while all are busy.
//
//   hand-off slot  one per worker (hand_off_slot.h)
//   turns          one per worker, first in first out (local_ring.h): fibers that yielded, and woken ones that found
//                  the slot taken; also what the worker took from the global queue for later
//   fresh          one per worker, last in first out (local_deque.h): what the fibers that run there have started
//   global queue   shared by all workers (global_queue.h): what comes from other threads (woken fibers go first) and in
//                  batches, and the older half of a `fresh`, the oldest of a `turns`, that was full
//   yielded        shared by all workers, first in first out (run_queue.h): of the fibers that yield a few every
//                  kLookEvery; all of them where fibers run for long
//
// A worker serves its slot, then `turns` and `fresh` by turns, then takes a share of `yielded` and of the global queue;
// every N-th time it looks at these first. N is chosen so that it looks every kLookEvery, as far as its fibers let it.
//
// A group of one worker has the global queue only (and the slot, for starters that found it full): there the order in
// which fibers become ready is the order in which they run, which is a guarantee.
//
// Invariants
//   P1  Nothing starves. Outside comes first every N-th pick, N <= kMaxPicks; for its lanes see GQ4. Of `turns` the
//       oldest is served at least every other pick that is not a hand-off. Of `fresh` the newest is served so; the
//       oldest, which could wait for ever behind a fiber that always starts another, is served every kOldestEvery, but
//       with fibers that run for longer at every eighth pick at the latest.
//   P2  Slots: HS1 to HS3.
//   P3  What waits at a worker whose fiber runs for long is taken by others also when none of them is idle, within a
//       millisecond if they switch that often: each looks for such desks every kStuckEvery.
//   P4  Fibers in a worker's hand between two of these places are seen by nobody; Pop() tells the group to notify once
//       they are back in sight (SP1); of a push TookOutOfSight() tells it.
//   P5  Local places are bounded, the global queue is not, so nothing is lost; TryPushNew() is false only when a
//       worker's own place and the global queue are full.
//   P6  Only a desk's worker adds to it; so what a thief takes goes to its own desk.
//   P7  Fibers that yield have about the same number of turns, wherever they are and however long others run. A worker
//       whose fibers run for 33 us or longer on average (N is kMinPicks) puts all that yield into `yielded`: there the
//       most turns are within a factor of 3 of the least, and nobody waits for more than two rounds, but for as long as
//       the kernel stops the worker that has the fiber. Where they are shorter each fiber goes that way now and then,
//       so it holds over many rounds.
//   P8  After a fiber whose time slice is over (time_slice.h) its worker serves others for a slice, or until one of
//       them has had a slice, and then, before all else, one of `yielded`: so fibers that loop have half of the time
//       where others wait, however many those are, and wait no longer than that where the others loop, too.
//
// Rejected
//   new fibers first in first out, or the newest one in a slot and the others in the ring, as Go has it: a tree of
//     fibers is then run breadth first, each level waiting with its stacks (bench/workload --workload=skynet_1m);
//   each yielding fiber to a queue that all share: its lines move between the workers at each yield (--workload=yield);
//   yielding fibers into the lane of the global queue where new ones are: what comes from outside then waits for a
//     round of all that yield;
//   N by the last look alone: a few short fibers in a row then looked like a worker that has no long ones;
//   the oldest of `fresh` at every sixteenth look: see kOldestEvery;
//   a look at a fixed number of picks: with fibers that run for 100 us, 61 picks are 6 ms.
#ifndef WEFT_SCHEDULING_GROUP_POLICY_V2_H_
#define WEFT_SCHEDULING_GROUP_POLICY_V2_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "weft/base/clock.h"
#include "weft/numa/node_memory.h"
#include "weft/scheduling_group/global_queue.h"
#include "weft/scheduling_group/hand_off_slot.h"
#include "weft/scheduling_group/local_deque.h"
#include "weft/scheduling_group/local_ring.h"
#include "weft/scheduling_group/run_queue.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

class PolicyV2 final : public SchedulingPolicy, public numa::NodeAllocated {
 public:
  explicit PolicyV2(const Options& options, const base::Clock& clock = base::SteadyClock::Get());
  ~PolicyV2() override;

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override;
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override;
  bool TryPushNew(FiberEntity* fiber, int worker) override;
  // As their namesakes, and a full fence: after a push into the queue that costs nothing.
  void PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker);
  bool TryPushNewAndFence(FiberEntity* fiber, int worker);
  // As Push() of a woken fiber by `worker`, and a full fence; false: not here.
  bool TryHandOffAndFence(FiberEntity* fiber, unsigned worker) noexcept {
    return workers_ > 1 && desks_[static_cast<std::size_t>(worker)].slot.TryFillAndFence(fiber);
  }
  FiberEntity* Pop(unsigned worker, bool* in_sight_again) override;
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override;
  FiberEntity* Steal(bool* in_sight_again) override;
  void SliceIsOver(unsigned worker) override {
    Desk& desk = desks_[worker];
    desk.slice_is_over = true;
    desk.local_next = desk.look_was_last && desk.picks_until_look == desk.picks;
    desk.picks_until_look = 1;
  }
  bool TookOutOfSight(unsigned worker) override { return std::exchange(desks_[worker].took_out_of_sight, false); }
  bool HasWork() const override;
  bool HasStealable() const override;
  bool Full() const override;
  bool HalfEmpty() const override;
  std::size_t Size() const override;
  std::size_t OverflowCount() const override;
  QueueCounts CountsOf(unsigned worker) const override {
    return desks_[static_cast<std::size_t>(worker)].counts.Read();
  }
  std::vector<std::span<const std::byte>> Memory() const override;

 private:
  // Depth-first trees need their depth times their width: skynet 54.
  static constexpr std::uint32_t kFreshCapacity = 256;
  // So that what goes around does so here: with 1,000 fibers that yield on two workers 15 ns each, against 24 with 256
  // (bench/workload --workload=yield).
  static constexpr std::uint32_t kTurnsCapacity = 1024;
  // Moved in one step, half of `fresh`: an array of a kibibyte on the stack of the fiber that finds its place full.
  static constexpr std::uint32_t kMaxMoved = kFreshCapacity / 2;
  // A tenth of the millisecond within which a fiber from outside shall run when all workers are busy.
  static constexpr std::chrono::microseconds kLookEvery{100};
  // A look costs about 30 ns, mostly for the time: half a nanosecond per pick. As in Go a prime, so that it does not
  // keep step with a program that does the same things over and over.
  static constexpr std::uint32_t kMaxPicks = 61;
  static constexpr std::uint32_t kMinPicks = 2;  // What is local has a share too.
  // Of the fibers that yield so many go where others take them, every kLookEvery. In a drive of the policy with eight
  // unequal workers, half of the fibers short and half of 20 us, the most turns were 117 times the least with none, 18
  // times with one, twice with four (WhereverTheyAre in policy_v2_test.cc). It costs half a percent of the time; of 64
  // workers that all do so each touches the queue every 25 us, so somebody every 0.4 us, which is what it can bear.
  static constexpr std::uint32_t kYieldsShared = 4;
  // 128 KiB a group. What finds it full takes turns at its worker; a round of so many that run for long takes hundreds
  // of milliseconds anyway.
  static constexpr std::size_t kYieldedCapacity = 8192;
  // Of the looks one is for `yielded` first, so that it does not starve where there is always something from outside.
  static constexpr std::uint32_t kYieldedFirstEvery = 4;
  // N follows the mean of so long, 2^23 ns, so that a few short fibers between long ones do not change it.
  static constexpr int kMemoryBits = 23;
  static constexpr std::uint64_t kMemory = std::uint64_t{1} << kMemoryBits;
  static constexpr int kFraction = 8;  // bits
  // Each oldest fiber may open another subtree, with its stacks: a thousand in a second do no harm, while one in a
  // thousand fibers makes a tree of a million go wide (bench/workload --workload=skynet_1m: 130 ms against 33).
  static constexpr std::chrono::milliseconds kOldestEvery{1};
  // A desk is stuck when its worker has missed two looks. Together a half of the millisecond that P3 promises.
  static constexpr std::chrono::microseconds kStuckAfter{200};
  static constexpr std::chrono::microseconds kStuckEvery{200};
  // Of a stuck desk: half, but so many if there are. So a few dozen fibers need one visit, and not one for each half.
  static constexpr std::size_t kTakeFromStuck = 32;
  // Desks per visit, by turns: a line each. With 64 workers a desk is seen by each other worker every 1.6 ms, and by
  // one of them every 25 us.
  static constexpr unsigned kDesksPerVisit = 8;

  using Turns = LocalRing<kTurnsCapacity>;
  using Fresh = LocalDeque<kFreshCapacity>;

  struct Desk {
    HandOffSlot slot;
    Turns turns;
    Fresh fresh;
    // Its worker's alone.
    alignas(base::kCacheLineSize) std::uint32_t hand_offs_in_a_row = 0;
    std::uint32_t picks_until_look = 1;
    std::uint32_t picks = kMinPicks;  // from look to look
    std::uint32_t looks = 0;
    std::uint32_t shares = 0;          // GlobalQueue's to count
    std::uint32_t yields_for_all = 0;  // so many fibers that yield next go to `yielded`
    bool fresh_next = false;
    bool idled = true;  // since the last look
    bool oldest_next = false;
    bool took_out_of_sight = false;        // in a push (P4)
    unsigned visit_next = 0;               // a worker's index
    std::int64_t looked_for_stuck_at = 0;  // ns of steady_clock, both
    std::int64_t served_oldest_at = 0;
    std::int64_t yielded_for_all_at = 0;
    bool slice_is_over = false;  // of a fiber, since the last look
    bool others_first = false;   // than `yielded`, as of the last look; P8
    std::int64_t others_first_until = 0;
    bool yielded_next = false;        // at the next look that brings nothing from other desks
    bool yielded_had_a_turn = false;  // one of `yielded`, since the last slice was over
    bool look_was_last = false;       // as of the last look: it brought a fiber
    bool local_next = false;          // A slice makes it look again at once; what is local has a share too (P1).
    // Of the last kMemory: how long it was busy, in ns, and how many picks it made meanwhile, in 1/256.
    std::uint64_t busy_for = 0;
    std::uint64_t busy_picks = 0;
    std::atomic<std::int64_t> looked_at{0};  // ns of steady_clock; read by others that look for stuck desks
    QueueCounters counts;
  };

  void AddTurn(Desk& desk, FiberEntity* fiber);
  void YieldForAll(Desk& desk, FiberEntity* fiber);
  void MoveTurns(Desk& desk);
  bool MoveFresh(Desk& desk);
  FiberEntity* PopLocal(Desk& desk) noexcept;
  FiberEntity* Look(Desk& desk, bool* in_sight_again);
  FiberEntity* LookOutside(Desk& desk, std::int64_t now, bool* in_sight_again);
  bool OthersHaveHadTheirSlice(Desk& desk, std::int64_t now);
  void AdaptPicks(Desk& desk, std::int64_t now);
  void ShareYields(Desk& desk, std::int64_t now);
  enum class Yielded { kFirst, kLast, kNot };  // or the global queue
  FiberEntity* TakeShare(Desk& desk, Yielded yielded, bool* in_sight_again);
  FiberEntity* TakeShareOfSome(Desk& desk, Yielded yielded, bool* in_sight_again);
  std::size_t PopYielded(Desk& desk, FiberEntity** fibers, std::size_t at_most) noexcept;
  FiberEntity* Patrol(Desk& desk, std::int64_t now);
  FiberEntity* TakeHalf(Desk& from, Desk& own, std::size_t at_least = 1);
  FiberEntity* TakeFromStuckDesk(Desk& own, std::int64_t now);
  FiberEntity* FirstForOthers(FiberEntity* fiber, bool* in_sight_again);

  GlobalQueue global_;
  const base::Clock& clock_;
  const unsigned workers_;
  const numa::NodeArray<Desk> desks_;
  const numa::NodeArray<RunQueue::Slot> yielded_slots_;
  RunQueue yielded_;
};

// Inline: see the end of scheduling_group.h.

WEFT_ALWAYS_INLINE void PolicyV2::Push(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (worker != kNoWorker) {
    Desk& desk = desks_[static_cast<std::size_t>(worker)];
    if (reason == ReadyReason::kDisplaced && desk.slot.TryFill(fiber)) return;
    if (workers_ > 1) {
      if (reason == ReadyReason::kWoken && desk.slot.TryFill(fiber)) return;
      if (reason == ReadyReason::kStarted && TryPushNew(fiber, worker)) return;
      if (reason == ReadyReason::kYielded && desk.yields_for_all != 0) [[unlikely]] {
        return YieldForAll(desk, fiber);
      }
      AddTurn(desk, fiber);
      return;
    }
  }
  if (WokenFromOutside(reason, worker)) {
    global_.PushWoken(fiber);
  } else {
    global_.Push(fiber);
  }
}

WEFT_ALWAYS_INLINE bool PolicyV2::TryPushNew(FiberEntity* fiber, int worker) {
  if (worker == kNoWorker || workers_ == 1) return global_.TryPush(fiber);
  Desk& desk = desks_[static_cast<std::size_t>(worker)];
  return desk.fresh.Push(fiber) || (MoveFresh(desk) && desk.fresh.Push(fiber));
}

WEFT_ALWAYS_INLINE void PolicyV2::PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (WokenFromOutside(reason, worker)) {
    global_.PushWokenAndFence(fiber);
  } else if (worker == kNoWorker || (workers_ == 1 && reason != ReadyReason::kDisplaced)) {
    global_.PushAndFence(fiber);
  } else {
    Push(fiber, reason, worker);
    base::ThreadFence(std::memory_order_seq_cst);
  }
}

WEFT_ALWAYS_INLINE bool PolicyV2::TryPushNewAndFence(FiberEntity* fiber, int worker) {
  if (worker == kNoWorker || workers_ == 1) return global_.TryPushAndFence(fiber);
  if (!TryPushNew(fiber, worker)) return false;
  base::ThreadFence(std::memory_order_seq_cst);
  return true;
}

WEFT_ALWAYS_INLINE void PolicyV2::AddTurn(Desk& desk, FiberEntity* fiber) {
  if (desk.turns.Push(fiber)) [[likely]] {
    return;
  }
  MoveTurns(desk);
  (void)desk.turns.Push(fiber);  // Only we add (P6).
}

WEFT_ALWAYS_INLINE FiberEntity* PolicyV2::Pop(unsigned worker, bool* in_sight_again) {
  Desk& desk = desks_[static_cast<std::size_t>(worker)];
  if (workers_ > 1 && --desk.picks_until_look == 0) [[unlikely]] {
    if (FiberEntity* fiber = Look(desk, in_sight_again)) return fiber;
  }
  if (desk.hand_offs_in_a_row < kMaxHandOffs) {
    if (FiberEntity* fiber = desk.slot.Take()) {
      ++desk.hand_offs_in_a_row;
      return fiber;
    }
  }
  desk.hand_offs_in_a_row = 0;
  FiberEntity* fiber;
  if (workers_ == 1) {
    fiber = global_.PopAlone();
  } else {
    fiber = PopLocal(desk);
    if (fiber == nullptr) fiber = TakeShare(desk, desk.others_first ? Yielded::kLast : Yielded::kFirst, in_sight_again);
  }
  if (fiber == nullptr) fiber = desk.slot.Take();
  if (fiber == nullptr) {
    desk.idled = true;
    desk.picks_until_look = 1;  // So that a desk that has not been looked at for long is one that is stuck.
  }
  return fiber;
}

WEFT_ALWAYS_INLINE FiberEntity* PolicyV2::PopLocal(Desk& desk) noexcept {
  desk.fresh_next = !desk.fresh_next;
  FiberEntity* fiber = desk.fresh_next ? desk.fresh.PopNewest() : desk.turns.Pop();
  if (fiber == nullptr) fiber = desk.fresh_next ? desk.turns.Pop() : desk.fresh.PopNewest();
  return fiber;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_POLICY_V2_H_
