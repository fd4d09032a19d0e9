// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_limiter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/exit.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft {

namespace {

using scheduling_group::EntityPool;
using scheduling_group::SchedulingGroup;

// Where a thread counts its admissions.  All is relaxed here: statistics, and the time of the next count of fibers.
struct alignas(base::kCacheLineSize) Shard {
  std::atomic<std::uint64_t> admitted{0};
  std::atomic<std::uint64_t> refused_ready_wait{0};
  std::atomic<std::uint64_t> refused_fibers{0};
  std::atomic<std::uint64_t> next_look{0};  // at live fibers, when `admitted` is so far
};

constexpr std::size_t kShards = 64;
// A count walks over all threads' counters, some nanoseconds each; over this many admissions that is negligible.
constexpr std::uint64_t kMaxAdmissionsPerLook = 256;
// A refused caller counts again after this time: seldom enough not to cost, soon enough when fibers end.
constexpr std::chrono::nanoseconds kLookAgainAfter{1'000'000};

// The last one serves all threads that find no other: they add atomically, which costs some 6 ns.
constinit std::array<Shard, kShards> shards;
constexpr std::uint64_t kOwnShards = (std::uint64_t{1} << (kShards - 1)) - 1;
constinit std::atomic<std::uint64_t> owned{0};  // a bit for each shard that is a thread's own

struct alignas(base::kCacheLineSize) Limit {
  std::atomic<std::size_t> fibers{0};      // 0: none
  std::atomic<std::size_t> unfinished{0};  // fibers of former runtimes, which do not count
  std::atomic<bool> reached{false};        // by the last look
  std::atomic<std::int64_t> looked_at{0};  // if `reached`; ns of steady_clock
};
constinit Limit limit;

constinit thread_local Shard* tls_shard = nullptr;

WEFT_TLS_ACCESSOR void SetShardOfThread(Shard* shard) {
  base::OpaqueBarrier();
  tls_shard = shard;
}

void GiveShardBack(void* shard) {
  SetShardOfThread(nullptr);
  const auto index = static_cast<std::size_t>(static_cast<Shard*>(shard) - shards.data());
  // release: the next owner continues our counts.  Pairs with the acquire in TakeShard().
  owned.fetch_and(~(std::uint64_t{1} << index), std::memory_order_release);
}

constinit base::ThreadEnd at_thread_end(&GiveShardBack);

WEFT_NOINLINE Shard& TakeShard() {
  Shard* shard = &shards.back();
  std::uint64_t found = owned.load(std::memory_order_relaxed);
  while (found != kOwnShards) {
    const auto index = static_cast<std::size_t>(std::countr_one(found));
    // acquire: what its last owner counted.  Pairs with the release in GiveShardBack().
    if (owned.compare_exchange_weak(found, found | std::uint64_t{1} << index, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      shard = &shards[index];
      (void)at_thread_end.Arm(shard);  // On failure it is lost, and its counts stay.
      break;
    }
  }
  SetShardOfThread(shard);
  return *shard;
}

WEFT_TLS_ACCESSOR Shard& ShardOfThread() {
  base::OpaqueBarrier();
  Shard* shard = tls_shard;
  return shard != nullptr ? *shard : TakeShard();
}

// Counts the fibers. True: there are too many.
WEFT_NOINLINE bool LookAtFibers(Shard& shard, std::size_t most) {
  const std::size_t alive = EntityPool::LiveFibers() - limit.unfinished.load(std::memory_order_relaxed);
  const bool reached = alive >= most;
  if (reached) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    limit.looked_at.store(now, std::memory_order_relaxed);
  } else {
    const auto sharers = static_cast<std::uint64_t>(std::popcount(owned.load(std::memory_order_relaxed))) + 1;
    const std::uint64_t share = std::clamp<std::uint64_t>((most - alive) / (8 * sharers), 1, kMaxAdmissionsPerLook);
    shard.next_look.store(shard.admitted.load(std::memory_order_relaxed) + share, std::memory_order_relaxed);
  }
  if (limit.reached.load(std::memory_order_relaxed) != reached) {
    limit.reached.store(reached, std::memory_order_relaxed);
  }
  return reached;
}

// A caller that finds the limit reached and the last count old counts again.
WEFT_NOINLINE bool StillTooManyFibers(Shard& shard, std::size_t most) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t looked_at = limit.looked_at.load(std::memory_order_relaxed);
  if (now - looked_at < kLookAgainAfter.count()) return true;
  if (!limit.looked_at.compare_exchange_strong(looked_at, now, std::memory_order_relaxed)) return true;
  return LookAtFibers(shard, most);
}

bool TooManyFibers(Shard& shard) {
  const std::size_t most = limit.fibers.load(std::memory_order_relaxed);
  if (most == 0) return false;
  if (WEFT_UNLIKELY(limit.reached.load(std::memory_order_relaxed))) return StillTooManyFibers(shard, most);
  const bool look = shard.admitted.load(std::memory_order_relaxed) >= shard.next_look.load(std::memory_order_relaxed);
  return WEFT_UNLIKELY(look) && LookAtFibers(shard, most);
}

// Of the groups that have the name of this one (PeersOf()).
SchedulingGroup* FirstNotOverloaded(const SchedulingGroup* of) {
  for (SchedulingGroup* const group : scheduling_group::PeersOf(of)) {
    if (!group->IsOverloaded()) return group;
  }
  return nullptr;
}

Admission Ask(const char* caller, Shard& shard) {
  const scheduling_group::ReadSection section;
  bool overloaded;
  if (SchedulingGroup* const own = scheduling_group::CurrentGroup()) {
    overloaded = own->IsOverloaded();
  } else {
    if (WEFT_UNLIKELY(scheduling_group::AllGroups().empty())) {
      scheduling_group::CheckRuntimeHasRun(caller);
      return Admission::kNoRuntime;
    }
    overloaded = FirstNotOverloaded(nullptr) == nullptr;
  }
  if (WEFT_UNLIKELY(overloaded)) return Admission::kReadyWait;
  return WEFT_UNLIKELY(TooManyFibers(shard)) ? Admission::kTooManyFibers : Admission::kAdmitted;
}

std::atomic<std::uint64_t>& CounterOf(Shard& shard, Admission admission) {
  switch (admission) {
    case Admission::kAdmitted:
      break;
    case Admission::kReadyWait:
      return shard.refused_ready_wait;
    case Admission::kTooManyFibers:
      return shard.refused_fibers;
    case Admission::kNoRuntime:
      break;
  }
  return shard.admitted;
}

WEFT_NOINLINE WEFT_COLD void LogRefusal(Admission admission) {
  try {
    if (admission == Admission::kReadyWait) {
      WEFT_LOG_EVERY_SECOND(WARNING, "work was refused: ", ToString(admission),
                            " (--fiber_limit_ready_wait_ms); see what keeps the workers busy "
                            "(--fiber_slice_warning_ms), or give the program more CPUs");
    } else {
      WEFT_LOG_EVERY_SECOND(WARNING, "work was refused: ", ToString(admission),
                            " are alive (--fiber_limit_fibers=", limit.fibers.load(std::memory_order_relaxed),
                            "); see what they wait for (weft::DumpFibers)");
    }
  } catch (const std::bad_alloc&) {
    // No memory for the line either.
  }
}

void Count(Shard& shard, Admission admission) {
  if (WEFT_UNLIKELY(admission != Admission::kAdmitted)) LogRefusal(admission);
  std::atomic<std::uint64_t>& counter = CounterOf(shard, admission);
  if (WEFT_UNLIKELY(&shard == &shards.back())) {
    counter.fetch_add(1, std::memory_order_relaxed);
  } else {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // Only we write it.
  }
}

}  // namespace

std::string_view ToString(Admission admission) noexcept {
  switch (admission) {
    case Admission::kAdmitted:
      return "admitted";
    case Admission::kReadyWait:
      return "ready fibers wait too long";
    case Admission::kTooManyFibers:
      return "too many fibers";
    case Admission::kNoRuntime:
      return "no runtime";
  }
  return "corrupt";
}

Admission TryAdmit() {
  Shard& shard = ShardOfThread();
  const Admission admission = Ask("TryAdmit", shard);
  if (WEFT_LIKELY(admission != Admission::kNoRuntime)) Count(shard, admission);
  return admission;
}

bool IsOverloaded() { return Ask("IsOverloaded", ShardOfThread()) != Admission::kAdmitted; }

AdmissionCounts GetAdmissionCounts() {
  AdmissionCounts counts;
  for (const Shard& shard : shards) {
    counts.admitted += shard.admitted.load(std::memory_order_relaxed);
    counts.refused_ready_wait += shard.refused_ready_wait.load(std::memory_order_relaxed);
    counts.refused_fibers += shard.refused_fibers.load(std::memory_order_relaxed);
  }
  return counts;
}

namespace fiber::detail {

void ResetLimiter(std::size_t limit_fibers, std::size_t unfinished) {
  for (Shard& shard : shards) {
    for (auto* count : {&shard.admitted, &shard.refused_ready_wait, &shard.refused_fibers, &shard.next_look}) {
      count->store(0, std::memory_order_relaxed);
    }
  }
  limit.reached.store(false, std::memory_order_relaxed);
  limit.unfinished.store(unfinished, std::memory_order_relaxed);
  limit.fibers.store(limit_fibers, std::memory_order_relaxed);
}

SchedulingGroup* AdmitTo(SchedulingGroup* group, bool any_group) {
  Shard& shard = ShardOfThread();
  Admission admission = Admission::kAdmitted;
  if (group->IsOverloaded()) group = any_group ? FirstNotOverloaded(group) : nullptr;
  if (group == nullptr) {
    admission = Admission::kReadyWait;
  } else if (TooManyFibers(shard)) {
    admission = Admission::kTooManyFibers;
  }
  Count(shard, admission);
  return admission == Admission::kAdmitted ? group : nullptr;
}

}  // namespace fiber::detail

}  // namespace weft
