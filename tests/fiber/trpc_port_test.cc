// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Programs written for tRPC-Cpp, under its header names: replace "trpc/coroutine/" with "weft/fiber/" and trpc:: with
// weft::, and they work, with all warnings as errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/fiber/async.h"
#include "weft/fiber/collect.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber/runtime.h"
#include "weft/fiber/fiber_blocking_bounded_queue.h"
#include "weft/fiber/fiber_blocking_noncontiguous_buffer.h"
#include "weft/fiber/fiber_condition_variable.h"
#include "weft/fiber/fiber_event.h"
#include "weft/fiber/fiber_execution_context.h"
#include "weft/fiber/fiber_latch.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/fiber_mutex.h"
#include "weft/fiber/fiber_seqlock.h"
#include "weft/fiber/fiber_shared_mutex.h"
#include "weft/fiber/fiber_timed_mutex.h"
#include "weft/fiber/fiber_timer.h"
#include "weft/fiber/future.h"
#include "weft/fiber/future_utility.h"
#include "weft/fiber/slice_limits.h"
#include "weft/fiber/test_clock.h"
#include "weft/fiber/testing/fiber_runtime.h"
#include "weft/tests/fiber/trpc_port_without_gtest.h"

// These tests lock in ways that the analysis cannot follow.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

// Each name that namespace weft::fiber keeps: docs/from_trpc.md. (Await: tests/io/await_std_future_test.cc;
// RunAllTestsInRuntime: tests/fiber/testing_test.cc.)
namespace names_of_the_last_version {

using weft::fiber::Admission;
using weft::fiber::AdmissionCounts;
using weft::fiber::Async;
using weft::fiber::BlockingGet;
using weft::fiber::BlockingTryGet;
using weft::fiber::CollectAll;
using weft::fiber::CollectAny;
using weft::fiber::CollectN;
using weft::fiber::FiberExecutor;
using weft::fiber::ForEach;
using weft::fiber::GetAdmissionCounts;
using weft::fiber::GetConcurrencyHint;
using weft::fiber::GetCurrentSchedulingGroupIndex;
using weft::fiber::GetFiberQueueSize;
using weft::fiber::GetSchedulingCounts;
using weft::fiber::GetSchedulingGroupAssignedNode;
using weft::fiber::GetSchedulingGroupCount;
using weft::fiber::GetSchedulingGroupSize;
using weft::fiber::GroupCounts;
using weft::fiber::IsOverloaded;
using weft::fiber::IsRuntimeRunning;
using weft::fiber::Launch;
using weft::fiber::LongSlice;
using weft::fiber::NumaAware;
using weft::fiber::Options;
using weft::fiber::ParseNumaAware;
using weft::fiber::RefuseFiberStarts;
using weft::fiber::RunAsFiber;
using weft::fiber::SetSliceErrorHook;
using weft::fiber::StartRuntime;
using weft::fiber::TerminateRuntime;
using weft::fiber::TestClock;
using weft::fiber::ToString;
using weft::fiber::TryAdmit;
using weft::fiber::TryStartRuntime;
using weft::fiber::UnbindThread;
using weft::fiber::ValidateOptions;

static_assert(std::is_same_v<Options, weft::RuntimeOptions>);
static_assert(std::is_same_v<TestClock, weft::TestClock>);

}  // namespace names_of_the_last_version

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(TrpcPort, RunAsFiberIsInTheGlobalNamespaceAndNeedsNoTestFramework) {
  EXPECT_TRUE(RunInAFiberWithoutGoogleTest());
  bool in_fiber = false;
  ::RunAsFiber([&] { in_fiber = IsRunningInFiberWorker(); });
  EXPECT_TRUE(in_fiber);
  in_fiber = false;
  weft::fiber::RunAsFiber([&] { in_fiber = IsRunningInFiberWorker(); });
  EXPECT_TRUE(in_fiber);
  EXPECT_FALSE(fiber::IsRuntimeRunning());
}

// Both beside each other, with `using namespace` of both: no call is ambiguous.
TEST(TrpcPort, TheNamesOfNamespaceFiberAreThoseOfWeft) {
  using namespace weft::fiber;  // NOLINT(google-build-using-namespace): that is what it is about.
  Options options;
  options.concurrency_hint = 1;
  StartRuntime(options);
  EXPECT_EQ(GetConcurrencyHint(), 1U);
  EXPECT_EQ(TryAdmit(), Admission::kAdmitted);
  RunAsFiber([] {
    const auto [one, two] = CollectAll([] { return 1; }, [] { return 2; });
    EXPECT_EQ(one + two, BlockingGet(Async(Launch::Post, [] { return 3; })).GetValue0());
  });
  EXPECT_EQ(TerminateRuntime(), 0U);
}

// As the user guide does: ignores the result.
TEST(TrpcPort, AFiberIsStartedWithoutALookAtTheResult) {
  RunAsFiber([] {
    FiberLatch latch(5);
    StartFiberDetached([&] { latch.CountDown(); });
    Fiber::Attributes attributes;
    attributes.scheduling_group = 0;
    StartFiberDetached(attributes, [&] { latch.CountDown(); });
    StartFiberDetached({.scheduling_group_local = true, .is_fiber_reactor = true}, [&] { latch.CountDown(); });
    std::vector<std::function<void()>> batch(2, [&] { latch.CountDown(); });
    BatchStartFiberDetached(std::move(batch));
    latch.WaitFor(60s);
    EXPECT_TRUE(latch.TryWait());
    latch.WaitUntil(std::chrono::steady_clock::now());
  });
}

TEST(TrpcPort, ATimerIsSetWithoutALookAtItsId) {
  RunAsFiber([] {
    FiberLatch latch(3);
    const auto soon = std::chrono::steady_clock::now() + 1ms;
    SetFiberTimer(soon, [&](std::uint64_t id) {
      EXPECT_NE(id, 0U);
      latch.CountDown();
    });
    std::atomic<int> ticks{0};
    FiberEvent killed;
    SetFiberTimer(soon, 1ms, [&](std::uint64_t id) {
      if (++ticks == 1) return;
      KillFiberTimer(id);
      if (ticks == 2) latch.CountDown();
      killed.Set();
    });
    FiberTimerKiller killer;
    killer.Reset(SetFiberTimer(soon, [&] { latch.CountDown(); }));
    latch.Wait();
    EXPECT_TRUE(killed.Wait(60s));
  });
}

// fiber_latch.h alone brings the mutex and the condition variable: trpc_port_without_gtest.cc includes no more.
TEST(TrpcPort, TheLatchsHeaderBringsMutexAndConditionVariable) { EXPECT_EQ(CountUnderALockOfTheLatchsHeader(3), 3); }

TEST(TrpcPort, TheQueueSizeIsAskedForInNamespaceFiber) {
  RunAsFiber([] {
    EXPECT_EQ(fiber::GetFiberQueueSize(), GetFiberQueueSize());
    EXPECT_GE(fiber::GetSchedulingGroupCount(), 1U);
  });
}

TEST(TrpcPort, AFiberTakesAGenericLambdaAndAStdRef) {
  RunAsFiber([] {
    int x = 1;
    std::string text = "a";
    Fiber([](auto& value) { ++value; }, std::ref(x)).Join();
    EXPECT_EQ(x, 2);
    Fiber([](int& value) { ++value; }, std::ref(x)).Join();
    EXPECT_EQ(x, 3);
    // As std::thread: a callable that takes the wrapper gets it.
    Fiber([](auto value) { ++value.get(); }, std::ref(x)).Join();
    EXPECT_EQ(x, 4);
    Fiber(
        fiber::Launch::Dispatch, [](auto& value, auto more) { value += more; }, std::ref(text), "b")
        .Join();
    Fiber(
        Fiber::Attributes(), [](auto& value, std::unique_ptr<char> more) { value += *more; }, std::ref(text),
        std::make_unique<char>('c'))
        .Join();
    EXPECT_EQ(text, "abc");
    const std::string fixed = "fixed";
    Fiber([&text](auto& value) { text = value; }, std::cref(fixed)).Join();
    EXPECT_EQ(text, "fixed");
    EXPECT_TRUE(Fiber::TryStart(
                    {}, [](auto& value) { value = 9; }, std::ref(x))
                    ->Join(60s));
    EXPECT_EQ(x, 9);
  });
}

TEST(TrpcPort, TheContextsPointerHasGetResetAndUseCount) {
  RunAsFiber([] {
    EXPECT_EQ(FiberExecutionContext::Current(), nullptr);
    auto context = FiberExecutionContext::Create();
    EXPECT_EQ(context.UseCount(), 1U);
    context->Execute([&] {
      EXPECT_EQ(FiberExecutionContext::Current(), context.Get());
      auto captured = FiberExecutionContext::Capture();
      EXPECT_EQ(captured.Get(), context.Get());
      EXPECT_EQ(captured.UseCount(), context.UseCount());
      EXPECT_EQ(context->UseCount(), context.UseCount());
      const auto before = context.UseCount();
      captured.Reset();
      EXPECT_EQ(context.UseCount(), before - 1);
      EXPECT_EQ(captured.UseCount(), 0U);
      EXPECT_EQ(captured.Get(), nullptr);
    });
    EXPECT_EQ(context.UseCount(), 1U);
    context->Clear();
    context.Reset();
    EXPECT_FALSE(context);
  });
}

TEST(TrpcPort, AnExecutionLocalIsGivenAnObjectByUnsafeInit) {
  static FiberExecutionLocal<std::string> name;
  static FiberExecutionLocal<std::string> other;
  static int deleted;
  deleted = 0;
  RunAsFiber([] {
    auto context = FiberExecutionContext::Create();
    auto* const mine = new std::string("mine");
    context->Execute([&] {
      name.UnsafeInit(mine, [](std::string* s) {
        ++deleted;
        delete s;
      });
      EXPECT_EQ(name.Get(), mine);
      *name += "!";
      EXPECT_EQ(*other, "");
    });
    Fiber({.execution_context = context.Get()}, [&] {
      EXPECT_EQ(name.Get(), mine);
      EXPECT_EQ(*name, "mine!");
    }).Join();
    auto another = FiberExecutionContext::Create();
    another->Execute([&] { EXPECT_EQ(*name, ""); });
    EXPECT_EQ(deleted, 0);
    context->Clear();
    EXPECT_EQ(deleted, 1);
    context->Execute([&] { EXPECT_EQ(*name, "") << "made anew"; });
    context.Reset();
    EXPECT_EQ(deleted, 1);
  });
}

TEST(TrpcPortDeathTest, UnsafeInitRefusesASecondObject) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  static FiberExecutionLocal<int> number;
  auto context = FiberExecutionContext::Create();
  context->Execute([&] {
    static int first = 1;
    static int second = 2;
    number.UnsafeInit(&first, [](int*) {});
    EXPECT_DEATH(number.UnsafeInit(&second, [](int*) {}), "UnsafeInit: the context has a value already");
    EXPECT_EQ(*number, 1);
  });
  EXPECT_DEATH(number.UnsafeInit(nullptr, [](int*) {}), "UnsafeInit: called outside of FiberExecutionContext::Execute");
}

// Each timed form of the user guide, with its order of arguments.
TEST(TrpcPort, TheTimedFormsTakeTheirTimesWhereTheyAlwaysDid) {
  RunAsFiber([] {
    const auto no = [] { return false; };
    FiberMutex mutex;
    FiberConditionVariable never;
    std::unique_lock<FiberMutex> lock(mutex);
    EXPECT_EQ(never.wait_for(lock, 1ms), std::cv_status::timeout);
    EXPECT_FALSE(never.wait_for(lock, 1ms, no));
    EXPECT_EQ(never.wait_until(lock, std::chrono::steady_clock::now() + 1ms), std::cv_status::timeout);
    EXPECT_EQ(never.wait_until(lock, std::chrono::system_clock::now() + 1ms), std::cv_status::timeout);
    EXPECT_FALSE(never.wait_until(lock, std::chrono::steady_clock::now() + 1ms, no));
    never.wait(lock, [] { return true; });
    const std::function<bool()> yes = [] { return true; };
    never.wait(lock, yes);

    FiberLatch latch(1);
    EXPECT_FALSE(latch.WaitFor(1ms));
    EXPECT_FALSE(latch.WaitUntil(std::chrono::steady_clock::now() + 1ms));
    EXPECT_FALSE(latch.WaitUntil(std::chrono::system_clock::now() + 1ms));

    FiberBlockingBoundedQueue<int> queue(0);
    int item = 0;
    EXPECT_FALSE(queue.Push(1, 1ms));
    EXPECT_FALSE(queue.Push(1, std::chrono::steady_clock::now() + 1ms));
    EXPECT_FALSE(queue.Pop(item, 1ms));
    EXPECT_FALSE(queue.Pop(item, std::chrono::steady_clock::now() + 1ms));

    FiberLatch fired(4);
    const auto soon = std::chrono::steady_clock::now() + 1ms;
    SetFiberDetachedTimer(soon, [&] { fired.CountDown(); });
    SetFiberDetachedTimer(soon, 1h, [&](std::uint64_t id) {
      KillFiberTimer(id);
      fired.CountDown();
    });
    EnableFiberTimer(CreateFiberTimer(soon, [&] { fired.CountDown(); }));
    EnableFiberTimer(CreateFiberTimer(soon, 1h, [&](std::uint64_t id) {
      KillFiberTimer(id);
      fired.CountDown();
    }));
    fired.Wait();

    FiberSleepFor(1ms);
    FiberSleepUntil(std::chrono::steady_clock::now() + 1ms);
    FiberSleepUntil(std::chrono::system_clock::now() + 1ms);
  });
}

// FiberTimedMutex has no owner. (Debug builds used to abort.)
TEST(TrpcPort, TheHolderOfATimedMutexTriesInVain) {
  RunAsFiber([] {
    FiberTimedMutex mutex;
    mutex.lock();
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_for(1ms));
    EXPECT_FALSE(mutex.try_lock_until(std::chrono::steady_clock::now() + 1ms));
    mutex.unlock();
    EXPECT_TRUE(mutex.try_lock_for(1ms));
    mutex.unlock();
  });
}

TEST(TrpcPort, ATimedMutexIsUnlockedByAnotherFiber) {
  RunAsFiber([] {
    FiberTimedMutex mutex;
    mutex.lock();
    Fiber([&] { mutex.unlock(); }).Join();
    // A fiber that waits for itself is let in by another.
    mutex.lock();
    FiberEvent about_to_wait;
    Fiber other([&] {
      about_to_wait.Wait();
      mutex.unlock();
    });
    about_to_wait.Set();
    EXPECT_TRUE(mutex.try_lock_for(60s));
    other.Join();
    // Many waiters, each unlocked by the next one's fiber.
    std::atomic<int> entered{0};
    std::vector<Fiber> fibers;
    for (int i = 0; i < 20; ++i) {
      fibers.emplace_back([&] {
        if (!mutex.try_lock_for(60s)) return;
        ++entered;
        Fiber([&] { mutex.unlock(); }).Join();
      });
    }
    mutex.unlock();
    for (Fiber& fiber : fibers) fiber.Join();
    EXPECT_EQ(entered, 20);
  });
}

TEST(TrpcPort, ATimedMutexIsDestroyedWhileLocked) {
  RunAsFiber([] {
    auto mutex = std::make_unique<FiberTimedMutex>();
    mutex->lock();
    mutex.reset();
    FiberTimedMutex another;
    EXPECT_TRUE(another.try_lock());
  });
}

TEST(TrpcPort, ABoundedQueueOfCapacityZeroIsAClosedGate) {
  RunAsFiber([] {
    FiberBlockingBoundedQueue<int> queue{0};
    EXPECT_EQ(queue.Capacity(), 0U);
    EXPECT_FALSE(queue.TryPush(1));
    EXPECT_FALSE(queue.Push(1, 1ms));
    FiberEvent pushed;
    Fiber producer([&] {
      queue.Push(7);
      pushed.Set();
    });
    EXPECT_FALSE(pushed.Wait(2ms));
    int out = 0;
    EXPECT_FALSE(queue.TryPop(out));
    EXPECT_FALSE(queue.Pop(out, 1ms));
    queue.SetCapacity(2);
    EXPECT_EQ(queue.Capacity(), 2U);
    queue.Pop(out);
    EXPECT_EQ(out, 7);
    producer.Join();
    EXPECT_TRUE(queue.TryPush(1));
    EXPECT_EQ(queue.Size(), 1U);
    EXPECT_TRUE(queue.TryPop(out));
    EXPECT_EQ(queue.Size(), 0U);
    queue.Push(2);
    queue.SetCapacity(0);
    EXPECT_FALSE(queue.TryPush(3)) << "more is in it than there is room for";
    queue.Pop(out);
    EXPECT_EQ(out, 2);
    EXPECT_FALSE(queue.TryPush(3)) << "empty, and closed";
  });
}

TEST(TrpcPort, AnItemHeavierThanTheCapacityWaitsForMoreCapacity) {
  RunAsFiber([] {
    FiberBlockingBoundedQueue<std::string> queue(2, [](const std::string& s) { return s.size(); });
    EXPECT_FALSE(queue.TryPush("heavy"));
    EXPECT_FALSE(queue.Push("heavy", 1ms));
    Fiber producer([&] { queue.Push("heavy"); });
    std::string out;
    EXPECT_FALSE(queue.Pop(out, 2ms));
    EXPECT_TRUE(queue.TryPush("ab")) << "a waiter does not keep lighter ones out";
    queue.Pop(out);
    EXPECT_EQ(out, "ab");
    queue.SetCapacity(4);
    EXPECT_FALSE(queue.Pop(out, 1ms));
    queue.SetCapacity(5);
    queue.Pop(out);
    EXPECT_EQ(out, "heavy");
    producer.Join();
    // Stop() ends such a wait, and the item is still the producer's.
    Fiber stopped([&] {
      std::string item = "heavier";
      EXPECT_FALSE(queue.Push(std::move(item)));
      EXPECT_EQ(item, "heavier");
    });
    queue.Stop();
    stopped.Join();
  });
}

TEST(TrpcPort, AWeightFunctionMayBeMoveOnly) {
  RunAsFiber([] {
    FiberBlockingBoundedQueue<int> queue(
        10, [unit = std::make_unique<std::size_t>(5)](int n) { return *unit * static_cast<std::size_t>(n); });
    EXPECT_TRUE(queue.TryPush(1));
    EXPECT_EQ(queue.Size(), 5U);
    FiberBlockingBoundedQueue<int> copy(queue);
    FiberBlockingBoundedQueue<int> moved(std::move(queue));
    for (auto* each : {&copy, &moved}) {
      EXPECT_TRUE(each->TryPush(1));
      EXPECT_FALSE(each->TryPush(1));
      EXPECT_EQ(each->Size(), 10U);
    }
    std::function<std::size_t(const int&)> named = [](const int&) { return std::size_t{3}; };
    FiberBlockingBoundedQueue<int> third(3, named);
    EXPECT_TRUE(third.TryPush(1));
    EXPECT_FALSE(third.TryPush(1));
  });
}

NoncontiguousBuffer Bytes(const std::string& text) {
  NoncontiguousBuffer buffer;
  buffer.Append(text);
  return buffer;
}

TEST(TrpcPort, ANoncontiguousBufferIsAppendedToAndCut) {
  RunAsFiber([] {
    FiberBlockingNoncontiguousBuffer stream{0};
    EXPECT_EQ(stream.Capacity(), 0U);
    EXPECT_FALSE(stream.TryAppend(Bytes("1")));
    stream.SetCapacity(2);
    NoncontiguousBuffer out;
    EXPECT_FALSE(stream.TryCut(out, 1));
    EXPECT_FALSE(stream.Cut(out, 1, 1ms));
    char* const raw = new char[2]{'1', '2'};
    out.Append(raw, 2);
    EXPECT_TRUE(stream.TryAppend(std::move(out)));
    EXPECT_EQ(stream.ByteSize(), 2U);
    EXPECT_TRUE(stream.TryCut(out, 1));
    EXPECT_EQ(out.ToString(), "1");
    stream.Append(Bytes("3"));
    EXPECT_FALSE(stream.Append(Bytes("4"), 1ms));
    stream.Cut(out, 2);
    EXPECT_EQ(out.ToString(), "23");
  });
}

TEST(TrpcPort, AppendAlwaysPutsMoreInThanThereIsRoomFor) {
  RunAsFiber([] {
    std::string sent;
    for (int i = 0; i < 1000; ++i) sent += static_cast<char>('a' + i % 26);
    FiberBlockingNoncontiguousBuffer stream{7};
    Fiber producer([&] { EXPECT_TRUE(stream.AppendAlways(Bytes(sent))); });
    std::string received;
    NoncontiguousBuffer out;
    while (received.size() < sent.size()) {
      EXPECT_TRUE(stream.Cut(out, std::min<std::size_t>(3, sent.size() - received.size()), 20s));
      received += out.ToString();
      EXPECT_LE(stream.ByteSize(), 7U);
    }
    producer.Join();
    EXPECT_EQ(received, sent);
  });
}

TEST(TrpcPort, StoppingANoncontiguousBufferGivesWhatIsLeft) {
  RunAsFiber([] {
    FiberBlockingNoncontiguousBuffer stream{4};
    stream.Append(Bytes("abc"));
    Fiber producer([&] {
      NoncontiguousBuffer bytes = Bytes("de");
      EXPECT_FALSE(stream.Append(std::move(bytes)));
      EXPECT_EQ(bytes.ToString(), "de");
    });
    StartFiberDetached([&] { stream.Stop(); });
    NoncontiguousBuffer out;
    EXPECT_TRUE(stream.Cut(out, std::numeric_limits<std::size_t>::max(), 20s));
    EXPECT_EQ(out.ToString(), "abc");
    EXPECT_TRUE(stream.Cut(out, 1));
    EXPECT_TRUE(out.Empty());
    EXPECT_FALSE(stream.TryAppend(Bytes("f")));
    producer.Join();
  });
}

TEST(TrpcPort, SharedMutexSequenceLockAndFiberLocalUnderTheirHeaderNames) {
  RunAsFiber([] {
    static FiberLocal<int> mine;
    FiberSharedMutex shared;
    FiberSeqLock sequence;
    int value = 0;
    std::vector<Fiber> fibers;
    for (int i = 0; i < 8; ++i) {
      fibers.emplace_back(Fiber::Attributes{}, [&, i] {
        *mine = i;
        shared.lock();
        sequence.WriteSeqLock();
        ++value;
        sequence.WriteSeqUnlock();
        shared.unlock();
        EXPECT_EQ(*mine, i);
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
    std::shared_lock lock(shared);
    unsigned seen = 0;
    int copy = 0;
    do {
      seen = sequence.ReadSeqBegin();
      copy = value;
    } while (sequence.ReadSeqRetry(seen) != 0);
    EXPECT_EQ(copy, 8);
  });
}

// --- Futures: what the cases of tRPC-Cpp's future_test.cc and async_test.cc do, without their sleeps ---

TEST(TrpcPort, AsyncExecutesInAllItsForms) {
  RunAsFiber([] {
    for (int i = 0; i != 10; ++i) {
      int rc = 0;
      auto ff = fiber::Async(fiber::Launch::Dispatch, [&] { rc = 1; });
      fiber::BlockingGet(&ff);
      ASSERT_EQ(1, rc);
      Future<int> f = fiber::Async([&] { return 5; });
      FiberYield();
      ASSERT_EQ(5, fiber::BlockingGet(&f).GetValue0());
    }
    Future<std::size_t> in_group = fiber::Async(
        fiber::Launch::Post, 0, FiberExecutionContext::Create().Get(),
        [](const std::string& text, int more) { return text.size() + static_cast<std::size_t>(more); },
        std::string("abc"), 2);
    EXPECT_EQ(in_group.GetValue0(), 5U);
  });
}

TEST(TrpcPort, BlockingGetAndBlockingTryGetOfWhatAThreadSets) {
  RunAsFiber([] {
    Promise<std::string> promise;
    auto fut = promise.GetFuture();
    std::thread t([p = std::move(promise)]() mutable {
      std::string msg = "ok";
      p.SetValue(std::move(msg));
    });
    auto valid_future = fiber::BlockingGet(std::move(fut));
    EXPECT_EQ(valid_future.GetValue0(), "ok");
    t.join();

    Promise<std::string, int> many;
    auto of_many = many.GetFuture();
    EXPECT_EQ(fiber::BlockingTryGet(std::move(of_many), 1), std::nullopt);
    std::thread later([p = std::move(many)]() mutable { p.SetValue(std::make_tuple("ok", 1)); });
    auto tried = fiber::BlockingTryGet(std::move(of_many), 60'000);
    later.join();
    ASSERT_TRUE(tried);
    const std::tuple<std::string, int> result = (*tried).GetValue();
    EXPECT_EQ(std::get<0>(result), "ok");
    EXPECT_EQ(std::get<1>(result), 1);
  });
}

class PortedException : public ExceptionBase {
 public:
  const char* what() const noexcept override { return "ported"; }
};

TEST(TrpcPort, ContinuationsTakeValuesOrFutures) {
  auto flag = std::make_shared<int>(0);
  MakeReadyFuture<int>(20190820).Then([flag](int&& x) {
    ++*flag;
    EXPECT_EQ(x, 20190820);
    return MakeReadyFuture<>();
  });
  MakeReadyFuture<int>(20190820).Then([flag](Future<int>&& x) {
    ++*flag;
    EXPECT_TRUE(x.IsReady());
    EXPECT_EQ(std::get<0>(x.GetValue()), 20190820);
  });
  MakeExceptionFuture<int>(PortedException()).Then([flag](int&&) { *flag = 100; });
  MakeExceptionFuture<int>(PortedException())
      .Then([flag](int&&) {
        *flag = 100;
        return MakeReadyFuture<int>(123);
      })
      .Then([flag](Future<int>&& x) {
        ++*flag;
        EXPECT_FALSE(x.IsReady());
        EXPECT_TRUE(x.IsFailed());
        auto exception = x.GetException();
        EXPECT_TRUE(exception.is(PortedException()));
        EXPECT_STREQ(exception.what(), "ported");
        return MakeReadyFuture<>();
      });
  EXPECT_EQ(*flag, 3);

  Promise<> p;
  auto chained = MakeReadyFuture<>()
                     .Then([fut = p.GetFuture()]() mutable {
                       return fut.Then([]() {
                         return MakeReadyFuture<>().Then([]() { return MakeReadyFuture<int>(1234567321); });
                       });
                     })
                     .Then([](int&& v) { return MakeReadyFuture<int>(std::move(v)); });
  EXPECT_FALSE(chained.IsReady());
  p.SetValue();
  EXPECT_EQ(std::get<0>(chained.GetValue()), 1234567321);

  auto pr = Promise<>();
  auto fut = pr.GetFuture().Then([](Future<>&& resolved) {
    if (resolved.IsReady()) return MakeReadyFuture<>();
    return MakeExceptionFuture<>(resolved.GetException());
  });
  pr.SetException(CommonException("test"));
  pr.SetValue();
  EXPECT_FALSE(fut.IsReady());
  EXPECT_TRUE(fut.IsFailed());
}

TEST(TrpcPort, WaitTakesMilliseconds) {
  Promise<int> promise;
  auto fut = promise.GetFuture();
  EXPECT_FALSE(fut.Wait(1));
  promise.SetException(CommonException("return exception", 3));
  const bool ret = fut.Wait();
  EXPECT_TRUE(ret);
  auto exception = fut.GetException();
  EXPECT_STREQ(exception.what(), "return exception");
  EXPECT_EQ(exception.GetExceptionCode(), 3);
}

TEST(TrpcPort, WhenAllAndWhenAnyTakeFuturesOrIterators) {
  auto tuple = WhenAll(MakeReadyFuture<int>(1), MakeExceptionFuture<std::string>(CommonException("test")))
                   .Then([](std::tuple<Future<int>, Future<std::string>>&& results) {
                     EXPECT_EQ(std::get<0>(results).GetValue0(), 1);
                     EXPECT_TRUE(std::get<1>(results).IsFailed());
                     return MakeReadyFuture<>();
                   });
  EXPECT_TRUE(tuple.IsReady());
  std::vector<Future<int, int>> futures;
  for (int i = 0; i < 3; ++i) futures.emplace_back(MakeReadyFuture<int, int>(int{i}, int{i}));
  auto any = WhenAny(futures.begin(), futures.end()).Then([](std::size_t&& index, std::tuple<int, int>&& values) {
    EXPECT_EQ(std::get<1>(values), static_cast<int>(index));
    return MakeReadyFuture<>();
  });
  EXPECT_TRUE(any.IsReady());
}

}  // namespace
}  // namespace weft
