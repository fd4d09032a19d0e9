// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "weft/fiber/exception.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/future.h"
#include "weft/fiber/mailbox.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_latch.h"
#include "weft/timer/fiber_timer.h"

#include "stress/storm.h"

namespace weft::fiber {

using namespace std::chrono_literals;

void Storm::WaitForCertain(Place place) {
  switch (place) {
    case Place::kSemaphoreRelay:
      return RelayPermit();
    case Place::kChannelRelay:
      return RelayThroughChannel();
    case Place::kQueueRelay:
      return RelayThroughQueue();
    case Place::kConditionRelay:
      return RelayByCondition();
    case Place::kEventGate:
      return PassEvent();
    case Place::kLatchGate:
      return PassLatch();
    case Place::kBarrier:
      return MeetAtBarrier();
    case Place::kTimerGate:
      return AwaitTimer();
    case Place::kFuture:
      return AwaitFuture();
    default:
      return UseMailbox();
  }
}

// One fiber passes something, once. The caller takes it, for sure; others beside it, which give up at any time, take it
// perhaps, and pass it on if it is one for each. take(deadline): false: not in time. False: nothing was passed.
template <class Pass, class Take>
bool Storm::Relay(bool passed_on, Pass pass, Take take) {
  FiberScope others({.policy = ScopePolicy::kCollect});
  const auto hesitate_and_pass = [&pass, yields = Below(3)] {
    Shielded([&] {
      for (int i = 0; i < yields; ++i) FiberYield();
      pass();
    });
  };
  if (!others.Spawn({.scheduling_group = kUnspecifiedSchedulingGroup}, hesitate_and_pass)) return false;
  for (int i = Below(3); i > 0; --i) {
    static_cast<void>(others.Spawn([&, passed_on, until = SoonOrNever(), scope_until = SoonOrNever()] {
      bool taken = false;
      CancelScope hurried(scope_until);
      static_cast<void>(hurried.Run([&] { taken = take(until); }));
      if (taken && passed_on) Shielded(pass);
    }));
  }
  if (Below(4) == 0) others.Cancel();
  Shielded([&] {
    EXPECT_TRUE(take(Deadline::None()));
    others.Cancel();
    others.Wait();
  });
  return true;
}

void Storm::RelayPermit() {
  FiberSemaphore permit(0);
  Relay(
      true, [&] { permit.Release(); }, [&](Deadline deadline) { return permit.Acquire(deadline); });
  EXPECT_FALSE(permit.TryAcquire()) << "two permits of one";
}

void Storm::RelayThroughChannel() {
  FiberChannel<int> channel(static_cast<std::size_t>(Below(2)));
  Relay(
      true, [&] { EXPECT_EQ(channel.Put(1), ChannelResult::kOk); },
      [&](Deadline deadline) { return static_cast<bool>(channel.Get(deadline)); });
  EXPECT_FALSE(channel.TryGet()) << "two items of one";
}

void Storm::RelayThroughQueue() {
  FiberBlockingBoundedQueue<int> queue(1);
  Relay(
      true, [&] { EXPECT_EQ(queue.Put(1), ChannelResult::kOk); },
      [&](Deadline deadline) { return static_cast<bool>(queue.Get(deadline)); });
  EXPECT_FALSE(queue.TryGet()) << "two items of one";
}

void Storm::RelayByCondition() {
  FiberMutex mutex;
  FiberConditionVariable there;
  int tokens = 0;
  const bool with_the_lock = Below(2) == 0;
  Relay(
      true,
      [&] {
        std::unique_lock lock(mutex);
        ++tokens;
        if (!with_the_lock) lock.unlock();
        there.notify_one();
      },
      [&](Deadline deadline) {
        std::unique_lock lock(mutex);
        if (!there.wait(
                lock, [&] { return tokens != 0; }, deadline)) {
          return false;
        }
        --tokens;
        return true;
      });
  EXPECT_EQ(tokens, 0);
}

void Storm::PassEvent() {
  FiberEvent event;
  Relay(
      false, [&] { event.Set(); }, [&](Deadline deadline) { return event.Wait(deadline); });
}

void Storm::PassLatch() {
  FiberLatch latch(2);
  if (Below(2) == 0) {
    latch.CountDown();
    Relay(
        false, [&] { latch.CountDown(); }, [&](Deadline deadline) { return latch.Wait(deadline); });
  } else {
    Relay(
        false, [&] { latch.CountDown(2); }, [&](Deadline deadline) { return latch.Wait(deadline); });
  }
}

// All arrive, though some do not wait for the others.
void Storm::MeetAtBarrier() {
  const int others_count = 1 + Below(3);
  std::atomic<int> completed{0};
  FiberBarrier barrier(1 + others_count, [&] { ++completed; });
  FiberScope others({.policy = ScopePolicy::kCollect});
  for (int i = 0; i < others_count; ++i) {
    const bool started = others.Spawn([&, until = SoonOrNever()] {
      CancelScope hurried(until);
      static_cast<void>(hurried.Run([&] { barrier.ArriveAndWait(); }));
    });
    if (!started) barrier.ArriveAndDrop();
  }
  if (Below(4) == 0) others.Cancel();
  Shielded([&] {
    barrier.ArriveAndWait();
    others.Wait();
  });
  EXPECT_EQ(completed, 1);
}

void Storm::AwaitTimer() {
  const bool in_time = Below(2) == 0;
  const auto event = std::make_shared<FiberEvent>();
  // Its callback runs on the timer thread. A late one is killed, and one that is left behind is found in the end.
  const std::uint64_t id = CreateFiberTimer(in_time ? Deadline(Soon(1000)) : Deadline(1h), [event] { event->Set(); });
  if (id == 0) return;  // Refused.
  const struct Killer {
    ~Killer() { KillFiberTimerAndWait(id); }
    std::uint64_t id;
  } killer{id};
  EnableFiberTimer(id);
  if (in_time) {
    Shielded([&] { event->Wait(); });
  } else {
    static_cast<void>(event->Wait(Soon(1000)));
  }
}

void Storm::AwaitFuture() {
  constexpr int kResult = 7;
  const bool broken = Below(4) == 0;
  Promise<int> promise;
  Future<int> future = promise.GetFuture();
  FiberScope others({.policy = ScopePolicy::kCollect});
  const bool started = others.Spawn([promise = std::move(promise), broken, yields = Below(3)]() mutable {
    Shielded([yields] {
      for (int i = 0; i < yields; ++i) FiberYield();
    });
    if (!broken) promise.SetValue(kResult);
  });
  CancelScope hurried(SoonOrNever());
  static_cast<void>(hurried.Run([&] { future.Wait(); }));
  Shielded([&] {
    try {
      EXPECT_EQ(future.Get(), kResult);
    } catch (const BrokenPromise&) {
      EXPECT_TRUE(broken || !started);
    }
    others.Wait();
  });
}

// The caller receives until the last message, which always comes. It receives exactly the messages that were sent.
void Storm::UseMailbox() {
  constexpr int kLast = -1;
  Mailbox<int> mailbox(Below(2) == 0 ? 1 : Mailbox<int>::kUnbounded);
  std::atomic<int> sent{0};
  const auto send = [&sent, sender = mailbox.MakeSender()](int message, Deadline until) {
    if (sender.Send(message, until) == ChannelResult::kOk) ++sent;
  };
  FiberScope senders({.policy = ScopePolicy::kCollect, .deadline = SoonOrNever()});
  const bool started = senders.Spawn([&] { Shielded([&] { send(kLast, Deadline::None()); }); });
  for (int i = Below(3); i > 0; --i) {
    static_cast<void>(senders.Spawn([&, until = SoonOrNever()] {
      send(1, until);
      send(2, until);
    }));
  }
  int received = 0;
  Shielded([&] {
    int message = started ? 0 : kLast;
    auto receive = [&] {
      while (message != kLast) {
        message = mailbox.Receive().value_or(kLast);
        ++received;
      }
    };
    CancelScope hurried(SoonOrNever());
    static_cast<void>(hurried.Run(receive));
    receive();
    senders.Cancel();
    mailbox.Close();
    senders.Wait();
    received += static_cast<int>(mailbox.ReceiveAll().size());
  });
  EXPECT_EQ(sent, received);
}

}  // namespace weft::fiber
