// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Coroutines that await a FiberTask or a Future.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/fiber/async.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/future.h"
#include "weft/fiber/testing.h"
#include "weft/interop/coroutine.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;

class CoroutineResultsTest : public fiber::InEachShape {
 protected:
  // Once in a fiber, once in a plain thread.
  template <class F>
  static void InFiberAndInThread(F&& f) {
    InFiber([&] { f(); });
    InThread([&] { f(); });
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, CoroutineResultsTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}),
                         &fiber::NameOf);

// A coroutine that nobody owns. Its caller goes on when it suspends.
struct Begun {
  struct promise_type {
    Begun get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};
Begun Begin(std::function<CoTask<>()> body, FiberEvent* ended) {
  co_await body();
  ended->Set();
}

// What the coroutine awaits comes while it is suspended: `give` is called then.
void AwaitedBefore(const std::function<void()>& give, std::function<CoTask<>()> body) {
  FiberEvent ended;
  Begin(std::move(body), &ended);
  Fiber([] {}).Join();  // By then, with one worker, the fiber that was started for the coroutine waits.
  EXPECT_FALSE(ended.IsSet()) << "it has not waited";
  give();
  ended.Wait();
}

template <class E, class Awaitable>
CoTask<bool> Throws(Awaitable&& awaitable) {
  try {
    static_cast<void>(co_await std::forward<Awaitable>(awaitable));
  } catch (const E&) {
    co_return true;
  }
  co_return false;
}

TEST_P(CoroutineResultsTest, WhatHasEndedIsTakenAndTheCoroutineStaysWhereItIs) {
  InFiberAndInThread([] {
    const auto await = []() -> CoTask<> {
      const std::uint64_t here = GetFiberId();
      FiberTask number([] { return 1; });
      FiberTask pointer([] { return std::make_unique<int>(2); });
      FiberTask nothing([] {});
      number.Wait();
      pointer.Wait();
      nothing.Wait();
      int sum = co_await number;
      sum += *co_await pointer;
      co_await nothing;
      EXPECT_FALSE(number.Valid() || pointer.Valid() || nothing.Valid());

      Future<int> one = MakeReadyFuture(3);
      sum += co_await one;
      sum += *co_await MakeReadyFuture(std::make_unique<int>(4));
      co_await MakeReadyFuture<>();
      const std::tuple<int, std::string> two = co_await MakeReadyFuture<int, std::string>(5, "6");
      EXPECT_EQ(two, std::tuple(5, "6"));
      EXPECT_FALSE(one.Valid());
      EXPECT_EQ(sum, 10);
      EXPECT_EQ(GetFiberId(), here);
    };
    AwaitInFiber(await());
  });
}

TEST_P(CoroutineResultsTest, ATaskThatEndsLaterResumesTheCoroutineInAFiber) {
  InFiberAndInThread([] {
    const std::uint64_t caller = GetFiberId();
    FiberEvent may_end;
    const auto wait = [&] { may_end.Wait(); };
    FiberTask number([&] { return wait(), 1; });
    FiberTask pointer([&] { return wait(), std::make_unique<int>(2); });
    FiberTask nothing(wait);
    AwaitedBefore([&] { may_end.Set(); },
                  [&]() -> CoTask<> {
                    EXPECT_EQ(co_await number, 1);
                    EXPECT_NE(GetFiberId(), 0u);
                    EXPECT_NE(GetFiberId(), caller);
                  });
    may_end.Reset();
    AwaitedBefore([&] { may_end.Set(); },
                  [&]() -> CoTask<> {
                    FiberTask later([&] { return wait(), std::make_unique<int>(3); });
                    EXPECT_EQ(*co_await later, 3);
                    EXPECT_FALSE(later.Valid());
                    EXPECT_EQ(*co_await pointer, 2);
                    co_await nothing;
                  });
    EXPECT_FALSE(number.Valid() || pointer.Valid() || nothing.Valid());
  });
}

TEST_P(CoroutineResultsTest, AFutureResolvedByAnotherThreadResumesTheCoroutineInAFiber) {
  InFiberAndInThread([] {
    const std::uint64_t caller = GetFiberId();
    Promise<std::unique_ptr<int>> pointer;
    Promise<int, std::string> two;
    Promise<> nothing;
    const auto resolve = [&] {
      std::thread([&] {
        EXPECT_TRUE(pointer.SetValue(std::make_unique<int>(1)));
        EXPECT_TRUE(two.SetValue(2, "3"));
        EXPECT_TRUE(nothing.SetValue());
      }).join();
    };
    AwaitedBefore(resolve, [&]() -> CoTask<> {
      Future<std::unique_ptr<int>> kept = pointer.GetFuture();
      EXPECT_EQ(*co_await kept, 1);
      EXPECT_FALSE(kept.Valid());
      EXPECT_NE(GetFiberId(), 0u);
      EXPECT_NE(GetFiberId(), caller);
      EXPECT_EQ((co_await two.GetFuture()), std::tuple(2, "3"));
      co_await nothing.GetFuture();
    });
  });
}

TEST_P(CoroutineResultsTest, AnAsyncCallIsAwaited) {
  InFiberAndInThread([] {
    const auto await = []() -> CoTask<int> {
      int sum = co_await Async([](int a, int b) { return a + b; }, 1, 2);
      sum += co_await FiberTask([] { return 4; });
      co_await Async([] {});
      co_return sum;
    };
    EXPECT_EQ(AwaitInFiber(await()), 7);
    FiberTask task([] { return 8; });
    EXPECT_EQ(AwaitInFiber(task), 8);
    EXPECT_EQ(AwaitInFiber(MakeReadyFuture(9)), 9);
  });
}

TEST_P(CoroutineResultsTest, TheExceptionIsThrownInTheCoroutine) {
  InFiberAndInThread([] {
    const auto fail = []() -> int { throw std::domain_error("no"); };
    FiberTask ended(fail);
    ended.Wait();
    EXPECT_TRUE(AwaitInFiber(Throws<std::domain_error>(ended)));
    EXPECT_FALSE(ended.Valid());
    EXPECT_TRUE(AwaitInFiber(Throws<std::domain_error>(MakeExceptionFuture<int>(std::domain_error("no")))));
    EXPECT_TRUE(AwaitInFiber(Throws<std::domain_error>(Async(fail))));
    Future<int> failed = MakeExceptionFuture<int>(std::domain_error("no"));
    EXPECT_TRUE(AwaitInFiber(Throws<std::domain_error>(failed)));
    EXPECT_FALSE(failed.Valid()) << "as after Get()";

    FiberEvent may_end;
    Promise<> promise;
    const auto give = [&] {
      may_end.Set();
      { const Promise<> broken = std::move(promise); }
    };
    AwaitedBefore(give, [&]() -> CoTask<> {
      FiberTask later([&] {
        may_end.Wait();
        fail();
      });
      Future<> future = promise.GetFuture();
      EXPECT_TRUE(co_await Throws<std::domain_error>(later));
      EXPECT_TRUE(co_await Throws<BrokenPromise>(future));
    });
  });
}

TEST_P(CoroutineResultsTest, ACancelledTaskThrowsTaskCancelled) {
  InFiberAndInThread([] {
    FiberEvent never;
    const auto wait = [&] { never.Wait(); };
    FiberTask before(wait);
    EXPECT_TRUE(before.Cancel());
    before.Wait();
    EXPECT_TRUE(AwaitInFiber(Throws<TaskCancelled>(before)));

    FiberTask meanwhile(wait);
    AwaitedBefore([&] { EXPECT_TRUE(meanwhile.Cancel()); },
                  [&]() -> CoTask<> { EXPECT_TRUE(co_await Throws<TaskCancelled>(meanwhile)); });

    FiberTask nevertheless([&] {
      Shielded([&] { never.Wait(); });
      return 1;
    });
    const auto cancel = [&] {
      EXPECT_TRUE(nevertheless.Cancel());
      never.Set();
    };
    AwaitedBefore(cancel, [&]() -> CoTask<> { EXPECT_EQ(co_await nevertheless, 1); });
  });
}

// The coroutine that awaits is in the scopes of the fiber that it runs in, until it is suspended.
TEST_P(CoroutineResultsTest, InACancelledFiberWhatHasEndedIsTaken) {
  InFiber([] {
    FiberTask task([] { return 1; });
    task.Wait();
    CancelScope scope;
    scope.Cancel();
    EXPECT_TRUE(scope.Run([&] {
      for (const bool of_task : {true, false}) {
        const auto await = [&]() -> CoTask<int> {
          scheduling_group::TimeSliceFlag()->store(true);  // Its time slice is over.
          if (of_task) co_return co_await task;
          co_return co_await MakeReadyFuture(1);
        };
        EXPECT_EQ(AwaitInFiber(await()), 1);
      }
    }));
  });
}

TEST_P(CoroutineResultsTest, ACancelledCallerLeavesTheTaskAlone) {
  struct Shared {
    FiberEvent may_end;
    FiberEvent left;
    std::atomic<int> result{0};
  };
  const auto shared = std::make_shared<Shared>();
  const auto await = [](std::shared_ptr<Shared> shared) -> CoTask<> {
    FiberTask task([shared] {
      shared->may_end.Wait();
      return 1;
    });
    shared->result = co_await task;
    shared->left.Set();
  };
  Fiber waiter([&] { EXPECT_FALSE(AwaitInFiber(await(shared), 1h)); });
  EXPECT_TRUE(waiter.Cancel());
  waiter.Join();
  shared->may_end.Set();
  shared->left.Wait();
  EXPECT_EQ(shared->result, 1);
}

// Moved, it is the co_await's: a caller that is late leaves it there.
TEST_P(CoroutineResultsTest, AMovedTaskOrFutureBelongsToTheAwait) {
  InFiberAndInThread([] {
    const auto may_end = std::make_shared<FiberEvent>();
    const auto ended = std::make_shared<FiberEvent>();
    FiberTask task([may_end, ended] {
      may_end->Wait();
      ended->Set();
      return 1;
    });
    EXPECT_EQ(AwaitInFiber(CoGet(std::move(task)), 1ms), std::nullopt);
    EXPECT_FALSE(task.Valid());
    may_end->Set();
    ended->Wait();  // Not cancelled.

    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    EXPECT_EQ(AwaitInFiber(CoGet(std::move(future)), 1ms), std::nullopt);
    EXPECT_FALSE(future.Valid());
    EXPECT_TRUE(promise.SetValue(2));

    FiberTask more([] { return 3; });
    EXPECT_EQ(AwaitInFiber(std::move(more), 1h), 3);
    EXPECT_EQ(AwaitInFiber(Async([] { return 4; }), 1h), 4);
  });
}

TEST_P(CoroutineResultsTest, AWaitMayBeLateAndLeavesTheResult) {
  InFiberAndInThread([] {
    FiberEvent may_end;
    FiberTask task([&] {
      may_end.Wait();
      return 1;
    });
    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    const auto await = [&]() -> CoTask<int> {
      EXPECT_FALSE(co_await CoWait(task, 1ms));
      EXPECT_FALSE(co_await CoWait(future, 1ms));
      may_end.Set();
      EXPECT_TRUE(co_await CoWait(task, 1h));
      EXPECT_TRUE(co_await CoWait(task, 0s));
      EXPECT_TRUE(promise.SetValue(2));
      EXPECT_TRUE(co_await CoWait(future));
      int sum = co_await task;
      sum += co_await future;
      co_return sum;
    };
    EXPECT_EQ(AwaitInFiber(await()), 3);
    Future<int> failed = MakeExceptionFuture<int>(std::domain_error("no"));
    EXPECT_TRUE(AwaitInFiber(CoWait(failed)));
    EXPECT_TRUE(failed.IsFailed());
  });
}

TEST_P(CoroutineResultsTest, ResumeByHandsTheCoroutineOn) {
  FiberChannel<std::coroutine_handle<>> ready(10);
  std::thread loop([&] {
    for (const auto coroutine : ready) coroutine.resume();
  });
  const std::thread::id loop_id = loop.get_id();
  const auto there = [&](std::coroutine_handle<> coroutine) { EXPECT_EQ(ready.Put(coroutine), ChannelResult::kOk); };
  FiberEvent may_end;
  FiberTask task([&] {
    may_end.Wait();
    return 1;
  });
  Promise<int> promise;
  AwaitedBefore([&] { may_end.Set(); },
                [&]() -> CoTask<> {
                  EXPECT_EQ(co_await CoGet(task).ResumeBy(there), 1);
                  EXPECT_EQ(std::this_thread::get_id(), loop_id);
                });
  AwaitedBefore([&] { EXPECT_TRUE(promise.SetValue(2)); },
                [&]() -> CoTask<> {
                  EXPECT_EQ(co_await CoGet(promise.GetFuture()).ResumeBy(there), 2);
                  EXPECT_EQ(std::this_thread::get_id(), loop_id);
                });
  ready.Close();
  loop.join();
}

TEST_P(CoroutineResultsTest, TheCoroutineKeepsItsExecutionContext) {
  static const FiberExecutionLocal<int> number;
  Promise<> promise;
  FiberEvent ended;
  FiberExecutionContext::Create()->Execute([&] {
    *number = 7;
    Begin(
        [&]() -> CoTask<> {
          co_await promise.GetFuture();
          EXPECT_EQ(*number, 7);
        },
        &ended);
  });
  EXPECT_TRUE(promise.SetValue());
  ended.Wait();
}

TEST_P(CoroutineResultsTest, ARefusedFiberLeavesWhatWasAwaited) {
  InThread([] {
    FiberEvent may_end;
    FiberTask task([&] {
      may_end.Wait();
      return 1;
    });
    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    FiberTask ended([] {});
    ended.Wait();
    {
      RefuseFiberStarts refuse;
      AwaitInFiber(ended);  // What need not wait needs no fiber.
      EXPECT_TRUE(AwaitInFiber(Throws<std::domain_error>(MakeExceptionFuture<int>(std::domain_error("no")))));
      EXPECT_TRUE(AwaitInFiber(Throws<FiberNotStarted>(task)));
      EXPECT_TRUE(AwaitInFiber(Throws<FiberNotStarted>(future)));
    }
    may_end.Set();
    EXPECT_EQ(task.Get(), 1);
    EXPECT_TRUE(promise.SetValue(2));
    EXPECT_EQ(future.Get(), 2);
  });
}

TEST_P(CoroutineResultsTest, ManyCoroutinesAwaitManyResults) {
  constexpr int kCount = 100;
  InFiberAndInThread([] {
    FiberEvent may_end;
    FiberTask shared([&] { may_end.Wait(); });
    FiberLatch ended(kCount);
    std::atomic<int> sum{0};
    std::vector<Promise<int>> promises(kCount);
    const auto await = [&](int i) -> Begun {
      FiberTask task([&may_end, i] {
        may_end.Wait();
        return i;
      });
      int got = co_await task;
      EXPECT_TRUE(co_await CoWait(shared));  // All of them.
      got += co_await promises[static_cast<std::size_t>(i)].GetFuture();
      got += co_await Async([] { return 1; });
      sum += got;
      ended.CountDown();
    };
    for (int i = 0; i < kCount; ++i) await(i);
    EXPECT_FALSE(shared.IsReady()) << "none has held up the caller";
    may_end.Set();
    for (int i = 0; i < kCount; ++i) EXPECT_TRUE(promises[static_cast<std::size_t>(i)].SetValue(int{i}));
    ended.Wait();
    EXPECT_EQ(sum, kCount * (kCount - 1) + kCount);
  });
}

TEST(CoroutineResultsDeathTest, AnEmptyHandleEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(AwaitInFiber(Future<int>()), "co_await: the Future is empty");
  EXPECT_DEATH(AwaitInFiber(FiberTask<int>()), "there is no task");
}

}  // namespace
}  // namespace weft::interop
