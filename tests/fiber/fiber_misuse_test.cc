// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Misuse ends the process with a message that names it.  Each case dies in a process of its own.

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/background_tasks.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/periodic_task.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/testing.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class FiberMisuseDeathTest : public ::testing::Test {
 protected:
  FiberMisuseDeathTest() {
    // The dying process starts the runtime: a forked one would have no workers.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  template <class F>
  static void WithRuntime(F&& f) {
    StartRuntime(OptionsOf({2, 1}));
    f();
    TerminateRuntime();
  }
  template <class F>
  static void InFiber(F&& f) {
    WithRuntime([&] { Fiber({.name = "culprit"}, std::forward<F>(f)).Join(); });
  }
};

// --- Without a runtime ---

TEST_F(FiberMisuseDeathTest, FiberBeforeStart) {
  EXPECT_DEATH(Fiber([] {}).Join(), "Fiber: the runtime does not run: call weft::StartRuntime");
}

TEST_F(FiberMisuseDeathTest, StartFiberDetachedBeforeStart) {
  EXPECT_DEATH(static_cast<void>(StartFiberDetached([] {})), "StartFiberDetached: the runtime does not run");
}

TEST_F(FiberMisuseDeathTest, StartFiberDetachedWithAttributesBeforeStart) {
  EXPECT_DEATH(static_cast<void>(StartFiberDetached({.scheduling_group = 0}, [] {})),
               "StartFiberDetached: the runtime does not run");
}

TEST_F(FiberMisuseDeathTest, BatchStartFiberDetachedBeforeStart) {
  std::vector<std::function<void()>> batch(2, [] {});
  EXPECT_DEATH(static_cast<void>(BatchStartFiberDetached(std::move(batch))),
               "BatchStartFiberDetached: the runtime does not run");
}

TEST_F(FiberMisuseDeathTest, QuestionsBeforeStart) {
  EXPECT_DEATH(GetSchedulingGroupCount(), "GetSchedulingGroupCount: the runtime does not run");
  EXPECT_DEATH(GetSchedulingGroupSize(), "GetSchedulingGroupSize: the runtime does not run");
  EXPECT_DEATH(GetConcurrencyHint(), "GetConcurrencyHint: the runtime does not run");
  EXPECT_DEATH(GetCurrentSchedulingGroupIndex(), "GetCurrentSchedulingGroupIndex: the runtime does not run");
  EXPECT_DEATH(GetSchedulingGroupAssignedNode(0), "GetSchedulingGroupAssignedNode: the runtime does not run");
  EXPECT_DEATH(GetSchedulingGroupName(0), "GetSchedulingGroupName: the runtime does not run");
  EXPECT_DEATH(SchedulingGroupNamed("batch"), "SchedulingGroupNamed: the runtime does not run");
}

TEST_F(FiberMisuseDeathTest, TerminateBeforeStart) {
  EXPECT_DEATH(TerminateRuntime(), "TerminateRuntime: the runtime does not run");
}

// No misuse: it is an exception.
TEST_F(FiberMisuseDeathTest, FiberAfterTerminate) {
  EXPECT_EXIT(
      {
        WithRuntime([] {});
        try {
          Fiber({.name = "late"}, [] {}).Join();
        } catch (const FiberNotStarted& refused) {
          std::fputs(refused.what(), stderr);
          std::_Exit(0);
        }
      },
      ::testing::ExitedWithCode(0), "the start of fiber 'late' was refused: the runtime has ended or is going down");
}

// --- The runtime itself ---

TEST_F(FiberMisuseDeathTest, DoubleStart) {
  EXPECT_DEATH(WithRuntime([] { StartRuntime(); }), "StartRuntime: the runtime runs already");
}

TEST_F(FiberMisuseDeathTest, DoubleTerminate) {
  EXPECT_DEATH(
      {
        WithRuntime([] {});
        TerminateRuntime();
      },
      "TerminateRuntime: the runtime does not run");
}

TEST_F(FiberMisuseDeathTest, TerminateInsideAFiber) {
  EXPECT_DEATH(InFiber([] { TerminateRuntime(); }), "TerminateRuntime: called in a fiber");
}

TEST_F(FiberMisuseDeathTest, TerminateInATimersCallback) {
  EXPECT_DEATH(WithRuntime([] {
                 EnableFiberTimer(CreateFiberTimer(std::chrono::steady_clock::now(), [] { TerminateRuntime(); }));
                 FiberSleepFor(10s);
               }),
               "TerminateRuntime: called by a timer's callback");
}

TEST_F(FiberMisuseDeathTest, StartInsideAFiber) {
  EXPECT_DEATH(InFiber([] { StartRuntime(); }), "StartRuntime: the runtime runs already");
}

TEST_F(FiberMisuseDeathTest, ABadFlagValueIsRefusedAtStart) {
  EXPECT_DEATH(
      {
        RuntimeOptions options;
        options.run_queue_size = 1000;
        StartRuntime(options);
      },
      "StartRuntime: --fiber_run_queue_size=1000: must be a power of two in 16..16777216");
}

TEST_F(FiberMisuseDeathTest, AGroupThatDoesNotExist) {
  EXPECT_DEATH(WithRuntime([] { Fiber({.scheduling_group = 7}, [] {}).Join(); }),
               "Fiber: there is no scheduling group 7, only 0 to 0");
  EXPECT_DEATH(WithRuntime([] { GetSchedulingGroupAssignedNode(3); }),
               "GetSchedulingGroupAssignedNode: there is no scheduling group 3");
}

TEST_F(FiberMisuseDeathTest, ANameThatNoGroupHas) {
  EXPECT_DEATH(
      {
        StartRuntime(NamedGroupsOf("latency:1,batch:1"));
        static_cast<void>(SchedulingGroupNamed("bacth"));
      },
      "SchedulingGroupNamed: there is no scheduling group named 'bacth', only latency, batch");
  EXPECT_DEATH(WithRuntime([] { GetSchedulingGroupName(3); }),
               "GetSchedulingGroupName: there is no scheduling group 3");
}

TEST_F(FiberMisuseDeathTest, ANameOfAFormerRuntime) {
  EXPECT_DEATH(
      {
        StartRuntime(NamedGroupsOf("latency:1,batch:1"));
        const std::size_t batch = SchedulingGroupNamed("batch");
        TerminateRuntime();
        WithRuntime([batch] { Fiber({.scheduling_group = batch}, [] {}).Join(); });
      },
      "Fiber: there is no scheduling group [0-9]+: what SchedulingGroupNamed.. returns is good until its runtime ends");
}

TEST_F(FiberMisuseDeathTest, TheCurrentGroupOfAPlainThread) {
  EXPECT_DEATH(WithRuntime([] { GetCurrentSchedulingGroupIndex(); }),
               "GetCurrentSchedulingGroupIndex: the caller is not a fiber");
}

// --- Fiber ---

TEST_F(FiberMisuseDeathTest, DestroyingAJoinableFiberNamesIt) {
  EXPECT_DEATH(WithRuntime([] { const Fiber forgotten({.name = "forgotten"}, [] {}); }),
               "Fiber::~Fiber: fiber 'forgotten' \\(id [0-9]+\\) is still joinable: call Join\\(\\) or Detach\\(\\)");
}

TEST_F(FiberMisuseDeathTest, AssigningToAJoinableFiberNamesIt) {
  EXPECT_DEATH(WithRuntime([] {
                 Fiber forgotten({.name = "forgotten"}, [] {});
                 forgotten = Fiber([] {});
               }),
               "Fiber::operator=: fiber 'forgotten' \\(id [0-9]+\\) is still joinable");
}

TEST_F(FiberMisuseDeathTest, SelfJoin) {
  EXPECT_DEATH(WithRuntime([] {
                 Fiber self;
                 FiberEvent assigned;
                 self = Fiber({.name = "narcissus"}, [&] {
                   assigned.Wait();
                   self.Join();
                 });
                 assigned.Set();
                 FiberEvent().Wait();
               }),
               "Fiber::Join: fiber 'narcissus' \\(id [0-9]+\\) joins itself");
}

TEST_F(FiberMisuseDeathTest, DoubleJoin) {
  EXPECT_DEATH(WithRuntime([] {
                 Fiber fiber([] {});
                 fiber.Join();
                 fiber.Join();
               }),
               "Fiber::Join: the fiber has been joined already");
}

TEST_F(FiberMisuseDeathTest, TwoJoinsOfOneFiberAtATime) {
  EXPECT_DEATH(WithRuntime([] {
                 FiberEvent never;
                 Fiber shared({.name = "shared"}, [&] { never.Wait(); });
                 Fiber first([&] { shared.Join(); });
                 Fiber second([&] { shared.Join(); });
                 second.Join();
                 first.Join();
               }),
               "Fiber::Join: fiber 'shared' \\(id [0-9]+\\) is being joined already");
}

// The join found the state freed.
TEST_F(FiberMisuseDeathTest, DetachMoveCancelOrInterruptBesideAJoin) {
  constexpr auto kBesideAJoin = [](void (*then)(Fiber&)) {
    StartRuntime(OptionsOf({1, 1}));
    Fiber([&] {
      FiberEvent never;
      Fiber shared({.name = "shared"}, [&] { never.Wait(); });
      Fiber joins(Launch::Dispatch, [&] { shared.Join(); });  // With one worker: until it waits there.
      then(shared);
    }).Join();
  };
  EXPECT_DEATH(kBesideAJoin([](Fiber& fiber) { fiber.Detach(); }),
               "Fiber::Detach: fiber 'shared' \\(id [0-9]+\\) is being joined");
  EXPECT_DEATH(kBesideAJoin([](Fiber& fiber) { const Fiber other(std::move(fiber)); }),
               "Fiber::Fiber\\(Fiber&&\\): fiber 'shared' \\(id [0-9]+\\) is being joined");
  EXPECT_DEATH(kBesideAJoin([](Fiber& fiber) {
                 Fiber other;
                 other = std::move(fiber);
               }),
               "Fiber::operator=: fiber 'shared' \\(id [0-9]+\\) is being joined");
  EXPECT_DEATH(kBesideAJoin([](Fiber& fiber) { fiber.Cancel(); }),
               "Fiber::Cancel: fiber 'shared' \\(id [0-9]+\\) is being joined");
  EXPECT_DEATH(kBesideAJoin([](Fiber& fiber) { fiber.Interrupt(std::runtime_error("")); }),
               "Fiber::Interrupt: fiber 'shared' \\(id [0-9]+\\) is being joined");
}

TEST_F(FiberMisuseDeathTest, AJoinAfterOneThatRanOutOfTimeIsNone) {
  WithRuntime([] {
    FiberEvent go;
    Fiber fiber([&] { go.Wait(); });
    EXPECT_FALSE(fiber.Join(1ns));
    EXPECT_FALSE(fiber.Join(1ns));
    go.Set();
    fiber.Join();
    fiber = Fiber([] {});
    fiber.Join();
  });
}

TEST_F(FiberMisuseDeathTest, JoinOfAnEmptyDetachedOrMovedFiber) {
  EXPECT_DEATH(Fiber().Join(), "Fiber::Join: no fiber was started through this Fiber");
  EXPECT_DEATH(WithRuntime([] {
                 Fiber fiber([] {});
                 fiber.Detach();
                 fiber.Join();
               }),
               "Fiber::Join: the fiber has been detached");
  EXPECT_DEATH(WithRuntime([] {
                 Fiber fiber([] {});
                 const Fiber other(std::move(fiber));
                 fiber.Detach();  // NOLINT(bugprone-use-after-move)
               }),
               "Fiber::Detach: the fiber has been moved to another Fiber");
}

TEST_F(FiberMisuseDeathTest, ARefusalThatNobodyCatchesNamesTheFiberAndTheReason) {
  EXPECT_DEATH(InFiber([] {
                 const RefuseFiberStarts refuse;
                 Fiber({.name = "unwanted"}, [] {}).Join();
               }),
               "fiber 'culprit' .*: weft::FiberNotStarted: the start of fiber 'unwanted' was refused: the runtime has");
}

TEST_F(FiberMisuseDeathTest, ARefusalBesideAJoinableFiberSaysSo) {
  EXPECT_DEATH(InFiber([] {
                 try {
                   const Fiber first([] {});
                   const RefuseFiberStarts refuse;
                   const Fiber second([] {});
                 } catch (const FiberNotStarted&) {
                 }
               }),
               "Fiber::~Fiber: .* is still joinable: .*an exception is leaving its block");
}

TEST_F(FiberMisuseDeathTest, AnEmptyFunction) {
  EXPECT_DEATH(WithRuntime([] { Fiber(std::function<void()>()).Join(); }), "Fiber: the function to run is empty");
  EXPECT_DEATH(WithRuntime([] { static_cast<void>(StartFiberDetached(base::UniqueFunction<void()>())); }),
               "StartFiberDetached: the function to run is empty");
  EXPECT_DEATH(WithRuntime([] { Fiber(static_cast<void (*)()>(nullptr)).Join(); }),
               "Fiber: the function to run is empty");
  EXPECT_DEATH(WithRuntime([] { static_cast<void>(BatchStartFiberDetached(std::vector<std::function<void()>>(1))); }),
               "BatchStartFiberDetached: the function to run is empty");
}

TEST_F(FiberMisuseDeathTest, AStackThatIsTooSmall) {
  EXPECT_DEATH(WithRuntime([] { Fiber({.stack_size = 1000}, [] {}).Join(); }),
               "Fiber: a stack of 1000 bytes is too small, 16384 is the least");
}

TEST_F(FiberMisuseDeathTest, APriorityThatIsTooHigh) {
  EXPECT_DEATH(WithRuntime([] { Fiber({.priority = 8}, [] {}).Join(); }), "Fiber: a priority of 8, must be in 0..7");
}

TEST_F(FiberMisuseDeathTest, AnExceptionThatLeavesAFiberEndsTheProcess) {
  EXPECT_DEATH(InFiber([] { throw std::runtime_error("nobody catches me"); }),
               "fiber 'culprit' \\(id [0-9]+\\): an exception was not caught: std::runtime_error: nobody catches me");
  EXPECT_DEATH(WithRuntime([] { Fiber([] { throw 7; }).Join(); }),
               "fiber \\(unnamed\\) \\(id [0-9]+\\): an exception was not caught: int");
}

#if !WEFT_TSAN  // It takes a fiber for a thread of its own, and dies by a check of its own.
TEST_F(FiberMisuseDeathTest, PthreadExitInAFiber) {
  // clang lets the fiber end in a call of std::terminate() that does not show its origin.
  EXPECT_DEATH(InFiber([] { pthread_exit(nullptr); }), "fiber 'culprit' \\(id [0-9]+\\): .*pthread_exit\\(\\)");
  // Beside an exception that is being handled.
  EXPECT_DEATH(InFiber([] {
                 try {
                   throw 1;
                 } catch (int) {
                   pthread_exit(nullptr);
                 }
               }),
               "fiber 'culprit' \\(id [0-9]+\\): .*pthread_exit\\(\\)");
}
#endif

TEST_F(FiberMisuseDeathTest, TerminateWithoutAnException) {
  EXPECT_DEATH(InFiber([] { std::terminate(); }),
               "fiber 'culprit' \\(id [0-9]+\\): without an exception, std::terminate\\(\\) was called");
}

// A handler set before the runtime was started used to be called, too.
TEST_F(FiberMisuseDeathTest, TheProgramsOwnTerminateHandlerGoesOn) {
  EXPECT_EXIT(
      {
        std::set_terminate([] { std::_Exit(7); });
        InFiber([] { throw 1; });
      },
      ::testing::ExitedWithCode(7), "fiber 'culprit'");
}

// --- Inside and outside ---

TEST_F(FiberMisuseDeathTest, YieldOutsideOfAFiber) {
  EXPECT_DEATH(FiberYield(), "FiberYield: the caller is not a fiber");
  EXPECT_DEATH(WithRuntime([] { FiberYield(); }), "FiberYield: the caller is not a fiber");
}

TEST_F(FiberMisuseDeathTest, AFailedCheckNamesTheFiber) {
  EXPECT_DEATH(InFiber([] { WEFT_CHECK(1 == 2, "arithmetic"); }), "arithmetic.*fiber 'culprit' \\(id [0-9]+\\)");
}

#if !WEFT_ASAN && !WEFT_TSAN  // They have reports of their own.
// Deep, and the compiler cannot know that it never ends.
int Recurse(volatile int* depth, volatile char* above) {
  volatile char frame[512];
  frame[0] = above[0];
  return *depth == 0 ? frame[0] : Recurse(depth, frame) + frame[0];
}

TEST_F(FiberMisuseDeathTest, AStackOverflowNamesTheFiberAndItsStack) {
  volatile int depth = 1;
  volatile char start = 0;
  EXPECT_DEATH(InFiber([&] { Recurse(&depth, &start); }),
               "stack overflow in fiber culprit \\(id [0-9]+\\), stack size [0-9]+");
}
#endif

TEST_F(FiberMisuseDeathTest, AnExecutionLocalWithoutAContext) {
  static FiberExecutionLocal<int> local;
  EXPECT_DEATH(InFiber([] { ++*local; }), "FiberExecutionLocal: used outside of FiberExecutionContext::Execute");
  EXPECT_DEATH(++*local, "FiberExecutionLocal: used outside of FiberExecutionContext::Execute");
}

TEST_F(FiberMisuseDeathTest, ClearOfAContextInUse) {
  EXPECT_DEATH(
      {
        auto context = FiberExecutionContext::Create();
        context->Execute([&] { context->Clear(); });
      },
      "FiberExecutionContext::Clear: others still use the context");
}

TEST_F(FiberMisuseDeathTest, AnExecutionLocalWhoseConstructorUsesItself) {
  struct Circular {
    Circular() {
      static int depth = 0;
      if (++depth < 3) static_cast<void>(Self().Get());
    }
    static FiberExecutionLocal<Circular>& Self() {
      static FiberExecutionLocal<Circular> self;
      return self;
    }
  };
  constexpr const char* kMessage =
      "FiberExecutionLocal: the constructor of T uses the FiberExecutionLocal that it is made for, T is .*Circular";
  EXPECT_DEATH(FiberExecutionContext::Create()->Execute([] { Circular::Self().Get(); }), kMessage);
  EXPECT_DEATH(InFiber([] { FiberExecutionContext::Create()->Execute([] { Circular::Self().Get(); }); }), kMessage);
}

TEST_F(FiberMisuseDeathTest, AFiberLocalWhoseConstructorUsesItself) {
  struct Circular {
    Circular() {
      static int depth = 0;
      if (++depth < 3) static_cast<void>(Self().Get());
    }
    static FiberLocal<Circular>& Self() {
      static FiberLocal<Circular> self;
      return self;
    }
  };
  EXPECT_DEATH(Circular::Self().Get(), "FiberLocal: the constructor of T uses the FiberLocal that it is made for");
}

// --- Waits for fibers that were unfinished when their runtime ended ---

class LostFibersDeathTest : public FiberMisuseDeathTest {
 protected:
  static constexpr const char* kNeverWill =
      "fiber 'lost' \\(id [0-9]+\\) had not ended when the runtime was terminated, and never will";

  // start() starts a fiber that calls BeLost(); the runtime then ends without it.
  template <class Start>
  static void Lose(Start start) {
    RuntimeOptions options = OptionsOf({2, 1});
    options.terminate_timeout = 1ms;
    StartRuntime(options);
    start();
    begun_.Wait();
    if (TerminateRuntime() != 1) std::abort();
  }
  static void BeLost() {
    begun_.Set();
    never_.Wait();
  }
  static FiberAttributes Named() { return {.name = "lost"}; }

 private:
  static inline FiberEvent begun_;
  static inline FiberEvent& never_ = *new FiberEvent;
};

TEST_F(LostFibersDeathTest, AJoinSaysSo) {
  EXPECT_DEATH(
      {
        Fiber fiber;
        Lose([&] { fiber = Fiber(Named(), BeLost); });
        if (fiber.Join(1ms)) std::abort();  // A deadline is one.
        fiber.Join();
      },
      std::string("Fiber::Join: ") + kNeverWill);
  EXPECT_DEATH(
      {
        std::optional<FiberTask<void>> task;
        Lose([&] { task.emplace(Named(), BeLost); });
        task->Get();
      },
      std::string("FiberTask::Get: ") + kNeverWill);
  // Also from the next runtime.
  EXPECT_DEATH(
      {
        Fiber fiber;
        Lose([&] { fiber = Fiber(Named(), BeLost); });
        WithRuntime([&] { Fiber([&] { fiber.Join(); }).Join(); });
      },
      std::string("Fiber::Join: ") + kNeverWill);
}

TEST_F(LostFibersDeathTest, ADestructorThatWouldWaitSaysSo) {
  EXPECT_DEATH(
      {
        FiberScope scope;
        Lose([&] { static_cast<void>(scope.Spawn(Named(), BeLost)); });
      },
      std::string("FiberScope: ") + kNeverWill);
  EXPECT_DEATH(
      {
        FiberScope scope;
        Lose([&] { static_cast<void>(scope.Spawn(Named(), BeLost)); });
        scope.Wait();
      },
      std::string("FiberScope: ") + kNeverWill);
  EXPECT_DEATH(
      {
        BackgroundTasks tasks;
        Lose([&] { static_cast<void>(tasks.Start(Named(), BeLost)); });
        if (tasks.Wait(1ms)) std::abort();
      },
      std::string("BackgroundTasks: ") + kNeverWill);
  EXPECT_DEATH(
      {
        PeriodicTask task;
        Lose([&] { static_cast<void>(task.Start("lost", {.period = 1h, .run_at_once = true}, BeLost)); });
      },
      std::string("Fiber::Join: ") + kNeverWill);
  EXPECT_DEATH(
      {
        std::optional<FiberTask<void>> task;
        Lose([&] { task.emplace(Named(), BeLost); });
      },
      std::string("FiberTask::~FiberTask: ") + kNeverWill);
  EXPECT_DEATH(
      {
        FiberTimerKiller killer;
        Lose([&] { killer.Reset(SetFiberTimer(std::chrono::steady_clock::now(), BeLost)); });
        killer.KillAndWait();
      },
      "KillFiberTimerAndWait: the callback had not ended when the runtime was terminated");
}

TEST_F(LostFibersDeathTest, ATimersCallbackThatWasQueuedWhenTheRuntimeEndedIsLost) {
  EXPECT_DEATH(
      {
        static std::atomic<bool> begun{false};
        RuntimeOptions options = OptionsOf({1, 1});
        options.terminate_timeout = 1ms;
        StartRuntime(options);
        Fiber([] {
          begun = true;
          for (;;) std::this_thread::yield();
        }).Detach();
        while (!begun) std::this_thread::yield();
        FiberTimerKiller killer(SetFiberTimer(std::chrono::steady_clock::now(), [] {}));
        while (GetFiberQueueSize() == 0) std::this_thread::yield();
        if (TerminateRuntime() != 2) std::abort();
        killer.KillAndWait();
      },
      "KillFiberTimerAndWait: the callback had not ended when the runtime was terminated");
}

// One that was left behind with its thread is lost, too, whatever becomes of it.
TEST_F(LostFibersDeathTest, AFiberThatBlocksItsThreadIsLost) {
  EXPECT_DEATH(
      {
        static std::atomic<bool> begun{false};
        static std::atomic<bool> ends{false};
        RuntimeOptions options = OptionsOf({2, 1});
        options.terminate_timeout = 1ms;
        StartRuntime(options);
        Fiber fiber(Named(), [] {
          begun = true;
          while (!ends) std::this_thread::yield();
        });
        while (!begun) std::this_thread::yield();
        if (TerminateRuntime() != 1) std::abort();
        ends = true;
        fiber.Join();
      },
      std::string("Fiber::Join: ") + kNeverWill);
}

// One line, and the exit goes on.
TEST_F(LostFibersDeathTest, TheExitOfTheProcessDoesNotWait) {
  const auto exits = [](auto own) {
    Lose([&] { own(); });
    std::exit(42);
  };
  const ::testing::ExitedWithCode with_its_code(42);
  EXPECT_EXIT(exits([] {
                static FiberScope scope;
                static_cast<void>(scope.Spawn(Named(), BeLost));
              }),
              with_its_code, std::string("FiberScope: ") + kNeverWill);
  EXPECT_EXIT(exits([] {
                static BackgroundTasks tasks;
                static_cast<void>(tasks.Start(Named(), BeLost));
              }),
              with_its_code, std::string("BackgroundTasks: ") + kNeverWill);
  EXPECT_EXIT(exits([] {
                static PeriodicTask task;
                static_cast<void>(task.Start("lost", {.period = 1h, .run_at_once = true}, BeLost));
              }),
              with_its_code, std::string("Fiber::Join: ") + kNeverWill);
  EXPECT_EXIT(exits([] { static FiberTask<void> task(Named(), BeLost); }), with_its_code,
              std::string("FiberTask::~FiberTask: ") + kNeverWill);
}

TEST_F(LostFibersDeathTest, DuringTheExitATaskHasNoResult) {
  struct Gets {
    ~Gets() {
      try {
        task.Get();
        _exit(1);
      } catch (const TaskCancelled&) {
      }
    }
    FiberTask<std::string> task{Named(), [] {
                                  BeLost();
                                  return std::string();
                                }};
  };
  EXPECT_EXIT(
      {
        Lose([] { static Gets gets; });
        std::exit(42);
      },
      ::testing::ExitedWithCode(42), std::string("FiberTask::Get: ") + kNeverWill);
}

// Whoever waits for something else than a fiber's end is told what it may be.
TEST_F(LostFibersDeathTest, AnotherWaitOfAThreadWritesALine) {
  EXPECT_EXIT(
      {
        Lose([] { Fiber(Named(), BeLost).Detach(); });
        static FiberEvent event;
        // The line comes when the thread is about to wait.
        base::SetLogSink([](base::LogSeverity, const char*, int, std::string_view text) {
          std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
          event.Set();
        });
        event.Wait();
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "a thread waits without a deadline, and no runtime runs.* one of the 1 fibers");
}

}  // namespace
}  // namespace weft::fiber
