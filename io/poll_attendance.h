// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PollAttendance: which worker of a group polls, and that none sleeps for long while nobody does.
//
// One worker attends at a time. A worker that goes to sleep tries to become the one, and then waits in the poll instead
// of in its bed. When it leaves with fibers to run it does not wake another to take its place: it will most often be
// back within microseconds, and a wake-up per request would cost as much as the request. Instead a watch is started, a
// timer that finds out whether somebody has polled since; only if not, and if a worker sleeps, that one is woken and
// attends.
//
//   attendant leaves             worker goes to sleep          the watch, when its time has come
//   ----------------             --------------------          ---------------------------------
//   attended_ = no               own sleeper bit
//   full fence                   full fence                    polled since the last time: start again
//   nobody sleeps: done          attended_: yes: its bed       nobody attends, one sleeps: wake it, start again
//   watched_ or start it                                       else: watched_ = no, full fence, look again
//
// Invariants
//   PA1  At most one worker is between TryEnter() and Leave().
//   PA2  As long as nobody attends, a worker sleeps and something is waited for, the watch is on (as soon as whoever
//        made it so has passed its fence). Of each pair of fences one comes first, and the other side sees what stands
//        before it.
//   PA3  Where nobody has polled since its last time, and somebody attends or all workers are busy, the watch goes out:
//        an idle process is left alone.
// A busy worker that looks without waiting attends, too, for the moment. Registered(): any thread, after something to
// wait for was added. OnWatch(): the watch.
//
// `somebody_sleeps` says whether a worker of the group does.
// Proven in tests/model/poll_attendance_model.cc.
// Rejected: two workers that wait in the poll (the kernel wakes the second whenever something becomes ready while the
// first is out: with one connection and two workers half as many round trips a second); waking a sleeper as
// replacement at each leave (Netty's and Go's way costs them the same); a poll thread of its own (two more switches per
// request).
#ifndef WEFT_IO_POLL_ATTENDANCE_H_
#define WEFT_IO_POLL_ATTENDANCE_H_

#include <cstdint>

#include "weft/base/atomic.h"
#include "weft/base/cpu.h"

namespace weft::io {

class PollAttendance {
 public:
  enum class WatchResult { kOff, kGoOn, kWakeAndGoOn };

  // A worker; before it sleeps it has announced that, with a full fence.
  [[nodiscard]] bool TryEnter() noexcept {
    if (waited_for_.load(std::memory_order_relaxed) == 0) return false;  // The fence orders it (PA2).
    std::uint32_t nobody = 0;
    if (attended_.load(std::memory_order_relaxed) != 0) return false;
    // acquire: what the last attendant has done to the poller's own data. Pairs with the release in Leave().
    if (!attended_.compare_exchange_strong(nobody, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      return false;
    }
    // relaxed: written by the attendant only; the watch compares.
    visits_.store(visits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
  }

  // The attendant. True: the caller must start the watch.
  template <class SomebodySleeps>
  [[nodiscard]] bool Leave(SomebodySleeps&& somebody_sleeps) noexcept {
    attended_.store(0, std::memory_order_release);  // Pairs with the acquire in TryEnter().
    // StoreLoad (PA2). Pairs with the fence of a worker that goes to sleep, and the one in OnWatch().
    base::ThreadFence(std::memory_order_seq_cst);
    return NeedsWatch(somebody_sleeps);
  }

  // Any thread: there is one thing more to wait for. True: the caller must start the watch.
  template <class SomebodySleeps>
  [[nodiscard]] bool Registered(SomebodySleeps&& somebody_sleeps) noexcept {
    waited_for_.fetch_add(1, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (PA2). Pairs as in Leave().
    return NeedsWatch(somebody_sleeps);
  }
  void Unregistered() noexcept { waited_for_.fetch_sub(1, std::memory_order_relaxed); }

  // The watch, one thread, when its timer fires.
  template <class SomebodySleeps>
  [[nodiscard]] WatchResult OnWatch(SomebodySleeps&& somebody_sleeps) noexcept {
    // Not off at once where somebody attends: the next one to leave would have to start it again.
    if (const std::uint32_t visits = visits_.load(std::memory_order_relaxed);
        visits != seen_visits_.load(std::memory_order_relaxed)) {
      seen_visits_.store(visits, std::memory_order_relaxed);
      return WatchResult::kGoOn;
    }
    if (Unattended(somebody_sleeps)) return WatchResult::kWakeAndGoOn;
    watched_.store(0, std::memory_order_relaxed);
    // StoreLoad (PA2). Pairs with the fences in Leave() and Registered().
    base::ThreadFence(std::memory_order_seq_cst);
    return NeedsWatch(somebody_sleeps) ? WatchResult::kGoOn : WatchResult::kOff;
  }

  // Snapshots.
  bool attended() const noexcept { return attended_.load(std::memory_order_relaxed) != 0; }
  bool watched() const noexcept { return watched_.load(std::memory_order_relaxed) != 0; }
  std::uint32_t waited_for() const noexcept { return waited_for_.load(std::memory_order_relaxed); }

 private:
  template <class SomebodySleeps>
  bool Unattended(SomebodySleeps&& somebody_sleeps) const noexcept {
    return attended_.load(std::memory_order_relaxed) == 0 && waited_for_.load(std::memory_order_relaxed) != 0 &&
           somebody_sleeps();
  }

  // relaxed, all: the callers' fences order them.
  template <class SomebodySleeps>
  bool NeedsWatch(SomebodySleeps&& somebody_sleeps) noexcept {
    if (!Unattended(somebody_sleeps) || watched_.load(std::memory_order_relaxed) != 0 ||
        watched_.exchange(1, std::memory_order_relaxed) != 0) {
      return false;
    }
    // Ours until the watch's timer is started.
    seen_visits_.store(visits_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return true;
  }

  alignas(base::kCacheLineSize) base::Atomic<std::uint32_t> attended_{0};
  base::Atomic<std::uint32_t> waited_for_{0};  // descriptors that are registered, and waits for others
  base::Atomic<std::uint32_t> watched_{0};
  base::Atomic<std::uint32_t> visits_{0};
  base::Atomic<std::uint32_t> seen_visits_{0};  // when the watch was started, or looked last
};

}  // namespace weft::io

#endif  // WEFT_IO_POLL_ATTENDANCE_H_
