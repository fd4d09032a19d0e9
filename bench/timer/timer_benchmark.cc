// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What setting, killing and firing a timer costs, against what one would build from the standard library.
//
// How to read the figures. BM_SetAndKill sets a million one-shot timers that are due in 10 to 20 s, in random order,
// then kills them in the order in which they were set. set_ns and kill_ns are the setter's CPU time per timer, after a
// first round that pays for the memory. The std twins do the same under one mutex, with a thread on a condition
// variable: `multimap` erases killed timers, `priority_queue` marks them and keeps them until they are due, as many
// runtimes do. BM_ArmAndDisarm is a wait with a time-out that does not pass. BM_Fire is the cost of one timer that
// fires, all included, when 100,000 are due at once. BM_Sleepers: how late 100,000 fibers run again that sleep 100 ms
// each; with two CPUs or fewer this contains the time that they need to run.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/worker_team.h"
#include "weft/tests/testing/timer_sleep.h"
#include "weft/timer/fiber_timer.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::timer {
namespace {

using scheduling_group::SchedulingGroup;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::size_t kTimers = 1'000'000;

const std::vector<nanoseconds>& TenToTwentySeconds() {
  static const auto* ahead = [] {
    auto* made = new std::vector<nanoseconds>(kTimers);
    std::minstd_rand random(1);
    std::uniform_int_distribution<std::int64_t> ns(10'000'000'000, 20'000'000'000);
    for (nanoseconds& one : *made) one = nanoseconds(ns(random));
    return made;
  }();
  return *ahead;
}

// A group with its timers; callables run in a fiber of it.
class Runtime {
 public:
  explicit Runtime(unsigned workers) {
    SchedulingGroup::Options options;
    options.workers = workers;
    group_ = std::make_unique<SchedulingGroup>(options);
    scheduling_group::SetGroups({group_.get()});
    timers_ = std::make_unique<TimerWorker>(TimerWorker::Options{.group = group_.get(), .trim = {}});
    team_ = std::make_unique<scheduling_group::WorkerTeam>(group_.get());
    WEFT_CHECK(timers_->Start() && team_->Start(), "no threads");
  }
  ~Runtime() {
    timers_->Stop();
    group_->Stop();
    team_->Join();
    timers_.reset();
    scheduling_group::SetGroups({});
  }

  template <class F>
  void Start(F&& f) {
    scheduling_group::FiberEntity* fiber = scheduling_group::NewFiber(group_.get(), {}, std::forward<F>(f));
    WEFT_CHECK(fiber != nullptr && group_->Start(fiber), "a fiber was refused");
  }
  template <class F>
  void Run(F&& f) {
    std::latch done(1);
    Start([&] {
      f();
      done.count_down();
    });
    done.wait();
  }
  TimerWorker& timers() { return *timers_; }

 private:
  std::unique_ptr<SchedulingGroup> group_;
  std::unique_ptr<TimerWorker> timers_;
  std::unique_ptr<scheduling_group::WorkerTeam> team_;
};

// CPU time of the calling thread: what a phase costs, also on a machine that others use.
nanoseconds ThreadCpuTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

double NanosecondsPerTimer(nanoseconds from, nanoseconds to) {
  return static_cast<double>((to - from).count()) / static_cast<double>(kTimers);
}

// Set and kill, round by round, by `set` and `kill`.
template <class Id, class Set, class Kill>
void SetAndKillRounds(benchmark::State& state, Set&& set, Kill&& kill) {
  const std::vector<nanoseconds>& ahead = TenToTwentySeconds();
  std::vector<Id> ids(kTimers);
  double set_ns = 1e9;
  double kill_ns = 1e9;
  bool warm = false;
  const auto round = [&] {
    const auto now = steady_clock::now();
    const nanoseconds begin = ThreadCpuTime();
    for (std::size_t i = 0; i < kTimers; ++i) ids[i] = set(now + ahead[i]);
    const nanoseconds middle = ThreadCpuTime();
    for (Id& id : ids) kill(id);
    const nanoseconds end = ThreadCpuTime();
    if (warm) {
      set_ns = std::min(set_ns, NanosecondsPerTimer(begin, middle));
      kill_ns = std::min(kill_ns, NanosecondsPerTimer(middle, end));
    } else {
      state.counters["cold_set_ns"] = NanosecondsPerTimer(begin, middle);
    }
    warm = true;
  };
  round();
  for (auto _ : state) round();
  state.counters["set_ns"] = set_ns;
  state.counters["kill_ns"] = kill_ns;
}

void BM_SetAndKill(benchmark::State& state) {
  Runtime runtime(1);
  std::atomic<std::int64_t> fired{0};
  const auto rounds = [&] {
    SetAndKillRounds<std::uint64_t>(
        state,
        [&fired](steady_clock::time_point at) {
          return SetFiberTimer(at, [&fired] { fired.fetch_add(1, std::memory_order_relaxed); });
        },
        [](std::uint64_t id) { KillFiberTimer(id); });
  };
  if (state.range(0) != 0) {
    runtime.Run(rounds);
  } else {
    rounds();
  }
  WEFT_CHECK(fired.load() == 0, "a killed timer fired");
}
BENCHMARK(BM_SetAndKill)->ArgName("in_fiber")->Arg(0)->Arg(1)->Iterations(20)->Unit(benchmark::kMillisecond);

// Callables that must be moved and destroyed: no copying under the lock.
void BM_SetAndKillWithDestructor(benchmark::State& state) {
  Runtime runtime(1);
  runtime.Run([&] {
    auto shared = std::make_shared<int>(0);
    SetAndKillRounds<std::uint64_t>(
        state, [&shared](steady_clock::time_point at) { return SetFiberTimer(at, [shared] { ++*shared; }); },
        [](std::uint64_t id) { KillFiberTimer(id); });
  });
}
BENCHMARK(BM_SetAndKillWithDestructor)->Iterations(5)->Unit(benchmark::kMillisecond);

// --- The twins ---

class StdMultimapTimers {
  using Queue = std::multimap<steady_clock::time_point, std::function<void()>>;

 public:
  using Id = Queue::iterator;

  StdMultimapTimers() : thread_([this] { Loop(); }) {}
  ~StdMultimapTimers() {
    {
      std::lock_guard guard(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  Id Set(steady_clock::time_point at, std::function<void()> callback) {
    std::lock_guard guard(mutex_);
    const Id id = queue_.emplace(at, std::move(callback));
    if (id == queue_.begin()) changed_.notify_one();
    return id;
  }
  void Kill(Id id) {
    std::lock_guard guard(mutex_);
    queue_.erase(id);
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (queue_.empty()) {
        changed_.wait(lock);
      } else if (const auto at = queue_.begin()->first; at > steady_clock::now()) {
        changed_.wait_until(lock, at);
      } else {
        const std::function<void()> callback = std::move(queue_.begin()->second);
        queue_.erase(queue_.begin());
        lock.unlock();
        callback();
        lock.lock();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Queue queue_;
  bool stop_ = false;
  std::thread thread_;
};

class StdPriorityQueueTimers {
 public:
  struct Entry {
    steady_clock::time_point at;
    std::function<void()> callback;
    std::atomic<bool> killed{false};
  };
  using Id = std::shared_ptr<Entry>;

  Id Set(steady_clock::time_point at, std::function<void()> callback) {
    auto entry = std::make_shared<Entry>();
    entry->at = at;
    entry->callback = std::move(callback);
    std::lock_guard guard(mutex_);
    queue_.push(entry);
    return entry;
  }
  void Kill(Id& id) {
    id->killed.store(true, std::memory_order_relaxed);
    id.reset();
  }
  // Instead of waiting 20 s for the marked ones.
  void Clear() {
    std::lock_guard guard(mutex_);
    queue_ = {};
  }

 private:
  struct Later {
    bool operator()(const Id& a, const Id& b) const { return a->at > b->at; }
  };
  std::mutex mutex_;
  std::priority_queue<Id, std::vector<Id>, Later> queue_;
};

void BM_StdMultimap(benchmark::State& state) {
  StdMultimapTimers timers;
  SetAndKillRounds<StdMultimapTimers::Id>(
      state, [&](steady_clock::time_point at) { return timers.Set(at, [&state] { static_cast<void>(state); }); },
      [&](StdMultimapTimers::Id id) { timers.Kill(id); });
}
BENCHMARK(BM_StdMultimap)->Iterations(1)->Unit(benchmark::kMillisecond);

void BM_StdPriorityQueue(benchmark::State& state) {
  StdPriorityQueueTimers timers;
  std::size_t killed = 0;
  SetAndKillRounds<StdPriorityQueueTimers::Id>(
      state, [&](steady_clock::time_point at) { return timers.Set(at, [&state] { static_cast<void>(state); }); },
      [&](StdPriorityQueueTimers::Id& id) {
        timers.Kill(id);
        if (++killed % kTimers == 0) timers.Clear();
      });
}
BENCHMARK(BM_StdPriorityQueue)->Iterations(1)->Unit(benchmark::kMillisecond);

// --- Waits with a time-out, firing, lateness ---

void BM_ArmAndDisarm(benchmark::State& state) {
  Runtime runtime(1);
  runtime.Run([&] {
    TimerWorker* timers = TimerWorker::ForCaller();
    WaitTimer node;
    node.fire = [](TimerNode*, FireContext*) {};
    const Deadline deadline = std::chrono::seconds(30);
    for (auto _ : state) {
      timers->Arm(&node, deadline);
      benchmark::DoNotOptimize(TimerWorker::Disarm(&node));
    }
  });
}
BENCHMARK(BM_ArmAndDisarm);

void BM_Fire(benchmark::State& state) {
  constexpr std::size_t kDue = 100'000;
  const bool in_fiber = state.range(0) != 0;
  Runtime runtime(1);
  double best_ns = 1e9;
  for (auto _ : state) {
    const auto at = steady_clock::now() + std::chrono::milliseconds(30);
    std::latch done(kDue);
    for (std::size_t i = 0; i < kDue; ++i) {
      if (in_fiber) {
        SetFiberDetachedTimer(at, [&done] { done.count_down(); });
      } else {
        EnableFiberTimer(CreateFiberTimer(at, [&done] { done.count_down(); }));
      }
    }
    if (steady_clock::now() > at) state.SkipWithError("setting them took longer than they should have waited");
    done.wait();
    best_ns = std::min(best_ns, static_cast<double>((steady_clock::now() - at).count()) / kDue);
  }
  state.counters["ns_per_timer"] = best_ns;
}
BENCHMARK(BM_Fire)->ArgName("in_fiber")->Arg(0)->Arg(1)->Iterations(10)->Unit(benchmark::kMillisecond);

void BM_Sleepers(benchmark::State& state) {
  constexpr std::size_t kSleepers = 100'000;
  static constexpr std::chrono::milliseconds kSleep{100};
  Runtime runtime(static_cast<unsigned>(state.range(0)));
  std::vector<double> best;
  double best_ms = 1e9;
  for (auto _ : state) {
    std::vector<double> late_us(kSleepers);
    std::latch done(kSleepers);
    const auto begin = steady_clock::now();
    runtime.Run([&] {
      for (double& late : late_us) {
        runtime.Start([&late, &done] {
          const Deadline deadline = kSleep;
          testing::TimerSleepUntil(deadline);
          late = std::chrono::duration<double, std::micro>(steady_clock::now() - deadline.time_point()).count();
          done.count_down();
        });
      }
    });
    done.wait();
    best_ms = std::min(best_ms, std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count());
    std::sort(late_us.begin(), late_us.end());
    WEFT_CHECK(late_us.front() >= 0, "a sleeper woke early");
    if (best.empty() || late_us[kSleepers * 99 / 100] < best[kSleepers * 99 / 100]) best = std::move(late_us);
  }
  state.counters["ms"] = best_ms;
  state.counters["late_p50_us"] = best[kSleepers / 2];
  state.counters["late_p99_us"] = best[kSleepers * 99 / 100];
  state.counters["late_max_us"] = best.back();
}
BENCHMARK(BM_Sleepers)
    ->ArgName("workers")
    ->RangeMultiplier(2)
    ->Range(1, 8)
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::timer
