// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/collect.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/testing.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

class CollectTest : public InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, CollectTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

TEST_P(CollectTest, AllReturnsResultsInTheOrderOfTheFunctions) {
  const auto check = [] {
    std::vector<std::function<int()>> calls;
    for (int i = 0; i < 20; ++i) calls.push_back([i] { return i; });
    const std::vector<int> results = CollectAll(calls);
    ASSERT_EQ(results.size(), 20U);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)], i);
    calls.clear();
    EXPECT_TRUE(CollectAll(calls).empty());

    auto [text, pointer, nothing] =
        CollectAll([] { return std::string("text"); }, [] { return std::make_unique<int>(5); },
                   [] { EXPECT_TRUE(IsRunningInFiberWorker()); });
    EXPECT_EQ(text, "text");
    EXPECT_EQ(*pointer, 5);
    static_assert(std::is_same_v<decltype(nothing), std::monostate>);
  };
  InFiber(check);
  InThread(check);
}

TEST_P(CollectTest, TheFunctionsRunAtOnceWhereTheyAre) {
  InFiber([] {
    FiberLatch all(3);
    int calls = 0;
    auto counts = [&, mine = 0]() mutable {
      all.ArriveAndWait();  // Each waits for the others.
      calls += ++mine;
    };
    std::list<std::function<void()>> functions;
    functions.emplace_back([&] { all.ArriveAndWait(); });
    functions.emplace_back([&] { all.ArriveAndWait(); });
    functions.emplace_back(std::ref(counts));
    CollectAll(functions);
    EXPECT_EQ(calls, 1);
  });
}

TEST_P(CollectTest, TheFirstExceptionIsThrownWhenAllHaveEnded) {
  const auto check = [] {
    std::atomic<int> running{0};
    FiberEvent thrown;
    FiberLatch begun(2);
    const auto late = [&] {
      struct Runs {
        explicit Runs(std::atomic<int>* the_count) : count(the_count) { ++*count; }
        ~Runs() { --*count; }
        std::atomic<int>* count;
      } runs(&running);
      begun.CountDown();
      thrown.Wait();
      FiberYield();
    };
    EXPECT_THROW(CollectAll(late, late,
                            [&] {
                              begun.Wait();
                              thrown.Set();
                              throw std::out_of_range("first");
                            }),
                 std::out_of_range);
    EXPECT_EQ(running, 0);
  };
  InFiber(check);
  InThread(check);
}

// The caller is not told of its own cancellation then.
TEST_P(CollectTest, ACancelledCallerThatUnwindsGetsNoResultsThatAreNotThere) {
  InFiber([] {
    int thrown = 0;
    struct Flush {
      ~Flush() {
        const std::vector<std::function<int()>> waits(3, [] {
          FiberSleepFor(std::chrono::hours(1));
          return 1;
        });
        try {
          static_cast<void>(CollectAll(waits));
        } catch (const FiberCancelled&) {
          ++*thrown;
        }
        try {
          static_cast<void>(CollectN(waits, 2));
        } catch (const FiberCancelled&) {
          ++*thrown;
        }
      }
      int* thrown;
    };
    CancelScope scope;
    scope.Cancel();
    EXPECT_FALSE(scope.Run([&] {
      const Flush flush{&thrown};
      FiberSleepFor(std::chrono::hours(1));
    }));
    EXPECT_EQ(thrown, 2);
  });
}

TEST_P(CollectTest, NReturnsTheFirstToEnd) {
  InFiber([] {
    for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
      std::atomic<int> ended{0};
      FiberLatch all_have_begun(4);
      std::vector<std::function<std::string()>> calls;
      for (std::size_t i = 0; i < 4; ++i) {
        calls.push_back([&, i] {
          all_have_begun.ArriveAndWait();
          ++ended;
          return std::to_string(i);
        });
      }
      const auto results = CollectN(calls, n);
      EXPECT_EQ(ended, 4);  // The others, too.
      ASSERT_EQ(results.size(), n);
      std::set<std::size_t> indices;
      for (const auto& [index, text] : results) {
        EXPECT_EQ(text, std::to_string(index));
        indices.insert(index);
      }
      EXPECT_EQ(indices.size(), n);
    }

    std::vector<std::function<void()>> nothing(3, [] {});
    EXPECT_EQ(CollectN(nothing, 3).size(), 3U);
    EXPECT_TRUE(CollectN(nothing, 0).empty());
  });
}

TEST_P(CollectTest, AnExceptionOfTheFirstNCountsAndALaterOneDoesNot) {
  InFiber([] {
    FiberLatch both_have_begun(2);
    std::atomic<bool> won{false};
    // Tells when its second move puts it in its place among the results.
    struct Tells {
      explicit Tells(std::atomic<bool>* taken) : taken(taken) {}
      Tells(Tells&& other) noexcept : taken(std::exchange(other.taken, nullptr)), moves(other.moves + 1) {
        if (moves >= 2) taken->store(true);
      }
      Tells& operator=(Tells&&) = delete;
      std::atomic<bool>* taken;
      int moves = 0;
    };
    std::vector<std::function<Tells()>> calls;
    calls.push_back([&]() -> Tells {
      both_have_begun.ArriveAndWait();
      while (!won) FiberYield();
      throw std::out_of_range("late");
    });
    calls.push_back([&] {
      both_have_begun.ArriveAndWait();
      return Tells(&won);
    });
    EXPECT_EQ(CollectAny(calls).first, 1U);

    FiberEvent thrown;
    std::vector<std::function<int()>> both;
    both.push_back([&] {
      thrown.Wait();
      FiberYield();
      return 1;
    });
    both.push_back([&]() -> int {
      thrown.Set();
      throw std::out_of_range("of two");
    });
    EXPECT_THROW(CollectN(both, 2), std::out_of_range);
  });
}

TEST_P(CollectTest, AnyOfFunctions) {
  InFiber([] {
    const auto [index, value] = CollectAny([] { return 1; }, [] { return 2; }, [] { return 3; });
    EXPECT_EQ(value, static_cast<int>(index) + 1);
    EXPECT_EQ(CollectAny([] {}), 0U);
  });
}

TEST_P(CollectTest, ForEachCallsForEachElementAndNoMoreThanTheLimitAtOnce) {
  const auto check = [] {
    std::vector<int> values(50, 1);
    std::atomic<int> now{0};
    std::atomic<int> most{0};
    const auto work = [&](int& value) {
      const int running = ++now;
      for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
      }
      FiberYield();
      ++value;
      --now;
    };
    ForEach(values, work, 3);
    EXPECT_EQ(values, std::vector<int>(50, 2));
    EXPECT_LE(most, 3);
    ForEach(values, work, 1);
    ForEach(values, work);
    ForEach(values, work, 1000);
    EXPECT_EQ(values, std::vector<int>(50, 5));
    std::list<std::string> texts = {"a", "b", "c"};
    ForEach(
        texts, [](std::string& text) { text += text; }, 2);
    EXPECT_EQ(texts, (std::list<std::string>{"aa", "bb", "cc"}));
    ForEach(std::vector<int>(), work);
  };
  InFiber(check);
  InThread(check);
}

TEST_P(CollectTest, ForEachOfANumberCallsForEachIndexAndNoMoreThanTheLimitAtOnce) {
  const auto check = [] {
    std::vector<int> calls(50);
    std::atomic<int> now{0};
    std::atomic<int> most{0};
    const auto work = [&](std::size_t i) {
      const int running = ++now;
      for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
      }
      FiberYield();
      ++calls[i];
      --now;
    };
    ForEach(calls.size(), work, 3);
    EXPECT_LE(most, 3);
    ForEach(calls.size(), work);
    EXPECT_EQ(calls, std::vector<int>(50, 2));
    ForEach(0, work);
    FiberLatch all(4);
    ForEach(4, [&](int) { all.ArriveAndWait(); });
    EXPECT_THROW(ForEach(
                     3, [](std::size_t i) { throw std::out_of_range(std::to_string(i)); }, 1),
                 std::out_of_range);
  };
  InFiber(check);
  InThread(check);
}

TEST_P(CollectTest, ForEachWithoutALimitRunsAllAtOnce) {
  InFiber([] {
    FiberLatch all(10);
    const std::vector<int> values(10);
    ForEach(values, [&](int) { all.ArriveAndWait(); });
  });
}

// One at a time: with more the others may run on while the exception is on its way.
TEST_P(CollectTest, ForEachStopsAtAnException) {
  InFiber([] {
    std::vector<int> values(1000);
    int called = 0;
    const auto throws_third = [&](int&) {
      if (++called == 3) throw std::out_of_range("third");
    };
    EXPECT_THROW(ForEach(values, throws_third, 1), std::out_of_range);
    EXPECT_EQ(called, 3);
  });
}

TEST_P(CollectTest, ARefusedStartThrowsAndNothingIsCalled) {
  InFiber([] {
    const RefuseFiberStarts refuse;
    bool called = false;
    const auto call = [&] { called = true; };
    EXPECT_THROW(CollectAll(call, call), FiberNotStarted);
    EXPECT_THROW(CollectAny(call), FiberNotStarted);
    std::vector<int> values(3);
    EXPECT_THROW(ForEach(values, [&](int) { called = true; }), FiberNotStarted);
    EXPECT_FALSE(called);
  });
}

TEST_P(CollectTest, CallsMayBeNested) {
  InFiber([] {
    std::atomic<int> leaves{0};
    const std::vector<int> ten(10);
    ForEach(ten, [&](int) { ForEach(ten, [&](int) { ++leaves; }); });
    EXPECT_EQ(leaves, 100);
  });
}

TEST(CollectDeathTest, MoreThanThereAreIsMisuse) {
  EXPECT_DEATH(RunAsFiber([] {
                 std::vector<std::function<int()>> one = {[] { return 1; }};
                 CollectN(one, 2);
               }),
               "CollectN: 2 of 1 functions");
  EXPECT_DEATH(RunAsFiber([] { CollectAny(std::vector<std::function<int()>>()); }), "CollectAny: 1 of 0 functions");
}

}  // namespace
}  // namespace weft::fiber
