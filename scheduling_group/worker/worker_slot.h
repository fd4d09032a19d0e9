// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WorkerSlot: what a group keeps for one worker: its parker, the errand sent with a wake-up, its counters and its life.
//
// WorkerLife says whether a worker that was told to stop ends in time, or is left behind in a fiber that never
// switches: one that blocks its thread in a system call, or computes without end.
//
//              BeginEnd(), the worker
//     kRuns ----------------------------> kEnds   its last fiber has ended or suspended: it will be joined
//       |
//       +-------------------------------> kLeft   its thread is detached; nobody waits for it any more
//              LeaveBehind(), the thread that ends the runtime
//
// A worker of a group that stops asks before it lets a fiber end (MayRetireFiber()), and before its thread ends.
//
// Invariants
//   WL1  A fiber that was running on a worker when that was left behind never ends for others: it stays alive and
//        counted as unfinished, and its entity and name stay as they are. Once it suspends or returns, its thread ends.
//   WL2  LeaveBehind() reads the worker and its fiber under the lock, which both pass before they end.
//   WL3  While a thread that was left behind lives (LeftThreads), no group, timer or runtime is freed, of whatever
//        runtime: the thread is a worker, so it is in no ReadSection.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_WORKER_SLOT_H_
#define WEFT_SCHEDULING_GROUP_WORKER_WORKER_SLOT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/parker.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/idle/reactor.h"
#include "weft/scheduling_group/watch/wait_samples.h"

namespace weft::scheduling_group {

class RunningFiber;
class SchedulingGroup;

// counters.h says what they mean, and reads them. Their worker writes, any thread reads. relaxed, but for `finished`:
// statistics, nothing acts on them.
struct alignas(base::kCacheLineSize) WorkerCounters {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> finished{0};
  std::atomic<std::uint64_t> switches{0};
  std::atomic<std::uint64_t> spins{0};
  std::atomic<std::uint64_t> sleeps{0};
  std::atomic<std::uint64_t> wakes{0};
  std::atomic<std::uint64_t> idle_searches{0};
  std::atomic<std::uint64_t> peer_takes{0};
  std::atomic<std::uint64_t> adopted{0};

  static void Add(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // release: the start of the fiber was counted before. Pairs with the acquire in LoopGroup::live_fibers().
  void CountFinished() noexcept {
    finished.store(finished.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
};

// A worker that was left behind.
struct LeftWorker {
  int group = 0;
  unsigned worker = 0;
  int thread_id = 0;  // the system's
  std::uint64_t fiber_id = 0;
  std::string fiber_name;
};

class WorkerLife {
 public:
  // The worker's thread, before its first fiber. `current` is read until BeginEnd() has returned.
  void Begin(const RunningFiber* current) noexcept WEFT_EXCLUDES(lock_);
  // The worker's thread, after SchedulingGroup::Stop(): a fiber of it has ended. False: the worker was left behind.
  [[nodiscard]] bool MayRetireFiber() noexcept WEFT_EXCLUDES(lock_);
  // The same, when its thread is about to end.
  [[nodiscard]] bool BeginEnd() noexcept WEFT_EXCLUDES(lock_);

  // True: it was running a fiber, and is left behind now; the names are filled in. False: it is in no fiber, or about
  // to end: it can be joined.
  [[nodiscard]] bool LeaveBehind(LeftWorker* left) noexcept WEFT_EXCLUDES(lock_);

 private:
  enum class State : std::uint8_t { kRuns, kEnds, kLeft };

  base::SpinLock lock_;
  State state_ WEFT_GUARDED_BY(lock_) = State::kRuns;
  int thread_id_ WEFT_GUARDED_BY(lock_) = 0;
  const RunningFiber* current_ WEFT_GUARDED_BY(lock_) = nullptr;  // nullptr: not begun, or ending
};

// The threads that runtimes have left behind, and that live. Any thread.
class LeftThreads {
 public:
  // By the thread that leaves one behind, before it may end.
  static void Add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }  // The lock of its life orders it.
  // By the one that was left, as its last use of anything of a runtime.
  // release: that use. Pairs with the acquire in Any().
  static void Remove() noexcept { count_.fetch_sub(1, std::memory_order_release); }
  static bool Any() noexcept { return count_.load(std::memory_order_acquire) != 0; }

 private:
  static inline constinit std::atomic<std::size_t> count_{0};
};

struct alignas(base::kCacheLineSize) WorkerSlot {
  base::Parker parker;
  // Set by the thread that claims the sleeping worker: the group to search (idle_loop.h).
  base::Atomic<SchedulingGroup*> sent_to{nullptr};
  // From here on used by the worker alone, but for reports.
  PollPace poll_pace;
  PushSampler push_sampler;
  WorkerCounters counters;
  WorkerLife life;  // of one with a thread (worker_team.h)
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_WORKER_SLOT_H_
