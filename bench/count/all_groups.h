// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Workloads that keep all groups busy all the time. None of them ends by itself: counts are taken for a while in the
// middle.
//
//   spawn_all       in each group as many fibers as it has workers start 1,000 fibers that do nothing, wait for them,
//                   and so on
//   spawn_across_all  the same, but each group's fibers start theirs in the next group, where they stay and end
//   spawn_ext_all   two plain threads for each group do the same; what they start goes round the groups, as by default
//   yield_all       16 fibers for each worker yield
//   pingpong_all    a pair of fibers for each worker hands off, by events
//
// Fibers are started in their group and may be stolen; those that start others stay.
#ifndef WEFT_BENCH_COUNT_ALL_GROUPS_H_
#define WEFT_BENCH_COUNT_ALL_GROUPS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "weft/bench/workload/harness.h"
#include "weft/weft.h"

namespace weft::bench {

// Name and count.
using Counts = std::vector<std::pair<const char*, std::uint64_t>>;

Counts ReadCounts();
void PrintCounts(const Counts& now, const Counts& before);

class AllGroups {
 public:
  explicit AllGroups(int workers) : workers_(workers), groups_(GetSchedulingGroupCount()) {}

  // Fewer in the last group.
  std::size_t WorkersIn(std::size_t group) const {
    const std::size_t each = (static_cast<std::size_t>(workers_) + groups_ - 1) / groups_;
    return std::min(each, static_cast<std::size_t>(workers_) - each * group);
  }
  std::size_t groups() const { return groups_; }
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  // A fiber that stays in its group.
  template <class F>
  static void StartIn(std::size_t group, F&& f) {
    FiberAttributes attributes;
    attributes.scheduling_group = group;
    attributes.scheduling_group_local = true;
    Require(StartFiberDetached(attributes, std::forward<F>(f)), "a fiber can be started in each group");
  }

  // All have been started: counts, then ends them. More workers take longer: with more than processors each needs its
  // turn.
  void CountForAWhile() {
    const auto while_all_run = std::chrono::milliseconds(100 + 2 * workers_);
    std::this_thread::sleep_for(while_all_run);
    const Counts before = ReadAtOnce();
    std::this_thread::sleep_for(while_all_run);
    const Counts now = ReadAtOnce();
    PrintCounts(now, before);
    stop_.store(true, std::memory_order_relaxed);
  }

 private:
  // If the kernel stops us in between (a tenth of a second where hundreds of threads are busy), counts of different
  // groups belong to different times.
  static Counts ReadAtOnce() {
    constexpr std::chrono::milliseconds kAtOnce{2};
    for (int tries = 1;; ++tries) {
      const auto begin = std::chrono::steady_clock::now();
      Counts counts = ReadCounts();
      if (std::chrono::steady_clock::now() - begin < kAtOnce || tries == 20) return counts;
    }
  }

  const int workers_;
  const std::size_t groups_;
  std::atomic<bool> stop_ = false;
};

inline constexpr std::int64_t kBatchInAllGroups = 1'000;

// start(group): a fiber that counts down `batch`, by a fiber of this group.
template <class Start>
void RunSpawners(Round& round, const Start& start) {
  AllGroups all(round.workers());
  FiberLatch done(round.workers());
  for (std::size_t group = 0; group < all.groups(); ++group) {
    for (std::size_t worker = 0; worker < all.WorkersIn(group); ++worker) {
      AllGroups::StartIn(group, [&all, &done, &start, group] {
        while (!all.stopped()) {
          FiberLatch batch(kBatchInAllGroups);
          for (std::int64_t i = 0; i < kBatchInAllGroups; ++i) start(all, group, batch);
          batch.Wait();
        }
        done.CountDown();
      });
    }
  }
  all.CountForAWhile();
  done.Wait();
}

inline void RunSpawnAll(Round& round) {
  RunSpawners(round, [](const AllGroups&, std::size_t, FiberLatch& batch) {
    Require(StartFiberDetached([&batch] { batch.CountDown(); }), "a fiber can be started from a fiber");
  });
}

inline void RunSpawnAcrossAll(Round& round) {
  RunSpawners(round, [](const AllGroups& all, std::size_t group, FiberLatch& batch) {
    AllGroups::StartIn((group + 1) % all.groups(), [&batch] { batch.CountDown(); });
  });
}

inline void RunSpawnExternalAll(Round& round) {
  AllGroups all(round.workers());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2 * all.groups(); ++i) {
    threads.emplace_back([&all] {
      while (!all.stopped()) {
        FiberLatch batch(kBatchInAllGroups);
        for (std::int64_t started = 0; started < kBatchInAllGroups; ++started) {
          Require(StartFiberDetached([&batch] { batch.CountDown(); }), "a fiber can be started from a plain thread");
        }
        batch.Wait();
      }
    });
  }
  all.CountForAWhile();
  for (std::thread& thread : threads) thread.join();
}

inline void RunYieldAll(Round& round) {
  constexpr std::size_t kFibersPerWorker = 16;
  AllGroups all(round.workers());
  FiberLatch done(static_cast<std::int64_t>(kFibersPerWorker) * round.workers());
  for (std::size_t group = 0; group < all.groups(); ++group) {
    AllGroups::StartIn(group, [&all, &done, fibers = kFibersPerWorker * all.WorkersIn(group)] {
      for (std::size_t i = 0; i < fibers; ++i) {
        const bool started = StartFiberDetached([&all, &done] {
          while (!all.stopped()) FiberYield();
          done.CountDown();
        });
        Require(started, "a yielding fiber can be started");
      }
    });
  }
  all.CountForAWhile();
  done.Wait();
}

struct HandOffPair {
  FiberEvent one_may, two_may;
  bool last = false;  // handed off with the events
};

inline void RunPingPongAll(Round& round) {
  AllGroups all(round.workers());
  std::deque<HandOffPair> pairs;
  FiberLatch done(2 * round.workers());
  for (std::size_t group = 0; group < all.groups(); ++group) {
    for (std::size_t worker = 0; worker < all.WorkersIn(group); ++worker) {
      AllGroups::StartIn(group, [&all, &done, &pair = pairs.emplace_back()] {
        const auto one = [&all, &done, &pair] {
          do {
            pair.last = all.stopped();
            pair.two_may.Set();
            pair.one_may.Wait();
            pair.one_may.Reset();
          } while (!pair.last);
          done.CountDown();
        };
        const auto two = [&done, &pair] {
          for (bool last = false; !last;) {
            pair.two_may.Wait();
            pair.two_may.Reset();
            last = pair.last;
            pair.one_may.Set();
          }
          done.CountDown();
        };
        Require(StartFiberDetached(one) && StartFiberDetached(two), "a pair of fibers can be started");
      });
    }
  }
  all.CountForAWhile();
  done.Wait();
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_COUNT_ALL_GROUPS_H_
