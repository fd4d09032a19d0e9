// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Plain threads and fibers at the same primitives at the same time.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_seqlock.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

constexpr int kScale = WEFT_ASAN || WEFT_TSAN ? 5 : 1;

// `threads` plain threads and `fibers` fibers run body(number); returns when all have ended.
class Crowd {
 public:
  Crowd(int threads, int fibers, const std::function<void(int)>& body) {
    for (int i = 0; i < fibers; ++i) fibers_.emplace_back([&body, i] { body(i); });
    for (int i = 0; i < threads; ++i) threads_.emplace_back([&body, n = fibers + i] { body(n); });
    for (std::thread& thread : threads_) thread.join();
    for (Fiber& fiber : fibers_) fiber.Join();
  }

 private:
  std::vector<Fiber> fibers_;
  std::vector<std::thread> threads_;
};

// Yields to others, whatever the caller is.
void GiveWay() {
  if (IsRunningInFiberWorker()) {
    FiberYield();
  } else {
    std::this_thread::yield();
  }
}

class Mixed : public InEachShape {};
WEFT_INSTANTIATE_SHAPES(Mixed);

TEST_P(Mixed, MutexCountsEveryLock) {
  constexpr int kRounds = 2000 / kScale;
  FiberMutex mutex;
  int counter = 0;
  Crowd(3, 16, [&](int n) {
    for (int i = 0; i < kRounds; ++i) {
      const std::scoped_lock lock(mutex);
      const int before = counter;
      if ((i + n) % 64 == 0) GiveWay();
      counter = before + 1;
    }
  });
  EXPECT_EQ(counter, 19 * kRounds);
}

TEST_P(Mixed, TimedMutexCountsWhoGotIt) {
  FiberTimedMutex mutex;
  std::atomic<int> got{0};
  int counter = 0;
  Crowd(2, 8, [&](int n) {
    for (int i = 0; i < 300 / kScale; ++i) {
      if (!mutex.try_lock_for(std::chrono::microseconds(50 * (n + 1)))) continue;
      ++got;
      ++counter;
      if (i % 16 == 0) GiveWay();
      mutex.unlock();
    }
  });
  EXPECT_EQ(counter, got);
}

TEST_P(Mixed, SharedMutexKeepsReadersFromHalfWrittenPairs) {
  FiberSharedMutex mutex;
  int a = 0;
  int b = 0;
  Crowd(3, 12, [&](int n) {
    for (int i = 0; i < 500 / kScale; ++i) {
      if ((n + i) % 8 == 0) {
        const std::unique_lock lock(mutex);
        ++a;
        if (i % 32 == 0) GiveWay();
        ++b;
      } else {
        const std::shared_lock lock(mutex);
        ASSERT_EQ(a, b);
        if (i % 64 == 0) GiveWay();
        ASSERT_EQ(a, b);
      }
    }
  });
  EXPECT_EQ(a, b);
}

TEST_P(Mixed, SeqLockReadersSeeWholeWrites) {
  FiberSeqLock lock;
  std::atomic<int> a{0};
  std::atomic<int> b{0};
  Crowd(2, 8, [&](int n) {
    for (int i = 0; i < 500 / kScale; ++i) {
      if (n % 4 == 0) {
        lock.WriteSeqLock();
        a.store(a.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        b.store(b.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        lock.WriteSeqUnlock();
      } else {
        int seen_a = 0;
        int seen_b = 0;
        unsigned sequence = 0;
        do {
          sequence = lock.ReadSeqBegin();
          seen_a = a.load(std::memory_order_relaxed);
          seen_b = b.load(std::memory_order_relaxed);
        } while (lock.ReadSeqRetry(sequence) != 0);
        ASSERT_EQ(seen_a, seen_b);
      }
    }
  });
}

TEST_P(Mixed, ConditionVariableHandsEveryItemOver) {
  constexpr int kItems = 5000 / kScale;
  FiberMutex mutex;
  FiberConditionVariable not_empty;
  FiberConditionVariable not_full;
  std::vector<int> items;
  int produced = 0;
  std::atomic<int> consumed{0};
  Crowd(4, 8, [&](int n) {
    const bool produces = n % 2 == 0;
    for (;;) {
      std::unique_lock lock(mutex);
      if (produces) {
        not_full.wait(lock, [&] { return items.size() < 8 || produced == kItems; });
        if (produced == kItems) return;
        items.push_back(++produced);
        const bool last = produced == kItems;
        lock.unlock();
        not_empty.notify_one();
        if (last) not_full.notify_all();
      } else {
        // Timed, so that the end needs no further message.
        if (!not_empty.wait_for(lock, 20ms, [&] { return !items.empty(); })) {
          if (produced == kItems && items.empty()) return;
          continue;
        }
        items.pop_back();
        ++consumed;
        lock.unlock();
        not_full.notify_one();
      }
    }
  });
  EXPECT_EQ(consumed, kItems);
}

TEST_P(Mixed, SemaphoreNeverAdmitsMoreThanItsUnits) {
  FiberSemaphore semaphore(3);
  std::atomic<int> inside{0};
  Crowd(3, 12, [&](int n) {
    for (int i = 0; i < 500 / kScale; ++i) {
      semaphore.Acquire();
      ASSERT_LE(++inside, 3);
      if ((n + i) % 16 == 0) GiveWay();
      --inside;
      semaphore.Release();
    }
  });
}

TEST_P(Mixed, LatchesOnTheStackOpenForAll) {
  for (int round = 0; round < 200 / kScale; ++round) {
    FiberLatch latch(6);
    std::atomic<int> through{0};
    Crowd(2, 4, [&](int) {
      latch.ArriveAndWait();
      ++through;
    });
    ASSERT_EQ(through, 6);
  }
}

TEST_P(Mixed, EventsPingPongBetweenAThreadAndAFiber) {
  FiberEvent ping;
  FiberEvent pong;
  constexpr int kRounds = 5000 / kScale;
  int token = 0;
  Fiber fiber([&] {
    for (int i = 0; i < kRounds; ++i) {
      ping.Wait();
      ping.Reset();
      ++token;
      pong.Set();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ++token;
    ping.Set();
    pong.Wait();
    pong.Reset();
  }
  fiber.Join();
  EXPECT_EQ(token, 2 * kRounds);
}

TEST_P(Mixed, BarrierKeepsThePhasesApart) {
  constexpr int kPhases = 100 / kScale;
  FiberBarrier barrier(8);
  std::atomic<int> arrived[kPhases] = {};
  Crowd(3, 5, [&](int) {
    for (int phase = 0; phase < kPhases; ++phase) {
      ++arrived[phase];
      barrier.ArriveAndWait();
      ASSERT_EQ(arrived[phase], 8);
    }
  });
}

TEST_P(Mixed, ChannelDeliversEachItemOnce) {
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{16}}) {
    constexpr int kItems = 2000 / kScale;
    constexpr int kProducers = 5;
    FiberChannel<int> channel(capacity);
    std::atomic<std::int64_t> sum{0};
    std::atomic<int> producing{kProducers};
    Crowd(4, 6, [&](int n) {
      if (n % 2 == 0) {
        for (int i = 1; i <= kItems; ++i) ASSERT_EQ(channel.Put(i), ChannelResult::kOk);
        if (--producing == 0) channel.Close();
      } else {
        for (const int item : channel) sum += item;
      }
    });
    EXPECT_EQ(sum, std::int64_t{kProducers} * kItems * (kItems + 1) / 2);
  }
}

TEST_P(Mixed, BoundedQueueStopWakesAllAndDropsNothing) {
  constexpr int kItems = 2000 / kScale;
  FiberBlockingBoundedQueue<int> queue(8);
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> producing{4};
  Crowd(4, 4, [&](int n) {
    if (n % 2 == 0) {
      for (int i = 1; i <= kItems; ++i) ASSERT_TRUE(queue.Push(int{i}));
      if (--producing == 0) queue.Stop();
    } else {
      int item = 0;
      while (queue.Pop(item)) sum += item;
    }
  });
  EXPECT_EQ(sum, std::int64_t{4} * kItems * (kItems + 1) / 2);
}

TEST_P(Mixed, ThreadsAndFibersStartAndJoinEachOthersFibers) {
  std::atomic<int> runs{0};
  Crowd(3, 8, [&](int n) {
    for (int i = 0; i < 200 / kScale; ++i) {
      Fiber fiber(i % 3 == 0 ? Launch::Dispatch : Launch::Post, [&runs, n, i] {
        if ((n + i) % 8 == 0) FiberYield();
        ++runs;
      });
      if (i % 5 == 0) {
        fiber.Detach();
      } else {
        fiber.Join();
      }
    }
  });
  EXPECT_EQ(TerminateRuntime(), 0U);  // Also waits for the detached ones.
  EXPECT_EQ(runs, 11 * (200 / kScale));
}

}  // namespace
}  // namespace weft::fiber
