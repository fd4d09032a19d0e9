// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/worker_team.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/scheduling_group/worker/current_worker.h"

#include "testing/worker_group.h"

#if !WEFT_ASAN && !WEFT_TSAN  // They replace it themselves.
namespace {

std::atomic<int> threads_left{0};  // until the last of them is refused; 0: none is

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.load() != 0 && threads_left.fetch_sub(1) == 1) return EAGAIN;
  return create(thread, attributes, body, argument);
}
#endif

namespace weft::scheduling_group {
namespace {

using weft::testing::WorkerGroup;

TEST(WorkerTeam, EachWorkerHasAThreadOfItsName) {
  constexpr unsigned kWorkers = 3;
  WorkerGroup group({.id = 5, .workers = kWorkers});
  std::vector<std::string> names(kWorkers);
  std::latch all_run(kWorkers);
  for (unsigned w = 0; w < kWorkers; ++w) {
    ASSERT_TRUE(group.Start([&] {
      char name[16] = "";
      ::pthread_getname_np(::pthread_self(), name, sizeof(name));
      names[CurrentWorker()->index] = name;
      all_run.arrive_and_wait();  // Holds its worker.
    }));
  }
  group.Drain();
  EXPECT_EQ(names, (std::vector<std::string>{"FiberWorker_5_0", "FiberWorker_5_1", "FiberWorker_5_2"}));
}

TEST(WorkerTeam, TheNameOfAGroupIsInThoseOfItsThreads) {
  const SchedulingGroup named({.id = 5, .name = "batch"});
  EXPECT_EQ(named.ThreadName("FiberWorker_5_0", "_0"), "batch_5_0");
  EXPECT_EQ(named.Label(), "5 (batch)");
  const SchedulingGroup verbose({.id = 12, .name = "background_indexing"});
  EXPECT_EQ(verbose.ThreadName("FiberWorker_12_34", "_34"), "backgroun_12_34");  // 15 bytes
  const SchedulingGroup unnamed({.id = 12});
  EXPECT_EQ(unnamed.ThreadName("FiberWorker_12_34", "_34"), "FiberWorker_12_");
  EXPECT_EQ(unnamed.Label(), "12");
}

#if !WEFT_ASAN && !WEFT_TSAN
int Threads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int count = 0;
    if (word == "Threads:" && status >> count) return count;
  }
  return -1;
}

TEST(WorkerTeam, WhereTheSystemRefusesAThreadNoneIsLeft) {
  constexpr unsigned kWorkers = 4;
  const int before = Threads();
  for (int refused = 1; refused <= 1 + static_cast<int>(kWorkers); ++refused) {  // The Watchdog's is the first.
    SchedulingGroup group({.workers = kWorkers});
    WorkerTeam team(&group);
    threads_left = refused;
    EXPECT_FALSE(team.Start()) << refused;
    EXPECT_EQ(threads_left, 0);
    EXPECT_TRUE(group.stopping());
    // The kernel counts a thread for a moment after it was joined.
    const Deadline limit = std::chrono::seconds(30);
    while (Threads() != before && !limit.expired()) std::this_thread::yield();
    EXPECT_EQ(Threads(), before) << refused;
  }
  WorkerGroup group(kWorkers);  // What has failed is forgotten.
  EXPECT_EQ(Threads(), before + 1 + static_cast<int>(kWorkers));
}
#endif

TEST(WorkerTeamDeathTest, ATeamMustBeJoinedBeforeItIsDestroyed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        SchedulingGroup group({.workers = 1});
        WorkerTeam team(&group);
        if (!team.Start()) std::abort();
      },
      "WorkerTeam: destroyed without Join");
}

}  // namespace
}  // namespace weft::scheduling_group
