// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Each wait of fiber/ that has no test of its own for it is a cancellation point, and leaves no trace when it is
// cancelled. Those of sync/: tests/sync/cancel_scope_test.cc.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>

#include "weft/fiber/background_tasks.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/future.h"
#include "weft/fiber/mailbox.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"

#include "fiber/helper_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class CancellationPointsTest : public InEachShape {};
WEFT_INSTANTIATE_FEW_SHAPES(CancellationPointsTest);

// Objects to wait on. Nothing but a cancellation ends these waits; afterwards each object is as it was.
struct World {
  Mailbox<int> empty;
  Mailbox<int> unwanted;
  Mailbox<int> full{1};
  const Mailbox<int>::Sender to_full = full.MakeSender();
  Promise<int> promise;
  Future<int> future = promise.GetFuture();
  FiberEvent task_may_end;
  BackgroundTasks tasks;

  World() {
    EXPECT_EQ(unwanted.MakeSender().Send(1), ChannelResult::kOk);
    EXPECT_EQ(to_full.Send(2), ChannelResult::kOk);
    EXPECT_TRUE(tasks.Start([this] { task_may_end.Wait(); }));
  }
  ~World() {
    EXPECT_EQ(empty.TryReceive(), std::nullopt);
    EXPECT_EQ(unwanted.TryReceive(), 1);
    EXPECT_EQ(full.TryReceive(), 2);
    EXPECT_EQ(full.TryReceive(), std::nullopt) << "a cancelled Send() has sent";
    EXPECT_EQ(tasks.Count(), 1U);
    EXPECT_TRUE(future.Valid());
    EXPECT_TRUE(promise.SetValue(3));
    EXPECT_EQ(future.Get(), 3);
    task_may_end.Set();
    tasks.Wait();
  }
};
struct CancellationPoint {
  const char* name;
  void (*wait)(World& world);
};
bool IsTwo(int message) { return message == 2; }
constexpr CancellationPoint kPoints[] = {
    {"Mailbox, Receive", [](World& w) { EXPECT_FALSE(w.empty.Receive()); }},
    {"Mailbox, Receive, timed", [](World& w) { EXPECT_FALSE(w.empty.Receive(1h)); }},
    {"Mailbox, ReceiveIf", [](World& w) { EXPECT_FALSE(w.unwanted.ReceiveIf(IsTwo)); }},
    {"Mailbox, ReceiveIf, timed", [](World& w) { EXPECT_FALSE(w.unwanted.ReceiveIf(IsTwo, 1h)); }},
    {"Mailbox, Send", [](World& w) { EXPECT_NE(w.to_full.Send(5), ChannelResult::kOk); }},
    {"Mailbox, Send, timed", [](World& w) { EXPECT_NE(w.to_full.Send(5, 1h), ChannelResult::kOk); }},
    {"Future, Wait", [](World& w) { EXPECT_FALSE(w.future.Wait()); }},
    {"Future, Wait, timed", [](World& w) { EXPECT_FALSE(w.future.Wait(Deadline(1h))); }},
    {"Future, Get", [](World& w) { EXPECT_EQ(w.future.Get(), 0); }},
    {"Future, GetException", [](World& w) { static_cast<void>(w.future.GetException()); }},
    {"BackgroundTasks, Wait", [](World& w) { w.tasks.Wait(); }},
    {"BackgroundTasks, Wait, timed", [](World& w) { EXPECT_FALSE(w.tasks.Wait(1h)); }},
};

TEST_P(CancellationPointsTest, CancelEndsAWaitThatIsUnderWay) {
  for (const CancellationPoint& point : kPoints) {
    SCOPED_TRACE(point.name);
    World world;
    std::atomic<bool> waits{false};
    std::atomic<bool> went_on{false};
    Fiber waiter([&] {
      waits = true;
      point.wait(world);
      went_on = true;
    });
    Until([&] { return waits.load(); });
    EXPECT_TRUE(waiter.Cancel());
    waiter.Join();
    EXPECT_FALSE(went_on);
  }
}

// Here and below no SCOPED_TRACE(): that is the thread's, and fibers change threads.
TEST_P(CancellationPointsTest, InACancelledScopeEachWaitThrows) {
  InFiber([] {
    for (const CancellationPoint& point : kPoints) {
      World world;
      CancelScope scope;
      scope.Cancel();
      for (int i = 0; i < 2; ++i) {
        EXPECT_FALSE(scope.Run([&] {
          point.wait(world);
          ADD_FAILURE() << point.name << ": it did not throw";
        })) << point.name;
      }
    }
  });
}

TEST_P(CancellationPointsTest, ADeadlineEndsEachWait) {
  InFiber([] {
    for (const CancellationPoint& point : kPoints) {
      World world;
      CancelScope scope(1ms);
      EXPECT_FALSE(scope.Run([&] { point.wait(world); })) << point.name;
      EXPECT_TRUE(scope.DeadlineHasPassed());
    }
  });
}

}  // namespace
}  // namespace weft::fiber
