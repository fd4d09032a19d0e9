// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Groups, workers and the door to park, through real threads.

#include "weft/scheduling_group/group/scheduling_group.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/report/build_mode.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/numa/machine/cpu_list.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/group/counters.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/time_slice.h"

#include "testing/patience.h"
#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

using weft::testing::Countdown;
using weft::testing::WorkerGroup;
using namespace std::chrono_literals;

class SchedulingGroupTest : public ::testing::TestWithParam<unsigned> {
 protected:
  unsigned workers() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Workers, SchedulingGroupTest, ::testing::Values(1u, 2u, 4u, 64u));

TEST_P(SchedulingGroupTest, RunsEachFiberOnceFromAThreadAndFromFibers) {
  WorkerGroup group(workers());
  constexpr int kFibers = WEFT_ASAN || WEFT_TSAN ? 200 : 2000;
  std::vector<std::atomic<int>> runs(kFibers * 11);
  Countdown done(kFibers * 11);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(group.Start([&, i] {
      for (int j = 1; j <= 10; ++j) {
        ASSERT_TRUE(group.Start([&, i, j] {
          ++runs[i * 11 + j];
          done.Done();
        }));
      }
      ++runs[i * 11];
      done.Done();
    }));
  }
  ASSERT_TRUE(done.Wait());
  for (auto& n : runs) ASSERT_EQ(n.load(), 1);
}

TEST_P(SchedulingGroupTest, AParkedFiberRunsOnceMoreForEachUnpark) {
  WorkerGroup group(workers());
  const int rounds = testing::Scaled(20'000);
  std::atomic<FiberEntity*> parked{nullptr};
  Countdown done(1);
  ASSERT_TRUE(group.Start([&] {
    for (int i = 0; i < rounds; ++i) {
      FiberEntity* self = CurrentFiber();
      PrepareToPark(self);
      parked.store(self, std::memory_order_release);
      ParkPrepared(self);
    }
    done.Done();
  }));
  for (int i = 0; i < rounds; ++i) {
    FiberEntity* fiber;
    while ((fiber = parked.exchange(nullptr, std::memory_order_acquire)) == nullptr) std::this_thread::yield();
    Unpark(fiber);
  }
  EXPECT_TRUE(done.Wait());
}

// A chain in which each link wakes the next: a single lost wake-up stops it.
TEST_P(SchedulingGroupTest, NoWakeUpIsLostBetweenPushAndSleep) {
  WorkerGroup group(workers());
  const int starts = testing::Scaled(30'000);
  for (int i = 0; i < starts; ++i) {
    // One at a time, so that the workers are on their way to sleep when it comes.
    std::atomic<bool> ran{false};
    base::Parker parker;
    ASSERT_TRUE(group.Start([&] {
      ran = true;
      parker.Unpark();
    }));
    ASSERT_TRUE(parker.ParkUntil(std::chrono::steady_clock::now() + 60s)) << "start " << i << " was not noticed";
    ASSERT_TRUE(ran);
    if (i % 64 == 0) group.Drain();
  }
}

TEST_P(SchedulingGroupTest, YieldLetsOthersGoFirst) {
  WorkerGroup group(workers());
  std::atomic<bool> other_ran{false};
  Countdown done(1);
  ASSERT_TRUE(group.Start([&] {
    ASSERT_TRUE(group.Start([&] { other_ran = true; }));
    while (!other_ran) YieldCurrentFiber();
    done.Done();
  }));
  EXPECT_TRUE(done.Wait());
}

TEST(SchedulingGroup, FibersOfAGroupOfOneRunInTheOrderTheyBecameReady) {
  WorkerGroup group(1, 16);
  std::vector<int> order;
  Countdown done(1);
  ASSERT_TRUE(group.Start([&] {
    FiberEntity* fibers[200];
    for (int i = 0; i < 200; ++i) {
      fibers[i] = NewFiber(&group.group(), {}, [&order, i] {
        order.push_back(i);
        YieldCurrentFiber();
        order.push_back(1000 + i);
      });
    }
    ASSERT_TRUE(group.group().StartBatch(fibers, 200));
    done.Done();
  }));
  ASSERT_TRUE(done.Wait());
  group.Drain();
  ASSERT_EQ(order.size(), 400u);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(order[i], i);
    EXPECT_EQ(order[200 + i], 1000 + i);
  }
}

// Peers spin for ever, lose fibers, or report success without waking anybody.
TEST_P(SchedulingGroupTest, ABatchLargerThanTheQueueRunsWhole) {
  WorkerGroup group(workers(), 16);
  Countdown done(5000);
  std::vector<FiberEntity*> batch;
  for (int i = 0; i < 5000; ++i) batch.push_back(NewFiber(&group.group(), {}, [&] { done.Done(); }));
  ASSERT_TRUE(group.group().StartBatch(batch.data(), batch.size()));
  EXPECT_TRUE(done.Wait());
}

// All workers start fibers into a full queue: a peer deadlocks, another sleeps on its worker.
TEST_P(SchedulingGroupTest, AllWorkersSpawningIntoAFullQueueGoOn) {
  WorkerGroup group(workers(), 16);
  constexpr int kSpawners = 16;
  constexpr int kEach = WEFT_ASAN || WEFT_TSAN ? 200 : 2000;
  Countdown done(kSpawners * kEach);
  for (int s = 0; s < kSpawners; ++s) {
    ASSERT_TRUE(group.Start([&] {
      for (int i = 0; i < kEach; ++i) ASSERT_TRUE(group.Start([&] { done.Done(); }));
    }));
  }
  EXPECT_TRUE(done.Wait());
}

TEST_P(SchedulingGroupTest, WokenFibersNeverFailToEnterAFullQueue) {
  WorkerGroup group(workers(), 16);
  constexpr int kFibers = 3000;
  std::vector<std::atomic<FiberEntity*>> parked(kFibers);
  Countdown at_rest(kFibers);
  Countdown done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(group.Start([&, i] {
      FiberEntity* self = CurrentFiber();
      PrepareToPark(self);
      parked[i].store(self, std::memory_order_release);
      at_rest.Done();
      ParkPrepared(self);
      done.Done();
    }));
  }
  ASSERT_TRUE(at_rest.Wait());
  std::vector<FiberEntity*> fibers;
  for (auto& p : parked) fibers.push_back(p.load(std::memory_order_acquire));
  UnparkRemote(fibers.data(), fibers.size());
  EXPECT_TRUE(done.Wait());
}

TEST(SchedulingGroup, APlainThreadWaitsForCapacityAndIsThenRefused) {
  SchedulingGroup group({.workers = 1, .run_queue_size = 4, .start_timeout = 30ms});  // Nobody runs it.
  std::vector<FiberEntity*> fibers;
  for (int i = 0; i < 4; ++i) {
    fibers.push_back(NewFiber(&group, {}, [] {}));
    ASSERT_TRUE(group.Start(fibers.back()));
  }
  FiberEntity* one_more = NewFiber(&group, {}, [] {});
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(group.Start(one_more));
  EXPECT_GE(std::chrono::steady_clock::now() - before, 30ms);
  DiscardFiber(one_more);
  while (FiberEntity* fiber = group.PopFor(0)) DiscardFiber(fiber);
}

TEST(SchedulingGroup, AThreadThatWaitsForCapacityGoesOnWhenThereIsSome) {
  WorkerGroup group({.workers = 1, .run_queue_size = 4, .start_timeout = 60s});
  std::atomic<bool> go{false};
  Countdown blocked(1);
  Countdown done(2001);
  ASSERT_TRUE(group.Start([&] {
    blocked.Done();
    while (!go) std::this_thread::yield();  // Holds its worker.
    done.Done();
  }));
  ASSERT_TRUE(blocked.Wait());
  std::thread spawner([&] {
    for (int i = 0; i < 2000; ++i) ASSERT_TRUE(group.Start([&] { done.Done(); }));
  });
  while (group.group().queue_size() < 4) std::this_thread::yield();
  go = true;
  EXPECT_TRUE(done.Wait());
  spawner.join();
}

TEST(SchedulingGroup, AStoppingGroupRefusesThreads) {
  WorkerGroup group(2);
  group.group().RefuseNewFibers();
  EXPECT_FALSE(group.Start([] { ADD_FAILURE(); }));
}

TEST_P(SchedulingGroupTest, WithoutStacksFibersWaitForThoseThatEnd) {
  SchedulingGroup::Options options{.workers = workers(), .run_queue_size = 1024};
  options.stacks.max_stacks = 70;
  WorkerGroup group(options);
  constexpr int kFibers = 3000;
  Countdown done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(group.Start([&] {
      for (int y = 0; y < 5; ++y)
        YieldCurrentFiber();  // So that all have begun before the first ends, stacks permitting.
      done.Done();
    }));
  }
  EXPECT_TRUE(done.Wait());
}

TEST_P(SchedulingGroupTest, AFiberGetsTheStackItAskedFor) {
  WorkerGroup group(workers());
  Countdown done(40);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(group.Start(
        [&] {
          volatile char deep[700 * 1024];
          deep[0] = 1;
          deep[sizeof(deep) - 1] = 1;
          YieldCurrentFiber();
          EXPECT_EQ(deep[0], 1);
          done.Done();
        },
        {.stack_size = 1024 * 1024}));
  }
  EXPECT_TRUE(done.Wait());
}

TEST_P(SchedulingGroupTest, OnExitIsCalledWhenTheFiberIsOver) {
  WorkerGroup group(workers());
  struct Exit : FiberOwner {
    Exit() : FiberOwner{.on_exit = [](FiberOwner* self) { static_cast<Exit*>(self)->done.Done(); }} {}
    Countdown done{100};
    std::atomic<int> bodies{0};
  } exit;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(group.Start([&] { ++exit.bodies; }, {.owner = &exit}));
  }
  EXPECT_TRUE(exit.done.Wait());
  EXPECT_EQ(exit.bodies, 100);
}

// The hook runs at the end of a switch, where there may be no other (W2): with the queue full a start from there
// switched.
// A joiner, told by on_exit, may count the fibers at once.
TEST(SchedulingGroup, OnExitIsCalledWhenTheFiberIsCountedNoMore) {
  WorkerGroup group(1);
  const std::size_t before = EntityPool::LiveFibers();
  for (const bool takes_over : {false, true}) {  // whether another fiber begins on its stack
    std::atomic<std::size_t> seen{~std::size_t{0}};
    Countdown done(takes_over ? 2 : 1);
    struct Exit : FiberOwner {
      std::atomic<std::size_t>* seen;
      Countdown* done;
    } exit;
    exit.seen = &seen;
    exit.done = &done;
    exit.on_exit = [](FiberOwner* self) {
      auto* exit = static_cast<Exit*>(self);
      exit->seen->store(EntityPool::LiveFibers());
      exit->done->Done();
    };
    const StartOptions options = {.owner = &exit};
    ASSERT_TRUE(group.Start(
        [&] {
          if (takes_over && !group.Start([&] { done.Done(); })) ADD_FAILURE();
        },
        options));
    ASSERT_TRUE(done.Wait());
    EXPECT_EQ(seen, before + (takes_over ? 1 : 0));
    group.Drain();
  }
}

TEST_P(SchedulingGroupTest, OnExitMayStartFibersThoughTheQueueIsFull) {
  SchedulingGroup::Options options{.workers = workers(), .run_queue_size = 4};
  WorkerGroup group(options);
  constexpr int kFibers = 2000;
  struct Exit : FiberOwner {
    WorkerGroup* group;
    Countdown done{2 * kFibers};
  } exit;
  exit.group = &group;
  exit.on_exit = [](FiberOwner* owner) {
    auto* self = static_cast<Exit*>(owner);
    ASSERT_TRUE(self->group->Start([self] { self->done.Done(); }));
  };
  Countdown spawner(1);
  ASSERT_TRUE(group.Start([&] {
    for (int i = 0; i < kFibers; ++i) {
      ASSERT_TRUE(group.Start(
          [&] {
            YieldCurrentFiber();  // It ends by a switch, not by handing its stack over.
            exit.done.Done();
          },
          {.owner = &exit}));
    }
    spawner.Done();
  }));
  EXPECT_TRUE(spawner.Wait());
  EXPECT_TRUE(exit.done.Wait());
}

TEST_P(SchedulingGroupTest, StacksOfManySizesShareFewPools) {
  WorkerGroup group(workers());
  context::StackPool& pool = *group.group().StacksOfSize(40'000, 0);
  EXPECT_EQ(group.group().StacksOfSize(65'536, 0), &pool);
  EXPECT_GE(pool.usable_size(), 40'000u);
  EXPECT_NE(group.group().StacksOfSize(65'537, 0), &pool);
}

TEST(SchedulingGroup, RunInsteadOfCurrentRunsTheNewFiberFirstAndTheCallerBehindTheOthers) {
  WorkerGroup group(1);
  std::vector<int> order;
  Countdown done(1);
  ASSERT_TRUE(group.Start([&] {
    ASSERT_TRUE(group.Start([&] { order.push_back(2); }));
    RunInsteadOfCurrent(NewFiber(&group.group(), {}, [&] { order.push_back(1); }));
    order.push_back(3);
    done.Done();
  }));
  EXPECT_TRUE(done.Wait());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_P(SchedulingGroupTest, RunInsteadOfCurrentLosesNeitherTheNewFiberNorTheCaller) {
  WorkerGroup group(workers());
  Countdown done(1001);
  ASSERT_TRUE(group.Start([&] {
    for (int i = 0; i < 1000; ++i) RunInsteadOfCurrent(NewFiber(&group.group(), {}, [&] { done.Done(); }));
    done.Done();
  }));
  EXPECT_TRUE(done.Wait());
}

// A push on one node reads no line of IdleGroups that a sleep on the other one writes.
TEST(SchedulingGroup, TheBitsOfTwoNodesLieOnTwoLines) {
  SchedulingGroup::Options options{.id = 0, .workers = 1, .run_queue_size = 1024, .node = 0};
  const SchedulingGroup first(options);
  options.id = 1;
  const SchedulingGroup second(options);
  options.id = 2;
  options.node = 1;
  const SchedulingGroup other(options);
  EXPECT_EQ(first.slot() / IdleGroups::kSlotsOfLine, second.slot() / IdleGroups::kSlotsOfLine);
  EXPECT_NE(first.slot() / IdleGroups::kSlotsOfLine, other.slot() / IdleGroups::kSlotsOfLine);
}

// Two groups of one worker, the first blocked: what waits there is stolen, save what is local.
TEST(SchedulingGroup, AnIdleGroupStealsFromItsNeighbourButNotLocalFibers) {
  SchedulingGroup::Options options{.id = 0, .workers = 1, .run_queue_size = 1024};
  WorkerGroup loaded(options);
  options.id = 1;
  WorkerGroup thief(options, {{&loaded.group(), 1}});
  std::atomic<bool> release{false};
  Countdown blocked(1);
  Countdown stolen(50);
  Countdown local(50);
  ASSERT_TRUE(loaded.Start(
      [&] {
        blocked.Done();
        while (!release) std::this_thread::yield();
      },
      {.group_local = true}));
  ASSERT_TRUE(blocked.Wait());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(loaded.Start(
        [&] {
          EXPECT_EQ(CurrentGroup(), &loaded.group());
          local.Done();
        },
        {.group_local = true}));
    ASSERT_TRUE(loaded.Start([&] {
      EXPECT_EQ(CurrentGroup(), &thief.group());
      EXPECT_EQ(CurrentFiber()->group(), &thief.group()) << "a stolen fiber belongs to its new group";
      stolen.Done();
    }));
  }
  // Each start in the thief's group is followed by an idle search.
  while (stolen.left() > 0) {
    Countdown poke(1);
    ASSERT_TRUE(thief.Start([&] { poke.Done(); }));
    ASSERT_TRUE(poke.Wait());
  }
  EXPECT_EQ(local.left(), 50);
  release = true;
  EXPECT_TRUE(local.Wait());
  const GroupCounts counts = ReadCounts(thief.group());
  ASSERT_EQ(counts.steals.size(), 1u);
  EXPECT_EQ(counts.steals[0].stolen_in, ReadCounts(loaded.group()).stolen_out_same_node);
  EXPECT_GE(counts.steals[0].stolen_in, 50u);
  loaded.Drain();
}

// errno's address may not be kept over a switch, but compilers do that within a function (fiber/this_fiber.h): a
// function of its own.
WEFT_NOINLINE int Errno() {
  base::OpaqueBarrier();
  return errno;
}
WEFT_NOINLINE void SetErrno(int value) {
  base::OpaqueBarrier();
  errno = value;
}

TEST_P(SchedulingGroupTest, AnExceptionCaughtAcrossAParkIsStillCurrentAfterIt) {
  WorkerGroup group(workers());
  constexpr int kFibers = 200;
  Countdown done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(group.Start([&, i] {
      try {
        throw i;
      } catch (int caught) {
        for (int y = 0; y < 20; ++y) {
          SetErrno(1000 + i);
          YieldCurrentFiber();
          EXPECT_EQ(Errno(), 1000 + i);
          try {
            std::rethrow_exception(std::current_exception());
          } catch (int again) {
            EXPECT_EQ(again, i);
          }
        }
        EXPECT_EQ(caught, i);
      }
      EXPECT_EQ(std::current_exception(), nullptr);
      done.Done();
    }));
  }
  EXPECT_TRUE(done.Wait());
}

// Each call tells of an error, as those of the kernel do where it refuses guards, or has no memory left.
class RefusingMemory final : public context::StackMemory {
 public:
  void* Map(std::size_t size) override {
    void* const low = StackMemory::Map(size);
    errno = ENOMEM;
    return low;
  }
  bool InstallGuards(std::span<const Range>) override {
    errno = EINVAL;
    return false;
  }
  bool Protect(Range range) override {  // for each stack, since InstallGuards() is refused
    const bool is_protected = StackMemory::Protect(range);
    errno = EINVAL;
    return is_protected;
  }
};

// Every sixteenth fiber found ENOSYS after its first yield: the one that leaves gets the next one a stack.
TEST(SchedulingGroup, TheErrnoOfAFiberIsLeftAloneWhereTheNextOneGetsItsStack) {
  constexpr int kFibers = 100;
  RefusingMemory memory;
  SchedulingGroup::Options options{.workers = 1, .run_queue_size = 1024};
  options.stacks.memory = &memory;
  WorkerGroup group(options);
  std::atomic<bool> go{false};
  Countdown done(kFibers);
  ASSERT_TRUE(group.Start([&] {
    while (!go) std::this_thread::yield();
  }));
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(group.Start([&, i] {
      SetErrno(1000 + i);
      YieldCurrentFiber();
      EXPECT_EQ(Errno(), 1000 + i);
      done.Done();
    }));
  }
  go = true;
  EXPECT_TRUE(done.Wait());
}

// Counts how often a worker that is never idle asks, and finds errors.
class CountingPoller final : public Reactor {
 public:
  void TryPoll() override {}
  void PollIfDue(std::chrono::steady_clock::time_point) override {
    ++asked;
    EXPECT_EQ(CurrentWorker()->Waker(), nullptr) << "its wakes count as the fiber's";
    errno = EAGAIN;
  }
  bool TryEnter() override { return false; }
  void Wait() override {}
  void WaitUntil(std::chrono::steady_clock::time_point /*until*/) override {}
  void LeaveAfterDispatch() override {}
  void Interrupt() override {}

  std::atomic<int> asked{0};
};

// A worker that had run short fibers looked for input and output only after 126 long ones.
TEST(SchedulingGroup, BetweenLongFibersAWorkerLooksForInputAndOutput) {
  WorkerGroup group(1);
  auto* poller = new CountingPoller;
  ASSERT_TRUE(group.group().SetReactor(std::unique_ptr<Reactor>(poller)));
  Countdown done(2);
  std::atomic<bool> over{false};
  ASSERT_TRUE(group.Start([&] {
    while (!over) YieldCurrentFiber();
    done.Done();
  }));
  ASSERT_TRUE(group.Start([&] {
    const auto run = [&](int fibers, std::chrono::nanoseconds each) {
      const int asked = poller->asked;
      for (int i = 0; i < fibers; ++i) {
        const auto until = std::chrono::steady_clock::now() + each;
        while (std::chrono::steady_clock::now() < until) {
        }
        SetErrno(i);
        YieldCurrentFiber();
        EXPECT_EQ(Errno(), i);
      }
      return poller->asked - asked;
    };
    EXPECT_GE(run(40, 1ms), 32) << "right away";  // The first look at whether there is a poller comes after 8 pops.
    for (int i = 0; i < 3; ++i) {
      (void)run(2000, 0ns);
      // Two pops each; after at most 64 of them it is seen that they are long.
      EXPECT_GE(run(80, 1ms), 40) << "after short ones";
    }
    over = true;
    done.Done();
  }));
  EXPECT_TRUE(done.Wait());
}

// Fibers that only leave at the end of a time slice: a worker that had run short ones looked after 64 slices, 2 s.
TEST(SchedulingGroup, AtTheEndOfEachTimeSliceAWorkerLooksForInputAndOutput) {
  constexpr int kSlices = 4;
  WorkerGroup group(1);
  auto* poller = new CountingPoller;
  ASSERT_TRUE(group.group().SetReactor(std::unique_ptr<Reactor>(poller)));
  Countdown done(2);
  std::atomic<bool> short_turns{true};
  std::atomic<bool> over{false};
  std::atomic<int> running{0};
  std::atomic<int> slices{0};
  // A fiber does it until the other one has run: its slice is over then.
  const auto run = [&](int fiber) {
    SetErrno(1000 + fiber);
    YieldIfSliceIsOver();
    EXPECT_EQ(Errno(), 1000 + fiber);
    if (running.exchange(fiber) != fiber) ++slices;
  };
  ASSERT_TRUE(group.Start([&] {
    while (short_turns) YieldCurrentFiber();
    while (!over) run(1);
    done.Done();
  }));
  ASSERT_TRUE(group.Start([&] {
    // Ends right after a look, when the next one is 64 choices away: there are two to a yield. Not with a sanitizer,
    // where a worker looks more often because all is slow.
    for (int looks = 0, yields = 0; looks < 1000 && yields < 30; ++looks) {
      const int asked = poller->asked;
      for (yields = 0; poller->asked == asked; ++yields) YieldCurrentFiber();
    }
    short_turns = false;
    running = 2;
    const int asked = poller->asked;
    const Deadline limit = 30s;
    while (slices < kSlices && !limit.expired()) run(2);
    EXPECT_GE(slices, kSlices) << "the slices do not end";
    EXPECT_GE(poller->asked - asked, kSlices) << "looks in the time of " << slices << " slices";
    over = true;
    done.Done();
  }));
  EXPECT_TRUE(done.Wait());
}

TEST_P(SchedulingGroupTest, IdleWorkersSleepAndDoNotWakeUpByThemselves) {
  WorkerGroup group(workers());
  Countdown done(1);
  ASSERT_TRUE(group.Start([&] { done.Done(); }));
  ASSERT_TRUE(done.Wait());
  while (group.group().idle_workers().sleepers().Count() != workers()) std::this_thread::yield();
  auto sleeps = [&] {
    std::uint64_t sum = 0;
    for (unsigned w = 0; w < workers(); ++w) sum += group.group().counters(w).sleeps.load();
    return sum;
  };
  // A worker announces its sleep before it counts it, so the first look may come between the two; one that wakes up by
  // itself does so each time.
  bool slept_on = false;
  for (int attempt = 0; attempt < 3 && !slept_on; ++attempt) {
    const std::uint64_t before = sleeps();
    std::this_thread::sleep_for(200ms);  // The time is what is tested.
    slept_on = sleeps() == before;
  }
  EXPECT_TRUE(slept_on);
}

// ---- Pinning ----

TEST(Pinning, EachWorkerRunsOnItsPlannedCpuOnlyAndOthersOnTheGroups) {
  const std::vector<int> ours = numa::ThreadCpus();
  WorkerGroup group({.workers = 3, .cpus = ours, .worker_cpus = {ours.back(), -1, ours.front()}});
  // A fiber on each worker, which holds it until all three have looked.
  std::vector<std::vector<int>> seen(3);
  std::latch looked(3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(group.Start([&] {
      seen[CurrentWorker()->index] = numa::ThreadCpus();
      looked.arrive_and_wait();
    }));
  }
  group.Drain();
  EXPECT_EQ(seen[0], std::vector<int>{ours.back()});
  EXPECT_EQ(seen[1], ours);
  EXPECT_EQ(seen[2], std::vector<int>{ours.front()});
}

TEST(Pinning, ARefusalIsAWarningThatNamesTheCpuAndTheReason) {
  base::SpinLock lock;
  std::string lines;
  base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view text) {
    const std::scoped_lock locked(lock);
    lines.append(text).append("\n");
  });
  const std::vector<int> ours = numa::ThreadCpus();
  {
    WorkerGroup group({.id = 7, .workers = 1, .cpus = ours, .worker_cpus = {numa::kMaxCpuId}});
    std::vector<int> seen;
    ASSERT_TRUE(group.Start([&] { seen = numa::ThreadCpus(); }));
    group.Drain();
    EXPECT_EQ(seen, ours);  // It works all the same.
  }
  base::SetLogSink({});
  EXPECT_EQ(lines,
            "FiberWorker_7_0: the kernel refuses to bind it to CPU 65535: Invalid argument; it may run where the "
            "process may\n");
}

// They went round the groups of all nodes.
TEST(GroupRegistry, TheNearestGroupsOfAThreadAreThoseOfItsNode) {
  std::map<const SchedulingGroup*, int> nearest, next;
  int here = -1;
  std::thread([&] {
    ASSERT_FALSE(numa::BindThread(std::array{numa::CurrentCpu()}));
    here = numa::CurrentNode();
    SchedulingGroup far({.id = 0, .run_queue_size = 64, .node = here + 1});
    SchedulingGroup near({.id = 1, .run_queue_size = 64, .node = here});
    SchedulingGroup farther({.id = 2, .run_queue_size = 64, .node = here + 2});
    SchedulingGroup nearer({.id = 3, .run_queue_size = 64, .node = here});
    SetGroups({&far, &near, &farther, &nearer});
    for (int i = 0; i < 100; ++i) ++nearest[NearestGroup()];
    for (int i = 0; i < 100; ++i) ++next[NextGroup()];
    SetGroups({&far, &farther});  // None on its node.
    for (int i = 0; i < 100; ++i) ++nearest[NearestGroup()];
    SetGroups({});
    EXPECT_EQ(NearestGroup(), nullptr);
    EXPECT_EQ(nearest, (std::map<const SchedulingGroup*, int>{{&near, 50}, {&nearer, 50}, {&far, 50}, {&farther, 50}}));
    EXPECT_EQ(next, (std::map<const SchedulingGroup*, int>{{&near, 25}, {&nearer, 25}, {&far, 25}, {&farther, 25}}));
  }).join();
}

}  // namespace
}  // namespace weft::scheduling_group
