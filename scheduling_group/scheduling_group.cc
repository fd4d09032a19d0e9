// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/scheduling_group.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/futex.h"
#include "weft/base/log.h"
#include "weft/context/overflow_handler.h"
#include "weft/numa/affinity.h"
#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/entity_pool.h"
#include "weft/scheduling_group/policy_registry.h"
#include "weft/scheduling_group/steal_request.h"
#include "weft/scheduling_group/thread_may_wait.h"

namespace weft::scheduling_group {
namespace {

// The thread that trims fires timers too: 0.3 us each, so 5 ms.
constexpr std::size_t kStacksPerTrim = 16384;

constexpr std::size_t kFirstArenaOfOtherSize = std::size_t{16} << 20;

// A spinner must stay long enough to see that a busy worker's hand-off slot does not change (HS2 in hand_off_slot.h).
constexpr std::chrono::nanoseconds kMinSpin{4'000};

// Some 200 ns to 800 ns, by the processor: a small part of what the wake-up costs, however many workers there are. With
// 2 workers on 2 CPUs starts from two threads (spawn_ext) take 0.90 to 0.99 of the time that they take without. Whether
// it is 4 pauses or 16 makes no difference on an Intel Xeon; on an AMD EPYC 16 take 0.89 (v1)
// and 0.93 (v2) of the time of 4.
constexpr int kPausesBeforeWake = 16;

constinit IdleGroupSlots slots;

std::unique_ptr<SchedulingPolicy> MakePolicy(const SchedulingGroup::Options& options) {
  WEFT_CHECK(options.workers >= 1 && options.workers <= kMaxWorkersPerGroup, "SchedulingGroup: workers must be 1..",
             kMaxWorkersPerGroup, ", is ", options.workers);
  auto policy = CreateSchedulingPolicy(
      options.policy, {.workers = options.workers, .run_queue_size = options.run_queue_size, .node = options.node});
  WEFT_CHECK(options.spin_for >= kMinSpin, "SchedulingGroup: spin_for must be at least ", kMinSpin.count(), " ns, is ",
             options.spin_for.count());
  WEFT_CHECK(policy != nullptr, "SchedulingGroup: no scheduling policy is called \"", options.policy, '"');
  return policy;
}

context::StackPool::Options StackOptions(SchedulingGroup* owner, const SchedulingGroup::Options& options,
                                         std::size_t stack_size) {
  context::StackPool::Options stacks = options.stacks;
  stacks.stack_size = stack_size;
  stacks.guard = options.guard_pages;
  stacks.guard_size = options.guard_size;
  stacks.node = options.node;
  stacks.owner = owner;
  return stacks;
}

}  // namespace

SchedulingGroup::SchedulingGroup(const Options& options)
    : id_(options.id),
      slot_(slots.Take()),
      // On a machine with one node all groups share one, whatever the node's number.
      entity_arena_(EntityPool::ArenaOn(numa::HasSeveralNodes() ? options.node : -1)),
      options_(options) {
  MakeParts();
}

void SchedulingGroup::MakeParts() {
  policy_ = MakePolicy(options_);
  v1_ = dynamic_cast<PolicyV1*>(policy_.get());
  v2_ = dynamic_cast<PolicyV2*>(policy_.get());
  worker_slots_ = numa::NodeArray<WorkerSlot>(size(), node());
  ready_waits_ = numa::NodeArray<WaitRecorder>(size(), node());
  overload_.emplace(options_.max_ready_wait, ready_waits_.objects());
  stacks_.emplace(StackOptions(this, options_, options_.stack_size));
  no_neighbours_ = std::make_unique<const NeighbourList>(std::vector<Neighbour>(), size());
  neighbours_.store(no_neighbours_.get(), std::memory_order_release);  // Pairs with the acquire in neighbours().
}

SchedulingGroup::~SchedulingGroup() {
  if (slot_ != IdleGroups::kNoSlot) {
    idle_groups().Forget(slot_);
    slots.Return(slot_);
  }
  // relaxed, both: nobody else is left.
  for (auto& pool : custom_stacks_) delete pool.load(std::memory_order_relaxed);
  delete idle_poller_.load(std::memory_order_relaxed);
}

void SchedulingGroup::SetNeighbours(std::vector<Neighbour> neighbours) {
  WEFT_CHECK(neighbour_list_ == nullptr, "SchedulingGroup::SetNeighbours: once");
  neighbour_list_ = std::make_unique<const NeighbourList>(std::move(neighbours), size());
  neighbours_.store(neighbour_list_.get(), std::memory_order_release);  // Pairs with the acquire in neighbours().
}

constinit IdleGroups SchedulingGroup::all_idle_groups;

void SchedulingGroup::Notify() {
  if (!WakeOne() && APartnerMayIdle()) RequestStealByPartners();
}

WEFT_NOINLINE bool SchedulingGroup::WakeSleeper() {
  const int worker = idle_.ClaimWorkerToWake();
  if (worker == IdleWorkers::kNobody) return false;
  Send(static_cast<unsigned>(worker), this);
  return true;
}

// After a push and its fence, which is between the push and what we look at here (SG4).
WEFT_NOINLINE void SchedulingGroup::RequestStealByPartners() { RequestSteal(*this); }

SchedulingGroup::NeighbourList::NeighbourList(std::vector<Neighbour> neighbours, unsigned workers)
    : all(std::move(neighbours)), counters_(new StealCounters[all.size() * workers]) {
  for (const Neighbour& neighbour : all) {
    const auto& [group, every_n, distance] = neighbour;
    if (every_n == 0 || group->slot() == IdleGroups::kNoSlot) continue;
    partners.push_back(group);
    partner_mask.Add(group->slot());
  }
}

void SchedulingGroup::SamplePushes(WorkerBase* caller, FiberEntity* const* fibers, std::size_t count) noexcept {
  PushCountdown& countdown = caller != nullptr ? caller->push_countdown : ThisThreadsPushSampler().countdown;
  std::size_t begin = 0;
  for (std::size_t which = 0; begin < count && countdown.CountMany(count - begin, &which); begin += which + 1) {
    StampFiber(caller, fibers[begin + which]);
  }
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::StampFiber(WorkerBase* caller, FiberEntity* fiber) noexcept {
  const auto now = options_.clock->now();
  ReadyStamp stamp;
  if (caller != nullptr) {
    stamp = caller->group->worker_slot(caller->index).push_sampler.Take(now, &caller->push_countdown);
  } else {
    PushSamplerOfThread& own = ThisThreadsPushSampler();
    stamp = own.sampler.Take(now, &own.countdown);
  }
  if (!fiber->ready_stamp) fiber->ready_stamp = stamp;  // Else it found no stack, and waits on.
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::RecordReadyWait(unsigned worker, FiberEntity* fiber) noexcept {
  const ReadyStamp stamp = std::exchange(fiber->ready_stamp, ReadyStamp());
  const auto now = options_.clock->now();
  const std::chrono::nanoseconds wait = stamp.WaitUntil(now);
  ready_waits_[worker].Record(wait, stamp.weight(), overload_->IsLong(wait));
  overload_->OnSample(now);
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::RecordStolenWait(unsigned worker, FiberEntity* fiber) noexcept {
  const ReadyStamp stamp = std::exchange(fiber->ready_stamp, ReadyStamp());
  ready_waits_[worker].RecordStolen(stamp.WaitUntil(options_.clock->now()), stamp.weight());
}

// By a worker that found nothing ready in the group and is about to sleep.
void SchedulingGroup::CallIdleHook() {
  if (WorkerBase* worker = CurrentWorker()) worker_slots_[worker->index].push_sampler.Forget(&worker->push_countdown);
  if (overload_->enabled()) overload_->OnNothingReady(options_.clock->now());
  if (idle_hook_.call != nullptr) idle_hook_.call(idle_hook_.arg);
}

WEFT_NOINLINE WEFT_COLD bool SchedulingGroup::StillOverloaded() noexcept {
  return overload_->StillOverloaded(options_.clock->now(), [this] { return !policy_->HasWork(); });
}

void SchedulingGroup::Ready(FiberEntity* fiber, ReadyReason reason) {
  WorkerBase* caller = CurrentWorker();
  ReadyBy(caller, WorkerOf(caller, this), fiber, reason);
}

void SchedulingGroup::ReadyBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason) {
  WorkerBase* caller = CurrentWorker();
  SamplePushes(caller, fibers, count);
  policy_->PushBatch(fibers, count, reason, WorkerOf(caller, this));
  Notify();
}

// After a push by a plain thread. To wake a worker costs the thread a system call, and where CPUs are scarce its CPU
// too, which the kernel gives to the worker at once. If another worker is up it may come first: it ends a short fiber,
// takes the new one, and spins.
void SchedulingGroup::PauseBeforeWake() const noexcept {
  for (int i = kPausesBeforeWake; i > 0; --i) {
    if (idle_.NobodyToWakeAfterFence() || idle_.sleepers().Count() == size()) return;
    base::CpuRelax();
  }
}

bool SchedulingGroup::Start(FiberEntity* fiber) {
  WorkerBase* caller = CurrentWorker();
  if (caller == nullptr && start_gate_.refusing()) [[unlikely]] {
    return false;
  }
  SamplePush(caller, fiber);
  const bool local = fiber->group_local();  // After the push it is another's.
  const int worker = WorkerOf(caller, this);
  if (TryPushNewAndFence(fiber, worker)) [[likely]] {
    if (caller == nullptr) PauseBeforeWake();
    NotifyAfterFence(local, worker);
    return true;
  }
  return StartWhenFull(fiber);
}

bool SchedulingGroup::StartWhenFull(FiberEntity* fiber) {
  WorkerBase* caller = CurrentWorker();
  if (caller != nullptr && caller->group == this) {
    if (caller->current != nullptr && !caller->must_not_switch) {
      caller->run_instead_of_current(caller, fiber);
    } else {
      Ready(fiber, ReadyReason::kStarted);  // An on_exit hook: nobody to queue instead.
    }
    return true;
  }
  if (caller != nullptr ? caller->must_not_switch : !ThreadMayWait()) {
    Ready(fiber, ReadyReason::kStarted);  // Nor may it wait.
    return true;
  }
  const Deadline deadline = options_.start_timeout;
  for (;;) {
    if (caller != nullptr && caller->current != nullptr) {
      caller->yield_current(caller);
      caller = CurrentWorker();  // It may have moved.
    } else if (!WaitForCapacity(deadline)) {
      return false;
    }
    // Its spawner has waited, it begins to.
    if (const ReadyStamp stamp = fiber->ready_stamp) fiber->ready_stamp = {options_.clock->now(), stamp.shift()};
    if (policy_->TryPushNew(fiber, WorkerOf(caller, this))) break;
    if (deadline.expired()) {
      WEFT_LOG_EVERY_SECOND(WARNING, "SchedulingGroup ", id(), ": refused to start a fiber, the run queue of ",
                            options_.run_queue_size, " was full for ", options_.start_timeout.count() / 1000000,
                            " ms; consider a larger --fiber_run_queue_size");
      return false;
    }
  }
  Notify();
  return true;
}

bool SchedulingGroup::StartBatch(FiberEntity* const* fibers, std::size_t count) {
  WorkerBase* caller = CurrentWorker();
  if (caller == nullptr && start_gate_.refusing()) return false;
  const Deadline deadline = options_.start_timeout;
  if (policy_->Full()) {
    if (caller == nullptr) {
      if (ThreadMayWait() && !WaitForCapacity(deadline)) return false;
    } else if (caller->current != nullptr && !caller->must_not_switch) {
      // Once, so that it is slowed down to the pace of those who run fibers; to wait until there is room would never
      // end where many do the same, since they queue themselves.
      caller->yield_current(caller);
      caller = CurrentWorker();  // It may have moved.
    }
  }
  SamplePushes(caller, fibers, count);
  // What goes beyond the ring's capacity waits in the overflow list: the batch was accepted as a whole.
  policy_->PushBatch(fibers, count, ReadyReason::kStarted, WorkerOf(caller, this));
  Notify();
  return true;
}

void SchedulingGroup::RefuseNewFibers() { start_gate_.Refuse(); }

// The pop then brings what the poll made ready.
WEFT_NOINLINE FiberEntity* SchedulingGroup::PollAndPop(unsigned worker) {
  PollAtTick(worker);
  return PopNow(worker);
}

bool SchedulingGroup::SetIdlePoller(std::unique_ptr<IdlePoller> poller) {
  IdlePoller* none = nullptr;
  // release: the object. Pairs with the acquire in idle_poller().
  if (!idle_poller_.compare_exchange_strong(none, poller.get(), std::memory_order_release, std::memory_order_relaxed)) {
    return false;
  }
  (void)poller.release();
  return true;
}

void SchedulingGroup::PollAtTick(unsigned worker) {
  WorkerSlot& worker_slot = worker_slots_[worker];
  IdlePoller* poller = idle_poller();
  if (poller == nullptr) {
    worker_slot.pops_until_poll = kMostPopsPerPoll / 8;  // Nothing to look at, but soon there may be.
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  const auto since = now - worker_slot.last_tick_at;
  worker_slot.last_tick_at = now;
  // A look at the clock, too, costs as much as a fiber may.
  if (since < kPollEvery / 2) worker_slot.pops_per_poll = std::min(worker_slot.pops_per_poll * 2, kMostPopsPerPoll);
  // At once: to halve it each time would take the time of twice as many fibers, and these are long ones.
  if (since > kPollEvery) {
    worker_slot.pops_per_poll =
        std::max(static_cast<std::uint32_t>(worker_slot.pops_per_poll * kPollEvery / since), 1u);
  }
  poller->PollIfDue(now);
  worker_slot.pops_until_poll = worker_slot.pops_per_poll;
}

FiberEntity* SchedulingGroup::PopForSteal(int distance) {
  if (stopping()) return nullptr;
  bool must_notify = false;
  FiberEntity* fiber = policy_->Steal(&must_notify);
  if (must_notify) (void)WakeOne();  // No steal request: it would bring the thief to what it may not have.
  CapacityFreed();
  if (fiber != nullptr) stolen_out_[distance == kSameNode].fetch_add(1, std::memory_order_relaxed);
  return fiber;
}

void SchedulingGroup::Stop() {
  stopping_.store(true, std::memory_order_release);  // Pairs with the acquire in stopping().
  for (unsigned w = 0; w < size(); ++w) Unpark(w);
}

void SchedulingGroup::Close() {
  WEFT_CHECK(stopping(), "SchedulingGroup::Close: group ", id(), " was not stopped");
  // relaxed, all: nobody else is here.
  neighbours_.store(nullptr, std::memory_order_relaxed);
  neighbour_list_.reset();
  no_neighbours_.reset();
  for (auto& pool : custom_stacks_) delete pool.exchange(nullptr, std::memory_order_relaxed);
  stacks_.reset();
  overload_.reset();
  ready_waits_ = {};
  worker_slots_ = {};
  v1_ = nullptr;
  v2_ = nullptr;
  policy_.reset();
}

bool SchedulingGroup::CanReopen(const Options& options) const {
  // The poller's, and where the group itself lies. The clock is a test's.
  return options.id == options_.id && options.node == options_.node;
}

void SchedulingGroup::Reopen(const Options& options) {
  WEFT_CHECK(policy_ == nullptr && CanReopen(options), "SchedulingGroup::Reopen: group ", id(), " was not closed");
  options_ = options;
  try {
    MakeParts();
  } catch (...) {
    Close();  // No memory: as it was.
    throw;
  }
  // relaxed, all: published by the last store.
  for (auto& stolen : stolen_out_) stolen.store(0, std::memory_order_relaxed);
  steal_requested_.store(false, std::memory_order_relaxed);
  start_gate_.Open();
  stopping_.store(false, std::memory_order_release);  // The parts. Pairs with the acquire in stopping().
}

context::StackPool* SchedulingGroup::StacksOfSize(std::size_t bytes, std::size_t guard_bytes) {
  WEFT_CHECK(bytes <= kMaxStackSize, "SchedulingGroup: a stack of ", bytes, " bytes, ", kMaxStackSize, " is the most");
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kMinStackSize));
  WEFT_CHECK(guard_bytes <= kMaxGuardSize, "SchedulingGroup: a guard of ", guard_bytes, " bytes, ", kMaxGuardSize,
             " is the most");
  const std::size_t rounded_guard = std::bit_ceil(std::max(guard_bytes, kMinGuardSize));
  const auto size_index = static_cast<std::size_t>(std::countr_zero(rounded / kMinStackSize));
  const auto guard_index =
      guard_bytes == 0 ? 0 : static_cast<std::size_t>(1 + std::countr_zero(rounded_guard / kMinGuardSize));
  std::atomic<context::StackPool*>& place = custom_stacks_[size_index * kGuards + guard_index];
  // acquire: the pool. Pairs with the release below.
  if (context::StackPool* pool = place.load(std::memory_order_acquire)) return pool;
  std::lock_guard guard(make_custom_stacks_);
  context::StackPool* pool = place.load(std::memory_order_relaxed);  // Written under the mutex.
  if (pool == nullptr) {
    context::StackPool::Options stacks = StackOptions(this, options_, rounded);
    if (guard_bytes != 0) stacks.guard_size = rounded_guard;
    // A group may have one for each size, and few stacks in most.
    stacks.first_arena_size = std::min(stacks.first_arena_size, kFirstArenaOfOtherSize);
    try {
      pool = new context::StackPool(stacks);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    place.store(pool, std::memory_order_release);
  }
  return pool;
}

void SchedulingGroup::AddWithoutStack(FiberEntity* fiber) {
  {
    base::SpinLockGuard guard(without_stack_lock_);
    fiber->next = nullptr;
    (without_stack_ == nullptr ? without_stack_ : last_without_stack_->next) = fiber;
    last_without_stack_ = fiber;
    without_stack_count_.fetch_add(1, std::memory_order_relaxed);  // A late look costs kRetryStackEvery (SG2).
  }
  // Those that sleep may have stacks in their caches, and sleep without a limit.
  const WorkerBase* caller = CurrentWorker();
  for (unsigned w = 0; w < size(); ++w) {
    if (static_cast<int>(w) != WorkerOf(caller, this)) Unpark(w);
  }
  try {
    WEFT_LOG_EVERY_SECOND(WARNING, "SchedulingGroup ", id(), ": no stack for fiber ", fiber->id(),
                          ", it waits until another fiber ends (what there is not enough of, the stack pool says)");
  } catch (const std::bad_alloc&) {
    // No memory for the line either.
  }
}

void SchedulingGroup::RetryWithoutStack() {
  FiberEntity* fiber;
  {
    base::SpinLockGuard guard(without_stack_lock_);
    fiber = without_stack_;
    if (fiber == nullptr) return;
    without_stack_ = fiber->next;
    without_stack_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  Ready(fiber, ReadyReason::kYielded);
}

std::vector<std::span<const std::byte>> SchedulingGroup::Memory() const {
  std::vector<std::span<const std::byte>> memory = policy_->Memory();
  memory.push_back(std::as_bytes(std::span(this, 1)));
  memory.push_back(std::as_bytes(worker_slots_.objects()));
  memory.push_back(std::as_bytes(ready_waits_.objects()));
  return memory;
}

std::size_t SchedulingGroup::TrimIdleMemory() {
  context::CheckOverflowHandler();
  // A stack that keeps its memory costs a page fault less when it is next used.
  std::size_t left = stacks_->Trim(options_.warm_stacks, kStacksPerTrim);
  for (auto& place : custom_stacks_) {
    // acquire: as in StacksOfSize().
    if (context::StackPool* pool = place.load(std::memory_order_acquire)) left += pool->Trim(0, kStacksPerTrim);
  }
  return left + EntityPool::Trim();
}

}  // namespace weft::scheduling_group
