// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WorkerGroup: a scheduling group with its threads, for tests of the layers that do not know the runtime. No timers. It
// has the policy under test (policy.h), unless the options name another one than the default.
//
// A thread that starts fibers waits a minute for room in the queue, unless the options say otherwise. On a busy
// machine, under a sanitizer, thousands of fibers take longer than the default of two seconds.
#ifndef WEFT_TESTS_TESTING_WORKER_GROUP_H_
#define WEFT_TESTS_TESTING_WORKER_GROUP_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "weft/base/thread/parker.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/worker_team.h"

#include "testing/policy.h"

namespace weft::testing {

inline constexpr std::chrono::seconds kPatientStart{60};

class WorkerGroup {
 public:
  explicit WorkerGroup(const scheduling_group::SchedulingGroup::Options& options,
                       const std::vector<scheduling_group::SchedulingGroup::Neighbour>& neighbours = {})
      : group_(UnderTest(options)), team_(&group_) {
    group_.SetNeighbours(neighbours);
    if (!team_.Start()) ADD_FAILURE() << "no threads for the workers";
  }
  explicit WorkerGroup(unsigned workers, std::size_t run_queue_size = 1024)
      : WorkerGroup({.workers = workers, .run_queue_size = run_queue_size, .start_timeout = kPatientStart}) {}

  // All fibers must end soon.
  ~WorkerGroup() {
    Drain();
    group_.Stop();
    team_.Join();
    EXPECT_FALSE(group_.policy().HasWork()) << "a fiber was left in the queue";
  }

  void Drain() {
    EXPECT_TRUE(scheduling_group::WaitUntilNoFibers(std::chrono::seconds(60)))
        << scheduling_group::EntityPool::LiveFibers() << " fibers are left";
  }

  template <class F>
  bool Start(F&& f, const scheduling_group::StartOptions& options = {}) {
    auto* fiber = scheduling_group::NewFiber(&group_, options, std::forward<F>(f));
    if (group_.Start(fiber)) return true;
    scheduling_group::DiscardFiber(fiber);
    return false;
  }

  scheduling_group::SchedulingGroup& group() { return group_; }

 private:
  static scheduling_group::SchedulingGroup::Options UnderTest(scheduling_group::SchedulingGroup::Options options) {
    if (options.policy == scheduling_group::SchedulingGroup::Options{}.policy) options.policy = PolicyUnderTest();
    return options;
  }

  scheduling_group::SchedulingGroup group_;
  scheduling_group::WorkerTeam team_;
};

// A thread waits until a number of events have happened.
class Countdown {
 public:
  explicit Countdown(std::ptrdiff_t count) : left_(count) {}
  void Done(std::ptrdiff_t n = 1) {
    if (left_.fetch_sub(n, std::memory_order_acq_rel) == n) parker_.Unpark();
  }
  [[nodiscard]] bool Wait(std::chrono::seconds limit = std::chrono::seconds(60)) {
    return parker_.ParkUntil(std::chrono::steady_clock::now() + limit);
  }
  std::ptrdiff_t left() const { return left_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::ptrdiff_t> left_;
  base::Parker parker_;
};

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_WORKER_GROUP_H_
