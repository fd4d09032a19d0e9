// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/worker/time_slice.h by what waits: fibers that never find a reason to wait.
#include "weft/scheduling_group/worker/time_slice.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_blocking_noncontiguous_buffer.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_seqlock.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/sync/select.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/sync/wait_group.h"

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Countdown;
using testing::TimedGroup;

// What a fiber does again and again, and for which it never has to wait.
struct Operation {
  const char* name;
  std::function<void()> (*make)();
};

template <class Primitive, class Use>
std::function<void()> Looping(std::shared_ptr<Primitive> primitive, Use use) {
  return [primitive = std::move(primitive), use] { use(*primitive); };
}

std::shared_ptr<FiberEvent> SetEvent() {
  auto event = std::make_shared<FiberEvent>();
  event->Set();
  return event;
}

struct ANotTrivialItem {
  explicit ANotTrivialItem(int the_value) : value(std::make_unique<int>(the_value)) {}
  std::unique_ptr<int> value;
};

const Operation kOperations[] = {
    {"FiberMutexLock",
     [] { return Looping(std::make_shared<FiberMutex>(), [](FiberMutex& mutex) { std::scoped_lock lock(mutex); }); }},
    {"FiberTimedMutexLock",
     [] {
       return Looping(std::make_shared<FiberTimedMutex>(),
                      [](FiberTimedMutex& mutex) { std::scoped_lock lock(mutex); });
     }},
    {"FiberTimedMutexTryLockFor",
     [] {
       return Looping(std::make_shared<FiberTimedMutex>(),
                      [](FiberTimedMutex& mutex) { std::unique_lock lock(mutex, 1h); });
     }},
    {"FiberTimedMutexTryLockUntil",
     [] {
       return Looping(std::make_shared<FiberTimedMutex>(), [](FiberTimedMutex& mutex) {
         std::unique_lock lock(mutex, std::chrono::steady_clock::time_point::max());
       });
     }},
    {"FiberSharedMutexLock",
     [] {
       return Looping(std::make_shared<FiberSharedMutex>(),
                      [](FiberSharedMutex& mutex) { std::scoped_lock lock(mutex); });
     }},
    {"FiberSharedMutexTryLockFor",
     [] {
       return Looping(std::make_shared<FiberSharedMutex>(),
                      [](FiberSharedMutex& mutex) { std::unique_lock lock(mutex, 1h); });
     }},
    {"FiberSharedMutexTryLockUntil",
     [] {
       return Looping(std::make_shared<FiberSharedMutex>(), [](FiberSharedMutex& mutex) {
         std::unique_lock lock(mutex, std::chrono::steady_clock::time_point::max());
       });
     }},
    {"FiberSharedMutexLockShared",
     [] {
       return Looping(std::make_shared<FiberSharedMutex>(),
                      [](FiberSharedMutex& mutex) { std::shared_lock lock(mutex); });
     }},
    {"FiberSharedMutexTryLockSharedFor",
     [] {
       return Looping(std::make_shared<FiberSharedMutex>(),
                      [](FiberSharedMutex& mutex) { std::shared_lock lock(mutex, 1h); });
     }},
    {"FiberSharedMutexTryLockSharedUntil",
     [] {
       return Looping(std::make_shared<FiberSharedMutex>(), [](FiberSharedMutex& mutex) {
         std::shared_lock lock(mutex, std::chrono::steady_clock::time_point::max());
       });
     }},
    {"FiberSemaphoreAcquire",
     [] {
       return Looping(std::make_shared<FiberSemaphore>(1), [](FiberSemaphore& semaphore) {
         semaphore.Acquire();
         semaphore.Release();
       });
     }},
    {"FiberSemaphoreAcquireFor",
     [] {
       return Looping(std::make_shared<FiberSemaphore>(1), [](FiberSemaphore& semaphore) {
         if (semaphore.Acquire(1h)) semaphore.Release();
       });
     }},
    {"FiberSemaphoreAcquireForNoTimeInVain",
     [] {
       return Looping(std::make_shared<FiberSemaphore>(0),
                      [](FiberSemaphore& semaphore) { EXPECT_FALSE(semaphore.Acquire(0s)); });
     }},
    {"FiberSemaphoreAcquireUntil",
     [] {
       return Looping(std::make_shared<FiberSemaphore>(1), [](FiberSemaphore& semaphore) {
         if (semaphore.Acquire(std::chrono::steady_clock::now() + 1h)) semaphore.Release();
       });
     }},
    {"FiberEventWait", [] { return Looping(SetEvent(), [](FiberEvent& event) { event.Wait(); }); }},
    {"FiberEventWaitWithDeadline",
     [] { return Looping(SetEvent(), [](FiberEvent& event) { EXPECT_TRUE(event.Wait(1h)); }); }},
    {"FiberLatchWait",
     [] { return Looping(std::make_shared<FiberLatch>(0), [](FiberLatch& latch) { latch.Wait(); }); }},
    {"FiberLatchArriveAndWait",
     [] { return Looping(std::make_shared<FiberLatch>(0), [](FiberLatch& latch) { latch.ArriveAndWait(0); }); }},
    {"FiberLatchWaitFor",
     [] { return Looping(std::make_shared<FiberLatch>(0), [](FiberLatch& latch) { latch.WaitFor(1h); }); }},
    {"FiberLatchWaitUntil",
     [] {
       return Looping(std::make_shared<FiberLatch>(0),
                      [](FiberLatch& latch) { latch.WaitUntil(std::chrono::steady_clock::time_point::max()); });
     }},
    {"WaitGroupWait", [] { return Looping(std::make_shared<WaitGroup>(), [](WaitGroup& group) { group.Wait(); }); }},
    {"WaitGroupTimedWait",
     [] {
       return Looping(std::make_shared<WaitGroup>(),
                      [](WaitGroup& group) { static_cast<void>(group.Wait(Deadline(1h))); });
     }},
    {"FiberBarrierOfOne",
     [] { return Looping(std::make_shared<FiberBarrier>(1), [](FiberBarrier& barrier) { barrier.ArriveAndWait(); }); }},
    {"FiberChannelPut",  // Into a closed one: never any room to wait for.
     [] {
       auto channel = std::make_shared<FiberChannel<int>>(1);
       channel->Close();
       return Looping(std::move(channel),
                      [](FiberChannel<int>& closed) { EXPECT_EQ(closed.Put(1), ChannelResult::kClosed); });
     }},
    {"FiberChannelGet",
     [] {
       auto channel = std::make_shared<FiberChannel<int>>(1);
       channel->Close();
       return Looping(std::move(channel), [](FiberChannel<int>& closed) { EXPECT_FALSE(closed.Get().has_value()); });
     }},
    {"FiberChannelPutAndGetOfItemsThatNeedAMutex",
     [] {
       return Looping(std::make_shared<FiberChannel<ANotTrivialItem>>(2), [](FiberChannel<ANotTrivialItem>& channel) {
         EXPECT_EQ(channel.Put(ANotTrivialItem(1)), ChannelResult::kOk);
         EXPECT_TRUE(channel.Get().has_value());
       });
     }},
    {"FiberChannelGetForNoTimeInVain",
     [] {
       return Looping(std::make_shared<FiberChannel<int>>(1), [](FiberChannel<int>& channel) {
         EXPECT_EQ(channel.Get(0s).result(), ChannelResult::kTimedOut);
       });
     }},
    {"SelectOfWhatIsAlwaysReady",
     [] { return Looping(SetEvent(), [](FiberEvent& event) { Select(OnSet(event), OnDeadline(1h)); }); }},
    {"FiberBlockingBoundedQueue",
     [] {
       return Looping(std::make_shared<FiberBlockingBoundedQueue<int>>(2), [](FiberBlockingBoundedQueue<int>& queue) {
         int item = 1;
         queue.Push(std::move(item));
         queue.Pop(item);
       });
     }},
    {"FiberConditionVariableWhosePredicateHolds",
     [] {
       struct Guarded {
         FiberMutex mutex;
         FiberConditionVariable changed;
       };
       return Looping(std::make_shared<Guarded>(), [](Guarded& guarded) {
         std::unique_lock lock(guarded.mutex);
         guarded.changed.wait(lock, [] { return true; });
       });
     }},
    {"FiberSeqLockRead",
     [] {
       return Looping(std::make_shared<FiberSeqLock>(), [](FiberSeqLock& seqlock) {
         while (seqlock.ReadSeqRetry(seqlock.ReadSeqBegin()) != 0) {
         }
       });
     }},
    {"FiberEventWaitOutOfTime",
     [] { return Looping(std::make_shared<FiberEvent>(), [](FiberEvent& event) { EXPECT_FALSE(event.Wait(0s)); }); }},
    {"FiberSemaphoreAcquireOutOfTime",
     [] {
       return Looping(std::make_shared<FiberSemaphore>(0),
                      [](FiberSemaphore& semaphore) { EXPECT_FALSE(semaphore.Acquire(0s)); });
     }},
    {"FiberChannelGetOutOfTime",
     [] {
       return Looping(std::make_shared<FiberChannel<int>>(1),
                      [](FiberChannel<int>& channel) { EXPECT_FALSE(channel.Get(0s).has_value()); });
     }},
    {"SleepUntilAPastTime",
     [] {
       return Looping(std::make_shared<Deadline>(0s), [](const Deadline& past) {
         static_cast<void>(synchronization::SleepUntil(past, synchronization::Interruptible::kNo));
       });
     }},
    {"FiberSeqLockWrite",
     [] {
       return Looping(std::make_shared<FiberSeqLock>(), [](FiberSeqLock& seqlock) {
         seqlock.WriteSeqLock();
         seqlock.WriteSeqUnlock();
       });
     }},
};

// A loop that ends by itself, so that a failed test does not hang.
template <class Done>
bool LoopUntil(const Done& done, const std::function<void()>& operation, std::chrono::seconds limit = 15s) {
  const auto give_up_at = std::chrono::steady_clock::now() + limit;
  for (;;) {
    for (int i = 0; i < 1000; ++i) {
      operation();
      if (done()) return true;
    }
    if (std::chrono::steady_clock::now() > give_up_at) return false;
  }
}

class FiberThatLoopsOver : public ::testing::TestWithParam<Operation> {};

TEST_P(FiberThatLoopsOver, WhatNeverMakesItWaitLetsOthersRun) {
  TimedGroup group(1);
  std::atomic<bool> looping = false;
  std::atomic<bool> other_has_run = false;
  std::atomic<bool> slept = false;
  bool loop_was_ended_by_others = false;
  Countdown over(1);
  group.Start([&] {
    const std::function<void()> operation = GetParam().make();
    looping = true;
    loop_was_ended_by_others = LoopUntil([&] { return other_has_run && slept; }, operation);
    over.Done();
  });
  while (!looping) std::this_thread::yield();
  group.Start([&] { other_has_run = true; });
  group.Start([&] {
    static_cast<void>(synchronization::SleepFor(1ms, synchronization::Interruptible::kNo));
    slept = true;
  });
  ASSERT_TRUE(over.Wait());
  EXPECT_TRUE(loop_was_ended_by_others);
}

INSTANTIATE_TEST_SUITE_P(AllOperations, FiberThatLoopsOver, ::testing::ValuesIn(kOperations),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

// Whatever order the policy has: those behind the loops, those that were started by a fiber that does not end, and
// those that sleep.
TEST(TimeSlice, SeveralFibersThatLoopOnTwoWorkersLetAllOthersRun) {
  constexpr int kLoops = 3;
  constexpr int kOthers = 300;
  TimedGroup group(2);
  std::atomic<int> run = 0;
  std::atomic<int> ended_by_others = 0;
  Countdown over(kLoops);
  for (int i = 0; i < kLoops; ++i) {
    group.Start([&] {
      for (int other = 0; other < kOthers; ++other) {
        group.Start([&, other] {
          if (other % 3 == 0) static_cast<void>(synchronization::SleepFor(1ms, synchronization::Interruptible::kNo));
          ++run;
        });
      }
      FiberMutex mutex;
      if (LoopUntil([&] { return run == kLoops * kOthers; }, [&] { std::scoped_lock lock(mutex); })) ++ended_by_others;
      over.Done();
    });
  }
  ASSERT_TRUE(over.Wait());
  EXPECT_EQ(ended_by_others, kLoops);
}

// One loops over one of them at a time, so that this is where it yields.
TEST(TimeSlice, NobodyYieldsWithTheLockThatHeHasJustTaken) {
  TimedGroup group(1);
  FiberMutex mutex;
  FiberTimedMutex timed;
  FiberSharedMutex shared;
  FiberSemaphore semaphore(1);
  const auto is_free = [](auto& lock) { return std::unique_lock(lock, std::try_to_lock).owns_lock(); };
  struct Case {
    const char* name;
    std::function<void()> use;
    std::function<bool()> is_free;
    int turns_of_the_other = 0;
  };
  Case cases[] = {
      {"FiberMutex::lock()", [&] { std::scoped_lock lock(mutex); }, [&] { return is_free(mutex); }},
      {"FiberTimedMutex::lock()", [&] { std::scoped_lock lock(timed); }, [&] { return is_free(timed); }},
      {"FiberTimedMutex::try_lock_for()", [&] { std::unique_lock lock(timed, 1h); }, [&] { return is_free(timed); }},
      {"FiberSharedMutex::lock()", [&] { std::scoped_lock lock(shared); }, [&] { return is_free(shared); }},
      {"FiberSharedMutex::try_lock_for()", [&] { std::unique_lock lock(shared, 1h); }, [&] { return is_free(shared); }},
      {"FiberSharedMutex::lock_shared()", [&] { std::shared_lock lock(shared); }, [&] { return is_free(shared); }},
      {"FiberSharedMutex::try_lock_shared_for()", [&] { std::shared_lock lock(shared, 1h); },
       [&] { return is_free(shared); }},
      {"FiberSemaphore::Acquire()",
       [&] {
         semaphore.Acquire();
         semaphore.Release();
       },
       [&] {
         const bool acquired = semaphore.TryAcquire();
         if (acquired) semaphore.Release();
         return acquired;
       }},
  };
  Case* used = cases;
  bool done = false;
  std::atomic<bool> looping = false;
  Countdown over(2);
  group.Start([&] {
    looping = true;
    for (Case& one : cases) {
      used = &one;
      EXPECT_TRUE(LoopUntil([&] { return one.turns_of_the_other != 0; }, one.use)) << one.name;
    }
    done = true;
    over.Done();
  });
  while (!looping) std::this_thread::yield();
  group.Start([&] {
    while (!done) {
      EXPECT_TRUE(used->is_free()) << used->name;
      ++used->turns_of_the_other;
      scheduling_group::YieldCurrentFiber();
    }
    over.Done();
  });
  ASSERT_TRUE(over.Wait());
}

// try_lock(), unlock(), release(), Set() and the like: their callers may hold what must not be held over a switch.
TEST(TimeSlice, WhatNeverSwitchesDoesNotSwitchWhenItIsOver) {
  TimedGroup group(1);
  std::atomic<bool> other_has_run = false;
  std::atomic<bool> other_is_ready = false;
  std::atomic<bool> looping = false;
  Countdown over(1);
  group.Start([&] {
    FiberMutex mutex;
    FiberSharedMutex shared;
    FiberSemaphore semaphore(1);
    FiberEvent event;
    FiberLatch latch(0);
    FiberChannel<int> channel(1);
    looping = true;
    while (!other_is_ready || !scheduling_group::TimeSliceIsOver()) {
    }
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(std::unique_lock(mutex, std::try_to_lock).owns_lock());
      ASSERT_TRUE(std::unique_lock(shared, std::try_to_lock).owns_lock());
      ASSERT_TRUE(std::shared_lock(shared, std::try_to_lock).owns_lock());
      ASSERT_TRUE(semaphore.TryAcquire());
      semaphore.Release();
      event.Set();
      ASSERT_TRUE(event.IsSet());
      event.Reset();
      latch.CountDown(0);
      ASSERT_TRUE(latch.TryWait());
      ASSERT_EQ(channel.TryPut(1), ChannelResult::kOk);
      ASSERT_TRUE(channel.TryGet().has_value());
    }
    EXPECT_FALSE(other_has_run);
    EXPECT_TRUE(scheduling_group::TimeSliceIsOver());
    mutex.lock();
    mutex.unlock();
    EXPECT_TRUE(other_has_run);
    over.Done();
  });
  while (!looping) std::this_thread::yield();
  group.Start([&] { other_has_run = true; });
  other_is_ready = true;
  ASSERT_TRUE(over.Wait());
}

// The first computes until its slice is over, and ends; the second must not pay for that.
TEST(TimeSlice, NobodyYieldsForTheTimeOfAnother) {
  TimedGroup group(1);
  std::atomic<bool> third_has_run = false;
  std::atomic<bool> others_are_ready = false;
  std::atomic<bool> looping = false;
  Countdown over(2);
  group.Start([&] {
    looping = true;
    while (!others_are_ready || !scheduling_group::TimeSliceIsOver()) {
    }
  });
  while (!looping) std::this_thread::yield();
  group.Start([&] {
    FiberMutex mutex;
    EXPECT_TRUE(scheduling_group::TimeSliceIsOver());  // Still raised.
    mutex.lock();
    mutex.unlock();
    EXPECT_FALSE(third_has_run);
    EXPECT_FALSE(scheduling_group::TimeSliceIsOver());
    over.Done();
  });
  group.Start([&] {
    third_has_run = true;
    over.Done();
  });
  others_are_ready = true;
  ASSERT_TRUE(over.Wait());
}

// The Watchdog has gone to sleep with the workers, and wakes up with them.
TEST(TimeSlice, AnIdleProcessIsNotWatchedAndAFiberThatLoopsAfterAQuietTimeIs) {
  TimedGroup group(2);
  scheduling_group::Watchdog& watchdog = scheduling_group::Watchdog::Get();
  const Deadline limit = 60s;
  std::uint64_t checks;
  do {
    ASSERT_FALSE(limit.expired()) << "the Watchdog goes on";
    checks = watchdog.checks();
    std::this_thread::sleep_for(5 * scheduling_group::Watchdog::kCheckEvery);  // Of quiet is the test.
  } while (!watchdog.off() || watchdog.checks() != checks);
  std::atomic<int> looping = 0;
  std::atomic<bool> other_has_run = false;
  std::atomic<int> ended_by_the_other = 0;
  Countdown over(2);
  for (int i = 0; i < 2; ++i) {
    group.Start([&] {
      FiberMutex mutex;
      ++looping;
      if (LoopUntil([&] { return other_has_run.load(); }, [&] { std::scoped_lock lock(mutex); })) ++ended_by_the_other;
      over.Done();
    });
  }
  while (looping != 2) std::this_thread::yield();
  group.Start([&] { other_has_run = true; });
  ASSERT_TRUE(over.Wait());
  EXPECT_EQ(ended_by_the_other, 2);
}

TEST(TimeSlice, PlainThreadsHaveNone) {
  TimedGroup group(1);
  FiberMutex mutex;
  const auto until = std::chrono::steady_clock::now() + 3 * scheduling_group::kTimeSlice;
  while (std::chrono::steady_clock::now() < until) {
    std::scoped_lock lock(mutex);
    EXPECT_FALSE(scheduling_group::TimeSliceIsOver());
  }
}

}  // namespace
}  // namespace weft
