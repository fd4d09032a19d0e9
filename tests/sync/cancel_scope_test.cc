// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel_scope.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "weft/scheduling_group/time_slice.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_blocking_noncontiguous_buffer.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/sync/synchronized.h"
#include "weft/sync/wait_access.h"
#include "weft/sync/wait_queue.h"

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldUntil;

// What sync's own layer has for FiberSleepFor().
void Sleep(Deadline deadline) {
  synchronization::CheckInterrupted(synchronization::SleepUntil(deadline, synchronization::Interruptible::kYes));
}

class CancelScopeTest : public ::testing::TestWithParam<unsigned> {
 protected:
  CancelScopeTest() : group(GetParam()) {}
  Crew Fibers() { return Crew(&group, testing::ActorKind::kFibers); }

  testing::TimedGroup group;
};

INSTANTIATE_TEST_SUITE_P(Workers, CancelScopeTest, ::testing::Values(1U, 2U, 4U, 8U));

// --- Each wait is a cancellation point ---

// A primitive, and a wait for it that nobody ends.
struct World {
  FiberEvent event;
  FiberLatch latch{1};
  FiberSemaphore semaphore{0};
  FiberMutex mutex;
  FiberConditionVariable changed;
  FiberBarrier barrier{2};
  FiberChannel<int> full{0};
  FiberChannel<std::string> empty{1};
  FiberBlockingBoundedQueue<int> queue{1};
  FiberBlockingBoundedQueue<int> full_queue{1};
  FiberBlockingNoncontiguousBuffer buffer{1};
  FiberBlockingNoncontiguousBuffer full_buffer{1};
  Synchronized<int> synchronized{0};

  World() {
    EXPECT_TRUE(full_queue.TryPush(0));
    EXPECT_TRUE(full_buffer.TryAppend(NoncontiguousBuffer("x")));
  }
};
struct CancellationPoint {
  const char* name;
  void (*wait)(World& world);
};
constexpr CancellationPoint kPoints[] = {
    {"FiberEvent", [](World& w) { w.event.Wait(); }},
    {"FiberEvent, timed", [](World& w) { EXPECT_FALSE(w.event.Wait(1h)); }},
    {"FiberLatch", [](World& w) { w.latch.Wait(); }},
    {"FiberLatch, timed", [](World& w) { EXPECT_FALSE(w.latch.WaitFor(1h)); }},
    {"FiberSemaphore", [](World& w) { w.semaphore.Acquire(); }},
    {"FiberSemaphore, timed", [](World& w) { EXPECT_FALSE(w.semaphore.Acquire(1h)); }},
    {"FiberConditionVariable",
     [](World& w) {
       std::unique_lock lock(w.mutex);
       try {
         w.changed.wait(lock);
       } catch (const FiberCancelled&) {
         EXPECT_TRUE(lock.owns_lock());
         EXPECT_FALSE(w.mutex.try_lock());
         throw;
       }
     }},
    {"FiberConditionVariable, timed",
     [](World& w) {
       std::unique_lock lock(w.mutex);
       EXPECT_EQ(w.changed.wait_for(lock, 1h), std::cv_status::no_timeout);
     }},
    {"FiberBarrier", [](World& w) { w.barrier.ArriveAndWait(); }},
    {"FiberChannel, Put", [](World& w) { EXPECT_EQ(w.full.Put(1), ChannelResult::kOk); }},
    {"FiberChannel, Put, timed", [](World& w) { EXPECT_EQ(w.full.Put(1, 1h), ChannelResult::kOk); }},
    {"FiberChannel, Get", [](World& w) { EXPECT_FALSE(w.empty.Get()); }},
    {"FiberChannel, Get, timed", [](World& w) { EXPECT_FALSE(w.empty.Get(1h)); }},
    {"FiberChannel, loop",
     [](World& w) {
       for (const std::string& item : w.empty) ADD_FAILURE() << item;
     }},
    {"FiberBlockingBoundedQueue", [](World& w) { EXPECT_FALSE(w.queue.Get()); }},
    {"FiberBlockingBoundedQueue, Put", [](World& w) { EXPECT_EQ(w.full_queue.Put(1), ChannelResult::kOk); }},
    {"FiberBlockingBoundedQueue, Put, timed", [](World& w) { EXPECT_EQ(w.full_queue.Put(1, 1h), ChannelResult::kOk); }},
    {"FiberBlockingNoncontiguousBuffer, Append",
     [](World& w) { EXPECT_TRUE(w.full_buffer.Append(NoncontiguousBuffer("y"))); }},
    {"FiberBlockingNoncontiguousBuffer, AppendAlways",
     [](World& w) { EXPECT_TRUE(w.full_buffer.AppendAlways(NoncontiguousBuffer("yz"))); }},
    {"FiberBlockingNoncontiguousBuffer, Cut",
     [](World& w) {
       NoncontiguousBuffer bytes;
       EXPECT_TRUE(w.buffer.Cut(bytes, 1, 1h));
     }},
    {"Synchronized, LockWhen",
     [](World& w) { EXPECT_TRUE(w.synchronized.LockWhen([](int value) { return value != 0; })); }},
    {"a sleep", [](World&) { Sleep(1h); }},
    {"a sleep without end", [](World&) { Sleep(Deadline::None()); }},
};

TEST_P(CancelScopeTest, CancelEndsAWaitThatIsUnderWay) {
  for (const CancellationPoint& point : kPoints) {
    SCOPED_TRACE(point.name);
    World world;
    CancelScope scope;
    std::atomic<bool> waits{false};
    std::atomic<bool> went_on{false};
    Crew crew = Fibers();
    crew.Add([&] {
      EXPECT_FALSE(scope.Run([&] {
        waits = true;
        point.wait(world);
        went_on = true;
      }));
    });
    crew.Add([&] {
      YieldUntil([&] { return waits.load(); });
      EXPECT_TRUE(scope.Cancel());
      EXPECT_FALSE(scope.Cancel()) << "it is cancelled already";
    });
    crew.Join();
    EXPECT_FALSE(went_on);
  }
}

TEST_P(CancelScopeTest, CancelByAThreadEndsAWait) {
  for (const CancellationPoint& point : kPoints) {
    SCOPED_TRACE(point.name);
    World world;
    CancelScope scope;
    std::atomic<bool> waits{false};
    Crew crew = Fibers();
    crew.Add([&] {
      EXPECT_FALSE(scope.Run([&] {
        waits = true;
        point.wait(world);
      }));
    });
    crew.AddThread([&] {
      YieldUntil([&] { return waits.load(); });
      EXPECT_TRUE(scope.Cancel());
    });
    crew.Join();
  }
}

// Level-triggered: each wait ends, not only the first.
TEST_P(CancelScopeTest, InACancelledScopeEachWaitThrowsAtOnce) {
  group.Run([&] {
    World world;
    CancelScope scope;
    scope.Cancel();
    int thrown = 0;
    EXPECT_FALSE(scope.Run([&] {
      for (const CancellationPoint& point : kPoints) {
        for (int i = 0; i < 3; ++i) {
          try {
            point.wait(world);
            ADD_FAILURE() << point.name << ": it did not throw";  // SCOPED_TRACE() is the thread's.
          } catch (const FiberCancelled& cancelled) {
            EXPECT_FALSE(cancelled.by_deadline());
            ++thrown;
          }
          if (std::string(point.name) == "FiberBarrier") break;  // The second one of a barrier for two need not wait.
        }
      }
      TestCancel();
    }));
    EXPECT_GE(thrown, 40);
  });
}

TEST_P(CancelScopeTest, ADeadlineEndsEachWait) {
  for (const CancellationPoint& point : kPoints) {
    SCOPED_TRACE(point.name);
    group.Run([&] {
      World world;
      CancelScope scope(1ms);
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_FALSE(scope.Run([&] { point.wait(world); }));
      EXPECT_GE(std::chrono::steady_clock::now() - begin, 1ms) << "never early";
      EXPECT_TRUE(scope.DeadlineHasPassed());
    });
  }
}

TEST_P(CancelScopeTest, ACallThatNeedNotWaitSucceeds) {
  group.Run([&] {
    CancelScope scope;
    scope.Cancel();
    bool ended = false;
    EXPECT_TRUE(scope.Run([&] {
      FiberEvent event;
      event.Set();
      event.Wait();
      FiberSemaphore semaphore(1);
      semaphore.Acquire();
      FiberChannel<int> channel(1);
      EXPECT_EQ(channel.Put(7), ChannelResult::kOk);
      EXPECT_EQ(channel.Get(), 7);
      FiberMutex mutex;
      const std::scoped_lock lock(mutex);
      ended = true;
    })) << "it has come to its end";
    EXPECT_TRUE(ended);
    EXPECT_TRUE(scope.IsCancelled());
  });
}

// --- A mutex is taken, also by one who is cancelled ---

// Locks `mutex`, which another fiber holds until the cancelled one is about to wait for it.
template <class Lock, class Mutex>
void LockWhileCancelled(Crew crew, Mutex& mutex) {
  CancelScope scope;
  FiberEvent held;
  std::atomic<bool> locks{false};
  bool released = false;  // guarded by mutex
  crew.Add([&] {
    const std::scoped_lock lock(mutex);
    held.Set();
    YieldUntil([&] { return locks.load(); });
    EXPECT_TRUE(scope.Cancel());
    for (int i = 0; i < 20; ++i) testing::YieldActor();  // It looks for the mutex meanwhile.
    released = true;
  });
  crew.Add([&] {
    held.Wait();
    bool had_it = false;
    EXPECT_FALSE(scope.Run([&] {
      locks = true;
      {
        const Lock lock(mutex);
        EXPECT_TRUE(released);
        had_it = true;
      }
      Sleep(1h);
    }));
    EXPECT_TRUE(had_it) << "the lock was no cancellation point";
  });
  crew.Join();
  const std::unique_lock lock(mutex, std::try_to_lock);
  EXPECT_TRUE(lock.owns_lock()) << "it is free again";
}

// As a std::unique_lock, with a time limit that does not matter.
template <class Mutex>
struct TimedLock : std::unique_lock<Mutex> {
  explicit TimedLock(Mutex& mutex) : std::unique_lock<Mutex>(mutex, 1h) { EXPECT_TRUE(this->owns_lock()); }
};
template <class Mutex>
struct TimedSharedLock : std::shared_lock<Mutex> {
  explicit TimedSharedLock(Mutex& mutex) : std::shared_lock<Mutex>(mutex, 1h) { EXPECT_TRUE(this->owns_lock()); }
};

TEST_P(CancelScopeTest, AContendedMutexIsTakenByACancelledFiber) {
  FiberMutex mutex;
  LockWhileCancelled<std::unique_lock<FiberMutex>>(Fibers(), mutex);
  FiberTimedMutex timed;
  LockWhileCancelled<std::unique_lock<FiberTimedMutex>>(Fibers(), timed);
  LockWhileCancelled<TimedLock<FiberTimedMutex>>(Fibers(), timed);
  FiberSharedMutex shared;
  LockWhileCancelled<std::unique_lock<FiberSharedMutex>>(Fibers(), shared);
  LockWhileCancelled<TimedLock<FiberSharedMutex>>(Fibers(), shared);
  LockWhileCancelled<std::shared_lock<FiberSharedMutex>>(Fibers(), shared);
  LockWhileCancelled<TimedSharedLock<FiberSharedMutex>>(Fibers(), shared);
}

// Its mutex is taken while it waits, and free again only after the cancellation.
TEST_P(CancelScopeTest, ACancelledWaitForAConditionTakesItsContendedMutex) {
  FiberMutex mutex;
  FiberConditionVariable changed;
  CancelScope scope;
  bool waits = false;     // guarded by mutex
  bool released = false;  // guarded by mutex
  Crew crew = Fibers();
  crew.Add([&] {
    EXPECT_FALSE(scope.Run([&] {
      std::unique_lock lock(mutex);
      waits = true;
      try {
        changed.wait(lock);
      } catch (const FiberCancelled&) {
        EXPECT_TRUE(lock.owns_lock());
        EXPECT_TRUE(released);
        throw;
      }
    }));
  });
  crew.Add([&] {
    std::unique_lock lock(mutex);
    while (!waits) {
      lock.unlock();
      testing::YieldActor();
      lock.lock();
    }
    EXPECT_TRUE(scope.Cancel());
    for (int i = 0; i < 20; ++i) testing::YieldActor();  // It is woken, and finds the mutex taken.
    released = true;
  });
  crew.Join();
}

// --- Nesting ---

TEST_P(CancelScopeTest, AnOuterCancellationPassesThroughInnerScopes) {
  group.Run([&] {
    CancelScope outer;
    CancelScope inner;
    bool after_inner = false;
    EXPECT_FALSE(outer.Run([&] {
      static_cast<void>(inner.Run([&] {
        outer.Cancel();
        Sleep(1h);
      }));
      after_inner = true;
    }));
    EXPECT_FALSE(after_inner);
    EXPECT_FALSE(inner.IsCancelled());
  });
}

TEST_P(CancelScopeTest, AnInnerCancellationEndsInTheInnerScope) {
  group.Run([&] {
    CancelScope outer;
    EXPECT_TRUE(outer.Run([&] {
      CancelScope inner;
      EXPECT_FALSE(inner.Run([&] {
        inner.Cancel();
        Sleep(1h);
      }));
      Sleep(1ms);  // As if nothing had been.
    }));
  });
}

// Both are cancelled: the outer one is what ends.
TEST_P(CancelScopeTest, TheOutermostCancelledScopeCatches) {
  group.Run([&] {
    CancelScope outer;
    CancelScope inner;
    bool after_inner = false;
    EXPECT_FALSE(outer.Run([&] {
      static_cast<void>(inner.Run([&] {
        inner.Cancel();
        outer.Cancel();
        Sleep(1h);
      }));
      after_inner = true;
    }));
    EXPECT_FALSE(after_inner);
  });
}

TEST_P(CancelScopeTest, AShieldKeepsCancellationsOut) {
  group.Run([&] {
    CancelScope scope;
    bool slept = false;
    EXPECT_FALSE(scope.Run([&] {
      scope.Cancel();
      Shielded([&] {
        EXPECT_FALSE(IsCancelRequested());
        Sleep(1ms);
        slept = true;
      });
      EXPECT_TRUE(IsCancelRequested());
      TestCancel();
    }));
    EXPECT_TRUE(slept);
    EXPECT_EQ(Shielded([] { return 5; }), 5);
  });
}

TEST_P(CancelScopeTest, AShieldHasALimitOfItsOwn) {
  group.Run([&] {
    CancelScope scope;
    EXPECT_FALSE(scope.Run([&] {
      scope.Cancel();
      EXPECT_FALSE(ShieldedFor(1ms, [] { Sleep(1h); }));
      EXPECT_TRUE(ShieldedFor(1h, [] { Sleep(1ms); }));
      TestCancel();
    }));
  });
}

TEST_P(CancelScopeTest, ACancellationThatComesUnderAShieldIsSeenAfterIt) {
  CancelScope scope;
  std::atomic<bool> inside{false};
  FiberEvent let_go;
  Crew crew = Fibers();
  crew.Add([&] {
    EXPECT_FALSE(scope.Run([&] {
      Shielded([&] {
        inside = true;
        let_go.Wait();
      });
      TestCancel();
    }));
  });
  crew.Add([&] {
    YieldUntil([&] { return inside.load(); });
    EXPECT_TRUE(scope.Cancel());
    let_go.Set();
  });
  crew.Join();
}

// --- What does not throw ---

TEST_P(CancelScopeTest, NoWaitThrowsWhileAnExceptionUnwindsTheStack) {
  struct WaitsAtItsEnd {
    ~WaitsAtItsEnd() {
      EXPECT_FALSE(FiberEvent().Wait(1ms));
      FiberSemaphore semaphore(0);
      EXPECT_FALSE(semaphore.Acquire(1ms));
      Sleep(1ms);
      ++*ended;
    }
    int* ended;
  };
  group.Run([&] {
    CancelScope scope;
    int ended = 0;
    EXPECT_FALSE(scope.Run([&] {
      const WaitsAtItsEnd first{&ended};
      const WaitsAtItsEnd second{&ended};
      scope.Cancel();
      Sleep(1h);
    }));
    EXPECT_EQ(ended, 2);
  });
}

TEST_P(CancelScopeTest, AFiberOutsideOfScopesIsNotCancelled) {
  CancelScope scope;
  scope.Cancel();
  group.Run([&] {
    EXPECT_FALSE(IsCancelRequested());
    TestCancel();
    Sleep(1ms);
    EXPECT_FALSE(scope.Run([] { Sleep(1h); }));
    EXPECT_FALSE(IsCancelRequested());
    Sleep(1ms);
  });
}

TEST(CancelScope, InAThreadItJustCalls) {
  CancelScope scope(0s);
  scope.Cancel();
  bool called = false;
  EXPECT_TRUE(scope.Run([&] {
    called = true;
    TestCancel();
    EXPECT_FALSE(FiberEvent().Wait(1ms));
  }));
  EXPECT_TRUE(called);
  EXPECT_EQ(MoveOnAfter(0s, [] { return 3; }), 3);
  EXPECT_TRUE(CurrentDeadline().is_none());
}

// --- Other exceptions, results ---

TEST_P(CancelScopeTest, OtherExceptionsPass) {
  group.Run([&] {
    CancelScope scope;
    EXPECT_THROW(static_cast<void>(scope.Run([&] {
                   scope.Cancel();
                   throw std::runtime_error("mine");
                 })),
                 std::runtime_error);
    EXPECT_FALSE(IsCancelRequested());
  });
}

// `catch (const std::exception&)` does not take it for an error.
TEST_P(CancelScopeTest, ItIsNoStdException) {
  group.Run([&] {
    CancelScope scope(1ms);
    EXPECT_FALSE(scope.Run([&] {
      try {
        Sleep(1h);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }));
  });
}

TEST_P(CancelScopeTest, MoveOnAfterAndFailAfter) {
  group.Run([&] {
    EXPECT_EQ(MoveOnAfter(1h, [] { return 1; }), 1);
    EXPECT_FALSE(MoveOnAfter(1ms, []() -> int {
      Sleep(1h);
      return 1;
    }));
    EXPECT_TRUE(MoveOnAfter(1h, [] {}));
    EXPECT_FALSE(MoveOnAfter(1ms, [] { Sleep(1h); }));
    const auto late = [] {
      Sleep(1h);
      return std::string("an answer");
    };
    EXPECT_EQ(MoveOnAfter(1ms, late, "none"), "none");
    EXPECT_THROW(FailAfter(1ms, late), DeadlineExceeded);
    EXPECT_EQ(FailAfter(1h, [] { return 2; }), 2);
    EXPECT_THROW(FailAfter(1ms, [] { Sleep(1h); }), DeadlineExceeded);
  });
}

// --- Deadlines ---

TEST_P(CancelScopeTest, TheEarliestDeadlineIsTheOneThatCounts) {
  group.Run([&] {
    EXPECT_TRUE(CurrentDeadline().is_none());
    EXPECT_EQ(TimeLeft(), std::chrono::nanoseconds::max());
    CancelScope hour(1h);
    CancelScope minute(1min);
    static_cast<void>(hour.Run([&] {
      EXPECT_EQ(CurrentDeadline(), hour.deadline());
      static_cast<void>(minute.Run([&] {
        EXPECT_EQ(CurrentDeadline(), minute.deadline());
        EXPECT_LE(TimeLeft(), 1min);
        CancelScope day(24h);
        static_cast<void>(day.Run([&] { EXPECT_EQ(CurrentDeadline(), minute.deadline()); }));
        Shielded([&] { EXPECT_TRUE(CurrentDeadline().is_none()); });
      }));
    }));
  });
}

TEST_P(CancelScopeTest, ADeadlineCanBeMoved) {
  group.Run([&] {
    CancelScope scope(1h);
    EXPECT_FALSE(scope.Run([&] {
      scope.SetDeadline(1ms);
      Sleep(1h);
    }));
    const Deadline first = 5ms;
    CancelScope longer(first);
    bool in_time = false;
    const bool ended = longer.Run([&] {
      longer.SetDeadline(1h);
      in_time = !first.expired();
      Sleep(10ms);
    });
    EXPECT_TRUE(ended || !in_time);  // A busy machine may be late.
    CancelScope later;
    EXPECT_FALSE(later.Run([&] {
      CancelAfter(1ms);
      Sleep(1h);
    }));
    EXPECT_TRUE(later.DeadlineHasPassed());
  });
}

// The timer fires while the scope is left: neither hangs nor touches what is gone.
TEST_P(CancelScopeTest, ADeadlineThatPassesWhileTheScopeIsLeft) {
  Crew crew = Fibers();
  crew.AddMany(4, [&](int) {
    for (int i = 0; i < Scaled(300); ++i) {
      CancelScope scope(std::chrono::microseconds(i % 120));
      static_cast<void>(scope.Run([&] { synchronization::YieldFiberOrThread(); }));
    }
  });
  crew.Join();
}

// The others do not wait for it again: also if its time slice was over when it came.
TEST_P(CancelScopeTest, ACancelledArrivalAtABarrierIsOne) {
  FiberBarrier barrier(2);
  std::atomic<bool> arrived{false};
  Crew crew = Fibers();
  crew.Add([&] {
    CancelScope scope;
    scope.Cancel();
    EXPECT_FALSE(scope.Run([&] {
      scheduling_group::TimeSliceFlag()->store(true);  // Its time slice is over.
      barrier.ArriveAndWait();
    }));
    arrived = true;
  });
  crew.Add([&] {
    while (!arrived) synchronization::YieldFiberOrThread();
    barrier.ArriveAndWait();
  });
  crew.Join();
}

TEST_P(CancelScopeTest, ASleepOfNoTimeIsACancellationPoint) {
  group.Run([&] {
    CancelScope scope;
    scope.Cancel();
    EXPECT_FALSE(scope.Run([] { Sleep(0s); }));
  });
}

TEST_P(CancelScopeTest, WhatReturnsAReferenceIsCopied) {
  group.Run([&] {
    const std::string text(100, 'x');
    const auto get = [&]() -> const std::string& { return text; };
    static_assert(std::is_same_v<decltype(FailAfter(1h, get)), std::string>);
    EXPECT_EQ(FailAfter(1h, get), text);
    EXPECT_EQ(Shielded(get), text);
    EXPECT_EQ(MoveOnAfter(1h, get, std::string()), text);
  });
}

// --- Handles ---

TEST_P(CancelScopeTest, AHandleCancelsAScopeThatIsThere) {
  CancelHandle handle;
  EXPECT_FALSE(handle.Cancel()) << "of no scope";
  group.Run([&] {
    CancelScope scope;
    handle = scope.Handle();
    EXPECT_FALSE(scope.Run([&] {
      const CancelHandle copy = scope.Handle();
      EXPECT_TRUE(copy.Cancel());
      Sleep(1h);
    }));
    EXPECT_FALSE(handle.Cancel()) << "it is cancelled already";
  });
  EXPECT_FALSE(handle.Cancel()) << "it has gone";
}

TEST_P(CancelScopeTest, HandlesOfScopesThatComeAndGo) {
  std::atomic<bool> stop{false};
  FiberMutex mutex;
  CancelHandle current;
  std::atomic<int> cancelled{0};
  int ended = 0;
  Crew crew = Fibers();
  crew.Add([&] {
    for (int i = 0; i < Scaled(1000); ++i) {
      CancelScope scope(1ms);
      {
        const std::scoped_lock lock(mutex);
        current = scope.Handle();
      }
      if (!scope.Run([&] { Sleep(1h); }) && !scope.DeadlineHasPassed()) ++ended;
    }
    stop = true;
  });
  crew.AddThread([&] {
    while (!stop) {
      CancelHandle handle;
      {
        const std::scoped_lock lock(mutex);
        handle = current;
      }
      if (handle.Cancel()) ++cancelled;
      std::this_thread::yield();
    }
  });
  crew.Join();
}

// --- Races ---

// A canceller, a notifier and a deadline want the same wait: one of them ends it, and no unit is lost.
TEST_P(CancelScopeTest, NoUnitIsLostBetweenACancellationANotificationAndADeadline) {
  FiberSemaphore semaphore(0);
  FiberMutex mutex;
  CancelHandle current;
  std::atomic<bool> stop{false};
  std::atomic<int> released{0};
  int taken = 0;
  Crew crew = Fibers();
  crew.Add([&] {
    for (int i = 0; i < Scaled(3000); ++i) {
      CancelScope scope;
      {
        const std::scoped_lock lock(mutex);
        current = scope.Handle();
      }
      const Deadline deadline = i % 3 == 0   ? Deadline(std::chrono::microseconds(i % 50))
                                : i % 3 == 1 ? Deadline(1ms)
                                             : Deadline::None();
      static_cast<void>(scope.Run([&] {
        if (semaphore.Acquire(deadline)) ++taken;
      }));
    }
    stop = true;
  });
  crew.Add([&] {
    while (!stop) {
      semaphore.Release();
      ++released;
      synchronization::YieldFiberOrThread();
      if (released % 64 == 0) Sleep(20us);
    }
  });
  crew.AddThread([&] {
    while (!stop) {
      CancelHandle handle;
      {
        const std::scoped_lock lock(mutex);
        handle = current;
      }
      handle.Cancel();
      std::this_thread::yield();
    }
  });
  crew.Join();
  int left = 0;
  while (semaphore.TryAcquire()) ++left;
  EXPECT_EQ(taken + left, released);
}

// The primitive lies on the waiter's stack and is gone as soon as the wait has ended, by whomever. For ASan and TSan.
TEST_P(CancelScopeTest, ThePrimitiveMayBeGoneAsSoonAsTheWaitHasEnded) {
  std::atomic<bool> stop{false};
  FiberMutex mutex;
  CancelHandle current;
  FiberEvent* event_to_set = nullptr;  // guarded by mutex
  Crew crew = Fibers();
  crew.Add([&] {
    for (int i = 0; i < Scaled(3000); ++i) {
      CancelScope scope;
      FiberEvent event;
      {
        const std::scoped_lock lock(mutex);
        current = scope.Handle();
        event_to_set = &event;
      }
      static_cast<void>(scope.Run([&] { event.Wait(); }));
      const std::scoped_lock lock(mutex);
      event_to_set = nullptr;
    }
    stop = true;
  });
  crew.Add([&] {
    while (!stop) {
      {
        const std::scoped_lock lock(mutex);
        if (event_to_set != nullptr) event_to_set->Set();
      }
      synchronization::YieldFiberOrThread();
    }
  });
  crew.AddThread([&] {
    while (!stop) {
      CancelHandle handle;
      {
        const std::scoped_lock lock(mutex);
        handle = current;
      }
      handle.Cancel();
      std::this_thread::yield();
    }
  });
  crew.Join();
}

// Several cancel the same chain of scopes at once.
TEST_P(CancelScopeTest, CancellersOfNestedScopesMeet) {
  for (int round = 0; round < Scaled(200); ++round) {
    CancelScope outer;
    CancelScope inner;
    FiberLatch inside(1);
    Crew crew = Fibers();
    crew.Add([&] {
      EXPECT_FALSE(outer.Run([&] {
        static_cast<void>(inner.Run([&] {
          inside.CountDown();
          FiberEvent().Wait();
        }));
        FiberEvent().Wait();
      }));
    });
    crew.AddThread([&] {
      inside.Wait();
      EXPECT_TRUE(outer.Cancel());
    });
    crew.AddThread([&] {
      inside.Wait();
      EXPECT_TRUE(inner.Cancel());
    });
    crew.Join();
  }
}

}  // namespace
}  // namespace weft
