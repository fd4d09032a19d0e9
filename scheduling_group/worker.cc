// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/log.h"
#include "weft/numa/affinity.h"
#include "weft/numa/cpu_list.h"
#include "weft/scheduling_group/drain.h"
#include "weft/scheduling_group/entity_pool.h"
#include "weft/scheduling_group/forked_child.h"
#include "weft/scheduling_group/idle_loop.h"
#include "weft/scheduling_group/outside_section.h"
#include "weft/scheduling_group/park.h"
#include "weft/scheduling_group/prefetch_fiber.h"
#include "weft/scheduling_group/time_slice.h"

namespace weft::scheduling_group {
namespace {

// How often workers look again for fibers that found no stack, if no fiber ends meanwhile.
constexpr std::chrono::milliseconds kRetryStackEvery{10};

// Between two searches of the queue, the clock and the other workers' slots: about 0.2 us.
constexpr int kPausesPerSearch = 4;
// The same while all that keeps it up is that others hand fibers to each other: each search takes lines from them, and
// a fiber that comes meanwhile waits for so long (bench/workload --workload=mutex_yield --workers=2: 134 to 155 ns, 166
// to 169 with searches 0.2 us apart; with 1 us 130 to 147). The same for 64 workers, of which two spin at most.
constexpr std::chrono::nanoseconds kPauseBesideHandOffs{500};
static_assert(kPauseBesideHandOffs < kHandOffPatience,
              "a search comes late by a part of what a slot's fiber may wait (HS2)");

// A worker that has spun in vain so many times in a row, as where a request comes each 100 us, searches once instead of
// spinning, but for one time in so many: what has changed meanwhile is found out. It saves CPU time there
// (bench/workload --workload=trickle).
constexpr std::uint32_t kFailedSpins = 4;
constexpr std::uint32_t kTryAgainEvery = 16;

// A worker that so many times in a row has seen work that it could not get sleeps for a moment: who could give it may
// have no CPU, where there are fewer CPUs than threads: a producer in the middle of a push, or a spinner, since only
// spinners take from slots. (bench/workload --workload=spawn_ext: 200 to 1,000 ns a fiber without the nap, 70 to 140
// with it.) Nothing depends on it: the worker is awake, and searches again.
// With the kernel's timer slack the nap takes 0.1 ms, about as long as a few hundred pushes; with 64 workers on as many
// CPUs, or beside a busy neighbour, it is the longest time for which a worker overlooks that its work can be had now.
constexpr int kSearchesBeforeNap = 16;
constexpr std::chrono::microseconds kNap{50};

// A worker sleeps no longer where group-local fibers have kept it from seeing all that waits in another group (RS3):
// who makes a fiber ready wakes it, and what had come just before waits for so long at most.
constexpr std::chrono::milliseconds kBriefly{1};

// Returns the time when it is over.
std::chrono::steady_clock::time_point PauseBetweenSearches(bool beside_hand_offs) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto until = beside_hand_offs ? Clock::now() + kPauseBesideHandOffs : Clock::time_point::min();
  for (;;) {
    for (int i = kPausesPerSearch; i > 0; --i) base::CpuRelax();
    if (const auto now = Clock::now(); now >= until) return now;
  }
}

}  // namespace

Worker::Worker(SchedulingGroup* owner, unsigned index_in_group)
    : counters_(&owner->worker_slot(index_in_group).counters), stacks_(&owner->stacks()), slice_(counters_) {
  group = owner;
  index = index_in_group;
  yield_current = [](WorkerBase*) { YieldCurrentFiber(); };
  run_instead_of_current = [](WorkerBase* worker, FiberEntity* next) {
    static_cast<Worker*>(worker)->RunInstead(worker->current, SwitchReason::kDisplaced, next);
  };
  next_steal_search_.assign(owner->neighbours().all.size(), 0);
}

WEFT_ALWAYS_INLINE bool Worker::PrepareToEnter(FiberEntity* fiber) {
  fiber->state_.OnAcquired();
  if (!fiber->has_stack() && !GiveStack(fiber)) return false;
  if (fiber->ready_stamp) [[unlikely]] {
    PrefetchStack(fiber);  // While the clock is read.
    group->RecordReadyWait(index, fiber);
  }
  return true;
}

// Inline: in Park() and Yield().
WEFT_ALWAYS_INLINE FiberEntity* Worker::TryNextFiber() {
  while (FiberEntity* fiber = group->PopFor(index)) {
    if (PrepareToEnter(fiber)) return fiber;
  }
  return nullptr;
}

// `self`: the fiber that is left, nullptr for the loop. `next`: prepared to be entered, nullptr for the loop.
WEFT_ALWAYS_INLINE void Worker::SwitchTo(FiberEntity* self, SwitchReason how, FiberEntity* next) {
  WEFT_DCHECK(!must_not_switch, "a switch while another one ends (W2)");
  left_ = self;
  switch_reason_ = how;
  current = next;
  WorkerCounters::Add(counters().switches);
  context::ThreadState* here = context::SwitchContext(self != nullptr ? &self->context : &loop_,
                                                      next != nullptr ? &next->context : &loop_, this);
  Of(here)->FinishSwitch();  // Not `this`: W3.
}

WEFT_ALWAYS_INLINE void Worker::FinishSwitch() {
  FiberEntity* fiber = left_;
  if (switch_reason_ == SwitchReason::kParked) {
    if (fiber->state_.OnSwitchedOut() == SwitchOutResult::kParked) [[likely]] {
      return;
    }
  } else if (switch_reason_ == SwitchReason::kPublished) {
    fiber->state_.OnLeftUnseen();
    if (publish_(publish_argument_)) [[likely]] {
      return;
    }
  } else if (switch_reason_ == SwitchReason::kYielded) {
    fiber->state_.OnYielded();
    group->ReadyBy(this, static_cast<int>(index), fiber, ReadyReason::kYielded);
    return;
  }
  FinishRareSwitch(fiber);
}

void Worker::Run() {
  context::InitThreadState(this);
  context::InitThreadContext(&loop_);
  SetCurrentWorker(this);
  while (FiberEntity* fiber = NextFiber()) {
    CheckOverflowHandlerAtTimes();
    SwitchTo(nullptr, SwitchReason::kNothing, fiber);
  }
  stacks_.Clear();
  SetCurrentWorker(nullptr);
  context::DestroyContext(&loop_);
}

WEFT_NOINLINE FiberEntity* Worker::FindFiber() { return TryNextFiber(); }

// For idle_loop.h.
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
  Fiber* Spin() { return worker_.Spin(); }
  bool HasWork() const { return group().policy().HasWork(); }
  void Notify() { group().Notify(); }
  Fiber* StealNowAndThen() { return worker_.StealFromOtherGroups(); }
  Fiber* StealFrom(Group& victim) { return worker_.StealFromGroup(&victim); }
  // The half: the size is an estimate, and may be too small by as many as are pushing.
  bool MaySeeLess(const Group& victim) const { return victim.policy().Size() > GlobalQueue::kMostTries / 2; }
  void NothingFound() {
    TellDrainWaiter();
    WorkerCounters::Add(worker_.counters().sleeps);
  }
  Group* TakeOrder() { return TakeOrderFrom(worker_slot_.sent_to); }
  void Park() { worker_slot_.parker.Park(); }
  void SearchAgain(int failed_searches) {
    if (failed_searches % kSearchesBeforeNap == 0) {
      worker_slot_.parker.Nap(std::chrono::steady_clock::now() + kNap);
    } else {
      base::CpuRelax();
    }
  }

  Order<Group> Sleep(bool briefly) {
    group().CallIdleHook();
    const SliceMonitor::MonitoredWorker::Asleep asleep(&worker_.slice_);
    if (group().HasFibersWithoutStack()) {
      SleepUntilRetry();
    } else if (briefly) {
      (void)worker_slot_.parker.ParkUntil(std::chrono::steady_clock::now() + kBriefly);
    } else if (IdlePoller* poller = group().idle_poller(); poller != nullptr && poller->TryEnter()) {
      return SleepInPoll(poller);
    } else {
      worker_slot_.parker.Park();
    }
    return CountedGetUp();
  }

 private:
  Order<Group> CountedGetUp() {
    context::CheckOverflowHandlerNowAndThen();
    const Order<Group> order = GetUp(*this);
    if (order.counted_as_spinner || order.steal_from != nullptr) WorkerCounters::Add(worker_.counters().wakes);
    return order;
  }

  void SleepUntilRetry() {
    worker_.stacks_.Clear();  // Others may need them.
    (void)worker_slot_.parker.ParkUntil(worker_.retry_stack_at_);
    const auto now = std::chrono::steady_clock::now();
    if (now >= worker_.retry_stack_at_) {
      worker_.retry_stack_at_ = now + kRetryStackEvery;
      group().StackGivenBack();
    }
  }

  Order<Group> SleepInPoll(IdlePoller* poller) {
    IdleWorkers& idle = group().idle();
    idle.SetInPoll(index(), true);
    if (worker_slot_.parker.BeginWaitElsewhere()) {
      poller->Wait();
      (void)worker_slot_.parker.EndWaitElsewhere();
    }
    idle.SetInPoll(index(), false);
    Order<Group> order = CountedGetUp();
    // Whoever readies a fiber is to see that somebody searches: we. Others are woken when we have taken one and more
    // are left.
    if (!order.counted_as_spinner) order.counted_as_spinner = idle.TryStartSpinning();
    poller->LeaveAfterDispatch();
    return order;
  }

  scheduling_group::Worker& worker_;
  SchedulingGroup::WorkerSlot& worker_slot_;
};

// When the loop is left for the 1st, 2nd, 4th, ... time. A program installs its handlers when it starts: mostly before
// its first fiber. Later, see CountedGetUp().
void Worker::CheckOverflowHandlerAtTimes() {
  if (std::has_single_bit(++loop_left_)) [[unlikely]] {
    context::CheckOverflowHandler();
  }
}

FiberEntity* Worker::NextFiber() {
  if (stealing_) {
    // What was stolen last is done, and there is likely more: to spin in between would cost a fifth of the time where
    // fibers run for 25 us (bench/fiber/work_conservation_benchmark.cc).
    FiberEntity* fiber = FindFiber();
    if (fiber == nullptr && !group->policy().HasWork()) fiber = StealFromOtherGroups();
    if (fiber != nullptr) return fiber;
  }
  IdleSide side(this);
  return NextFiberWhenIdle(side);
}

FiberEntity* Worker::Spin() {
  WorkerCounters::Add(counters().spins);
  // Who was woken for a fiber finds it at once: without a look at the clock.
  if (FiberEntity* fiber = FindFiber()) return fiber;
  spin_memory_.Forget();
  FiberEntity* fiber = SpinForFiber();
  failed_spins_ = fiber != nullptr ? 0 : failed_spins_ + 1;
  return fiber;
}

// For about spin_for. nullptr: there was nothing.
FiberEntity* Worker::SpinForFiber() {
  SchedulingPolicy& policy = group->policy();
  IdlePoller* poller = group->idle_poller();
  const auto spin_for = group->options().spin_for;
  bool once = failed_spins_ >= kFailedSpins && failed_spins_ % kTryAgainEvery != 0;
  std::chrono::steady_clock::time_point until;
  if (!once) until = std::chrono::steady_clock::now() + spin_for;
  while (!group->stopping()) {
    FiberEntity* fiber = FindFiber();
    if (fiber == nullptr) {
      fiber = policy.PopFromBusyWorkers(index, &spin_memory_);
      if (fiber != nullptr) WorkerCounters::Add(counters().peer_takes);
      if (fiber != nullptr && !PrepareToEnter(fiber)) fiber = nullptr;
    }
    if (fiber != nullptr) return fiber;
    if (poller != nullptr) poller->TryPoll();
    if (once) {
      // What waits at a busy worker is only got by a long one (HS2).
      if (!spin_memory_.active && !policy.HasWork()) break;
      once = false;
      until = std::chrono::steady_clock::now() + spin_for;
    }
    const auto now = PauseBetweenSearches(spin_memory_.active);
    // While fibers are handed from one to the next, one worker stays up to catch those that are not served: cheaper for
    // all than a wake-up every few microseconds.
    if (spin_memory_.active && group->idle().spinners() == 1) until = now + spin_for;
    if (now >= until) break;
  }
  return nullptr;
}

FiberEntity* Worker::StealFromOtherGroups() {
  const auto& neighbours = group->neighbours();
  WorkerCounters::Add(counters().idle_searches);
  for (std::size_t i = 0; i < neighbours.all.size(); ++i) {
    if (neighbours.all[i].steal_every_n == 0 || idle_searches() < next_steal_search_[i]) continue;
    FiberEntity* fiber = StealFrom(i);
    if (fiber == nullptr) continue;
    // No fiber needs this request (RS4); it wakes a worker that naps because it had not seen all (MaySeeLess()).
    RequestSteal(*neighbours.all[i].group);
    return fiber;
  }
  stealing_ = false;
  return nullptr;
}

// Now, whatever the rate; nothing if it may not.
FiberEntity* Worker::StealFromGroup(SchedulingGroup* victim) {
  const auto& all = group->neighbours().all;
  const auto found =
      std::find_if(all.begin(), all.end(), [victim](const auto& other) { return other.group == victim; });
  if (found == all.end() || found->steal_every_n == 0) return nullptr;
  return StealFrom(static_cast<std::size_t>(found - all.begin()));
}

FiberEntity* Worker::StealFrom(std::size_t neighbour) {
  const auto& neighbours = group->neighbours();
  const auto [victim, every_n, distance] = neighbours.all[neighbour];
  StealCounters& counters = neighbours.counters(index, neighbour);
  WorkerCounters::Add(counters.attempts);
  FiberEntity* fiber = victim->PopForSteal(distance);
  // After a success the next search tries again at once, until nothing waits there.
  next_steal_search_[neighbour] = idle_searches() + (fiber != nullptr ? 1 : every_n);
  if (fiber == nullptr) return nullptr;
  WorkerCounters::Add(counters.stolen_in);
  if (fiber->ready_stamp) [[unlikely]] {
    group->RecordStolenWait(index, fiber);
  }
  // Its stack goes home in the end.
  if (fiber->has_stack() && fiber->custom_stack_pool_ == nullptr) fiber->custom_stack_pool_ = &victim->stacks();
  fiber->set_group(group);
  if (!PrepareToEnter(fiber)) return nullptr;
  stealing_ = true;
  return fiber;
}

// False: there is none, and it waits for one.
WEFT_NOINLINE bool Worker::GiveStack(FiberEntity* fiber) {
  context::StackPool* pool = &group->stacks();
  void* top;
  if (fiber->stack_size_ == 0) [[likely]] {
    top = stacks_.Pop();
  } else {
    pool = group->StacksOfSize(fiber->stack_size_, fiber->guard_size_);
    top = pool != nullptr ? pool->Acquire() : nullptr;
    fiber->custom_stack_pool_ = pool;
  }
  if (top == nullptr) {
    fiber->custom_stack_pool_ = nullptr;
    fiber->state_.OnAcquireUndone();
    group->AddWithoutStack(fiber);
    return false;
  }
  fiber->stack_top_ = top;
  context::MakeContext(&fiber->context, top, pool->usable_size(), &Worker::FiberMain);
  WorkerCounters::Add(counters().begun);
  return true;
}

WEFT_NOINLINE void Worker::FinishRareSwitch(FiberEntity* fiber) {
  switch (switch_reason_) {
    case SwitchReason::kNothing:
    case SwitchReason::kYielded:  // FinishSwitch()
      break;
    case SwitchReason::kParked:  // And woken meanwhile.
      group->Ready(fiber, ReadyReason::kWoken);
      break;
    case SwitchReason::kPublished:  // Not: what it waited for has happened.
      fiber->state_.OnTaken();
      group->Ready(fiber, ReadyReason::kWoken);
      break;
    case SwitchReason::kDisplaced:
      fiber->state_.OnYielded();
      group->Ready(fiber, ReadyReason::kDisplaced);
      break;
    case SwitchReason::kEnded:
      GiveStackBack(fiber);
      Retire(fiber);
      break;
  }
}

WEFT_ALWAYS_INLINE void Worker::Park(FiberEntity* self) { SwitchTo(self, SwitchReason::kParked, TryNextFiber()); }

WEFT_ALWAYS_INLINE void Worker::ParkAndPublish(FiberEntity* self, bool (*publish)(void*) noexcept, void* argument) {
  FiberEntity* next = TryNextFiber();
  publish_ = publish;
  publish_argument_ = argument;
  SwitchTo(self, SwitchReason::kPublished, next);
}

WEFT_ALWAYS_INLINE void Worker::Yield(FiberEntity* self) {
  FiberEntity* next = TryNextFiber();
  if (next == nullptr && !group->stopping()) return;
  SwitchTo(self, SwitchReason::kYielded, next);
}

WEFT_NOINLINE void Worker::YieldAfterSlice() {
  if (!slice_.EndSlice() || current == nullptr || must_not_switch) return;
  // Who waits for input or output is not in the queue yet.
  if (IdlePoller* poller = group->idle_poller()) poller->PollIfDue(std::chrono::steady_clock::now());
  group->policy().SliceIsOver(index);
  YieldCurrentFiber();
}

void Worker::RunInstead(FiberEntity* self, SwitchReason how, FiberEntity* next) {
  if (!PrepareToEnter(next)) {
    // No stack: `next` waits for one, and who asks for fibers faster than they end should wait too.
    YieldCurrentFiber();
    return;
  }
  SwitchTo(self, how, next);
}

namespace {

// The fiber has called fork(), and its child has returned from the fiber.
[[noreturn]] WEFT_NOINLINE WEFT_COLD void FailForkedFiber() {
  CheckNotForkedChild("the end of a fiber");
  WEFT_UNREACHABLE();
}

}  // namespace

void Worker::FiberMain(context::ThreadState* here) {
  Worker* worker = Of(here);
  FiberEntity* self = worker->current;  // Before anything else may happen on this worker (W2).
  worker->FinishSwitch();
  for (;;) {
    context::BeginFloatingPoint(*worker);
    self->Run();
    if (self->fiber_local_slots != nullptr) fiber_hooks.destroy_fiber_locals(self);
    if (self->execution_context != nullptr) fiber_hooks.release_execution_context(self);

    worker = static_cast<Worker*>(CurrentWorker());  // W3
    if (worker == nullptr) [[unlikely]] {
      FailForkedFiber();
    }
    FiberEntity* next = worker->group->PopFor(worker->index);
    if (next != nullptr && !next->has_stack() && next->stack_size_ == 0 && self->custom_stack_pool_ == nullptr) {
      worker->TakeOverStack(self, next);
      worker->current = next;
      worker->Retire(self);
      self = next;
      continue;
    }
    if (next != nullptr && !worker->PrepareToEnter(next)) next = worker->FindFiber();
    worker->left_ = self;
    worker->switch_reason_ = SwitchReason::kEnded;
    worker->current = next;
    WorkerCounters::Add(worker->counters().switches);
    context::LeaveContext(&self->context, next != nullptr ? &next->context : &worker->loop_, worker);
  }
}

void Worker::TakeOverStack(FiberEntity* from, FiberEntity* to) {
  to->state_.OnAcquired();
  if (to->ready_stamp) [[unlikely]] {
    group->RecordReadyWait(index, to);
  }
  to->stack_top_ = from->stack_top_;
  to->context = from->context;  // What a sanitizer knows of the stack.
  WorkerCounters::Add(counters().begun);
}

void Worker::GiveStackBack(FiberEntity* fiber) {
  context::DestroyContext(&fiber->context);
  if (fiber->custom_stack_pool_ == nullptr) [[likely]] {
    stacks_.Push(fiber->stack_top_);
  } else {
    fiber->custom_stack_pool_->Release(fiber->stack_top_);
    // Maybe another group's: it waits for stacks, not we.
    static_cast<SchedulingGroup*>(fiber->custom_stack_pool_->owner())->StackGivenBack();
  }
  group->StackGivenBack();
}

// The fiber is over and has no stack any more.
void Worker::Retire(FiberEntity* fiber) {
  WorkerCounters::Add(counters().finished);
  fiber->stack_top_ = nullptr;
  fiber->stack_size_ = 0;
  fiber->guard_size_ = 0;
  fiber->custom_stack_pool_ = nullptr;
  fiber->fiber_local_slots = nullptr;
  fiber->execution_context = nullptr;
  if (fiber->name_ != nullptr) delete[] std::exchange(fiber->name_, nullptr);
  auto* on_exit = std::exchange(fiber->on_exit_, nullptr);
  void* arg = std::exchange(fiber->on_exit_arg_, nullptr);
  fiber->state_.OnExited();
  EntityPool::GiveBack(fiber);
  if (on_exit == nullptr) return;
  must_not_switch = true;
  on_exit(arg);
  must_not_switch = false;
}

WorkerTeam::~WorkerTeam() { WEFT_CHECK(threads_.empty(), "WorkerTeam: destroyed without Join()"); }

bool WorkerTeam::Start() {
  const SchedulingGroup::Options& options = group_->options();
  threads_.reserve(group_->size());
  monitored_ = SliceMonitor::Get().AddTeam();
  if (!monitored_) {
    group_->Stop();
    return false;
  }
  for (unsigned w = 0; w < group_->size(); ++w) {
    std::vector<int> cpus = options.cpus;
    if (w < options.worker_cpus.size() && options.worker_cpus[w] >= 0) cpus = {options.worker_cpus[w]};
    try {
      threads_.emplace_back([group = group_, w, cpus = std::move(cpus)] {
        const std::string name = "FiberWorker_" + std::to_string(group->id()) + "_" + std::to_string(w);
        ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
        if (!cpus.empty()) {
          if (const std::error_code error = numa::BindThread(cpus)) {
            WEFT_LOG(WARNING, name, ": the kernel refuses to bind it to CPU ", numa::FormatCpuList(cpus), ": ",
                     error.message(), "; it may run where the process may");
          }
        }
        context::AlternateSignalStack signal_stack;
        const std::unique_ptr<Worker> worker(new (numa::OnNode{group->node()}) Worker(group, w));
        worker->Run();
      });
    } catch (const std::exception& error) {  // No thread, or no memory.
      group_->Stop();
      Join();
      WEFT_LOG(ERROR, "WorkerTeam: no thread for worker ", w, " of group ", group_->id(), ": ", error.what());
      return false;
    }
  }
  return true;
}

void WorkerTeam::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (std::exchange(monitored_, false)) SliceMonitor::Get().RemoveTeam();
}

// park.h

void ParkPrepared(FiberEntity* self) noexcept {
  if (self->state().ResumedInPlace()) return;
  static_cast<Worker*>(CurrentWorker())->Park(self);
}

void ParkAndPublish(FiberEntity* self, bool (*publish)(void*) noexcept, void* argument) noexcept {
  static_cast<Worker*>(CurrentWorker())->ParkAndPublish(self, publish, argument);
}

namespace {

// Before the push the fiber keeps its runtime, after it the section does.
WEFT_NOINLINE void ReadyFromOutside(SchedulingGroup* group, FiberEntity* fiber) noexcept {
  const OutsideSection section;
  group->ReadyBy(nullptr, SchedulingPolicy::kNoWorker, fiber, ReadyReason::kWoken);
}

}  // namespace

void Unpark(FiberEntity* fiber) noexcept {
  if (fiber->state().OnWoken() != WakeResult::kEnqueue) return;
  SchedulingGroup* group = fiber->group();
  WorkerBase* caller = CurrentWorker();
  if (caller == nullptr) return ReadyFromOutside(group, fiber);
  group->ReadyBy(caller, WorkerOf(caller, group), fiber, ReadyReason::kWoken);
}

void UnparkPublished(FiberEntity* fiber) noexcept {
  fiber->state().OnTaken();
  SchedulingGroup* group = fiber->group();
  WorkerBase* caller = CurrentWorker();
  if (caller == nullptr) return ReadyFromOutside(group, fiber);
  group->ReadyBy(caller, WorkerOf(caller, group), fiber, ReadyReason::kWoken);
}

void UnparkRemote(FiberEntity* const* fibers, std::size_t count) noexcept {
  constexpr std::size_t kChunk = 64;
  const OutsideSection section;  // As in ReadyFromOutside().
  FiberEntity* ready[kChunk];
  std::size_t n = 0;
  SchedulingGroup* group = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    FiberEntity* fiber = fibers[i];
    // Fibers that slept for long are in memory, not in a cache.
    constexpr std::size_t kAhead = 8;
    if (i + kAhead < count) __builtin_prefetch(fibers[i + kAhead], 1);
    if (fiber->state().OnWoken() != WakeResult::kEnqueue) continue;
    if (n == kChunk || (n != 0 && fiber->group() != group)) {
      group->ReadyBatch(ready, n, ReadyReason::kWoken);
      n = 0;
    }
    group = fiber->group();
    ready[n++] = fiber;
  }
  if (n != 0) group->ReadyBatch(ready, n, ReadyReason::kWoken);
}

void YieldCurrentFiber() noexcept {
  WorkerBase* worker = CurrentWorker();
  static_cast<Worker*>(worker)->Yield(worker->current);
}

void RunInsteadOfCurrent(FiberEntity* fiber) noexcept {
  WorkerBase* worker = CurrentWorker();
  static_cast<Worker*>(worker)->RunInstead(worker->current, Worker::SwitchReason::kYielded, fiber);
}

// time_slice.h

void YieldAfterSlice() noexcept {
  if (WorkerBase* worker = CurrentWorker()) static_cast<Worker*>(worker)->YieldAfterSlice();
}

}  // namespace weft::scheduling_group
