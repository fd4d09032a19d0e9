// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/idle/idle_workers.h through all interleavings: producers publish work and notify; workers spin,
// sleep and search once more, as Worker::NextFiber() does. When nothing moves any more no work may be left (no lost
// wake-up), even if the work published first ends only after the work published last (so a worker that is busy for long
// does not count as one that will search). Also with one worker that sleeps in the poll for input and output, as in
// Worker::Sleep(), on the real base::Parker.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <memory>
#include <string>

#include "weft/base/thread/parker.h"
#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/queue/run_queue.h"
#include "weft/scheduling_group/queue/worker_queues.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {

class alignas(64) FiberEntity {};  // What the run queue carries; only its address matters here.

namespace {

constexpr unsigned kMaxWorkers = 3;
constexpr int kMaxItems = 4;
constexpr int kNothing = -1;

// The weakest possible queue: one relaxed word. Only IdleWorkers orders it.
class RelaxedQueue {
 public:
  void Push(int item) { items_.fetch_or(1u << item, std::memory_order_relaxed); }
  void Push2(int a, int b) { items_.fetch_or(1u << a | 1u << b, std::memory_order_relaxed); }
  bool HasWork() const { return items_.load(std::memory_order_relaxed) != 0; }
  int Pop() {
    std::uint32_t items = items_.load(std::memory_order_relaxed);
    while (items != 0) {
      const int item = std::countr_zero(items);
      if (items_.compare_exchange_strong(items, items & ~(1u << item), std::memory_order_relaxed)) return item;
    }
    return kNothing;
  }

 private:
  base::Atomic<std::uint32_t> items_{0};
};

// The queue that the workers really use.
class FiberQueue {
 public:
  void Push(int item) { MODEL_CHECK(queue_.TryPush(&fibers_[item]), "the queue is large enough"); }
  bool HasWork() const { return !queue_.Empty(); }
  int Pop() {
    FiberEntity* fiber = queue_.TryPop();
    return fiber == nullptr ? kNothing : static_cast<int>(fiber - fibers_.data());
  }

 private:
  RunQueue queue_{2};
  std::array<FiberEntity, kMaxItems> fibers_;
};

// The ring of a worker that starts all items and runs none: it leaves them to the idle ones.
class OneWorkersRing {
 public:
  void Push(int item) { MODEL_CHECK(ring_.Push(&fibers_[item]), "the ring is large enough"); }
  bool HasWork() const { return !ring_.Empty(); }
  int Pop() {
    FiberEntity* batch[decltype(ring_)::kCapacity];
    if (ring_.PopHalf(batch) == 0) return kNothing;  // One: half of two at most.
    return static_cast<int>(batch[0] - fibers_.data());
  }

 private:
  LocalRing<2> ring_;
  std::array<FiberEntity, kMaxItems> fibers_;
};

template <class Queue>
struct Group {
  Queue queue;
  IdleWorkers idle;
  std::array<model::Parker, kMaxWorkers> parkers;
  std::array<model::Parker, kMaxItems> done;  // of each item: it has run
  std::array<int, kMaxItems> runs{};          // each item is run by one worker
  int waits_for = kNothing;                   // the item that must end before item 0 may end
  int naps = 0;                               // how often worker 0 sleeps with a time-out

  // As SchedulingGroup::Notify().
  void Notify() {
    const int worker = idle.ClaimWorkerToWake();
    if (worker != IdleWorkers::kNobody) parkers[worker].Unpark();
  }

  void Start(int item) {
    queue.Push(item);
    Notify();
  }

  // As Worker::IdleSide::Spin(): a bounded number of searches.
  int Spin(int looks) {
    for (int i = 0;; ++i) {
      const int item = queue.Pop();
      if (item != kNothing || i + 1 == looks) return item;
      model::SpinHint();
    }
  }

  // A claim at the moment of a time-out leaves its token behind, for the next sleep.
  void Sleep(unsigned worker) {
    if (worker == 0 && naps > 0) {
      --naps;
      static_cast<void>(parkers[worker].ParkOrTimeOut());
    } else {
      parkers[worker].Park();
    }
  }

  // As Worker::NextFiber().
  int NextItem(unsigned worker, int looks, bool asleep) {
    bool counted_as_spinner = false;
    if (asleep) {
      parkers[worker].Park();
      counted_as_spinner = !idle.CancelSleep(worker);
    }
    for (;;) {
      int item = kNothing;
      if (counted_as_spinner || idle.TryStartSpinning()) {
        counted_as_spinner = false;
        item = Spin(looks);
        idle.StopSpinning();
        if (item == kNothing) item = queue.Pop();
        if (item != kNothing && queue.HasWork()) Notify();
      } else {
        item = queue.Pop();
      }
      if (item != kNothing) return item;

      idle.PrepareSleep(worker);
      if (!queue.HasWork()) {
        Sleep(worker);
        counted_as_spinner = !idle.CancelSleep(worker);
      } else if (!idle.CancelSleep(worker)) {
        parkers[worker].Park();
        counted_as_spinner = true;
      } else {
        model::SpinHint();
      }
    }
  }

  void Work(unsigned worker, int looks, bool asleep) {
    for (;; asleep = false) {
      const int item = NextItem(worker, looks, asleep);
      model::Note("runs an item");
      ++runs[item];
      if (item == 0 && waits_for != kNothing) done[waits_for].Park();
      done[item].Unpark();
    }
  }
};

// `asleep`: which workers sleep at the beginning, bit by bit; the others are about to search for the first time.
template <class Queue>
Group<Queue>* NewGroup(model::Scenario& scenario, unsigned workers, std::uint64_t asleep, int items, int looks = 1) {
  auto* group = scenario.New<Group<Queue>>("group");
  scenario.Name(&group->queue, sizeof(group->queue), "queue");
  scenario.Name(&group->idle, sizeof(group->idle), "idle");
  scenario.Name(&group->idle, sizeof(std::uint64_t), "sleepers");
  static constexpr const char* kNames[kMaxWorkers] = {"worker 0", "worker 1", "worker 2"};
  for (unsigned w = 0; w < workers; ++w) {
    const bool sleeps = (asleep >> w & 1) != 0;
    if (sleeps) group->idle.PrepareSleep(w);
    scenario.Background(kNames[w], [=] { group->Work(w, looks, sleeps); });
  }
  if (items > 1 && workers > 1) group->waits_for = 1;
  scenario.AtEnd([=] {
    MODEL_CHECK(!group->queue.HasWork(), "a wake-up is lost: there is work, and nobody will search");
    for (int i = 0; i < items; ++i) MODEL_CHECK(group->runs[i] == 1, "an item did not run once");
    MODEL_CHECK(group->idle.spinners() == 0, "a spinner is counted that does not spin");
    MODEL_CHECK(group->idle.sleepers() == base::WorkerMask::First(workers), "a sleeper is counted wrongly");
  });
  return group;
}

// One producer that starts two items, or makes them a batch; or two producers that start one each.
template <class Queue>
void OneProducer(model::Scenario& scenario, Group<Queue>* group) {
  scenario.Thread("producer", [=] {
    group->Start(0);
    group->Start(1);
  });
}

template <class Queue>
void TwoProducers(model::Scenario& scenario, Group<Queue>* group) {
  scenario.Thread("producer 0", [=] { group->Start(0); });
  scenario.Thread("producer 1", [=] { group->Start(1); });
}

void Batch(model::Scenario& scenario, Group<RelaxedQueue>* group) {
  scenario.Thread("producer", [=] {
    group->queue.Push2(0, 1);
    group->Notify();
  });
}

constexpr std::uint64_t kAllAwake = 0;

TEST(IdleWorkersModel, OneWorker) {
  const model::Result one = model::Explore(
      {.name = "idle_workers: 1 producer, 1 worker", .preemptions = model::kUnbounded, .weak_choices = 4},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<RelaxedQueue>(scenario, 1, kAllAwake, 2)); });
  EXPECT_TRUE(one.passed) << one.report;
  const model::Result two = model::Explore(
      {.name = "idle_workers: 2 producers, 1 worker", .preemptions = 3, .weak_choices = 2},
      [](model::Scenario& scenario) { TwoProducers(scenario, NewGroup<RelaxedQueue>(scenario, 1, kAllAwake, 2)); });
  EXPECT_TRUE(two.passed) << two.report;
}

TEST(IdleWorkersModel, TwoWorkers) {
  const model::Result result = model::Explore(
      {.name = "idle_workers: 1 producer, 2 workers", .preemptions = 2, .weak_choices = 1},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<RelaxedQueue>(scenario, 2, kAllAwake, 2)); });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(IdleWorkersModel, TwoWorkersOfWhichOneSleeps) {
  const model::Result one = model::Explore(
      {.name = "idle_workers: 1 producer, 1 awake, 1 asleep", .preemptions = 3, .weak_choices = 1},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<RelaxedQueue>(scenario, 2, 0b10, 2)); });
  EXPECT_TRUE(one.passed) << one.report;
  const model::Result two = model::Explore(
      {.name = "idle_workers: 2 producers, 1 awake, 1 asleep", .preemptions = 2, .weak_choices = 1},
      [](model::Scenario& scenario) { TwoProducers(scenario, NewGroup<RelaxedQueue>(scenario, 2, 0b10, 2)); });
  EXPECT_TRUE(two.passed) << two.report;
}

TEST(IdleWorkersModel, TwoWorkersThatSleep) {
  const model::Result one = model::Explore(
      {.name = "idle_workers: 1 producer, 2 asleep", .preemptions = 3, .weak_choices = 2},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<RelaxedQueue>(scenario, 2, 0b11, 2)); });
  EXPECT_TRUE(one.passed) << one.report;
  const model::Result two = model::Explore(
      {.name = "idle_workers: 2 producers, 2 asleep", .preemptions = 3, .weak_choices = 1},
      [](model::Scenario& scenario) { TwoProducers(scenario, NewGroup<RelaxedQueue>(scenario, 2, 0b11, 2)); });
  EXPECT_TRUE(two.passed) << two.report;
}

TEST(IdleWorkersModel, ABatchIsAnnouncedOnce) {
  const model::Result awake = model::Explore(
      {.name = "idle_workers: batch, 2 workers", .preemptions = 2, .weak_choices = 2},
      [](model::Scenario& scenario) { Batch(scenario, NewGroup<RelaxedQueue>(scenario, 2, kAllAwake, 2)); });
  EXPECT_TRUE(awake.passed) << awake.report;
  const model::Result asleep =
      model::Explore({.name = "idle_workers: batch, 2 asleep", .preemptions = 3, .weak_choices = 2},
                     [](model::Scenario& scenario) { Batch(scenario, NewGroup<RelaxedQueue>(scenario, 2, 0b11, 2)); });
  EXPECT_TRUE(asleep.passed) << asleep.report;
}

TEST(IdleWorkersModel, ASleepThatTimesOut) {
  const model::Result result =
      model::Explore({.name = "idle_workers: time-out, 1 awake, 1 asleep", .preemptions = 2, .weak_choices = 1},
                     [](model::Scenario& scenario) {
                       auto* group = NewGroup<RelaxedQueue>(scenario, 2, 0b10, 2);
                       group->naps = 1;
                       OneProducer(scenario, group);
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(IdleWorkersModel, ThreeWorkersOfWhichTwoMaySpin) {
  const model::Result result = model::Explore(
      {.name = "idle_workers: 1 producer, 2 awake, 1 asleep", .preemptions = 2, .weak_choices = 0},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<RelaxedQueue>(scenario, 3, 0b100, 2)); });
  EXPECT_TRUE(result.passed) << result.report;
  const model::Result weak = model::Explore(
      {.name = "idle_workers: 2 awake, 1 asleep, weak", .preemptions = 1, .weak_choices = 1},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<RelaxedQueue>(scenario, 3, 0b100, 2)); });
  EXPECT_TRUE(weak.passed) << weak.report;
}

TEST(IdleWorkersModel, WithTheRunQueue) {
  const model::Result awake = model::Explore(
      {.name = "idle_workers: run queue, 2 workers", .preemptions = 2, .weak_choices = 1},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<FiberQueue>(scenario, 2, kAllAwake, 2)); });
  EXPECT_TRUE(awake.passed) << awake.report;
  const model::Result asleep = model::Explore(
      {.name = "idle_workers: run queue, 2 asleep", .preemptions = 2, .weak_choices = 2},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<FiberQueue>(scenario, 2, 0b11, 2)); });
  EXPECT_TRUE(asleep.passed) << asleep.report;
}

// LR3
TEST(IdleWorkersModel, WithTheRingOfOneWorker) {
  const model::Result awake = model::Explore(
      {.name = "idle_workers: ring, 2 workers", .preemptions = 2, .weak_choices = 1},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<OneWorkersRing>(scenario, 2, kAllAwake, 2)); });
  EXPECT_TRUE(awake.passed) << awake.report;
  const model::Result asleep = model::Explore(
      {.name = "idle_workers: ring, 2 asleep", .preemptions = 2, .weak_choices = 2},
      [](model::Scenario& scenario) { OneProducer(scenario, NewGroup<OneWorkersRing>(scenario, 2, 0b11, 2)); });
  EXPECT_TRUE(asleep.passed) << asleep.report;
}

// --- A worker that sleeps in the poll (IW5) ---

struct PollingGroup {
  static constexpr int kItems = 3;

  RelaxedQueue queue;
  IdleWorkers idle;
  std::array<base::Parker, kMaxWorkers> parkers;
  base::Atomic<std::uint32_t> polled{0};
  base::Atomic<std::uint32_t> readable{0};  // input: items to be started, bit by bit
  model::Parker poll;                       // what ends the wait in the poll, as epoll keeps it
  std::array<int, kItems> runs{};

  // As SchedulingGroup::WakeOne() and Unpark().
  void Notify() {
    const int worker = idle.ClaimWorkerToWake();
    if (worker != IdleWorkers::kNobody && parkers[static_cast<unsigned>(worker)].Unpark()) poll.Unpark();
  }
  void Start(int item) {
    queue.Push(item);
    Notify();
  }
  void Receive(int item) {
    readable.fetch_or(1u << item, std::memory_order_relaxed);
    poll.Unpark();
  }

  // As EpollReactor::TryEnter() and LeaveAfterDispatch().
  bool TryEnter() {
    std::uint32_t nobody = 0;
    return polled.compare_exchange_strong(nobody, 1, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void Leave() {
    std::uint32_t found = readable.exchange(0, std::memory_order_relaxed);
    polled.store(0, std::memory_order_release);
    for (; found != 0; found &= found - 1) Start(std::countr_zero(found));
  }

  // As Worker::Sleep().
  bool Sleep(unsigned worker) {
    if (!TryEnter()) {
      parkers[worker].Park();
      return !idle.CancelSleep(worker);
    }
    idle.SetInPoll(worker, true);
    if (parkers[worker].BeginWaitElsewhere()) {
      // Other than a futex, epoll_wait() does not look at the word.
      poll.Park();
      static_cast<void>(parkers[worker].EndWaitElsewhere());
    }
    idle.SetInPoll(worker, false);
    bool counted_as_spinner = !idle.CancelSleep(worker);
    if (!counted_as_spinner) counted_as_spinner = idle.TryStartSpinning();
    Leave();
    return counted_as_spinner;
  }

  // As Worker::NextFiber(), with one search while it spins.
  int NextItem(unsigned worker) {
    bool counted_as_spinner = false;
    for (;;) {
      int item = kNothing;
      if (counted_as_spinner || idle.TryStartSpinning()) {
        counted_as_spinner = false;
        item = queue.Pop();
        idle.StopSpinning();
        if (item == kNothing) item = queue.Pop();
        if (item != kNothing && queue.HasWork()) Notify();
      } else {
        item = queue.Pop();
      }
      if (item != kNothing) return item;

      idle.PrepareSleep(worker);
      if (!queue.HasWork()) {
        counted_as_spinner = Sleep(worker);
      } else if (!idle.CancelSleep(worker)) {
        parkers[worker].Park();
        counted_as_spinner = true;
      } else {
        model::SpinHint();
      }
    }
  }
};

// `busy_for_ever`: the worker that runs item 0 never comes back.
PollingGroup* NewPollingGroup(model::Scenario& scenario, unsigned workers, int items, bool busy_for_ever = false) {
  auto* group = scenario.New<PollingGroup>("group");
  static constexpr const char* kNames[kMaxWorkers] = {"worker 0", "worker 1", "worker 2"};
  for (unsigned w = 0; w < workers; ++w) {
    scenario.Background(kNames[w], [=] {
      for (;;) {
        const int item = group->NextItem(w);
        model::Note("runs an item");
        ++group->runs[static_cast<std::size_t>(item)];
        if (item == 0 && busy_for_ever) return;
      }
    });
  }
  scenario.AtEnd([=] {
    MODEL_CHECK(!group->queue.HasWork(), "a wake-up is lost: there is work, and nobody will search");
    for (int i = 0; i < items; ++i)
      MODEL_CHECK(group->runs[static_cast<std::size_t>(i)] == 1, "an item did not run once");
    MODEL_CHECK(group->idle.spinners() == 0, "a spinner is counted that does not spin");
    if (busy_for_ever) return;
    MODEL_CHECK(group->idle.sleepers() == base::WorkerMask::First(workers), "a sleeper is counted wrongly");
    MODEL_CHECK(group->polled.load(std::memory_order_relaxed) == 1, "all sleep, and nobody polls");
  });
  return group;
}

TEST(IdleWorkersModel, OneWorkerInThePoll) {
  const model::Result result =
      model::Explore({.name = "idle_workers: poll, 1 worker, start and input", .preemptions = 3, .weak_choices = 2},
                     [](model::Scenario& scenario) {
                       PollingGroup* group = NewPollingGroup(scenario, 1, 2);
                       scenario.Thread("producer", [=] { group->Start(0); });
                       scenario.Thread("kernel", [=] { group->Receive(1); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(IdleWorkersModel, OneWorkerInThePollIsWokenTwice) {
  const model::Result result =
      model::Explore({.name = "idle_workers: poll, 1 worker, 2 producers", .preemptions = 3, .weak_choices = 1},
                     [](model::Scenario& scenario) {
                       PollingGroup* group = NewPollingGroup(scenario, 1, 2);
                       scenario.Thread("producer 0", [=] { group->Start(0); });
                       scenario.Thread("producer 1", [=] { group->Start(1); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(IdleWorkersModel, TwoWorkersOfWhichOneIsInThePoll) {
  const auto scene = [](model::Scenario& scenario) {
    PollingGroup* group = NewPollingGroup(scenario, 2, 2);
    scenario.Thread("producer", [=] { group->Start(0); });
    scenario.Thread("kernel", [=] { group->Receive(1); });
  };
  const model::Result result = model::Explore(
      {.name = "idle_workers: poll, 2 workers, start and input", .preemptions = 2, .weak_choices = 0}, scene);
  EXPECT_TRUE(result.passed) << result.report;
  const model::Result weak =
      model::Explore({.name = "idle_workers: poll, 2 workers, weak", .preemptions = 1, .weak_choices = 1}, scene);
  EXPECT_TRUE(weak.passed) << weak.report;
}

// While another worker is busy, the remaining one runs what is started, whether it sleeps on its parker or in the poll.
TEST(IdleWorkersModel, WhoIsLeftIsWokenWhereverItSleeps) {
  const model::Result result =
      model::Explore({.name = "idle_workers: poll, 2 workers, one stays busy", .preemptions = 2, .weak_choices = 1},
                     [](model::Scenario& scenario) {
                       PollingGroup* group = NewPollingGroup(scenario, 2, 2, /*busy_for_ever=*/true);
                       scenario.Thread("producer", [=] {
                         group->Start(0);
                         group->Start(1);
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

}  // namespace
}  // namespace weft::scheduling_group
