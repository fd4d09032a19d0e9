// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/fiber_blocking.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "weft/base/thread/cpu.h"
#include "weft/context/switch_safe_errno.h"  // The last one.
#include "weft/fiber/execution_context.h"
#include "weft/fiber/runtime/blocking_limits.h"
#include "weft/sync/cancel_scope.h"

#include "io/blocking_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using fiber::ThreadNumber;
using io::BlockingTest;
using io::Gate;
using io::YieldUntil;

class FiberBlockingTest : public BlockingTest {};
WEFT_INSTANTIATE_BLOCKING(FiberBlockingTest);

// --- Results ---

struct NoDefault {
  explicit NoDefault(int v) : value(v) {}
  int value;
};

TEST_P(FiberBlockingTest, ReturnsWhatTheCallReturns) {
  InFiber([] {
    int local = 1;
    EXPECT_EQ(FiberBlocking([&] { return local + 1; }), 2);
    FiberBlocking([&] { local = 3; });
    EXPECT_EQ(local, 3);
    EXPECT_EQ(*FiberBlocking([] { return std::make_unique<int>(4); }), 4);
    EXPECT_EQ(FiberBlocking([] { return NoDefault(5); }).value, 5);
    EXPECT_EQ(FiberBlocking([]() -> const std::string { return "six"; }), "six");

    int& reference = FiberBlocking([&]() -> int& { return local; });
    EXPECT_EQ(&reference, &local);
    std::string text = "moved";
    const std::string taken = FiberBlocking([&]() -> std::string&& { return std::move(text); });
    EXPECT_EQ(taken, "moved");

    const auto once = [owned = std::make_unique<int>(7)]() mutable { return std::move(owned); };
    EXPECT_EQ(*FiberBlocking(std::move(const_cast<std::remove_const_t<decltype(once)>&>(once))), 7);
    int (*function)() = [] { return 8; };
    EXPECT_EQ(FiberBlocking(function), 8);
  });
}

// Whether the call has a deadline and whether the caller is a fiber makes no difference.
TEST_P(FiberBlockingTest, TheCallableIsTakenByValueAndLentByARef) {
  const auto check = [] {
    int calls = 0;
    const auto count = [calls = 0]() mutable { return ++calls; };
    EXPECT_EQ(FiberBlocking(count), 1);
    EXPECT_EQ(FiberBlocking(count, 1h), 1);
    auto counter = [&calls, mine = 0]() mutable {
      ++calls;
      return ++mine;
    };
    EXPECT_EQ(FiberBlocking(counter), 1);
    EXPECT_EQ(FiberBlocking(counter), 1) << "that was another copy";
    EXPECT_EQ(FiberBlocking(counter, 1h), 1);
    EXPECT_EQ(FiberBlocking(std::ref(counter)), 1);
    EXPECT_EQ(FiberBlocking(std::ref(counter), 1h), 2);
    EXPECT_EQ(counter(), 3);
    EXPECT_EQ(calls, 6);

    auto item = std::make_shared<int>(1);
    auto holds = [item] { return item.use_count(); };
    EXPECT_EQ(FiberBlocking(holds), 3);
    EXPECT_EQ(FiberBlocking(holds, 1h), 3);
    EXPECT_EQ(FiberBlocking(std::move(holds)), 2);
    EXPECT_EQ(item.use_count(), 1) << "f has ended, and is gone";
  };
  InFiber(check);
  check();
}

TEST_P(FiberBlockingTest, LimitedCallsReturnWhatTheCallReturns) {
  InFiber([] {
    EXPECT_EQ(FiberBlocking([] { return 1; }, 1h), 1);
    EXPECT_TRUE(FiberBlocking([] {}, 1h));
    const auto later = std::chrono::system_clock::now() + 1h;
    EXPECT_EQ(**FiberBlocking([owned = std::make_unique<int>(2)]() mutable { return std::move(owned); }, later), 2);
    EXPECT_EQ(FiberBlocking([] { return NoDefault(3); }, std::chrono::hours::max())->value, 3);
    EXPECT_EQ(FiberBlocking([] { return 4; }, Deadline::None()), 4);
  });
}

TEST_P(FiberBlockingTest, ExceptionsArriveAtTheCaller) {
  InFiber([] {
    for (int i = 0; i < 3; ++i) {
      try {
        FiberBlocking([]() -> int { throw std::runtime_error("broken"); });
        ADD_FAILURE() << "no exception";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "broken");
      }
    }
    EXPECT_THROW(FiberBlocking([] { throw 5; }), int);
    EXPECT_THROW(static_cast<void>(FiberBlocking([]() -> int { throw std::out_of_range("far"); }, 1h)),
                 std::out_of_range);
    EXPECT_THROW(static_cast<void>(FiberBlocking([] { throw std::out_of_range("far"); }, 1h)), std::out_of_range);
  });
}

TEST_P(FiberBlockingTest, AnExceptionIsThatOfTheFiberWhichMadeTheCall) {
  InFiber([] {
    try {
      throw std::runtime_error("outer");
    } catch (const std::exception& outer) {
      EXPECT_THROW(FiberBlocking([] { throw std::runtime_error("inner"); }), std::runtime_error);
      EXPECT_STREQ(outer.what(), "outer");
    }
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  });
}

// --- Where it runs ---

TEST_P(FiberBlockingTest, TheCallRunsOutsideOfTheWorkersAndTheCallerOnOne) {
  InFiber([] {
    const pid_t mine = ThreadNumber();
    FiberBlocking([&] {
      EXPECT_NE(ThreadNumber(), mine);
      EXPECT_FALSE(IsRunningInFiberWorker());
      EXPECT_EQ(FiberBlocking([] { return ThreadNumber(); }), ThreadNumber()) << "in place: it may block here";
    });
    EXPECT_TRUE(IsRunningInFiberWorker());
  });
}

TEST_P(FiberBlockingTest, APlainThreadRunsItInPlace) {
  const pid_t mine = ThreadNumber();
  EXPECT_EQ(FiberBlocking([] { return ThreadNumber(); }), mine);
  EXPECT_THROW(FiberBlocking([] { throw 1; }), int);
  EXPECT_NE(FiberBlocking([] { return ThreadNumber(); }, 1h), mine) << "a limit takes another thread";
}

TEST_P(FiberBlockingTest, ErrnoGoesThereAndComesBack) {
  InFiber([] {
    errno = ERANGE;
    FiberBlocking([] {
      EXPECT_EQ(errno, ERANGE);
      errno = 0;
      EXPECT_EQ(::close(-1), -1);
    });
    EXPECT_EQ(errno, EBADF);
    errno = 0;
    EXPECT_TRUE(FiberBlocking([] { errno = EXDEV; }, 1h));
    EXPECT_EQ(errno, EXDEV);
    FiberBlocking([] {});
    EXPECT_EQ(errno, EXDEV) << "a call that sets none leaves it as it was";
  });
}

TEST_P(FiberBlockingTest, TheCallIsInTheExecutionContextOfItsCaller) {
  static FiberExecutionLocal<int> value;
  InFiber([] {
    const auto context = FiberExecutionContext::Create();
    context->Execute([&] {
      *value = 1;
      FiberBlocking([] { ++*value; });
      EXPECT_TRUE(FiberBlocking([] { ++*value; }, 1h));
      EXPECT_EQ(*value, 3);
    });
    FiberBlocking([] { EXPECT_EQ(FiberExecutionContext::Current(), nullptr); });
  });
}

TEST_P(FiberBlockingTest, ALimitedCallMayNeverFinish) {
  const auto gate = std::make_shared<Gate>();
  const auto calls = GetFiberBlockingCounts().calls;
  InFiber([&] {
    std::optional<int> answer;
    while (GetFiberBlockingCounts().abandoned == 0) {
      answer = FiberBlocking(
          [gate] {
            gate->Pass();
            return 1;
          },
          1ms);
    }
    EXPECT_EQ(answer, std::nullopt);
    EXPECT_EQ(GetFiberBlockingCounts().abandoned, 1U);
  });
  gate->Open();
  YieldUntil([&] { return gate.use_count() == 1 && GetFiberBlockingCounts().abandoned == 0; });
  EXPECT_GT(GetFiberBlockingCounts().calls, calls);
}

// What f has captured goes where f ends.
TEST_P(FiberBlockingTest, ACancelledCallerAbandonsItsCall) {
  for (const Deadline deadline : {Deadline::None(), Deadline(1h)}) {
    const auto gate = std::make_shared<Gate>();
    std::atomic<bool> cancelled{false};
    Fiber caller([&cancelled, deadline, gate] {
      try {
        EXPECT_FALSE(FiberBlocking([gate] { gate->Pass(); }, deadline));
      } catch (const FiberCancelled&) {
        cancelled = true;
        throw;
      }
    });
    YieldUntil([&] { return gate->arrived() == 1; });
    EXPECT_TRUE(caller.Cancel());
    caller.Join();
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(GetFiberBlockingCounts().abandoned, 1U);
    YieldUntil([&] { return gate.use_count() <= 2; });  // The caller has gone, with its function.
    EXPECT_EQ(gate.use_count(), 2) << "f runs on, and holds it";
    gate->Open();
    YieldUntil([&] { return gate.use_count() == 1 && GetFiberBlockingCounts().abandoned == 0; });
  }
}

// Also a call that has not begun; one without a deadline is waited for.
TEST_P(FiberBlockingTest, InACancelledScopeTheDeadlineDecides) {
  InFiber([] {
    CancelScope scope;
    scope.Cancel();
    bool ran = false;
    EXPECT_FALSE(scope.Run([&] {
      FiberBlocking([&] { ran = true; });
      const auto gate = std::make_shared<Gate>();
      struct Opens {
        ~Opens() { gate->Open(); }
        std::shared_ptr<Gate> gate;
      } opens{gate};
      static_cast<void>(FiberBlocking([gate] { gate->Pass(); }, Deadline::None()));
      ADD_FAILURE() << "it was not cancelled";
    }));
    EXPECT_TRUE(ran);
  });
}

// --- The runtime ends, and starts again ---

TEST_P(FiberBlockingTest, TerminateWaitsForBlockingCalls) {
  Gate gate;
  std::atomic<bool> ended{false};
  ASSERT_TRUE(StartFiberDetached([&] {
    FiberBlocking([&] { gate.Pass(); });
    ended = true;
  }));
  YieldUntil([&] { return gate.arrived() == 1; });
  std::thread opener([&] {
    while (StartFiberDetached([] {})) std::this_thread::yield();  // Until it has begun to end.
    gate.Open();
  });
  EXPECT_EQ(TerminateRuntime(), 0U);
  opener.join();
  EXPECT_TRUE(ended);
}

TEST(FiberBlockingRestart, TheNextRuntimeUsesTheSamePool) {
  for (int round = 0; round < 20; ++round) {
    const fiber::RuntimeOf runtime(fiber::Shape{round % 2 + 1, 1});
    Fiber([&] { EXPECT_EQ(FiberBlocking([&] { return round; }), round); }).Join();
  }
  EXPECT_LE(GetFiberBlockingCounts().threads, 64U);
}

TEST(FiberBlockingRestart, TheOptionsOfTheRuntimeAreThoseOfThePool) {
  io::BlockingPool* pools[2] = {};
  for (int round = 0; round < 6; ++round) {
    RuntimeOptions options = fiber::OptionsOf({1, 1});
    options.blocking_threads = round % 2 + 1;
    options.blocking_idle_timeout = 1ms;
    const fiber::RuntimeOf runtime(options);
    Gate gate;
    Fiber first([&] { FiberBlocking([&] { gate.Pass(); }); });
    YieldUntil([&] { return gate.arrived() == 1; });
    Fiber second([&] { FiberBlocking([&] { gate.Pass(); }); });
    if (round % 2 == 0) {
      YieldUntil([] { return GetFiberBlockingCounts().queued == 1; });
      EXPECT_EQ(GetFiberBlockingCounts().threads, 1U);
    } else {
      YieldUntil([&] { return gate.arrived() == 2; });
    }
    gate.Open();
    first.Join();
    second.Join();
    io::BlockingPool*& pool = pools[round % 2];
    if (pool == nullptr) pool = &io::ProcessBlockingPool();
    EXPECT_EQ(pool, &io::ProcessBlockingPool()) << "the pool of such options is used again";
    YieldUntil([] { return GetFiberBlockingCounts().threads == 0; });
  }
}

TEST(FiberBlockingOptionsDeathTest, WithoutARuntimeTheFlagsAreReadAndABadOneIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        gflags::SetCommandLineOption("fiber_blocking_threads", "2");
        const bool right = io::ProcessBlockingPool().counts().threads == 0 && fiber::GetBlockingLimits().threads == 2;
        std::_Exit(right ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_DEATH(
      {
        gflags::SetCommandLineOption("fiber_blocking_threads", "0");
        static_cast<void>(FiberBlocking([] {}, 1h));
      },
      "a blocking call: --fiber_blocking_threads=0: must be in 1..4096");
}

TEST(FiberBlockingRestart, ACallOfAnUnfinishedFiberEndsWithoutHarm) {
  Gate gate;
  {
    RuntimeOptions options = fiber::OptionsOf({1, 1});
    options.terminate_timeout = 10ms;
    StartRuntime(options);
    // By value: its stack is never unwound, and it never goes on.
    ASSERT_TRUE(StartFiberDetached([&gate] {
      FiberBlocking([&gate] { gate.Pass(); });
      ADD_FAILURE() << "an unfinished fiber went on";
    }));
    YieldUntil([&] { return gate.arrived() == 1; });
    EXPECT_EQ(TerminateRuntime(), 1U);
  }
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  gate.Open();
  YieldUntil([] { return GetFiberBlockingCounts().running == 0; });
  Fiber([] { EXPECT_EQ(FiberBlocking([] { return 1; }), 1); }).Join();
}

TEST(FiberBlockingExitDeathTest, TheProcessExitsWhileCallsBlock) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static auto* const gate = new Gate;
        StartRuntime(fiber::OptionsOf({2, 1}));
        for (int i = 0; i < 8; ++i) {
          if (!StartFiberDetached([] { FiberBlocking([] { gate->Pass(); }); })) std::abort();
        }
        YieldUntil([] { return gate->arrived() == 8; });
        std::atexit([] { gate->Open(); });  // They go on while static objects are destroyed.
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(FiberBlockingFork, AForkedChildHasAPoolOfItsOwn) {
  // ThreadSanitizer does not support threads in a child of a process with threads.
  if (WEFT_TSAN) GTEST_SKIP() << "no threads after a fork under ThreadSanitizer";
  Gate gate;
  {
    const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
    Fiber([] { FiberBlocking([] {}); }).Join();
  }
  ASSERT_GE(GetFiberBlockingCounts().calls, 1U);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool good = GetFiberBlockingCounts().calls == 0 && GetFiberBlockingCounts().threads == 0;
    good = good && FiberBlocking([] { return 1; }, 1h) == 1;
    StartRuntime(fiber::OptionsOf({1, 1}));
    Fiber([&] { good = good && FiberBlocking([] { return 2; }) == 2; }).Join();
    good = good && TerminateRuntime() == 0 && GetFiberBlockingCounts().calls == 2;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(FiberBlocking([] {}, 1h)) << "the parent's pool goes on";
}

}  // namespace
}  // namespace weft
