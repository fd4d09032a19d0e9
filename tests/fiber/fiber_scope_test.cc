// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_scope.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/wait/wait_queue.h"

#include "fiber/runtime_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

class FiberScopeTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, FiberScopeTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}, fiber::Shape{2, 2}),
                         &fiber::NameOf);

// Runs f in a fiber, and in a plain thread.
template <class F>
void InFiberAndThread(F f) {
  Fiber(f).Join();
  std::thread(f).join();
}

TEST_P(FiberScopeTest, WaitReturnsWhenAllHaveEnded) {
  InFiberAndThread([] {
    std::atomic<int> ended{0};
    FiberScope scope;
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(scope.Spawn([&, i] {
        if (i % 3 == 0) FiberSleepFor(1ms);
        if (i % 3 == 1) FiberYield();
        ++ended;
      }));
    }
    scope.Wait();
    EXPECT_EQ(ended, 100);
    EXPECT_EQ(scope.Succeeded(), 100U);
    EXPECT_EQ(scope.Live(), 0U);
    ASSERT_TRUE(scope.Spawn([&] { ++ended; })) << "and again";
    scope.Wait();
    EXPECT_EQ(ended, 101);
  });
}

TEST_P(FiberScopeTest, TheDestructorCancelsAndWaits) {
  InFiberAndThread([] {
    std::atomic<int> cancelled{0};
    {
      FiberScope scope;
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(scope.Spawn([&] {
          try {
            FiberSleepFor(1h);
          } catch (const FiberCancelled&) {
            ++cancelled;
            throw;
          }
        }));
      }
    }
    EXPECT_EQ(cancelled, 20);
  });
}

TEST_P(FiberScopeTest, TheFirstExceptionCancelsTheOthersAndIsThrown) {
  InFiberAndThread([] {
    FiberScope scope;
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(scope.Spawn([] { FiberSleepFor(1h); }));
    ASSERT_TRUE(scope.Spawn([] { throw std::runtime_error("one failed"); }));
    try {
      scope.Wait();
      ADD_FAILURE() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "one failed");
    }
    EXPECT_EQ(scope.Failed(), 1U);
    EXPECT_EQ(scope.Cancelled(), 10U);
    EXPECT_TRUE(scope.IsCancelled());
  });
}

TEST_P(FiberScopeTest, TheFirstSuccessCancelsTheOthers) {
  InFiberAndThread([] {
    FiberScope scope({.policy = ScopePolicy::kFirstSuccess});
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(scope.Spawn([] { throw std::runtime_error("no answer"); }));
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(scope.Spawn([] { FiberSleepFor(1h); }));
    ASSERT_TRUE(scope.Spawn([] { FiberSleepFor(1ms); }));
    scope.Wait();
    EXPECT_EQ(scope.Succeeded(), 1U);
    EXPECT_EQ(scope.Cancelled(), 5U);
    FiberScope none({.policy = ScopePolicy::kFirstSuccess});
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(none.Spawn([] { throw std::runtime_error("no answer"); }));
    EXPECT_THROW(none.Wait(), std::runtime_error);
  });
}

TEST_P(FiberScopeTest, CollectKeepsAllExceptions) {
  InFiberAndThread([] {
    FiberScope scope({.policy = ScopePolicy::kCollect});
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(scope.Spawn([i] {
        FiberSleepFor(1ms);
        if (i % 2 == 0) throw i;
      }));
    }
    scope.Wait();
    EXPECT_EQ(scope.Succeeded(), 3U);
    EXPECT_EQ(scope.TakeExceptions().size(), 3U);
  });
}

TEST_P(FiberScopeTest, NoMoreThanTheLimitRunAtATime) {
  InFiberAndThread([] {
    std::atomic<int> running{0};
    std::atomic<int> most{0};
    FiberScope scope({.limit = 3});
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(scope.Spawn([&] {
        const int now = ++running;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        FiberYield();
        --running;
      }));
    }
    scope.Wait();
    EXPECT_LE(most, 3);
    EXPECT_EQ(scope.Succeeded(), 50U);
  });
}

TEST_P(FiberScopeTest, ADeadlineCancelsTheFibers) {
  InFiber([] {
    FiberScope scope({.deadline = 1ms});
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(scope.Spawn([] { FiberSleepFor(1h); }));
    scope.Wait();
    EXPECT_TRUE(scope.DeadlineHasPassed());
    EXPECT_EQ(scope.Cancelled(), 10U);
  });
}

// --- Cancellation from around the scope ---

TEST_P(FiberScopeTest, ACancellationReachesAllBelow) {
  std::atomic<int> waiting{0};
  std::atomic<int> cancelled{0};
  // Four levels of three.
  struct Tree {
    static void Grow(int depth, std::atomic<int>* waiting, std::atomic<int>* cancelled) {
      FiberScope scope;
      for (int i = 0; depth > 0 && i < 3; ++i) {
        ASSERT_TRUE(scope.Spawn({.scheduling_group = kUnspecifiedSchedulingGroup},
                                [=] { Grow(depth - 1, waiting, cancelled); }));
      }
      ++*waiting;
      try {
        CancelScope inner;
        static_cast<void>(inner.Run([] { FiberEvent().Wait(); }));
      } catch (const FiberCancelled&) {
        ++*cancelled;
      }
      scope.Wait();
    }
  };
  Fiber root([&] { Tree::Grow(3, &waiting, &cancelled); });
  constexpr int kFibers = 1 + 3 + 9 + 27;
  while (waiting != kFibers) std::this_thread::yield();
  EXPECT_TRUE(root.Cancel());
  root.Join();
  EXPECT_EQ(cancelled, kFibers);
}

TEST_P(FiberScopeTest, AShieldAroundAScopeKeepsItsFibersFromCancellation) {
  std::atomic<bool> inside{false};
  FiberEvent let_go;
  std::atomic<int> ended{0};
  Fiber fiber([&] {
    Shielded([&] {
      FiberScope scope;
      for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(scope.Spawn([&] {
          let_go.Wait();
          ++ended;
        }));
      }
      inside = true;
      scope.Wait();
    });
    EXPECT_THROW(TestCancel(), FiberCancelled);
  });
  while (!inside) std::this_thread::yield();
  EXPECT_TRUE(fiber.Cancel());
  EXPECT_EQ(ended, 0);
  let_go.Set();
  fiber.Join();
  EXPECT_EQ(ended, 5);
}

TEST_P(FiberScopeTest, WhatIsSpawnedIntoACancelledScopeIsCancelled) {
  InFiberAndThread([] {
    FiberScope scope;
    EXPECT_TRUE(scope.Cancel());
    std::atomic<bool> began{false};
    ASSERT_TRUE(scope.Spawn([&] {
      began = true;
      EXPECT_TRUE(IsCancelRequested());
      FiberSleepFor(1h);
      ADD_FAILURE() << "it slept";
    }));
    scope.Wait();
    EXPECT_TRUE(began);
    EXPECT_EQ(scope.Cancelled(), 1U);
  });
}

TEST_P(FiberScopeTest, WaitThrowsIfItsCallerIsCancelled) {
  std::atomic<int> begun{0};
  Fiber fiber([&] {
    FiberScope scope;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(scope.Spawn([&] {
        ++begun;
        FiberSleepFor(1h);
      }));
    }
    EXPECT_THROW(scope.Wait(), FiberCancelled);
    EXPECT_EQ(scope.Live(), 0U);
  });
  while (begun != 3) std::this_thread::yield();
  fiber.Cancel();
  fiber.Join();
}

TEST_P(FiberScopeTest, AScopeThatIsNotNestedIsNotCancelledWithItsMaker) {
  std::optional<FiberScope> scope;
  FiberEvent let_go;
  std::atomic<bool> made{false};
  std::atomic<bool> ended{false};
  Fiber maker([&] {
    scope.emplace(FiberScope::Options{.nested = false});
    EXPECT_TRUE(scope->Spawn([&] {
      let_go.Wait();
      ended = true;
    }));
    made = true;
    FiberSleepFor(1h);
  });
  while (!made) std::this_thread::yield();
  EXPECT_TRUE(maker.Cancel());
  maker.Join();
  EXPECT_FALSE(scope->IsCancelled());
  let_go.Set();
  while (scope->Live() != 0) std::this_thread::yield();
  scope.reset();  // Any thread may.
  EXPECT_TRUE(ended);
}

// --- Run ---

TEST_P(FiberScopeTest, AFailureOfAChildCancelsTheBodyOfRun) {
  InFiber([] {
    FiberScope scope;
    bool went_on = false;
    EXPECT_THROW(scope.Run([&] {
      ASSERT_TRUE(scope.Spawn([] { throw std::runtime_error("child"); }));
      FiberSleepFor(1h);
      went_on = true;
    }),
                 std::runtime_error);
    EXPECT_FALSE(went_on);
  });
}

TEST_P(FiberScopeTest, AnExceptionOfTheBodyOfRunCancelsTheChildren) {
  InFiberAndThread([] {
    FiberScope scope;
    EXPECT_THROW(scope.Run([&] {
      ASSERT_TRUE(scope.Spawn([] { FiberSleepFor(1h); }));
      throw std::logic_error("body");
    }),
                 std::logic_error);
    EXPECT_EQ(scope.Cancelled(), 1U);
  });
}

TEST_P(FiberScopeTest, RunSaysWhetherItsBodyCameToItsEnd) {
  InFiber([] {
    FiberScope scope;
    EXPECT_TRUE(scope.Run([] {}));
    EXPECT_FALSE(scope.Run([&] {
      scope.Cancel();
      FiberSleepFor(1h);
    }));
    FiberScope late({.deadline = 1ms});
    EXPECT_FALSE(late.Run([] { FiberSleepFor(1h); }));
  });
}

TEST_P(FiberScopeTest, ABodyThatThrowsLeavesNoChildBehind) {
  InFiberAndThread([] {
    auto alive = std::make_shared<int>(0);
    try {
      FiberScope scope;
      for (int i = 0; i < 10; ++i) ASSERT_TRUE(scope.Spawn([alive] { FiberSleepFor(1h); }));
      throw 1;
    } catch (int) {
      EXPECT_EQ(alive.use_count(), 1);
    }
  });
}

// --- Spawning ---

TEST_P(FiberScopeTest, ChildrenMaySpawnSiblings) {
  InFiberAndThread([] {
    std::atomic<int> ended{0};
    FiberScope scope;
    struct Doubler {
      static void Run(FiberScope* scope, int generations, std::atomic<int>* ended) {
        for (int i = 0; generations > 0 && i < 2; ++i) {
          ASSERT_TRUE(scope->Spawn([=] { Run(scope, generations - 1, ended); }));
        }
        ++*ended;
      }
    };
    ASSERT_TRUE(scope.Spawn([&] { Doubler::Run(&scope, 9, &ended); }));
    scope.Wait();
    EXPECT_EQ(ended, 1023);
  });
}

TEST_P(FiberScopeTest, ARefusedSpawnLeavesNothing) {
  InFiber([] {
    auto owned = std::make_shared<int>(0);
    FiberScope scope({.limit = 2});
    {
      const RefuseFiberStarts refuse;
      for (int i = 0; i < 5; ++i) EXPECT_FALSE(scope.Spawn([owned] {}));
      EXPECT_THROW(static_cast<void>(scope.SpawnTask([owned] {})), FiberNotStarted);
    }
    EXPECT_EQ(owned.use_count(), 1);
    ASSERT_TRUE(scope.Spawn([] {})) << "the limit's units are back";
    scope.Wait();
  });
}

TEST_P(FiberScopeTest, ACallableThatThrowsWhenItIsCopiedLeavesNothing) {
  struct Throws {
    Throws() = default;
    Throws(const Throws&) { throw 1; }
    void operator()() const {}
  };
  InFiber([] {
    FiberScope scope({.limit = 1});
    const Throws throws;
    EXPECT_THROW(static_cast<void>(scope.Spawn(throws)), int);
    ASSERT_TRUE(scope.Spawn([] {}));
    scope.Wait();
    EXPECT_EQ(scope.Succeeded(), 1U);
  });
}

TEST_P(FiberScopeTest, ChildrenInheritContextAndDeadline) {
  InFiber([] {
    auto context = FiberExecutionContext::Create();
    context->Execute([&] {
      CancelScope outer(1h);
      static_cast<void>(outer.Run([&] {
        FiberScope scope;
        ASSERT_TRUE(scope.Spawn([&] {
          EXPECT_EQ(FiberExecutionContext::Current(), context.Get());
          EXPECT_EQ(CurrentDeadline(), outer.deadline());
        }));
        scope.Wait();
      }));
    });
  });
}

// A scope that is there beside another one does not cover its maker, hence nothing that this one makes.
TEST_P(FiberScopeTest, AScopeDoesNotCancelOneThatIsMadeBesideIt) {
  InFiber([] {
    FiberScope hedge({.policy = ScopePolicy::kFirstSuccess});
    FiberScope work;
    bool done = false;
    FiberEvent go_on;
    ASSERT_TRUE(work.Spawn([&] {
      go_on.Wait();
      done = true;
    }));
    ASSERT_TRUE(hedge.Spawn([] {}));
    hedge.Wait();
    EXPECT_TRUE(hedge.IsCancelled());
    ASSERT_TRUE(work.Spawn([&] { FiberSleepFor(1ms); }));
    go_on.Set();
    work.Wait();
    EXPECT_TRUE(done);
    EXPECT_EQ(work.Succeeded(), 2U);
  });
}

// What the body of Run() waits for may have been made before it.
TEST_P(FiberScopeTest, ACancelledScopeCancelsWhatItBeginsToCover) {
  InFiber([] {
    FiberScope outer;
    FiberScope inner;
    ASSERT_TRUE(inner.Spawn([] { FiberSleepFor(1h); }));
    outer.Cancel();
    EXPECT_FALSE(outer.Run([&] {
      inner.Wait();
      ADD_FAILURE() << "it is cancelled";
    }));
    EXPECT_EQ(inner.Cancelled(), 1U);
  });
}

// --- A deadline that has passed is known at the next cancellation point, whether or not a timer has fired ---

// True: the fiber is cancelled at the first cancellation point after it has computed until then.
bool IsCancelledAfterComputing(const Deadline& until) {
  // The timer thread may cancel first. The bit is set by the scope alone.
  EXPECT_TRUE(scheduling_group::CurrentFiber()->cancel_word.pending_or_timed()) << "it does not look at the clock";
  while (!until.expired()) continue;
  try {
    TestCancel();
  } catch (const FiberCancelled&) {
    return true;
  }
  return false;
}

TEST_P(FiberScopeTest, AChildKnowsThatTheDeadlineOfItsScopeHasPassed) {
  InFiber([] {
    for (int i = 0; i < 50; ++i) {
      const Deadline soon(i % 5 == 0 ? 0us : 20us);
      std::atomic<int> cancelled{0};
      FiberScope scope({.deadline = soon});
      EXPECT_TRUE(i % 5 != 0 || scope.DeadlineHasPassed());
      for (int j = 0; j < 3; ++j) {
        ASSERT_TRUE(scope.Spawn([&] {
          if (IsCancelledAfterComputing(soon)) ++cancelled;
        }));
      }
      scope.Wait();
      EXPECT_EQ(cancelled, 3);
    }
  });
}

TEST_P(FiberScopeTest, AChildKnowsADeadlineThatIsSetWhileItRuns) {
  InFiber([] {
    for (int i = 0; i < 50; ++i) {
      CancelScope outer;
      std::atomic<bool> is_set{false};
      std::atomic<bool> begun{false};
      bool cancelled = false;
      Deadline soon;
      EXPECT_FALSE(outer.Run([&] {
        FiberScope scope;
        ASSERT_TRUE(scope.Spawn([&] {
          begun = true;
          while (!is_set) synchronization::YieldFiberOrThread();  // No cancellation point, and no scope.
          cancelled = IsCancelledAfterComputing(soon);
        }));
        while (!begun) FiberYield();
        soon = 20us;
        outer.SetDeadline(soon);
        is_set = true;
        scope.Wait();
      }));
      EXPECT_TRUE(cancelled);
    }
  });
}

// The scope has a deadline, and begins to cover one that was made in it and has a fiber.
TEST_P(FiberScopeTest, AChildKnowsTheDeadlineOfAScopeThatBeginsToCoverIt) {
  InFiber([] {
    for (int i = 0; i < 50; ++i) {
      const Deadline soon(50us);
      std::atomic<bool> is_covered{false};
      std::atomic<bool> begun{false};
      bool cancelled = false;
      FiberScope outer({.deadline = soon});
      FiberScope inner;
      ASSERT_TRUE(inner.Spawn([&] {
        begun = true;
        while (!is_covered) synchronization::YieldFiberOrThread();  // No cancellation point, and no scope.
        cancelled = IsCancelledAfterComputing(soon);
      }));
      while (!begun) FiberYield();
      EXPECT_FALSE(outer.Run([&] {
        is_covered = true;
        inner.Wait();
        TestCancel();
      }));
      EXPECT_TRUE(cancelled);
    }
  });
}

TEST_P(FiberScopeTest, WhatIsMadeInTheBodyOfRunIsInTheScope) {
  InFiber([] {
    FiberScope outer;
    FiberScope* inner = nullptr;
    EXPECT_FALSE(outer.Run([&] {
      FiberScope scope;
      inner = &scope;
      ASSERT_TRUE(scope.Spawn([] { FiberSleepFor(1h); }));
      outer.Cancel();
      scope.Wait();
      ADD_FAILURE() << "it is cancelled";
    }));
    EXPECT_NE(inner, nullptr);
  });
}

TEST_P(FiberScopeTest, AnInterruptOfItsMakerIsNoneOfItsFibers) {
  struct WakeUp {};
  InFiber([] {
    std::atomic<bool> waits{false};
    std::size_t succeeded = 0;
    Fiber maker([&] {
      FiberScope scope;
      FiberEvent go_on;
      ASSERT_TRUE(scope.Spawn([&] {
        go_on.Wait();
        FiberSleepFor(1ms);
      }));
      try {
        waits = true;
        FiberSleepFor(1h);
      } catch (const WakeUp&) {
        go_on.Set();
      }
      scope.Wait();
      succeeded = scope.Succeeded();
    });
    while (!waits) FiberYield();
    maker.Interrupt(WakeUp());
    maker.Join();
    EXPECT_EQ(succeeded, 1U);
  });
}

TEST_P(FiberScopeTest, AFiberThatHasFailedAndNotEndedCountsOnce) {
  struct WaitsAtItsEnd {
    ~WaitsAtItsEnd() {
      if (let_go != nullptr) let_go->Wait();
    }
    WaitsAtItsEnd(FiberEvent* the_let_go) : let_go(the_let_go) {}
    WaitsAtItsEnd(WaitsAtItsEnd&& other) noexcept : let_go(std::exchange(other.let_go, nullptr)) {}
    FiberEvent* let_go;
  };
  InFiber([] {
    FiberEvent let_go;
    FiberScope scope({.policy = ScopePolicy::kCollect});
    ASSERT_TRUE(scope.Spawn([captured = WaitsAtItsEnd(&let_go)] { throw 1; }));
    while (scope.Failed() == 0) FiberYield();
    EXPECT_EQ(scope.Succeeded(), 0U);
    let_go.Set();
    scope.Wait();
    EXPECT_EQ(scope.Succeeded(), 0U);
    EXPECT_EQ(scope.Failed(), 1U);
  });
}

TEST(FiberScopeDeathTest, AChildThatWaitsForAllIsNamed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const fiber::RuntimeOf runtime(fiber::Shape{1, 2});
        FiberScope scope;
        static_cast<void>(scope.Spawn([&] { scope.Wait(); }));
        scope.Wait();
      },
      "one of its fibers waits for the end of all");
}

// A fiber's locals go when it has left all its scopes.
TEST(FiberScopeDeathTest, AScopeThatAFiberKeepsBeyondItsBodyIsNamed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
        static FiberLocal<std::optional<FiberScope>> kept;
        FiberScope scope;
        static_cast<void>(scope.Spawn([] { kept->emplace(); }));
        scope.Wait();
      },
      "scopes are left in another order");
}

// The last child may have ended meanwhile, so that nobody would wait for the new one.
TEST(FiberScopeDeathTest, AnOwnerThatSpawnsWhileItWaitsIsNamed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
        Fiber([] {
          FiberScope scope;
          static_cast<void>(scope.Spawn([] {}));
          OnFiberYield([&] { static_cast<void>(scope.Spawn([] {})); });
          scope.Wait();
        }).Join();
      },
      "FiberScope: its owner spawns while it waits");
}

// Each child that spawns keeps a unit, so that none is left.
TEST(FiberScopeDeathTest, ChildrenThatAllWaitForAUnitAreNamed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const std::size_t limit : {std::size_t{1}, std::size_t{3}}) {
    for (const bool nested : {true, false}) {
      EXPECT_DEATH(
          {
            const fiber::RuntimeOf runtime(fiber::Shape{2, 1});
            Fiber([=] {
              FiberScope scope({.limit = limit, .nested = nested});
              FiberLatch all_run(static_cast<std::ptrdiff_t>(limit));
              for (std::size_t i = 0; i < limit; ++i) {
                static_cast<void>(scope.Spawn([&] {
                  all_run.CountDown();
                  all_run.Wait();
                  CancelScope inside;
                  static_cast<void>(inside.Run([&] { static_cast<void>(scope.Spawn([] {})); }));
                }));
              }
              scope.Wait();
            }).Join();
          },
          "FiberScope: all children that may run at a time \\([13]\\) wait in Spawn\\(\\) of their own scope");
    }
  }
}

// A canceller that has marked the child's scope, or left its exception there, and was stopped before it came to the
// child's word. On one worker, so that it goes on when the child waits.
void SpawnBesideOneUnderWay(bool interrupted) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  Fiber([&] {
    FiberScope scope({.limit = 1});
    ASSERT_TRUE(scope.Spawn([&] {
      scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
      synchronization::CancelNode node;
      synchronization::EnterScope(self, &node);
      node.has_injected = interrupted;
      if (!interrupted) node.cancelled = synchronization::CancelReason::kCancelled;
      Fiber canceller([&] {
        node.has_injected = false;
        if (interrupted) {
          return synchronization::Inject(&node, std::make_exception_ptr(std::runtime_error("enough")));
        }
        node.cancelled = synchronization::CancelReason::kNone;
        EXPECT_TRUE(synchronization::Cancel(&node));
      });
      const auto spawn = [&] { static_cast<void>(scope.Spawn([] {})); };
      if (interrupted) {
        EXPECT_THROW(spawn(), std::runtime_error);
      } else {
        EXPECT_THROW(spawn(), FiberCancelled);
      }
      synchronization::LeaveScope(self, &node);
      canceller.Join();
    }));
    scope.Wait();
  }).Join();
}

TEST(FiberScopeLimit, AChildWhoseCancellationIsUnderWayMayWaitForItsOwnUnit) {
  SpawnBesideOneUnderWay(/*interrupted=*/false);
}

TEST(FiberScopeLimit, AChildWhoseInterruptionIsUnderWayMayWaitForItsOwnUnit) {
  SpawnBesideOneUnderWay(/*interrupted=*/true);
}

TEST(FiberScopeLimit, AChildMayWaitForItsOwnUnitUntilItsDeadline) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  Fiber([] {
    FiberScope scope({.limit = 1});
    ASSERT_TRUE(scope.Spawn([&] {
      const auto spawn = [&] { static_cast<void>(scope.Spawn([] {})); };
      EXPECT_FALSE(MoveOnAfter(1ms, spawn));
    }));
    scope.Wait();
  }).Join();
}

TEST_P(FiberScopeTest, ChildrenMaySpawnBelowTheLimit) {
  InFiberAndThread([] {
    std::atomic<int> ran{0};
    FiberScope scope({.limit = 3});
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(scope.Spawn([&] {
        for (int j = 0; j < 50; ++j) {
          ASSERT_TRUE(scope.Spawn([&] {
            FiberYield();
            ++ran;
          }));
        }
      }));
    }
    scope.Wait();
    EXPECT_EQ(ran, 100);
  });
}

// The owner, and fibers of other scopes, hold no unit.
TEST_P(FiberScopeTest, OthersThanChildrenMayWaitForTheOnlyUnit) {
  InFiber([] {
    std::atomic<int> ran{0};
    FiberScope one({.limit = 1});
    FiberScope others;
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(others.Spawn([&] { ASSERT_TRUE(one.Spawn([&] { ++ran; })); }));
      ASSERT_TRUE(one.Spawn([&] { ++ran; }));
    }
    others.Wait();
    one.Wait();
    EXPECT_EQ(ran, 20);
  });
}

TEST_P(FiberScopeTest, ACancelledChildThatWaitsForItsOwnUnitThrows) {
  InFiber([] {
    FiberScope scope({.limit = 1});
    ASSERT_TRUE(scope.Spawn([&] {
      scope.Cancel();
      static_cast<void>(scope.Spawn([] {}));
      ADD_FAILURE() << "it is cancelled";
    }));
    scope.Wait();
    EXPECT_EQ(scope.Cancelled(), 1U);
  });
}

TEST_P(FiberScopeTest, AnInterruptedChildThatWaitsForItsOwnUnitThrows) {
  InFiber([] {
    FiberScope scope({.limit = 1});
    const auto task = scope.SpawnTask([&] {
      FindFiber(GetFiberId())->Interrupt(std::runtime_error("enough"));
      EXPECT_THROW(static_cast<void>(scope.Spawn([] {})), std::runtime_error);
    });
    scope.Wait();
  });
}

// --- Tasks ---

TEST_P(FiberScopeTest, ASpawnOfATaskThatIsCancelledLeavesNothing) {
  InFiber([] {
    CancelScope around;
    FiberEvent over;
    EXPECT_FALSE(around.Run([&] {
      FiberScope scope({.limit = 1});
      ASSERT_TRUE(scope.Spawn([&] { Shielded([&] { over.Wait(); }); }));
      around.Cancel();
      try {
        static_cast<void>(scope.SpawnTask([] {}));  // Waits for the limit.
        ADD_FAILURE() << "it is cancelled";
      } catch (const FiberCancelled&) {
        over.Set();
        throw;
      }
    }));
  });
}

TEST_P(FiberScopeTest, TasksOfAScopeHaveResults) {
  InFiberAndThread([] {
    FiberScope scope;
    std::vector<FiberTask<int>> tasks;
    for (int i = 0; i < 20; ++i) {
      tasks.push_back(scope.SpawnTask([i] {
        FiberYield();
        return i * i;
      }));
    }
    int sum = 0;
    for (FiberTask<int>& task : tasks) sum += task.Get();
    EXPECT_EQ(sum, 2470);
    scope.Wait();
  });
}

TEST_P(FiberScopeTest, ATaskThatFailsCancelsItsScope) {
  InFiberAndThread([] {
    FiberScope scope;
    FiberTask<int> sleeper = scope.SpawnTask([] {
      FiberSleepFor(1h);
      return 1;
    });
    FiberTask<int> failing = scope.SpawnTask([]() -> int { throw std::runtime_error("task"); });
    EXPECT_THROW(failing.Get(), std::runtime_error);
    EXPECT_THROW(sleeper.Get(), TaskCancelled);
    EXPECT_THROW(scope.Wait(), std::runtime_error);
  });
}

TEST_P(FiberScopeTest, ATaskCanBeCancelledAlone) {
  InFiberAndThread([] {
    FiberScope scope;
    auto one = scope.SpawnTask([] { FiberSleepFor(1h); });
    auto other = scope.SpawnTask([] {
      FiberSleepFor(2ms);
      return std::string("done");
    });
    EXPECT_TRUE(one.Cancel());
    EXPECT_THROW(one.Get(), TaskCancelled);
    EXPECT_EQ(other.Get(), "done");
    scope.Wait();
    EXPECT_FALSE(scope.IsCancelled());
  });
}

// --- Races ---

// A scope is cancelled while fibers are spawned, wait and end.
TEST_P(FiberScopeTest, ACancellationMissesNoFiberThatIsSpawnedMeanwhile) {
  for (int round = 0; round < 100; ++round) {
    InFiber([&] {
      FiberScope scope;
      std::atomic<bool> cancelled{false};
      Fiber canceller([&] {
        for (int i = 0; i < round; ++i) FiberYield();
        scope.Cancel();
        cancelled = true;
      });
      while (!cancelled) {
        ASSERT_TRUE(scope.Spawn([] { FiberEvent().Wait(); }));
        FiberYield();
      }
      canceller.Join();
      scope.Wait();
      EXPECT_EQ(scope.Succeeded(), 0U);
    });
  }
}

TEST_P(FiberScopeTest, ManyShortFibersReuseTheirSlots) {
  InFiber([] {
    std::atomic<int> ended{0};
    FiberScope scope({.limit = 16});
    for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(scope.Spawn([&] { ended.fetch_add(1, std::memory_order_relaxed); }));
    scope.Wait();
    EXPECT_EQ(ended, 20'000);
  });
}

// --- The runtime goes down ---

// A plain thread: returns when threads cannot start fibers any more.
void AwaitTermination() {
  while (StartFiberDetached([] {})) std::this_thread::yield();
}

// Counts the calls that have begun and those that have ended, however they ended.
struct Calls {
  struct Call {
    explicit Call(Calls* of) : of(of) { ++of->begun; }
    ~Call() { ++of->ended; }
    Calls* const of;
  };
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
};

// Its children spawn further ones. Fibers may go on starting fibers until all have ended.
TEST_P(FiberScopeTest, AFibersScopeSpawnsWhileTheRuntimeTerminates) {
  Calls calls;
  std::atomic<bool> terminates{false};
  std::atomic<int> spawned{0};
  ASSERT_TRUE(StartFiberDetached([&] {
    FiberScope scope({.limit = 16});
    const auto spawn_one = [&] {
      EXPECT_TRUE(scope.Spawn([&] {
        const Calls::Call call(&calls);
        FiberScope inner;
        EXPECT_TRUE(inner.Spawn([&] {
          const Calls::Call of_the_inner(&calls);
          FiberSleepFor(1us);
        }));
        FiberYield();
        inner.Wait();
      }));
      ++spawned;
    };
    while (!terminates) spawn_one();
    for (int i = 0; i < 100; ++i) spawn_one();
    scope.Wait();
    EXPECT_EQ(calls.ended, 2 * spawned);
    EXPECT_EQ(scope.Live(), 0U);
  }));
  std::thread watch([&] {
    AwaitTermination();
    terminates = true;
  });
  while (spawned < 10) std::this_thread::yield();
  EXPECT_EQ(TerminateRuntime(), 0U);
  watch.join();
  EXPECT_GE(spawned, 110);
  EXPECT_EQ(calls.begun, 2 * spawned);
  EXPECT_EQ(calls.ended, 2 * spawned);
}

// Its children wait for what never comes: that the thread leaves the scope ends them.
TEST_P(FiberScopeTest, AThreadsScopeSpawnsUntilTheRuntimeTerminates) {
  Calls calls;
  std::atomic<int> spawned{0};
  std::thread spawner([&] {
    {
      FiberScope scope;
      while (scope.Spawn([&] {
        const Calls::Call call(&calls);
        FiberEvent().Wait();
      })) {
        ++spawned;
        while (calls.begun < spawned) std::this_thread::yield();
      }
      EXPECT_EQ(calls.ended, 0);
    }
    EXPECT_EQ(calls.ended, spawned);
  });
  while (spawned < 10) std::this_thread::yield();
  EXPECT_EQ(TerminateRuntime(), 0U);
  spawner.join();
  EXPECT_EQ(calls.begun, spawned);
}

// Deadlines of scopes are no timers that stop firing.
TEST_P(FiberScopeTest, DeadlinesCountWhileTheRuntimeTerminates) {
  Calls calls;
  std::atomic<bool> terminates{false};
  ASSERT_TRUE(StartFiberDetached([&] {
    const Calls::Call call(&calls);
    while (!terminates) FiberYield();
    FiberScope scope({.deadline = 1ms});
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(scope.Spawn([&] {
        const Calls::Call of_a_child(&calls);
        FiberSleepFor(1h);
      }));
    }
    scope.Wait();
    EXPECT_TRUE(scope.DeadlineHasPassed());
    EXPECT_FALSE(MoveOnAfter(1ms, [] { FiberEvent().Wait(); }));
  }));
  std::thread watch([&] {
    AwaitTermination();
    terminates = true;
  });
  while (calls.begun == 0) std::this_thread::yield();
  EXPECT_EQ(TerminateRuntime(), 0U);
  watch.join();
  EXPECT_EQ(calls.ended, calls.begun);
}

}  // namespace
}  // namespace weft
