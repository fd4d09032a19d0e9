// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/wait_state.h and sync/wait_queue.{h,cc} through all interleavings: fibers and threads that wait for a permit;
// notifiers, time-outs and interrupters that would end their waits. Of these one wins (WS1, WS2); no permit is lost or had
// twice (WS4); and nobody touches a wait or a queue that may be gone (WS5, WQ2): the fields of a wait are checked for
// races, and with them its end. The scheduler, the timers and the spin lock are those of tests/model/stubs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <utility>

#include "weft/scheduling_group/park.h"
#include "weft/sync/wait_queue.h"
#include "weft/tests/testing/interleave.h"
#include "weft/timer/timer_worker.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft::sync {
namespace {

using scheduling_group::SetFiber;

constexpr int kMaxWaiters = 3;

// A counting semaphore, as simple as can be.
class Gate {
 public:
  WaitResult Acquire(base::Deadline deadline, Interruptible interruptible) {
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

// One that waits, as a fiber or as a thread, and what became of it.
struct Party {
  FiberEntity fiber;
  timer::TimerWorker timers;
  scheduling_group::SchedulingGroup group;
  int acquired = 0;
  int timed_out = 0;
  int interrupted = 0;

  Party() {
    group.timers = &timers;
    fiber.set_group(&group);
  }

  void Wait(Gate* gate, base::Deadline deadline, Interruptible interruptible) {
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

struct World {
  Gate gate;
  std::array<Party, kMaxWaiters> parties;
  int interrupts = 0;  // that InterruptWait() says it made

  int acquired() const { return parties[0].acquired + parties[1].acquired + parties[2].acquired; }
  int interrupted() const { return parties[0].interrupted + parties[1].interrupted + parties[2].interrupted; }
};

base::Deadline Never() { return base::Deadline::Infinite(); }
base::Deadline Soon() { return base::Deadline::After(std::chrono::hours(1)); }  // Time is the model's.

// Builds a scenario: threads in the order of the calls.
class Builder {
 public:
  // The world is not destroyed at the end: somebody may still wait.
  explicit Builder(model::Scenario& scenario) : scenario_(scenario), world_(new World) {
    scenario.Name(world_, sizeof(*world_), "world");
    scenario.Name(&world_->gate, sizeof(world_->gate), "gate");
    static constexpr const char* kNames[kMaxWaiters] = {"fiber 0's current_wait", "fiber 1's current_wait",
                                                        "fiber 2's current_wait"};
    for (int i = 0; i < kMaxWaiters; ++i) {
      FiberEntity& fiber = world_->parties[i].fiber;
      scenario.Name(&fiber.current_wait, sizeof(fiber.current_wait), kNames[i]);
    }
    scenario.AtEnd([world = world_] {
      MODEL_CHECK(world->gate.empty_hint() || world->gate.permits() == 0, "somebody waits beside a permit (WS4)");
      MODEL_CHECK(world->interrupts == world->interrupted(), "an interruption was not the result of a wait, or twice");
    });
  }

  World* world() const { return world_; }

  // A fiber that runs `body`; with a timer thread of its own if it has deadlines.
  void Fiber(int party, const char* name, bool timed, std::function<void(Party*)> body) {
    Party* p = &world_->parties[party];
    SetFiber(++threads_, &p->fiber);
    scenario_.Thread(name, [p, body = std::move(body)] { body(p); });
    if (!timed) return;
    SetFiber(++threads_, nullptr);
    scenario_.Background("timer", [p] { p->timers.Run(); });
  }

  // Waits once for each of `deadlines`.
  void Fiber(int party, std::initializer_list<base::Deadline> deadlines,
             Interruptible interruptible = Interruptible::kNo) {
    bool timed = false;
    for (const base::Deadline& deadline : deadlines) timed |= !deadline.is_infinite();
    Fiber(party, kFiberNames[party], timed, Waits(deadlines, interruptible));
  }

  // Waits once, and may wait for ever.
  void PatientFiber(int party) {
    Party* p = &world_->parties[party];
    SetFiber(++threads_, &p->fiber);
    scenario_.Background(kFiberNames[party], [p, body = Waits({Never()}, Interruptible::kNo)] { body(p); });
  }

  void Thread(int party, std::initializer_list<base::Deadline> deadlines) {
    static constexpr const char* kNames[kMaxWaiters] = {"thread 0", "thread 1", "thread 2"};
    SetFiber(++threads_, nullptr);
    scenario_.Thread(kNames[party],
                     [party = &world_->parties[party], body = Waits(deadlines, Interruptible::kNo)] { body(party); });
  }

  void Notifier(int permits) {
    Other("notifier", [world = world_, permits] {
      for (int i = 0; i < permits; ++i) world->gate.Release();
    });
  }

  void Interrupter(int party) {
    Other("interrupter", [world = world_, party] {
      if (InterruptWait(&world->parties[party].fiber)) ++world->interrupts;
    });
  }

  void Other(const char* name, std::function<void()> body) {
    SetFiber(++threads_, nullptr);
    scenario_.Thread(name, std::move(body));
  }

  // At the end: each permit was acquired or is still there.
  void ExpectPermits(int released) {
    scenario_.AtEnd([world = world_, released] {
      MODEL_CHECK(world->acquired() + world->gate.permits() == released, "a permit is lost, or was had twice");
    });
  }

 private:
  static constexpr const char* kFiberNames[kMaxWaiters] = {"fiber 0", "fiber 1", "fiber 2"};

  std::function<void(Party*)> Waits(std::initializer_list<base::Deadline> deadlines, Interruptible interruptible) {
    std::array<base::Deadline, 2> copy{};
    std::copy(deadlines.begin(), deadlines.end(), copy.begin());
    return [gate = &world_->gate, copy, count = deadlines.size(), interruptible](Party* party) {
      for (std::size_t i = 0; i < count; ++i) party->Wait(gate, copy[i], interruptible);
    };
  }

  model::Scenario& scenario_;
  World* const world_;
  int threads_ = 0;
};

void Explore(const model::Options& options, void (*build)(Builder&)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    Builder builder(scenario);
    build(builder);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(WaitQueueModel, NotificationEndsTheWaitOfAFiberAndOfAThread) {
  Explore({.name = "wait_queue: fiber", .preemptions = model::kUnbounded, .weak_choices = 4}, [](Builder& b) {
    b.Fiber(0, {Never(), Never()});
    b.Notifier(2);
    b.ExpectPermits(2);
  });
  Explore({.name = "wait_queue: thread", .preemptions = 4, .weak_choices = 2}, [](Builder& b) {
    b.Thread(0, {Never(), Never()});
    b.Notifier(2);
    b.ExpectPermits(2);
  });
}

TEST(WaitQueueModel, NotificationAgainstTimeOut) {
  Explore({.name = "wait_queue: fiber, time-out", .preemptions = 4, .weak_choices = 2}, [](Builder& b) {
    b.Fiber(0, {Soon()});
    b.Notifier(1);
    b.ExpectPermits(1);
  });
  Explore({.name = "wait_queue: thread, time-out", .preemptions = 4, .weak_choices = 2}, [](Builder& b) {
    b.Thread(0, {Soon()});
    b.Notifier(1);
    b.ExpectPermits(1);
  });
}

TEST(WaitQueueModel, NotificationAgainstTimeOutAgainstInterruption) {
  Explore({.name = "wait_queue: notify, time-out, interrupt", .preemptions = 3, .weak_choices = 2}, [](Builder& b) {
    b.Fiber(0, {Soon()}, Interruptible::kYes);
    b.Notifier(1);
    b.Interrupter(0);
    b.ExpectPermits(1);
  });
}

TEST(WaitQueueModel, TwoInterruptersOneNotifier) {
  Explore({.name = "wait_queue: notify, interrupt twice", .preemptions = 3, .weak_choices = 2}, [](Builder& b) {
    b.Fiber(0, {Never()}, Interruptible::kYes);
    b.Notifier(1);
    b.Interrupter(0);
    b.Interrupter(0);
    b.ExpectPermits(1);
  });
}

TEST(WaitQueueModel, AnInterrupterMeetsTheNextWaitInTheSameFrame) {
  Explore({.name = "wait_queue: interrupt, next wait", .preemptions = 3, .weak_choices = 2}, [](Builder& b) {
    b.Fiber(0, {Never(), Never()}, Interruptible::kYes);
    b.Notifier(2);
    b.Interrupter(0);
    b.ExpectPermits(2);
  });
}

TEST(WaitQueueModel, ANotificationPassesOverAWaitThatHasTimedOut) {
  Explore({.name = "wait_queue: the next in line", .preemptions = 3, .weak_choices = 1}, [](Builder& b) {
    b.Fiber(0, {Soon()});
    b.PatientFiber(1);
    b.Notifier(1);
    b.ExpectPermits(1);
  });
  Explore({.name = "wait_queue: two fibers, one times out", .preemptions = 2, .weak_choices = 1}, [](Builder& b) {
    b.Fiber(0, {Soon()});
    b.Fiber(1, {Never()});
    b.Notifier(2);
    b.ExpectPermits(2);
  });
  Explore({.name = "wait_queue: fiber and thread, both time out", .preemptions = 2, .weak_choices = 1}, [](Builder& b) {
    b.Fiber(0, {Soon()});
    b.Thread(1, {Soon()});
    b.Notifier(1);
    b.ExpectPermits(1);
  });
}

TEST(WaitQueueModel, TwoNotifiers) {
  Explore({.name = "wait_queue: two notifiers", .preemptions = 3, .weak_choices = 1}, [](Builder& b) {
    b.Fiber(0, {Never()}, Interruptible::kYes);
    b.Fiber(1, {Never()});
    b.Notifier(1);
    b.Notifier(1);
    b.ExpectPermits(2);
  });
}

TEST(WaitQueueModel, NotifyAllWakesFibersAndThreads) {
  Explore({.name = "wait_queue: notify all", .preemptions = 3, .weak_choices = 1}, [](Builder& b) {
    b.Fiber(0, {Never()}, Interruptible::kYes);
    b.Thread(1, {Never()});
    b.Other("notifier", [world = b.world()] { world->gate.ReleaseAll(2); });
  });
  Explore({.name = "wait_queue: notify all, time-out", .preemptions = 2, .weak_choices = 1}, [](Builder& b) {
    b.Fiber(0, {Soon()});
    b.Thread(1, {Soon()});
    b.Other("notifier", [world = b.world()] { world->gate.ReleaseAll(2); });
  });
}

TEST(WaitQueueModel, ASleepEndsByItsDeadlineOrByAnInterruption) {
  Explore({.name = "wait_queue: sleep", .preemptions = model::kUnbounded, .weak_choices = 3}, [](Builder& b) {
    b.Fiber(0, "sleeper", /*timed=*/true, [](Party* party) {
      const WaitResult result = SleepUntil(Soon(), Interruptible::kYes);
      MODEL_CHECK(result != WaitResult::kNotified, "nobody could notify");
      if (result == WaitResult::kInterrupted) ++party->interrupted;
    });
    b.Interrupter(0);
  });
}

// WQ2: the primitive may be destroyed as soon as the wait has returned.
template <bool kFiber>
void DestroyedByItsWaiter(Builder& b) {
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
    b.Fiber(0, "waiter", /*timed=*/false, [wait](Party*) { wait(); });
  } else {
    b.Other("waiter", wait);
  }
  b.Other("opener", [latch] {
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
  Explore({.name = "wait_queue: drained", .preemptions = 3, .weak_choices = 2}, [](Builder& b) {
    struct Shared {
      WaitQueue queue;
      model::Parker waits;
    };
    auto* shared = new Shared;
    b.Fiber(0, "waiter", /*timed=*/true, [shared](Party*) {
      shared->queue.lock();
      shared->waits.Unpark();
      Waiter waiter;
      static_cast<void>(shared->queue.Wait(&waiter, Soon(), Interruptible::kNo));
    });
    b.Other("owner", [shared] {
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
}  // namespace weft::sync
