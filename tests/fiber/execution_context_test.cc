// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/execution_context.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/start/run_as_fiber.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class ExecutionContextTest : public InEachShape {
 protected:
  template <class F>
  static void InBoth(F&& f) {
    InThread(f);
    InFiber(f);
  }
};
WEFT_INSTANTIATE_SHAPES(ExecutionContextTest);

TEST_P(ExecutionContextTest, ThereIsNoneToBeginWith) {
  InBoth([] {
    EXPECT_EQ(FiberExecutionContext::Current(), nullptr);
    EXPECT_EQ(FiberExecutionContext::Capture(), nullptr);
  });
}

TEST_P(ExecutionContextTest, ExecuteMakesItCurrentAndReturnsWhatTheFunctionReturns) {
  InBoth([] {
    auto context = FiberExecutionContext::Create();
    const int result = context->Execute([&] {
      EXPECT_EQ(FiberExecutionContext::Current(), context.Get());
      EXPECT_EQ(FiberExecutionContext::Capture(), context);
      return 7;
    });
    EXPECT_EQ(result, 7);
    EXPECT_EQ(FiberExecutionContext::Current(), nullptr);
  });
}

TEST_P(ExecutionContextTest, ExecuteNestsAndSurvivesExceptions) {
  InBoth([] {
    auto outer = FiberExecutionContext::Create();
    auto inner = FiberExecutionContext::Create();
    outer->Execute([&] {
      inner->Execute([&] {
        EXPECT_EQ(FiberExecutionContext::Current(), inner.Get());
        outer->Execute([&] { EXPECT_EQ(FiberExecutionContext::Current(), outer.Get()); });
        EXPECT_EQ(FiberExecutionContext::Current(), inner.Get());
      });
      EXPECT_THROW(inner->Execute([] { throw std::runtime_error("out"); }), std::runtime_error);
      EXPECT_EQ(FiberExecutionContext::Current(), outer.Get());
    });
    EXPECT_EQ(FiberExecutionContext::Current(), nullptr);
  });
}

TEST_P(ExecutionContextTest, ItStaysCurrentOverSwitchesAndMigration) {
  std::vector<Fiber> fibers;
  for (int i = 0; i < 100; ++i) {
    fibers.emplace_back([] {
      auto mine = FiberExecutionContext::Create();
      mine->Execute([&] {
        for (int round = 0; round < 20; ++round) {
          FiberYield();
          ASSERT_EQ(FiberExecutionContext::Current(), mine.Get());
        }
      });
      ASSERT_EQ(FiberExecutionContext::Current(), nullptr);
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
}

TEST_P(ExecutionContextTest, ANewFiberHasTheContextGivenOrElseItsSpawners) {
  auto context = FiberExecutionContext::Create();
  auto another = FiberExecutionContext::Create();
  const auto start_all = [&] {
    Fiber({.execution_context = another.Get()}, [&] {
      EXPECT_EQ(FiberExecutionContext::Current(), another.Get());
      Fiber([&] { EXPECT_EQ(FiberExecutionContext::Current(), another.Get()); }).Join();
    }).Join();
    Fiber([] { EXPECT_EQ(FiberExecutionContext::Current(), nullptr); }).Join();
    context->Execute([&] {
      const auto expect_inherited = [&] { EXPECT_EQ(FiberExecutionContext::Current(), context.Get()); };
      Fiber(expect_inherited).Join();
      Fiber(Launch::Dispatch, expect_inherited).Join();
      Fiber({.name = "named"}, expect_inherited).Join();
      FiberLatch ended(8);
      const auto expect_and_count = [&] {
        expect_inherited();
        ended.CountDown();
      };
      EXPECT_TRUE(StartFiberDetached(expect_and_count));
      EXPECT_TRUE(StartFiberDetached({.scheduling_group_local = true}, expect_and_count));
      std::vector<std::function<void()>> batch(3, expect_and_count);
      EXPECT_TRUE(BatchStartFiberDetached({.name = "named"}, std::vector(batch)));
      EXPECT_TRUE(BatchStartFiberDetached(std::move(batch)));
      ended.Wait();
      FiberLatch others_ended(3);
      std::vector<std::function<void()>> others(3, [&] {
        EXPECT_EQ(FiberExecutionContext::Current(), another.Get());
        others_ended.CountDown();
      });
      EXPECT_TRUE(BatchStartFiberDetached({.execution_context = another.Get()}, std::move(others)));
      others_ended.Wait();
      // One of its own.
      Fiber({.execution_context = FiberExecutionContext::Create().Get()}, [&] {
        EXPECT_NE(FiberExecutionContext::Current(), context.Get());
        EXPECT_NE(FiberExecutionContext::Current(), nullptr);
      }).Join();
    });
  };
  start_all();  // A plain thread.
  InFiber(start_all);
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_TRUE(context->HasOneRef());
  EXPECT_TRUE(another->HasOneRef());
}

TEST_P(ExecutionContextTest, ARefusedFiberGivesTheInheritedContextBack) {
  auto context = FiberExecutionContext::Create();
  context->Execute([&] {
    const RefuseFiberStarts refuse;
    EXPECT_FALSE(StartFiberDetached([] {}));
    std::vector<std::function<void()>> batch(3, [] {});
    EXPECT_FALSE(BatchStartFiberDetached({.execution_context = context.Get()}, std::vector(batch)));
    EXPECT_FALSE(BatchStartFiberDetached(std::move(batch)));
  });
  EXPECT_TRUE(context->HasOneRef());
}

TEST_P(ExecutionContextTest, ATimerInheritsTheContextOfTheFiberThatSetsItAndGivesItBack) {
  auto context = FiberExecutionContext::Create();
  FiberExecutionContext* seen = nullptr;
  InFiber([&] {
    context->Execute([&] {
      FiberLatch fired(1);
      SetFiberDetachedTimer(std::chrono::steady_clock::now(), [&] {
        seen = FiberExecutionContext::Current();
        fired.CountDown();
      });
      fired.Wait();
      EXPECT_TRUE(KillFiberTimer(SetFiberTimer(std::chrono::steady_clock::now() + 1h, [] {})));
      SetFiberDetachedTimer(std::chrono::steady_clock::now() + 1h, [] {});
    });
  });
  EXPECT_EQ(seen, context.Get());
  EXPECT_EQ(TerminateRuntime(), 0U);  // Drops the last one.
  EXPECT_TRUE(context->HasOneRef());
}

TEST_P(ExecutionContextTest, LocalsBelongToTheContextNotToTheFiber) {
  FiberExecutionLocal<int> number;
  auto one = FiberExecutionContext::Create();
  auto two = FiberExecutionContext::Create();
  one->Execute([&] { *number = 1; });
  two->Execute([&] {
    EXPECT_EQ(*number, 0);
    *number = 2;
  });
  Fiber({.execution_context = one.Get()}, [&] { EXPECT_EQ(*number, 1); }).Join();
  Fiber({.execution_context = two.Get()}, [&] { EXPECT_EQ(*number, 2); }).Join();
}

TEST_P(ExecutionContextTest, MoreLocalsThanOneChunkHoldsAreKept) {
  std::array<FiberExecutionLocal<std::string>, 50> texts;
  auto context = FiberExecutionContext::Create();
  context->Execute([&] {
    for (int i = 0; i < 50; ++i) *texts[i] = std::to_string(i);
  });
  Fiber({.execution_context = context.Get()}, [&] {
    for (int i = 0; i < 50; ++i) EXPECT_EQ(*texts[i], std::to_string(i));
  }).Join();
}

TEST_P(ExecutionContextTest, AValueIsMadeOnceHoweverManyFibersWantIt) {
  static std::atomic<int> made;
  struct Slow {
    Slow() {
      ++made;
      FiberSleepFor(2ms);  // Others come meanwhile, and wait.
      value = 9;
    }
    int value = 0;
  };
  made = 0;
  FiberExecutionLocal<Slow> slow;
  auto context = FiberExecutionContext::Create();
  std::vector<Fiber> fibers;
  for (int i = 0; i < 50; ++i) {
    fibers.emplace_back(Fiber::Attributes{.execution_context = context.Get()}, [&] { EXPECT_EQ(slow->value, 9); });
  }
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(made, 1);
}

TEST_P(ExecutionContextTest, FibersMakeDifferentValuesOfOneContextAtTheSameTime) {
  std::array<FiberExecutionLocal<std::string>, 30> texts;
  for (int round = 0; round < 20; ++round) {
    auto context = FiberExecutionContext::Create();
    std::vector<Fiber> fibers;
    for (int i = 0; i < 30; ++i) {
      fibers.emplace_back(Fiber::Attributes{.execution_context = context.Get()},
                          [&texts, i] { *texts[i] = std::to_string(i); });
    }
    for (Fiber& fiber : fibers) fiber.Join();
    context->Execute([&] {
      for (int i = 0; i < 30; ++i) EXPECT_EQ(*texts[i], std::to_string(i));
    });
  }
}

TEST_P(ExecutionContextTest, AConstructorMayUseAnotherLocalAndMayThrow) {
  static FiberExecutionLocal<int> inner;
  static bool fail;
  struct Outer {
    Outer() {
      ++*inner;
      if (fail) throw std::runtime_error("not yet");
    }
    int value = 4;
  };
  FiberExecutionLocal<Outer> outer;
  InBoth([&] {
    auto context = FiberExecutionContext::Create();
    context->Execute([&] {
      fail = true;
      EXPECT_THROW(outer.Get(), std::runtime_error);
      fail = false;
      EXPECT_EQ(outer->value, 4);
      EXPECT_EQ(*inner, 2);
    });
  });
}

struct Witness {
  ~Witness() {
    if (log != nullptr) log->push_back(tag);
  }
  std::vector<std::string>* log = nullptr;
  std::string tag;
};

TEST_P(ExecutionContextTest, ValuesEndYoungestFirstWithTheLastReference) {
  FiberExecutionLocal<Witness> a, b;
  std::vector<std::string> log;
  auto context = FiberExecutionContext::Create();
  context->Execute([&] {
    b->log = &log;
    b->tag = "b";
    a->log = &log;
    a->tag = "a";
  });
  auto second = context;
  context.Reset();
  EXPECT_TRUE(log.empty());
  Fiber fiber({.execution_context = second.Get()}, [] { FiberYield(); });
  second.Reset();
  fiber.Join();  // The fiber's was the last.
  EXPECT_EQ(log, (std::vector<std::string>{"a", "b"}));
}

TEST_P(ExecutionContextTest, ClearEndsTheValuesAndTheContextCanBeUsedAgain) {
  FiberExecutionLocal<Witness> witness;
  std::vector<std::string> log;
  auto context = FiberExecutionContext::Create();
  for (int round = 1; round <= 3; ++round) {
    context->Execute([&] {
      EXPECT_EQ(witness->log, nullptr);
      witness->log = &log;
      witness->tag = "x";
    });
    context->Clear();
    EXPECT_EQ(log.size(), static_cast<std::size_t>(round));
  }
}

TEST_P(ExecutionContextTest, AnIndexUsedAgainDoesNotShowTheFormerValue) {
  auto context = FiberExecutionContext::Create();
  context->Execute([] {
    {
      FiberExecutionLocal<std::uint64_t> former;
      *former = ~std::uint64_t{0};
    }
    FiberExecutionLocal<std::uint64_t> next;
    EXPECT_EQ(*next, 0U);
  });
}

TEST_P(ExecutionContextTest, ADestructorOfAContextValueMayUseFiberLocals) {
  static FiberLocal<std::string> scratch;
  struct User {
    ~User() { *scratch = "used while the context ended, after the fiber's own values had"; }
  };
  FiberExecutionLocal<User> user;
  auto context = FiberExecutionContext::Create();
  Fiber fiber({.execution_context = context.Get()}, [&] { user.Get(); });
  context.Reset();
  fiber.Join();  // The leak checker sees whether the string is gone.
}

}  // namespace
}  // namespace weft::fiber
