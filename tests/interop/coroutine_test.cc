// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/coroutine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/testing.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class CoroutineTest : public fiber::InEachShape {
 protected:
  // Once in a fiber, once in a plain thread.
  template <class F>
  static void InFiberAndInThread(F&& f) {
    InFiber([&] { f(); });
    InThread([&] { f(); });
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, CoroutineTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}),
                         &fiber::NameOf);

CoTask<int> Number(int number) { co_return number; }
CoTask<> Throw(const char* what) {
  throw std::domain_error(what);
  co_return;
}

TEST_P(CoroutineTest, AFiberGetsTheResultOfACoroutine) {
  InFiberAndInThread([] {
    EXPECT_EQ(AwaitInFiber(Number(1)), 1);
    EXPECT_EQ(*AwaitInFiber([]() -> CoTask<std::unique_ptr<int>> { co_return std::make_unique<int>(2); }()), 2);
    int referred = 3;
    int& got = AwaitInFiber([](int& of) -> CoTask<int&> { co_return of; }(referred));
    EXPECT_EQ(&got, &referred);
    AwaitInFiber([]() -> CoTask<> { co_return; }());
    EXPECT_THROW(AwaitInFiber(Throw("no")), std::domain_error);
    CoTask<int> kept = Number(4);
    kept = Number(5);
    EXPECT_EQ(AwaitInFiber(std::move(kept)), 5);
  });
}

TEST_P(CoroutineTest, ATaskRunsWhenItIsAwaitedAndNotBefore) {
  InFiberAndInThread([] {
    int runs = 0;
    const auto run = [](int* runs) -> CoTask<> {
      ++*runs;
      co_return;
    };
    { auto dropped = run(&runs); }
    auto kept = run(&runs);
    EXPECT_EQ(runs, 0);
    AwaitInFiber(std::move(kept));
    EXPECT_EQ(runs, 1);
  });
}

TEST_P(CoroutineTest, TasksAwaitTasksAndExceptionsTravel) {
  InFiberAndInThread([] {
    const auto outer = []() -> CoTask<std::string> {
      int sum = co_await Number(1);
      sum += co_await Number(2);
      std::string caught;
      try {
        co_await Throw("inner");
      } catch (const std::domain_error& thrown) {
        caught = thrown.what();
      }
      co_return caught + std::to_string(sum);
    };
    EXPECT_EQ(AwaitInFiber(outer()), "inner3");
  });
}

// Each task ends within its start, or in another fiber: a loop of them needs no stack.
TEST_P(CoroutineTest, ALoopOfAwaitsNeedsNoStack) {
  const auto loop = []() -> CoTask<long> {
    long sum = 0;
    for (int i = 0; i < 100'000; ++i) sum += co_await Number(i);
    for (int i = 0; i < 1000; ++i) sum += co_await interop::InFiber([i] { return i; });
    co_return sum;
  };
  InFiber([&] { EXPECT_EQ(AwaitInFiber(loop()), 4'999'950'000L + 499'500L); });
}

TEST_P(CoroutineTest, ACoroutineAwaitsACallInAFiber) {
  const auto await = []() -> CoTask<int> {
    const std::uint64_t id = co_await interop::InFiber([] { return GetFiberId(); });
    EXPECT_NE(id, 0u);
    EXPECT_EQ(GetFiberId(), id) << "it is resumed where the call was";
    EXPECT_EQ(*co_await interop::InFiber([] { return std::make_unique<int>(3); }), 3);
    bool caught = false;
    try {
      co_await interop::InFiber([] { throw std::domain_error("f's"); });
    } catch (const std::domain_error&) {
      caught = true;
    }
    EXPECT_TRUE(caught);
    int referred = 0;
    int& got = co_await interop::InFiber([&]() -> int& { return referred; });
    EXPECT_EQ(&got, &referred);
    co_return 4;
  };
  InFiberAndInThread([&] { EXPECT_EQ(AwaitInFiber(await()), 4); });
}

TEST_P(CoroutineTest, TheCallInheritsTheExecutionContext) {
  static const FiberExecutionLocal<int> number;
  FiberExecutionContext::Create()->Execute([&] {
    *number = 7;
    AwaitInFiber([]() -> CoTask<> {
      EXPECT_EQ(co_await interop::InFiber([] { return *number; }), 7);
      EXPECT_EQ(*number, 7);
    }());
  });
}

TEST_P(CoroutineTest, ACoroutineAwaitsAnEvent) {
  InFiberAndInThread([] {
    FiberEvent first;
    FiberEvent second;
    const auto await = [&]() -> CoTask<std::string> {
      co_await first;
      co_await first;  // It is still set.
      second.Set();
      FiberEvent never;
      const bool set = co_await CoWait(never, 2ms);
      const bool set_now = co_await CoWait(first, 0s);
      const bool no_deadline = co_await CoWait(first);
      co_return std::to_string(set) + std::to_string(set_now) + std::to_string(no_deadline);
    };
    Fiber setter([&] { first.Set(); });
    EXPECT_EQ(AwaitInFiber(await()), "011");
    EXPECT_TRUE(second.IsSet());
    setter.Join();
    AwaitInFiber(first);
  });
}

// Several coroutines on one thread or fiber: one that awaits holds up none of the others.
TEST_P(CoroutineTest, AnAwaitThatWaitsReturnsToItsCaller) {
  InFiberAndInThread([] {
    FiberEvent event;
    FiberEvent waited;
    bool late = false;
    const auto await = [](FiberEvent& of, FiberEvent& then) -> CoTask<bool> {
      co_await of;
      then.Set();
      co_return true;
    };
    late = !AwaitInFiber(await(event, waited), 0s).has_value();
    EXPECT_TRUE(late);
    event.Set();  // It was the caller that went on.
    waited.Wait();
  });
}

TEST_P(CoroutineTest, ACoroutineGetsFromAChannel) {
  InFiberAndInThread([] {
    FiberChannel<int> channel(2);
    const auto sum = [](FiberChannel<int>& numbers) -> CoTask<int> {
      int sum = 0;
      while (auto item = co_await CoGet(numbers)) sum += *item;
      co_return sum;
    };
    Fiber producer([&] {
      for (int i = 1; i <= 100; ++i) EXPECT_EQ(channel.Put(i), ChannelResult::kOk);
      channel.Close();
    });
    EXPECT_EQ(AwaitInFiber(sum(channel)), 5050);
    producer.Join();
    EXPECT_EQ(AwaitInFiber(CoGet(channel)).result(), ChannelResult::kClosed);
    FiberChannel<std::unique_ptr<int>> empty(1);
    EXPECT_EQ(AwaitInFiber(CoGet(empty, 1ms)).result(), ChannelResult::kTimedOut);
  });
}

TEST_P(CoroutineTest, ResumeByHandsTheCoroutineOn) {
  FiberChannel<std::coroutine_handle<>> ready(10);
  std::thread loop([&] {
    for (const auto coroutine : ready) coroutine.resume();
  });
  const auto here = [&](std::coroutine_handle<> coroutine) { EXPECT_EQ(ready.Put(coroutine), ChannelResult::kOk); };
  const std::thread::id loop_id = loop.get_id();
  const auto await = [&]() -> CoTask<int> {
    int sum = co_await interop::InFiber([] { return 1; }).ResumeBy(here);
    EXPECT_EQ(std::this_thread::get_id(), loop_id);
    EXPECT_FALSE(IsRunningInFiberWorker());
    FiberEvent never;
    EXPECT_FALSE(co_await CoWait(never, 1ms).ResumeBy(here));
    EXPECT_EQ(std::this_thread::get_id(), loop_id);
    co_return sum;
  };
  InFiberAndInThread([&] { EXPECT_EQ(AwaitInFiber(await()), 1); });
  ready.Close();
  loop.join();
}

TEST_P(CoroutineTest, AnAwaitWithADeadlineMayBeLate) {
  InFiberAndInThread([] {
    EXPECT_EQ(AwaitInFiber(Number(1), 30s), 1);
    EXPECT_THROW(static_cast<void>(AwaitInFiber(Throw("x"), 30s)), std::domain_error);
    static int referred;
    EXPECT_EQ(AwaitInFiber([]() -> CoTask<int&> { co_return referred; }(), 30s), &referred);
    EXPECT_TRUE(AwaitInFiber(interop::InFiber([] {}), 30s));

    auto event = std::make_shared<FiberEvent>();
    auto left = std::make_shared<FiberEvent>();
    const auto wait = [](std::shared_ptr<FiberEvent> event, std::shared_ptr<FiberEvent> left) -> CoTask<> {
      co_await *event;
      left->Set();
    };
    const auto begin = Steady::now();
    EXPECT_FALSE(AwaitInFiber(wait(event, left), 2ms));
    EXPECT_GE(Steady::now() - begin, 2ms);
    event->Set();
    left->Wait();  // It has gone on.
  });
}

TEST_P(CoroutineTest, ACancellationEndsTheAwaitWithADeadlineAlone) {
  const auto wait = [](std::shared_ptr<FiberEvent> event, std::shared_ptr<FiberEvent> left) -> CoTask<> {
    co_await *event;
    left->Set();
  };
  for (const Deadline deadline : {Deadline::None(), Deadline(1h)}) {
    auto event = std::make_shared<FiberEvent>();
    auto left = std::make_shared<FiberEvent>();
    std::atomic<bool> cancelled{false};
    Fiber waiter([&] {
      try {
        EXPECT_FALSE(AwaitInFiber(wait(event, left), deadline));
      } catch (const FiberCancelled&) {
        cancelled = true;
        throw;
      }
    });
    EXPECT_TRUE(waiter.Cancel());
    waiter.Join();
    EXPECT_TRUE(cancelled);
    event->Set();
    left->Wait();  // It has gone on.
  }
}

TEST_P(CoroutineTest, ACancelledFiberStaysInAnAwaitWithoutADeadline) {
  InFiber([] {
    const auto wait = [](FiberEvent& event, bool& completed) -> CoTask<> {
      co_await event;
      completed = true;
    };
    FiberEvent event;
    bool completed = false;
    CancelScope scope;
    Fiber setter([&] {
      scope.Cancel();
      event.Set();
    });
    EXPECT_FALSE(scope.Run([&] {
      AwaitInFiber(wait(event, completed));
      EXPECT_TRUE(completed);
      FiberEvent().Wait();
    }));
    EXPECT_TRUE(completed);
    setter.Join();
  });
}

TEST_P(CoroutineTest, ARefusedFiberIsAnException) {
  const auto await = []() -> CoTask<StartRefusal> {
    try {
      co_await interop::InFiber([] { ADD_FAILURE() << "it was refused"; });
    } catch (const FiberNotStarted& refused) {
      EXPECT_EQ(refused.Name(), "co_await");
      co_return refused.Why();
    }
    co_return StartRefusal::kNone;
  };
  InThread([&] {
    RefuseFiberStarts refuse;
    EXPECT_EQ(AwaitInFiber(await()), StartRefusal::kNoRuntime);
  });
}

// As a library of others has it: an awaiter that a thread resumes.
struct OnAThread {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) {
    std::thread([coroutine] { coroutine.resume(); }).detach();
  }
  std::string await_resume() const { return "from a thread"; }
};
struct WithMember {
  OnAThread operator co_await() && { return {}; }
};
struct WithFunction {};
OnAThread operator co_await(const WithFunction&) { return {}; }

TEST_P(CoroutineTest, AnyAwaitableIsWaitedFor) {
  InFiberAndInThread([] {
    EXPECT_EQ(AwaitInFiber(OnAThread()), "from a thread");
    OnAThread kept;
    EXPECT_EQ(AwaitInFiber(kept), "from a thread");
    EXPECT_EQ(AwaitInFiber(WithMember()), "from a thread");
    EXPECT_EQ(AwaitInFiber(WithFunction()), "from a thread");
    EXPECT_EQ(AwaitInFiber(WithFunction(), 30s), "from a thread");
    AwaitInFiber(std::suspend_never());
  });
}

TEST_P(CoroutineTest, ManyCoroutinesCrossFibers) {
  constexpr int kFibers = 40;
  constexpr int kRounds = 20;
  FiberLatch all_done(kFibers);
  std::atomic<int> sum{0};
  const auto body = [](FiberChannel<int>& channel, FiberEvent& begin) -> CoTask<int> {
    co_await begin;
    int sum = 0;
    for (int k = 0; k < kRounds; ++k) {
      co_await interop::InFiber([&] { EXPECT_EQ(channel.Put(1), ChannelResult::kOk); });
      sum += *co_await CoGet(channel);
    }
    co_return sum;
  };
  FiberEvent begin;
  FiberChannel<int> shared(4);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      sum += AwaitInFiber(body(shared, begin));
      all_done.CountDown();
    }));
  }
  begin.Set();
  all_done.Wait();
  EXPECT_EQ(sum, kFibers * kRounds);
}

TEST(CoroutineDeathTest, ATaskIsAwaitedOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        CoTask<int> task = Number(1);
        EXPECT_EQ(AwaitInFiber(std::move(task)), 1);
        AwaitInFiber(std::move(task));
      },
      "CoTask: awaited twice, or moved from");
}

// A coroutine that may be destroyed.
struct Owned {
  struct promise_type {
    Owned get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<> coroutine;
};

TEST(CoroutineDeathTest, ACoroutineIsNotDestroyedUnderItsFiber) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        fiber::RuntimeOf runtime(fiber::Shape{1, 1});
        FiberEvent never;
        [](FiberEvent& event) -> Owned { co_await event; }(never).coroutine.destroy();
      },
      "a coroutine was destroyed while its fiber runs");
}

}  // namespace
}  // namespace weft::interop
