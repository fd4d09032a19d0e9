// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/future.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/fiber/execution_context.h"
#include "weft/fiber/executor.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/testing.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class TestException : public ExceptionBase {
 public:
  const char* what() const noexcept override { return "test exception"; }
};

// Moves throw while it is armed.
struct ThrowsWhenMoved {
  explicit ThrowsWhenMoved(int* moves_left) : moves_left(moves_left) {}
  ThrowsWhenMoved(ThrowsWhenMoved&& other) : moves_left(other.moves_left) {
    if (--*moves_left == 0) throw std::runtime_error("moved");
  }
  int* moves_left;
};

// --- Promise and Future, without a runtime ---

TEST(Future, AReadyFutureHasItsValues) {
  Future<int> one = MakeReadyFuture(5);
  EXPECT_TRUE(one.IsReady());
  EXPECT_FALSE(one.IsFailed());
  EXPECT_EQ(one.GetConstValue(), 5);
  EXPECT_TRUE(one.IsReady());
  EXPECT_EQ(one.GetValue0(), 5);
  EXPECT_FALSE(one.IsReady());
  EXPECT_FALSE(one.IsFailed());
  EXPECT_FALSE(one.Valid());

  Future<std::string, int> two = MakeReadyFuture<std::string, int>("text", 2);
  EXPECT_EQ(std::get<0>(two.GetConstValue()), "text");
  EXPECT_EQ(two.GetValue(), std::tuple(std::string("text"), 2));

  Future<> none = MakeReadyFuture<>();
  EXPECT_TRUE(none.IsReady());
  none.Get();
  EXPECT_FALSE(none.IsReady());

  EXPECT_EQ(*MakeReadyFuture(std::make_unique<int>(7)).Get(), 7);
  EXPECT_EQ((MakeReadyFuture<std::string, int>("text", 2).Get()), std::tuple(std::string("text"), 2));
}

TEST(Future, AFailedFutureHasItsExceptionWhicheverItIs) {
  Future<int> failed = MakeExceptionFuture<int>(TestException());
  EXPECT_TRUE(failed.IsFailed());
  EXPECT_FALSE(failed.IsReady());
  const Exception exception = failed.GetException();
  EXPECT_FALSE(failed.IsFailed());
  EXPECT_STREQ(exception.what(), "test exception");
  EXPECT_TRUE(exception.is<TestException>());
  EXPECT_TRUE(exception.is(TestException()));
  EXPECT_TRUE(exception.is<ExceptionBase>());
  EXPECT_FALSE(exception.is<CommonException>());
  EXPECT_EQ(exception.GetExceptionCode(), ExceptionBase::kNoCode);
  EXPECT_THROW(std::rethrow_exception(exception), TestException);

  EXPECT_THROW(MakeExceptionFuture<int>(std::out_of_range("far")).Get(), std::out_of_range);
  EXPECT_THROW(MakeExceptionFuture<>(std::make_exception_ptr(5)).Get(), int);
  EXPECT_THROW(MakeExceptionFuture<int>(std::out_of_range("far")).GetConstValue(), std::out_of_range);
  EXPECT_STREQ(Exception(std::make_exception_ptr(5)).what(), "an exception that is no std::exception");
  EXPECT_STREQ(MakeExceptionFuture<>(Exception()).GetException().what(), "no exception");
  EXPECT_STREQ(Exception().what(), "empty exception");
  EXPECT_FALSE(Exception());

  const Exception common = CommonException("no route", 7);
  EXPECT_EQ(common.GetExceptionCode(), 7);
  ASSERT_NE(common.Get<CommonException>(), nullptr);
  EXPECT_EQ(common.Get<TestException>(), nullptr);
}

// As with std::future, Get() takes the exception that it throws.
TEST(Future, AFutureWhoseGetHasThrownIsEmpty) {
  Future<int> got = MakeExceptionFuture<int>(TestException());
  EXPECT_THROW(got.Get(), TestException);
  EXPECT_FALSE(got.Valid());
  EXPECT_FALSE(got.IsFailed());
  Future<std::string, int> tuple = MakeExceptionFuture<std::string, int>(TestException());
  EXPECT_THROW(tuple.GetValue(), TestException);
  EXPECT_FALSE(tuple.Valid());
  Future<int> first = MakeExceptionFuture<int>(TestException());
  EXPECT_THROW(first.GetValue0(), TestException);
  EXPECT_FALSE(first.Valid());
  Future<> broken = Promise<>().GetFuture();
  EXPECT_THROW(broken.Get(), BrokenPromise);
  EXPECT_FALSE(broken.Valid());
  // One that leaves the values leaves the exception.
  Future<int> looked_at = MakeExceptionFuture<int>(TestException());
  EXPECT_THROW(looked_at.GetConstValue(), TestException);
  EXPECT_TRUE(looked_at.IsFailed());
  EXPECT_TRUE(looked_at.GetException().is<TestException>());
  EXPECT_FALSE(looked_at.Valid());
}

TEST(Future, AskedForAnExceptionAReadyFutureHasNoneAndKeepsItsValue) {
  Future<int> ready = MakeReadyFuture(5);
  EXPECT_FALSE(ready.GetException());
  EXPECT_EQ(ready.Get(), 5);
}

TEST(Promise, TheFirstResultCounts) {
  Promise<int> promise;
  Future<int> future = promise.GetFuture();
  EXPECT_FALSE(promise.IsResolved());
  EXPECT_FALSE(future.IsReady());
  EXPECT_TRUE(promise.SetValue(1));
  EXPECT_FALSE(promise.SetValue(2));
  EXPECT_FALSE(promise.SetException(TestException()));
  EXPECT_TRUE(promise.IsResolved());
  EXPECT_TRUE(promise.IsReady());
  EXPECT_FALSE(promise.IsFailed());
  EXPECT_EQ(future.Get(), 1);

  Promise<> failed;
  Future<> of_failed = failed.GetFuture();
  EXPECT_TRUE(failed.SetException(TestException()));
  EXPECT_FALSE(failed.SetValue());
  EXPECT_TRUE(failed.IsFailed());
  EXPECT_TRUE(of_failed.IsFailed());
}

TEST(Promise, TakesValuesAsTRpcCppDoes) {
  Promise<std::string, int> two;
  two.SetValue(std::make_tuple("ok", 1));
  EXPECT_EQ(two.GetFuture().Get(), std::tuple(std::string("ok"), 1));
  Promise<std::string> text;
  text.SetValue("ok");
  EXPECT_EQ(text.GetFuture().Get(), "ok");
  Promise<int> one;
  one.SetValue(std::tuple<int>(3));
  EXPECT_EQ(one.GetFuture().Get(), 3);
  Promise<std::tuple<int>> nested;
  nested.SetValue(std::tuple<int>(3));
  EXPECT_EQ(nested.GetFuture().Get(), std::tuple<int>(3));
}

TEST(Promise, OneThatGoesAwayMakesTheFutureFail) {
  Future<int> future;
  {
    Promise<int> promise;
    future = promise.GetFuture();
  }
  ASSERT_TRUE(future.IsFailed());
  EXPECT_TRUE(future.GetException().is<BrokenPromise>());

  Promise<> assigned;
  Future<> of_assigned = assigned.GetFuture();
  assigned = Promise<>();
  EXPECT_TRUE(of_assigned.IsFailed());
  EXPECT_TRUE(assigned.SetValue());

  Promise<int> resolved;
  Future<int> of_resolved = resolved.GetFuture();
  resolved.SetValue(5);
  resolved = Promise<int>();
  EXPECT_EQ(of_resolved.Get(), 5);
}

TEST(Promise, ItsFutureMayGoAwayFirst) {
  Promise<std::string> promise;
  promise.GetFuture();
  EXPECT_TRUE(promise.SetValue("nobody asks"));
}

TEST(Promise, AValueThatCannotBeMovedIntoItIsAFailure) {
  int moves_left = 1;  // Into its place in the state.
  Promise<ThrowsWhenMoved> promise;
  Future<ThrowsWhenMoved> future = promise.GetFuture();
  EXPECT_TRUE(promise.SetValue(ThrowsWhenMoved(&moves_left)));
  EXPECT_TRUE(promise.IsFailed());
  EXPECT_THROW(std::rethrow_exception(future.GetException()), std::runtime_error);
  int never = -1;
  Promise<ThrowsWhenMoved> fine;
  EXPECT_TRUE(fine.SetValue(ThrowsWhenMoved(&never)));
  EXPECT_TRUE(fine.IsReady());
}

// --- Then ---

TEST(Future, ThenTakesTheValuesOrTheFuture) {
  EXPECT_EQ(MakeReadyFuture(5).Then([](int&& v) { return v + 1; }).Get(), 6);
  EXPECT_EQ(MakeReadyFuture(5).Then([](const int& v) { return v + 1; }).Get(), 6);
  EXPECT_EQ(MakeReadyFuture(5).Then([](Future<int>&& f) { return f.Get() + 1; }).Get(), 6);
  EXPECT_EQ(MakeReadyFuture<>().Then([] { return 7; }).Get(), 7);
  EXPECT_EQ(MakeReadyFuture<>().Then([](Future<>&& f) { return f.IsReady(); }).Get(), true);
  EXPECT_EQ((MakeReadyFuture<int, std::string>(1, "a")
                 .Then([](int&& i, std::string&& s) { return s + char('0' + i); })
                 .Get()),
            "a1");
  EXPECT_EQ(MakeReadyFuture(std::make_unique<int>(3)).Then([](std::unique_ptr<int> p) { return *p; }).Get(), 3);
  bool called = false;
  MakeReadyFuture(5).Then([&](int&&) { called = true; });
  EXPECT_TRUE(called);
}

TEST(Future, ThenFlattensAFutureThatIsReturned) {
  Future<int> ready = MakeReadyFuture(5).Then([](int&& v) { return MakeReadyFuture(v + 1); });
  EXPECT_EQ(ready.Get(), 6);

  Promise<int> inner;
  Future<int> pending = MakeReadyFuture<>().Then([&] { return inner.GetFuture(); });
  EXPECT_FALSE(pending.IsReady());
  inner.SetValue(8);
  EXPECT_EQ(pending.Get(), 8);

  Promise<int> failing;
  Future<int> failed = MakeReadyFuture<>().Then([&] { return failing.GetFuture(); });
  failing.SetException(TestException());
  EXPECT_TRUE(failed.GetException().is<TestException>());

  EXPECT_TRUE(MakeReadyFuture<>().Then([] { return Future<int>(); }).IsFailed());
}

TEST(Future, AnExceptionPassesByContinuationsThatTakeValues) {
  bool called = false;
  Future<std::string> passed = MakeExceptionFuture<int>(TestException())
                                   .Then([&](int&&) {
                                     called = true;
                                     return MakeReadyFuture<bool>(true);
                                   })
                                   .Then([&](bool&&) {
                                     called = true;
                                     return std::string();
                                   });
  EXPECT_FALSE(called);
  EXPECT_TRUE(passed.IsFailed());
  passed.Then([&](Future<std::string>&& f) {
    called = true;
    EXPECT_TRUE(f.GetException().is<TestException>());
  });
  EXPECT_TRUE(called);
}

TEST(Future, WhatAContinuationThrowsIsTheResult) {
  Future<int> failed = MakeReadyFuture<>().Then([]() -> int { throw std::out_of_range("far"); });
  EXPECT_THROW(failed.Get(), std::out_of_range);
  Promise<> later;
  Future<> failed_later = later.GetFuture().Then([] { throw 5; });
  later.SetValue();
  EXPECT_THROW(failed_later.Get(), int);
}

TEST(Future, AContinuationRunsWithinSetValueOrThen) {
  const auto here = std::this_thread::get_id();
  Promise<int> promise;
  std::thread::id ran_in;
  Future<> done = promise.GetFuture().Then([&](int&&) { ran_in = std::this_thread::get_id(); });
  EXPECT_EQ(ran_in, std::thread::id());
  std::thread other([&] {
    promise.SetValue(1);
    EXPECT_EQ(ran_in, std::this_thread::get_id());
  });
  other.join();
  EXPECT_TRUE(done.IsReady());
  MakeReadyFuture<>().Then([&] { ran_in = std::this_thread::get_id(); });
  EXPECT_EQ(ran_in, here);
}

// FU4: within a few frames' worth of stack.
TEST(Future, ALongChainNeedsNoStack) {
  Promise<int> promise;
  Future<int> end = promise.GetFuture();
  for (int i = 0; i < 20'000; ++i) end = end.Then([](int&& v) { return v + 1; });
  promise.SetValue(0);
  EXPECT_EQ(end.Get(), 20'000);

  Promise<int> broken;
  Future<int> failed = broken.GetFuture();
  for (int i = 0; i < 20'000; ++i) failed = failed.Then([](int&& v) { return MakeReadyFuture(v + 1); });
  broken = Promise<int>();
  EXPECT_TRUE(failed.GetException().is<BrokenPromise>());

  // A loop made of continuations that return futures, as tRPC-Cpp's DoUntil().
  struct Step {
    Future<> operator()() {
      if (--left == 0) return MakeReadyFuture<>();
      promises.emplace_back();
      return promises.back().GetFuture().Then(std::ref(*this));
    }
    int left = 20'000;
    std::vector<Promise<>> promises;
  } step;
  step.promises.reserve(20'000);
  Future<> loop = step();
  for (std::size_t i = 0; i < step.promises.size(); ++i) step.promises[i].SetValue();
  EXPECT_TRUE(loop.IsReady());
}

TEST(Future, ThenOnTheFutureThatItsContinuationDestroys) {
  Promise<int> promise;
  promise.SetValue(5);
  auto future = std::make_unique<Future<int>>(promise.GetFuture());
  EXPECT_EQ(future->Then([&](int&& v) { return future.reset(), v; }).Get(), 5);
}

// FU7
TEST(Future, AFunctionIsDestroyedBeforeItsFutureIsResolved) {
  Promise<> promise;
  auto captured = std::make_shared<int>();
  const std::weak_ptr<int> watched = captured;
  bool gone = false;
  promise.GetFuture().Then([captured = std::move(captured)] { static_cast<void>(captured); }).Then([&] {
    gone = watched.expired();
  });
  EXPECT_FALSE(watched.expired());
  promise.SetValue();
  EXPECT_TRUE(gone);
}

// Looks at a Future when it is destroyed, and says whether that had its result already.
struct LooksAtTheEnd {
  LooksAtTheEnd(const Future<>* future, bool* resolved) : future(future), resolved(resolved) {}
  LooksAtTheEnd(LooksAtTheEnd&& other) noexcept
      : future(std::exchange(other.future, nullptr)), resolved(other.resolved) {}
  ~LooksAtTheEnd() {
    if (future != nullptr) *resolved = future->IsReady() || future->IsFailed();
  }
  const Future<>* future;
  bool* resolved;
};

// Somebody who waits in another thread may go on as soon as there is a result.
TEST(Future, AFunctionIsDestroyedBeforeAnybodyCanSeeTheResult) {
  enum { kReturns, kThrows, kIsNotCalled, kCases };
  for (int which = 0; which < kCases; ++which) {
    SCOPED_TRACE(which);
    Promise<> promise;
    Future<> next;
    bool was_resolved = true;
    next = promise.GetFuture().Then([which, looks = LooksAtTheEnd(&next, &was_resolved)] {
      if (which == kThrows) throw TestException();
    });
    EXPECT_TRUE(was_resolved) << "it has been destroyed already";
    if (which == kIsNotCalled) {
      promise.SetException(TestException());
    } else {
      promise.SetValue();
    }
    EXPECT_FALSE(was_resolved);
    EXPECT_EQ(next.IsReady(), which == kReturns);
    EXPECT_EQ(next.IsFailed(), which != kReturns);
  }
}

TEST(Future, AContinuationOfFailureIsDestroyedToo) {
  auto captured = std::make_shared<int>();
  const std::weak_ptr<int> watched = captured;
  {
    Promise<> promise;
    promise.GetFuture().Then([captured = std::move(captured)] { static_cast<void>(captured); });
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(FutureDeathTest, MisuseIsNamed) {
  EXPECT_DEATH(Future<int>().Wait(), "Future::Wait: the Future is empty");
  EXPECT_DEATH(Future<int>().Get(), "Future::GetValue: the Future is empty");
  EXPECT_DEATH(
      {
        Promise<int> promise;
        promise.GetFuture().Then([](int&&) {});
        promise.GetFuture().Then([](int&&) {});
      },
      "it has a continuation or is waited for already");
  EXPECT_DEATH(
      {
        Promise<int> promise;
        Promise<int> other = std::move(promise);
        promise.SetValue(1);
      },
      "Promise: it has been moved from");
  EXPECT_DEATH(WhenAll(Future<int>()), "WhenAll: an empty Future");
}

// --- Executors ---

class ThreadExecutor : public Executor {
 public:
  ~ThreadExecutor() override {
    for (std::thread& thread : threads_) thread.join();
  }
  bool SubmitTask(Task&& task) override {
    if (refuse_) return false;
    threads_.emplace_back(std::move(task));
    return true;
  }
  void Refuse() { refuse_ = true; }

 private:
  std::vector<std::thread> threads_;
  bool refuse_ = false;
};

TEST(Future, AContinuationRunsWhereItsExecutorSays) {
  ThreadExecutor executor;
  const auto here = std::this_thread::get_id();
  Promise<std::thread::id> promise;
  Future<> done = promise.GetFuture()
                      .Then(&executor,
                            [](std::thread::id&& caller) {
                              EXPECT_NE(std::this_thread::get_id(), caller);
                              return MakeReadyFuture(std::this_thread::get_id());
                            })
                      .Then([](std::thread::id&& caller) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  promise.SetValue(here);
  done.Get();
  executor.Refuse();
  EXPECT_EQ(MakeReadyFuture<>().Then(&executor, [] { return std::this_thread::get_id(); }).Get(), here);
}

// --- WhenAll, WhenAny ---

TEST(WhenAll, IsReadyWhenAllAreReadyOrFailed) {
  Promise<int> first;
  Promise<std::string> second;
  auto all = WhenAll(first.GetFuture(), second.GetFuture(), MakeReadyFuture<>());
  EXPECT_FALSE(all.IsReady());
  second.SetException(TestException());
  EXPECT_FALSE(all.IsReady());
  first.SetValue(3);
  ASSERT_TRUE(all.IsReady());
  auto results = all.GetValue0();
  EXPECT_EQ(std::get<0>(results).Get(), 3);
  EXPECT_TRUE(std::get<1>(results).GetException().is<TestException>());
  EXPECT_TRUE(std::get<2>(results).IsReady());
}

TEST(WhenAll, OfARange) {
  std::vector<Promise<int>> promises(5);
  std::vector<Future<int>> futures;
  for (auto& promise : promises) futures.push_back(promise.GetFuture());
  Future<std::vector<Future<int>>> all = WhenAll(futures.begin(), futures.end());
  EXPECT_FALSE(futures[0].Valid());
  for (std::size_t i = 5; i-- > 0;) {
    EXPECT_FALSE(all.IsReady());
    promises[i].SetValue(static_cast<int>(i));
  }
  std::vector<Future<int>> results = all.Get();
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(results[i].Get(), static_cast<int>(i));

  std::vector<Future<>> ready;
  ready.push_back(MakeReadyFuture<>());
  EXPECT_EQ(WhenAll(std::move(ready)).Get().size(), 1U);
}

TEST(WhenAll, OfNothingIsReadyAtOnce) {
  EXPECT_TRUE(WhenAll().IsReady());
  EXPECT_TRUE(WhenAll(std::vector<Future<int>>()).IsReady());
}

TEST(WhenAny, HasTheFirstResultAndItsIndex) {
  std::vector<Promise<int>> promises(3);
  std::vector<Future<int>> futures;
  for (auto& promise : promises) futures.push_back(promise.GetFuture());
  auto any = WhenAny(futures.begin(), futures.end());
  EXPECT_FALSE(any.IsReady());
  promises[2].SetValue(22);
  promises[0].SetValue(20);
  auto [index, value] = any.Get();
  EXPECT_EQ(index, 2U);
  EXPECT_EQ(value, std::tuple(22));

  Promise<int> late;
  auto failed = WhenAny(late.GetFuture(), MakeExceptionFuture<int>(TestException()));
  EXPECT_TRUE(failed.GetException().is<TestException>());
  EXPECT_TRUE(WhenAny(std::vector<Future<int>>()).IsFailed());
}

TEST(WhenAny, OneThatIsReadyAlreadyWins) {
  Promise<int> late;
  auto any = WhenAny(late.GetFuture(), MakeReadyFuture(6), MakeReadyFuture(7));
  EXPECT_EQ(std::get<0>(any.Get()), 1U);
}

TEST(WhenAny, WithoutExceptionHasTheFirstValue) {
  std::vector<Promise<int>> promises(3);
  std::vector<Future<int>> futures;
  for (auto& promise : promises) futures.push_back(promise.GetFuture());
  auto any = WhenAnyWithoutException(futures.begin(), futures.end());
  promises[1].SetException(TestException());
  EXPECT_FALSE(any.IsFailed());
  promises[0].SetValue(4);
  auto [index, value] = any.Get();
  EXPECT_EQ(index, 0U);
  EXPECT_EQ(value, std::tuple(4));

  Promise<> last;
  auto none = WhenAnyWithoutException(last.GetFuture(), MakeExceptionFuture<>(std::out_of_range("first")));
  EXPECT_FALSE(none.IsFailed());
  last.SetException(TestException());
  EXPECT_TRUE(none.GetException().is<TestException>());
  EXPECT_TRUE(WhenAnyWithoutException(std::vector<Future<>>()).IsFailed());
}

// FU9
TEST(WhenAny, TheLosersMayOutliveIt) {
  Promise<std::string> winner;
  Promise<std::string> loser;
  {
    auto any = WhenAny(winner.GetFuture(), loser.GetFuture());
    winner.SetValue("a text that is too long to be kept in place by std::string");
  }
  loser.SetValue("another text that is too long to be kept in place by std::string");
  Promise<int> a;
  Promise<int> b;
  WhenAll(a.GetFuture(), b.GetFuture());
  a.SetValue(1);
  b.SetValue(2);
}

// --- In fibers ---

class FutureTest : public InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, FutureTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

// With one worker it would wait for ever if it blocked the thread.
TEST_P(FutureTest, GetParksTheFiberAndNotItsWorker) {
  InFiber([] {
    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    Fiber setter([&] { promise.SetValue(5); });
    EXPECT_EQ(future.Get(), 5);
    setter.Join();
  });
}

TEST_P(FutureTest, GetBlocksAThread) {
  Promise<std::string> promise;
  Future<std::string> future = promise.GetFuture();
  Fiber setter([&] { promise.SetValue("from a fiber"); });
  EXPECT_EQ(future.Get(), "from a fiber");
  setter.Join();
}

TEST_P(FutureTest, AThreadResolvesWhatAFiberWaitsFor) {
  InFiber([] {
    Promise<std::string> promise;
    auto future = promise.GetFuture();
    std::thread thread([p = std::move(promise)]() mutable { p.SetValue("ok"); });
    Future<std::string> ready = BlockingGet(std::move(future));
    EXPECT_EQ(ready.GetValue0(), "ok");
    thread.join();
  });
}

TEST_P(FutureTest, BlockingTryGetGivesUpAndLeavesTheFuture) {
  InFiber([] {
    Promise<std::string, int> promise;
    auto future = promise.GetFuture();
    EXPECT_EQ(BlockingTryGet(std::move(future), 1), std::nullopt);
    EXPECT_FALSE(BlockingTryGet(std::move(future), 1ms));
    EXPECT_FALSE(BlockingTryGet(std::move(future), 0));
    EXPECT_FALSE(future.Wait(1ms));
    EXPECT_FALSE(future.Wait(1));
    std::thread thread([p = std::move(promise)]() mutable { p.SetValue(std::make_tuple("ok", 1)); });
    auto ready = BlockingTryGet(std::move(future), 60'000);
    thread.join();
    ASSERT_TRUE(ready);
    EXPECT_EQ(ready->GetValue(), std::tuple(std::string("ok"), 1));
  });
}

TEST_P(FutureTest, AFailureAndABrokenPromiseEndTheWait) {
  InFiber([] {
    Promise<> failing;
    auto failed = failing.GetFuture();
    Fiber setter([p = std::move(failing)]() mutable { p.SetException(TestException()); });
    EXPECT_TRUE(BlockingGet(&failed).GetException().is<TestException>());
    setter.Join();
    Promise<> broken;
    auto future = broken.GetFuture();
    Fiber dropper([p = std::move(broken)] {});
    EXPECT_THROW(future.Get(), BrokenPromise);
    dropper.Join();
  });
}

TEST_P(FutureTest, AContinuationMayRunInAFiber) {
  Promise<int> promise;
  Future<int> future = promise.GetFuture().Then(FiberExecutor(), [](int&& v) {
    EXPECT_TRUE(IsRunningInFiberWorker());
    FiberYield();
    return v + 1;
  });
  promise.SetValue(1);
  EXPECT_EQ(future.Get(), 2);
  // Refused: in place.
  const RefuseFiberStarts refuse;
  EXPECT_FALSE(MakeReadyFuture<>().Then(FiberExecutor(), [] { return IsRunningInFiberWorker(); }).Get());
}

TEST_P(FutureTest, AContinuationRunsInTheContextOfThen) {
  auto context = FiberExecutionContext::Create();
  Promise<> promise;
  Future<> inline_one;
  context->Execute([&] {
    inline_one = promise.GetFuture().Then([&] { EXPECT_EQ(FiberExecutionContext::Current(), context.Get()); });
    MakeReadyFuture<>()
        .Then(FiberExecutor(), [&] { EXPECT_EQ(FiberExecutionContext::Current(), context.Get()); })
        .Get();
  });
  EXPECT_EQ(FiberExecutionContext::Current(), nullptr);
  promise.SetValue();
  inline_one.Get();
}

// Resolved while it is waited for, given up, and continued, in all orders.
TEST_P(FutureTest, ManyFuturesAreResolvedOnce) {
  constexpr int kRounds = 300;
  std::atomic<int> sum{0};
  InFiber([&] {
    std::vector<Fiber> fibers;
    for (int i = 0; i < kRounds; ++i) {
      Promise<int> promise;
      fibers.emplace_back([&sum, i, f = promise.GetFuture()]() mutable {
        if (i % 3 == 0) static_cast<void>(f.Wait(1us));
        if (i % 3 == 1) f = f.Then([](int&& v) { return v; });
        sum += f.Get();
      });
      fibers.emplace_back([p = std::move(promise)]() mutable {
        EXPECT_TRUE(p.SetValue(1));
        EXPECT_FALSE(p.SetValue(2));
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
  });
  EXPECT_EQ(sum, kRounds);
}

TEST_P(FutureTest, OneOfManyResolversWins) {
  InFiber([] {
    for (int round = 0; round < 50; ++round) {
      Promise<int> promise;
      Future<int> future = promise.GetFuture();
      std::atomic<int> won{0};
      FiberLatch done(4);
      for (int i = 1; i <= 4; ++i) {
        EXPECT_TRUE(StartFiberDetached([&, i] {
          if (promise.SetValue(i)) won += i;
          done.CountDown();
        }));
      }
      const int value = future.Get();
      done.Wait();
      EXPECT_EQ(value, won);
    }
  });
}

TEST_P(FutureTest, WhenAllAndWhenAnyOfFibers) {
  InFiber([] {
    for (int round = 0; round < 20; ++round) {
      std::vector<Future<int>> all;
      std::vector<Future<int>> any;
      for (int i = 0; i < 8; ++i) {
        Promise<int> for_all;
        Promise<int> for_any;
        all.push_back(for_all.GetFuture());
        any.push_back(for_any.GetFuture());
        EXPECT_TRUE(StartFiberDetached([i, a = std::move(for_all), b = std::move(for_any)]() mutable {
          a.SetValue(i);
          if (i % 2 == 0) {
            b.SetValue(i);
          } else {
            b.SetException(TestException());
          }
        }));
      }
      auto first = WhenAnyWithoutException(std::move(any));
      auto values = BlockingGet(WhenAll(std::move(all))).GetValue0();
      for (int i = 0; i < 8; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)].Get(), i);
      auto [index, value] = first.Get();
      EXPECT_EQ(std::get<0>(value), static_cast<int>(index));
    }
  });
}

}  // namespace
}  // namespace weft::fiber
