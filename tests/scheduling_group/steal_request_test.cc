// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Groups that send each other steal requests (SG4 in scheduling_group/group/scheduling_group.h): a fiber that has to
// wait though a neighbour sleeps is run there, whatever else goes on.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/scheduling_policy.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/worker_team.h"

#include "scheduling_group/stealing_groups.h"
#include "testing/patience.h"
#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

// Keeps a worker of `group` busy until it is told to stop.
class Hog {
 public:
  explicit Hog(SchedulingGroup& group) {
    StartIn(group,
            [this] {
              busy_ = true;
              while (!stop_) std::this_thread::yield();
              gone_ = true;
            },
            {.group_local = true});
    SpinUntil([this] { return busy_.load(); });
  }
  ~Hog() {
    stop_ = true;
    SpinUntil([this] { return gone_.load(); });
  }

 private:
  std::atomic<bool> busy_{false}, stop_{false}, gone_{false};
};

// Holds a worker of `group` up without using its CPU.
class Blocker {
 public:
  explicit Blocker(SchedulingGroup& group) {
    StartIn(group,
            [this] {
              state_ = kBlocks;
              state_.notify_all();
              state_.wait(kBlocks);
              state_ = kGone;
              state_.notify_all();
            },
            {.group_local = true});
    state_.wait(kNew);
  }
  ~Blocker() {
    state_ = kMayGo;
    state_.notify_all();
    state_.wait(kMayGo);
  }

 private:
  static constexpr int kNew = 0, kBlocks = 1, kMayGo = 2, kGone = 3;
  std::atomic<int> state_{kNew};
};

// The idle worker saw the local fiber, called its sleep off, stole nothing, and slept without another search, while the
// other one was pushed: 13 of 4,000 times, for ever.
TEST(StealRequest, AFiberBehindAGroupLocalOneIsRunByTheNeighbour) {
  Groups groups({1, 1});
  for (int round = 0; round < testing::Scaled(2'000); ++round) {
    Blocker blocker(groups[0]);
    std::atomic<bool> ran{false};
    // Keeps the neighbour from sleeping until now.
    StartIn(groups[1], [] {});
    StartIn(groups[0], [] {}, {.group_local = true});
    for (int pause = round % 64; pause > 0; --pause) base::CpuRelax();
    StartIn(groups[0], [&] { ran = true; });
    ASSERT_TRUE(SpinUntil([&] { return ran.load(); })) << "round " << round;
  }
}

// More than a thief looks through: what waits behind them is found all the same, if late.
TEST(StealRequest, AFiberBehindManyGroupLocalOnesIsRunByTheNeighbour) {
  Groups groups({1, 1});
  for (int round = 0; round < 20; ++round) {
    Blocker blocker(groups[0]);
    std::atomic<bool> ran{false};
    for (int i = 0; i < 500; ++i) StartIn(groups[0], [] {}, {.group_local = true});
    StartIn(groups[0], [&] { ran = true; });
    ASSERT_TRUE(SpinUntil([&] { return ran.load(); })) << "round " << round;
  }
}

// It looked past 64 of them, slept for a millisecond, looked past the next 64, and so on.
TEST(StealRequest, AThiefLooksPastAnyNumberOfGroupLocalFibers) {
  Groups groups({1, 1});
  for (int round = 0; round < 5; ++round) {
    Blocker blocker(groups[0]);
    for (int i = 0; i < 1'000; ++i) StartIn(groups[0], [] {}, {.group_local = true});
    groups.WaitUntilSleeps(1);
    const std::uint64_t before = groups[1].counters(0).sleeps;
    std::atomic<bool> ran{false};
    StartIn(groups[0], [&] { ran = true; });
    ASSERT_TRUE(SpinUntil([&] { return ran.load(); }));
    EXPECT_LE(groups[1].counters(0).sleeps - before, 3u);
  }
}

// The search is long, and naps. Who takes the worker out of a nap takes its token, too.
TEST(StealRequest, AWorkerThatNapsInItsLastSearchIsWoken) {
  Groups groups({1, 1});
  Blocker blocker(groups[0]);
  for (int i = 0; i < 1'000; ++i) StartIn(groups[0], [] {}, {.group_local = true});
  for (int round = 0; round < testing::Scaled(200); ++round) {
    std::atomic<bool> ran{false};
    groups.WaitUntilSleeps(1);
    for (int pause = round * 16; pause > 0; --pause) base::CpuRelax();
    StartIn(groups[1], [&] { ran = true; });
    ASSERT_TRUE(SpinUntil([&] { return ran.load(); })) << "round " << round;
  }
}

// Counts the polls of a worker that has announced its sleep.
class PollsOfSleeper final : public Reactor {
 public:
  explicit PollsOfSleeper(const SchedulingGroup& group) : group_(group) {}
  void TryPoll() override {
    if (group_.idle_workers().sleepers().Contains(0)) ++polls;
  }
  void PollIfDue(std::chrono::steady_clock::time_point) override {}
  bool TryEnter() override {
    search_is_over = begun.load();
    return false;
  }
  void Wait() override {}
  void WaitUntil(std::chrono::steady_clock::time_point /*until*/) override {}
  void LeaveAfterDispatch() override {}
  void Interrupt() override {}

  std::atomic<int> polls{0};
  std::atomic<bool> begun{false}, search_is_over{false};

 private:
  const SchedulingGroup& group_;
};

// It is the one that would wait in the poll: input waited for the end of the search.
TEST(StealRequest, AWorkerPollsBetweenTheStealsOfALongLastSearch) {
  Groups groups({1, 1});
  Blocker blocker(groups[0]);
  for (int i = 0; i < 1'000; ++i) StartIn(groups[0], [] {}, {.group_local = true});
  auto owned = std::make_unique<PollsOfSleeper>(groups[1]);
  PollsOfSleeper& poller = *owned;
  ASSERT_TRUE(groups[1].SetReactor(std::move(owned)));
  StartIn(groups[1], [&] { poller.begun = true; });
  SpinUntil([&] { return poller.search_is_over.load(); });
  EXPECT_NE(poller.polls, 0);
}

// As the policy under test. While a group-local fiber is pushed, its pusher holds all that is ready.
class HidesFibers final : public SchedulingPolicy {
 public:
  explicit HidesFibers(const Options& options)
      : policy_(CreateSchedulingPolicy(weft::testing::PolicyUnderTest(), options)) {}

  static inline std::function<void()> meanwhile;  // By the test's thread or fiber.
  static inline std::atomic<SchedulingGroup*> other{nullptr};
  static inline std::atomic<int> failed_searches{0};  // by one of `other` that goes to sleep

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override {
    PushLocally(*fiber);
    policy_->Push(fiber, reason, worker);
  }
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override {
    policy_->PushBatch(fibers, count, reason, worker);
  }
  bool TryPushNew(FiberEntity* fiber, int worker) override {
    PushLocally(*fiber);
    return policy_->TryPushNew(fiber, worker);
  }
  bool MustNotify(unsigned) override { return std::exchange(must_notify_, false); }
  FiberEntity* Pop(unsigned worker, bool* must_notify) override { return policy_->Pop(worker, must_notify); }
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override {
    return policy_->PopFromBusyWorkers(worker, memory);
  }
  FiberEntity* Steal(bool* must_notify) override { return hidden_ ? nullptr : policy_->Steal(must_notify); }
  bool HasWork() const override { return !hidden_ && policy_->HasWork(); }
  bool HasStealable() const override {
    if (!hidden_) return policy_->HasStealable();
    if (other.load()->idle_workers().sleepers().Count() != 0) ++failed_searches;
    return false;
  }
  bool Full() const override { return policy_->Full(); }
  bool HalfEmpty() const override { return policy_->HalfEmpty(); }
  std::size_t Size() const override { return policy_->Size(); }
  std::size_t OverflowCount() const override { return policy_->OverflowCount(); }

 private:
  void PushLocally(const FiberEntity& fiber) {
    if (!fiber.group_local() || !meanwhile) return;
    hidden_ = true;
    std::exchange(meanwhile, nullptr)();
    hidden_ = false;
    must_notify_ = true;
  }

  const std::unique_ptr<SchedulingPolicy> policy_;
  std::atomic<bool> hidden_{false};
  bool must_notify_ = false;
};

// No steal was requested for a group-local fiber; but a worker that went to sleep just then had not seen the others.
TEST(StealRequest, WhatThePushOfALocalFiberHidIsRunByTheNeighbour) {
  ASSERT_TRUE(RegisterSchedulingPolicy(
      "hides fibers", [](const SchedulingPolicy::Options& options) { return std::make_unique<HidesFibers>(options); }));
  Groups groups({1, 1}, {}, "hides fibers");
  HidesFibers::other = &groups[1];
  auto keeps_the_neighbour = std::make_unique<Hog>(groups[1]);
  std::atomic<bool> ran{false}, done{false};
  StartIn(groups[0],
          [&] {
            StartIn(groups[0], [&] { ran = true; });
            HidesFibers::meanwhile = [&] {
              keeps_the_neighbour.reset();
              SpinUntil([] { return HidesFibers::failed_searches != 0; });
            };
            StartIn(groups[0], [] {}, {.group_local = true});
            SpinUntil([&] { return ran.load(); });
            done = true;
          },
          {.group_local = true});
  SpinUntil([&] { return done.load(); });
}

// Only the eight nearest groups were sent requests, and searched.
TEST(StealRequest, EachGroupOfTheNodeHelpsTheOthers) {
  constexpr std::size_t kGroups = 64;
  Groups groups(std::vector<unsigned>(kGroups, 1));
  for (std::size_t idle = 1; idle < kGroups; idle += 9) {
    std::vector<std::unique_ptr<Blocker>> blockers;
    for (std::size_t g = 0; g < kGroups; ++g) {
      if (g != idle) blockers.push_back(std::make_unique<Blocker>(groups[g]));
    }
    std::atomic<bool> ran{false};
    StartIn(groups[0], [&] { ran = true; });
    ASSERT_TRUE(SpinUntil([&] { return ran.load(); })) << "group " << idle << " slept";
  }
}

// While a request was pending nobody span, and only a spinner takes a fiber from the hand-off slot of a worker whose
// fiber goes on; but the request was not served because there was a fiber in a slot.
TEST(StealRequest, ARequestDoesNotKeepAFiberInItsHandOffSlot) {
  Groups groups({3, 1});
  for (int round = 0; round < 30; ++round) {
    std::atomic<FiberEntity*> parked{nullptr};
    std::atomic<bool> woken_ran{false}, called_ran{false};
    StartIn(groups[0], [&] {
      FiberEntity* self = CurrentFiber();
      PrepareToPark(self);
      parked = self;
      ParkPrepared(self);
      woken_ran = true;
    });
    ASSERT_TRUE(SpinUntil([&] { return parked.load() != nullptr; }));
    groups.WaitUntilAllSleep();
    {
      Hog hog(groups[1]);
      FiberEntity* called = NewFiber(&groups[1], {}, [&] { called_ran = true; });
      StartIn(groups[0], [&] {
        Unpark(parked);                        // Into this worker's slot.
        ASSERT_TRUE(groups[1].Start(called));  // The other group sends this one a request.
        SpinUntil([&] { return woken_ran.load(); });
      });
      ASSERT_TRUE(SpinUntil([&] { return woken_ran.load() && called_ran.load(); }));
    }
    ASSERT_TRUE(groups.Drain());
  }
}

// There was a request for the first fiber that has to wait only, and a batch left more than one.
TEST(StealRequest, ABatchForABusyGroupIsRunByItsNeighbour) {
  Groups groups({1, 1});
  for (int round = 0; round < 5; ++round) {
    groups.WaitUntilAllSleep();
    std::atomic<int> ran{0};
    Hog hog(groups[0]);
    std::vector<FiberEntity*> batch;
    for (int i = 0; i < 6; ++i) batch.push_back(NewFiber(&groups[0], {}, [&] { ++ran; }));
    ASSERT_TRUE(groups[0].StartBatch(batch.data(), batch.size()));
    ASSERT_TRUE(SpinUntil([&] { return ran == 6; }));
  }
}

// The pushes trusted in a spinner, which took a fiber and left several behind.
TEST(StealRequest, ABurstIsRunByAllWorkersOfBothGroups) {
  Groups groups({2, 2});
  for (int round = 0; round < 10; ++round) {
    groups.WaitUntilAllSleep();
    std::atomic<int> begun{0};
    for (int i = 0; i < 8; ++i) {
      StartIn(groups[0], [&] {
        // Of each four one for every worker.
        const int all_run = (begun.fetch_add(1) / 4 + 1) * 4;
        SpinUntil([&] { return begun >= all_run; });
      });
    }
    ASSERT_TRUE(groups.Drain());
  }
}

// Requests to groups of other nodes were made at a rate, by who pushed or popped, and not by thieves; and no worker
// looked at them before it slept. When the pushes were over the second worker of a group slept though fibers waited.
void ABurstIsRunByAllWorkers(Stealing stealing) {
  Groups groups({2, 2, 2, 2}, stealing);
  constexpr int kWorkers = 8;
  for (int round = 0; round < 500; ++round) {
    if (round % 2 == 0) groups.WaitUntilAllSleep();
    std::atomic<int> begun{0};
    StartIn(groups[0], [&] {
      for (int i = 0; i < kWorkers; ++i) {
        StartIn(groups[0], [&] {
          ++begun;
          SpinUntil([&] { return begun == kWorkers; });
        });
      }
    });
    ASSERT_TRUE(SpinUntil([&] { return begun == kWorkers; })) << "round " << round;
    ASSERT_TRUE(groups.Drain());
  }
}
TEST(StealRequest, ABurstIsRunByAllWorkersOfTheNode) { ABurstIsRunByAllWorkers({}); }
TEST(StealRequest, ABurstIsRunByAllWorkersOfAllNodes) {
  ABurstIsRunByAllWorkers({.every_n = 1, .distance = kOtherNode});
}
TEST(StealRequest, ABurstIsRunByAllWorkersOfAllNodesWhateverTheRate) {
  ABurstIsRunByAllWorkers({.every_n = 1'000'000, .distance = kOtherNode});
}

// As many fibers wait as many rounds need; each keeps its worker until all workers have one.
void RoundsAreRunByAllWorkers(Stealing stealing) {
  Groups groups({2, 2, 2, 2}, stealing);
  constexpr int kWorkers = 8;
  constexpr int kRounds = 25;
  for (int round = 0; round < 50; ++round) {
    if (round % 2 == 0) groups.WaitUntilAllSleep();
    std::atomic<int> begun{0};
    StartIn(groups[0], [&] {
      for (int i = 0; i < kRounds * kWorkers; ++i) {
        StartIn(groups[0], [&] {
          const int all_have_one = (begun.fetch_add(1) / kWorkers + 1) * kWorkers;
          SpinUntil([&] { return begun >= all_have_one; });
        });
      }
    });
    ASSERT_TRUE(SpinUntil([&] { return begun == kRounds * kWorkers; })) << "round " << round;
    ASSERT_TRUE(groups.Drain());
  }
}
TEST(StealRequest, RoundsAreRunByAllWorkersOfTheNode) { RoundsAreRunByAllWorkers({}); }
TEST(StealRequest, RoundsAreRunByAllWorkersOfAllNodes) {
  RoundsAreRunByAllWorkers({.every_n = 1, .distance = kOtherNode});
}

// Two groups sent requests; the worker that was woken for one of them had something else to do, and its colleague
// slept.
void TheSecondRequestIsServed(bool first_is_the_groups_own) {
  Groups groups({2, 1, 1});
  for (int round = 0; round < 20; ++round) {
    groups.WaitUntilAllSleep();
    std::atomic<bool> ran{false};
    {
      Hog hog1(groups[1]), hog2(groups[2]);
      SchedulingGroup& first = groups[first_is_the_groups_own ? 0 : 1];
      FiberEntity* one = NewFiber(&first, {}, [&] { SpinUntil([&] { return ran.load(); }); });
      FiberEntity* two = NewFiber(&groups[2], {}, [&] { ran = true; });
      ASSERT_TRUE(first.Start(one));
      ASSERT_TRUE(groups[2].Start(two));
      ASSERT_TRUE(SpinUntil([&] { return ran.load(); }));
    }
    ASSERT_TRUE(groups.Drain());
  }
}
TEST(StealRequest, OfTwoAtATimeBothAreServed) { TheSecondRequestIsServed(false); }
TEST(StealRequest, AreServedThoughTheWorkerThatWakesUpFindsWorkOfItsOwn) { TheSecondRequestIsServed(true); }

// What a group without neighbours had set for its next request was kept when it was opened again with some.
TEST(StealRequest, AreMadeAfterARestartWithNeighbours) {
  SchedulingGroup group({.id = 0, .workers = 1, .run_queue_size = 64});
  SchedulingGroup other({.id = 1, .workers = 1, .run_queue_size = 64});
  other.SetNeighbours({{.group = &group, .steal_every_n = 16}});
  WorkerTeam team(&group), others_team(&other);
  ASSERT_TRUE(team.Start());
  for (int i = 0; i < 10; ++i) StartIn(group, [] {});
  ASSERT_TRUE(WaitUntilNoFibers(std::chrono::seconds(60)));
  group.Stop();
  team.Join();
  group.Close();
  group.Reopen(group.options());
  group.SetNeighbours({{.group = &other, .steal_every_n = 16}});
  ASSERT_TRUE(team.Start());
  ASSERT_TRUE(others_team.Start());
  {
    Blocker blocker(group);
    std::atomic<bool> ran{false};
    StartIn(group, [&] { ran = true; });
    SpinUntil([&] { return ran.load(); });
  }
  EXPECT_TRUE(WaitUntilNoFibers(std::chrono::seconds(60)));
  for (SchedulingGroup* each : {&group, &other}) each->Stop();
  team.Join();
  others_team.Join();
}

}  // namespace
}  // namespace weft::scheduling_group
