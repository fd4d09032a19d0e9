// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What a worker does without a fiber: it searches, spins, steals and sleeps, as idle_loop.h says, whose Worker it is.

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "weft/base/time/test_time.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/idle/kept_timers.h"
#include "weft/scheduling_group/worker/worker.h"

namespace weft::scheduling_group {
namespace {

using Clock = std::chrono::steady_clock;

// How often idle workers retry fibers that found no stack, if no fiber ends meanwhile.
constexpr std::chrono::milliseconds kRetryStackEvery{10};

// Timers that are due later go to the timer thread. The worker would sleep until then even if the wait has ended
// meanwhile, and until then nobody would see that it waits for nothing else (observe/waits/asleep_check.h).
constexpr std::chrono::milliseconds kKeepFor{100};

// By default the kernel may delay a time-out by 50 us to merge wake-ups. While this lives, it does not. Not for good:
// threads and processes that the thread starts would inherit it. Two system calls, 0.54 us together. Afterwards the
// slack is the thread's default, that of the thread which made it: one that the program has set for it since is lost.
class ExactTimeOuts {
 public:
  ExactTimeOuts() noexcept { prctl(PR_SET_TIMERSLACK, 1UL); }
  ~ExactTimeOuts() { prctl(PR_SET_TIMERSLACK, 0UL); }  // The default.
  ExactTimeOuts(const ExactTimeOuts&) = delete;
  ExactTimeOuts& operator=(const ExactTimeOuts&) = delete;
};

// Returns the time at its end.
Clock::time_point PauseBetweenSearches(std::chrono::nanoseconds at_least) noexcept {
  const auto until = at_least.count() != 0 ? Clock::now() + at_least : Clock::time_point::min();
  for (;;) {
    for (int i = SpinPolicy::kPausesPerSearch; i > 0; --i) base::CpuRelax();
    if (const auto now = Clock::now(); now >= until) return now;
  }
}

}  // namespace

class Worker::IdleSide {
 public:
  using Fiber = FiberEntity;
  using Group = SchedulingGroup;

  explicit IdleSide(scheduling_group::Worker* worker)
      : worker_(*worker), worker_slot_(worker->group->worker_slot(worker->index)) {}

  Group& group() const { return *worker_.group; }
  unsigned index() const { return worker_.index; }
  bool Stopping() const { return group().stopping(); }
  Fiber* Find() { return worker_.FindFiber(); }
  Fiber* Spin();
  bool HasWork() const { return group().policy().HasWork(); }
  void Notify() { group().Notify(); }
  Fiber* StealNowAndThen();
  Fiber* StealFrom(Group& victim);
  static constexpr std::size_t kSeenBySteal = GlobalQueue::kMostTries;
  // Half a steal more, because the size is an estimate that may be too small by the number of pushes under way.
  std::size_t FibersToSee(const Group& victim) const { return victim.policy().Size() + kSeenBySteal / 2; }
  void NothingFound() {
    TellDrainWaiter();
    WorkerCounters::Add(counters().sleeps);
  }
  Errand<Group> Sleep();
  Group* TakeErrand() { return TakeErrandFrom(worker_slot_.sent_to); }
  void Park() { worker_slot_.parker.Park(); }
  void GiveUpTimers() { worker_.GiveUpTimers(); }
  void FireTimers();
  void ParkUntilTimer();
  Errand<Group> CountedGetUp();
  SpinPolicy& spin_policy() { return worker_.spin_policy_; }
  void SearchAgainAfter(std::chrono::nanoseconds nap);
  void NapInSearch();

 private:
  WorkerCounters& counters() { return worker_.counters(); }
  // The clock of steal_every_n (SG5).
  std::uint64_t idle_searches() { return counters().idle_searches.load(std::memory_order_relaxed); }
  Fiber* SpinForFiber();
  Fiber* PopFromBusyWorkers();
  Fiber* StealFromNeighbour(std::size_t neighbour);
  bool KeepsTimersAsleep() const {
    return worker_.kept_timers != nullptr && worker_.kept_timers->due() < Clock::now() + kKeepFor &&
           group().idle().sleepers().Count() == group().size();  // KT3
  }
  Errand<Group> SleepInPoll(Reactor* poller);
  void WaitInPoll(Reactor* poller);
  void SleepUntilRetry();

  scheduling_group::Worker& worker_;
  SchedulingGroup::WorkerSlot& worker_slot_;
};

FiberEntity* Worker::NextFiber() {
  IdleSide side(this);
  if (stealing_ && !group->stopping()) {  // W4: it may be one that cannot be left behind any more (WL1).
    // The last fiber was stolen, and its group likely has more. Spinning first would cost a fifth of the time where
    // fibers run for 25 us (bench/fiber/work_conservation_benchmark.cc).
    FiberEntity* fiber = FindFiber();
    if (fiber == nullptr && !group->policy().HasWork()) fiber = side.StealNowAndThen();
    if (fiber != nullptr) return fiber;
  }
  return NextFiberWhenIdle(side);
}

FiberEntity* Worker::IdleSide::Spin() {
  WorkerCounters::Add(counters().spins);
  // A worker woken for a fiber finds it at once, before the first reading of the clock.
  if (FiberEntity* fiber = Find()) return fiber;
  worker_.spin_memory_.Forget();
  spin_policy().BeginSpin(group().options().spin_for);
  FiberEntity* fiber = SpinForFiber();
  spin_policy().EndSpin(fiber != nullptr);
  return fiber;
}

// nullptr: nothing was found.
FiberEntity* Worker::IdleSide::SpinForFiber() {
  Reactor* poller = group().reactor();
  while (!group().stopping()) {
    FiberEntity* fiber = Find();
    if (fiber == nullptr) fiber = PopFromBusyWorkers();
    if (fiber != nullptr) return fiber;
    if (poller != nullptr) poller->TryPoll();
    // Only a long spin sees two samples of a busy worker's slot (HS2).
    const bool hand_offs = worker_.spin_memory_.active;
    if (!spin_policy().GoesOn(hand_offs, [this] { return HasWork(); })) break;
    const auto now = PauseBetweenSearches(SpinPolicy::PauseTime(hand_offs));
    if (worker_.kept_timers != nullptr && now >= worker_.kept_timers->due()) FireTimers();
    if (spin_policy().IsOver(now, hand_offs, [this] { return group().idle().spinners() == 1; })) break;
  }
  return nullptr;
}

FiberEntity* Worker::IdleSide::PopFromBusyWorkers() {
  FiberEntity* fiber = group().policy().PopFromBusyWorkers(index(), &worker_.spin_memory_);
  if (fiber == nullptr) return nullptr;
  WorkerCounters::Add(counters().peer_takes);
  return worker_.PrepareToEnter(fiber) ? fiber : nullptr;
}

FiberEntity* Worker::IdleSide::StealNowAndThen() {
  const auto& neighbours = group().neighbours();
  WorkerCounters::Add(counters().idle_searches);
  for (std::size_t i = 0; i < neighbours.all.size(); ++i) {
    if (neighbours.all[i].steal_every_n == 0 || idle_searches() < worker_.next_steal_search_[i]) continue;
    FiberEntity* fiber = StealFromNeighbour(i);
    if (fiber == nullptr) continue;
    RequestSteal(*neighbours.all[i].group);  // No fiber needs it (RS4).
    return fiber;
  }
  worker_.stealing_ = false;
  return nullptr;
}

// Steals at once, whatever the rate. nullptr also if this group may not steal from it.
FiberEntity* Worker::IdleSide::StealFrom(Group& victim) {
  const auto& all = group().neighbours().all;
  const auto found =
      std::find_if(all.begin(), all.end(), [&victim](const auto& other) { return other.group == &victim; });
  if (found == all.end() || found->steal_every_n == 0) return nullptr;
  return StealFromNeighbour(static_cast<std::size_t>(found - all.begin()));
}

FiberEntity* Worker::IdleSide::StealFromNeighbour(std::size_t neighbour) {
  const auto& neighbours = group().neighbours();
  const auto [victim, every_n, distance] = neighbours.all[neighbour];
  StealCounters& of_pair = neighbours.counters(index(), neighbour);
  WorkerCounters::Add(of_pair.attempts);
  FiberEntity* fiber = victim->PopForSteal(distance);
  // After a success the next search tries again, until nothing waits there.
  worker_.next_steal_search_[neighbour] = idle_searches() + (fiber != nullptr ? 1 : every_n);
  if (fiber == nullptr) return nullptr;
  WorkerCounters::Add(of_pair.stolen_in);
  Recorder::Note(EventKind::kStolen, fiber->id(), static_cast<std::uint64_t>(victim->id()));
  if (fiber->ready_stamp) [[unlikely]] {
    group().RecordStolenWait(index(), fiber);
  }
  group().TakeOver(fiber);
  if (!worker_.PrepareToEnter(fiber)) return nullptr;
  worker_.stealing_ = true;
  return fiber;
}

void Worker::IdleSide::SearchAgainAfter(std::chrono::nanoseconds nap) {
  if (nap.count() != 0) {
    worker_.GiveUpTimers();
    worker_slot_.parker.Nap(Clock::now() + nap);
  } else {
    base::CpuRelax();
  }
}

void Worker::IdleSide::NapInSearch() {
  worker_.GiveUpTimers();
  if (Reactor* poller = group().reactor()) poller->TryPoll();  // It may be the one that would wait in the poll.
  base::Parker& parker = worker_slot_.parker;
  // A claim ends it, and its token is for the Sleep() that follows. (Nobody waits elsewhere: it returns false.)
  if (parker.ParkUntil(Clock::now() + SpinPolicy::kNap)) (void)parker.Unpark();
}

Errand<SchedulingGroup> Worker::IdleSide::Sleep() {
  group().CallIdleHook();
  const Watchdog::WatchedWorker::Asleep asleep(&worker_.slice_);
  if (group().HasFibersWithoutStack()) {
    worker_.GiveUpTimers();
    SleepUntilRetry();
    return CountedGetUp();
  }
  if (!KeepsTimersAsleep()) worker_.GiveUpTimers();
  if (Reactor* poller = group().reactor(); poller != nullptr && poller->TryEnter()) {
    if (group().size() > 1) worker_.GiveUpTimers();  // KT4
    return SleepInPoll(poller);
  }
  if (worker_.kept_timers != nullptr) return SleepUntilTimer(*this);
  {
    const base::TestTimeRest rests;
    Recorder::Note(EventKind::kSlept, 0, 0);
    worker_slot_.parker.Park();
  }
  return CountedGetUp();
}

void Worker::IdleSide::ParkUntilTimer() {
  Recorder::Note(EventKind::kSlept, 0, 0);
  const ExactTimeOuts exact;
  (void)worker_slot_.parker.ParkUntil(worker_.kept_timers->due());
}

void Worker::IdleSide::FireTimers() {
  if (KeptTimers* const timers = std::exchange(worker_.kept_timers, nullptr)) timers->FireAndGiveUp();
}

Errand<SchedulingGroup> Worker::IdleSide::SleepInPoll(Reactor* poller) {
  IdleWorkers& idle = group().idle();
  Recorder::Note(EventKind::kSlept, 1, 0);
  idle.SetInPoll(index(), true);
  if (worker_slot_.parker.BeginWaitElsewhere()) {
    {
      const base::TestTimeRest rests;
      WaitInPoll(poller);
    }
    (void)worker_slot_.parker.EndWaitElsewhere();
  }
  idle.SetInPoll(index(), false);
  Errand<Group> errand = CountedGetUp();
  // The worker counts as a spinner during the dispatch, so that its pushes wake no worker. It takes the first fiber,
  // and wakes another worker if more are left.
  if (!errand.counted_as_spinner) errand.counted_as_spinner = idle.TryStartSpinning();
  poller->LeaveAfterDispatch();
  FireTimers();  // Later: input that came in time is no time-out.
  return errand;
}

void Worker::IdleSide::WaitInPoll(Reactor* poller) {
  if (worker_.kept_timers != nullptr) {
    const ExactTimeOuts exact;
    poller->WaitUntil(worker_.kept_timers->due());
  } else {
    poller->Wait();
  }
}

void Worker::IdleSide::SleepUntilRetry() {
  worker_.stacks_.Clear();  // Other workers may need them.
  {
    const base::TestTimeRest rests;  // Those that have stacks may sleep.
    (void)worker_slot_.parker.ParkUntil(worker_.retry_stack_at_);
  }
  const auto now = Clock::now();
  if (now >= worker_.retry_stack_at_) {
    worker_.retry_stack_at_ = now + kRetryStackEvery;
    group().StackGivenBack();
  }
}

Errand<SchedulingGroup> Worker::IdleSide::CountedGetUp() {
  context::CheckOverflowHandlerNowAndThen();
  const Errand<Group> errand = GetUp(*this);
  const bool for_work = errand.counted_as_spinner || errand.steal_from != nullptr;
  if (for_work) WorkerCounters::Add(counters().wakes);
  // Not to its end: it would take the ring of one that has ended before.
  if (group().stopping()) return errand;
  Recorder::Note(EventKind::kGotUp, for_work ? 1 : 0, 0);
  return errand;
}

}  // namespace weft::scheduling_group
