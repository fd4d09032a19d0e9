// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SchedulingGroup: the fibers of one group of workers, and the workers' slots. It puts these parts together:
//
//   policy_dispatch.h                       where ready fibers wait (SchedulingPolicy)
//   idle_workers.h                          which workers spin and which sleep
//   worker_slot.h, reactor.h            what it keeps for each worker; how often a worker polls
//   start_when_full.h                       back-pressure: starting fibers while the queue is full
//   wake_and_steal.h                        how a ready fiber gets a worker of its own or another group
//   adoption.h                              how fibers that take turns across groups come together
//   ready_waits.h                           how long fibers wait, and whether the group is overloaded
//   group_stacks.h                          stacks, and the fibers that found none
//   loop_groups.h                         the groups of FiberLoops, whose worker has no thread of its own
//
// It is a data structure; the threads that use it are in worker.h, which it never includes.
//
// Invariants
//   SG1  Each push is followed by Notify(), so no wake-up is lost (IW1).
//   SG2  A fiber that found no stack waits in a StackWaitList. Each stack given back readies one of them, and an idle
//        worker retries at times (worker.cc). Workers that go to sleep meanwhile give back their cached stacks.
//   SG3  A spawner that waits for capacity is always woken: GA1 to GA3 in start_when_full.h.
//   SG4  Work is conserved between groups: no worker sleeps while a fiber that it may steal waits in a group whose
//        workers are all busy (RS1, RS3). A thief looks past the group-local fibers in its way. Only the group's own
//        workers take from hand-off slots (HS2).
#ifndef WEFT_SCHEDULING_GROUP_GROUP_SCHEDULING_GROUP_H_
#define WEFT_SCHEDULING_GROUP_GROUP_SCHEDULING_GROUP_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/time/clock.h"
#include "weft/context/stack/stack_pool.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/group_stacks.h"
#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/idle/reactor.h"
#include "weft/scheduling_group/idle/wake_and_steal.h"
#include "weft/scheduling_group/policy/policy_dispatch.h"
#include "weft/scheduling_group/queue/start_when_full.h"
#include "weft/scheduling_group/watch/group_attention.h"
#include "weft/scheduling_group/watch/ready_waits.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/worker_slot.h"

namespace weft::scheduling_group {

inline constexpr unsigned kMaxWorkersPerGroup = 64;

// What a group is made from.
struct GroupOptions {
  int id = 0;
  std::string name{};    // several may have the same; empty: none
  unsigned workers = 1;  // 1..64
  std::string policy = "v1";
  bool of_loop = false;                 // loop_groups.h: one worker, whose thread calls it, and PolicyLoop
  std::size_t run_queue_size = 131072;  // a power of two
  std::size_t stack_size = 131072;      // bytes
  bool guard_pages = true;
  std::size_t guard_size = 65536;            // bytes, if guard_pages
  int node = -1;                             // NUMA node of its memory (of the group itself: OnNode); -1: any
  std::vector<int> cpus{};                   // its workers may run there; empty: anywhere
  std::vector<int> worker_cpus{};            // worker i runs on this one only; empty, or -1: on `cpus`
  std::chrono::nanoseconds spin_for{5'000};  // About one futex wake and sleep: bench/base/parker_benchmark.cc
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(2);
  std::size_t warm_stacks = 1024;              // free stacks that TrimIdleMemory() leaves their memory
  std::size_t record_stack_every = 0;          // of the group's stacks (group_stacks.h); 0: none
  context::StackPool::Options stacks{};        // stack_size, guard and node above override it
  std::chrono::nanoseconds max_ready_wait{0};  // longer waits mean overload (ready_waits.h); 0: never
  // group_watch.h
  std::chrono::nanoseconds stall_warning{0};  // 0: the log says nothing
  std::size_t many_stacks = 0;                // 0: as the machine's memory wants it
  std::chrono::nanoseconds stacks_seen_every = std::chrono::seconds(1);
  const base::Clock* clock = &base::SteadyClock::Get();  // of ready fibers' waits

  bool operator==(const GroupOptions&) const = default;
};

class SchedulingGroup : public numa::NodeAllocated {
 public:
  using Options = GroupOptions;
  using WorkerSlot = scheduling_group::WorkerSlot;
  using NeighbourList = scheduling_group::NeighbourList<SchedulingGroup>;
  using Neighbour = NeighbourList::Neighbour;
  static constexpr int kSameNode = kSameNodeDistance;
  static constexpr auto kPollEvery = PollPace::kPollEvery;

  // Aborts on an option out of range (the runtime has checked what users give).
  explicit SchedulingGroup(const Options& options);
  SchedulingGroup(const SchedulingGroup&) = delete;
  SchedulingGroup& operator=(const SchedulingGroup&) = delete;

  int id() const { return id_; }
  const std::string& name() const { return options_.name; }
  // For messages: "3", or with a name "3 (batch)".
  std::string Label() const;
  // Of one of its threads, as the kernel takes it, in 15 bytes: `unnamed`, or if the group has a name
  // "<name>_<id><suffix>", where a long name is cut.
  std::string ThreadName(std::string_view unnamed, std::string_view suffix) const;
  unsigned size() const { return options_.workers; }
  int node() const { return options_.node; }
  const Options& options() const { return options_; }
  std::size_t queue_size() const { return policy().Size(); }
  std::size_t overflow_count() const { return policy().OverflowCount(); }
  EntityPool::Arena entity_arena() const noexcept { return entity_arena_; }  // where its fibers' entities come from

  // Callers of these four: a worker, a thread in a ReadSection, or a thread joined before the group is closed.
  // False: refused, because the runtime stops, or a plain thread or a fiber of another group has waited start_timeout
  // for capacity in vain; the fiber is still the caller's (DiscardFiber). From a fiber it may switch.
  [[nodiscard]] bool Start(FiberEntity* fiber);
  // As Start(), of all or none, with one wake-up pass. There may be more of them than the queue holds.
  [[nodiscard]] bool StartBatch(FiberEntity* const* fibers, std::size_t count);
  // The caller owns the fibers, which are kReady (FS3). They never fail (run_queue.h), block or switch.
  void Ready(FiberEntity* fiber, ReadyReason reason);
  // as_from_outside: as if no worker of the group did it.
  void ReadyBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, bool as_from_outside = false);

  // From now on Start() refuses threads other than workers; after Stop() all.
  void RefuseNewFibers() { start_gate_.Refuse(); }
  // Wakes all workers. Each ends at its next visit to the scheduler, and leaves ready fibers where they are.
  void Stop();
  // After Stop(), when the workers have ended, or were left behind: its unfinished fibers never run (runtime_end.h).
  void Abandon() { attention_.SetAbandoned(); }
  bool abandoned() const noexcept { return attention_.abandoned(); }
  // Frees the memory of its parts. After Stop(), when all workers are joined, no fiber is left, and all ReadSections
  // that found it open have ended. Later only these functions, stopping(), id() and reactor() may be called.
  void Close();
  // After Close(): makes it as new, with other options, as far as CanReopen() allows.
  void Reopen(const Options& options);
  bool CanReopen(const Options& options) const;

  // Workers call it on their way to sleep, so it must be short. To be set before the workers start.
  struct IdleHook {
    void (*call)(void* arg) = nullptr;
    void* arg = nullptr;
  };
  void SetIdleHook(IdleHook hook) { idle_hook_ = hook; }

  // It polls for input and output while workers have nothing else to do; nullptr: there is none yet. Any thread.
  Reactor* reactor() const { return reactor_.Get(); }
  // Once; the group then owns it. Any thread. False: there is one already, and `poller` was destroyed.
  bool SetReactor(std::unique_ptr<Reactor> poller) { return reactor_.Set(std::move(poller)); }
  // Of a loop group, set once before its use. Any thread calls it, to end the worker's wait elsewhere (Parker).
  struct LoopHook {
    void (*wake)(void* arg) noexcept = nullptr;
    void* arg = nullptr;
  };
  void SetLoopHook(LoopHook hook) { loop_hook_ = hook; }
  const LoopHook& loop_hook() const noexcept { return loop_hook_; }
  bool of_loop() const noexcept { return options_.of_loop; }
  // After Stop(), and before the next loop: its poller serves again.
  void GoOn() { attention_.ClearStopping(); }

  // Any thread. If nobody spins, a sleeper wakes up, searches, and goes to sleep again, in the poll if that is free.
  void WakeToPoll() { (void)WakeSleeper(*this); }

  // Nearest first. Once after construction or Reopen(), before the workers start.
  void SetNeighbours(const std::vector<Neighbour>& neighbours) { parts_->neighbours.Publish(neighbours); }

  // Any thread. Gives memory of free stacks and ended fibers back to the OS. Returns 0 when nothing is left to trim.
  std::size_t TrimIdleMemory();
  context::StackPool& stacks() { return parts_->stacks.pool(); }
  GroupStacks& group_stacks() { return parts_->stacks; }
  const GroupStacks& group_stacks() const { return parts_->stacks; }

  // Whether its ready fibers wait too long for more to be started. Spawners may heed it; Start() does not. Any thread.
  bool IsOverloaded() const noexcept { return parts_->ready_waits.overload().overloaded(); }
  // By the Watchdog, while the workers' threads are there.
  void LookAtReadyFibers() noexcept;

  // counters.h
  const OverloadDetector& overload() const { return parts_->ready_waits.overload(); }
  std::uint64_t starts_refused() const { return starts_refused_.load(std::memory_order_relaxed); }
  const WorkerCounters& counters(unsigned worker) const { return parts_->worker_slots[worker].counters; }
  const WaitRecorder& ready_waits(unsigned worker) const { return parts_->ready_waits.recorders()[worker]; }
  const std::atomic<std::uint64_t>& stolen_out(bool same_node) const { return stolen_out_[same_node]; }
  // Its memory on its node, without stacks and fibers; for reports and tests.
  std::vector<std::span<const std::byte>> Memory() const;

  // --- For worker.cc, and the templates idle_loop.h, wake_and_steal.h and start_when_full.h ---

  bool stopping() const noexcept { return attention_.stopping(); }
  // Before a fiber is taken: the group stops, or leaving is watched.
  bool needs_attention() const noexcept { return attention_.any(); }
  const GroupAttention& attention() const noexcept { return attention_; }
  WorkerSlot& worker_slot(unsigned worker) { return parts_->worker_slots[worker]; }
  IdleWorkers& idle() { return idle_; }
  const IdleWorkers& idle_workers() const { return idle_; }
  SchedulingPolicy& policy() { return *parts_->policy; }
  const SchedulingPolicy& policy() const { return *parts_->policy; }
  void CallIdleHook();
  // Ends the worker's sleep, or the next one if it is awake.
  void Unpark(unsigned worker) {
    if (worker_slot(worker).parker.Unpark()) EndWaitElsewhere();
  }
  // After a push: makes sure that a worker searches.
  void Notify() { NotifyAfterPush(*this); }
  // As Ready(). caller: CurrentWorker(); worker: its index if it is of this group, else SchedulingPolicy::kNoWorker.
  WEFT_ALWAYS_INLINE void ReadyBy(WorkerBase* caller, int worker, FiberEntity* fiber, ReadyReason reason);
  // The caller holds the fiber, which changes from its group to this one.
  void TakeOver(FiberEntity* fiber) noexcept { fiber->MoveTo(this, &fiber->group()->stacks()); }
  // adoption.h. By a worker of this group.
  bool MayAdoptFrom(const SchedulingGroup& former) const noexcept;
  bool HasMoreReadyThan(const SchedulingGroup& other) const;
  void Adopt(unsigned worker, FiberEntity* fiber) noexcept {
    WorkerCounters::Add(worker_slot(worker).counters.adopted);
    TakeOver(fiber);
  }
  // Pops the worker's next fiber, and wakes waiting spawners if that frees capacity.
  WEFT_ALWAYS_INLINE FiberEntity* PopFor(unsigned worker);
  WEFT_ALWAYS_INLINE FiberEntity* PopWithoutAttention(unsigned worker);  // the same, if !needs_attention()
  FiberEntity* PopForSteal(int distance);  // as PopFor(), of fibers that may leave the group

  const NeighbourList& neighbours() const { return parts_->neighbours.Get(); }
  static IdleGroups& idle_groups() noexcept { return all_idle_groups_; }
  int slot() const noexcept { return slot_.Get(); }
  std::span<SchedulingGroup* const> partners() const { return neighbours().partners; }
  const IdleGroups::Mask& partner_mask() const { return neighbours().partner_mask; }
  base::Atomic<bool>& steal_requested() noexcept { return steal_requested_; }
  bool HasStealable() const { return policy().HasStealable(); }
  bool MayStealFrom(const SchedulingGroup& loaded) const { return neighbours().MayStealFrom(loaded); }
  // Wakes a sleeping worker of this group, claimed by the caller, with an errand to search `where`.
  void Send(unsigned worker, SchedulingGroup* where) {
    // release: what the caller did before. Pairs with the acquire in TakeErrandFrom().
    worker_slot(worker).sent_to.store(where, std::memory_order_release);
    Unpark(worker);
  }

  // A start, or a batch of them, that found no room in time.
  void CountRefusedStart() noexcept { starts_refused_.fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] bool WaitForCapacity(Deadline deadline) {  // a plain thread
    return start_gate_.WaitForCapacity(deadline, [this] { return policy().Full(); });
  }

  // ready_waits.h
  void RecordReadyWait(unsigned worker, FiberEntity* fiber) noexcept;
  void RecordStolenWait(unsigned worker, FiberEntity* fiber) noexcept;
  void RestartWait(FiberEntity* fiber) const noexcept { parts_->ready_waits.RestartWait(fiber); }

  context::StackPool* StacksOfSize(std::size_t bytes, std::size_t guard_bytes) {
    return parts_->stacks.OfSize(bytes, guard_bytes);
  }
  bool HasFibersWithoutStack() const { return !stack_waiters_.Empty(); }
  void AddWithoutStack(FiberEntity* fiber);
  void StackGivenBack() {
    if (FiberEntity* fiber = stack_waiters_.Take()) Ready(fiber, ReadyReason::kYielded);
  }

 private:
  friend struct GdbOffsets;

  // Freed by Close() and made anew by Reopen().
  struct Parts {
    Parts(SchedulingGroup* group, const Options& options);

    PolicyDispatch policy;
    const numa::NodeArray<WorkerSlot> worker_slots;
    ReadyWaits ready_waits;
    Neighbours<SchedulingGroup> neighbours;
    GroupStacks stacks;
  };

  WEFT_ALWAYS_INLINE bool RefusesStartOf(const WorkerBase* caller) const noexcept {
    return start_gate_.refusing() && (caller == nullptr || stopping());
  }
  WEFT_ALWAYS_INLINE FiberEntity* PopNow(unsigned worker);
  FiberEntity* PollAndPop(unsigned worker);
  void EndWaitElsewhere();
  // After a push with a full fence, as Notify(). local: only this group may run the fiber.
  WEFT_ALWAYS_INLINE void NotifyAfterFence(bool local, int worker);
  // Before a push: counts it, and stamps its fiber if it is a sample.
  WEFT_ALWAYS_INLINE void SamplePush(WorkerBase* caller, FiberEntity* fiber, ReadyReason reason) noexcept;
  void StampFiber(WorkerBase* caller, FiberEntity* fiber, ReadyReason reason) noexcept;
  // Before a push: records it, if all are recorded.
  WEFT_ALWAYS_INLINE void RecordIfAll(WorkerBase* caller, FiberEntity* fiber, ReadyReason reason) noexcept {
    if (attention_.any()) [[unlikely]] {
      RecordPush(caller, fiber, reason);
    }
  }
  void RecordPush(WorkerBase* caller, FiberEntity* fiber, ReadyReason reason) noexcept;
  WEFT_ALWAYS_INLINE void CapacityFreed() {  // after a pop
    start_gate_.CapacityFreed([this] { return policy().HalfEmpty(); });
  }

  static IdleGroups all_idle_groups_;  // Of the process. Never destroyed: threads push even while the process ends.

  const int id_;
  const IdleGroupSlot slot_;
  const EntityPool::Arena entity_arena_;
  Options options_;  // Reopen() changes them
  IdleWorkers idle_;
  GroupAttention attention_;
  StartGate start_gate_;
  StackWaitList stack_waiters_;
  IdleHook idle_hook_;
  LoopHook loop_hook_;
  alignas(base::kCacheLineSize) std::array<std::atomic<std::uint64_t>, 2> stolen_out_{};  // to other nodes, within ours
  std::atomic<std::uint64_t> starts_refused_{0};
  alignas(base::kCacheLineSize) base::Atomic<bool> steal_requested_{false};  // RS2
  std::optional<Parts> parts_;  // Large: what each switch reads comes before it, or first in it.
  ReactorOwner reactor_;        // Last: until it is gone, its watchdog may wake a worker.
};

// Inline: what each switch and each wake-up runs (policy_dispatch.h).

// The caller's index if it is a worker of `group`, else kNoWorker.
WEFT_ALWAYS_INLINE int WorkerOf(const WorkerBase* caller, const SchedulingGroup* group) noexcept {
  return caller != nullptr && caller->group == group ? static_cast<int>(caller->index) : SchedulingPolicy::kNoWorker;
}

WEFT_ALWAYS_INLINE void SchedulingGroup::SamplePush(WorkerBase* caller, FiberEntity* fiber,
                                                    ReadyReason reason) noexcept {
  if (PushCountdownOf(caller).Count()) [[unlikely]] {
    StampFiber(caller, fiber, reason);
  }
}

WEFT_ALWAYS_INLINE void SchedulingGroup::NotifyAfterFence(bool local, int worker) {
  scheduling_group::NotifyAfterFence(*this, local, [this, worker] {
    return worker != SchedulingPolicy::kNoWorker && policy().MustNotify(static_cast<unsigned>(worker));
  });
}

WEFT_ALWAYS_INLINE void SchedulingGroup::ReadyBy(WorkerBase* caller, int worker, FiberEntity* fiber,
                                                 ReadyReason reason) {
  if (reason == ReadyReason::kWoken) RecordIfAll(caller, fiber, reason);
  SamplePush(caller, fiber, reason);
  const bool local = fiber->group_local();  // After the push it is another's.
  if (reason != ReadyReason::kWoken || worker == SchedulingPolicy::kNoWorker ||
      !parts_->policy.TryHandOffAndFence(fiber, static_cast<unsigned>(worker))) {
    parts_->policy.PushAndFence(fiber, reason, worker);
  }
  NotifyAfterFence(local, worker);
}

WEFT_ALWAYS_INLINE FiberEntity* SchedulingGroup::PopNow(unsigned worker) {
  bool must_notify = false;
  FiberEntity* fiber = parts_->policy.Pop(worker, &must_notify);
  if (must_notify) [[unlikely]] {
    Notify();
  }
  CapacityFreed();
  return fiber;
}

WEFT_ALWAYS_INLINE FiberEntity* SchedulingGroup::PopFor(unsigned worker) {
  if (stopping()) [[unlikely]] {
    return nullptr;
  }
  return PopWithoutAttention(worker);
}

WEFT_ALWAYS_INLINE FiberEntity* SchedulingGroup::PopWithoutAttention(unsigned worker) {
  if (worker_slot(worker).poll_pace.CountPop()) [[unlikely]] {
    return PollAndPop(worker);
  }
  return PopNow(worker);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_SCHEDULING_GROUP_H_
