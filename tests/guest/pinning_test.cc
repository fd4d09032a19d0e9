// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Where workers may run, according to the kernel.

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "guest/guest_fixture.h"
#include "guest/kernel_facts.h"

namespace weft::guest {
namespace {

class GuestPinning : public GuestTest {
 protected:
  struct Seen {
    SchedulingGroup* group;
    unsigned worker;
    std::vector<int> may;  // run on, as sched_getaffinity() says
    int runs_on;
  };

  static std::vector<Seen> LookAtWorkers() {
    std::mutex mutex;
    std::vector<Seen> seen;
    OnEachWorker([&] {
      const scheduling_group::WorkerBase* worker = scheduling_group::CurrentWorker();
      const std::scoped_lock lock(mutex);
      seen.push_back({worker->group, worker->index, CpusOfThread(0), ::sched_getcpu()});
    });
    return seen;
  }

  // /proc of all workers; they are bound once they have run a fiber.
  static std::vector<int> MayAsProcSays(const SchedulingGroup& group, unsigned worker) {
    const auto threads = CpusOfThreads();
    const std::string name = "FiberWorker_" + std::to_string(group.id()) + "_" + std::to_string(worker);
    const auto found = threads.find(name.substr(0, 15));
    return found != threads.end() ? found->second : std::vector<int>();
  }

  static bool Contains(const std::vector<int>& cpus, int cpu) {
    return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
  }
};

TEST_F(GuestPinning, EachWorkerIsOnItsPlannedCpuOfItsNode) {
  RuntimeOptions options = OneGroupPerNode();
  if (Planted("unpinned")) options.worker_disallow_cpu_migration = false;
  Start(options);
  const auto nodes = NodesOfKernel();
  ASSERT_EQ(Groups().size(), nodes.size());
  std::set<int> used;
  for (const Seen& seen : LookAtWorkers()) {
    SCOPED_TRACE("group " + std::to_string(seen.group->id()) + ", worker " + std::to_string(seen.worker));
    const std::vector<int> planned{seen.group->options().cpus[seen.worker]};
    EXPECT_EQ(seen.may, planned);
    EXPECT_EQ(MayAsProcSays(*seen.group, seen.worker), planned);
    EXPECT_EQ(seen.runs_on, planned.front());
    const int node = GetSchedulingGroupAssignedNode(static_cast<std::size_t>(seen.group->id()));
    ASSERT_TRUE(nodes.contains(node)) << node;
    EXPECT_TRUE(Contains(nodes.at(node).cpus, planned.front())) << "CPU " << planned.front() << ", node " << node;
    EXPECT_TRUE(used.insert(planned.front()).second) << "CPU " << planned.front() << " has two workers";
  }
  EXPECT_EQ(used.size(), List(ReadFile("/sys/devices/system/cpu/online")).size()) << "CPUs without a worker";
}

TEST_F(GuestPinning, EachWorkerMayUseTheCpusOfItsGroupIfMigrationIsAllowed) {
  RuntimeOptions options = OneGroupPerNode();
  options.worker_disallow_cpu_migration = false;
  Start(options);
  const auto nodes = NodesOfKernel();
  for (const Seen& seen : LookAtWorkers()) {
    SCOPED_TRACE("group " + std::to_string(seen.group->id()) + ", worker " + std::to_string(seen.worker));
    const int node = GetSchedulingGroupAssignedNode(static_cast<std::size_t>(seen.group->id()));
    ASSERT_TRUE(nodes.contains(node)) << node;
    EXPECT_EQ(seen.may, nodes.at(node).cpus);
    EXPECT_EQ(MayAsProcSays(*seen.group, seen.worker), nodes.at(node).cpus);
    EXPECT_TRUE(Contains(nodes.at(node).cpus, seen.runs_on)) << seen.runs_on;
  }
}

TEST_F(GuestPinning, NoWorkerMayUseACpuThatIsNotAccessible) {
  RuntimeOptions options = OneGroupPerNode();
  options.worker_accessible_cpus = "1-2,5-6";
  const std::vector<int> accessible{1, 2, 5, 6};
  Start(options);
  std::set<int> used;
  for (const Seen& seen : LookAtWorkers()) {
    for (int cpu : seen.may) EXPECT_TRUE(Contains(accessible, cpu)) << cpu;
    EXPECT_TRUE(Contains(accessible, seen.runs_on)) << seen.runs_on;
    used.insert(seen.runs_on);
    EXPECT_NE(NodeOf(*seen.group), -1) << "group " << seen.group->id() << " is on two nodes";
  }
  EXPECT_EQ(used, (std::set<int>{1, 2, 5, 6}));
}

}  // namespace
}  // namespace weft::guest
