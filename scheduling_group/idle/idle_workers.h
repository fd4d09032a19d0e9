// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// IdleWorkers: which workers of a group search for work (spin), which sleep, and which to wake. No wake-up is lost.
//
// A worker is busy, spinning (counted in `spinners_`, at most `max_spinners`), or sleeping (its bit in `sleepers_`). A
// producer makes sure that a worker searches: if none spins, it turns the lowest-numbered sleeper into a spinner and
// wakes it. (The lowest first keeps the same caches warm at low load.) A spinner that found work and sees more wakes
// its replacement: a burst wakes one worker after the other, at one system call for each.
//
//   producer                               worker
//   --------                               ------
//   publish the fiber                      stop spinning / set own sleeper bit
//   full fence                             full fence
//   look at spinners_, sleepers_           look for fibers once more
//
// Invariants
//   IW1  A fiber published before ClaimWorkerToWake() is seen by the last search of a worker that counted as a spinner
//        then, or that goes to sleep; or a sleeper is claimed for it. (Both sides store, fence, then look.)
//   IW2  Only the worker sets its sleeper bit. One thread clears it: the worker, a producer that claims it (counts it
//        as a spinner and unparks it), or a thread that claims it for another group (and does not count it).
//   IW3  spinners_ <= max_spinners + producers between a claim and its undoing. A producer claims at zero only, so at
//        most max_spinners (two) workers spin.
//   IW4  A thread that removes a spinner from the count (StopSpinning, or a claim undone) searches after its fence, for
//        fibers whose producers relied on that spinner.
//   IW5  A worker that sleeps in the poll (reactor.h) is claimed last, so that one stays there while others sleep.
//
// ClaimWorkerToWake(), ClaimSleeper(): any thread. The rest: the worker itself.
// Proven in tests/model/idle_workers_model.cc.
// Source: the thread parking protocol of Go's scheduler and the two-spinner rule of flare; orders are our own.
// Rejected: a claim per push: it wakes a worker for every fiber of a burst (bench/fiber/spawn_benchmark.cc).
#ifndef WEFT_SCHEDULING_GROUP_IDLE_IDLE_WORKERS_H_
#define WEFT_SCHEDULING_GROUP_IDLE_IDLE_WORKERS_H_

#include <cstdint>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/worker_mask.h"

namespace weft::scheduling_group {

class IdleWorkers {
 public:
  static constexpr int kNobody = -1;
  static constexpr std::uint32_t kMaxSpinners = 2;

  // Any thread, after it has published work. True: a worker searches for it, or none sleeps.
  [[nodiscard]] WEFT_ALWAYS_INLINE bool NobodyToWake() noexcept {
    // StoreLoad: either we see the sleeper, or its last search sees our fiber (IW1). Pairs with the fences in
    // PrepareSleep() and StopSpinning().
    base::ThreadFence(std::memory_order_seq_cst);
    return NobodyToWakeAfterFence();
  }

  // As NobodyToWake(), by a caller that has made such a fence.
  [[nodiscard]] WEFT_ALWAYS_INLINE bool NobodyToWakeAfterFence() const noexcept {
    // relaxed, both: they carry nothing, the fences order them.
    return spinners_.load(std::memory_order_relaxed) != 0 || sleepers_.load(std::memory_order_relaxed) == 0;
  }

  // Any thread, after it has published work. Returns the worker that the caller must unpark, or kNobody.
  [[nodiscard]] int ClaimWorkerToWake() noexcept {
    while (!NobodyToWake()) {
      const auto sleepers = base::WorkerMask::FromBits(sleepers_.load(std::memory_order_relaxed));
      if (sleepers.Empty()) return kNobody;  // The last one got up, and searches once more.
      std::uint32_t none = 0;
      // Another one spins now.
      if (!spinners_.compare_exchange_strong(none, 1, std::memory_order_relaxed)) return kNobody;
      const unsigned worker = FirstToWake(sleepers);
      if (CancelSleep(worker)) return static_cast<int>(worker);
      // It got up by itself. Other producers may have relied on the spinner that we counted: look again for them (IW4).
      spinners_.fetch_sub(1, std::memory_order_relaxed);
    }
    return kNobody;
  }

  // Any thread, for another group's work. Returns the worker to unpark, which does not count as a spinner, or kNobody.
  [[nodiscard]] int ClaimSleeper() noexcept {
    for (;;) {
      const auto sleepers = base::WorkerMask::FromBits(sleepers_.load(std::memory_order_relaxed));
      if (sleepers.Empty()) return kNobody;
      const unsigned worker = FirstToWake(sleepers);
      if (CancelSleep(worker)) return static_cast<int>(worker);
    }
  }

  // False: enough workers spin.
  [[nodiscard]] bool TryStartSpinning() noexcept {
    std::uint32_t spinners = spinners_.load(std::memory_order_relaxed);
    while (spinners < kMaxSpinners) {
      // relaxed: a producer that sees us relies on our search after StopSpinning(), which has its own fence.
      if (spinners_.compare_exchange_weak(spinners, spinners + 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  // The caller must then search once more (IW4).
  void StopSpinning() noexcept {
    spinners_.fetch_sub(1, std::memory_order_relaxed);
    // StoreLoad: our next search sees what a producer that saw us spin has published (IW1). Pairs with NobodyToWake().
    base::ThreadFence(std::memory_order_seq_cst);
  }

  // The caller must then search once more, and sleep or CancelSleep().
  void PrepareSleep(unsigned worker) noexcept {
    // release: for the claimer. Pairs with the acquire in CancelSleep().
    sleepers_.fetch_or(Bit(worker), std::memory_order_release);
    // StoreLoad: either a producer sees our bit or our last search sees its fiber (IW1). Pairs as above.
    base::ThreadFence(std::memory_order_seq_cst);
  }

  // The worker. True: it got up by itself. False: it was claimed, and its unpark has come or will come.
  [[nodiscard]] bool CancelSleep(unsigned worker) noexcept {
    // acquire: the claimer sees the worker's slot as the worker left it. Pairs with the release in PrepareSleep(). (The
    // parker's token carries what a claimed worker must see.)
    return (sleepers_.fetch_and(~Bit(worker), std::memory_order_acquire) & Bit(worker)) != 0;
  }

  // A sleeper begins, or ends, to wait in the poll. A hint (IW5).
  void SetInPoll(unsigned worker, bool in_poll) noexcept {
    in_poll_.store(in_poll ? Bit(worker) : 0, std::memory_order_relaxed);
  }

  // Snapshots, for reports and heuristics.
  std::uint32_t spinners() const noexcept { return spinners_.load(std::memory_order_relaxed); }
  base::WorkerMask sleepers() const noexcept {
    return base::WorkerMask::FromBits(sleepers_.load(std::memory_order_relaxed));
  }

 private:
  unsigned FirstToWake(base::WorkerMask sleepers) const noexcept {
    const auto not_in_poll = base::WorkerMask::FromBits(sleepers.bits() & ~in_poll_.load(std::memory_order_relaxed));
    return (not_in_poll.Empty() ? sleepers : not_in_poll).Lowest();
  }

  static std::uint64_t Bit(unsigned worker) noexcept { return base::WorkerMask::Of(worker).bits(); }

  // One line for all: producers read them together, and no thread writes them in the steady state.
  alignas(base::kCacheLineSize) base::Atomic<std::uint64_t> sleepers_{0};
  base::Atomic<std::uint64_t> in_poll_{0};  // one bit at most
  base::Atomic<std::uint32_t> spinners_{0};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_IDLE_WORKERS_H_
