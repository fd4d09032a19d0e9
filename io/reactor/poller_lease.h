// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PollerLease: decides which worker of a group polls, and lets none sleep for long while none polls.
//
// One worker at a time holds the lease, and polls. A worker that goes to sleep tries to take it, and then waits in the
// poll instead of on its parker. A holder that leaves with fibers to run wakes no replacement, since it is mostly back
// within microseconds. It starts a watchdog, a timer that wakes a sleeping worker to poll if none has polled since.
//
//   holder leaves                worker goes to sleep         the watchdog, when its time has come
//   -------------                --------------------         ------------------------------------
//   held_ = no                   own sleeper bit
//   full fence                   full fence                    polled since the last time: start again
//   no worker sleeps: done       held_: yes: its parker        none polls, one sleeps: wake it, start again
//   watchdog_on_, or start it                                  else: watchdog_on_ = no, full fence, look again
//
// Invariants
//   PL1  At most one worker is between TryEnter() and Leave().
//   PL2  While no worker polls, one sleeps and something is waited for, the watchdog is on (once the thread that has
//        brought this about is past its fence). Of each pair of fences one comes first; the other side sees what was
//        stored before it.
//   PL3  The watchdog turns off if no worker has begun to poll since its last check, and one polls or all are busy.
//        So an idle process sleeps.
// A busy worker that polls without waiting also takes the lease for that time. somebody_sleeps() says whether a worker
// of the group sleeps. Proven in tests/model/poller_lease_model.cc.
// Rejected: two workers that wait in the poll (the kernel wakes the second whenever something becomes ready while the
// first is out: half as many round trips a second with one connection and two workers); waking a replacement at each
// leave (costs the same, as Netty and Go do); a thread that only polls (two more switches per request).
//
// The watchdog is a timer of each reactor's, which the Watchdog runs (scheduling_group/watch/watch_timers.h); an idle
// process never wakes it. Without it a request may wait as long as the worker that polled computes
// (bench/results/io.md).
#ifndef WEFT_IO_REACTOR_POLLER_LEASE_H_
#define WEFT_IO_REACTOR_POLLER_LEASE_H_

#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"

namespace weft::io {

class PollerLease {
 public:
  enum class WatchdogResult { kOff, kGoOn, kWakeAndGoOn };

  // A worker. If it goes to sleep, it has announced that, with a full fence.
  [[nodiscard]] bool TryEnter() noexcept {
    if (waited_for_.load(std::memory_order_relaxed) == 0) return false;  // The fence orders it (PL2).
    std::uint32_t nobody = 0;
    if (held_.load(std::memory_order_relaxed) != 0) return false;
    // acquire: what the last holder did to the poller's data. Pairs with the release in Leave().
    if (!held_.compare_exchange_strong(nobody, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      return false;
    }
    // relaxed: only the holder writes it, and the watchdog only compares.
    visits_.store(visits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
  }

  // The holder. True: the caller must start the watchdog.
  template <class SomebodySleeps>
  [[nodiscard]] bool Leave(SomebodySleeps&& somebody_sleeps) noexcept {
    held_.store(0, std::memory_order_release);  // Pairs with the acquire in TryEnter().
    // StoreLoad (PL2). Pairs with the fence of a worker that goes to sleep, and the one in OnWatchdog().
    base::ThreadFence(std::memory_order_seq_cst);
    return NeedsWatchdog(somebody_sleeps);
  }

  // Any thread: there is one more thing to wait for. True: the caller must start the watchdog.
  template <class SomebodySleeps>
  [[nodiscard]] bool Registered(SomebodySleeps&& somebody_sleeps) noexcept {
    waited_for_.fetch_add(1, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (PL2). Pairs as in Leave().
    return NeedsWatchdog(somebody_sleeps);
  }
  void Unregistered() noexcept { waited_for_.fetch_sub(1, std::memory_order_relaxed); }

  // The watchdog, one thread, when its timer fires.
  template <class SomebodySleeps>
  [[nodiscard]] WatchdogResult OnWatchdog(SomebodySleeps&& somebody_sleeps) noexcept {
    // While workers poll it stays on: else the next one to leave would have to start it again.
    if (const std::uint32_t visits = visits_.load(std::memory_order_relaxed);
        visits != seen_visits_.load(std::memory_order_relaxed)) {
      seen_visits_.store(visits, std::memory_order_relaxed);
      return WatchdogResult::kGoOn;
    }
    if (NobodyPolls(somebody_sleeps)) return WatchdogResult::kWakeAndGoOn;
    watchdog_on_.store(0, std::memory_order_relaxed);
    // StoreLoad (PL2). Pairs with the fences in Leave() and Registered().
    base::ThreadFence(std::memory_order_seq_cst);
    return NeedsWatchdog(somebody_sleeps) ? WatchdogResult::kGoOn : WatchdogResult::kOff;
  }

  // Snapshots.
  bool held() const noexcept { return held_.load(std::memory_order_relaxed) != 0; }
  bool watchdog_on() const noexcept { return watchdog_on_.load(std::memory_order_relaxed) != 0; }
  std::uint32_t waited_for() const noexcept { return waited_for_.load(std::memory_order_relaxed); }

 private:
  template <class SomebodySleeps>
  bool NobodyPolls(SomebodySleeps&& somebody_sleeps) const noexcept {
    return held_.load(std::memory_order_relaxed) == 0 && waited_for_.load(std::memory_order_relaxed) != 0 &&
           somebody_sleeps();
  }

  // relaxed, all: the callers' fences order them.
  template <class SomebodySleeps>
  bool NeedsWatchdog(SomebodySleeps&& somebody_sleeps) noexcept {
    if (!NobodyPolls(somebody_sleeps) || watchdog_on_.load(std::memory_order_relaxed) != 0 ||
        watchdog_on_.exchange(1, std::memory_order_relaxed) != 0) {
      return false;
    }
    // Only we use seen_visits_ until the watchdog's timer starts.
    seen_visits_.store(visits_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return true;
  }

  alignas(base::kCacheLineSize) base::Atomic<std::uint32_t> held_{0};
  base::Atomic<std::uint32_t> waited_for_{0};  // registered descriptors, and waits for others
  base::Atomic<std::uint32_t> watchdog_on_{0};
  base::Atomic<std::uint32_t> visits_{0};
  base::Atomic<std::uint32_t> seen_visits_{0};  // when the watchdog was started, or last checked
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_POLLER_LEASE_H_
