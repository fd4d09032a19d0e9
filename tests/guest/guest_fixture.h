// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A runtime on the guest, and fibers in chosen places.
#ifndef WEFT_TESTS_GUEST_GUEST_FIXTURE_H_
#define WEFT_TESTS_GUEST_GUEST_FIXTURE_H_

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "weft/fiber/runtime.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_latch.h"

#include "guest/kernel_facts.h"

namespace weft::guest {

using scheduling_group::FiberEntity;
using scheduling_group::SchedulingGroup;

class GuestTest : public ::testing::Test {
 protected:
  // One group for each node, unless options say otherwise. Makes the fixture's planted violations.
  static RuntimeOptions OneGroupPerNode() {
    RuntimeOptions options;
    options.numa_aware = Planted("numa_off") ? NumaAware::kOff : NumaAware::kOn;
    options.worker_disallow_cpu_migration = true;
    options.cross_numa_work_stealing_ratio = 0;  // What is started on a node ends there.
    // On a machine that is not emulated (bench/sockets.sh) a node would have several.
    const std::size_t nodes = NodesOfKernel().size();
    if (List(ReadFile("/sys/devices/system/cpu/online")).size() > 15 * nodes) {
      options.concurrency_hint = static_cast<std::int64_t>(8 * nodes);
    }
    // The same machine, but each CPU claims another node's memory.
    if (Planted("wrong_node")) {
      options.topology =
          NodesOfKernel().size() == 2 ? "numa:2(indexes=1,0) core:4 pu:1" : "numa:4(indexes=1,2,3,0) core:2 pu:1";
    }
    return options;
  }

  void Start(const RuntimeOptions& options) {
    StartRuntime(options);
    running_ = true;
  }
  void Stop() {
    if (!std::exchange(running_, false)) return;
    EXPECT_EQ(TerminateRuntime(), 0U);
  }
  void TearDown() override { Stop(); }

  static std::vector<SchedulingGroup*> Groups() {
    std::vector<SchedulingGroup*> groups;
    for (scheduling_group::SchedulingGroup* group : scheduling_group::AllGroups()) groups.push_back(group);
    return groups;
  }

  // The kernel's node of the group's CPUs; -1: several.
  static int NodeOf(const SchedulingGroup& group) {
    int node = -1;
    for (int cpu : group.options().cpus) {
      const int other = NodeOfCpu(cpu);
      if (node != -1 && other != node) return -1;
      node = other;
    }
    return node;
  }

  // A fiber of this group; it may be stolen if it is not local.
  template <class F>
  static void StartIn(SchedulingGroup* group, bool local, F&& f) {
    const scheduling_group::StartOptions options{.group_local = local};
    FiberEntity* fiber = scheduling_group::NewFiber(group, options, std::forward<F>(f));
    ASSERT_NE(fiber, nullptr);
    ASSERT_TRUE(group->Start(fiber));
  }

  // Calls f() on each worker of each group, in a fiber, while all the others of the group do the same.
  template <class F>
  static void OnEachWorker(F f) {
    const std::vector<SchedulingGroup*> groups = Groups();
    std::ptrdiff_t workers = 0;
    for (SchedulingGroup* group : groups) workers += group->size();
    FiberLatch done(workers);
    std::vector<std::atomic<unsigned>> arrived(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (unsigned w = 0; w < groups[g]->size(); ++w) {
        StartIn(groups[g], true, [&, g, size = groups[g]->size()] {
          arrived[g].fetch_add(1);
          while (arrived[g].load() < size) ::sched_yield();  // Keeps its worker.
          f();
          done.CountDown();
        });
      }
    }
    done.Wait();
  }

 private:
  bool running_ = false;
};

}  // namespace weft::guest

#endif  // WEFT_TESTS_GUEST_GUEST_FIXTURE_H_
