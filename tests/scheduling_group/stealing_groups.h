// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Groups that steal from each other, with their workers, for tests.
#ifndef WEFT_TESTS_SCHEDULING_GROUP_STEALING_GROUPS_H_
#define WEFT_TESTS_SCHEDULING_GROUP_STEALING_GROUPS_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/worker_team.h"

#include "testing/policy.h"

namespace weft::scheduling_group {

// How groups steal from each other.
struct Stealing {
  unsigned every_n = 16;
  int distance = SchedulingGroup::kSameNode;
  std::vector<std::string> names = {};  // of the groups; empty: they have none
};
inline constexpr int kOtherNode = 21;

// Groups that all steal from each other.
class Groups {
 public:
  explicit Groups(const std::vector<unsigned>& sizes, const Stealing& stealing = {},
                  const std::string& policy = weft::testing::PolicyUnderTest()) {
    for (unsigned size : sizes) {
      groups_.push_back(std::make_unique<SchedulingGroup>(
          SchedulingGroup::Options{.id = static_cast<int>(groups_.size()),
                                   .name = stealing.names.empty() ? "" : stealing.names[groups_.size()],
                                   .workers = size,
                                   .policy = policy,
                                   .run_queue_size = 1024}));
    }
    for (const auto& group : groups_) {
      std::vector<SchedulingGroup::Neighbour> neighbours;
      for (const auto& other : groups_) {
        if (other != group) neighbours.push_back({other.get(), stealing.every_n, stealing.distance});
      }
      group->SetNeighbours(neighbours);
      teams_.push_back(std::make_unique<WorkerTeam>(group.get()));
    }
    for (const auto& team : teams_) EXPECT_TRUE(team->Start());
  }
  ~Groups() {
    EXPECT_TRUE(Drain());
    for (const auto& group : groups_) group->Stop();
    for (const auto& team : teams_) team->Join();
    for (const auto& group : groups_) {
      EXPECT_EQ(group->stacks().statistics().in_use, 0u) << "a stack went back to another group's pool";
    }
  }

  SchedulingGroup& operator[](std::size_t index) { return *groups_[index]; }

  bool Drain() { return WaitUntilNoFibers(std::chrono::seconds(60)); }

  void WaitUntilSleeps(std::size_t index) {
    const SchedulingGroup& group = *groups_[index];
    while (group.idle_workers().sleepers().Count() != group.size()) std::this_thread::yield();
  }
  void WaitUntilAllSleep() {
    for (std::size_t i = 0; i < groups_.size(); ++i) WaitUntilSleeps(i);
  }

 private:
  std::vector<std::unique_ptr<SchedulingGroup>> groups_;
  std::vector<std::unique_ptr<WorkerTeam>> teams_;
};

template <class F>
void StartIn(SchedulingGroup& group, F f, const StartOptions& options = {}) {
  ASSERT_TRUE(group.Start(NewFiber(&group, options, std::move(f))));
}

// Keeps the thread. False: in vain, and the test has failed.
template <class Condition>
bool SpinUntil(Condition condition) {
  using Clock = std::chrono::steady_clock;
  for (const auto patience = Clock::now() + std::chrono::seconds(60); !condition(); std::this_thread::yield()) {
    if (Clock::now() > patience) {
      ADD_FAILURE() << "a fiber waits though workers are idle";
      return false;
    }
  }
  return true;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_TESTS_SCHEDULING_GROUP_STEALING_GROUPS_H_
