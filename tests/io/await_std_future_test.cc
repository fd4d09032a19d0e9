// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/await_std_future.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "weft/fiber/fiber.h"
#include "weft/sync/cancel_scope.h"

#include "io/blocking_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using io::Gate;
using io::YieldUntil;

class AwaitStdFutureTest : public io::BlockingTest {};
WEFT_INSTANTIATE_BLOCKING(AwaitStdFutureTest);

// With one worker it would wait for ever if it blocked the thread.
TEST_P(AwaitStdFutureTest, TheFiberParksAndItsWorkerGoesOn) {
  InFiber([] {
    std::promise<std::string> promise;
    std::future<std::string> future = promise.get_future();
    Fiber setter([&] { promise.set_value("set by a fiber"); });
    EXPECT_EQ(Await(future), "set by a fiber");
    EXPECT_FALSE(future.valid());
    setter.Join();
  });
}

TEST_P(AwaitStdFutureTest, ReturnsAndThrowsWhatGetDoes) {
  const auto check = [] {
    std::promise<void> nothing;
    auto of_nothing = nothing.get_future();
    nothing.set_value();
    fiber::Await(of_nothing);  // The last version's name.

    int local = 1;
    std::promise<int&> reference;
    auto of_reference = reference.get_future();
    reference.set_value(local);
    EXPECT_EQ(&Await(of_reference), &local);

    auto failed = std::async(std::launch::async, []() -> int { throw std::out_of_range("far"); });
    EXPECT_THROW(Await(failed), std::out_of_range);

    auto deferred = std::async(std::launch::deferred, [] { return std::this_thread::get_id(); });
    EXPECT_EQ(Await(deferred, 0s), std::this_thread::get_id());

    std::shared_future<int> shared = std::async(std::launch::async, [] { return 6; });
    EXPECT_EQ(Await(shared), 6);
    EXPECT_EQ(Await(shared, 0s), 6);
  };
  check();
  InFiber(check);
}

TEST_P(AwaitStdFutureTest, GivesUpAtTheDeadlineAndLeavesTheFuture) {
  const auto check = [] {
    std::promise<int> promise;
    auto future = promise.get_future();
    EXPECT_EQ(Await(future, 0s), std::nullopt);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Await(future, 2ms), std::nullopt);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    ASSERT_TRUE(future.valid());
    promise.set_value(7);
    EXPECT_EQ(Await(future, 100s), 7);

    std::promise<void> nothing;
    auto of_nothing = nothing.get_future();
    EXPECT_FALSE(Await(of_nothing, 1ms));
    nothing.set_value();
    EXPECT_TRUE(Await(of_nothing, Deadline::None()));

    int local = 1;
    std::promise<int&> reference;
    auto of_reference = reference.get_future();
    reference.set_value(local);
    const std::optional<std::reference_wrapper<int>> found = Await(of_reference, 1s);
    ASSERT_TRUE(found);
    EXPECT_EQ(&found->get(), &local);
  };
  check();
  InFiber(check);
}

// --- Cancellation ---

TEST_P(AwaitStdFutureTest, ACancellationEndsTheWaitAndLeavesTheFuture) {
  for (const bool limited : {false, true}) {
    std::promise<int> promise;
    auto future = promise.get_future();
    std::atomic<bool> cancelled{false};
    Fiber waiter([&] {
      try {
        static_cast<void>(limited ? Await(future, 1h).value_or(0) : Await(future));
      } catch (const FiberCancelled&) {
        cancelled = true;
        throw;
      }
    });
    YieldUntil([] { return GetFiberBlockingCounts().running > 0; });
    EXPECT_TRUE(waiter.Cancel());
    waiter.Join();
    EXPECT_TRUE(cancelled);
    YieldUntil([] { return GetFiberBlockingCounts().running == 0; });
    ASSERT_TRUE(future.valid());
    promise.set_value(8);
    InFiber([&] { EXPECT_EQ(Await(future), 8); });
    EXPECT_FALSE(future.valid());
  }
}

TEST_P(AwaitStdFutureTest, AWaitInACancelledScopeThrowsAndAReadyFutureDoesNot) {
  InFiber([] {
    std::promise<int> promise;
    const std::shared_future<int> future = promise.get_future().share();
    CancelScope scope;
    scope.Cancel();
    EXPECT_FALSE(scope.Run([&] { static_cast<void>(Await(future)); }));
    EXPECT_FALSE(scope.Run([&] { static_cast<void>(Await(future, 1h)); }));
    CancelScope brief(1ms);
    EXPECT_FALSE(brief.Run([&] { static_cast<void>(Await(future)); }));
    EXPECT_TRUE(brief.DeadlineHasPassed());
    promise.set_value(9);
    EXPECT_TRUE(scope.Run([&] { EXPECT_EQ(Await(future), 9); }));
  });
}

// As a future, but it knows who is in it. It is ready in the end, for a thread that does not see its recall.
struct CountingFuture {
  static constexpr int kMostWaits = 1000;

  std::future_status wait_for(std::chrono::nanoseconds time) const {
    if (time == 0s) return std::future_status::timeout;  // The caller looks.
    ++inside;
    while (!cancelled) std::this_thread::yield();
    // Time for a caller that does not wait for us.
    for (const auto end = std::chrono::steady_clock::now() + 5ms; std::chrono::steady_clock::now() < end;) {
      std::this_thread::yield();
    }
    --inside;
    return ++waits == kMostWaits ? std::future_status::ready : std::future_status::timeout;
  }

  void wait() const { ADD_FAILURE() << "its caller may be cancelled"; }

  mutable std::atomic<int> inside{0};
  mutable std::atomic<int> waits{0};
  std::atomic<bool> cancelled{false};
};

TEST_P(AwaitStdFutureTest, ACancelledCallerReturnsWhenNobodyElseIsInItsFuture) {
  CountingFuture future;
  std::atomic<bool> thrown{false};
  Fiber waiter([&] {
    try {
      static_cast<void>(io::detail::AwaitReady(future, Deadline::None()));
    } catch (const FiberCancelled&) {
      EXPECT_EQ(future.inside, 0);
      thrown = true;
      throw;
    }
  });
  YieldUntil([&] { return future.inside == 1; });
  EXPECT_TRUE(waiter.Cancel());
  future.cancelled = true;
  waiter.Join();
  EXPECT_TRUE(thrown);
  EXPECT_LT(future.waits, CountingFuture::kMostWaits) << "the thread has seen that it was recalled";
  YieldUntil([] { return GetFiberBlockingCounts().running == 0; });
  EXPECT_EQ(future.inside, 0);
}

TEST(AwaitStdFuture, AFutureThatWasRecalledIsNotTouched) {
  io::detail::FutureLoan recalled;
  recalled.Recall();  // Nobody is in it: there is nothing to wait for.
  EXPECT_FALSE(recalled.Begin());

  io::detail::FutureLoan lent;
  EXPECT_TRUE(lent.Begin());
  EXPECT_FALSE(lent.IsRecalled());
  lent.End();
  lent.Recall();
  EXPECT_TRUE(lent.IsRecalled());
}

// Its call waits for a thread and never begins.
TEST(AwaitStdFuture, ACancellationEndsAWaitThatHasNoThreadYet) {
  RuntimeOptions options = fiber::OptionsOf({2, 1});
  options.blocking_threads = 1;
  const fiber::RuntimeOf runtime(options);
  Gate gate;
  Fiber blocker([&] { FiberBlocking([&] { gate.Pass(); }); });
  YieldUntil([&] { return gate.arrived() == 1; });
  {
    std::promise<int> promise;
    auto future = promise.get_future();
    Fiber waiter([&] { static_cast<void>(Await(future)); });
    YieldUntil([] { return GetFiberBlockingCounts().queued == 1; });
    EXPECT_TRUE(waiter.Cancel());
    waiter.Join();
    EXPECT_EQ(GetFiberBlockingCounts().queued, 0U);
    EXPECT_TRUE(future.valid());
  }
  gate.Open();
  blocker.Join();
}

}  // namespace
}  // namespace weft
