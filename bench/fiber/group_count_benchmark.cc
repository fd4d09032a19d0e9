// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// `groups` of one worker each, all busy all the time: the processor time of a yield, and of a fiber that a fiber
// starts, in ns (`cpu_ns`). With `every_n` (--fiber_work_stealing_ratio) 0 groups know nothing of each other. Otherwise
// each push checks whether another group has a sleeping worker, which must cost the same for any number of groups
// (scheduling_group/idle/wake_and_steal.h), within 5 %.
//
// Compare medians of --benchmark_repetitions with --benchmark_enable_random_interleaving.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <thread>
#include <vector>

#include "weft/bench/fiber/benchmark_runtime.h"

namespace {

using weft::FiberLatch;

// Of the whole process, so that the number of processors does not matter.
std::int64_t ProcessNanoseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct alignas(64) Group {
  std::atomic<std::int64_t> operations = 0;
  void Count(std::int64_t more) {  // Only the group's worker: no other one is idle, so nothing is stolen.
    operations.store(operations.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
};

// A fiber of each group calls work(group, stop), which counts its operations and returns when stop is set. The measured
// time is in the middle, when all groups are busy.
template <class Work>
void RunInAllGroups(benchmark::State& state, Work work) {
  constexpr std::chrono::milliseconds kUntilAllAreBusy{200}, kMeasured{200};
  std::vector<Group> groups(static_cast<std::size_t>(state.range(0)));
  weft::RuntimeOptions options;
  options.concurrency_hint = state.range(0);
  options.scheduling_group_size = 1;
  options.work_stealing_ratio = state.range(1);
  weft::StartRuntime(options);
  std::int64_t nanoseconds = 0;
  std::int64_t operations = 0;
  const auto read = [&](std::int64_t sign) {
    nanoseconds += sign * ProcessNanoseconds();
    for (const Group& group : groups) operations += sign * group.operations.load(std::memory_order_relaxed);
  };
  for (auto _ : state) {
    std::atomic<bool> stop = false;
    FiberLatch begin(1), done(state.range(0));
    for (std::size_t index = 0; index < groups.size(); ++index) {
      weft::Fiber::Attributes attributes;
      attributes.scheduling_group = index;
      attributes.scheduling_group_local = true;
      const bool started = weft::StartFiberDetached(attributes, [&, index] {
        begin.Wait();
        work(groups[index], stop);
        done.CountDown();
      });
      if (!started) state.SkipWithError("a fiber was refused");
    }
    begin.CountDown();
    std::this_thread::sleep_for(kUntilAllAreBusy);
    read(-1);
    std::this_thread::sleep_for(kMeasured);
    read(1);
    stop = true;
    done.Wait();
  }
  state.counters["cpu_ns"] = static_cast<double>(nanoseconds) / static_cast<double>(operations);
  weft::TerminateRuntime();
}

void BM_Yield(benchmark::State& state) {
  RunInAllGroups(state, [](Group& group, const std::atomic<bool>& stop) {
    constexpr std::int64_t kFibers = 50;
    FiberLatch done(kFibers);
    for (std::int64_t i = 0; i < kFibers; ++i) {
      (void)weft::StartFiberDetached([&] {
        for (; !stop.load(std::memory_order_relaxed); group.Count(1)) weft::FiberYield();
        done.CountDown();
      });
    }
    done.Wait();
  });
}

void BM_Spawn(benchmark::State& state) {
  RunInAllGroups(state, [](Group& group, const std::atomic<bool>& stop) {
    constexpr std::int64_t kBatch = 100;
    for (; !stop.load(std::memory_order_relaxed); group.Count(kBatch)) {
      FiberLatch done(kBatch);
      for (std::int64_t i = 0; i < kBatch; ++i) {
        (void)weft::StartFiberDetached([&done] { done.CountDown(); });
      }
      done.Wait();
    }
  });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"groups", "every_n"})->ArgsProduct({{1, 8, 16, 32, 64}, {0, 16}});
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);
}
BENCHMARK(BM_Yield)->Apply(Sizes);
BENCHMARK(BM_Spawn)->Apply(Sizes);

}  // namespace
