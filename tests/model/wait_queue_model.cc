// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/wait/wait_state.h and sync/wait/wait_queue.{h,cc} through all interleavings: fibers and threads wait for a
// permit; notifiers, time-outs and interrupters try to end their waits. One of these wins (WS1, WS2); no permit is lost
// or given twice (WS4); and nobody touches a wait or a queue that may be gone (WS5, WQ2): the fields of a wait are
// checked for races, and with them its end. The scheduler, the timers and the spin lock are those of tests/model/stubs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <utility>

#include "weft/sync/wait/wait_queue.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft::synchronization {
namespace {

// A minimal counting semaphore.
class Gate {
 public:
  WaitResult Acquire(Deadline deadline, Interruptible interruptible) {
    queue_.lock();
    if (permits_.Read() > 0) {
      permits_.Write(permits_.Read() - 1);
      queue_.unlock();
      return WaitResult::kNotified;
    }
    Waiter waiter;
    return queue_.Wait(&waiter, deadline, interruptible);
  }

  void Release() {
    queue_.lock();
    Waiter* waiter = queue_.ClaimFirst();
    if (waiter == nullptr) permits_.Write(permits_.Read() + 1);
    queue_.unlock();
    if (waiter != nullptr) waiter->Wake();
  }

  void ReleaseAll(int more) {
    WaitList claimed;
    queue_.lock();
    queue_.ClaimAll(&claimed);
    permits_.Write(permits_.Read() + more);
    queue_.unlock();
    WakeAll(&claimed);
  }

  void Drain() { queue_.Drain(); }
  int permits() const { return permits_.Read(); }
  bool empty_hint() const { return queue_.empty_hint(); }

 private:
  WaitQueue queue_;
  model::Data<int> permits_{0};
};

// A waiter, fiber or thread, and the outcome of its wait.
struct Party {
  FiberEntity* fiber = nullptr;
  int acquired = 0;
  int timed_out = 0;
  int interrupted = 0;

  void Wait(Gate* gate, Deadline deadline, Interruptible interruptible) {
    switch (gate->Acquire(deadline, interruptible)) {
      case WaitResult::kNotified:
        model::Note("acquired");
        ++acquired;
        break;
      case WaitResult::kTimedOut:
        model::Note("timed out");
        ++timed_out;
        break;
      case WaitResult::kInterrupted:
        model::Note("interrupted");
        ++interrupted;
        break;
    }
  }
};

Deadline Never() { return Deadline::None(); }
Deadline Soon() { return Deadline(std::chrono::hours(1)); }  // Time is the model's.

// A gate and its users.
class World {
 public:
  // Not destroyed at the end: somebody may still wait.
  explicit World(model::Scenario& scenario) : scenario_(scenario), fibers_(scenario), state_(new State) {
    scenario.Name(&state_->gate, sizeof(state_->gate), "gate");
    scenario.AtEnd([state = state_] {
      MODEL_CHECK(state->gate.empty_hint() || state->gate.permits() == 0, "somebody waits beside a permit (WS4)");
      MODEL_CHECK(state->interrupts == state->Sum(&Party::interrupted),
                  "an interruption was not the result of a wait, or twice");
    });
  }

  Gate* gate() const { return &state_->gate; }

  // A fiber that runs `body`; `timed`: it waits with deadlines.
  void Fiber(int party, bool timed, std::function<void(Party*)> body) {
    Party* p = &state_->parties[party];
    p->fiber = fibers_.Fiber(kFiberNames[party], FiberWorld::Timers(timed), [p, body = std::move(body)] { body(p); });
    // In a scope: its waits can be cancelled.
    p->fiber->cancel_word.lock();
    p->fiber->cancel_word.Unlock(scheduling_group::CancelWord::kScoped);
  }

  // Waits once for each of `deadlines`.
  void Fiber(int party, std::initializer_list<Deadline> deadlines, Interruptible interruptible = Interruptible::kNo) {
    bool timed = false;
    for (const Deadline& deadline : deadlines) timed |= !deadline.is_none();
    Fiber(party, timed, Waits(deadlines, interruptible));
  }

  // Waits once, and may wait for ever.
  void PatientFiber(int party) {
    Party* p = &state_->parties[party];
    p->fiber = fibers_.Fiber(
        kFiberNames[party], FiberWorld::Timers::kNo, [p, body = Waits({Never()}, Interruptible::kNo)] { body(p); },
        FiberWorld::End::kMayWaitForEver);
  }

  void Thread(int party, std::initializer_list<Deadline> deadlines) {
    static constexpr const char* kNames[kMaxParties] = {"thread 0", "thread 1", "thread 2"};
    fibers_.Thread(kNames[party],
                   [p = &state_->parties[party], body = Waits(deadlines, Interruptible::kNo)] { body(p); });
  }

  void Notifier(int permits) {
    fibers_.Thread("notifier", [gate = gate(), permits] {
      for (int i = 0; i < permits; ++i) gate->Release();
    });
  }

  void Interrupter(int party) {
    fibers_.Thread("interrupter", [state = state_, party] {
      FiberEntity* const fiber = state->parties[party].fiber;
      TakenWait taken;
      {
        std::lock_guard guard(fiber->cancel_word);
        taken = TakenWait::Of(fiber);
      }
      if (!taken) return;
      ++state->interrupts;
      taken.Wake();
    });
  }

  void Other(const char* name, std::function<void()> body) { fibers_.Thread(name, std::move(body)); }

  // At the end: each permit was acquired or is still there.
  void ExpectPermits(int released) {
    scenario_.AtEnd([state = state_, released] {
      MODEL_CHECK(state->Sum(&Party::acquired) + state->gate.permits() == released, "a permit is lost, or had twice");
    });
  }

 private:
  using FiberWorld = model::FiberWorld;
  static constexpr int kMaxParties = 3;
  static constexpr const char* kFiberNames[kMaxParties] = {"fiber 0", "fiber 1", "fiber 2"};

  struct State {
    Gate gate;
    std::array<Party, kMaxParties> parties;
    int interrupts = 0;  // that the canceller made

    int Sum(int Party::*what) const {
      int sum = 0;
      for (const Party& party : parties) sum += party.*what;
      return sum;
    }
  };

  std::function<void(Party*)> Waits(std::initializer_list<Deadline> deadlines, Interruptible interruptible) {
    std::array<Deadline, 2> copy{};
    std::copy(deadlines.begin(), deadlines.end(), copy.begin());
    return [gate = gate(), copy, count = deadlines.size(), interruptible](Party* party) {
      for (std::size_t i = 0; i < count; ++i) party->Wait(gate, copy[i], interruptible);
    };
  }

  model::Scenario& scenario_;
  FiberWorld fibers_;
  State* const state_;
};

void Explore(const model::Options& options, void (*build)(World&)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    World world(scenario);
    build(world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(WaitQueueModel, NotificationEndsTheWaitOfAFiberAndOfAThread) {
  Explore({.name = "wait_queue: fiber", .preemptions = model::kUnbounded, .weak_choices = 4}, [](World& w) {
    w.Fiber(0, {Never(), Never()});
    w.Notifier(2);
    w.ExpectPermits(2);
  });
  Explore({.name = "wait_queue: thread", .preemptions = 4, .weak_choices = 2}, [](World& w) {
    w.Thread(0, {Never(), Never()});
    w.Notifier(2);
    w.ExpectPermits(2);
  });
}

TEST(WaitQueueModel, NotificationAgainstTimeOut) {
  Explore({.name = "wait_queue: fiber, time-out", .preemptions = 4, .weak_choices = 2}, [](World& w) {
    w.Fiber(0, {Soon()});
    w.Notifier(1);
    w.ExpectPermits(1);
  });
  Explore({.name = "wait_queue: thread, time-out", .preemptions = 4, .weak_choices = 2}, [](World& w) {
    w.Thread(0, {Soon()});
    w.Notifier(1);
    w.ExpectPermits(1);
  });
}

TEST(WaitQueueModel, NotificationAgainstTimeOutAgainstInterruption) {
  Explore({.name = "wait_queue: notify, time-out, interrupt", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    w.Fiber(0, {Soon()}, Interruptible::kYes);
    w.Notifier(1);
    w.Interrupter(0);
    w.ExpectPermits(1);
  });
}

TEST(WaitQueueModel, TwoInterruptersOneNotifier) {
  Explore({.name = "wait_queue: notify, interrupt twice", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    w.Fiber(0, {Never()}, Interruptible::kYes);
    w.Notifier(1);
    w.Interrupter(0);
    w.Interrupter(0);
    w.ExpectPermits(1);
  });
}

TEST(WaitQueueModel, AnInterrupterMeetsTheNextWaitInTheSameFrame) {
  Explore({.name = "wait_queue: interrupt, next wait", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    w.Fiber(0, {Never(), Never()}, Interruptible::kYes);
    w.Notifier(2);
    w.Interrupter(0);
    w.ExpectPermits(2);
  });
}

TEST(WaitQueueModel, ANotificationPassesOverAWaitThatHasTimedOut) {
  Explore({.name = "wait_queue: the next in line", .preemptions = 3, .weak_choices = 1}, [](World& w) {
    w.Fiber(0, {Soon()});
    w.PatientFiber(1);
    w.Notifier(1);
    w.ExpectPermits(1);
  });
  Explore({.name = "wait_queue: two fibers, one times out", .preemptions = 2, .weak_choices = 1}, [](World& w) {
    w.Fiber(0, {Soon()});
    w.Fiber(1, {Never()});
    w.Notifier(2);
    w.ExpectPermits(2);
  });
  Explore({.name = "wait_queue: fiber and thread, both time out", .preemptions = 2, .weak_choices = 1}, [](World& w) {
    w.Fiber(0, {Soon()});
    w.Thread(1, {Soon()});
    w.Notifier(1);
    w.ExpectPermits(1);
  });
}

TEST(WaitQueueModel, TwoNotifiers) {
  Explore({.name = "wait_queue: two notifiers", .preemptions = 3, .weak_choices = 1}, [](World& w) {
    w.Fiber(0, {Never()}, Interruptible::kYes);
    w.Fiber(1, {Never()});
    w.Notifier(1);
    w.Notifier(1);
    w.ExpectPermits(2);
  });
}

TEST(WaitQueueModel, NotifyAllWakesFibersAndThreads) {
  Explore({.name = "wait_queue: notify all", .preemptions = 3, .weak_choices = 1}, [](World& w) {
    w.Fiber(0, {Never()}, Interruptible::kYes);
    w.Thread(1, {Never()});
    w.Other("notifier", [gate = w.gate()] { gate->ReleaseAll(2); });
  });
  Explore({.name = "wait_queue: notify all, time-out", .preemptions = 2, .weak_choices = 1}, [](World& w) {
    w.Fiber(0, {Soon()});
    w.Thread(1, {Soon()});
    w.Other("notifier", [gate = w.gate()] { gate->ReleaseAll(2); });
  });
}

TEST(WaitQueueModel, ASleepEndsByItsDeadlineOrByAnInterruption) {
  Explore({.name = "wait_queue: sleep", .preemptions = model::kUnbounded, .weak_choices = 3}, [](World& w) {
    w.Fiber(0, /*timed=*/true, [](Party* party) {
      const WaitResult result = SleepUntil(Soon(), Interruptible::kYes);
      MODEL_CHECK(result != WaitResult::kNotified, "nobody could notify");
      if (result == WaitResult::kInterrupted) ++party->interrupted;
    });
    w.Interrupter(0);
  });
}

// WQ2: the primitive may be destroyed as soon as the wait has returned.
template <bool kFiber>
void DestroyedByItsWaiter(World& w) {
  struct Latch {
    WaitQueue queue;
    model::Data<bool> open{false};
  };
  auto* latch = new Latch;
  const auto wait = [latch] {
    latch->queue.lock();
    if (latch->open.Read()) {
      latch->queue.unlock();
    } else {
      Waiter waiter;
      MODEL_CHECK(latch->queue.Wait(&waiter, Never(), Interruptible::kNo) == WaitResult::kNotified, "only that");
    }
    delete latch;
  };
  if (kFiber) {
    w.Fiber(0, /*timed=*/false, [wait](Party*) { wait(); });
  } else {
    w.Other("waiter", wait);
  }
  w.Other("opener", [latch] {
    WaitList claimed;
    latch->queue.lock();
    latch->open.Write(true);
    latch->queue.ClaimAll(&claimed);
    latch->queue.unlock();
    WakeAll(&claimed);
  });
}

TEST(WaitQueueModel, TheWaiterMayDestroyTheQueue) {
  Explore({.name = "wait_queue: destroyed by a fiber", .preemptions = model::kUnbounded, .weak_choices = 3},
          DestroyedByItsWaiter<true>);
  Explore({.name = "wait_queue: destroyed by a thread", .preemptions = model::kUnbounded, .weak_choices = 3},
          DestroyedByItsWaiter<false>);
}

// WQ5: Drain() waits for those that were passed over.
TEST(WaitQueueModel, ADrainedQueueMayBeDestroyed) {
  Explore({.name = "wait_queue: drained", .preemptions = 3, .weak_choices = 2}, [](World& w) {
    struct Shared {
      WaitQueue queue;
      model::Parker waits;
    };
    auto* shared = new Shared;
    w.Fiber(0, /*timed=*/true, [shared](Party*) {
      shared->queue.lock();
      shared->waits.Unpark();
      Waiter waiter;
      static_cast<void>(shared->queue.Wait(&waiter, Soon(), Interruptible::kNo));
    });
    w.Other("owner", [shared] {
      shared->waits.Park();
      WaitList claimed;
      shared->queue.lock();
      shared->queue.ClaimAll(&claimed);
      shared->queue.unlock();
      WakeAll(&claimed);
      shared->queue.Drain();
      delete shared;
    });
  });
}

}  // namespace
}  // namespace weft::synchronization
