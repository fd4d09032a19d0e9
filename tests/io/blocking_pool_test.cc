// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/blocking/blocking_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/io/fiber_blocking.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/wait/wait_queue.h"

#include "io/blocking_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using synchronization::Interruptible;
using synchronization::WaitResult;

BlockingPool::Options Threads(std::int64_t threads, std::int64_t queue_size = 1024) {
  return {.threads = threads, .queue_size = queue_size};
}

// A std::thread, unless it is told to refuse.
class RefusingMaker {
 public:
  BlockingPool::ThreadMaker maker() {
    return [this](std::function<void()> body) {
      asked.fetch_add(1);
      if (refuse) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "no thread");
      std::thread(std::move(body)).detach();
    };
  }
  std::atomic<int> asked{0};
  std::atomic<bool> refuse{true};
};

class BlockingPoolTest : public BlockingTest {};
WEFT_INSTANTIATE_BLOCKING(BlockingPoolTest);

// --- Threads ---

TEST_P(BlockingPoolTest, ManyCallsInFlightLeaveTheWorkersFree) {
  constexpr int kCalls = 64;
  BlockingPool pool(Threads(kCalls));
  std::latch all_at_once(kCalls);
  Gate gate;
  FiberLatch ended(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      RunBlocking(pool, [&] {
        all_at_once.arrive_and_wait();
        gate.Pass();
      });
      ended.CountDown();
    }));
  }
  InFiber([&] {
    YieldUntil([&] { return gate.arrived() == kCalls; });
    const BlockingCounts counts = pool.counts();
    EXPECT_EQ(counts.running, std::size_t{kCalls});
    EXPECT_EQ(counts.threads, std::size_t{kCalls});
    EXPECT_EQ(counts.idle_threads, 0U);
    // As many fibers as there are workers, all in turn.
    for (int i = 0; i < 100; ++i) Fiber([] { FiberYield(); }).Join();
    gate.Open();
    ended.Wait();
  });
  EXPECT_EQ(pool.counts().calls, std::uint64_t{kCalls});
}

TEST_P(BlockingPoolTest, OneCallerIsServedByOneThread) {
  BlockingPool pool(Threads(8));
  InFiber([&] {
    int sum = 0;
    for (int i = 0; i < 1000; ++i) sum += RunBlocking(pool, [i] { return i; });
    EXPECT_EQ(sum, 499'500);
  });
  const BlockingCounts counts = pool.counts();
  EXPECT_EQ(counts.threads, 1U);
  EXPECT_EQ(counts.calls, 1000U);
  EXPECT_GT(counts.longest_wait, 0ns);
}

TEST_P(BlockingPoolTest, ThreadsEndWhenIdleAndAreMadeAgain) {
  BlockingPool pool({.threads = 4, .idle_timeout = 1ms});
  for (int round = 0; round < 3; ++round) {
    FiberLatch ended(4);
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(StartFiberDetached([&] {
        RunBlocking(pool, [] {});
        ended.CountDown();
      }));
    }
    ended.Wait();
    YieldUntil([&] { return pool.counts().threads == 0; });
    EXPECT_EQ(pool.counts().idle_threads, 0U);
  }
  EXPECT_EQ(pool.counts().calls, 12U);
}

// Threads that end race with calls that count on them.
TEST_P(BlockingPoolTest, NoCallIsLostToAThreadThatEnds) {
  BlockingPool pool({.threads = 4, .idle_timeout = 0ms});
  std::atomic<int> ran{0};
  std::vector<Fiber> fibers;
  for (int i = 0; i < 4; ++i) {
    fibers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) RunBlocking(pool, [&] { ++ran; });
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(ran, 2000);
}

TEST(BlockingPoolThreads, RunWhereTheMainThreadMayAndNotOnlyOnTheWorkersCpus) {
  cpu_set_t mine;
  ASSERT_EQ(::sched_getaffinity(::getpid(), sizeof(mine), &mine), 0);
  if (CPU_COUNT(&mine) < 2) GTEST_SKIP() << "one CPU only";
  int first = 0;
  while (!CPU_ISSET(first, &mine)) ++first;
  RuntimeOptions options = fiber::OptionsOf({1, 1});
  options.worker_accessible_cpus = std::to_string(first);
  const fiber::RuntimeOf runtime(options);
  BlockingPool pool(Threads(1));
  Fiber([&] {
    cpu_set_t of_worker;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(of_worker), &of_worker), 0);
    ASSERT_EQ(CPU_COUNT(&of_worker), 1);
    const cpu_set_t of_thread = RunBlocking(pool, [] {
      cpu_set_t set;
      CPU_ZERO(&set);
      EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
      return set;
    });
    EXPECT_TRUE(CPU_EQUAL(&of_thread, &mine));
  }).Join();
}

// --- Back-pressure ---

TEST_P(BlockingPoolTest, CallersWaitForCapacityWhenTheQueueIsFullAndNothingIsLost) {
  constexpr int kCallers = 8;
  BlockingPool pool(Threads(1, 2));
  Gate gate;
  std::vector<int> order;  // One thread writes it.
  FiberLatch ended(kCallers);
  InFiber([&] {
    for (int i = 0; i < kCallers; ++i) {
      ASSERT_TRUE(StartFiberDetached([&, i] {
        RunBlocking(pool, [&, i] {
          gate.Pass();
          order.push_back(i);
        });
        ended.CountDown();
      }));
      // The first runs, two are in the queue, five wait for room. One after the other: a thread gives room back after
      // it has begun with its call, and who waited for that room may still be on its way into the queue.
      const std::size_t behind = static_cast<std::size_t>(i);
      YieldUntil([&] {
        const BlockingCounts counts = pool.counts();
        return counts.running == 1 && counts.queued == std::min<std::size_t>(behind, 2) &&
               counts.waiting_for_capacity == behind - counts.queued;
      });
    }
    gate.Open();
    ended.Wait();
  });
  // Two callers that get room at once, on two workers, may enter the queue in either order.
  if (workers() > 1) std::sort(order.begin(), order.end());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7})) << "first come, first served";
}

TEST_P(BlockingPoolTest, TheWaitForCapacityEndsInTime) {
  BlockingPool pool(Threads(1, 1));
  Gate gate;
  Fiber running([&] { RunBlocking(pool, [&] { gate.Pass(); }); });
  YieldUntil([&] { return pool.counts().running == 1; });
  Fiber queued([&] { RunBlocking(pool, [] {}); });
  YieldUntil([&] { return pool.counts().queued == 1; });
  InFiber([&] {
    bool ran = false;
    EXPECT_EQ(RunBlocking(
                  pool, [] { ADD_FAILURE() << "it was given up"; }, &ran, Interruptible::kNo, 1ms),
              WaitResult::kTimedOut);
    EXPECT_FALSE(ran);
  });
  gate.Open();
  running.Join();
  queued.Join();
}

// The log has a line a second at most: until ours gets one.
TEST(BlockingPoolLog, AFullQueueIsReported) {
  LogCatcher log;
  BlockingPool pool(Threads(1, 1));
  Gate gate;
  std::thread running([&] { RunBlocking(pool, [&] { gate.Pass(); }); });
  YieldUntil([&] { return pool.counts().running == 1; });
  std::thread queued([&] { RunBlocking(pool, [] {}); });
  YieldUntil([&] { return pool.counts().queued == 1; });
  YieldUntil([&] {
    bool ran = false;
    EXPECT_EQ(RunBlocking(
                  pool, [] {}, &ran, Interruptible::kNo, 1ms),
              WaitResult::kTimedOut);
    return log.Has("blocking calls have to wait for room: 1 wait for one of the 1 threads already (--fiber_blocking_");
  });
  gate.Open();
  running.join();
  queued.join();
}

// --- No thread to be had ---

TEST_P(BlockingPoolTest, CallsWaitUntilTheSystemGivesAThread) {
  RefusingMaker maker;
  BlockingPool pool({.threads = 4, .make_thread = maker.maker()});
  std::atomic<int> ran{0};
  std::vector<Fiber> fibers;
  for (int i = 0; i < 10; ++i) fibers.emplace_back([&] { RunBlocking(pool, [&] { ++ran; }); });
  YieldUntil([&] { return pool.counts().threads_refused >= 3; });
  EXPECT_EQ(ran, 0);
  InFiber([&] {  // The worker is free, and the limit of time holds.
    bool done = false;
    EXPECT_EQ(RunBlocking(
                  pool, [&] { ++ran; }, &done, Interruptible::kNo, 1ms),
              WaitResult::kTimedOut);
    EXPECT_FALSE(done);
  });
  maker.refuse = false;
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(ran, 10);
}

TEST_P(BlockingPoolTest, TheThreadsThatThereAreGoOnWhenNoneCanBeAdded) {
  RefusingMaker maker;
  maker.refuse = false;
  BlockingPool pool({.threads = 4, .make_thread = maker.maker()});
  Gate gate;
  Fiber first([&] { RunBlocking(pool, [&] { gate.Pass(); }); });
  YieldUntil([&] { return gate.arrived() == 1; });
  maker.refuse = true;
  std::atomic<int> ran{0};
  std::vector<Fiber> fibers;
  for (int i = 0; i < 10; ++i) fibers.emplace_back([&] { RunBlocking(pool, [&] { ++ran; }); });
  // A caller whose call is in the queue may not have been refused a thread yet.
  YieldUntil([&] {
    const BlockingCounts counts = pool.counts();
    return counts.queued == 10 && counts.threads == 1;
  });
  EXPECT_GE(pool.counts().threads_refused, 1U);
  gate.Open();
  first.Join();
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(ran, 10);
}

TEST(BlockingPoolLog, RefusedThreadsAreReported) {
  LogCatcher log;
  RefusingMaker maker;
  BlockingPool pool({.threads = 2, .make_thread = maker.maker()});
  Gate gate;
  std::thread first([&] { RunBlocking(pool, [&] { gate.Pass(); }); });
  YieldUntil([&] {
    return log.Has("the system gives no thread for blocking calls (no thread: Resource temporarily unavailable)");
  });
  maker.refuse = false;
  YieldUntil([&] { return gate.arrived() == 1; });
  maker.refuse = true;
  YieldUntil([&] {
    bool ran = false;
    EXPECT_EQ(RunBlocking(
                  pool, [] {}, &ran, Interruptible::kNo, 1ms),
              WaitResult::kTimedOut);
    return log.Has(
        "the system gives no further thread for blocking calls (no thread: Resource temporarily unavailable): "
        "the 1 that there are go on");
  });
  gate.Open();
  first.join();
}

// A second call counts on the thread that the first one makes, in vain.
TEST(BlockingPoolRefused, ACallThatCountedOnTheRefusedThreadComesAgain) {
  std::atomic<int> asked{0};
  BlockingPool* the_pool = nullptr;
  BlockingPool pool({.threads = 1, .make_thread = [&](std::function<void()> body) {
                       if (++asked == 1) {
                         YieldUntil([&] { return the_pool->counts().queued == 2; });
                         throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
                       }
                       std::thread(std::move(body)).detach();
                     }});
  the_pool = &pool;
  std::atomic<int> ran{0};
  std::thread first([&] { RunBlocking(pool, [&] { ++ran; }); });
  YieldUntil([&] { return asked == 1; });
  std::thread second([&] { RunBlocking(pool, [&] { ++ran; }); });
  first.join();
  second.join();
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(pool.counts().threads_refused, 1U);
}

// --- Giving up ---

TEST_P(BlockingPoolTest, ACallThatIsGivenUpInTheQueueNeverRuns) {
  BlockingPool pool(Threads(1));
  Gate gate;
  Fiber running([&] { RunBlocking(pool, [&] { gate.Pass(); }); });
  YieldUntil([&] { return pool.counts().running == 1; });
  InFiber([&] {
    const auto owned = std::make_shared<int>(0);
    bool done = false;
    EXPECT_EQ(RunBlocking(
                  pool, [owned] { ++*owned; }, &done, Interruptible::kNo, 1ms),
              WaitResult::kTimedOut);
    EXPECT_FALSE(done);
    EXPECT_EQ(owned.use_count(), 1) << "the callable was not destroyed";
    EXPECT_EQ(pool.counts().queued, 0U);
    gate.Open();
    RunBlocking(pool, [] {});  // Behind where the other one was.
    EXPECT_EQ(*owned, 0);
  });
  running.Join();
}

TEST_P(BlockingPoolTest, ACallThatIsGivenUpWhileItRunsLivesUntilItEnds) {
  const auto owned = std::make_shared<Gate>();
  const auto result = std::make_shared<int>(7);
  {
    BlockingPool pool(Threads(2));
    InFiber([&] {
      std::optional<std::shared_ptr<int>> answer;
      // The end of its time may come before it has begun: until one does.
      while (pool.counts().abandoned == 0) {
        EXPECT_EQ(RunBlocking(
                      pool,
                      [owned, result] {
                        owned->Pass();
                        return result;
                      },
                      &answer, Interruptible::kNo, 1ms),
                  WaitResult::kTimedOut);
      }
      EXPECT_FALSE(answer.has_value());
      EXPECT_EQ(pool.counts().abandoned, 1U);
      EXPECT_EQ(owned.use_count(), 2);
      EXPECT_EQ(RunBlocking(pool, [] { return 1; }), 1) << "the other thread serves";
    });
    owned->Open();
  }  // Its end waits for the call.
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_EQ(result.use_count(), 1) << "nobody has destroyed the result";
}

TEST(BlockingPoolLog, TheExceptionOfACallThatWasGivenUpIsReported) {
  LogCatcher log;
  YieldUntil([&] {
    BlockingPool pool(Threads(1));
    const auto gate = std::make_shared<Gate>();
    bool done = false;
    while (pool.counts().abandoned == 0) {
      EXPECT_EQ(RunBlocking(
                    pool,
                    [gate] {
                      gate->Pass();
                      throw std::runtime_error("too late");
                    },
                    &done, Interruptible::kNo, 1ms),
                WaitResult::kTimedOut);
    }
    gate->Open();
    YieldUntil([&] { return pool.counts().running == 0; });
    return log.Has("a blocking call whose caller had given it up has thrown: too late");
  });
}

TEST_P(BlockingPoolTest, ACancellationEndsTheWaitThatAllowsIt) {
  BlockingPool pool(Threads(2));
  const auto gate = std::make_shared<Gate>();
  Fiber waiting([&] {
    bool done = false;
    EXPECT_EQ(RunBlocking(
                  pool, [gate] { gate->Pass(); }, &done, Interruptible::kYes, Deadline::None()),
              WaitResult::kInterrupted);
    EXPECT_FALSE(done);
  });
  YieldUntil([&] { return gate->arrived() == 1; });
  EXPECT_TRUE(waiting.Cancel());
  waiting.Join();
  gate->Open();
}

TEST_P(BlockingPoolTest, ACancellationDoesNotEndACallThatMayReferToItsCaller) {
  BlockingPool pool(Threads(2));
  Gate gate;
  std::atomic<bool> ended{false};
  Fiber waiting([&] {
    int local = 0;
    RunBlocking(pool, [&] {
      gate.Pass();
      ++local;
    });
    EXPECT_EQ(local, 1);
    ended = true;
  });
  YieldUntil([&] { return gate.arrived() == 1; });
  EXPECT_TRUE(waiting.Cancel());
  EXPECT_FALSE(ended);
  gate.Open();
  waiting.Join();
  EXPECT_TRUE(ended);
}

// --- All at once ---

TEST_P(BlockingPoolTest, ManyCallersWithAndWithoutLimits) {
  constexpr int kFibers = 200;
  const int rounds = WEFT_TSAN || WEFT_ASAN ? 10 : 50;
  std::atomic<std::int64_t> begun{0};
  std::int64_t answered = 0;
  std::int64_t given_up = 0;
  {
    BlockingPool pool({.threads = 4, .queue_size = 16, .idle_timeout = 1ms});
    std::atomic<std::int64_t> answers{0}, time_outs{0};
    std::vector<Fiber> fibers;
    for (int i = 0; i < kFibers; ++i) {
      fibers.emplace_back([&, i] {
        for (int round = 0; round < rounds; ++round) {
          const int expected = i * rounds + round;
          if ((i + round) % 3 != 0) {
            int on_my_stack = 0;
            EXPECT_EQ(RunBlocking(pool,
                                  [&] {
                                    ++begun;
                                    on_my_stack = expected;
                                    return std::to_string(expected);
                                  }),
                      std::to_string(expected));
            EXPECT_EQ(on_my_stack, expected);
            ++answers;
            continue;
          }
          std::optional<std::unique_ptr<int>> answer;
          const Deadline deadline = std::chrono::microseconds(expected % 400);
          const WaitResult result = RunBlocking(
              pool,
              [&begun, owned = std::make_unique<int>(expected)]() mutable {
                ++begun;
                return std::move(owned);
              },
              &answer, Interruptible::kNo, deadline);
          EXPECT_EQ(answer.has_value(), result == WaitResult::kNotified);
          if (answer.has_value()) {
            EXPECT_EQ(**answer, expected);
            ++answers;
          } else {
            ++time_outs;
          }
        }
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
    YieldUntil([&] { return pool.counts().running == 0; });
    const BlockingCounts counts = pool.counts();
    EXPECT_EQ(counts.queued, 0U);
    EXPECT_EQ(counts.abandoned, 0U);
    EXPECT_EQ(counts.waiting_for_capacity, 0U);
    EXPECT_LE(counts.threads, 4U);
    EXPECT_EQ(counts.calls, static_cast<std::uint64_t>(begun));
    answered = answers;
    given_up = time_outs;
  }
  EXPECT_EQ(answered + given_up, std::int64_t{kFibers} * rounds);
  EXPECT_GE(begun, answered);
  EXPECT_LE(begun, answered + given_up);
}

TEST(BlockingPoolRefused, ManyCallersWhileThreadsAreRefusedNowAndThen) {
  const fiber::RuntimeOf runtime(fiber::Shape{2, 1});
  std::atomic<unsigned> asked{0};
  LogCatcher log;
  BlockingPool pool(
      {.threads = 3, .queue_size = 4, .idle_timeout = 0ms, .make_thread = [&](std::function<void()> body) {
         if (++asked % 3 != 0) throw std::system_error(std::make_error_code(std::errc::not_enough_memory));
         std::thread(std::move(body)).detach();
       }});
  std::atomic<int> ran{0};
  std::vector<Fiber> fibers;
  for (int i = 0; i < 50; ++i) {
    fibers.emplace_back([&] {
      for (int round = 0; round < 10; ++round) RunBlocking(pool, [&] { ++ran; });
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(ran, 500);
  EXPECT_GE(pool.counts().threads_refused, 1U);
}

// --- Options ---

TEST(BlockingPoolOptionsDeathTest, APoolOfNoThreadsOrNoCapacityIsNotMade) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(BlockingPool({.threads = 0}), "0 threads and room for 1024 calls: at least 1 each");
  EXPECT_DEATH(BlockingPool({.queue_size = 0}), "64 threads and room for 0 calls: at least 1 each");
}

// --- Posted calls ---

// Counts what is done to it.
class Posted final : public BlockingCall {
 public:
  struct Seen {
    std::atomic<int> ran{0};
    std::atomic<int> dropped{0};
  };
  explicit Posted(Seen* seen, Gate* gate = nullptr) : seen_(seen), gate_(gate) {}

 private:
  void Run() noexcept override {
    if (gate_ != nullptr) gate_->Pass();
    ++seen_->ran;
  }
  void Drop() noexcept override {
    ++seen_->dropped;
    delete this;
  }

  Seen* const seen_;
  Gate* const gate_;
};

TEST_P(BlockingPoolTest, APostedCallIsRunAndDroppedByThePool) {
  Posted::Seen seen;
  Gate gate;
  {
    BlockingPool pool(Threads(2));
    InFiber([&] { EXPECT_EQ(pool.Post(new Posted(&seen, &gate), Interruptible::kYes, {}), WaitResult::kNotified); });
    EXPECT_EQ(pool.Post(new Posted(&seen, &gate), Interruptible::kYes, {}), WaitResult::kNotified);
    YieldUntil([&] { return gate.arrived() == 2; });
    EXPECT_EQ(pool.counts().running, 2U);
    EXPECT_EQ(pool.counts().abandoned, 0U);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(pool.Post(new Posted(&seen), Interruptible::kYes, {}), WaitResult::kNotified);
    }
    EXPECT_EQ(seen.ran, 0);
    gate.Open();
    YieldUntil([&] { return seen.ran == 7 && pool.counts().running == 0; });
    EXPECT_EQ(pool.counts().abandoned, 0U);
    InFiber([&] { EXPECT_EQ(RunBlocking(pool, [] { return 7; }), 7); });
    EXPECT_EQ(pool.Post(new Posted(&seen), Interruptible::kYes, {}), WaitResult::kNotified);
  }
  EXPECT_EQ(seen.ran, 8) << "the destructor waits for what was posted";
  EXPECT_EQ(seen.dropped, 8);
}

TEST_P(BlockingPoolTest, APostedCallForWhichThereIsNoRoomOrNoThreadIsDropped) {
  Posted::Seen seen;
  RefusingMaker threads;
  Gate gate;
  BlockingPool pool({.threads = 1, .queue_size = 1, .make_thread = threads.maker()});
  EXPECT_EQ(pool.Post(new Posted(&seen), Interruptible::kYes, {}), WaitResult::kNotified) << "making it fails (BP1)";
  EXPECT_EQ(seen.dropped, 1);
  EXPECT_EQ(pool.Post(new Posted(&seen), Interruptible::kYes, {}), WaitResult::kNotified)
      << "it is not tried again yet";
  EXPECT_EQ(seen.dropped, 2);
  threads.refuse = false;
  YieldUntil([&] {  // From kRetryAfter on.
    const int before = seen.dropped;
    EXPECT_EQ(pool.Post(new Posted(&seen, &gate), Interruptible::kYes, {}), WaitResult::kNotified);
    return seen.dropped == before;
  });
  YieldUntil([&] { return gate.arrived() == 1; });
  EXPECT_EQ(pool.Post(new Posted(&seen), Interruptible::kYes, {}), WaitResult::kNotified);
  const int before = seen.dropped;
  EXPECT_EQ(pool.Post(new Posted(&seen), Interruptible::kYes, 1ms), WaitResult::kTimedOut);
  EXPECT_EQ(seen.dropped, before + 1);
  EXPECT_EQ(seen.ran, 0);
  gate.Open();
}

}  // namespace
}  // namespace weft::io
