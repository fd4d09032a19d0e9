// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// workload_one_tbb: the fork-join workloads of bench/workload on oneTBB's tasks, as one would write them for oneTBB.
// Its tasks have no stack of their own: a task that waits runs others on top of itself, so none can yield or block, and
// no other workload makes sense.

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/skynet.h"
#include "weft/bench/workload/spawn.h"

namespace weft::bench {
namespace {

namespace tbb = oneapi::tbb;

// In each workload's process. The arena has a slot for each worker, one of them for the thread that calls execute().
std::optional<tbb::global_control> parallelism;
std::optional<tbb::task_arena> arena;

void Start(int workers, int) {
  // One more than workers: RunTbbSpawnExternal() wants so many threads of oneTBB's own beside those that start.
  parallelism.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(workers) + 1);
  arena.emplace(workers);
}

void Stop() {
  arena.reset();
  parallelism.reset();
}

void RunTbbSpawn(Round& round) {
  const std::int64_t tasks = round.Scaled(1'000'000, kSpawnBatch);
  arena->execute([&] {
    std::atomic<std::int64_t> ran = 0;
    Stopwatch watch;
    for (std::int64_t started = 0; started < tasks; started += kSpawnBatch) {
      tbb::task_group batch;
      for (std::int64_t i = 0; i < kSpawnBatch; ++i) {
        batch.run([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
      }
      batch.wait();
    }
    round.Report("ns_per_fiber", watch.NanosecondsPer(tasks), "ns");
    Require(ran.load() == tasks, "every task ran once");
  });
}

// The starting threads do not work here: all the workers are oneTBB's own.
void RunTbbSpawnExternal(Round& round) {
  const std::int64_t tasks = round.Scaled(250'000, kSpawnBatch);
  tbb::task_arena workers_only(round.workers(), /*reserved_for_masters=*/0);
  static PaddedCounter done[2];  // Static: as in RunSpawnExternal().
  auto start_all = [&](std::atomic<std::int64_t>& count) {
    count.store(0, std::memory_order_relaxed);
    for (std::int64_t started = 0; started < tasks; started += kSpawnBatch) {
      const std::int64_t target = started + kSpawnBatch;
      for (std::int64_t i = 0; i < kSpawnBatch; ++i) {
        workers_only.enqueue([&count, target] {
          if (count.fetch_add(1, std::memory_order_acq_rel) + 1 == target) count.notify_one();
        });
      }
      for (std::int64_t now; (now = count.load(std::memory_order_acquire)) != target;) count.wait(now);
    }
  };
  Stopwatch watch;
  std::thread one(start_all, std::ref(done[0].value));
  std::thread two(start_all, std::ref(done[1].value));
  one.join();
  two.join();
  round.Report("ns_per_fiber", watch.NanosecondsPer(2 * tasks), "ns");
}

std::int64_t TbbSkynetNode(std::int64_t first, std::int64_t leaves) {
  if (leaves == 1) return first;
  const std::int64_t leaves_of_child = leaves / kSkynetChildren;
  std::int64_t sums[kSkynetChildren];
  tbb::task_group children;
  for (std::int64_t i = 0; i < kSkynetChildren; ++i) {
    children.run([first_of_child = first + i * leaves_of_child, leaves_of_child, out = &sums[i]] {
      *out = TbbSkynetNode(first_of_child, leaves_of_child);
    });
  }
  children.wait();
  return std::accumulate(sums, sums + kSkynetChildren, std::int64_t{0});
}

void RunTbbSkynetOf(Round& round, std::int64_t full_leaves, const char* figure) {
  std::int64_t leaves = full_leaves;
  while (leaves > round.Scaled(full_leaves) && leaves > 100) leaves /= kSkynetChildren;
  arena->execute([&] {
    Stopwatch watch;
    const std::int64_t sum = TbbSkynetNode(0, leaves);
    round.Report(figure, watch.Milliseconds(), "ms");
    Require(sum == leaves * (leaves - 1) / 2, "skynet's sum is right");
  });
}

void RunTbbSkynet(Round& round) { RunTbbSkynetOf(round, 100'000, "ms"); }

void RunTbbSkynetMillion(Round& round) { RunTbbSkynetOf(round, 1'000'000, "ms_1m"); }

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  using namespace weft::bench;
  return RunWorkloads(argc, argv,
                      {{"one_tbb",
                        Start,
                        Stop,
                        {{"spawn", "spawn", RunTbbSpawn, 5, 60},
                         {"spawn_ext", "spawn_ext", RunTbbSpawnExternal, 5, 60},
                         {"skynet", "skynet", RunTbbSkynet, 5, 60},
                         {"skynet_1m", "skynet", RunTbbSkynetMillion, 3, 120}}}});
}
