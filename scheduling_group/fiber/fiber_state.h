// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The life of a fiber. Only this file knows the values of the state word and writes it: each function below that does
// so names who may call it. Not drawn: OnCreated and OnDiscarded (kDead to kReady and back, by the creator), and
// OnAcquireUndone (kRunning to kReady, where there is no stack).
//
//                OnAcquired            OnExited
//      kReady  ------------> kRunning --------> kDead
//        ^  ^                 |    ^
//        |  |   OnYielded     |    | ResumedInPlace     (kNotified, stack never left)
//        |  +-----------------+    |
//        |                    | OnParking          (before it enters a wait queue; still on its own stack)
//        |                    v
//        |                 kParking --OnWoken--> kNotified        (woken before it had left its stack)
//        |                    | OnSwitchedOut        | OnSwitchedOut
//        |     OnWoken        v                      |
//        +---------------- kParked                   |
//        +-------------------------------------------+
//
// If the fiber becomes known only after its stack was left (ParkAndPublish in park.h), no waker can come too early:
//
//      kRunning --OnLeftUnseen--> kParked --OnTaken--> kReady
//
//  state      whose is the stack                     where the fiber is
//  kReady     nobody's (saved, or not yet allotted)  in exactly one run queue, or held by the thread that will push or
//                                                    run it
//  kRunning   the worker that acquired it            on that worker
//  kParking   the worker that acquired it            about to enter a wait queue, or in it, not yet switched out
//  kParked    nobody's (saved)                       in a wait queue, or held by its waker
//  kNotified  the worker that acquired it            held by that worker
//  kDead      nobody's (given back)                  nowhere: free, or not yet begun
//
// Invariants
//   FS1  A waker changes the word, never the stack, which changes hands in OnAcquired, OnYielded, OnSwitchedOut,
//        OnLeftUnseen and OnExited. Only workers call these, the last four on another stack, after the switch; OnExited
//        also where the next fiber has taken the stack over (Worker::TakeOverStack).
//   FS2  One park is ended by exactly one OnWoken() or OnTaken(): the wait queue picks the one waker.
//   FS3  Each entry into kReady is followed by exactly one push into a run queue (of a fiber without a stack: into the
//        StackWaitList): by OnYielded's, OnTaken's and OnAcquireUndone's caller, by OnWoken's caller if it returned
//        kEnqueue, by OnSwitchedOut's caller if it returned kReadyAgain. A new fiber may be run at once instead, or
//        discarded.
//
// Proven in tests/model/fiber_state_model.cc.
// OnWoken() is one fetch_add: kParking and kParked are numbered so that adding one yields kNotified and kReady.
// Rejected: a compare-and-swap loop (it fetches a line that another core wrote twice, first shared, then exclusive); a
// lock held across the switch (the waker spins for the length of a switch).
#ifndef WEFT_SCHEDULING_GROUP_FIBER_FIBER_STATE_H_
#define WEFT_SCHEDULING_GROUP_FIBER_FIBER_STATE_H_

#include <cstdint>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"

namespace weft::scheduling_group {

enum class FiberPhase : std::uint32_t {
  kDead = 0,  // zeroed memory is a dead fiber
  kRunning = 1,
  kParking = 2,
  kNotified = 3,  // kParking + 1: see OnWoken
  kParked = 4,
  kReady = 5,  // kParked + 1: see OnWoken
};

inline const char* ToString(FiberPhase phase) noexcept {
  switch (phase) {
    case FiberPhase::kDead:
      return "dead";
    case FiberPhase::kRunning:
      return "running";
    case FiberPhase::kParking:
      return "parking";
    case FiberPhase::kNotified:
      return "notified";
    case FiberPhase::kParked:
      return "parked";
    case FiberPhase::kReady:
      return "ready";
  }
  return "corrupt";
}

enum class [[nodiscard]] WakeResult{
    kEnqueue,          // the caller owns the fiber, which is kReady: it must push it into a run queue (FS3)
    kStillOnItsStack,  // the worker that runs it will make it ready; nothing to do
};

enum class [[nodiscard]] SwitchOutResult{
    kParked,      // its waker owns it now: do not touch it any more
    kReadyAgain,  // woken meanwhile: the caller must push it into a run queue (FS3)
};

class FiberState {
 public:
  // Any thread; a snapshot for reports only.
  FiberPhase Load() const noexcept { return phase_.load(std::memory_order_relaxed); }

  // The creator of the fiber: it is about to be pushed for the first time.
  void OnCreated() noexcept {
    Expect("OnCreated", FiberPhase::kDead);
    // relaxed: the run queue that carries the fiber publishes all of it.
    phase_.store(FiberPhase::kReady, std::memory_order_relaxed);
  }

  // By the worker that popped the fiber.
  void OnAcquired() noexcept {
    Expect("OnAcquired", FiberPhase::kReady);
    // relaxed: the run queue's pop, which made the fiber ours, carried all that came before.
    phase_.store(FiberPhase::kRunning, std::memory_order_relaxed);
  }

  // By a worker that popped the fiber and has no stack for it: the fiber becomes ready again.
  void OnAcquireUndone() noexcept {
    Expect("OnAcquireUndone", FiberPhase::kRunning);
    phase_.store(FiberPhase::kReady, std::memory_order_relaxed);  // As OnCreated.
  }

  // The worker, after the switch.
  void OnYielded() noexcept {
    Expect("OnYielded", FiberPhase::kRunning);
    // relaxed: the push that follows publishes the saved stack.
    phase_.store(FiberPhase::kReady, std::memory_order_relaxed);
  }

  // The fiber itself, before it enters a wait queue.
  void OnParking() noexcept {
    Expect("OnParking", FiberPhase::kRunning);
    // relaxed: a waker can reach us only through the wait queue, whose lock publishes this.
    phase_.store(FiberPhase::kParking, std::memory_order_relaxed);
  }

  // The fiber itself, still on its stack. True: a waker has come already, and the fiber goes on.
  [[nodiscard]] bool ResumedInPlace() noexcept {
    // acquire: we see what the waker wrote before OnWoken(). Pairs with the fetch_add there.
    if (phase_.load(std::memory_order_acquire) != FiberPhase::kNotified) return false;
    // Its one waker has come (FS2): no other thread reads it.
    phase_.store(FiberPhase::kRunning, std::memory_order_relaxed);
    return true;
  }

  // The one waker of this park (FS2), any thread.
  WakeResult OnWoken() noexcept {
    // acquire: if the fiber is kParked, we hand on its saved stack. Pairs with the release in OnSwitchedOut().
    // release: the fiber sees what we wrote before. Pairs with the acquires in OnSwitchedOut() and ResumedInPlace().
    const std::uint32_t old = word().fetch_add(1, std::memory_order_acq_rel);
    WEFT_CHECK(old == static_cast<std::uint32_t>(FiberPhase::kParking) ||
                   old == static_cast<std::uint32_t>(FiberPhase::kParked),
               "FiberState::OnWoken: expected parking or parked, found ", ToString(static_cast<FiberPhase>(old)));
    return old == static_cast<std::uint32_t>(FiberPhase::kParked) ? WakeResult::kEnqueue : WakeResult::kStillOnItsStack;
  }

  // The worker, after the switch away from a parking fiber.
  SwitchOutResult OnSwitchedOut() noexcept {
    auto phase = FiberPhase::kParking;
    // release: the next worker of the fiber sees the saved stack. Pairs with the acquire in OnWoken().
    // acquire (failure): we push the fiber for its waker and must see what that wrote. Pairs with the release there.
    if (phase_.compare_exchange_strong(phase, FiberPhase::kParked, std::memory_order_release,
                                       std::memory_order_acquire)) {
      return SwitchOutResult::kParked;
    }
    WEFT_CHECK(phase == FiberPhase::kNotified, "FiberState::OnSwitchedOut: expected parking or notified, found ",
               ToString(phase));
    phase_.store(FiberPhase::kReady, std::memory_order_relaxed);  // As OnYielded.
    return SwitchOutResult::kReadyAgain;
  }

  // The worker, after the switch away from a fiber that no other thread knows yet.
  void OnLeftUnseen() noexcept {
    Expect("OnLeftUnseen", FiberPhase::kRunning);
    // relaxed: the release that makes the fiber known carries this and the saved stack.
    phase_.store(FiberPhase::kParked, std::memory_order_relaxed);
  }

  // The thread that took the fiber, by an acquire, from where it was made known; or its worker, if that made it known
  // to no one. The caller must push it (FS3).
  void OnTaken() noexcept {
    Expect("OnTaken", FiberPhase::kParked);
    phase_.store(FiberPhase::kReady, std::memory_order_relaxed);  // As OnYielded.
  }

  // The worker, when the start procedure has returned and the fiber has given up its stack.
  void OnExited() noexcept {
    Expect("OnExited", FiberPhase::kRunning);
    phase_.store(FiberPhase::kDead, std::memory_order_relaxed);  // The pool that takes the entity publishes it.
  }

  // The creator of a fiber that it has not pushed.
  void OnDiscarded() noexcept {
    Expect("OnDiscarded", FiberPhase::kReady);
    phase_.store(FiberPhase::kDead, std::memory_order_relaxed);  // As OnExited.
  }

 private:
  void Expect(const char* function, FiberPhase expected) const noexcept {
    const FiberPhase found = phase_.load(std::memory_order_relaxed);  // Ours: written by us or handed to us.
    WEFT_CHECK(found == expected, "FiberState::", function, ": expected ", ToString(expected), ", found ",
               ToString(found));
  }

  // fetch_add needs an integer: the word is kept as one and seen as FiberPhase elsewhere.
  base::Atomic<std::uint32_t>& word() noexcept { return phase_.word; }

  struct Word {
    base::Atomic<std::uint32_t> word{0};
    FiberPhase load(std::memory_order order) const noexcept { return static_cast<FiberPhase>(word.load(order)); }
    void store(FiberPhase phase, std::memory_order order) noexcept {
      word.store(static_cast<std::uint32_t>(phase), order);
    }
    bool compare_exchange_strong(FiberPhase& expected, FiberPhase desired, std::memory_order success,
                                 std::memory_order failure) noexcept {
      auto raw = static_cast<std::uint32_t>(expected);
      const bool done = word.compare_exchange_strong(raw, static_cast<std::uint32_t>(desired), success, failure);
      expected = static_cast<FiberPhase>(raw);
      return done;
    }
  };
  Word phase_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_FIBER_STATE_H_
