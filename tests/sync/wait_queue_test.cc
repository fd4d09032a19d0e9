// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/wait/wait_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "testing/group_fixture.h"
#include "testing/interrupt_wait.h"

namespace weft::synchronization {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldUntil;

constexpr Deadline kNever = Deadline::None();

// The simplest primitive there is: counts notifications that found nobody.
struct Gate {
  WaitQueue queue;
  int tokens WEFT_GUARDED_BY(queue) = 0;

  WaitResult Enter(Deadline deadline, Interruptible interruptible = Interruptible::kNo) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    Waiter waiter;
    queue.lock();
    if (tokens > 0) {
      --tokens;
      queue.unlock();
      return WaitResult::kNotified;
    }
    return queue.Wait(&waiter, deadline, interruptible);
  }
  // True: somebody was woken; otherwise a token is left.
  bool NotifyOne() {
    queue.lock();
    Waiter* waiter = queue.ClaimFirst();
    if (waiter == nullptr) ++tokens;
    queue.unlock();
    if (waiter != nullptr) waiter->Wake();
    return waiter != nullptr;
  }
  void NotifyAll() {
    WaitList claimed;
    queue.lock();
    queue.ClaimAll(&claimed);
    queue.unlock();
    WakeAll(&claimed);
  }
  bool HasWaiter() {
    queue.lock();
    const bool has = !queue.empty();
    queue.unlock();
    return has;
  }
  int Tokens() {
    queue.lock();
    const int now = tokens;
    queue.unlock();
    return now;
  }
};

class WaitQueueTest : public testing::OnAnyCrew {};

TEST_P(WaitQueueTest, AWaiterIsWokenByANotification) {
  Gate gate;
  std::atomic<int> results{0};
  Crew crew = MakeCrew();
  crew.Add([&] { results += gate.Enter(kNever) == WaitResult::kNotified; });
  crew.Add([&] { gate.NotifyOne(); });
  crew.Join();
  EXPECT_EQ(results, 1);
}

TEST_P(WaitQueueTest, ManyWaitersAreAllWokenAtOnce) {
  constexpr int kWaiters = 100;  // More than one batch of WakeAll().
  Gate gate;
  std::atomic<int> entered{0};
  std::atomic<int> through{0};
  Crew crew = MakeCrew();
  const int waiters = GetParam().actors == testing::ActorKind::kFibers ? kWaiters : 40;
  crew.AddMany(waiters, [&](int) {
    ++entered;
    EXPECT_EQ(gate.Enter(kNever), WaitResult::kNotified);
    ++through;
  });
  crew.Add([&] {
    while (through != waiters) {
      gate.NotifyAll();
      testing::YieldActor();
    }
  });
  crew.Join();
  EXPECT_EQ(through, waiters);
}

TEST_P(WaitQueueTest, AWaitTimesOutAndNeverTooEarly) {
  Gate gate;
  Crew crew = MakeCrew();
  crew.AddMany(4, [&](int i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto timeout = std::chrono::milliseconds(1 + 3 * i);
    EXPECT_EQ(gate.Enter(Deadline::After(timeout, begin)), WaitResult::kTimedOut);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, timeout);
  });
  crew.Join();
  EXPECT_FALSE(gate.HasWaiter());
}

TEST_P(WaitQueueTest, ADeadlineInThePastTimesOutAtOnce) {
  Gate gate;
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int) { EXPECT_EQ(gate.Enter(std::chrono::steady_clock::now() - 1s), WaitResult::kTimedOut); });
  crew.Join();
}

TEST_P(WaitQueueTest, ANotificationBeforeTheDeadlineEndsATimedWait) {
  Gate gate;
  Crew crew = MakeCrew();
  crew.Add([&] { EXPECT_EQ(gate.Enter(1h), WaitResult::kNotified); });
  crew.Add([&] {
    YieldUntil([&] { return gate.HasWaiter(); });
    EXPECT_TRUE(gate.NotifyOne());
  });
  crew.Join();
  EXPECT_EQ(group.timers().armed(), 0u);
}

// Waiters time out while notifiers notify: each notification is received by a waiter or found nobody; none is
// swallowed.
TEST_P(WaitQueueTest, NoNotificationIsSwallowedByATimedOutWaiter) {
  constexpr int kWaiters = 6;
  const int notifications = Scaled(3000);
  Gate gate;
  std::atomic<int> received{0};
  std::atomic<bool> stop{false};
  Crew crew = MakeCrew();
  crew.AddMany(kWaiters, [&](int i) {
    std::uint32_t random = 17 * (i + 1);
    while (!stop) {
      random = random * 1664525 + 1013904223;
      const auto timeout = std::chrono::microseconds(random >> 24);
      if (gate.Enter(timeout) == WaitResult::kNotified) ++received;
    }
  });
  crew.Add([&] {
    for (int i = 0; i < notifications; ++i) {
      gate.NotifyOne();
      if (i % 16 == 0) testing::YieldActor();
    }
    YieldUntil([&] { return gate.Tokens() == 0; });
    stop = true;
  });
  crew.Join();
  // What came in between the last look and the stop is taken too: all that was given has been received.
  EXPECT_EQ(received + gate.Tokens(), notifications);
}

TEST_P(WaitQueueTest, SleepsForAtLeastTheTime) {
  Crew crew = MakeCrew();
  crew.AddMany(8, [&](int i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(SleepUntil(Deadline::After(std::chrono::milliseconds(i), begin), Interruptible::kNo),
              WaitResult::kTimedOut);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(i));
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(WaitQueueTest);

// --- Interruption: fibers only ---

class InterruptionTest : public ::testing::TestWithParam<unsigned> {
 protected:
  InterruptionTest() : group(GetParam()) {}
  testing::TimedGroup group;
};

TEST_P(InterruptionTest, EndsAnInterruptibleWait) {
  Gate gate;
  std::atomic<FiberEntity*> fiber{nullptr};
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.Add([&] {
    const testing::InScope in_scope;
    fiber = scheduling_group::CurrentFiber();
    EXPECT_EQ(gate.Enter(kNever, Interruptible::kYes), WaitResult::kInterrupted);
    EXPECT_FALSE(gate.HasWaiter()) << "it has left the queue";
    fiber = nullptr;
  });
  crew.Add([&] {
    YieldUntil([&] { return gate.HasWaiter(); });
    EXPECT_TRUE(testing::InterruptWait(fiber));
  });
  crew.Join();
}

TEST_P(InterruptionTest, EndsATimedWaitAndASleep) {
  Gate gate;
  std::atomic<FiberEntity*> fiber{nullptr};
  std::atomic<bool> done{false};
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.Add([&] {
    const testing::InScope in_scope;
    fiber = scheduling_group::CurrentFiber();
    EXPECT_EQ(gate.Enter(1h, Interruptible::kYes), WaitResult::kInterrupted);
    EXPECT_EQ(SleepUntil(1h, Interruptible::kYes), WaitResult::kInterrupted);
    EXPECT_EQ(SleepUntil(kNever, Interruptible::kYes), WaitResult::kInterrupted);
    done = true;
  });
  crew.Add([&] {
    int interrupted = 0;
    while (interrupted < 3) {
      if (fiber != nullptr && testing::InterruptWait(fiber)) ++interrupted;
      testing::YieldActor();
    }
    YieldUntil([&] { return done.load(); });
  });
  crew.Join();
}

TEST_P(InterruptionTest, DoesNothingToAWaitThatIsNotInterruptible) {
  Gate gate;
  std::atomic<FiberEntity*> fiber{nullptr};
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.Add([&] {
    const testing::InScope in_scope;
    fiber = scheduling_group::CurrentFiber();
    EXPECT_EQ(gate.Enter(kNever, Interruptible::kNo), WaitResult::kNotified);
    EXPECT_EQ(gate.Enter(1h, Interruptible::kNo), WaitResult::kNotified);
  });
  crew.Add([&] {
    for (int wait = 0; wait < 2; ++wait) {
      YieldUntil([&] { return gate.HasWaiter(); });
      EXPECT_FALSE(testing::InterruptWait(fiber));
      EXPECT_TRUE(gate.NotifyOne());
    }
  });
  crew.Join();
}

TEST_P(InterruptionTest, DoesNothingToAFiberThatDoesNotWait) {
  group.Run([] { EXPECT_FALSE(testing::InterruptWait(scheduling_group::CurrentFiber())); });
}

// All three ends at once: each wait ends once, and what was notified is received.
TEST_P(InterruptionTest, RacesWithNotificationAndTimeOut) {
  const int rounds = Scaled(5000);
  Gate gate;
  std::atomic<FiberEntity*> fiber{nullptr};
  std::atomic<bool> stop{false};
  std::atomic<int> notified{0}, received{0}, interruptions{0}, interrupted{0}, timed_out{0};
  std::atomic<int> helpers{2};
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.Add([&] {
    const testing::InScope in_scope;
    fiber = scheduling_group::CurrentFiber();
    for (int i = 0; i < rounds; ++i) {
      const auto deadline = i % 2 == 0 ? Deadline(std::chrono::microseconds(i % 70)) : kNever;
      switch (gate.Enter(deadline, Interruptible::kYes)) {
        case WaitResult::kNotified:
          ++received;
          break;
        case WaitResult::kTimedOut:
          ++timed_out;
          break;
        case WaitResult::kInterrupted:
          ++interrupted;
          break;
      }
    }
    stop = true;
    YieldUntil([&] { return helpers == 0; });  // It may not end while others interrupt it.
  });
  crew.Add([&] {
    while (!stop) {
      gate.NotifyOne();
      ++notified;
      testing::YieldActor();
    }
    --helpers;
  });
  crew.Add([&] {
    YieldUntil([&] { return fiber != nullptr; });
    while (!stop) {
      if (testing::InterruptWait(fiber)) ++interruptions;
      testing::YieldActor();
    }
    --helpers;
  });
  crew.Join();
  EXPECT_EQ(received + interrupted + timed_out, rounds);
  EXPECT_EQ(interrupted, interruptions);
  EXPECT_EQ(received + gate.Tokens(), notified);
}

INSTANTIATE_TEST_SUITE_P(Workers, InterruptionTest, ::testing::Values(1u, 2u, 4u, 64u));

// --- Lifetime ---

// The notifier touches neither the queue nor the waiter when the waiter may be back: both are destroyed at once. For
// ASan and TSan.
TEST_P(WaitQueueTest, MayBeDestroyedAsSoonAsTheWaitHasReturned) {
  const int rounds = Scaled(1000);
  Crew crew = MakeCrew();
  std::atomic<Gate*> current{nullptr};
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto gate = std::make_unique<Gate>();
      current = gate.get();
      ASSERT_EQ(gate->Enter(i % 2 == 0 ? kNever : Deadline(1h)), WaitResult::kNotified);
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      Gate* gate = nullptr;
      YieldUntil([&] { return (gate = current.exchange(nullptr)) != nullptr; });
      YieldUntil([&] { return gate->HasWaiter(); });
      gate->NotifyOne();
    }
  });
  crew.Join();
}

// All have been in the queue and have been notified or timed out, but not all have left: Drain() waits for these.
TEST_P(WaitQueueTest, DrainWaitsForWaitersThatWerePassedOver) {
  constexpr int kWaiters = 3;
  const int rounds = Scaled(500);
  struct Round {
    Gate gate;
    int entered = 0;  // guarded by the queue
  };
  std::array<std::atomic<Round*>, kWaiters> offers{};
  Crew crew = MakeCrew();
  crew.AddMany(kWaiters, [&](int me) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    for (int i = 0; i < rounds; ++i) {
      Round* round = nullptr;
      YieldUntil([&] { return (round = offers[me].exchange(nullptr)) != nullptr; });
      const Deadline deadline = std::chrono::microseconds(20 * (me + 1));
      Waiter waiter;
      WaitQueue& queue = round->gate.queue;
      queue.lock();
      ++round->entered;
      queue.Enqueue(&waiter, deadline, Interruptible::kNo);
      queue.unlock();
      static_cast<void>(queue.Await(&waiter, deadline));
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto round = std::make_unique<Round>();
      for (auto& offer : offers) offer = round.get();
      YieldUntil([&] {
        round->gate.queue.lock();
        const int entered = round->entered;
        round->gate.queue.unlock();
        return entered == kWaiters;
      });
      round->gate.NotifyAll();
      round->gate.queue.Drain();
    }
  });
  crew.Join();
}

}  // namespace
}  // namespace weft::synchronization
