// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Reactor: how the workers of a group poll for input and output. io/reactor/epoll_reactor.h implements it.
//
// There is no poller thread: only a worker can run what I/O makes ready, and polls early enough when it picks a fiber.
//
//   a worker has chosen fibers for some 20 us    PollIfDue(): one poll without waiting
//   a worker spins                               TryPoll(): the same, at each search
//   a worker goes to sleep                       TryEnter(): one worker waits in the poll instead of on its parker
//
// PollPace says when those 20 us are over, of a worker that is never idle. Reading the clock costs as much as a short
// fiber, so a worker reads it once in so many fibers. That number doubles while readings come sooner than
// kPollEvery / 2, and falls to what fits into kPollEvery when one comes later.
//
// One worker at a time polls: it holds the lease from TryEnter() to LeaveAfterDispatch(). After it leaves to run
// fibers, others may sleep while none polls: if that lasts, a watchdog wakes one (io/reactor/poller_lease.h).
//
// A thread that wakes a worker learns from Parker::Unpark() that the worker waits in the poll, and calls Interrupt().
// That ends the wait, even one that is about to begin (PK5 in base/thread/parker.h), by an eventfd that epoll watches.
//
// Invariants
//   PP1  From one poll to the next a worker takes at most kMostPopsPerPoll fibers.
//   PP2  After a poll that came later than kPollEvery, the next one comes after as many fibers as would have taken
//        kPollEvery, at least one. (Halving the number each time would first run twice as many fibers, and long ones.)
#ifndef WEFT_SCHEDULING_GROUP_IDLE_REACTOR_H_
#define WEFT_SCHEDULING_GROUP_IDLE_REACTOR_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "weft/base/thread/cpu.h"

namespace weft::scheduling_group {

// Statistics of a group's polls.
struct ReactorCounts {
  std::uint64_t waits = 0;           // workers that went to sleep in the poll
  std::uint64_t polls = 0;           // polls that did not wait
  std::uint64_t events = 0;          // reported in all
  std::uint64_t watchdog_wakes = 0;  // sleepers woken because none polled
  std::uint32_t descriptors = 0;     // registered now
};

class Reactor {
 public:
  virtual ~Reactor() = default;

  // Both: a worker of the group. They ready (park.h) the fibers whose input or output is ready.
  virtual void TryPoll() = 0;
  virtual void PollIfDue(std::chrono::steady_clock::time_point now) = 0;

  // A worker that has announced its sleep. True: it holds the lease, may Wait(), and must call LeaveAfterDispatch().
  // False: another worker holds it, or there is nothing to wait for.
  [[nodiscard]] virtual bool TryEnter() = 0;
  // Returns when something is ready or after Interrupt(), and sometimes spuriously. Under a test clock it takes nothing
  // from the kernel, as a worker at rest does nothing (TT1 in base/time/test_time.h).
  virtual void Wait() = 0;
  // The same, but at that time at the latest. Not under a test clock.
  virtual void WaitUntil(std::chrono::steady_clock::time_point until) = 0;
  // Readies the fibers for what Wait() has found (under a test clock: for what there is now), and returns the lease.
  virtual void LeaveAfterDispatch() = 0;

  // Any thread, under a test clock: whether Wait() would return at once, for something that somebody waits for.
  virtual bool HasEvents() { return false; }

  // Any thread. Readable when there is something to poll, for a FiberLoop; -1: there is none.
  virtual int descriptor() const noexcept { return -1; }

  // Any thread. The Wait() that is under way, or the next one, returns.
  virtual void Interrupt() = 0;

  // Any thread.
  virtual ReactorCounts counts() const noexcept { return {}; }
};

// Holds a group's poller. Any thread.
class ReactorOwner {
 public:
  ReactorOwner() = default;
  ReactorOwner(const ReactorOwner&) = delete;
  ReactorOwner& operator=(const ReactorOwner&) = delete;
  ~ReactorOwner() { delete Get(); }

  // nullptr: there is none yet. acquire: the object. Pairs with the release in Set().
  Reactor* Get() const noexcept { return poller_.load(std::memory_order_acquire); }

  // False: there is one already, and `poller` was destroyed.
  bool Set(std::unique_ptr<Reactor> poller) noexcept {
    Reactor* none = nullptr;
    // release: the object. Pairs with the acquire in Get().
    if (!poller_.compare_exchange_strong(none, poller.get(), std::memory_order_release, std::memory_order_relaxed)) {
      return false;
    }
    (void)poller.release();
    return true;
  }

 private:
  std::atomic<Reactor*> poller_{nullptr};
};

// Each worker has one, and alone uses it.
class PollPace {
 public:
  static constexpr std::chrono::microseconds kPollEvery{20};
  static constexpr std::uint32_t kMostPopsPerPoll = 64;

  // Before the worker takes a fiber. True: the worker must first call Poll().
  [[nodiscard]] WEFT_ALWAYS_INLINE bool CountPop() noexcept { return --pops_until_poll_ == 0; }

  // nullptr: the group has no poller yet, but soon there may be one.
  void Poll(Reactor* poller) {
    if (poller == nullptr) {
      pops_until_poll_ = kMostPopsPerPoll / 8;
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    OnPoll(now);
    poller->PollIfDue(now);
  }

  void OnPoll(std::chrono::steady_clock::time_point now) noexcept {
    const auto since = now - last_poll_at_;
    last_poll_at_ = now;
    if (since < kPollEvery / 2) pops_per_poll_ = std::min(pops_per_poll_ * 2, kMostPopsPerPoll);
    if (since > kPollEvery) {
      pops_per_poll_ = std::max(static_cast<std::uint32_t>(pops_per_poll_ * kPollEvery / since), 1u);
    }
    pops_until_poll_ = pops_per_poll_;
  }

 private:
  std::uint32_t pops_until_poll_ = 1;
  std::uint32_t pops_per_poll_ = 1;
  std::chrono::steady_clock::time_point last_poll_at_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_REACTOR_H_
