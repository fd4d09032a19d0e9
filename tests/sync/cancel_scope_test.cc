// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel_scope.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/scheduling_group/worker/time_slice.h"
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
#include "weft/sync/wait/wait_queue.h"
#include "weft/sync/wait_group.h"

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
  WaitGroup wait_group;
  FiberChannel<int> full{0};
  FiberChannel<std::string> empty{1};
  FiberBlockingBoundedQueue<int> queue{1};
  FiberBlockingBoundedQueue<int> full_queue{1};
  FiberBlockingNoncontiguousBuffer buffer{1};
  FiberBlockingNoncontiguousBuffer full_buffer{1};
  Synchronized<int> synchronized{0};

  World() {
    wait_group.Add();
    EXPECT_TRUE(full_queue.TryPush(0));
    EXPECT_TRUE(full_buffer.TryAppend(NoncontiguousBuffer("x")));
  }
  ~World() { wait_group.Done(); }
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
    {"WaitGroup", [](World& w) { w.wait_group.Wait(); }},
    {"WaitGroup, timed", [](World& w) { EXPECT_FALSE(w.wait_group.Wait(1h)); }},
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
      const auto begin = std::chrono::steady_clock::now();  // Before the scope, whose deadline counts from its making.
      CancelScope scope(1ms);
      EXPECT_FALSE(scope.Run([&] { point.wait(world); }));
      EXPECT_GE(std::chrono::steady_clock::now() - begin, 1ms) << "never early";
      EXPECT_TRUE(scope.DeadlineHasPassed());
    });
  }
}

int calls_of_a_function = 0;
void AFunction() { ++calls_of_a_function; }

TEST_P(CancelScopeTest, AScopeCallsFunctionsAndConstObjects) {
  group.Run([&] {
    calls_of_a_function = 0;
    EXPECT_TRUE(CancelScope().Run(AFunction));
    EXPECT_TRUE(CancelScope().Run(&AFunction));
    Shielded(AFunction);
    const auto constant = [] { AFunction(); };
    EXPECT_TRUE(MoveOnAfter(1h, constant));
    EXPECT_EQ(calls_of_a_function, 4);
  });
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
    bool went_on = false;
    EXPECT_FALSE(scope.Run([&] {
      scope.Cancel();
      EXPECT_FALSE(ShieldedFor(1ms, [] { Sleep(1h); }));
      EXPECT_TRUE(ShieldedFor(1h, [] { Sleep(1ms); }));
      went_on = true;
      TestCancel();
    }));
    EXPECT_TRUE(went_on) << "the limit of the shield has ended what is outside of it";
  });
}

// On the usual way out of a block: what ends in the shield does not leave the destructor.
TEST_P(CancelScopeTest, ADestructorWhoseShieldHasALimitDoesNotThrow) {
  struct WaitsAtItsEnd {
    ~WaitsAtItsEnd() {
      EXPECT_FALSE(ShieldedFor(1ms, [this] { closed.Wait(); }));
    }
    FiberEvent closed;
  };
  group.Run([&] {
    CancelScope scope;
    bool went_on = false;
    EXPECT_TRUE(scope.Run([&] {
      scope.Cancel();
      { const WaitsAtItsEnd session; }
      went_on = true;
    }));
    EXPECT_TRUE(went_on);
  });
}

TEST_P(CancelScopeTest, AnExceptionBelongsToTheScopeThatItCarries) {
  group.Run([&] {
    CancelScope outer;
    CancelScope inner;
    bool went_on = false;
    EXPECT_FALSE(outer.Run([&] {
      EXPECT_FALSE(inner.Run([&] {
        inner.Cancel();
        try {
          TestCancel();
        } catch (const FiberCancelled& cancelled) {
          EXPECT_TRUE(inner.IsCauseOf(cancelled));
          EXPECT_FALSE(outer.IsCauseOf(cancelled));
          outer.Cancel();  // Too late for this one.
          throw;
        }
      }));
      went_on = true;
      try {
        TestCancel();
      } catch (const FiberCancelled& cancelled) {
        EXPECT_TRUE(outer.IsCauseOf(cancelled));
        // Thrown again where another scope is cancelled, and nothing is visible from outside.
        EXPECT_THROW(static_cast<void>(ShieldedFor(0s, [] { throw; })), FiberCancelled);
        throw;
      }
    }));
    EXPECT_TRUE(went_on);
  });
}

// One that says nothing of a scope, and one whose scope has gone, are of the outermost cancelled scope.
TEST_P(CancelScopeTest, AnExceptionOfNoScopeAroundEndsInTheOutermostCancelledOne) {
  group.Run([&] {
    std::exception_ptr of_a_scope_that_has_gone;
    CancelScope gone;
    EXPECT_TRUE(gone.Run([&] {
      gone.Cancel();
      try {
        TestCancel();
      } catch (const FiberCancelled&) {
        of_a_scope_that_has_gone = std::current_exception();
      }
    }));
    for (const std::exception_ptr& thrown :
         {of_a_scope_that_has_gone, std::make_exception_ptr(FiberCancelled(false))}) {
      CancelScope outer;
      CancelScope inner;
      outer.Cancel();
      inner.Cancel();
      bool went_on = false;
      EXPECT_FALSE(outer.Run([&] {
        static_cast<void>(inner.Run([&] { std::rethrow_exception(thrown); }));
        went_on = true;
      }));
      EXPECT_FALSE(went_on);
      CancelScope calm;
      EXPECT_THROW(static_cast<void>(calm.Run([&] { std::rethrow_exception(thrown); })), FiberCancelled);
    }
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

// Calls f when an exception unwinds the stack.
template <class F>
struct CalledAtItsEnd {
  ~CalledAtItsEnd() { f(); }
  F f;
};
// Calls f in a destructor, while a cancelled scope is left. True: f has come to its end.
template <class F>
bool CallWhileUnwinding(F f) {
  CancelScope scope;
  bool ended = false;
  EXPECT_FALSE(scope.Run([&] {
    const auto call = [&] {
      f();
      ended = true;
    };
    const CalledAtItsEnd<decltype(call)> at_its_end{call};
    scope.Cancel();
    TestCancel();
  }));
  return ended;
}

// Waits that say how they have ended. False: in vain.
struct WaitWithResult {
  const char* name;
  bool (*wait)(World& world, Deadline deadline);
};
constexpr WaitWithResult kWaitsWithResults[] = {
    {"FiberEvent", [](World& w, Deadline deadline) { return w.event.Wait(deadline); }},
    {"FiberLatch", [](World& w, Deadline deadline) { return w.latch.Wait(deadline); }},
    {"WaitGroup", [](World& w, Deadline deadline) { return w.wait_group.Wait(deadline); }},
    {"FiberSemaphore", [](World& w, Deadline deadline) { return w.semaphore.Acquire(deadline); }},
    {"FiberConditionVariable",
     [](World& w, Deadline deadline) {
       std::unique_lock lock(w.mutex);
       const bool notified = w.changed.wait(lock, deadline) == std::cv_status::no_timeout;
       EXPECT_TRUE(lock.owns_lock());
       return notified;
     }},
    {"FiberConditionVariable, with a predicate",
     [](World& w, Deadline deadline) {
       std::unique_lock lock(w.mutex);
       return w.changed.wait(
           lock, [] { return false; }, deadline);
     }},
    {"FiberChannel, Put", [](World& w, Deadline deadline) { return w.full.Put(1, deadline) == ChannelResult::kOk; }},
    {"FiberChannel, Get", [](World& w, Deadline deadline) { return w.empty.Get(deadline).has_value(); }},
    {"FiberBlockingBoundedQueue", [](World& w, Deadline deadline) { return w.queue.Get(deadline).has_value(); }},
    {"FiberBlockingBoundedQueue, Put",
     [](World& w, Deadline deadline) { return w.full_queue.Put(1, deadline) == ChannelResult::kOk; }},
    {"FiberBlockingNoncontiguousBuffer, Append",
     [](World& w, Deadline deadline) { return w.full_buffer.Append(NoncontiguousBuffer("y"), deadline); }},
    {"Synchronized, LockWhen",
     [](World& w, Deadline deadline) {
       return static_cast<bool>(w.synchronized.LockWhen([](int value) { return value != 0; }, deadline));
     }},
};

// The deadlines are those of a hang.
TEST_P(CancelScopeTest, TheLimitOfAShieldEndsWaitsWithAResultWhileTheStackUnwinds) {
  for (const WaitWithResult& point : kWaitsWithResults) {
    SCOPED_TRACE(point.name);
    group.Run([&] {
      World world;
      const Deadline hangs(10s);
      EXPECT_TRUE(CallWhileUnwinding([&] {
        const Deadline limit(1ms);
        EXPECT_TRUE(ShieldedFor(limit, [&] {
          EXPECT_FALSE(IsCancelRequested() && !limit.expired());
          EXPECT_FALSE(point.wait(world, hangs));
          EXPECT_TRUE(limit.expired()) << "never early";
          EXPECT_TRUE(IsCancelRequested());
          EXPECT_FALSE(point.wait(world, hangs)) << "and each further one";
          TestCancel();  // Returns nothing, and so does not throw.
        }));
      }));
      EXPECT_FALSE(hangs.expired()) << point.name;
    });
    if (HasFailure()) return;
  }
}

// Those that take a deadline and have none, too.
TEST_P(CancelScopeTest, TheLimitOfAShieldEndsWaitsThatHaveNoDeadlineAndAResult) {
  group.Run([&] {
    World world;
    EXPECT_TRUE(CallWhileUnwinding([&] {
      EXPECT_TRUE(ShieldedFor(10ms, [&] {
        EXPECT_FALSE(world.event.Wait(Deadline::None()));
        EXPECT_FALSE(world.semaphore.Acquire(Deadline::None()));
        EXPECT_EQ(world.full.Put(1), ChannelResult::kTimedOut);
        EXPECT_EQ(world.empty.Get().result(), ChannelResult::kTimedOut);
      }));
    }));
  });
}

// A scope that is entered by such a destructor counts for the waits in it, as a shield does; those outside do not.
TEST_P(CancelScopeTest, AScopeThatIsEnteredWhileTheStackUnwindsEndsWaitsWithAResult) {
  group.Run([&] {
    World world;
    const Deadline hangs(10s);
    EXPECT_TRUE(CallWhileUnwinding([&] {
      const Deadline limit(1ms);
      EXPECT_TRUE(MoveOnAfter(limit, [&] {
        EXPECT_EQ(CurrentDeadline(), limit);
        EXPECT_FALSE(world.event.Wait(hangs));
        EXPECT_TRUE(limit.expired()) << "the cancelled scope outside has ended it";
      }));
      EXPECT_FALSE(world.event.Wait(1ms));
      EXPECT_FALSE(IsCancelRequested());
    }));
    EXPECT_FALSE(hangs.expired());
  });
}

// Neither in such a scope nor outside of it: a destructor that unwinding calls there is in none again.
TEST_P(CancelScopeTest, ASecondExceptionWhileTheStackUnwindsCoversTheScope) {
  group.Run([&] {
    int waits = 0;
    EXPECT_TRUE(CallWhileUnwinding([&] {
      EXPECT_TRUE(ShieldedFor(0s, [&] {
        try {
          const auto wait = [&] {
            EXPECT_FALSE(FiberEvent().Wait(1ms));
            EXPECT_FALSE(IsCancelRequested());
            ++waits;
          };
          const CalledAtItsEnd<decltype(wait)> at_its_end{wait};
          throw std::runtime_error("mine");
        } catch (const std::runtime_error&) {
        }
        EXPECT_TRUE(IsCancelRequested());
      }));
    }));
    EXPECT_EQ(waits, 1);
  });
}

TEST_P(CancelScopeTest, AnOuterCancellationDoesNotReachAScopeThatWasEnteredWhileTheStackUnwinds) {
  CancelScope outer;
  std::atomic<bool> waits{false};
  FiberEvent event;
  Crew crew = Fibers();
  crew.Add([&] {
    EXPECT_TRUE(outer.Run([&] {
      EXPECT_TRUE(CallWhileUnwinding([&] {
        CancelScope inside;
        EXPECT_TRUE(inside.Run([&] {
          waits = true;
          EXPECT_TRUE(event.Wait(1h));
        }));
        EXPECT_FALSE(IsCancelRequested());
      }));
      EXPECT_TRUE(IsCancelRequested()) << "the mark was left behind in the scope";
    }));
  });
  crew.Add([&] {
    YieldUntil([&] { return waits.load(); });
    for (int i = 0; i < 5; ++i) testing::YieldActor();
    EXPECT_TRUE(outer.Cancel());
    for (int i = 0; i < 5; ++i) testing::YieldActor();
    event.Set();
  });
  crew.Join();
}

#ifndef NDEBUG
// At the limit, and where it has passed before. (A line a second: each is tried until it comes.)
TEST(CancelScope, DebugBuildsNameAWaitThatOutlastsALimitWhileTheStackUnwinds) {
  testing::TimedGroup group(2);
  for (const Deadline& limit : {Deadline(1ms), Deadline(0s)}) {
    std::atomic<bool> named{false};
    base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view text) {
      if (text.find("FiberEvent::Wait() goes on after the limit") != std::string_view::npos) named = true;
    });
    const Deadline hangs(10s);
    while (!named && !hangs.expired()) {
      group.Run([&] {
        FiberEvent event;
        EXPECT_TRUE(CallWhileUnwinding([&] {
          EXPECT_TRUE(ShieldedFor(limit, [&] {
            static_cast<void>(event.Wait(1ms));  // It returns a result, and is not named.
            event.Set();
            event.Wait();
            event.Reset();
            group.Start([&] {
              Sleep(3ms);
              event.Set();
            });
            event.Wait();
          }));
        }));
      });
    }
    base::SetLogSink(nullptr);
    EXPECT_TRUE(named);
  }
}
#endif

TEST_P(CancelScopeTest, ALoopOfWaitsThatAreOverAtOnceLetsOthersRun) {
  FiberEvent event;
  FiberEvent unwinds;
  int looks = 0;
  Crew crew = Fibers();
  crew.Add([&] {
    EXPECT_TRUE(CallWhileUnwinding([&] {
      unwinds.Set();
      EXPECT_TRUE(ShieldedFor(0s, [&] {
        while (!event.Wait(1h)) ++looks;
        FiberMutex mutex;
        FiberConditionVariable changed;
        std::unique_lock lock(mutex);
        EXPECT_EQ(changed.wait(lock, 1h), std::cv_status::timeout);
      }));
    }));
  });
  crew.Add([&] {
    unwinds.Wait();
    event.Set();
  });
  crew.Join();
  EXPECT_TRUE(looks < 100 || GetParam() != 1) << looks;
}

// The code after such a wait relies on what it waited for.
TEST_P(CancelScopeTest, AWaitThatReturnsNothingDoesNotEndByALimitWhileTheStackUnwinds) {
  World world;
  std::atomic<bool> limit_has_passed{false};
  std::atomic<bool> ended{false};
  Synchronized<int> value;
  const auto is_set = [&](const char* which) { EXPECT_TRUE(limit_has_passed) << which; };
  Crew crew = Fibers();
  crew.Add([&] {
    EXPECT_TRUE(CallWhileUnwinding([&] {
      EXPECT_TRUE(ShieldedFor(1ms, [&] {
        world.event.Wait();
        is_set("FiberEvent");
        world.latch.Wait();
        world.semaphore.Acquire();
        const Deadline later(1ms);
        Sleep(later);
        EXPECT_TRUE(later.expired());
        std::unique_lock lock(world.mutex);
        int looks = 0;
        world.changed.wait(lock, [&] { return looks++ != 0; });
        EXPECT_EQ(looks, 2);
        looks = 0;
        value.Lock().Wait([&](int) { return looks++ != 0; });
        EXPECT_EQ(looks, 2) << "Synchronized";
        ended = true;
        EXPECT_FALSE(FiberEvent().Wait(1h)) << "the limit has passed, and counts";
      }));
    }));
    ended = true;  // Also if it was ended.
  });
  crew.Add([&] {
    Sleep(5ms);
    limit_has_passed = true;
    world.event.Set();
    world.latch.CountDown();
    world.semaphore.Release();
    while (!ended) {
      world.changed.notify_all();
      static_cast<void>(value.Lock());  // Tells who waits for it.
      testing::YieldActor();
    }
  });
  crew.Join();
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

// Whether or not the timer thread has looked.
TEST_P(CancelScopeTest, TheFirstCancellationPointAfterADeadlineKnowsThatItHasPassed) {
  const auto now = std::chrono::steady_clock::now();
  for (const Deadline& passed : {Deadline(0s), Deadline(-3s), Deadline(now - 3s), Deadline(now)}) {
    group.Run([&] {
      for (const CancellationPoint& point : kPoints) {
        World world;
        CancelScope scope(passed);
        bool went_on = false;
        EXPECT_FALSE(scope.Run([&] {
          EXPECT_TRUE(scope.IsCancelled());
          point.wait(world);
          went_on = true;
        }));
        EXPECT_FALSE(went_on) << point.name;
        EXPECT_TRUE(scope.DeadlineHasPassed());
      }
      for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(CancelScope(passed).Run([] { TestCancel(); }));
        EXPECT_FALSE(CancelScope(passed).Run([] {
          synchronization::YieldFiberOrThread();
          EXPECT_TRUE(IsCancelRequested());
          TestCancel();
        }));
        EXPECT_THROW(FailAfter(passed, [] { TestCancel(); }), DeadlineExceeded);
      }
    });
  }
}

void ComputeUntil(Deadline deadline) {
  while (!deadline.expired()) continue;
}

TEST_P(CancelScopeTest, ADeadlineThatPassesWhileTheFiberComputesIsSeenAtTheNextCancellationPoint) {
  group.Run([&] {
    for (int i = 0; i < 200; ++i) {
      const Deadline soon(20us);
      CancelScope outer(i % 2 == 0 ? soon : Deadline::None());
      bool went_on = false;
      EXPECT_FALSE(outer.Run([&] {
        CancelScope inner;
        static_cast<void>(inner.Run([&] {
          if (i % 2 != 0) outer.SetDeadline(soon);
          EXPECT_TRUE(CancelScope().Run([] {}));
          ComputeUntil(soon);
          if (i % 4 < 2) {
            EXPECT_TRUE(IsCancelRequested());
          }
          TestCancel();
        }));
        went_on = true;
      }));
      EXPECT_FALSE(went_on);
      EXPECT_TRUE(outer.DeadlineHasPassed());
      EXPECT_FALSE(IsCancelRequested()) << "outside";
      TestCancel();
    }
  });
}

// It would have got what it waits for.
TEST_P(CancelScopeTest, AWaitThatBeginsAfterTheDeadlineThrows) {
  std::atomic<bool> stop{false};
  FiberSemaphore units(0);
  FiberChannel<int> items(0);
  Crew crew = Fibers();
  crew.Add([&] {
    for (int i = 0; i < 100; ++i) {
      const Deadline soon(10us);
      CancelScope scope(soon);
      const bool returned = scope.Run([&] {
        ComputeUntil(soon);
        while (units.TryAcquire()) continue;
        i % 2 == 0 ? units.Acquire() : static_cast<void>(items.Get());
      });
      EXPECT_FALSE(returned && GetParam() == 1) << "nobody else has run";
    }
    stop = true;
  });
  crew.Add([&] {
    while (!stop) {
      units.Release();
      static_cast<void>(items.TryPut(1));
      testing::YieldActor();
    }
  });
  crew.Join();
}

TEST_P(CancelScopeTest, ADeadlineThatIsMovedIntoThePastCancelsAtOnce) {
  group.Run([&] {
    for (int i = 0; i < 100; ++i) {
      CancelScope scope;
      EXPECT_FALSE(scope.Run([&] {
        EXPECT_FALSE(IsCancelRequested());
        i % 2 == 0 ? scope.SetDeadline(std::chrono::steady_clock::now() - 3s) : CancelAfter(0s);
        EXPECT_TRUE(scope.IsCancelled());
        TestCancel();
      }));
      EXPECT_TRUE(scope.DeadlineHasPassed());
    }
  });
}

// Neither a deadline outside of a shield nor one that was taken back is looked at.
TEST_P(CancelScopeTest, ADeadlineThatDoesNotCountEndsNothing) {
  group.Run([&] {
    const Deadline soon(100us);
    CancelScope scope(soon);
    bool shielded = false;
    EXPECT_FALSE(scope.Run([&] {
      Shielded([&] {
        ComputeUntil(soon);
        EXPECT_FALSE(IsCancelRequested());
        TestCancel();
        shielded = true;
      });
      TestCancel();
    }));
    EXPECT_TRUE(shielded);
    const Deadline again(1ms);
    CancelScope moved(again);
    EXPECT_TRUE(moved.Run([&] {
      moved.SetDeadline({});
      if (!moved.IsCancelled()) {
        ComputeUntil(again);
        TestCancel();
      }
    }));
  });
}

// A scope that is cancelled for good needs no timer, whatever its deadline.
TEST_P(CancelScopeTest, AScopeWhoseDeadlineHasPassedIsEnteredAgain) {
  group.Run([&] {
    CancelScope scope(1ms);
    EXPECT_FALSE(scope.Run([] { Sleep(1h); }));
    EXPECT_FALSE(scope.Run([&] {
      scope.SetDeadline(1h);
      Sleep(1h);
    }));
    EXPECT_FALSE(scope.Run([] { TestCancel(); }));
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
