// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/group_options.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace weft::fiber::detail {
namespace {

using Cpus = std::vector<int>;

numa::Topology TwoCpus() {
  numa::Topology here;
  for (int cpu : {0, 1}) here.cpus.push_back({.os_id = cpu, .node = 0, .package = 0, .l3 = 0, .core = cpu, .smt = 0});
  here.nodes.push_back({.os_id = 0, .cpus = {0, 1}, .distances = {10}});
  return here;
}

scheduling_group::PlannedGroup Planned(int node, Cpus worker_cpus) {
  return {.node = node,
          .workers = static_cast<unsigned>(worker_cpus.size()),
          .worker_cpus = worker_cpus,
          .cpus = std::move(worker_cpus),
          .neighbours = {}};
}

TEST(GroupOptions, ThePlanAndTheOptionsAreTakenOver) {
  Options options;
  options.scheduling_name = "v2";
  options.run_queue_size = 1024;
  options.stack_size = 65536;
  const auto group = GroupOptions(3, Planned(0, {0, 1}), options, TwoCpus());
  EXPECT_EQ(group.id, 3);
  EXPECT_EQ(group.workers, 2u);
  EXPECT_EQ(group.node, 0);
  EXPECT_EQ(group.cpus, (Cpus{0, 1}));
  EXPECT_EQ(group.policy, "v2");
  EXPECT_EQ(group.run_queue_size, 1024u);
  EXPECT_EQ(group.stack_size, 65536u);
}

TEST(GroupOptions, WorkersAreBoundToTheirCpusOnlyIfAskedFor) {
  Options options;
  EXPECT_EQ(GroupOptions(0, Planned(0, {1, 0}), options, TwoCpus()).worker_cpus, Cpus());
  options.worker_disallow_cpu_migration = true;
  EXPECT_EQ(GroupOptions(0, Planned(0, {1, 0}), options, TwoCpus()).worker_cpus, (Cpus{1, 0}));
}

TEST(GroupOptions, OfAPlanForAnotherMachineOnlyWhatIsHereIsUsed) {
  Options options;
  options.worker_disallow_cpu_migration = true;
  const auto group = GroupOptions(0, Planned(1, {1, 64, 65}), options, TwoCpus());
  EXPECT_EQ(group.workers, 3u);
  EXPECT_EQ(group.node, -1);
  EXPECT_EQ(group.cpus, (Cpus{1}));
  EXPECT_EQ(group.worker_cpus, (Cpus{1, -1, -1}));
}

}  // namespace
}  // namespace weft::fiber::detail
