// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/queue/timer_shard.h"

#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <new>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/events/recorder.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::timer {
namespace {

// The sets of the running groups: by group id, and without gaps those for threads that belong to no group.
std::atomic<ShardSet*> by_group[ShardSet::kMaxGroups];
std::atomic<ShardSet*> running[ShardSet::kMaxGroups];
std::atomic<unsigned> running_count{0};

struct Pool {
  std::mutex mutex;  // also guards writes to the three above
  ShardSet* free = nullptr;
  ShardSet* kept = nullptr;
};
Pool& ThePool() {
  static Pool* pool = new Pool;  // Never destroyed: threads may outlive static destructors.
  return *pool;
}

std::atomic<unsigned> next_ordinal{0};
thread_local unsigned ordinal_plus_one = 0;
thread_local ShardSet* set_of_thread = nullptr;

WEFT_TLS_ACCESSOR unsigned OrdinalOfThread() noexcept {
  base::OpaqueBarrier();
  // relaxed: a number, nothing else.
  if (ordinal_plus_one == 0) ordinal_plus_one = next_ordinal.fetch_add(1, std::memory_order_relaxed) + 1;
  return ordinal_plus_one - 1;
}

WEFT_COLD TimerShard* MakeShards(unsigned count, int node) {
  const std::size_t bytes = count * sizeof(TimerShard);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WEFT_CHECK(memory != MAP_FAILED, "no memory for the timers of a scheduling group");
  if (const std::error_code error = numa::BindMemory(memory, bytes, node)) {
    WEFT_LOG(WARNING, "timers of node ", node, " are kept elsewhere: ", error.message());
  }
  auto* shards = static_cast<TimerShard*>(memory);
  for (unsigned i = 0; i < count; ++i) ::new (&shards[i]) TimerShard;
  return shards;
}

}  // namespace

void TimerShard::GiveUp() noexcept {
  lock.lock();
  const bool announce = tick_.GiveUp(queue_.NextWakeup());
  const Tick next = tick_.next();
  lock.unlock();
  if (announce) Announce(next);
}

void TimerShard::FireAndGiveUp() noexcept {
  FireContext context;
  std::size_t count = 0;
  lock.lock();
  const Tick now = TickOfNow(clock_->now());
  Tick first = now;
  const Tick end = tick_.EndOfKept(now);
  if (end > queue_.present()) {  // Else nothing is before it, and Advance() would take what is due at the present.
    // kMore: next() says the same.
    static_cast<void>(queue_.Advance(end - 1, FireContext::kCapacity, [&](TimerNode* node) {
      if (count++ == 0) first = node->tick;
      node->fire(node, &context);
    }));
  }
  const bool announce = tick_.GiveUp(queue_.NextWakeup());
  const Tick next = tick_.next();
  lock.unlock();
  if (count != 0) {
    fired_->by_workers.fetch_add(count, std::memory_order_relaxed);  // Statistics, as the next.
    fired_->lateness.RecordByMany(BeginOfTick(now) - BeginOfTick(first), count);
    scheduling_group::Recorder::Note(scheduling_group::EventKind::kTimers, context.ready_count(), 0);
  }
  // At the level of fibers that a timer has woken (global_queue.h), whoever fires it.
  if (context.ready_count() != 0) {
    scheduling_group::UnparkRemote(context.ready(), context.ready_count(), /*as_from_outside=*/true);
  }
  if (announce) Announce(next);
}

WEFT_COLD ShardSet::ShardSet(unsigned workers, int node)
    : workers_(workers), node_(node), shards_(MakeShards(workers + kOutsideShards, node)) {
  for (unsigned i = 0; i < size(); ++i) shards_[i].Install(&alarm_, &housekeeping_, &*fired_, node);
}

WEFT_COLD ShardSet* ShardSet::Borrow(unsigned workers, int node, const base::Clock* clock) {
  ShardSet* set = nullptr;
  {
    Pool& pool = ThePool();
    std::lock_guard guard(pool.mutex);
    for (ShardSet** link = &pool.free; *link != nullptr; link = &(*link)->next_free_) {
      if ((*link)->workers_ != workers || (*link)->node_ != node) continue;
      set = *link;
      *link = set->next_free_;
      break;
    }
  }
  if (set == nullptr) {
    set = new ShardSet(workers, node);
  } else {
    set->fired_.emplace();
  }
  for (unsigned i = 0; i < set->size(); ++i) set->shards_[i].Open(clock);
  return set;
}

WEFT_COLD void ShardSet::GiveBack() {
  Pool& pool = ThePool();
  std::lock_guard guard(pool.mutex);
  next_free_ = pool.free;
  pool.free = this;
}

WEFT_COLD void ShardSet::Keep() {
  Pool& pool = ThePool();
  std::lock_guard guard(pool.mutex);
  next_free_ = pool.kept;
  pool.kept = this;
}

void ShardSet::Register(int group_id, bool to_all) {
  WEFT_CHECK(group_id >= 0 && group_id < kMaxGroups, "ShardSet: group ids are 0..", kMaxGroups - 1, ", is ", group_id);
  std::lock_guard guard(ThePool().mutex);
  WEFT_CHECK(by_group[group_id].load(std::memory_order_relaxed) == nullptr, "ShardSet: group ", group_id,
             " has timers already");
  // release: the set. Pair with the acquires in ShardOfCaller().
  if (to_all) {
    const unsigned count = running_count.load(std::memory_order_relaxed);
    running[count].store(this, std::memory_order_release);
    running_count.store(count + 1, std::memory_order_release);
  }
  by_group[group_id].store(this, std::memory_order_release);
}

WEFT_COLD void ShardSet::Unregister(int group_id) {
  std::lock_guard guard(ThePool().mutex);
  // relaxed: a thread that still finds it finds it closed (SS2).
  by_group[group_id].store(nullptr, std::memory_order_relaxed);
  const unsigned count = running_count.load(std::memory_order_relaxed);
  for (unsigned i = 0; i < count; ++i) {
    if (running[i].load(std::memory_order_relaxed) != this) continue;
    running[i].store(running[count - 1].load(std::memory_order_relaxed), std::memory_order_release);
    running_count.store(count - 1, std::memory_order_relaxed);
    break;
  }
}

TimerShard* ShardSet::OutsideShard() noexcept { return &shards_[workers_ + OrdinalOfThread() % kOutsideShards]; }

namespace {

// acquire: the set. Pairs with the release in Register().
ShardSet* SetOf(const scheduling_group::SchedulingGroup* group) noexcept {
  return by_group[static_cast<unsigned>(group->id()) % ShardSet::kMaxGroups].load(std::memory_order_acquire);
}

// Of a thread that works for a group (a blocking call of its fiber). Of one that has ended only the number is read,
// which a later group may have. nullptr: there is none, or it is a FiberLoop's (LoopGroups::kFirstId), whose timers are
// its own.
ShardSet* ServedSet() noexcept {
  const scheduling_group::SchedulingGroup* const served = scheduling_group::ServedGroup();
  constexpr auto kFirstOfLoops = static_cast<int>(scheduling_group::kMaxGroups);
  return served != nullptr && served->id() < kFirstOfLoops ? SetOf(served) : nullptr;
}

}  // namespace

TimerShard* ShardOfCaller(const scheduling_group::WorkerBase* caller) noexcept {
  ShardSet* set = nullptr;
  if (WEFT_LIKELY(caller != nullptr)) {
    set = SetOf(caller->group);
  } else if ((set = ShardSetOfThread()) == nullptr && (set = ServedSet()) == nullptr) {
    const unsigned count = running_count.load(std::memory_order_acquire);
    if (count != 0) {
      set = running[OrdinalOfThread() / ShardSet::kOutsideShards % count].load(std::memory_order_acquire);
    }
  }
  return set != nullptr ? set->ShardFor(caller) : nullptr;
}

void ForgetShardSets() noexcept {
  running_count.store(0, std::memory_order_relaxed);
  set_of_thread = nullptr;
}

void SetShardSetOfThread(ShardSet* set) noexcept {
  base::OpaqueBarrier();
  set_of_thread = set;
}

ShardSet* ShardSetOfThread() noexcept {
  base::OpaqueBarrier();
  return set_of_thread;
}

}  // namespace weft::timer
