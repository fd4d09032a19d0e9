// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/await_std_future.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "weft/fiber/fiber.h"

#include "io/blocking_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

class AwaitStdFutureTest : public io::BlockingTest {};
WEFT_INSTANTIATE_BLOCKING(AwaitStdFutureTest);

// With one worker it would wait for ever if it blocked the thread.
TEST_P(AwaitStdFutureTest, TheFiberParksAndItsWorkerGoesOn) {
  InFiber([] {
    std::promise<std::string> promise;
    std::future<std::string> future = promise.get_future();
    Fiber setter([&] { promise.set_value("set by a fiber"); });
    EXPECT_EQ(fiber::Await(future), "set by a fiber");
    EXPECT_FALSE(future.valid());
    setter.Join();
  });
}

TEST_P(AwaitStdFutureTest, ReturnsAndThrowsWhatGetDoes) {
  const auto check = [] {
    std::promise<void> nothing;
    auto of_nothing = nothing.get_future();
    nothing.set_value();
    fiber::Await(of_nothing);

    int local = 1;
    std::promise<int&> reference;
    auto of_reference = reference.get_future();
    reference.set_value(local);
    EXPECT_EQ(&fiber::Await(of_reference), &local);

    auto failed = std::async(std::launch::async, []() -> int { throw std::out_of_range("far"); });
    EXPECT_THROW(fiber::Await(failed), std::out_of_range);

    auto deferred = std::async(std::launch::deferred, [] { return std::this_thread::get_id(); });
    EXPECT_EQ(fiber::Await(deferred, 0s), std::this_thread::get_id());

    std::shared_future<int> shared = std::async(std::launch::async, [] { return 6; });
    EXPECT_EQ(fiber::Await(shared), 6);
    EXPECT_EQ(fiber::Await(shared, 0s), 6);
  };
  check();
  InFiber(check);
}

TEST_P(AwaitStdFutureTest, GivesUpAtTheDeadlineAndLeavesTheFuture) {
  const auto check = [] {
    std::promise<int> promise;
    auto future = promise.get_future();
    EXPECT_EQ(fiber::Await(future, 0s), std::nullopt);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(fiber::Await(future, 2ms), std::nullopt);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    ASSERT_TRUE(future.valid());
    promise.set_value(7);
    EXPECT_EQ(fiber::Await(future, 100s), 7);

    std::promise<void> nothing;
    auto of_nothing = nothing.get_future();
    EXPECT_FALSE(fiber::Await(of_nothing, 1ms));
    nothing.set_value();
    EXPECT_TRUE(fiber::Await(of_nothing, Deadline::None()));

    int local = 1;
    std::promise<int&> reference;
    auto of_reference = reference.get_future();
    reference.set_value(local);
    const std::optional<std::reference_wrapper<int>> found = fiber::Await(of_reference, 1s);
    ASSERT_TRUE(found);
    EXPECT_EQ(&found->get(), &local);
  };
  check();
  InFiber(check);
}

}  // namespace
}  // namespace weft
