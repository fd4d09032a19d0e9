// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SchedulingGroup: the fibers of one group of workers, and the workers' slots.
//
// A data structure: ready fibers (a SchedulingPolicy), which workers idle (IdleWorkers), stacks (StackPool), the groups
// to steal from. The threads that use it are in worker.h; the group never includes them.
//
// Starting fibers is where back-pressure lives:
//   from a plain thread   a full queue makes the caller wait until it is half empty, up to `start_timeout`, then false
//   from a fiber          the new fiber runs at once on the caller's worker, which goes on when that one waits or ends:
//                         no worker is blocked, a fiber that starts millions goes on as fast as they are run, and a
//                         tree of fibers is run depth first (Worker::RunInstead)
// Making an existing fiber ready never fails (overflow_list.h).
//
// Invariants
//   SG1  Each push is followed by Notify(), so no wake-up is lost (IW1).
//   SG2  A fiber that found no stack is kept in `without_stack_`; each stack given back puts one of them into the queue
//        again, and so does an idle worker every kRetryStackEvery (worker.cc). While there is one, workers that go to
//        sleep give back the stacks they have cached.
//   SG3  A spawner that waits for capacity is woken: start_gate.h.
//   SG4  Work is conserved between groups that steal from each other, whatever their number, their nodes and their
//        steal_every_n, and whatever group-local fibers wait among the others (steal_request.h): no worker sleeps while
//        a fiber that it may steal waits in a group whose workers are all busy. Who makes a fiber ready while they are
//        looks, after its push and a full fence, for sleepers in the other groups, and sends the nearest one; the
//        spinner that was the last free worker and leaves fibers behind does the same, and so does a thief. A worker
//        that goes to sleep announces it, full fence, and tries to steal from each of them in which nobody searches. So
//        such a fiber is seen by one that sleeps, or by the next that would; behind more than 64 group-local ones by
//        searches a millisecond apart, each 64 further on. A hand-off slot is for the group's own workers (HS2).
//   SG5  steal_every_n is the rate at which workers look at another group by themselves, without a request. Nothing of
//        SG4 depends on it, but that 0 means never; and on the distance depends who is woken first.
//
// Lock order: without_stack_lock_ is held alone (base/spin_lock.h).
#ifndef WEFT_SCHEDULING_GROUP_SCHEDULING_GROUP_H_
#define WEFT_SCHEDULING_GROUP_SCHEDULING_GROUP_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/deadline.h"
#include "weft/base/parker.h"
#include "weft/base/spin_lock.h"
#include "weft/context/stack_pool.h"
#include "weft/numa/node_memory.h"
#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/entity_pool.h"
#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/idle_groups.h"
#include "weft/scheduling_group/idle_poller.h"
#include "weft/scheduling_group/idle_workers.h"
#include "weft/scheduling_group/overload_detector.h"
#include "weft/scheduling_group/policy_v1.h"
#include "weft/scheduling_group/policy_v2.h"
#include "weft/scheduling_group/scheduling_policy.h"
#include "weft/scheduling_group/start_gate.h"
#include "weft/scheduling_group/wait_histogram.h"
#include "weft/scheduling_group/worker_counters.h"

namespace weft::scheduling_group {

inline constexpr unsigned kMaxWorkersPerGroup = 64;

class SchedulingGroup : public numa::NodeAllocated {
 public:
  static constexpr std::size_t kMinStackSize = std::size_t{1} << 14;  // of a fiber that asks for its own size
  static constexpr std::size_t kMaxStackSize = std::size_t{1} << 30;
  static constexpr std::size_t kMinGuardSize = std::size_t{1} << 12;  // likewise
  static constexpr std::size_t kMaxGuardSize = std::size_t{1} << 24;

  struct Options {
    int id = 0;
    unsigned workers = 1;  // 1..64
    std::string policy = "v1";
    std::size_t run_queue_size = 131072;  // a power of two
    std::size_t stack_size = 131072;      // bytes
    bool guard_pages = true;
    std::size_t guard_size = 65536;            // bytes, if guard_pages
    int node = -1;                             // NUMA node of its memory (of the group itself: OnNode); -1: any
    std::vector<int> cpus{};                   // where its workers may run; empty: anywhere
    std::vector<int> worker_cpus{};            // worker i on this one only; empty, or -1: on `cpus`
    std::chrono::nanoseconds spin_for{5'000};  // About one futex wake and sleep: bench/base/parker_benchmark.cc
    std::chrono::nanoseconds start_timeout = std::chrono::seconds(2);
    std::size_t warm_stacks = 1024;              // TrimIdleMemory() keeps so many free stacks with their memory
    context::StackPool::Options stacks{};        // stack_size, guard and node above win
    std::chrono::nanoseconds max_ready_wait{0};  // beyond it the group is overloaded (overload_detector.h); 0: never
    const base::Clock* clock = &base::SteadyClock::Get();  // of ready fibers' waits
  };

  // Aborts on an option out of range (the runtime has checked what users give).
  explicit SchedulingGroup(const Options& options);
  ~SchedulingGroup();
  SchedulingGroup(const SchedulingGroup&) = delete;
  SchedulingGroup& operator=(const SchedulingGroup&) = delete;

  int id() const { return id_; }
  unsigned size() const { return options_.workers; }
  int node() const { return options_.node; }
  const Options& options() const { return options_; }
  std::size_t queue_size() const { return policy_->Size(); }
  std::size_t overflow_count() const { return policy_->OverflowCount(); }

  // These four: a worker, or a thread in an OutsideSection, or one that is joined before the group is closed.
  // Submits a new fiber. False: refused, and the fiber still the caller's (DiscardFiber): the runtime is
  // stopping, or a plain thread waited for capacity in vain. From a fiber it may switch.
  [[nodiscard]] bool Start(FiberEntity* fiber);

  // All or none; one wake-up pass; more than the queue holds is fine. Otherwise as Start().
  [[nodiscard]] bool StartBatch(FiberEntity* const* fibers, std::size_t count);

  // The caller owns the fibers, which are kReady (FS3). Never fails, never blocks, never switches.
  void Ready(FiberEntity* fiber, ReadyReason reason);
  void ReadyBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason);

  // From now on Start() from threads other than workers refuses.
  void RefuseNewFibers();
  // Workers end at their next visit to the scheduler, even if fibers are ready: these stay where they are. Wakes them
  // all.
  void Stop();
  // After Stop(), with all workers joined, no fiber left and all OutsideSections over that found it open: the memory of
  // its parts goes back. Of its functions only these and stopping(), id() and idle_poller() may be called.
  void Close();
  // After Close(): as new, with other options, but for what cannot change: CanReopen().
  void Reopen(const Options& options);
  bool CanReopen(const Options& options) const;

  // Called by workers on their way to sleep, e.g. to have memory trimmed later; must be short. Before the workers
  // start.
  struct IdleHook {
    void (*call)(void* arg) = nullptr;
    void* arg = nullptr;
  };
  void SetIdleHook(IdleHook hook) { idle_hook_ = hook; }

  // Who polls for input and output while workers have nothing else to do; nullptr: nobody yet. Any thread.
  // acquire: the object. Pairs with the release in SetIdlePoller().
  IdlePoller* idle_poller() const { return idle_poller_.load(std::memory_order_acquire); }
  // Once, from then on the group's. Any thread; false: there is one already, and `poller` was destroyed.
  bool SetIdlePoller(std::unique_ptr<IdlePoller> poller);
  // By the poller: if a worker sleeps and nobody spins, one wakes up, searches, and goes to sleep again, in the poll if
  // it is free. Any thread.
  void WakeToPoll() { (void)WakeSleeper(); }

  // Groups that it steals from, nearest first, and to which it sends steal requests when a fiber has to wait (SG4);
  // before the workers start. steal_every_n: without a request, an attempt at each n-th idle search; 0: never, and it
  // sends no requests to that group.
  struct Neighbour {
    SchedulingGroup* group;
    unsigned steal_every_n;
    int distance = kSameNode;  // between the NUMA nodes of the two, as in the ACPI table
    bool operator==(const Neighbour&) const = default;
  };
  static constexpr int kSameNode = 10;
  // Once, since it was made or reopened.
  void SetNeighbours(std::vector<Neighbour> neighbours);

  // Stacks and the memory of ended fibers back to the OS; returns 0 when nothing is left to trim. Any thread, by
  // housekeeping.
  std::size_t TrimIdleMemory();
  bool HasFibersWithoutStack() const { return without_stack_count_.load(std::memory_order_relaxed) != 0; }
  context::StackPool& stacks() { return *stacks_; }

  // Whether its ready fibers wait too long to start more of them, which is the spawner's to heed: no start is refused
  // for it here. Any thread; some 2 ns as long as the answer is no.
  bool IsOverloaded() noexcept { return overload_->overloaded() && StillOverloaded(); }

  // counters.h
  std::uint64_t overloads() const { return overload_->times(); }
  const WorkerCounters& counters(unsigned worker) const { return worker_slots_[worker].counters; }
  const WaitRecorder& ready_waits(unsigned worker) const { return ready_waits_[worker]; }
  const std::atomic<std::uint64_t>& stolen_out(bool same_node) const { return stolen_out_[same_node]; }
  const IdleWorkers& idle_workers() const { return idle_; }
  // The pieces of memory on its node, without stacks and fibers; for reports and tests.
  std::vector<std::span<const std::byte>> Memory() const;
  // Where its fibers' entities come from.
  EntityPool::Arena entity_arena() const noexcept { return entity_arena_; }

  // --- For worker.cc ---

  // A worker that is never idle polls about so often, and looks at the clock at least every so many fibers.
  static constexpr std::chrono::microseconds kPollEvery{20};
  static constexpr std::uint32_t kMostPopsPerPoll = 64;

  struct alignas(base::kCacheLineSize) WorkerSlot {
    base::Parker parker;
    // With a claim of the sleeping worker: where it is to look (idle_loop.h).
    base::Atomic<SchedulingGroup*> sent_to{nullptr};
    // The worker's own, what follows.
    std::uint32_t pops_until_poll = 1;  // PollAtTick(), all three
    std::uint32_t pops_per_poll = 1;
    std::chrono::steady_clock::time_point last_tick_at;
    PushSampler push_sampler;
    WorkerCounters counters;
  };
  WorkerSlot& worker_slot(unsigned worker) { return worker_slots_[worker]; }
  struct NeighbourList {
    NeighbourList(std::vector<Neighbour> neighbours, unsigned workers);
    StealCounters& counters(unsigned worker, std::size_t neighbour) const {
      return counters_[worker * all.size() + neighbour];
    }
    const std::vector<Neighbour> all;
    // Those with steal_every_n not 0, nearest first.
    std::vector<SchedulingGroup*> partners;
    IdleGroups::Mask partner_mask;

   private:
    const std::unique_ptr<StealCounters[]> counters_;
  };
  IdleWorkers& idle() { return idle_; }
  SchedulingPolicy& policy() { return *policy_; }
  const SchedulingPolicy& policy() const { return *policy_; }
  // acquire: pairs with the release in SetNeighbours().
  const NeighbourList& neighbours() const { return *neighbours_.load(std::memory_order_acquire); }
  // For steal_request.h.
  static IdleGroups& idle_groups() noexcept { return all_idle_groups; }
  int slot() const noexcept { return slot_; }
  const std::vector<SchedulingGroup*>& partners() const { return neighbours().partners; }
  const IdleGroups::Mask& partner_mask() const { return neighbours().partner_mask; }
  // After a fence as in RequestSteal(), whose first check this is, without a call.
  bool APartnerMayIdle() const noexcept { return all_idle_groups.MayIdle(partner_mask()); }
  base::Atomic<bool>& steal_requested() noexcept { return steal_requested_; }
  bool HasStealable() const { return policy_->HasStealable(); }
  bool MayStealFrom(const SchedulingGroup& loaded) const {
    for (const Neighbour& neighbour : neighbours().all) {
      if (neighbour.group == &loaded) return neighbour.steal_every_n != 0;
    }
    return false;
  }
  // To a sleeping worker of this group that the caller has claimed.
  void Send(unsigned worker, SchedulingGroup* where) {
    // release: what the caller did. Pairs with the acquire in Worker::TakeOrder().
    worker_slots_[worker].sent_to.store(where, std::memory_order_release);
    Unpark(worker);
  }
  void CallIdleHook();
  // Ends its sleep, or keeps it from the next one.
  void Unpark(unsigned worker) {
    if (worker_slots_[worker].parker.Unpark()) idle_poller()->Interrupt();
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }  // Pairs with the release in Stop().
  // After a push: sees to it that a worker searches.
  void Notify();
  // The same after PushAndFence() and TryPushNewAndFence(). local: only this group may run the fiber.
  WEFT_ALWAYS_INLINE void NotifyAfterFence(bool local, int worker);
  // As Ready(). caller: CurrentWorker(); worker: its index if it is of this group, else SchedulingPolicy::kNoWorker.
  WEFT_ALWAYS_INLINE void ReadyBy(WorkerBase* caller, int worker, FiberEntity* fiber, ReadyReason reason);
  // The worker's next fiber; frees capacity for spawners that wait.
  WEFT_ALWAYS_INLINE FiberEntity* PopFor(unsigned worker);
  FiberEntity* PopForSteal(int distance);  // one that may leave the group; as above
  // The fiber, which has a stamp, is run now by this worker; the second: and was stolen.
  void RecordReadyWait(unsigned worker, FiberEntity* fiber) noexcept;
  void RecordStolenWait(unsigned worker, FiberEntity* fiber) noexcept;
  // A pool for each power of two, so that fibers of many sizes share few; likewise for guards (0: the group's).
  // nullptr: there is no memory for it.
  context::StackPool* StacksOfSize(std::size_t bytes, std::size_t guard_bytes);
  void AddWithoutStack(FiberEntity* fiber);
  void StackGivenBack() {
    // relaxed: a late look costs a timed one (SG2).
    if (without_stack_count_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      RetryWithoutStack();
    }
  }

 private:
  // Pushes, each with a full fence after it (IW1).
  WEFT_ALWAYS_INLINE void PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker);
  WEFT_ALWAYS_INLINE bool TryHandOffAndFence(FiberEntity* fiber, unsigned worker);
  WEFT_ALWAYS_INLINE bool TryPushNewAndFence(FiberEntity* fiber, int worker);
  WEFT_ALWAYS_INLINE FiberEntity* PopFromPolicy(unsigned worker, bool* must_notify);
  WEFT_ALWAYS_INLINE FiberEntity* PopNow(unsigned worker);
  bool WakeOne();                               // false: somebody searches already, or nobody sleeps
  WEFT_ALWAYS_INLINE bool WakeOneAfterFence();  // the same, after a push with a full fence
  WEFT_ALWAYS_INLINE void CapacityFreed();      // after a pop
  // Before a push, each: it is counted, and its fiber may get a stamp.
  WEFT_ALWAYS_INLINE void SamplePush(WorkerBase* caller, FiberEntity* fiber) noexcept;
  void SamplePushes(WorkerBase* caller, FiberEntity* const* fibers, std::size_t count) noexcept;
  bool StillOverloaded() noexcept;
  void StampFiber(WorkerBase* caller, FiberEntity* fiber) noexcept;

  bool WakeSleeper();
  FiberEntity* PollAndPop(unsigned worker);
  void PauseBeforeWake() const noexcept;
  void RequestStealByPartners();
  void PollAtTick(unsigned worker);
  bool StartWhenFull(FiberEntity* fiber);
  bool WaitForCapacity(Deadline deadline) {  // a plain thread
    return start_gate_.WaitForCapacity(deadline, [this] { return policy_->Full(); });
  }
  void RetryWithoutStack();

  void MakeParts();

  // Of all groups of the process. Never destroyed: threads push also while the process ends.
  static IdleGroups all_idle_groups;

  const int id_;
  const int slot_;  // in IdleGroups
  const EntityPool::Arena entity_arena_;
  Options options_;  // others after Reopen()
  // Its parts: this, and below the worker slots, wait recorders, detector, neighbours and stacks.
  std::unique_ptr<SchedulingPolicy> policy_;
  // One of them, if it is that policy: for calls that can be inlined.
  PolicyV1* v1_ = nullptr;
  PolicyV2* v2_ = nullptr;
  IdleWorkers idle_;
  std::atomic<bool> stopping_{false};
  StartGate start_gate_;
  std::atomic<std::size_t> without_stack_count_{0};
  alignas(base::kCacheLineSize) std::array<std::atomic<std::uint64_t>, 2> stolen_out_{};  // to other nodes, within ours
  alignas(base::kCacheLineSize) base::Atomic<bool> steal_requested_{false};               // RS2
  numa::NodeArray<WorkerSlot> worker_slots_;
  numa::NodeArray<WaitRecorder> ready_waits_;  // by worker
  std::optional<OverloadDetector> overload_;
  std::unique_ptr<const NeighbourList> no_neighbours_;
  std::unique_ptr<const NeighbourList> neighbour_list_;  // SetNeighbours()
  std::atomic<const NeighbourList*> neighbours_{nullptr};
  IdleHook idle_hook_;
  std::atomic<IdlePoller*> idle_poller_{nullptr};
  std::optional<context::StackPool> stacks_;

  base::SpinLock without_stack_lock_;
  // First in, first out: one that can never get its stack hides none.
  FiberEntity* without_stack_ WEFT_GUARDED_BY(without_stack_lock_) = nullptr;
  FiberEntity* last_without_stack_ WEFT_GUARDED_BY(without_stack_lock_) = nullptr;

  // By the binary logarithms of the size less that of kMinStackSize, and of the guard less that of kMinGuardSize; the
  // first guard is the group's. Made when first asked for.
  static constexpr std::size_t kGuards = 1 + std::bit_width(kMaxGuardSize / kMinGuardSize);
  std::array<std::atomic<context::StackPool*>, std::bit_width(kMaxStackSize / kMinStackSize) * kGuards>
      custom_stacks_{};
  std::mutex make_custom_stacks_;
};

// What each switch and each wake-up runs, inline, with the two policies that are built in: calls, and what they save
// and restore, cost as much as all the rest (`bench/compare/run.sh --workloads switch` counts).

// The caller's index if it is a worker of `group`.
WEFT_ALWAYS_INLINE int WorkerOf(const WorkerBase* caller, const SchedulingGroup* group) noexcept {
  return caller != nullptr && caller->group == group ? static_cast<int>(caller->index) : SchedulingPolicy::kNoWorker;
}

WEFT_ALWAYS_INLINE void SchedulingGroup::PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
  if (v2_ != nullptr) {
    v2_->PushAndFence(fiber, reason, worker);
  } else if (v1_ != nullptr) {
    v1_->PushAndFence(fiber, reason, worker);
  } else {
    policy_->Push(fiber, reason, worker);
    base::ThreadFence(std::memory_order_seq_cst);
  }
}

WEFT_ALWAYS_INLINE bool SchedulingGroup::TryHandOffAndFence(FiberEntity* fiber, unsigned worker) {
  if (v2_ != nullptr) return v2_->TryHandOffAndFence(fiber, worker);
  return v1_ != nullptr && v1_->TryHandOffAndFence(fiber, worker);
}

WEFT_ALWAYS_INLINE bool SchedulingGroup::TryPushNewAndFence(FiberEntity* fiber, int worker) {
  if (v2_ != nullptr) return v2_->TryPushNewAndFence(fiber, worker);
  if (v1_ != nullptr) return v1_->TryPushNewAndFence(fiber, worker);
  if (!policy_->TryPushNew(fiber, worker)) return false;
  base::ThreadFence(std::memory_order_seq_cst);
  return true;
}

WEFT_ALWAYS_INLINE FiberEntity* SchedulingGroup::PopFromPolicy(unsigned worker, bool* must_notify) {
  if (v2_ != nullptr) return v2_->Pop(worker, must_notify);
  if (v1_ != nullptr) return v1_->Pop(worker, must_notify);
  return policy_->Pop(worker, must_notify);
}

WEFT_ALWAYS_INLINE bool SchedulingGroup::WakeOneAfterFence() {
  if (idle_.NobodyToWakeAfterFence()) [[likely]] {
    return false;
  }
  return WakeSleeper();
}

inline bool SchedulingGroup::WakeOne() { return !idle_.NobodyToWake() && WakeSleeper(); }

WEFT_ALWAYS_INLINE void SchedulingGroup::SamplePush(WorkerBase* caller, FiberEntity* fiber) noexcept {
  PushCountdown& countdown = caller != nullptr ? caller->push_countdown : ThisThreadsPushSampler().countdown;
  if (countdown.Count()) [[unlikely]] {
    StampFiber(caller, fiber);
  }
}

// For a local fiber no steal is requested, as others may not have it; but for what its push had hidden from them.
WEFT_ALWAYS_INLINE void SchedulingGroup::NotifyAfterFence(bool local, int worker) {
  if (WakeOneAfterFence() || !APartnerMayIdle()) return;
  if (!local || (worker != SchedulingPolicy::kNoWorker && policy_->MustNotify(static_cast<unsigned>(worker)))) {
    RequestStealByPartners();
  }
}

WEFT_ALWAYS_INLINE void SchedulingGroup::ReadyBy(WorkerBase* caller, int worker, FiberEntity* fiber,
                                                 ReadyReason reason) {
  SamplePush(caller, fiber);
  const bool local = fiber->group_local();  // After the push it is another's.
  if (reason != ReadyReason::kWoken || worker == SchedulingPolicy::kNoWorker ||
      !TryHandOffAndFence(fiber, static_cast<unsigned>(worker))) {
    PushAndFence(fiber, reason, worker);
  }
  NotifyAfterFence(local, worker);
}

WEFT_ALWAYS_INLINE void SchedulingGroup::CapacityFreed() {
  start_gate_.CapacityFreed([this] { return policy_->HalfEmpty(); });
}

WEFT_ALWAYS_INLINE FiberEntity* SchedulingGroup::PopNow(unsigned worker) {
  bool must_notify = false;
  FiberEntity* fiber = PopFromPolicy(worker, &must_notify);
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
  if (--worker_slots_[worker].pops_until_poll == 0) [[unlikely]] {
    return PollAndPop(worker);
  }
  return PopNow(worker);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_SCHEDULING_GROUP_H_
