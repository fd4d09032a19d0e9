// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_loop.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/future.h"
#include "weft/fiber/runtime.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/select.h"
#include "weft/timer/fiber_timer.h"

#include "testing/patience.h"
#include "testing/policy.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

bool IsReadable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

// Waits for it.
bool BecomesReadable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 10'000) == 1;
}

// RunReady() runs all that is ready however long a sanitizer takes.
FiberLoop::Options Unlimited() { return {.longest_run = milliseconds(0)}; }

using Order = std::vector<std::string>;

// --- Order ---

TEST(FiberLoop, TasksRunInTheOrderInWhichTheyWereAdded) {
  FiberLoop loop(Unlimited());
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) loop.AddTask([&order, i] { order.push_back(i); });
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(loop.TaskCount(), 1000U);
  EXPECT_FALSE(loop.RunReady());
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(FiberLoop, AFiberThatYieldsGoesBehindThoseThatAreReady) {
  FiberLoop loop(Unlimited());
  Order order;
  for (const char* name : {"a", "b", "c"}) {
    loop.AddTask([&order, name] {
      for (int i = 0; i < 3; ++i) {
        order.push_back(name + std::to_string(i));
        FiberYield();
      }
    });
  }
  loop.Run();
  EXPECT_EQ(order, (Order{"a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"}));
}

// Started, woken, and added from elsewhere: one queue.
TEST(FiberLoop, WhoBecameReadyFirstRunsFirstWhereverItComesFrom) {
  FiberLoop loop(Unlimited());
  Order order;
  FiberEvent event;
  loop.AddTask([&] {
    event.Wait();
    order.push_back("woken");
  });
  EXPECT_TRUE(loop.RunReady());
  loop.AddTask([&] { order.push_back("first"); });
  std::thread([&] {
    event.Set();
    loop.AddTaskRemote([&] { order.push_back("remote"); });
  }).join();
  loop.AddTask([&] { order.push_back("last"); });
  EXPECT_FALSE(loop.RunReady());
  EXPECT_EQ(order, (Order{"first", "woken", "remote", "last"}));
}

TEST(FiberLoop, AnEagerTaskRunsAtOnceUntilItWaits) {
  FiberLoop loop(Unlimited());
  Order order;
  FiberEvent event;
  loop.AddTask([&] { order.push_back("queued"); });
  loop.AddTaskEager([&] {
    order.push_back("eager");
    event.Wait();
    order.push_back("eager goes on");
  });
  EXPECT_EQ(order, Order{"eager"});
  loop.AddTaskEager([&] { order.push_back("short"); });
  EXPECT_EQ(order, (Order{"eager", "short"}));
  event.Set();
  loop.Run();
  EXPECT_EQ(order, (Order{"eager", "short", "queued", "eager goes on"}));
}

TEST(FiberLoop, NoneThatIsQueuedRunsWithAnEagerTask) {
  FiberLoop loop(Unlimited());
  for (int i = 0; i < 1000; ++i) loop.AddTask([] {});
  loop.Run();  // After a fast burst the loop lets many fibers run before it looks after timers.
  int queued = 0;
  for (int i = 0; i < 10; ++i) loop.AddTask([&] { ++queued; });
  for (int i = 0; i < 4; ++i) loop.AddTaskEager([] { FiberYield(); });
  for (int i = 0; i < 4; ++i) loop.AddTaskEager([] {});
  EXPECT_EQ(queued, 0);
  loop.Run();
  EXPECT_EQ(queued, 10);
}

TEST(FiberLoop, AnEagerTaskOfATaskRunsAtOnceAndItsStarterGoesOnNext) {
  FiberLoop loop(Unlimited());
  Order order;
  loop.AddTask([&] {
    order.push_back("outer");
    loop.AddTaskEager([&] {
      order.push_back("middle");
      loop.AddTaskEager([&] {
        order.push_back("inner");
        FiberYield();
        order.push_back("inner again");
      });
      order.push_back("middle again");
      FiberYield();
      order.push_back("middle ends");
    });
    order.push_back("outer again");
  });
  loop.AddTask([&] { order.push_back("next"); });
  loop.Run();
  EXPECT_EQ(order,
            (Order{"outer", "middle", "inner", "middle again", "outer again", "next", "inner again", "middle ends"}));
}

TEST(FiberLoop, WhatAFiberOfTheLoopStartsRunsInTheLoop) {
  FiberLoop loop(Unlimited());
  std::vector<std::thread::id> threads;
  loop.AddTask([&] {
    EXPECT_TRUE(StartFiberDetached([&] { threads.push_back(std::this_thread::get_id()); }));
    Fiber([&] { threads.push_back(std::this_thread::get_id()); }).Join();
    Fiber(Launch::Dispatch, [&] { threads.push_back(std::this_thread::get_id()); }).Join();
    Fiber({.scheduling_group = Fiber::kUnspecifiedSchedulingGroup}, [&] {
      EXPECT_EQ(FiberLoop::Current(), &loop);
    }).Join();
    std::vector<std::function<void()>> batch(3, [&] { threads.push_back(std::this_thread::get_id()); });
    EXPECT_TRUE(BatchStartFiberDetached(std::move(batch)));
  });
  EXPECT_TRUE(loop.Run(std::chrono::seconds(10)));
  EXPECT_EQ(threads, std::vector<std::thread::id>(6, std::this_thread::get_id()));
  EXPECT_FALSE(loop.HasTasks());
}

// --- Tasks from other threads ---

TEST(FiberLoop, TasksFromFourThreadsAllRunEachThreadsInItsOrder) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 2000;
  FiberLoop loop(Unlimited());
  std::vector<std::vector<int>> seen(kThreads);
  int left = kThreads * kTasks;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        loop.AddTaskRemote([&, t, i] {
          seen[static_cast<std::size_t>(t)].push_back(i);
          --left;
        });
      }
    });
  }
  EXPECT_TRUE(loop.RunUntil([&] { return left == 0; }));
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_one : seen) {
    ASSERT_EQ(of_one.size(), static_cast<std::size_t>(kTasks));
    EXPECT_TRUE(std::is_sorted(of_one.begin(), of_one.end()));
  }
}

TEST(FiberLoop, ARemoteTaskWakesALoopThatWaits) {
  FiberLoop loop(Unlimited());
  bool ran = false;
  std::atomic<bool> go{false};
  std::thread other([&] {
    go.wait(false);
    loop.AddTaskRemote([&] { ran = true; });
  });
  loop.AddTask([&] {
    go = true;
    go.notify_one();
  });
  EXPECT_TRUE(loop.RunUntil([&] { return ran; }));
  other.join();
}

TEST(FiberLoop, WakeMakesTheLoopLookAtItsPredicate) {
  FiberLoop loop(Unlimited());
  std::atomic<bool> over{false};
  std::thread other([&] {
    over = true;
    loop.Wake();
  });
  EXPECT_TRUE(loop.RunUntil([&] { return over.load(); }));
  other.join();
}

// --- Results, exceptions, the main context ---

TEST(FiberLoop, FinallyGetsTheResultInTheMainContext) {
  FiberLoop loop(Unlimited());
  Order order;
  loop.AddTaskFinally(
      [&] {
        FiberYield();
        order.push_back("task");
        return std::make_unique<int>(7);
      },
      [&](FiberLoop::Result<std::unique_ptr<int>> result) {
        EXPECT_FALSE(IsRunningInFiberWorker());
        EXPECT_EQ(FiberLoop::Current(), &loop);
        ASSERT_TRUE(result.has_value());
        EXPECT_EQ(*std::move(result).value(), 7);
        order.push_back("finally");
      });
  loop.AddTask([&] { order.push_back("other"); });
  loop.Run();
  EXPECT_EQ(order, (Order{"other", "task", "finally"}));
}

TEST(FiberLoop, FinallyGetsTheException) {
  FiberLoop loop(Unlimited());
  std::string what;
  loop.AddTaskFinally([] { throw std::runtime_error("lost"); },
                      [&](const FiberLoop::Result<void>& result) {
                        ASSERT_FALSE(result.has_value());
                        try {
                          result.value();
                        } catch (const std::runtime_error& error) {
                          what = error.what();
                        }
                      });
  loop.Run();
  EXPECT_EQ(what, "lost");
}

TEST(FiberLoop, AnExceptionOfATaskGoesToTheHandler) {
  Order seen;
  FiberLoop loop({.on_exception = [&](const std::exception_ptr& thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      seen.push_back(error.what());
    }
    EXPECT_TRUE(IsRunningInFiberWorker());
  }});
  loop.AddTask([] { throw std::runtime_error("one"); });
  loop.AddTask([&] { seen.push_back("goes on"); });
  loop.AddTaskFinally([] { return 1; }, [](const FiberLoop::Result<int>&) { throw std::runtime_error("two"); });
  loop.Run();
  EXPECT_EQ(seen, (Order{"one", "goes on", "two"}));
}

TEST(FiberLoopDeathTest, AnExceptionWithoutAHandlerEndsTheProcess) {
  EXPECT_DEATH(
      {
        FiberLoop loop(Unlimited());
        loop.AddTask({.name = "thrower"}, [] { throw std::runtime_error("lost"); });
        loop.Run();
      },
      "thrower.*lost");
}

// More than a fiber's stack.
TEST(FiberLoop, TheMainContextHasTheThreadsStack) {
  FiberLoop loop({.stack_size = 32 * 1024});
  std::size_t sum = 0;
  loop.AddTask([&] {
    sum = loop.RunInMainContext([] {
      volatile char large[512 * 1024];
      for (std::size_t i = 0; i < sizeof(large); i += 512) large[i] = 1;
      std::size_t touched = 0;
      for (std::size_t i = 0; i < sizeof(large); i += 512) touched += static_cast<std::size_t>(large[i]);
      return touched;
    });
  });
  loop.Run();
  EXPECT_EQ(sum, 1024U);
}

TEST(FiberLoop, AFiberGoesOnAtOnceAfterTheMainContext) {
  FiberLoop loop(Unlimited());
  Order order;
  int value = 1;
  loop.AddTask([&] {
    order.push_back("before");
    int& same = loop.RunInMainContext([&]() -> int& {
      order.push_back("main");
      loop.AddTask([&] { order.push_back("added"); });
      return value;
    });
    EXPECT_EQ(&same, &value);
    order.push_back("after");
    EXPECT_THROW(loop.RunInMainContext([] { throw std::runtime_error("lost"); }), std::runtime_error);
  });
  loop.AddTask([&] { order.push_back("other"); });
  loop.Run();
  EXPECT_EQ(order, (Order{"before", "main", "after", "other", "added"}));
  EXPECT_EQ(loop.RunInMainContext([] { return 3; }), 3);
}

TEST(FiberLoop, TheMainContextIsInTheExecutionContextOfItsCaller) {
  static FiberExecutionLocal<int> request;
  FiberLoop loop(Unlimited());
  const auto context = FiberExecutionContext::Create();
  context->Execute([&] {
    *request = 5;
    loop.AddTask([&] {
      EXPECT_EQ(*request, 5);
      loop.RunInMainContext([&] { EXPECT_EQ(*request, 5); });
    });
    loop.AddTaskEager([&] { EXPECT_EQ(*request, 5); });
  });
  loop.AddTask([] { EXPECT_EQ(FiberExecutionContext::Current(), nullptr); });
  loop.Run();
  EXPECT_EQ(FiberExecutionContext::Current(), nullptr);
}

// Though it runs below it; it has that of who set the timer, or none.
TEST(FiberLoop, ACallbackIsNotInTheExecutionContextOfAFunctionThatWaits) {
  FiberLoop loop(Unlimited());
  const auto context = FiberExecutionContext::Create();
  FiberExecutionContext* seen = context.Get();
  FiberEvent fired;
  loop.AddTask([&] {
    EnableFiberTimer(CreateFiberTimer(Clock::now(), [&] {
      seen = FiberExecutionContext::Current();
      fired.Set();
    }));
    context->Execute([&] {
      loop.RunInMainContext([&] {
        fired.Wait();
        EXPECT_EQ(FiberExecutionContext::Current(), context.Get());
      });
    });
  });
  loop.Run();
  EXPECT_EQ(seen, nullptr);
}

// --- Time ---

TEST(FiberLoop, SleepersWakeInTheOrderOfTheirDeadlines) {
  FiberLoop loop(Unlimited());
  std::vector<int> order;
  const auto begin = Clock::now();
  for (const int ms : {300, 100, 200}) {
    loop.AddTask([&order, ms] {
      FiberSleepFor(milliseconds(ms));
      order.push_back(ms);
    });
  }
  EXPECT_TRUE(loop.RunReady());
  EXPECT_FALSE(loop.NextDeadline().is_none());
  EXPECT_LE(loop.NextDeadline(), Deadline(begin + milliseconds(200)));
  loop.Run();
  EXPECT_GE(Clock::now() - begin, milliseconds(300));
  EXPECT_EQ(order, (std::vector<int>{100, 200, 300}));
  EXPECT_FALSE(loop.RunReady());
  EXPECT_TRUE(loop.NextDeadline().is_none());
}

TEST(FiberLoop, ATimerIsServedBesideAFiberThatYieldsForEver) {
  FiberLoop loop({.longest_run = milliseconds(0)});
  bool over = false;
  loop.AddTask([&] {
    FiberSleepFor(milliseconds(2));
    over = true;
  });
  loop.AddTask([&] {
    while (!over) FiberYield();
  });
  loop.LoopUntilNoReady();
  EXPECT_TRUE(over);
  EXPECT_FALSE(loop.HasTasks());
}

TEST(FiberLoop, TwoFibersThatYieldForEverDoNotKeepATimer) {
  FiberLoop loop(Unlimited());
  bool over = false;
  loop.AddTask([&] {
    FiberSleepFor(milliseconds(2));
    over = true;
  });
  for (int i = 0; i < 2; ++i) {
    loop.AddTask([&] {
      while (!over) FiberYield();
    });
  }
  loop.LoopUntilNoReady();
  EXPECT_TRUE(over);
}

TEST(FiberLoop, CallbacksOfTimersRunInFibersOfTheLoop) {
  FiberLoop loop(Unlimited());
  int runs = 0;
  loop.AddTask([&] {
    FiberEvent twice;
    const std::uint64_t id = SetFiberTimer(Clock::now(), milliseconds(1), [&] {
      EXPECT_EQ(FiberLoop::Current(), &loop);
      if (++runs == 2) twice.Set();
    });
    ASSERT_NE(id, 0U);
    twice.Wait();
    KillFiberTimer(id);
  });
  loop.Run();
  EXPECT_GE(runs, 2);
}

// The loop sleeps without a limit, and no fiber wakes it.
TEST(FiberLoop, ATimerThatAnotherThreadEnablesWakesTheLoop) {
  FiberLoop loop(Unlimited());
  std::uint64_t id = 0;
  bool fired = false;
  loop.AddTask([&] { id = CreateFiberTimer(Clock::now(), [&] { fired = true; }); });
  loop.Run();
  ASSERT_NE(id, 0U);
  const int fd = loop.NotifyFd();
  loop.RunReady();
  EXPECT_FALSE(IsReadable(fd));
  std::thread([&] { EnableFiberTimer(id); }).join();
  EXPECT_TRUE(IsReadable(fd));
  EXPECT_TRUE(loop.RunUntil([&] { return fired; }, std::chrono::seconds(60)));

  fired = false;
  loop.AddTask([&] { id = CreateFiberTimer(Clock::now(), [&] { fired = true; }); });
  loop.Run();
  std::thread enabler([&] { EnableFiberTimer(id); });
  EXPECT_TRUE(loop.RunUntil([&] { return fired; }, std::chrono::seconds(60)));
  enabler.join();
}

TEST(FiberLoop, ADeadlineEndsRunAndRunUntil) {
  FiberLoop loop(Unlimited());
  FiberEvent never;
  FiberEvent release;
  loop.AddTask([&] { release.Wait(); });
  EXPECT_FALSE(loop.Run(milliseconds(2)));
  EXPECT_FALSE(loop.RunUntil([] { return false; }, milliseconds(2)));
  EXPECT_FALSE(loop.RunUntil(never, milliseconds(2)));
  EXPECT_TRUE(loop.HasTasks());
  release.Set();
  EXPECT_TRUE(loop.Run(Deadline::None()));
}

TEST(FiberLoop, RunUntilAnEventRunsOthersMeanwhile) {
  FiberLoop loop(Unlimited());
  FiberEvent event;
  int ticks = 0;
  loop.AddTask([&] {
    for (int i = 0; i < 3; ++i) {
      FiberSleepFor(milliseconds(1));
      ++ticks;
    }
    event.Set();
  });
  EXPECT_TRUE(loop.RunUntil(event));
  EXPECT_EQ(ticks, 3);
  EXPECT_FALSE(loop.HasTasks());
}

TEST(FiberLoop, AnExceptionOfAPredicateLeavesTheCall) {
  FiberLoop loop(Unlimited());
  int calls = 0;
  EXPECT_THROW(loop.RunUntil([&]() -> bool { return ++calls == 2 ? throw std::runtime_error("lost") : false; }),
               std::runtime_error);
  bool ran = false;
  std::thread([&] { loop.AddTaskRemote([&] { ran = true; }); }).join();
  loop.Run();
  EXPECT_TRUE(ran);
}

// --- The descriptor ---

TEST(FiberLoop, TheDescriptorIsReadableWhileThereIsSomethingToDo) {
  FiberLoop loop(Unlimited());
  const int fd = loop.NotifyFd();
  ASSERT_GE(fd, 0);
  loop.RunReady();
  EXPECT_FALSE(IsReadable(fd));

  loop.AddTask([] {});  // by the owner
  EXPECT_TRUE(IsReadable(fd));
  loop.RunReady();
  EXPECT_FALSE(IsReadable(fd));

  std::thread([&] { loop.AddTaskRemote([] {}); }).join();  // by another thread
  EXPECT_TRUE(IsReadable(fd));
  loop.RunReady();
  EXPECT_FALSE(IsReadable(fd));

  FiberEvent event;
  loop.AddTask([&] { event.Wait(); });
  loop.RunReady();
  EXPECT_FALSE(IsReadable(fd));
  event.Set();  // a wake-up
  EXPECT_TRUE(IsReadable(fd));
  loop.RunReady();
  EXPECT_FALSE(IsReadable(fd));

  loop.AddTask([] { FiberSleepFor(milliseconds(200)); });
  EXPECT_TRUE(loop.RunReady());
  EXPECT_FALSE(IsReadable(fd));
  EXPECT_TRUE(BecomesReadable(fd));  // a timer
  EXPECT_FALSE(loop.RunReady());
  EXPECT_FALSE(IsReadable(fd));
  EXPECT_EQ(loop.NotifyFd(), fd);
}

// Its wake-up has written to no descriptor: there was none. (A size of its own: no former loop has left one.)
// They look at no predicate.
TEST(FiberLoop, AWakeIsStillThereAfterACallFromOutsideOfTheLoop) {
  FiberLoop loop(Unlimited());
  const int fd = loop.NotifyFd();
  loop.RunReady();
  EXPECT_FALSE(IsReadable(fd));
  std::thread([&] { loop.Wake(); }).join();
  EXPECT_TRUE(IsReadable(fd));
  loop.RunInMainContext([] {});
  EXPECT_TRUE(IsReadable(fd));
  loop.AddTaskEager([] {});
  EXPECT_TRUE(IsReadable(fd));
  loop.RunReady();
  EXPECT_FALSE(IsReadable(fd));
  loop.RunInMainContext([] {});
  loop.AddTaskEager([] {});
  EXPECT_FALSE(IsReadable(fd));
}

TEST(FiberLoop, WhatBecameReadyBeforeTheDescriptorWasMadeMakesItReadable) {
  FiberLoop loop({.stack_size = 208 * 1024});
  FiberEvent event;
  loop.AddTask([&] { event.Wait(); });
  EXPECT_TRUE(loop.RunReady());
  std::thread([&] { event.Set(); }).join();
  const int fd = loop.NotifyFd();
  EXPECT_TRUE(IsReadable(fd));
  EXPECT_FALSE(loop.RunReady());
  EXPECT_FALSE(IsReadable(fd));
}

TEST(FiberLoop, ATimerThatIsSetAgainAndAgainIsSeenByTheDescriptor) {
  FiberLoop loop(Unlimited());
  const int fd = loop.NotifyFd();
  int naps = 0;
  loop.AddTask([&] {
    for (; naps < 5; ++naps) FiberSleepFor(milliseconds(1));
  });
  while (loop.RunReady()) ASSERT_TRUE(BecomesReadable(fd));
  EXPECT_EQ(naps, 5);
}

TEST(FiberLoop, ALoopWithoutEndGivesTheThreadBackAndSaysThatThereIsMore) {
  FiberLoop loop({.longest_run = milliseconds(1)});
  const int fd = loop.NotifyFd();
  bool over = false;
  for (int i = 0; i < 2; ++i) {
    loop.AddTask([&] {
      while (!over) FiberYield();
    });
  }
  EXPECT_TRUE(loop.RunReady());
  EXPECT_TRUE(IsReadable(fd));
  EXPECT_TRUE(loop.NextDeadline().expired());
  over = true;
  EXPECT_TRUE(loop.Run(std::chrono::seconds(10)));
}

// However late it is after the look at the timers.
TEST(FiberLoop, ARunReadyWhoseTimeIsUpHasRunAFiber) {
  FiberLoop loop({.longest_run = std::chrono::nanoseconds(1)});
  int runs = 0;
  loop.AddTask([&] {
    while (++runs < 20) FiberYield();
  });
  for (int i = 1; i <= 20; ++i) {
    loop.RunReady();
    ASSERT_GE(runs, i);
  }
  EXPECT_FALSE(loop.HasTasks());
}

TEST(FiberLoop, ALoopWithoutDescriptorsRunsByItsNextDeadline) {
  FiberLoop loop(Unlimited());
  int naps = 0;
  loop.AddTask([&] {
    for (; naps < 3; ++naps) FiberSleepFor(milliseconds(1));
  });
  while (loop.RunReady()) std::this_thread::sleep_until(loop.NextDeadline().time_point());
  EXPECT_EQ(naps, 3);
}

// --- Waits in the main context: they run the loop ---

// Runs `wait` in the main context of a loop in which a fiber ends it, by `end`, when it has slept for a moment.
void WaitWhileAFiberWorks(const std::function<void()>& wait, const std::function<void()>& end) {
  FiberLoop loop(Unlimited());
  bool ended = false;
  loop.AddTask([&] {
    FiberSleepFor(milliseconds(1));
    end();
    ended = true;
  });
  loop.AddTask([&] {
    loop.RunInMainContext([&] {
      EXPECT_EQ(FiberLoop::Current(), &loop);
      wait();
      EXPECT_TRUE(ended);
      EXPECT_FALSE(IsRunningInFiberWorker());
      EXPECT_EQ(FiberLoop::Current(), &loop);
    });
    EXPECT_TRUE(IsRunningInFiberWorker());
  });
  loop.Run();
  EXPECT_TRUE(ended);
}

TEST(FiberLoop, AWaitInTheMainContextRunsTheLoopWhateverItWaitsFor) {
  FiberEvent event;
  WaitWhileAFiberWorks([&] { event.Wait(); }, [&] { event.Set(); });
  FiberEvent timed;
  WaitWhileAFiberWorks([&] { EXPECT_TRUE(timed.Wait(testing::kSoon)); }, [&] { timed.Set(); });
  FiberLatch latch(1);
  WaitWhileAFiberWorks([&] { latch.Wait(); }, [&] { latch.CountDown(); });
  FiberSemaphore semaphore(0);
  WaitWhileAFiberWorks([&] { semaphore.Acquire(); }, [&] { semaphore.Release(); });
  FiberBarrier barrier(2);
  WaitWhileAFiberWorks([&] { barrier.ArriveAndWait(); }, [&] { barrier.ArriveAndDrop(); });
  FiberChannel<int> channel(1);
  WaitWhileAFiberWorks([&] { EXPECT_EQ(*channel.Get(), 7); }, [&] { ASSERT_EQ(channel.Put(7), ChannelResult::kOk); });
  FiberChannel<int> one(1);
  FiberChannel<int> other(1);
  WaitWhileAFiberWorks([&] { Select(OnGet(one, [](auto) {}), OnGet(other, [](auto item) { EXPECT_EQ(*item, 8); })); },
                       [&] { ASSERT_EQ(other.Put(8), ChannelResult::kOk); });
  Promise<int> promise;
  Future<int> future = promise.GetFuture();
  WaitWhileAFiberWorks([&] { EXPECT_EQ(future.Get(), 9); }, [&] { promise.SetValue(9); });
  FiberMutex mutex;
  FiberConditionVariable changed;
  bool is_so = false;
  WaitWhileAFiberWorks(
      [&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return is_so; });
      },
      [&] {
        const std::lock_guard lock(mutex);
        is_so = true;
        changed.notify_all();
      });
}

TEST(FiberLoop, TheMainContextJoinsAFiberOfTheLoop) {
  FiberLoop loop(Unlimited());
  bool ran = false;
  loop.AddTask([&] {
    Fiber child([&] {
      FiberSleepFor(milliseconds(1));
      ran = true;
    });
    loop.RunInMainContext([&] { child.Join(); });
    EXPECT_TRUE(ran);
  });
  loop.Run();
  EXPECT_TRUE(ran);
}

TEST(FiberLoop, TheMainContextLocksWhatAFiberOfTheLoopHolds) {
  FiberLoop loop(Unlimited());
  FiberMutex mutex;
  FiberSharedMutex shared;
  loop.AddTask([&] {
    const std::lock_guard lock(mutex);
    const std::lock_guard exclusive(shared);
    FiberSleepFor(milliseconds(1));
  });
  bool locked = false;
  loop.AddTask([&] {
    loop.RunInMainContext([&] {
      const std::lock_guard lock(mutex);
      const std::shared_lock sharing(shared);
      locked = true;
    });
  });
  loop.Run();
  EXPECT_TRUE(locked);
}

// The fiber is woken first; before it has run the mutex is nobody else's.
TEST(FiberLoop, TheMainContextWaitsBehindAFiberForAMutexOfAnotherThread) {
  FiberLoop loop(Unlimited());
  FiberMutex mutex;
  std::atomic<int> waiting{0};
  FiberEvent locked;
  std::thread owner([&] {
    mutex.lock();
    locked.Set();
    waiting.wait(0);
    mutex.unlock();
  });
  locked.Wait();
  Order order;
  loop.AddTask([&] {
    const std::lock_guard lock(mutex);
    order.push_back("fiber");
  });
  loop.AddTask([&] {
    loop.RunInMainContext([&] {
      waiting = 1;
      waiting.notify_one();
      const std::lock_guard lock(mutex);
      order.push_back("main context");
    });
  });
  loop.Run();
  owner.join();
  EXPECT_EQ(order.size(), 2U);
}

TEST(FiberLoop, AWaitInTheMainContextEndsAtItsDeadlineAndRunsTheLoopUntilThen) {
  FiberLoop loop(Unlimited());
  FiberEvent never;
  FiberEvent over;
  int ticks = 0;
  loop.AddTask([&] {
    while (!over.Wait(std::chrono::microseconds(100))) ++ticks;
  });
  loop.AddTask([&] {
    loop.RunInMainContext([&] {
      const auto begin = Clock::now();
      EXPECT_FALSE(never.Wait(milliseconds(3)));
      EXPECT_GE(Clock::now() - begin, milliseconds(3));
      const int before = ticks;
      EXPECT_TRUE(testing::InTime(milliseconds(3), [&](milliseconds time) {
        FiberSleepFor(time);
        return ticks > before;
      }));
    });
    over.Set();
  });
  loop.Run();
  EXPECT_GT(ticks, 0);
}

// The loop waits when the thread comes: the event is set for the main context alone.
TEST(FiberLoop, AThreadEndsAWaitInTheMainContext) {
  FiberLoop loop(Unlimited());
  for (int i = 0; i < 100; ++i) {
    FiberEvent event;
    std::thread setter;
    loop.AddTask([&] {
      loop.RunInMainContext([&] {
        setter = std::thread([&] { event.Set(); });
        event.Wait();
      });
    });
    loop.Run();
    setter.join();
  }
}

// Also in the look that comes after the loop has announced that it sleeps.
TEST(FiberLoop, APredicateMayWait) {
  for (int wait_at = 1; wait_at <= 3; ++wait_at) {
    FiberLoop loop(Unlimited());
    FiberEvent event;
    bool set = false;
    loop.AddTask([&] {
      FiberSleepFor(milliseconds(1));
      event.Set();
      set = true;
    });
    int looks = 0;
    EXPECT_TRUE(loop.RunUntil([&] {
      if (++looks == wait_at) {
        event.Wait();
        EXPECT_TRUE(set);
      }
      return looks > wait_at;
    }));
    loop.Run();
    EXPECT_EQ(event.Wait(milliseconds(0)), true);
  }
}

// And what it throws then leaves the call.
TEST(FiberLoop, APredicateMayThrowAfterAWait) {
  for (int throw_at = 1; throw_at <= 2; ++throw_at) {
    FiberLoop loop(Unlimited());
    int looks = 0;
    EXPECT_THROW(loop.RunUntil([&]() -> bool {
      if (++looks != throw_at) return false;
      FiberSleepFor(milliseconds(1));
      throw std::runtime_error("lost");
    }),
                 std::runtime_error);
    bool ran = false;
    std::thread([&] { loop.AddTaskRemote([&] { ran = true; }); }).join();
    loop.Run();
    EXPECT_TRUE(ran);
  }
}

// And ends by it, though each of its looks waits.
TEST(FiberLoop, APredicateThatWaitsDoesNotHideTheDeadline) {
  FiberLoop loop(Unlimited());
  FiberEvent never;
  loop.AddTask([&] { never.Wait(); });
  const Deadline patience(testing::kSoon);
  EXPECT_FALSE(loop.RunUntil(
      [&] {
        FiberSleepFor(milliseconds(1));
        return patience.expired();
      },
      milliseconds(5)));
  EXPECT_FALSE(patience.expired());
  never.Set();
  loop.Run();
}

// The notifier has hung it behind the owner of the mutex, a fiber of the loop, which must go on after the deadline.
TEST(FiberLoop, AWaitForAConditionThatIsOverEndsWhenTheOwnerOfTheMutexHasUnlockedIt) {
  FiberLoop loop(Unlimited());
  FiberMutex mutex;
  FiberConditionVariable changed;
  bool over = false;
  loop.AddTask([&] {
    loop.RunInMainContext([&] {
      std::unique_lock lock(mutex);
      static_cast<void>(changed.wait_for(lock, milliseconds(2)));
      over = true;
    });
  });
  loop.AddTask([&] {
    const std::lock_guard lock(mutex);
    changed.notify_one();
    FiberSleepFor(milliseconds(10));
    EXPECT_FALSE(over);
  });
  loop.Run();
  EXPECT_TRUE(over);
}

// One at a time: the second one could end before the first one only, and waits for the same.
TEST(FiberLoop, WhileAFunctionInTheMainContextWaitsNoOtherOneBegins) {
  FiberLoop loop(Unlimited());
  FiberMutex mutex;
  Order order;
  FiberEvent locked;
  FiberEvent both;
  std::thread owner([&] {
    mutex.lock();
    locked.Set();
    both.Wait();
    mutex.unlock();
  });
  locked.Wait();
  for (const char* name : {"a", "b", "c"}) {
    loop.AddTask([&, name] {
      loop.RunInMainContext([&, name] {
        order.push_back(name + std::string(" begins"));
        const std::lock_guard lock(mutex);
        FiberSleepFor(milliseconds(1));
        order.push_back(name + std::string(" ends"));
      });
      order.push_back(name + std::string(" goes on"));
    });
  }
  loop.AddTask([&] { both.Set(); });
  loop.Run();
  owner.join();
  EXPECT_EQ(order, (Order{"a begins", "a ends", "a goes on", "b begins", "b ends", "b goes on", "c begins", "c ends",
                          "c goes on"}));
}

// A RunReady() whose time is up leaves it behind.
TEST(FiberLoop, AFunctionThatWaitsForTheMainContextMakesTheDescriptorReadable) {
  FiberLoop loop({.longest_run = std::chrono::nanoseconds(1)});
  const int fd = loop.NotifyFd();
  Order order;
  FiberEvent event;
  loop.AddTask([&] {
    loop.RunInMainContext([&] { event.Wait(); });
    order.push_back("first");
  });
  loop.AddTask([&] {
    event.Set();
    loop.RunInMainContext([&] { order.push_back("second"); });
  });
  while (order.empty()) ASSERT_TRUE(loop.RunReady());
  EXPECT_EQ(order, Order{"first"});
  EXPECT_TRUE(IsReadable(fd));
  EXPECT_TRUE(loop.NextDeadline().expired());
  while (loop.RunReady()) ASSERT_TRUE(BecomesReadable(fd));
  EXPECT_EQ(order, (Order{"first", "second"}));
}

// Nobody else runs with an eager task; but when it waits in the main context, they do.
TEST(FiberLoop, AnEagerTaskMayWaitInTheMainContext) {
  FiberLoop loop(Unlimited());
  Order order;
  FiberEvent event;
  loop.AddTask([&] {
    order.push_back("queued");
    event.Set();
  });
  loop.AddTaskEager([&] {
    loop.RunInMainContext([&] { event.Wait(); });
    order.push_back("eager");
    FiberYield();
    order.push_back("eager again");
  });
  EXPECT_EQ(order, (Order{"queued", "eager"}));
  loop.Run();
  EXPECT_EQ(order, (Order{"queued", "eager", "eager again"}));
}

// Its function waits, and would run other callbacks within this one.
TEST(FiberLoop, AnEagerTaskOfACallbackGetsTheMainContextAfterTheCallback) {
  FiberLoop loop(Unlimited());
  Order order;
  FiberEvent event;
  loop.AddTask([&] {
    EnableFiberTimer(CreateFiberTimer(Clock::now(), [&] {
      loop.AddTaskEager([&] {
        order.push_back("eager");
        loop.RunInMainContext([&] {
          order.push_back("main context");
          EnableFiberTimer(CreateFiberTimer(Clock::now(), [&] { event.Set(); }));
          event.Wait();
        });
        order.push_back("eager again");
      });
      order.push_back("callback ends");
    }));
  });
  EXPECT_TRUE(loop.RunUntil([&] { return order.size() == 4; }, testing::kSoon));
  EXPECT_EQ(order, (Order{"eager", "callback ends", "main context", "eager again"}));
}

// Foreign loops: they call it for this.
TEST(FiberLoop, OutsideOfTheLoopAWaitInRunInMainContextRunsIt) {
  FiberLoop loop(Unlimited());
  const int fd = loop.NotifyFd();
  FiberMutex mutex;
  bool held = false;
  loop.AddTask([&] {
    const std::lock_guard lock(mutex);
    held = true;
    FiberSleepFor(milliseconds(1));
    held = false;
  });
  EXPECT_TRUE(loop.RunReady());
  EXPECT_TRUE(held);
  loop.RunInMainContext([&] {
    EXPECT_EQ(FiberLoop::Current(), &loop);
    const std::lock_guard lock(mutex);
    EXPECT_FALSE(held);
    loop.AddTask([] {});
  });
  EXPECT_EQ(FiberLoop::Current(), nullptr);
  EXPECT_TRUE(IsReadable(fd));
  EXPECT_FALSE(loop.RunReady());
  EXPECT_FALSE(IsReadable(fd));
}

TEST(FiberLoop, TheMainContextWaitsForACallbackInAFiberOfTheLoop) {
  FiberLoop loop(Unlimited());
  bool over = false;
  loop.AddTask([&] {
    FiberEvent begun;
    const std::uint64_t id = SetFiberTimer(Clock::now(), [&] {
      begun.Set();
      FiberSleepFor(milliseconds(1));
      over = true;
    });
    begun.Wait();
    loop.RunInMainContext([&] { static_cast<void>(KillFiberTimerAndWait(id)); });
    EXPECT_TRUE(over);
  });
  loop.Run();
  EXPECT_TRUE(over);
}

// The fiber has been passed over by the notifier, and leaves the queue when it runs: the destructor waits for it.
TEST(FiberLoop, TheMainContextDestroysWhatACancelledFiberHasStillToLeave) {
  FiberLoop loop(Unlimited());
  FiberMutex mutex;
  auto changed = std::make_unique<FiberConditionVariable>();
  CancelScope scope;
  bool cancelled = false;
  loop.AddTask([&] {
    cancelled = !scope.Run([&] {
      std::unique_lock lock(mutex);
      changed->wait(lock);
    });
  });
  loop.AddTask([&] {
    loop.RunInMainContext([&] {
      scope.Cancel();
      changed->notify_all();
      changed.reset();
    });
  });
  loop.Run();
  EXPECT_TRUE(cancelled);
}

// It has the fiber's memory only, and must not run it a second time.
TEST(FiberLoop, AChildForkedInTheMainContextRunsNoFiberOfItsParent) {
  FiberLoop loop(Unlimited());
  bool ran = false;
  loop.AddTask([&] { ran = true; });
  loop.RunInMainContext([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      FiberSleepFor(milliseconds(1));
      ::_exit(ran || FiberLoop::Current() != nullptr ? 1 : 0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  });
  loop.Run();
  EXPECT_TRUE(ran);
}

// --- Several loops of a thread, one in the main context of another ---

TEST(FiberLoop, ALoopRunsInTheMainContextOfAnother) {
  FiberLoop outer(Unlimited());
  FiberLoop inner(Unlimited());
  Order order;
  outer.AddTask({.name = "outer"}, [&] {
    inner.AddTask([&] {  // The owner of both.
      EXPECT_EQ(FiberLoop::Current(), &inner);
      order.push_back("inner");
      FiberSleepFor(milliseconds(1));
      order.push_back("inner ends");
    });
    outer.RunInMainContext([&] {
      EXPECT_EQ(FiberLoop::Current(), &outer);
      inner.Run();
      EXPECT_EQ(FiberLoop::Current(), &outer);
      EXPECT_FALSE(IsRunningInFiberWorker());
      order.push_back("main context");
    });
    EXPECT_EQ(FiberLoop::Current(), &outer);
    EXPECT_EQ(GetFiberName(), "outer");
    FiberYield();
    order.push_back("outer ends");
  });
  outer.AddTask([&] { order.push_back("next"); });
  outer.Run();
  EXPECT_EQ(FiberLoop::Current(), nullptr);
  EXPECT_EQ(order, (Order{"inner", "inner ends", "main context", "next", "outer ends"}));
}

// Both sleep, though one has begun to run.
TEST(FiberLoop, ALoopThatStandsStillAroundOneThatWaitsIsNotWatched) {
  FiberLoop outer(Unlimited());
  FiberLoop inner(Unlimited());
  FiberEvent off;
  bool went_off = false;
  std::thread observer;
  inner.AddTask([&] {
    observer = std::thread([&] {
      auto& watchdog = scheduling_group::Watchdog::Get();
      const Deadline patience(testing::kSoon);
      while (!(went_off = watchdog.off()) && !patience.expired()) {
        std::this_thread::sleep_for(scheduling_group::Watchdog::kCheckEvery);  // Of quiet is the test.
      }
      off.Set();
    });
  });
  outer.RunInMainContext([&] { EXPECT_TRUE(inner.RunUntil(off)); });
  observer.join();
  EXPECT_TRUE(went_off);
}

TEST(FiberLoop, ALoopIsMadeAndDestroyedInTheMainContextOfAnother) {
  FiberLoop outer(Unlimited());
  int sum = 0;
  outer.AddTask([&] {
    outer.RunInMainContext([&] {
      FiberLoop inner(Unlimited());
      inner.AddTask([&] { sum += 1; });
      inner.AddTaskEager([&] {
        EXPECT_EQ(FiberLoop::Current(), &inner);
        sum += 10;
      });
      EXPECT_EQ(FiberLoop::Current(), &outer);
      inner.LoopUntilNoReady();
      inner.RunInMainContext([&] {
        EXPECT_EQ(FiberLoop::Current(), &inner);
        FiberLoop third;
        third.AddTask([&] { sum += 100; });
        third.Run();
        EXPECT_EQ(FiberLoop::Current(), &inner);
      });
      EXPECT_EQ(FiberLoop::Current(), &outer);
    });
  });
  // And in a predicate.
  EXPECT_TRUE(outer.RunUntil([&] {
    FiberLoop inner;
    inner.AddTask([&] { sum += 1000; });
    inner.Run();
    return sum >= 2111;
  }));
  outer.Run();
}

TEST(FiberLoop, AnExceptionLeavesTheInnerLoop) {
  FiberLoop outer(Unlimited());
  FiberLoop inner(Unlimited());
  FiberEvent event;
  bool waited = false;
  inner.AddTask([&] {
    event.Wait();
    waited = true;
  });
  outer.AddTask([&] {
    EXPECT_THROW(outer.RunInMainContext([&] { inner.RunUntil([]() -> bool { throw std::runtime_error("lost"); }); }),
                 std::runtime_error);
    EXPECT_EQ(FiberLoop::Current(), &outer);
    FiberSleepFor(milliseconds(1));
  });
  outer.Run();
  EXPECT_EQ(FiberLoop::Current(), nullptr);
  event.Set();
  inner.Run();
  EXPECT_TRUE(waited);
}

// A wait in the main context of the inner one runs the inner one only.
TEST(FiberLoop, TheOuterLoopStandsStillWhileTheInnerOneRuns) {
  FiberLoop outer(Unlimited());
  FiberLoop inner(Unlimited());
  FiberEvent event;
  bool outer_ran = false;
  bool waited = false;
  outer.AddTask([&] {
    outer.RunInMainContext([&] {
      inner.AddTask([&] {
        inner.RunInMainContext([&] { event.Wait(); });
        waited = true;
      });
      inner.AddTask([&] {
        FiberSleepFor(milliseconds(1));
        event.Set();
      });
      inner.Run();
      EXPECT_TRUE(waited);
      EXPECT_FALSE(outer_ran);
      FiberSleepFor(milliseconds(1));  // Here the outer one runs.
      EXPECT_TRUE(outer_ran);
    });
  });
  outer.AddTask([&] { outer_ran = true; });
  outer.Run();
  EXPECT_TRUE(waited);
}

TEST(FiberLoop, TheDescriptorOfALoopRunInAnotherIsItsOwn) {
  FiberLoop outer(Unlimited());
  FiberLoop inner(Unlimited());
  const int fd = inner.NotifyFd();
  FiberEvent event;
  outer.AddTask([&] {
    outer.RunInMainContext([&] {
      inner.AddTask([&] { event.Wait(); });
      EXPECT_TRUE(IsReadable(fd));
      EXPECT_TRUE(inner.RunReady());
      EXPECT_FALSE(IsReadable(fd));
    });
    event.Set();  // by a fiber of the outer loop
    EXPECT_TRUE(IsReadable(fd));
    outer.RunInMainContext([&] { EXPECT_FALSE(inner.RunReady()); });
    EXPECT_FALSE(IsReadable(fd));
  });
  outer.Run();
}

// --- Beside the runtime, other loops, other threads ---

class FiberLoopWithRuntime : public ::testing::TestWithParam<unsigned> {
 protected:
  static constexpr milliseconds kTerminateTimeout{60'000};

  void SetUp() override {
    RuntimeOptions options;
    options.concurrency_hint = GetParam();
    options.scheduling_name = weft::testing::PolicyUnderTest();
    options.terminate_timeout = kTerminateTimeout;
    StartRuntime(options);
  }
  void TearDown() override { EXPECT_EQ(TerminateRuntime(), 0U); }
};
INSTANTIATE_TEST_SUITE_P(Workers, FiberLoopWithRuntime, ::testing::Values(1, 2, 4, 8));

TEST_P(FiberLoopWithRuntime, AChannelConnectsAFiberOfTheRuntimeAndOneOfTheLoop) {
  FiberLoop loop(Unlimited());
  FiberChannel<int> there(1);
  FiberChannel<int> back(1);
  Fiber echo([&] {
    for (int item : there) {
      if (back.Put(item + 1) != ChannelResult::kOk) return;
    }
    back.Close();
  });
  int sum = 0;
  loop.AddTask([&] {
    for (int i = 0; i < 500; ++i) {
      ASSERT_EQ(there.Put(i), ChannelResult::kOk);
      sum += *back.Get();
    }
    there.Close();
  });
  loop.Run();
  echo.Join();
  EXPECT_EQ(sum, 500 * 501 / 2);
}

TEST_P(FiberLoopWithRuntime, AFiberOfTheRuntimeWaitsForATaskOfTheLoopAndBack) {
  FiberLoop loop(Unlimited());
  int answer = 0;
  Fiber caller([&] {
    FiberEvent done;
    int of_loop = 0;
    loop.AddTaskRemote([&] {
      // And back: a fiber of the runtime works for the task.
      int of_runtime = 0;
      Fiber({.scheduling_group = 0}, [&] {
        EXPECT_EQ(FiberLoop::Current(), nullptr);
        of_runtime = 20;
      }).Join();
      EXPECT_EQ(FiberLoop::Current(), &loop);
      of_loop = of_runtime + 1;
      done.Set();
    });
    done.Wait();
    answer = 2 * of_loop;
  });
  FiberEvent over;
  Fiber([&] {
    caller.Join();
    over.Set();
  }).Detach();
  EXPECT_TRUE(loop.RunUntil(over));
  EXPECT_EQ(answer, 42);
}

TEST_P(FiberLoopWithRuntime, PrimitivesWorkAcrossALoopAndGroups) {
  constexpr int kEach = 300;
  constexpr int kFibers = 4;
  FiberLoop loop(Unlimited());
  FiberMutex mutex;
  FiberConditionVariable changed;
  FiberLatch all(2 * kFibers);
  int count = 0;
  auto add = [&] {
    for (int i = 0; i < kEach; ++i) {
      std::unique_lock lock(mutex);
      ++count;
      if (i % 16 == 0) FiberYield();
    }
    changed.notify_all();
    all.CountDown();
  };
  std::vector<Fiber> fibers;
  for (int i = 0; i < kFibers; ++i) fibers.emplace_back(add);
  for (int i = 0; i < kFibers; ++i) loop.AddTask(add);
  bool seen = false;
  loop.AddTask([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return count == 2 * kFibers * kEach; });
    seen = true;
  });
  loop.Run();
  all.Wait();
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_TRUE(seen);
}

TEST_P(FiberLoopWithRuntime, FibersOfALoopStayAndNoneComes) {
  FiberLoop loop(Unlimited());
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<int> in_runtime{0};
  for (int i = 0; i < 50; ++i) {
    loop.AddTask([&] {
      for (int n = 0; n < 20; ++n) {
        EXPECT_EQ(std::this_thread::get_id(), here);
        FiberYield();
      }
    });
  }
  FiberLatch started(50);
  for (int i = 0; i < 50; ++i) {
    StartFiberDetached([&] {  // by a plain thread, which the loop's owner is outside of the loop
      if (FiberLoop::Current() == nullptr) ++in_runtime;
      started.CountDown();
    });
  }
  loop.Run();
  started.Wait();
  EXPECT_EQ(in_runtime, 50);
}

TEST_P(FiberLoopWithRuntime, TheRuntimesEndDoesNotWaitForTasksOfALoop) {
  FiberLoop loop(Unlimited());
  FiberEvent event;
  loop.AddTask([&] {
    event.Wait();
    // There is no runtime any more.
    EXPECT_FALSE(StartFiberDetached({.scheduling_group = 0}, [] {}));
    Fiber([] { FiberSleepFor(milliseconds(1)); }).Join();
  });
  loop.RunReady();
  const auto begin = Clock::now();
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_LT(Clock::now() - begin, kTerminateTimeout);
  event.Set();
  loop.Run();
  SetUp();
}

// The loop leaves its section at times, also while its fibers never let it sleep.
TEST_P(FiberLoopWithRuntime, TheRuntimesEndDoesNotWaitForABusyLoop) {
  FiberLoop loop(Unlimited());
  std::atomic<bool> ended{false};
  bool seen = false;
  const Deadline patience(std::chrono::seconds(10));
  for (int i = 0; i < 2; ++i) {
    loop.AddTask([&] {
      while (!ended && !patience.expired()) FiberYield();
      seen = ended;
    });
  }
  std::thread ender([&] {
    EXPECT_EQ(TerminateRuntime(), 0U);
    ended = true;
  });
  loop.Run();
  EXPECT_TRUE(seen) << "it has waited for the loop";
  ender.join();
  SetUp();
}

// Nor for a loop that runs in the main context of another one, and waits.
TEST_P(FiberLoopWithRuntime, TheRuntimesEndDoesNotWaitForAnInnerLoop) {
  FiberLoop outer(Unlimited());
  FiberLoop inner(Unlimited());
  std::thread ender;
  outer.AddTask([&] {
    outer.RunInMainContext([&] {
      std::atomic<bool> ended{false};
      ender = std::thread([&] {
        EXPECT_EQ(TerminateRuntime(), 0U);
        ended = true;
        inner.Wake();
      });
      EXPECT_TRUE(inner.RunUntil([&] { return ended.load(); }, std::chrono::seconds(10)));
      if (!ended) std::_Exit(1);
    });
  });
  outer.Run();
  ender.join();
  SetUp();
}

// The loop does not run: a timer in it would not fire.
TEST_P(FiberLoopWithRuntime, ATimerOfAPlainThreadIsNeverOneOfALoop) {
  constexpr int kThreads = 12;
  FiberLoop loop(Unlimited());
  FiberLatch fired(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    std::thread([&] { EXPECT_NE(SetFiberTimer(Clock::now(), [&] { fired.CountDown(); }), 0U); }).join();
  }
  EXPECT_TRUE(fired.Wait(std::chrono::seconds(10)));
}

TEST(FiberLoop, TwoLoopsOfAThreadTakeTurns) {
  FiberLoop one(Unlimited());
  FiberLoop two(Unlimited());
  FiberChannel<int> ping(1);
  FiberChannel<int> pong(1);
  int last = 0;
  one.AddTask([&] {
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(ping.Put(i), ChannelResult::kOk);
      last = *pong.Get();
    }
  });
  two.AddTask([&] {
    for (int i = 0; i < 10; ++i) ASSERT_EQ(pong.Put(*ping.Get() * 2), ChannelResult::kOk);
  });
  while (one.HasTasks() || two.HasTasks()) {
    one.RunReady();
    two.RunReady();
  }
  EXPECT_EQ(last, 18);
}

TEST(FiberLoop, LoopsOfSeveralThreadsTalkToEachOther) {
  constexpr int kLoops = 3;
  constexpr int kRounds = 200;
  std::vector<std::unique_ptr<FiberChannel<int>>> channels;
  for (int i = 0; i < kLoops; ++i) channels.push_back(std::make_unique<FiberChannel<int>>(1));
  std::vector<int> last(kLoops);
  std::vector<std::thread> threads;
  for (int i = 0; i < kLoops; ++i) {
    threads.emplace_back([&, i] {
      FiberLoop loop(Unlimited());
      loop.AddTask([&, i] {
        const auto me = static_cast<std::size_t>(i);
        if (i == 0) {
          ASSERT_EQ(channels[1]->Put(0), ChannelResult::kOk);
        }
        for (int round = 0; round < kRounds; ++round) {
          last[me] = *channels[me]->Get();
          if (i == 0 && round == kRounds - 1) break;
          ASSERT_EQ(channels[(me + 1) % kLoops]->Put(last[me] + 1), ChannelResult::kOk);
        }
      });
      loop.Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(last[0], kLoops * kRounds - 1);
}

// The group of a loop that has ended is used again; what another thread still does there harms nobody.
TEST(FiberLoop, LoopsComeAndGoWhileOthersWakeTheirFibers) {
  for (int i = 0; i < 200; ++i) {
    FiberEvent event;
    FiberEvent back;
    std::thread waker;
    {
      FiberLoop loop(Unlimited());
      loop.AddTask([&] {
        event.Wait();
        back.Set();
      });
      waker = std::thread([&] { event.Set(); });
      loop.Run();
    }
    EXPECT_TRUE(back.IsSet());
    waker.join();
  }
}

// --- Misuse ---

TEST(FiberLoopDeathTest, TasksThatAreLeftEndTheProcessAndAreNamed) {
  EXPECT_DEATH(
      {
        FiberEvent never;
        FiberLoop loop({.name = "clients"});
        loop.AddTask({.name = "reader"}, [&] { never.Wait(); });
        loop.RunReady();
        loop.AddTask({.name = "late"}, [] {});
      },
      "loop \"clients\" has 2 tasks that have not ended: .*reader.* is parked.*late.* is queued");
}

TEST(FiberLoopDeathTest, ALoopIsNotRunByAFiber) {
  const std::string refusal = ": a thread that runs a fiber cannot run a loop, but in RunInMainContext..; the caller";
  EXPECT_DEATH(
      {
        FiberLoop loop(Unlimited());
        loop.AddTask({.name = "inner"}, [&] { loop.RunReady(); });
        loop.Run();
      },
      "FiberLoop::RunReady" + refusal + " is fiber 'inner'");
  EXPECT_DEATH(
      {
        FiberLoop loop(Unlimited());
        FiberLoop other(Unlimited());
        loop.AddTask({.name = "inner"}, [&] { other.Run(); });
        loop.Run();
      },
      "FiberLoop::Run" + refusal + " is fiber 'inner'");
  EXPECT_DEATH(
      {
        FiberLoop loop(Unlimited());
        loop.AddTask([&] { FiberLoop nested; });
        loop.Run();
      },
      "FiberLoop" + refusal);
}

TEST(FiberLoopDeathTest, ALoopIsNotRunTwice) {
  const std::string refusal = ": the loop runs already, by a caller of the caller";
  EXPECT_DEATH(
      {
        FiberLoop loop(Unlimited());
        loop.AddTask([&] { loop.RunInMainContext([&] { loop.Run(); }); });
        loop.Run();
      },
      "FiberLoop::Run" + refusal);
  EXPECT_DEATH(
      {
        FiberLoop one(Unlimited());
        FiberLoop two(Unlimited());
        one.RunInMainContext([&] { two.RunInMainContext([&] { one.RunReady(); }); });
      },
      "FiberLoop::RunReady" + refusal);
  EXPECT_DEATH(
      {
        FiberLoop one(Unlimited());
        FiberLoop two(Unlimited());
        one.RunInMainContext([&] { two.RunInMainContext([&] { one.AddTaskEager([] {}); }); });
      },
      "FiberLoop::AddTaskEager" + refusal);
  EXPECT_DEATH(
      {
        auto loop = std::make_unique<FiberLoop>();
        loop->RunInMainContext([&] { loop.reset(); });
      },
      "FiberLoop::~FiberLoop: the loop runs");
}

TEST(FiberLoopDeathTest, AFiberOfAnotherLoopHasNoStackBelowItInThisOne) {
  const auto run = [](auto call) {
    FiberLoop one(Unlimited());
    FiberLoop two(Unlimited());
    one.AddTask({.name = "of one"}, [&] { call(two); });
    one.Run();
  };
  EXPECT_DEATH(run([](FiberLoop& two) { two.AddTaskEager([] {}); }),
               "FiberLoop::AddTaskEager: the caller is fiber 'of one' .*, of another loop");
  EXPECT_DEATH(run([](FiberLoop& two) { two.RunInMainContext([] {}); }),
               "FiberLoop::RunInMainContext: the caller is fiber 'of one' .*, of another loop");
}

TEST(FiberLoopDeathTest, OnlyTheOwnerAddsTasksAndRunsTheLoop) {
  EXPECT_DEATH(
      {
        FiberLoop loop(Unlimited());
        std::thread([&] { loop.AddTask([] {}); }).join();
      },
      "FiberLoop::AddTask: the caller is neither the thread that made the loop nor a fiber of the loop");
  EXPECT_DEATH(
      {
        FiberLoop loop(Unlimited());
        std::thread([&] { loop.RunReady(); }).join();
      },
      "FiberLoop::RunReady: the caller is neither");
}

}  // namespace
}  // namespace weft
