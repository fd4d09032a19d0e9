// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/async.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/future.h"
#include "weft/fiber/testing.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

class AsyncTest : public InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, AsyncTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

TEST_P(AsyncTest, ReturnsTheFutureOfWhatTheFunctionReturns) {
  const auto check = [] {
    Future<int> sum = Async([](int a, int b) { return a + b; }, 1, 2);
    EXPECT_EQ(BlockingGet(&sum).GetValue0(), 3);
    bool ran = false;
    Future<> nothing = Async([&] { ran = IsRunningInFiberWorker(); });
    nothing.Get();
    EXPECT_TRUE(ran);
    EXPECT_EQ(*Async([] { return std::make_unique<int>(4); }).Get(), 4);
    EXPECT_EQ(Async([]() -> const std::string { return "five"; }).Get(), "five");
    Future<int> flat = Async([] { return Async([] { return 6; }); });
    EXPECT_EQ(flat.Get(), 6);
    EXPECT_EQ(Async(&std::string::size, std::string("seven")).Get(), 5U);
  };
  InFiber(check);
  InThread(check);
}

TEST_P(AsyncTest, WhatTheFunctionThrowsArrives) {
  InFiber([] {
    EXPECT_THROW(Async([]() -> int { throw std::out_of_range("far"); }).Get(), std::out_of_range);
    EXPECT_THROW(Async([] { throw 5; }).Get(), int);
    EXPECT_THROW(Async([] { return MakeExceptionFuture<int>(CommonException("inner")); }).Get(), CommonException);
  });
}

// The fiber that gets the result is not cancelled.
TEST_P(AsyncTest, ACancelledFunctionIsAFailure) {
  InFiber([] {
    Future<int> future = Async([]() -> int { throw FiberCancelled(false); });
    EXPECT_THROW(future.Get(), CommonException);
  });
}

TEST_P(AsyncTest, TakesArgumentsAsAFiberDoes) {
  InFiber([] {
    int x = 1;
    Async([](int& value) { ++value; }, std::ref(x)).Get();
    EXPECT_EQ(x, 2);
    Async([](auto value) { ++value.get(); }, std::ref(x)).Get();
    EXPECT_EQ(x, 3);
    EXPECT_EQ(Async([](std::unique_ptr<int> p) { return *p; }, std::make_unique<int>(8)).Get(), 8);
    const std::string text = "kept by value";
    EXPECT_EQ(Async([](std::string&& kept) { return std::move(kept); }, text).Get(), text);
  });
}

TEST_P(AsyncTest, EachOfTRpcCppsFormsRuns) {
  InFiber([] {
    for (int i = 0; i < 10; ++i) {
      int rc = 0;
      const auto worker = ThreadNumber();
      auto dispatched = Async(Launch::Dispatch, [&] {
        rc = 1;
        EXPECT_EQ(worker, ThreadNumber());
      });
      BlockingGet(&dispatched);
      ASSERT_EQ(rc, 1);
    }
    auto context = FiberExecutionContext::Create();
    const std::size_t last = GetSchedulingGroupCount() - 1;
    const auto current = [] { return FiberExecutionContext::Current(); };
    EXPECT_EQ(Async(Launch::Post, last, context.Get(), current).Get(), context.Get());
    EXPECT_EQ(Async(Launch::Post, kNearestSchedulingGroup, nullptr, current).Get(), nullptr);
    EXPECT_EQ(Async(
                  Launch::Post, kUnspecifiedSchedulingGroup, [](int a) { return a; }, 3)
                  .Get(),
              3);
    const FiberAttributes attributes{.scheduling_group = last, .scheduling_group_local = true, .name = "named"};
    EXPECT_EQ(Async(attributes, [] { return std::string(GetFiberName()); }).Get(), "named");
    EXPECT_EQ(Async(attributes, [] { return GetCurrentSchedulingGroupIndex(); }).Get(), last);
  });
}

TEST_P(AsyncTest, InheritsTheContext) {
  InFiber([] {
    auto context = FiberExecutionContext::Create();
    context->Execute([&] {
      EXPECT_EQ(Async([] { return FiberExecutionContext::Current(); }).Get(), context.Get());
      EXPECT_EQ(Async(Launch::Dispatch, [] { return FiberExecutionContext::Current(); }).Get(), context.Get());
    });
  });
}

// tRPC-Cpp's Future would never be resolved.
TEST_P(AsyncTest, ARefusedStartIsAFailedFuture) {
  auto owned = std::make_shared<int>();
  Future<int> failed;
  {
    const RefuseFiberStarts refuse;
    failed = Async({.name = "never"}, [owned] { return *owned; });
    EXPECT_TRUE(failed.IsFailed());
    EXPECT_EQ(owned.use_count(), 1);
  }
  const Exception exception = failed.GetException();
  ASSERT_NE(exception.Get<FiberNotStarted>(), nullptr);
  EXPECT_EQ(exception.Get<FiberNotStarted>()->Name(), "never");
  EXPECT_EQ(exception.Get<FiberNotStarted>()->Why(), StartRefusal::kNoRuntime);
}

// FU7: the one that waits may free what the function refers to.
TEST_P(AsyncTest, TheFunctionIsDestroyedBeforeItsFutureIsResolved) {
  InFiber([] {
    for (int i = 0; i < 100; ++i) {
      auto captured = std::make_shared<int>(i);
      const std::weak_ptr<int> watched = captured;
      Async([captured = std::move(captured)](const std::string&) { return *captured; }, std::string(100, 'x')).Wait();
      EXPECT_TRUE(watched.expired());
    }
    // Seen from within the call that resolves it.
    auto captured = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = captured;
    FiberEvent go;
    bool gone = false;
    auto then = Async([&go, captured = std::move(captured)] { go.Wait(); }).Then([&] { gone = watched.expired(); });
    go.Set();
    then.Get();
    EXPECT_TRUE(gone);
  });
}

TEST_P(AsyncTest, ContinuationsAndWhenAllOfAsyncs) {
  InFiber([] {
    FiberEvent go;
    Future<int> chained = Async([&] { go.Wait(); }).Then([] { return Async([] { return 2; }); });
    EXPECT_FALSE(chained.IsReady());
    go.Set();
    std::vector<Future<int>> all;
    for (int i = 0; i < 20; ++i) all.push_back(Async([i] { return i; }));
    int sum = 0;
    for (auto& one : BlockingGet(WhenAll(std::move(all))).GetValue0()) sum += one.Get();
    EXPECT_EQ(sum, 190);
    EXPECT_EQ(chained.Get(), 2);
  });
}

TEST(Async, AnEmptyFunctionIsNamed) {
  EXPECT_DEATH(RunAsFiber([] { Async(std::function<int()>()); }), "Async");
}

}  // namespace
}  // namespace weft::fiber
