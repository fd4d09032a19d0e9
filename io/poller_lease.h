// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// PollerLease: which worker of a group polls (leader and followers), and that none sleeps for long while nobody does.
//
// One worker at a time holds the lease, and polls. A worker that goes to sleep tries to take it, and then waits in the
// poll instead of on its parker. When it leaves with fibers to run it does not wake another to take its place: it will
// most often be back within microseconds, and a wake-up per request would cost as much as the request. Instead a
// watchdog is started: a timer that finds out whether somebody has polled since. Only if not, and if a worker sleeps,
// that one is woken and polls.
//
//   holder leaves                worker goes to sleep         the watchdog, when its time has come
//   -------------                --------------------         ------------------------------------
//   held_ = no                   own sleeper bit
//   full fence                   full fence                    polled since the last time: start again
//   nobody sleeps: done          held_: yes: its parker        nobody polls, one sleeps: wake it, start again
//   watchdog_on_, or start it                                  else: watchdog_on_ = no, full fence, look again
//
// Invariants
//   PL1  At most one worker is between TryEnter() and Leave().
//   PL2  As long as nobody polls, a worker sleeps and something is waited for, the watchdog is on (as soon as whoever
//        made it so has passed its fence). Of each pair of fences one comes first, and the other side sees what stands
//        before it.
//   PL3  Where nobody has polled since its last time, and somebody polls or all workers are busy, the watchdog goes
//        out: an idle process is left alone.
// A busy worker that looks without waiting takes the lease, too, for the moment. Registered(): any thread, after
// something to wait for was added. OnWatchdog(): the watchdog.
//
// `somebody_sleeps` says whether a worker of the group does.
// Proven in tests/model/poller_lease_model.cc.
// Rejected: two workers that wait in the poll (the kernel wakes the second whenever something becomes ready while the
// first is out: with one connection and two workers half as many round trips a second); waking a sleeper as
// replacement at each leave (Netty's and Go's way costs them the same); a poll thread of its own (two more switches per
// request).
#ifndef WEFT_IO_POLLER_LEASE_H_
#define WEFT_IO_POLLER_LEASE_H_

#include <cstdint>

#include "weft/base/atomic.h"
#include "weft/base/cpu.h"

namespace weft::io {

class PollerLease {
 public:
  enum class WatchdogResult { kOff, kGoOn, kWakeAndGoOn };

  // A worker; before it sleeps it has announced that, with a full fence.
  [[nodiscard]] bool TryEnter() noexcept {
    if (waited_for_.load(std::memory_order_relaxed) == 0) return false;  // The fence orders it (PL2).
    std::uint32_t nobody = 0;
    if (held_.load(std::memory_order_relaxed) != 0) return false;
    // acquire: what the last holder has done to the poller's own data. Pairs with the release in Leave().
    if (!held_.compare_exchange_strong(nobody, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      return false;
    }
    // relaxed: written by the holder only; the watchdog compares.
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

  // Any thread: there is one thing more to wait for. True: the caller must start the watchdog.
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
    // Not off at once where somebody polls: the next one to leave would have to start it again.
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
    // Ours until the watchdog's timer is started.
    seen_visits_.store(visits_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return true;
  }

  alignas(base::kCacheLineSize) base::Atomic<std::uint32_t> held_{0};
  base::Atomic<std::uint32_t> waited_for_{0};  // descriptors that are registered, and waits for others
  base::Atomic<std::uint32_t> watchdog_on_{0};
  base::Atomic<std::uint32_t> visits_{0};
  base::Atomic<std::uint32_t> seen_visits_{0};  // when the watchdog was started, or looked last
};

}  // namespace weft::io

#endif  // WEFT_IO_POLLER_LEASE_H_
