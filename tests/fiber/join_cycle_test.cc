// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fibers that join each other in a cycle end the process, and are named; what only looks like a cycle does not.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "weft/base/report/str_cat.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "fiber/runtime_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

// Each dies in a process of its own, with so many workers.
class JoinCycleDeathTest : public ::testing::TestWithParam<int> {
 protected:
  JoinCycleDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  template <class F>
  static void Run(F f) {
    const fiber::RuntimeOf runtime(fiber::Shape{GetParam(), 1});
    f();
    static_cast<void>(FiberEvent().Wait(10s));
    std::_Exit(0);  // Nobody has noticed.
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, JoinCycleDeathTest, ::testing::Values(1, 2, 4, 8));

// `count` fibers, each of which joins the next one; all at once.
void JoinInARing(int count) {
  static std::vector<Fiber> fibers(static_cast<std::size_t>(count));
  static FiberEvent go;
  for (int i = 0; i < count; ++i) {
    fibers[static_cast<std::size_t>(i)] = Fiber({.name = base::StrCat("f", i)}, [i, count] {
      go.Wait();
      fibers[static_cast<std::size_t>((i + 1) % count)].Join();
    });
  }
  go.Set();
}

TEST_P(JoinCycleDeathTest, TwoFibersThatJoinEachOther) {
  EXPECT_DEATH(Run([] { JoinInARing(2); }),
               "Fiber::Join: fibers join each other in a cycle, so that none can end: "
               "fiber '(f0' \\(id [0-9]+\\) is in Fiber::Join\\(\\) of fiber 'f1' \\(id [0-9]+\\), which is in "
               "Fiber::Join\\(\\) of fiber 'f0' |f1' .* 'f0' .* 'f1' )");
}

TEST_P(JoinCycleDeathTest, ManyFibersInARing) {
  // Wherever in the ring the text begins.
  EXPECT_DEATH(Run([] { JoinInARing(20); }),
               "in a cycle.* fiber 'f4' \\(id [0-9]+\\),? (which )?is in Fiber::Join\\(\\) of fiber 'f5' ");
}

TEST_P(JoinCycleDeathTest, ThroughTasksAndFoundFibers) {
  EXPECT_DEATH(Run([] {
                 static std::optional<FiberTask<int>> task;
                 static std::optional<FiberTask<int>> other;
                 static FiberEvent go;
                 Fiber by_id({.name = "by id"}, [] {
                   go.Wait();
                   FindFiber(task->Id())->Join();
                 });
                 other.emplace(FiberAttributes{.name = "waiter"}, [id = by_id.Id()] {
                   go.Wait();
                   FindFiber(id)->Join();
                   return 1;
                 });
                 task.emplace(FiberAttributes{.name = "getter"}, [] {
                   go.Wait();
                   other->Wait();
                   return other->Get();
                 });
                 by_id.Detach();
                 go.Set();
               }),
               "in a cycle.*'(by id.*FoundFiber::Join.*getter.*FiberTask::Wait.*waiter.*FoundFiber::Join|"
               "getter.*waiter.*by id|waiter.*by id.*getter)");
}

class JoinCycleTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, JoinCycleTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}, fiber::Shape{2, 2}),
                         &fiber::NameOf);

TEST_P(JoinCycleTest, AChainOfJoinsIsNone) {
  constexpr int kLength = 100;
  for (const bool begins_at_the_end : {false, true}) {
    std::vector<Fiber> fibers(kLength + 1);
    FiberEvent all_made;
    FiberEvent go;
    std::vector<std::unique_ptr<FiberEvent>> joins;
    for (int i = 0; i <= kLength; ++i) joins.push_back(std::make_unique<FiberEvent>());
    for (std::size_t i = 0; i <= kLength; ++i) {
      fibers[i] = Fiber([&, i] {
        all_made.Wait();
        if (i == kLength) {
          joins[i]->Set();
          return go.Wait();
        }
        if (begins_at_the_end) joins[i + 1]->Wait();  // So each finds a path of edges.
        joins[i]->Set();
        fibers[i + 1].Join();
      });
    }
    all_made.Set();
    joins[0]->Wait();
    go.Set();
    fibers[0].Join();
  }
}

// What ends a join, is no cycle: a deadline, its own or a scope's, or a cancellation.
TEST_P(JoinCycleTest, AJoinWithADeadlineIsNone) {
  for (const bool by_scope : {false, true}) {
    FiberEvent assigned;
    Fiber impatient;
    Fiber patient([&] {
      assigned.Wait();
      impatient.Join();
    });
    impatient = Fiber([&] {
      assigned.Wait();
      const auto other = FindFiber(patient.Id());
      if (by_scope) {
        EXPECT_FALSE(MoveOnAfter(5ms, [&] { other->Join(); }));
      } else {
        EXPECT_FALSE(other->Join(5ms));
      }
    });
    assigned.Set();
    patient.Join();
  }
}

TEST_P(JoinCycleTest, AJoinOfAFiberThatIsCancelledOrInterruptedIsNone) {
  for (int round = 0; round < 100; ++round) {
    const bool interrupted = round % 2 != 0;
    FiberEvent assigned;
    Fiber first;
    Fiber second([&] {
      assigned.Wait();
      const auto other = FindFiber(first.Id());
      if (!other.has_value()) return;
      if (interrupted) {
        other->Interrupt(std::runtime_error("enough"));
      } else {
        other->Cancel();
      }
      other->Join();
    });
    first = Fiber([&] {
      assigned.Wait();
      const auto other = FindFiber(second.Id());
      if (!other.has_value()) return;  // It has not waited for us.
      try {
        other->Join();
        ADD_FAILURE() << "the other one waits for us";
      } catch (const std::runtime_error&) {
        EXPECT_TRUE(interrupted);
      }
    });
    assigned.Set();
    second.Join();
    first.Join();
  }
}

// A canceller that has marked the scope, or left its exception there, and was stopped before it came to the fiber's
// word. On one worker, so that it goes on when both have joined.
void JoinBesideOneUnderWay(bool interrupted) {
  FiberEvent assigned;
  std::atomic<bool> joins = false;
  Fiber first;
  Fiber second([&] {
    assigned.Wait();
    joins = true;
    FindFiber(first.Id())->Join();
  });
  first = Fiber([&] {
    while (!joins) FiberYield();
    scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
    synchronization::CancelNode scope;
    synchronization::EnterScope(self, &scope);
    scope.has_injected = interrupted;
    if (!interrupted) scope.cancelled = synchronization::CancelReason::kCancelled;
    Fiber canceller([&] {
      scope.has_injected = false;
      if (interrupted) {
        return synchronization::Inject(&scope, std::make_exception_ptr(std::runtime_error("enough")));
      }
      scope.cancelled = synchronization::CancelReason::kNone;
      EXPECT_TRUE(synchronization::Cancel(&scope));
    });
    const auto join = [&] { FindFiber(second.Id())->Join(); };
    if (interrupted) {
      EXPECT_THROW(join(), std::runtime_error);
    } else {
      EXPECT_THROW(join(), FiberCancelled);
    }
    synchronization::LeaveScope(self, &scope);
    canceller.Join();
  });
  assigned.Set();
  second.Join();
  first.Join();
}

TEST(JoinCycle, AJoinOfAFiberWhoseCancellationIsUnderWayIsNone) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  JoinBesideOneUnderWay(/*interrupted=*/false);
}

TEST(JoinCycle, AJoinOfAFiberWhoseInterruptionIsUnderWayIsNone) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  JoinBesideOneUnderWay(/*interrupted=*/true);
}

// Of two tasks each has a handle of the other: the destructor's wait is no join.
TEST_P(JoinCycleTest, ADestructorOfATaskIsNone) {
  InFiber([] {
    FiberEvent go;
    auto* cancelled = new FiberTask<void>;
    Fiber destroys([&] {
      go.Wait();
      delete cancelled;
    });
    *cancelled = FiberTask<void>([&] { FindFiber(destroys.Id())->Join(); });
    go.Set();
    destroys.Join();
  });
}

// Thousands of joins beside each other, whose edges are followed while they are cleared.
TEST_P(JoinCycleTest, ATreeOfJoins) {
  struct Tree {
    static int Grow(int depth) {
      if (depth == 0) return 1;
      FiberTask<int> left([=] { return Grow(depth - 1); });
      FiberTask<int> right([=] { return Grow(depth - 1); });
      FiberYield();  // They join before we do.
      return left.Get() + right.Get();
    }
  };
  InFiber([] { EXPECT_EQ(Tree::Grow(9), 512); });
}

}  // namespace
}  // namespace weft
