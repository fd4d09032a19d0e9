// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/runtime/runtime_instance.h"
#include "weft/numa/machine/topology.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/scheduling_policy.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/scheduling_group/worker/worker_slot.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

// Catches log lines while it lives.
class LogCatcher {
 public:
  LogCatcher() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      const std::scoped_lock lock(mutex_);
      text_.append(text).append("\n");
    });
  }
  ~LogCatcher() { base::SetLogSink(nullptr); }

  std::string text() {
    const std::scoped_lock lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// --- Questions ---

class RuntimeTest : public InEachShape {};
WEFT_INSTANTIATE_SHAPES(RuntimeTest);

TEST_P(RuntimeTest, AnswersMatchTheOptions) {
  EXPECT_TRUE(IsRuntimeRunning());
  EXPECT_EQ(GetSchedulingGroupCount(), groups());
  EXPECT_EQ(GetSchedulingGroupSize(), workers());
  EXPECT_EQ(GetConcurrencyHint(), groups() * workers());
  const numa::Topology machine = numa::Topology::Detect();
  for (std::size_t group = 0; group < groups(); ++group) {
    const int node = GetSchedulingGroupAssignedNode(group);
    EXPECT_TRUE(node == -1 || machine.FindNode(node) != nullptr) << node;
  }
}

TEST_P(RuntimeTest, OnceItHasEndedTheAnswersAreNone) {
  Fiber([] {}).Join();
  const std::size_t left_before = GetFiberCount();  // by former runtimes
  ASSERT_EQ(TerminateRuntime(), 0U);
  EXPECT_FALSE(IsRuntimeRunning());
  EXPECT_EQ(GetSchedulingGroupCount(), 0U);
  EXPECT_EQ(GetSchedulingGroupSize(), 0U);
  EXPECT_EQ(GetConcurrencyHint(), 0U);
  EXPECT_EQ(GetSchedulingGroupAssignedNode(0), -1);
  EXPECT_TRUE(GetSchedulingCounts().empty());
  EXPECT_EQ(GetFiberQueueSize(), 0U);
  EXPECT_LE(GetFiberCount(), left_before);
}

TEST_P(RuntimeTest, TheAnswersAreThereInFibersToo) {
  InFiber([&] {
    EXPECT_EQ(GetSchedulingGroupCount(), groups());
    EXPECT_LT(GetCurrentSchedulingGroupIndex(), groups());
  });
}

TEST_P(RuntimeTest, WorkersAreNamedAfterTheirGroupAndIndex) {
  Fiber({.scheduling_group = groups() - 1, .scheduling_group_local = true}, [&] {
    char name[16] = {};
    ASSERT_EQ(::pthread_getname_np(::pthread_self(), name, sizeof(name)), 0);
    EXPECT_TRUE(std::string_view(name).starts_with("FiberWorker_" + std::to_string(groups() - 1))) << name;
  }).Join();
}

// --- The end ---

TEST_P(RuntimeTest, TerminateWaitsForFibersThatAreStillAtWork) {
  std::atomic<int> ended{0};
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      for (int round = 0; round < 10; ++round) FiberYield();
      FiberSleepFor(20ms);
      ++ended;
    }));
  }
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_EQ(ended, 100);
}

TEST_P(RuntimeTest, TerminateLetsFibersStartFibers) {
  std::atomic<int> ended{0};
  ASSERT_TRUE(StartFiberDetached([&] {
    FiberSleepFor(10ms);
    for (int i = 0; i < 10; ++i) {
      Fiber([&] { ++ended; }).Join();
      EXPECT_TRUE(StartFiberDetached([&] { ++ended; }));
    }
  }));
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_EQ(ended, 20);
}

TEST_P(RuntimeTest, TerminateRefusesStartsFromPlainThreads) {
  FiberEvent go;
  Fiber waiting([&] { go.Wait(); });
  std::atomic<bool> refused{false};
  std::thread outside([&] {
    while (StartFiberDetached([] {})) std::this_thread::yield();
    refused = true;
    go.Set();
  });
  EXPECT_EQ(TerminateRuntime(), 0U);
  outside.join();
  EXPECT_TRUE(refused);
  waiting.Join();  // It has ended: needs no runtime.
}

// A thread that is about to start a fiber, or reads the groups.
class ThreadInside {
 public:
  ThreadInside() {
    thread_ = std::thread([this] {
      const scheduling_group::ReadSection section;
      inside_ = true;
      inside_.notify_one();
      leave_.wait(false);
    });
    inside_.wait(false);
  }
  ~ThreadInside() {
    leave_ = true;
    leave_.notify_one();
    thread_.join();
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> leave_{false};
  std::thread thread_;
};

// As far as a while can show.
template <class Condition>
bool Stays(Condition condition) {
  const auto end = Steady::now() + 50ms;
  while (condition() && Steady::now() < end) std::this_thread::yield();
  return condition();
}

// RT2: it may not have seen the refusal.
TEST_P(RuntimeTest, NothingIsTakenDownBeforeAThreadThatStartsAFiberIsDone) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> callback = held;
  SetFiberDetachedTimer(Steady::now() + 1h, [kept = std::move(held)] {});
  std::thread terminator;
  {
    const ThreadInside spawner;
    terminator = std::thread([] { EXPECT_EQ(TerminateRuntime(), std::size_t{0}); });
    while (StartFiberDetached([] {})) std::this_thread::yield();
    EXPECT_TRUE(Stays([&] { return !callback.expired(); })) << "timers are dropped";
  }
  terminator.join();
  EXPECT_TRUE(callback.expired());
}

// RT3
TEST_P(RuntimeTest, TheGroupsStayUntilAThreadHasLookedAtThem) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> callback = held;
  SetFiberDetachedTimer(Steady::now() + 1h, [kept = std::move(held)] {});
  FiberEvent end;
  Fiber fiber([&] { end.Wait(); });
  std::atomic<bool> terminated{false};
  std::thread terminator([&] {
    EXPECT_EQ(TerminateRuntime(), std::size_t{0});
    terminated = true;
  });
  while (!callback.expired()) std::this_thread::yield();  // It waits for the fiber.
  {
    const ThreadInside visitor;
    end.Set();
    EXPECT_TRUE(Stays([&] { return !terminated.load(); })) << "the groups are gone";
  }
  terminator.join();
  fiber.Join();
}

// However long that takes: when TerminateRuntime() returns, the thread holds nothing of the runtime.
TEST(Runtime, TerminateWaitsForACallableThatAThreadIsMovingIntoItsFiber) {
  struct Shared {
    std::atomic<bool> moving{false};
    std::atomic<bool> go_on{false};
    std::atomic<bool> terminated{false};
    std::atomic<bool> terminated_before_the_move_was_over{false};
    std::atomic<bool> ran{false};
  };
  struct SlowToMove {
    explicit SlowToMove(Shared* with) : shared(with) {}
    SlowToMove(SlowToMove&& other) noexcept : shared(other.shared) {
      shared->moving = true;
      while (!shared->go_on) std::this_thread::yield();
      // Enough time for a TerminateRuntime() that does not wait; one that does passes however long this takes.
      const auto until = Steady::now() + 100ms;
      while (!shared->terminated && Steady::now() < until) std::this_thread::yield();
      shared->terminated_before_the_move_was_over = shared->terminated.load();
    }
    void operator()() const { shared->ran = true; }
    Shared* shared;
  };
  RuntimeOptions options = OptionsOf({2, 1});
  options.terminate_timeout = 1ms;
  StartRuntime(options);
  Shared shared;
  std::atomic<bool> accepted{false};
  std::thread spawner([&] { accepted = StartFiberDetached(SlowToMove(&shared)); });
  while (!shared.moving) std::this_thread::yield();
  std::size_t unfinished = 1;
  std::thread terminator([&] {
    unfinished = TerminateRuntime();
    shared.terminated = true;
  });
  // It refuses starts first: then it is under way.
  while (std::optional<Fiber> fiber = Fiber::TryStart({}, [] {})) fiber->Join();
  shared.go_on = true;
  terminator.join();
  EXPECT_FALSE(shared.terminated_before_the_move_was_over);
  spawner.join();
  EXPECT_EQ(shared.ran.load(), accepted.load());
  EXPECT_EQ(unfinished, 0U);
}

TEST_P(RuntimeTest, TimedWaitsStillEndInTimeWhileTheRuntimeTerminates) {
  FiberEvent never;
  std::atomic<bool> timed_out{false};
  ASSERT_TRUE(StartFiberDetached([&] { timed_out = !never.Wait(20ms); }));
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_TRUE(timed_out);
}

TEST_P(RuntimeTest, PendingTimersAreDroppedAndTheirCallbacksDestroyed) {
  auto shared = std::make_shared<int>(0);
  const auto in_an_hour = Steady::now() + 1h;
  SetFiberDetachedTimer(in_an_hour, [shared] { ++*shared; });
  SetFiberDetachedTimer(in_an_hour, 1ms, [shared] { ++*shared; });
  const std::uint64_t kept = SetFiberTimer(in_an_hour, [shared] { ++*shared; });
  InFiber([&] { SetFiberDetachedTimer(in_an_hour, [shared] { ++*shared; }); });
  EXPECT_EQ(shared.use_count(), 5);
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_EQ(*shared, 0);
  KillFiberTimer(kept);  // A stale id is harmless.
}

TEST_P(RuntimeTest, ATimerThatIsDueWhileTheRuntimeWaitsForFibersDoesNotFire) {
  const auto due = Steady::now() + 300ms;
  static std::atomic<int> fired;
  fired = 0;
  ASSERT_TRUE(SetFiberDetachedTimer(due, [] { fired.fetch_add(1); }));
  Fiber([due] { FiberSleepUntil(due + 50ms); }).Detach();
  const bool in_time = Steady::now() < due - 100ms;  // Else the machine has slept.
  EXPECT_EQ(TerminateRuntime(), std::size_t{0});
  EXPECT_GE(Steady::now(), due) << "the fiber was waited for";
  EXPECT_TRUE(!in_time || fired.load() == 0);
}

TEST_P(RuntimeTest, APeriodicTimerDoesNotKeepTheRuntimeFromTerminating) {
  std::atomic<int> ticks{0};
  FiberLatch three(3);
  SetFiberDetachedTimer(Steady::now(), 1ms, [&] {
    if (++ticks <= 3) three.CountDown();
  });
  three.Wait();
  const auto begin = Steady::now();
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_LT(Steady::now() - begin, kTerminateTimeout);
}

// --- Fibers that do not end ---

// For objects that unfinished fibers hold: they never release them.
template <class T>
T& Immortal() {
  static auto* const list = new std::vector<std::unique_ptr<T>>;
  return *list->emplace_back(std::make_unique<T>());
}

class UnfinishedFibersTest : public ::testing::TestWithParam<Shape> {
 protected:
  static RuntimeOptions Impatient() {
    RuntimeOptions options = OptionsOf(GetParam());
    options.terminate_timeout = 30ms;
    return options;
  }
};
WEFT_INSTANTIATE_SHAPES(UnfinishedFibersTest);

TEST_P(UnfinishedFibersTest, AParkedFiberIsReportedByNameAndId) {
  StartRuntime(Impatient());
  auto& never = Immortal<FiberEvent>();
  auto& waits = Immortal<FiberEvent>();
  Fiber fiber({.name = "the patient one"}, [&] {
    waits.Set();
    never.Wait();
  });
  const std::uint64_t id = fiber.Id();
  waits.Wait();
  fiber.Detach();
  LogCatcher log;
  EXPECT_EQ(TerminateRuntime(), 1U);
  EXPECT_NE(log.text().find("'the patient one' (id " + std::to_string(id) + ")"), std::string::npos) << log.text();
}

TEST_P(UnfinishedFibersTest, ASleeperForEverIsReported) {
  StartRuntime(Impatient());
  ASSERT_TRUE(StartFiberDetached({.name = "sleeper"}, [] { FiberSleepFor(std::chrono::hours::max()); }));
  ASSERT_TRUE(StartFiberDetached({.name = "dozer"}, [] { FiberSleepFor(1h); }));
  LogCatcher log;
  EXPECT_EQ(TerminateRuntime(), 2U);
  EXPECT_NE(log.text().find("'sleeper'"), std::string::npos) << log.text();
  EXPECT_NE(log.text().find("'dozer'"), std::string::npos) << log.text();
}

TEST_P(UnfinishedFibersTest, FibersThatYieldForEverAreReportedAsQueued) {
  StartRuntime(Impatient());
  const int fibers = static_cast<int>(GetConcurrencyHint()) + 2;
  for (int i = 0; i < fibers; ++i) {
    ASSERT_TRUE(StartFiberDetached({.name = "yields"}, [] {
      for (;;) FiberYield();
    }));
  }
  LogCatcher log;
  EXPECT_EQ(TerminateRuntime(), static_cast<std::size_t>(fibers));
  EXPECT_NE(log.text().find("'yields'"), std::string::npos) << log.text();
}

TEST_P(UnfinishedFibersTest, QueuedFibersThatNeverGotAWorkerAreReported) {
  if (GetParam().workers > 4)
    GTEST_SKIP() << "with far more workers than CPUs one may be done before another has begun";
  StartRuntime(Impatient());
  LogCatcher log;
  // All workers compute until the limit has passed and the runtime is about to stop them; the others stay in the queue.
  const int workers = static_cast<int>(GetConcurrencyHint());
  FiberLatch computing(workers);
  for (int i = 0; i < workers; ++i) {
    ASSERT_TRUE(StartFiberDetached({.name = "computes"}, [&] {
      computing.CountDown();
      while (log.text().find("ms have passed") == std::string::npos) {
      }
      const auto until = Steady::now() + 500ms;
      while (Steady::now() < until) {
      }
    }));
  }
  computing.Wait();
  static std::atomic<int> ran;
  ran = 0;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(StartFiberDetached({.name = "queued"}, [] { ++ran; }));
  }
  EXPECT_EQ(TerminateRuntime(), 5U) << log.text();
  EXPECT_EQ(ran, 0);
  EXPECT_NE(log.text().find("fiber 'queued'"), std::string::npos) << log.text();
}

TEST_P(UnfinishedFibersTest, TheRuntimeCanBeStartedAgainAndDoesNotCountThemTwice) {
  for (int round = 0; round < 5; ++round) {
    StartRuntime(Impatient());
    ASSERT_TRUE(StartFiberDetached([] { FiberSleepFor(1h); }));
    int value = 0;
    Fiber([&] { value = 1; }).Join();
    EXPECT_EQ(value, 1);
    EXPECT_EQ(TerminateRuntime(), 1U);
  }
  StartRuntime(Impatient());
  const auto begin = Steady::now();
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_LT(Steady::now() - begin, kTerminateTimeout);
}

TEST_P(UnfinishedFibersTest, WakingOneAfterwardsIsHarmless) {
  auto& event = Immortal<FiberEvent>();
  auto& waits = Immortal<FiberEvent>();
  StartRuntime(Impatient());
  ASSERT_TRUE(StartFiberDetached([&] {
    waits.Set();
    event.Wait();
    std::abort();  // Its runtime has ended: it never runs again.
  }));
  waits.Wait();
  EXPECT_EQ(TerminateRuntime(), 1U);
  StartRuntime(Impatient());
  event.Set();
  Fiber([] { FiberSleepFor(5ms); }).Join();
  EXPECT_EQ(TerminateRuntime(), 0U);
}

TEST_P(UnfinishedFibersTest, ALongListIsCutAndCounted) {
  StartRuntime(Impatient());
  auto& never = Immortal<FiberEvent>();
  constexpr int kFibers = 500;
  auto& waiting = *new FiberLatch(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached({.name = "one of many"}, [&] {
      waiting.CountDown();
      never.Wait();
    }));
  }
  waiting.Wait();
  LogCatcher log;
  EXPECT_EQ(TerminateRuntime(), std::size_t{kFibers});
  const std::string text = log.text();
  std::size_t lines = 0;
  for (std::size_t at = text.find("'one of many'"); at != std::string::npos; at = text.find("'one of many'", at + 1))
    ++lines;
  EXPECT_LE(lines, 100U);
  EXPECT_NE(text.find("400 more"), std::string::npos) << text;
}

// --- CPUs ---

// Its workers are bound to a CPU each.
class BoundWorkersTest : public ::testing::Test {
 protected:
  static RuntimeOptions Bound() {
    RuntimeOptions options = OptionsOf({1, 1});
    options.worker_disallow_cpu_migration = true;
    return options;
  }
  const RuntimeOf runtime_{Bound()};
  const std::vector<int> cpus_ = numa::ThreadCpus();
};

TEST_F(BoundWorkersTest, AThreadBegunInAFiberCanBeUnbound) {
  Fiber([&] {
    std::thread([&] {
      EXPECT_EQ(numa::ThreadCpus().size(), 1U) << "inherited";
      UnbindThread();
      EXPECT_EQ(numa::ThreadCpus(), cpus_);
    }).join();
    EXPECT_EQ(numa::ThreadCpus().size(), 1U) << "its worker stays where it is";
  }).Join();
}

// The thread of a FiberLoop is the user's, as are its CPUs.
TEST_F(BoundWorkersTest, AProcessForkedInAFiberLoopHasTheCpusOfItsThread) {
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(cpus_.back()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    FiberLoop loop;
    loop.AddTask([] {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(numa::ThreadCpus().size() == 1 ? 0 : 1);
      int status = -1;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    });
    loop.Run();
  }).join();
}

TEST_F(BoundWorkersTest, AProcessForkedByAFiberIsNotBound) {
  Fiber([&] {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(numa::ThreadCpus() == cpus_ ? 0 : 1);
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }).Join();
}

// --- Threads that do not come back ---

// A pipe that a fiber blocks its worker's thread with, by read(2).
class BlockingPipe {
 public:
  BlockingPipe() { EXPECT_EQ(::pipe(ends_), 0); }
  BlockingPipe(const BlockingPipe&) = delete;
  BlockingPipe& operator=(const BlockingPipe&) = delete;
  ~BlockingPipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }

  void Block() {
    blocks.Set();
    char byte = 0;
    EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
  }
  // Returns when no thread is left that a runtime has left behind.
  void LetGoOn() {
    EXPECT_EQ(::write(ends_[1], "x", 1), 1);
    while (scheduling_group::LeftThreads::Any()) std::this_thread::yield();
  }

  FiberEvent blocks;

 private:
  int ends_[2] = {-1, -1};
};

// A bound that only a hang breaks.
constexpr auto kForever = 60s;

class LeftThreadsTest : public UnfinishedFibersTest {
 protected:
  LeftThreadsTest() { detail::RuntimeInstance::grace_for_threads_ = 10ms; }
  ~LeftThreadsTest() override {
    detail::RuntimeInstance::grace_for_threads_ = detail::RuntimeInstance::kGraceForThreads;
  }
};
WEFT_INSTANTIATE_SHAPES(LeftThreadsTest);

TEST_P(LeftThreadsTest, OneThatBlocksItsThreadIsNamedWithItsWorkerAndLeftBehindInTime) {
  auto& pipe = Immortal<BlockingPipe>();
  StartRuntime(Impatient());
  Fiber fiber({.scheduling_group = 0, .scheduling_group_local = true, .name = "reads a pipe"}, [&] { pipe.Block(); });
  const std::uint64_t id = fiber.Id();
  fiber.Detach();
  pipe.blocks.Wait();
  LogCatcher log;
  const auto begin = Steady::now();
  EXPECT_EQ(TerminateRuntime(), 1U);
  EXPECT_LT(Steady::now() - begin, kForever);
  const std::string text = log.text();
  EXPECT_NE(
      text.find("fiber 'reads a pipe' (id " + std::to_string(id) + ") neither suspends nor ends: it blocks worker "),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(" of scheduling group 0 (thread "), std::string::npos) << text;
  EXPECT_TRUE(scheduling_group::LeftThreads::Any());
  EXPECT_FALSE(IsRuntimeRunning());
  pipe.LetGoOn();
}

// It goes on beside the next runtime, until it returns. Nobody counts it twice.
TEST_P(LeftThreadsTest, OneThatWasLeftBehindMayReturnBesideTheNextRuntime) {
  const auto sleep_in_another_runtime = [] {
    const RuntimeOf runtime(Impatient());
    Fiber([] { FiberSleepFor(1ms); }).Join();
  };
  auto& pipe = Immortal<BlockingPipe>();
  StartRuntime(Impatient());
  ASSERT_TRUE(StartFiberDetached([&] { pipe.Block(); }));
  pipe.blocks.Wait();
  EXPECT_EQ(TerminateRuntime(), 1U);
  sleep_in_another_runtime();
  StartRuntime(Impatient());
  pipe.LetGoOn();
  Fiber([] { FiberSleepFor(1ms); }).Join();
  EXPECT_EQ(TerminateRuntime(), 0U);
  sleep_in_another_runtime();
  // The end waits for the fibers of its runtime, whatever became of the one that was left behind.
  std::atomic<bool> ended{false};
  RuntimeOptions options = OptionsOf(GetParam());
  StartRuntime(options);
  ASSERT_TRUE(StartFiberDetached([&] {
    FiberSleepFor(5ms);
    ended = true;
  }));
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_TRUE(ended);
}

// Its group's ready fibers never run, and nobody can do anything about that.
TEST_P(LeftThreadsTest, TheGroupOfThoseLeftBehindIsNotSaidToStandStill) {
  struct Seen {
    std::atomic<int> busy{0};
    std::atomic<bool> enough{false};
  };
  auto& seen = Immortal<Seen>();
  RuntimeOptions options = Impatient();
  options.stall_warning = 100ms;  // Longer than its end takes.
  StartRuntime(options);
  const int workers = GetParam().workers;
  const FiberAttributes in_group{.scheduling_group = 0, .scheduling_group_local = true};
  for (int i = 0; i < workers; ++i) {
    ASSERT_TRUE(StartFiberDetached(in_group, [&] {
      ++seen.busy;
      while (!seen.enough) std::this_thread::yield();
    }));
  }
  while (seen.busy != workers) std::this_thread::yield();
  ASSERT_TRUE(StartFiberDetached(in_group, [] {}));
  EXPECT_EQ(TerminateRuntime(), static_cast<std::size_t>(workers) + 1);
  {
    const RuntimeOf runtime(OptionsOf(GetParam()));
    LogCatcher log;
    auto& watchdog = scheduling_group::Watchdog::Get();
    for (const auto enough = watchdog.checks() + 25; watchdog.checks() < enough;) std::this_thread::yield();
    EXPECT_EQ(log.text().find("stands still"), std::string::npos) << log.text();
  }
  seen.enough = true;
  while (scheduling_group::LeftThreads::Any()) std::this_thread::yield();
}

TEST_P(LeftThreadsTest, OneThatWasLeftBehindMayCallAnything) {
  struct Seen {
    std::atomic<bool> started{false};
    std::atomic<bool> started_in_group{false};
    std::atomic<bool> dispatched{false};
    std::atomic<std::size_t> groups{1};
    std::atomic<bool> has_timers{true};
    FiberEvent woken;
    std::atomic<int> ran{0};
  };
  auto& seen = Immortal<Seen>();
  auto& pipe = Immortal<BlockingPipe>();
  StartRuntime(Impatient());
  ASSERT_TRUE(StartFiberDetached([&] {
    pipe.Block();
    seen.groups = GetSchedulingGroupCount();
    // The timers of the next runtime's group of that number ended its sleep.
    seen.has_timers = timer::TimerWorker::Of(scheduling_group::CurrentGroup()) != nullptr;
    seen.started = StartFiberDetached([&] { ++seen.ran; });
    seen.started_in_group = StartFiberDetached({.scheduling_group = 0}, [&] { ++seen.ran; });
    seen.woken.Set();
    seen.dispatched = StartFiberDetached({.launch_policy = Launch::Dispatch}, [&] { ++seen.ran; });
    FiberScope scope({.deadline = 1h});
    EXPECT_FALSE(scope.Spawn([&] { ++seen.ran; }));
    FiberSleepFor(1ms);
    std::abort();  // It never comes back from there.
  }));
  pipe.blocks.Wait();
  EXPECT_EQ(TerminateRuntime(), 1U);
  StartRuntime(Impatient());
  Fiber waits([&] { seen.woken.Wait(); });
  pipe.LetGoOn();
  waits.Join();
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_FALSE(seen.started);
  EXPECT_FALSE(seen.started_in_group);
  EXPECT_FALSE(seen.dispatched);
  EXPECT_EQ(seen.groups, 0U);
  EXPECT_FALSE(seen.has_timers);
  EXPECT_EQ(seen.ran, 0);
}

// It cannot tell the caller of a refusal, so it does not return.
template <class Make>
void MakeAfterTheEnd(const RuntimeOptions& options, Make make) {
  auto& pipe = Immortal<BlockingPipe>();
  StartRuntime(options);
  ASSERT_TRUE(StartFiberDetached([&pipe, make] {
    pipe.Block();
    make();
    std::abort();
  }));
  pipe.blocks.Wait();
  EXPECT_EQ(TerminateRuntime(), 1U);
  pipe.LetGoOn();
}

TEST_P(LeftThreadsTest, OneThatWasLeftBehindAndMakesAFiberOrATaskNeverRunsAgain) {
  MakeAfterTheEnd(Impatient(), [] { Fiber([] {}).Join(); });
  MakeAfterTheEnd(Impatient(), [] { FiberTask<void>([] {}).Get(); });
  MakeAfterTheEnd(Impatient(), [] {
    FiberScope scope;
    scope.SpawnTask([] {}).Get();
  });
}

// Its workers have been told to stop, and it has not suspended since.
template <class Call>
void CallWhileWorkersStop(const RuntimeOptions& options, Call call) {
  StartRuntime(options);
  ASSERT_TRUE(StartFiberDetached([call] {
    while (!scheduling_group::CurrentGroup()->stopping()) {
    }
    call();
  }));
  static_cast<void>(TerminateRuntime());
  while (scheduling_group::LeftThreads::Any()) std::this_thread::yield();
}

TEST_P(LeftThreadsTest, AFiberThatMakesAFiberWhileItsRuntimeEndsNeverRunsAgain) {
  CallWhileWorkersStop(Impatient(), [] {
    Fiber([] {}).Join();
    std::abort();
  });
  CallWhileWorkersStop(Impatient(), [] {
    FiberTask<void>([] {}).Get();
    std::abort();
  });
}

// Or the new fiber would be counted as unfinished, for a moment.
TEST_P(LeftThreadsTest, AStartIsRefusedBeforeThereIsAFiber) {
  struct CountsCopies {
    explicit CountsCopies(std::atomic<int>* count) : copies(count) {}
    CountsCopies(const CountsCopies& other) : copies(other.copies) { ++*copies; }
    void operator()() const {}
    std::atomic<int>* copies;
  };
  // A thread that is left behind may look when nobody counts any more.
  detail::RuntimeInstance::grace_for_threads_ = kForever;
  auto& copies = Immortal<std::atomic<int>>();
  copies = 0;
  auto& refused = Immortal<std::atomic<bool>>();
  CallWhileWorkersStop(Impatient(), [&] {
    const CountsCopies callable(&copies);
    refused = !StartFiberDetached(callable);
  });
  EXPECT_TRUE(refused);
  EXPECT_EQ(copies, 0);
}

TEST_P(LeftThreadsTest, OneThatWasLeftBehindMaySleepWhereNoRuntimeRuns) {
  auto& pipe = Immortal<BlockingPipe>();
  StartRuntime(Impatient());
  ASSERT_TRUE(StartFiberDetached([&] {
    pipe.Block();
    const FiberScope scope({.deadline = 1h});
    FiberSleepFor(1ms);
    std::abort();
  }));
  pipe.blocks.Wait();
  EXPECT_EQ(TerminateRuntime(), 1U);
  pipe.LetGoOn();
}

TEST_P(LeftThreadsTest, OneThatComputesWithoutEndIsLeftBehind) {
  struct Shared {
    std::atomic<bool> stops{false};
    FiberEvent computes;
  };
  auto& shared = Immortal<Shared>();
  StartRuntime(Impatient());
  ASSERT_TRUE(StartFiberDetached({.name = "computes"}, [&] {
    shared.computes.Set();
    while (!shared.stops) {
    }
  }));
  shared.computes.Wait();
  LogCatcher log;
  EXPECT_EQ(TerminateRuntime(), 1U);
  EXPECT_NE(log.text().find("fiber 'computes' (id "), std::string::npos) << log.text();
  shared.stops = true;
  while (scheduling_group::LeftThreads::Any()) std::this_thread::yield();
}

TEST_P(LeftThreadsTest, ATimersCallbackThatBlocksItsThreadIsLeftBehindInTime) {
  auto& pipe = Immortal<BlockingPipe>();
  StartRuntime(Impatient());
  EnableFiberTimer(CreateFiberTimer(Steady::now(), [&] { pipe.Block(); }));
  pipe.blocks.Wait();
  LogCatcher log;
  const auto begin = Steady::now();
  EXPECT_EQ(TerminateRuntime(), 0U);
  EXPECT_LT(Steady::now() - begin, kForever);
  EXPECT_NE(log.text().find("a callback blocks the timer thread of scheduling group "), std::string::npos)
      << log.text();
  {
    const RuntimeOf runtime(Impatient());
    Fiber([] { FiberSleepFor(1ms); }).Join();
  }
  pipe.LetGoOn();
  const RuntimeOf runtime(Impatient());
  Fiber([] { FiberSleepFor(1ms); }).Join();
}

// --- Restart ---

// stress.restart does so with other options each time.
TEST(RuntimeRestart, ManyTimesInOneProcess) {
  const int rounds = WEFT_TSAN || WEFT_ASAN ? 60 : 300;
  for (int round = 0; round < rounds; ++round) {
    StartRuntime(OptionsOf({1 + round % 3, 1 + round % 2}));
    std::atomic<int> sum{0};
    FiberLatch latch(8);
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(StartFiberDetached([&] {
        if (round % 50 == 0) FiberSleepFor(1ms);
        ++sum;
        latch.CountDown();
      }));
    }
    latch.Wait();
    ASSERT_EQ(sum, 8);
    SetFiberDetachedTimer(Steady::now() + 1h, [] {});
    ASSERT_EQ(TerminateRuntime(), 0U);
    ASSERT_FALSE(IsRuntimeRunning());
  }
}

TEST(RuntimeRestart, WithOtherOptionsEachTime) {
  // Counts that divide evenly by the L3 domains of the machines that the tests run on.
  for (const Shape shape : {Shape{1, 1}, Shape{4, 2}, Shape{2, 4}, Shape{64, 1}, Shape{1, 1}}) {
    const RuntimeOf runtime(shape);
    EXPECT_EQ(GetSchedulingGroupCount(), static_cast<std::size_t>(shape.groups));
    EXPECT_EQ(GetSchedulingGroupSize(), static_cast<std::size_t>(shape.workers));
    Fiber([] {}).Join();
  }
}

TEST(RuntimeRestart, FiberLocalsAndWaitsWorkInEachRuntime) {
  static FiberLocal<int> local;
  for (int round = 0; round < 20; ++round) {
    const RuntimeOf runtime(Shape{2, 1});
    FiberMutex mutex;
    int counter = 0;
    std::vector<Fiber> fibers;
    for (int i = 0; i < 10; ++i) {
      fibers.emplace_back([&] {
        for (int n = 0; n < 10; ++n) {
          const std::scoped_lock lock(mutex);
          ++counter;
          ++*local;
          FiberYield();
        }
        EXPECT_EQ(*local, 10);
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
    EXPECT_EQ(counter, 100);
  }
}

// A plain thread may wake fibers up to the very end: its Set() may still be running when the woken fiber has ended, the
// runtime has drained and the next one starts.
TEST(RuntimeRestart, AThreadMayStillBeInsideTheWakeUpThatLetTheRuntimeEnd) {
  const int rounds = WEFT_TSAN || WEFT_ASAN ? 60 : 200;
  for (int round = 0; round < rounds; ++round) {
    StartRuntime(OptionsOf({2, 1}));
    FiberEvent event;
    Fiber fiber([&] { event.Wait(); });
    std::thread waker([&] { event.Set(); });
    fiber.Join();
    ASSERT_EQ(TerminateRuntime(), 0U);
    waker.join();
  }
}

// --- Where things are planned ---

TEST(RuntimePlan, GroupsFollowTheTopologyGiven) {
  RuntimeOptions options;
  options.topology = "numa:2 core:8 pu:1";
  const RuntimeOf runtime(options);
  EXPECT_EQ(GetSchedulingGroupCount(), 2U);
  EXPECT_EQ(GetSchedulingGroupSize(), 8U);
  EXPECT_EQ(GetConcurrencyHint(), 16U);
  EXPECT_EQ(GetSchedulingGroupAssignedNode(0), 0);
  EXPECT_EQ(GetSchedulingGroupAssignedNode(1), 1);
  Fiber([] {}).Join();
}

TEST(RuntimePlan, NodesThatAreIslandsAreNamedAtTheStart) {
  LogCatcher log;
  RuntimeOptions options;
  options.topology = "pack:2 numa:1 core:2 pu:1";
  const RuntimeOf runtime(options);
  EXPECT_NE(log.text().find("the workers are 2 islands of 2,"), std::string::npos) << log.text();
}

TEST(RuntimePlan, NumaAwareOffMakesGroupsOfNoNode) {
  RuntimeOptions options;
  options.topology = "numa:2 core:8 pu:1";
  options.numa_aware = NumaAware::kOff;
  const RuntimeOf runtime(options);
  EXPECT_EQ(GetConcurrencyHint(), 16U);
  for (std::size_t i = 0; i < GetSchedulingGroupCount(); ++i) EXPECT_EQ(GetSchedulingGroupAssignedNode(i), -1);
}

TEST(RuntimePlan, APolicyOfTheUsersIsUsedByItsName) {
  static std::atomic<int> made{0};
  static const bool registered = scheduling_group::RegisterSchedulingPolicy(
      "counted v1", [](const scheduling_group::SchedulingPolicy::Options& options) {
        ++made;
        return scheduling_group::CreateSchedulingPolicy("v1", options);
      });
  ASSERT_TRUE(registered);
  RuntimeOptions options = OptionsOf({2, 2});
  options.scheduling_name = "counted v1";
  const RuntimeOf runtime(options);
  EXPECT_EQ(made, 2);  // One for each group.
  Fiber([] {}).Join();
}

TEST(RuntimePlan, WorkersMayBeKeptToSomeCpus) {
  const numa::Topology machine = numa::Topology::Detect();
  const int cpu = machine.cpus.back().os_id;
  RuntimeOptions options;
  options.worker_accessible_cpus = std::to_string(cpu);
  options.worker_disallow_cpu_migration = true;
  const RuntimeOf runtime(options);
  EXPECT_EQ(GetConcurrencyHint(), 1U);
  Fiber([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    ASSERT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &set));
  }).Join();
}

}  // namespace
}  // namespace weft::fiber
