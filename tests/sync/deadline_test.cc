// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What base/deadline.h promises of every function of sync that waits.

#include "weft/base/deadline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_blocking_noncontiguous_buffer.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"

#include "testing/clock_reads.h"
#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using testing::ClockReadsOf;

NoncontiguousBuffer Bytes(const std::string& text) {
  NoncontiguousBuffer buffer;
  buffer.Append(text);
  return buffer;
}

// Calls visit(name, wait) for each function. wait(until) takes whatever converts to a Deadline, waits for what does not
// come, and says whether that was in vain.
template <class Visit>
void ForEachWaitInVain(Visit visit) {
  FiberEvent event;
  visit("FiberEvent::Wait", [&](auto until) { return !event.Wait(until); });

  FiberLatch latch(1);
  visit("FiberLatch::Wait", [&](auto until) { return !latch.Wait(until); });
  visit("FiberLatch::WaitUntil", [&](auto until) { return !latch.WaitUntil(until); });
  visit("FiberLatch::ArriveAndWait", [&](auto until) { return !latch.ArriveAndWait(0, until); });

  FiberSemaphore semaphore(0);
  visit("FiberSemaphore::Acquire", [&](auto until) { return !semaphore.Acquire(until); });
  visit("FiberSemaphore::Acquire, deadline", [&](auto until) { return !semaphore.Acquire(Deadline(until)); });

  FiberTimedMutex timed;
  timed.lock();
  visit("FiberTimedMutex::try_lock_until", [&](auto until) { return !timed.try_lock_until(until); });
  timed.unlock();

  FiberSharedMutex shared;
  shared.lock();
  visit("FiberSharedMutex::try_lock_until", [&](auto until) { return !shared.try_lock_until(until); });
  visit("FiberSharedMutex::try_lock_shared_until", [&](auto until) { return !shared.try_lock_shared_until(until); });
  shared.unlock();

  FiberMutex mutex;
  FiberConditionVariable never;
  std::unique_lock lock(mutex);
  const auto no = [] { return false; };
  visit("FiberConditionVariable::wait", [&](auto until) { return never.wait(lock, until) == std::cv_status::timeout; });
  visit("FiberConditionVariable::wait, predicate", [&](auto until) { return !never.wait(lock, no, until); });
  visit("FiberConditionVariable::wait_until",
        [&](auto until) { return never.wait_until(lock, until) == std::cv_status::timeout; });
  visit("FiberConditionVariable::wait_until, predicate",
        [&](auto until) { return !never.wait_until(lock, until, no); });

  FiberChannel<int> empty(1);
  int item = 0;
  visit("FiberChannel::Get", [&](auto until) { return empty.Get(until).result() == ChannelResult::kTimedOut; });
  FiberChannel<int> full(0);
  visit("FiberChannel::Put", [&](auto until) { return full.Put(1, until) == ChannelResult::kTimedOut; });
  visit("FiberChannel::Put, copy",
        [&](auto until) { return full.Put(std::as_const(item), until) == ChannelResult::kTimedOut; });

  FiberBlockingBoundedQueue<int> queue(0);
  visit("FiberBlockingBoundedQueue::Put", [&](auto until) { return queue.Put(1, until) == ChannelResult::kTimedOut; });
  visit("FiberBlockingBoundedQueue::Get",
        [&](auto until) { return queue.Get(until).result() == ChannelResult::kTimedOut; });
  visit("FiberBlockingBoundedQueue::Push", [&](auto until) { return !queue.Push(1, until); });
  visit("FiberBlockingBoundedQueue::Pop", [&](auto until) { return !queue.Pop(item, until); });

  FiberBlockingNoncontiguousBuffer stream(0);
  NoncontiguousBuffer out;
  visit("FiberBlockingNoncontiguousBuffer::Append", [&](auto until) { return !stream.Append(Bytes("x"), until); });
  visit("FiberBlockingNoncontiguousBuffer::AppendAlways",
        [&](auto until) { return !stream.AppendAlways(Bytes("x"), until); });
  visit("FiberBlockingNoncontiguousBuffer::Cut", [&](auto until) { return !stream.Cut(out, 1, until); });
}

void ExpectThatEachTakesDurationsTimePointsAndDeadlines() {
  ForEachWaitInVain([](const char* name, auto wait) {
    SCOPED_TRACE(name);
    const auto begin = steady_clock::now();
    EXPECT_TRUE(wait(1ms));
    EXPECT_GE(steady_clock::now() - begin, 1ms);
    EXPECT_TRUE(wait(std::chrono::duration<double, std::micro>(0.5)));
    EXPECT_TRUE(wait(steady_clock::now() + 100us));
    EXPECT_TRUE(wait(system_clock::now() + 100us));
    EXPECT_TRUE(wait(Deadline(100us)));
    EXPECT_TRUE(wait(0s));
    EXPECT_TRUE(wait(-1h));
    EXPECT_TRUE(wait(std::chrono::hours::min()));
    EXPECT_TRUE(wait(steady_clock::time_point::min()));
    EXPECT_TRUE(wait(system_clock::time_point::min()));
  });
}

TEST(DeadlineOfAWait, IsADurationOrATimePointInAThread) { ExpectThatEachTakesDurationsTimePointsAndDeadlines(); }

TEST(DeadlineOfAWait, IsADurationOrATimePointInAFiber) {
  testing::TimedGroup group(1);  // One worker: SCOPED_TRACE is the thread's.
  group.Run([] { ExpectThatEachTakesDurationsTimePointsAndDeadlines(); });
}

TEST(DeadlineOfAWait, OfZeroReadsNoClock) {
  ForEachWaitInVain([](const char* name, auto wait) {
    EXPECT_EQ(ClockReadsOf([&] { EXPECT_TRUE(wait(0s)); }), 0) << name;
    EXPECT_EQ(ClockReadsOf([&] { EXPECT_TRUE(wait(-1ms)); }), 0) << name;
  });
}

TEST(DeadlineOfAWait, OfZeroIsOneAttempt) {
  FiberEvent event;
  event.Set();
  EXPECT_TRUE(event.Wait(0s));
  EXPECT_TRUE(FiberLatch(0).Wait(0s));
  EXPECT_TRUE(FiberSemaphore(1).Acquire(0s));
  FiberTimedMutex timed;
  if (timed.try_lock_until(0s)) {
    timed.unlock();
  } else {
    ADD_FAILURE() << "FiberTimedMutex";
  }
  FiberMutex mutex;
  FiberConditionVariable changed;
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait(
      lock, [] { return true; }, 0s));
  FiberChannel<int> channel(1);
  EXPECT_EQ(channel.Put(7, 0s), ChannelResult::kOk);
  EXPECT_EQ(channel.Get(0s), 7);
}

// A lock that is free costs no look at the clock, whatever the caller would wait.
TEST(DeadlineOfAWait, OfALockOrASemaphoreThatIsFreeReadsNoClock) {
  FiberTimedMutex timed;
  FiberSharedMutex shared;
  FiberSemaphore semaphore(1);
  EXPECT_EQ(ClockReadsOf([&] {
              if (timed.try_lock_for(1h)) timed.unlock();
              if (shared.try_lock_for(1h)) shared.unlock();
              if (shared.try_lock_shared_for(1h)) shared.unlock_shared();
              if (semaphore.Acquire(1h)) semaphore.Release();
            }),
            0);
}

TEST(DeadlineOfAWait, ThatIsNoneWaitsForTheEventAndReadsNoClock) {
  FiberEvent event;
  FiberSemaphore semaphore(0);
  FiberLatch latch(1);
  FiberChannel<int> channel(1);
  std::thread other([&] {
    event.Set();
    semaphore.Release();
    latch.CountDown();
    EXPECT_EQ(channel.Put(1), ChannelResult::kOk);
  });
  EXPECT_EQ(ClockReadsOf([&] {
              EXPECT_TRUE(event.Wait(Deadline::None()));
              EXPECT_TRUE(semaphore.Acquire(Deadline()));
              EXPECT_TRUE(latch.Wait(steady_clock::time_point::max()));
              EXPECT_TRUE(channel.Get(system_clock::time_point::max()).has_value());
            }),
            0);
  other.join();
}

}  // namespace
}  // namespace weft
