// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/unique_function.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/testing.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class FiberTest : public InEachShape {};
WEFT_INSTANTIATE_SHAPES(FiberTest);

// --- Fiber ---

TEST_P(FiberTest, JoinFromAThreadSeesWhatTheFiberDid) {
  int value = 0;
  Fiber fiber([&] { value = 42; });
  EXPECT_TRUE(fiber.Joinable());
  fiber.Join();
  EXPECT_EQ(value, 42);
  EXPECT_FALSE(fiber.Joinable());
}

TEST_P(FiberTest, JoinFromAFiberSeesWhatTheFiberDid) {
  InFiber([] {
    int value = 0;
    Fiber fiber([&] { value = 42; });
    fiber.Join();
    EXPECT_EQ(value, 42);
  });
}

TEST_P(FiberTest, JoinAfterTheEndReturnsAtOnce) {
  FiberEvent ended;
  Fiber fiber([&] { ended.Set(); });
  ended.Wait();
  fiber.Join();
}

TEST_P(FiberTest, FunctionAndArgumentsAreKeptByValue) {
  std::string result;
  {
    std::string text = "a text that is too long to be kept in place by std::string";
    auto append = [&result](const std::string& a, std::unique_ptr<int> b, int& c) {
      result = a + std::to_string(*b) + std::to_string(c);
    };
    int three = 3;
    Fiber fiber(append, text, std::make_unique<int>(2), std::ref(three));
    text = "gone";
    fiber.Join();
  }
  EXPECT_EQ(result, "a text that is too long to be kept in place by std::string23");
}

TEST_P(FiberTest, MemberFunctionsCanBeStarted) {
  struct Counter {
    void Add(int n) { sum += n; }
    int sum = 0;
  } counter;
  Fiber(&Counter::Add, &counter, 5).Join();
  EXPECT_EQ(counter.sum, 5);
}

TEST_P(FiberTest, MoveOnlyAndLargeCallablesAreMovedIntoTheFiber) {
  auto owned = std::make_unique<int>(7);
  std::array<char, 1000> large{};
  large[999] = 'x';
  int seen = 0;
  char last = 0;
  Fiber([owned = std::move(owned), large, &seen, &last] {
    seen = *owned;
    last = large[999];
  }).Join();
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(last, 'x');
}

// A fiber's time-outs lie where its callable lay until it ran.
TEST_P(FiberTest, CapturesOutliveWaitsWithATimeOut) {
  std::array<std::uint64_t, 8> captured{};
  for (std::size_t i = 0; i < captured.size(); ++i) captured[i] = 0x0123456789abcdef * (i + 1);
  static_assert(sizeof(captured) == scheduling_group::FiberEntity::kInlineCallable);
  bool intact = false;
  static bool* result;
  result = &intact;
  Fiber fiber([captured] {
    for (int i = 0; i < 3; ++i) FiberSleepFor(100us);
    bool equal = true;
    for (std::size_t i = 0; i < captured.size(); ++i) equal &= captured[i] == 0x0123456789abcdef * (i + 1);
    *result = equal;
  });
  fiber.Join();
  EXPECT_TRUE(intact);
}

// A fiber that ended, or was left, with other settings passed them on to the next one that began.
TEST_P(FiberTest, AFiberStartsWithTheFloatingPointControlOfItsWorker) {
  const auto control = [] {
    std::fenv_t environment;
    std::fegetenv(&environment);
#if defined(__x86_64__)
    return std::pair(environment.__control_word, environment.__mxcsr & ~0x3fU);  // Without the exception flags.
#else
    return environment.__fpcr;
#endif
  };
  const auto expected = control();
  constexpr int kFibers = 200;
  std::atomic<int> wrong{0};
  FiberLatch done(2 * kFibers);
  InFiber([&] {
    for (int i = 0; i < kFibers; ++i) {
      ASSERT_TRUE(StartFiberDetached([&, i] {
        std::fesetround(FE_UPWARD);
        if (i % 2 == 0) FiberYield();
        if (std::fegetround() != FE_UPWARD) ++wrong;
        done.CountDown();
      }));
      ASSERT_TRUE(StartFiberDetached([&] {
        if (control() != expected) ++wrong;
        done.CountDown();
      }));
    }
  });
  done.Wait();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(FiberTest, ACallableWhoseMoveMayThrowIsNotMovedWithinTheFiber) {
  struct Counts {
    Counts() = default;
    Counts(const Counts& other) noexcept(false) : moves(other.moves + 1) {}
    Counts(Counts&& other) noexcept(false) : moves(other.moves + 1) {}
    int moves = 0;
    const Counts* home = this;
  };
  static int moved;
  static bool at_home;
  Fiber fiber([counts = Counts()] {
    moved = counts.moves;
    at_home = counts.home == &counts;
  });
  fiber.Join();
  EXPECT_TRUE(at_home);
  EXPECT_GE(moved, 1);
}

TEST_P(FiberTest, TheCallableIsDestroyedBeforeJoinReturns) {
  auto shared = std::make_shared<int>(1);
  Fiber([shared] {}).Join();
  EXPECT_EQ(shared.use_count(), 1);
}

TEST_P(FiberTest, AFiberCanBeMoved) {
  FiberEvent go;
  Fiber first([&] { go.Wait(); });
  Fiber second(std::move(first));
  EXPECT_FALSE(first.Joinable());  // NOLINT(bugprone-use-after-move)
  Fiber third;
  third = std::move(second);
  EXPECT_TRUE(third.Joinable());
  go.Set();
  third.Join();
}

TEST_P(FiberTest, ADetachedFiberRunsOn) {
  FiberEvent go;
  FiberLatch ended(1);
  {
    Fiber fiber([&] {
      go.Wait();
      ended.CountDown();
    });
    fiber.Detach();
    EXPECT_FALSE(fiber.Joinable());
  }
  go.Set();
  ended.Wait();
}

TEST_P(FiberTest, NameAndIdAreTheFibersOwn) {
  std::string name;
  std::uint64_t id = 0;
  Fiber fiber({.name = "a name longer than any small buffer would be"}, [&] {
    name = GetFiberName();
    id = GetFiberId();
  });
  EXPECT_EQ(fiber.Name(), "a name longer than any small buffer would be");
  const std::uint64_t expected = fiber.Id();
  fiber.Join();
  EXPECT_EQ(name, "a name longer than any small buffer would be");
  EXPECT_EQ(id, expected);
  EXPECT_NE(id, 0U);
  EXPECT_EQ(fiber.Id(), 0U);
}

TEST_P(FiberTest, IdsAreNeverUsedTwice) {
  std::mutex mutex;
  std::set<std::uint64_t> ids;
  constexpr int kFibers = 5000;
  FiberLatch latch(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      {
        const std::scoped_lock lock(mutex);
        ids.insert(GetFiberId());
      }
      latch.CountDown();
    }));
  }
  latch.Wait();
  EXPECT_EQ(ids.size(), std::size_t{kFibers});
}

TEST_P(FiberTest, JoinGivesUpAtItsDeadlineAndTheFiberStaysJoinable) {
  FiberEvent go;
  Fiber fiber([&] { go.Wait(); });
  EXPECT_FALSE(fiber.Join(5ms));
  EXPECT_FALSE(fiber.Join(std::chrono::steady_clock::now()));
  InFiber([&] { EXPECT_FALSE(fiber.Join(5ms)); });
  EXPECT_TRUE(fiber.Joinable());
  go.Set();
  EXPECT_TRUE(fiber.Join(1h));
  EXPECT_FALSE(fiber.Joinable());
}

TEST_P(FiberTest, AFiberOfItsOwnStackSizeCanUseIt) {
  // Four times the default: would overflow there.
  constexpr std::size_t kBytes = 512 * 1024;
  int sum = 0;
  Fiber({.stack_size = 2 * kBytes}, [&] {
    volatile char large[kBytes];
    for (std::size_t i = 0; i < kBytes; i += 4096) large[i] = 1;
    for (std::size_t i = 0; i < kBytes; i += 4096) sum += large[i];
  }).Join();
  EXPECT_EQ(sum, static_cast<int>(kBytes / 4096));
}

// --- Groups ---

TEST_P(FiberTest, AFiberStartsInTheGroupAskedForAndALocalOneStaysThere) {
  for (std::size_t group = 0; group < groups(); ++group) {
    Fiber({.scheduling_group = group, .scheduling_group_local = true}, [group] {
      for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(GetCurrentSchedulingGroupIndex(), group);
        FiberYield();
        FiberSleepFor(100us);
      }
    }).Join();
  }
}

TEST_P(FiberTest, TheNearestGroupIsTheCallersOwn) {
  for (std::size_t group = 0; group < groups(); ++group) {
    Fiber({.scheduling_group = group, .scheduling_group_local = true}, [group] {
      Fiber({.scheduling_group_local = true}, [group] { EXPECT_EQ(GetCurrentSchedulingGroupIndex(), group); }).Join();
    }).Join();
  }
}

TEST_P(FiberTest, UnspecifiedStartsReachEveryGroup) {
  std::vector<std::atomic<int>> started(groups());
  std::vector<Fiber> fibers;
  for (std::size_t i = 0; i < 8 * groups(); ++i) {
    fibers.emplace_back(
        Fiber::Attributes{.scheduling_group = Fiber::kUnspecifiedSchedulingGroup, .scheduling_group_local = true},
        [&] { ++started[GetCurrentSchedulingGroupIndex()]; });
  }
  for (Fiber& fiber : fibers) fiber.Join();
  for (const auto& count : started) EXPECT_EQ(count.load(), 8);
}

// scheduling_group/idle/adoption.h
TEST_P(FiberTest, OneStartedInAGroupByItsIndexIsNotAdopted) {
  const auto may_be_adopted = [] { return scheduling_group::CurrentFiber()->MayBeAdopted(); };
  Fiber({.scheduling_group = 0}, [&] { EXPECT_FALSE(may_be_adopted()); }).Join();
  for (const std::size_t any : {kNearestSchedulingGroup, kUnspecifiedSchedulingGroup}) {
    Fiber({.scheduling_group = any}, [&] { EXPECT_TRUE(may_be_adopted()); }).Join();
  }
  Fiber([&] { EXPECT_TRUE(may_be_adopted()); }).Join();
  FiberLatch latch(2);
  std::vector<std::function<void()>> batch(2, [&] {
    EXPECT_FALSE(may_be_adopted());
    latch.CountDown();
  });
  ASSERT_TRUE(BatchStartFiberDetached({.scheduling_group = 0}, std::move(batch)));
  latch.Wait();
}

// --- Dispatch ---

TEST_P(FiberTest, DispatchRunsTheNewFiberBeforeTheCallerGoesOn) {
  Fiber({.scheduling_group_local = true}, [] {
    for (int i = 0; i < 100; ++i) {
      bool ran = false;
      Fiber fiber(Launch::Dispatch, [&ran] { ran = true; });
      // With one worker the order is certain.  With more, another worker may resume the caller while the new fiber is
      // in its first instructions; Join then says the same.
      if (GetConcurrencyHint() == 1) {
        EXPECT_TRUE(ran);
      }
      fiber.Join();
      EXPECT_TRUE(ran);
    }
  }).Join();
}

TEST(FiberTestWithOneWorker, DispatchQueuesTheCallerBehindReadyFibers) {
  const RuntimeOf runtime(Shape{1, 1});
  std::vector<std::string> order;
  Fiber([&] {
    Fiber posted(Launch::Post, [&] { order.emplace_back("posted"); });
    Fiber dispatched(Launch::Dispatch, [&] { order.emplace_back("dispatched"); });
    order.emplace_back("caller");
    posted.Join();
    dispatched.Join();
  }).Join();
  EXPECT_EQ(order, (std::vector<std::string>{"dispatched", "posted", "caller"}));
}

TEST_P(FiberTest, DispatchedFibersRunOnTheCallersWorker) {
  Fiber({.scheduling_group_local = true}, [] {
    for (int i = 0; i < 100; ++i) {
      const pid_t caller = ThreadNumber();
      pid_t callee = 0;
      Fiber fiber(Launch::Dispatch, [&callee] { callee = ThreadNumber(); });
      fiber.Join();
      EXPECT_EQ(caller, callee);
    }
  }).Join();
}

TEST_P(FiberTest, DispatchFromAPlainThreadIsAPost) {
  const pid_t caller = ThreadNumber();
  pid_t callee = 0;
  Fiber(Launch::Dispatch, [&] { callee = ThreadNumber(); }).Join();
  EXPECT_NE(caller, callee);
  FiberLatch latch(1);
  ASSERT_TRUE(StartFiberDetached({.launch_policy = Launch::Dispatch}, [&] { latch.CountDown(); }));
  latch.Wait();
}

TEST(FiberTestWithOneWorker, NestedDispatchGoesDepthFirst) {
  const RuntimeOf runtime(Shape{1, 1});
  std::vector<int> order;
  std::function<void(int)> descend = [&](int depth) {
    order.push_back(depth);
    if (depth < 5) Fiber(Launch::Dispatch, descend, depth + 1).Join();
  };
  Fiber([&] { descend(0); }).Join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

// A guarantee, not an accident: programs of one worker may rely on it.
TEST(FiberTestWithOneWorker, FibersRunInTheOrderInWhichTheyBecameReady) {
  const RuntimeOf runtime(Shape{1, 1});
  constexpr int kFibers = 100;
  std::vector<int> order;
  Fiber([&] {
    std::vector<FiberEvent> events(kFibers);
    std::vector<Fiber> fibers;
    for (int i = 0; i < kFibers; ++i) {
      fibers.emplace_back([&, i] {
        order.push_back(i);
        events[i].Wait();
        order.push_back(i);
      });
    }
    FiberYield();  // All of them wait now.
    for (int i = kFibers - 1; i >= 0; --i) events[i].Set();
    for (Fiber& fiber : fibers) fiber.Join();
  }).Join();
  std::vector<int> expected;
  for (int i = 0; i < kFibers; ++i) expected.push_back(i);
  for (int i = kFibers - 1; i >= 0; --i) expected.push_back(i);
  EXPECT_EQ(order, expected);
}

// --- StartFiberDetached ---

TEST_P(FiberTest, StartFiberDetachedRunsTheFunctionOnce) {
  std::atomic<int> runs{0};
  FiberLatch latch(2);
  const auto f = [&] {
    ++runs;
    latch.CountDown();
  };
  ASSERT_TRUE(StartFiberDetached(f));
  InFiber([&] { ASSERT_TRUE(StartFiberDetached(f)); });
  latch.Wait();
  EXPECT_EQ(runs, 2);
}

TEST_P(FiberTest, StartFiberDetachedTakesEveryKindOfCallable) {
  static std::atomic<int> calls;
  calls = 0;
  struct Functor {
    FiberLatch* latch;
    void operator()() {
      ++calls;
      latch->CountDown();
    }
  };
  FiberLatch latch(4);
  std::function<void()> function = Functor{&latch};
  base::UniqueFunction<void()> unique = Functor{&latch};
  ASSERT_TRUE(StartFiberDetached(Functor{&latch}));
  ASSERT_TRUE(StartFiberDetached(function));
  ASSERT_TRUE(StartFiberDetached(std::move(function)));
  ASSERT_TRUE(StartFiberDetached(std::move(unique)));
  latch.Wait();
  EXPECT_EQ(calls, 4);
}

TEST_P(FiberTest, StartFiberDetachedHonoursItsAttributes) {
  FiberLatch latch(1);
  const std::size_t last = groups() - 1;
  std::string name;
  std::size_t group = 1000;
  ASSERT_TRUE(StartFiberDetached({.scheduling_group = last, .scheduling_group_local = true, .name = "detached"}, [&] {
    name = GetFiberName();
    group = GetCurrentSchedulingGroupIndex();
    latch.CountDown();
  }));
  latch.Wait();
  EXPECT_EQ(name, "detached");
  EXPECT_EQ(group, last);
}

TEST_P(FiberTest, ARefusedFunctionIsDestroyedAndNotRun) {
  auto shared = std::make_shared<int>(0);
  {
    const RefuseFiberStarts refuse;
    EXPECT_FALSE(StartFiberDetached([shared] { ++*shared; }));
    EXPECT_FALSE(StartFiberDetached({.name = "never"}, [shared] { ++*shared; }));
    EXPECT_FALSE(Fiber::TryStart({}, [shared] { ++*shared; }).has_value());
    std::vector<std::function<void()>> batch(3, [shared] { ++*shared; });
    EXPECT_FALSE(BatchStartFiberDetached({.name = "refused"}, std::vector(batch)));
    EXPECT_FALSE(BatchStartFiberDetached(std::move(batch)));
    EXPECT_THROW(Fiber([shared] { ++*shared; }), FiberNotStarted);
    EXPECT_THROW(Fiber(Launch::Dispatch, [shared] { ++*shared; }), FiberNotStarted);
    try {
      Fiber({.name = "never"}, [shared] { ++*shared; });
    } catch (const FiberNotStarted& refused) {
      EXPECT_EQ(refused.Name(), "never");
      EXPECT_EQ(refused.Why(), StartRefusal::kNoRuntime);
      EXPECT_STREQ(refused.what(), "the start of fiber 'never' was refused: the runtime has ended or is going down");
    }
  }
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_EQ(*shared, 0);
  std::optional<Fiber> started = Fiber::TryStart({}, [shared] { ++*shared; });
  ASSERT_TRUE(started.has_value());
  started->Join();
  EXPECT_EQ(*shared, 1);
}

TEST_P(FiberTest, ARefusedFiberGivesItsExecutionContextBack) {
  auto context = FiberExecutionContext::Create();
  {
    const RefuseFiberStarts refuse;
    EXPECT_FALSE(StartFiberDetached({.execution_context = context.Get()}, [] {}));
    EXPECT_FALSE(Fiber::TryStart({.execution_context = context.Get()}, [] {}).has_value());
  }
  EXPECT_TRUE(context->HasOneRef());
}

// --- BatchStartFiberDetached ---

TEST_P(FiberTest, ABatchRunsEachOfItsFunctionsOnce) {
  for (const bool from_fiber : {false, true}) {
    constexpr int kFibers = 1000;
    std::vector<std::atomic<int>> runs(kFibers);
    FiberLatch latch(kFibers);
    const auto start = [&] {
      std::vector<std::function<void()>> batch;
      for (int i = 0; i < kFibers; ++i) {
        batch.emplace_back([&, i] {
          ++runs[i];
          latch.CountDown();
        });
      }
      ASSERT_TRUE(BatchStartFiberDetached(std::move(batch)));
    };
    if (from_fiber) {
      InFiber(start);
    } else {
      start();
    }
    latch.Wait();
    for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
  }
}

TEST_P(FiberTest, ABatchMayBeOfUniqueFunctionsOrOfLambdas) {
  FiberLatch latch(4);
  std::vector<base::UniqueFunction<void()>> unique;
  for (int i = 0; i < 2; ++i) {
    unique.emplace_back([&latch, owned = std::make_unique<int>(i)] { latch.CountDown(); });
  }
  ASSERT_TRUE(BatchStartFiberDetached(std::move(unique)));
  const auto lambda = [&latch] { latch.CountDown(); };
  ASSERT_TRUE(BatchStartFiberDetached(std::vector(2, lambda)));
  latch.Wait();
}

TEST_P(FiberTest, EachFiberOfABatchHasItsAttributes) {
  constexpr int kFibers = 50;
  const std::size_t last = groups() - 1;
  FiberLatch latch(kFibers);
  std::atomic<int> right{0};
  std::vector<std::function<void()>> batch(kFibers, [&] {
    // In its group: it may not be stolen. On its stack: twice the size of the others'.
    volatile char used[192 * 1024];
    for (std::size_t i = 0; i < sizeof(used); i += 4096) used[i] = 1;
    if (GetFiberName() == "of a batch" && GetCurrentSchedulingGroupIndex() == last) ++right;
    latch.CountDown();
  });
  ASSERT_TRUE(BatchStartFiberDetached(
      {.scheduling_group = last, .scheduling_group_local = true, .name = "of a batch", .stack_size = 256 * 1024},
      std::move(batch)));
  latch.Wait();
  EXPECT_EQ(right, kFibers);
}

TEST_P(FiberTest, ABatchIsPostedAlsoWithThePolicyDispatch) {
  InFiber([&] {
    const std::uint64_t mine = GetFiberId();
    FiberLatch latch(2);
    std::vector<std::function<void()>> batch(2, [&] {
      EXPECT_NE(GetFiberId(), mine);
      latch.CountDown();
    });
    ASSERT_TRUE(BatchStartFiberDetached({.launch_policy = Launch::Dispatch}, std::move(batch)));
    latch.Wait();
  });
}

TEST_P(FiberTest, AnEmptyBatchIsStarted) { EXPECT_TRUE(BatchStartFiberDetached(std::vector<std::function<void()>>())); }

// --- Priority ---

// What a policy of the users' reads.
TEST_P(FiberTest, AFiberHasThePriorityOfItsAttributesHoweverItIsStarted) {
  const auto mine = [] { return scheduling_group::CurrentFiber()->priority(); };
  const auto expect = [mine](unsigned expected) { return [mine, expected] { EXPECT_EQ(mine(), expected); }; };
  Fiber({.scheduling_group_local = true, .name = "first", .priority = 7}, expect(7)).Join();
  FiberScope scope;
  ASSERT_TRUE(scope.Spawn({.priority = 1}, expect(1)));
  ASSERT_TRUE(scope.Spawn(expect(0)));
  EXPECT_EQ(scope.SpawnTask({.priority = 2}, mine).Get(), 2u);
  scope.Wait();
  FiberLatch latch(2);
  ASSERT_TRUE(StartFiberDetached({.priority = 3}, [&] {
    EXPECT_EQ(mine(), 3u);
    EXPECT_TRUE(StartFiberDetached([&] {
      EXPECT_EQ(mine(), 0u) << "not inherited";
      latch.CountDown();
    }));
    latch.CountDown();
  }));
  latch.Wait();
  FiberLatch of_batch(2);
  ASSERT_TRUE(BatchStartFiberDetached({.priority = 4}, std::vector<std::function<void()>>(2, [&] {
                                        EXPECT_EQ(mine(), 4u);
                                        of_batch.CountDown();
                                      })));
  of_batch.Wait();
}

// --- Execution context ---

TEST_P(FiberTest, AFiberStartedWithAContextRunsInIt) {
  auto context = FiberExecutionContext::Create();
  FiberExecutionContext* seen = nullptr;
  Fiber({.execution_context = context.Get()}, [&] { seen = FiberExecutionContext::Current(); }).Join();
  EXPECT_EQ(seen, context.Get());
}

TEST_P(FiberTest, TheFiberKeepsItsContextAlive) {
  FiberEvent go;
  auto context = FiberExecutionContext::Create();
  bool in_context = false;
  Fiber fiber({.execution_context = context.Get()}, [&] {
    go.Wait();
    in_context = FiberExecutionContext::Current() != nullptr;
  });
  context.Reset();
  go.Set();
  fiber.Join();
  EXPECT_TRUE(in_context);
}

// --- Many ---

TEST_P(FiberTest, ATreeOfFibersIsJoinedFromItsLeavesUp) {
  std::atomic<int> leaves{0};
  std::function<void(int)> grow = [&](int depth) {
    if (depth == 0) {
      ++leaves;
      return;
    }
    std::vector<Fiber> children;
    for (int i = 0; i < 4; ++i) children.emplace_back(grow, depth - 1);
    for (Fiber& child : children) child.Join();
  };
  InFiber([&] { grow(5); });
  EXPECT_EQ(leaves, 1024);
}

}  // namespace
}  // namespace weft::fiber
