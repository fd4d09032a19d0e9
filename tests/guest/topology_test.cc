// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The library's view of the machine, compared with the kernel's.

#include "weft/numa/machine/topology.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "guest/guest_fixture.h"
#include "guest/kernel_facts.h"

namespace weft::guest {
namespace {

using numa::Topology;

// As the kernel numbers it.
int PackageOfCpu(int cpu) {
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
  return std::atoi(ReadFile(folder + "/topology/physical_package_id").c_str());
}

// Otherwise the tests would pass on any machine.
TEST(GuestMachine, IsTheOneThatWasAskedFor) {
  EXPECT_GE(NodesAskedFor().size(), 2U);
  EXPECT_TRUE(NodesOfKernel() == NodesAskedFor());
}

TEST(GuestTopology, HasTheNodesCpusAndDistancesThatTheKernelSays) {
  const Topology topology = Topology::Detect();
  const std::map<int, NodeFacts> kernel = NodesOfKernel();
  ASSERT_EQ(topology.nodes.size(), kernel.size());
  for (const Topology::Node& node : topology.nodes) {
    SCOPED_TRACE(node.os_id);
    ASSERT_TRUE(kernel.contains(node.os_id));
    EXPECT_EQ(node.cpus, kernel.at(node.os_id).cpus);
    EXPECT_EQ(node.distances, kernel.at(node.os_id).distances);
  }
}

TEST(GuestTopology, HasEachCpuOnItsNodeAndPackage) {
  const Topology topology = Topology::Detect();
  std::map<int, int> package_of_kernels;
  for (const Topology::Cpu& cpu : topology.cpus) {
    SCOPED_TRACE(cpu.os_id);
    EXPECT_EQ(cpu.node, NodeOfCpu(cpu.os_id));
    EXPECT_EQ(package_of_kernels.emplace(PackageOfCpu(cpu.os_id), cpu.package).first->second, cpu.package);
  }
  EXPECT_EQ(package_of_kernels.size(), 2U) << "both machines have two sockets";
  EXPECT_EQ(topology.cpus.size(), List(ReadFile("/sys/devices/system/cpu/online")).size());
}

TEST(GuestTopology, HasOnlyTheCpusOfTheAffinityMask) {
  const std::vector<int> all = CpusOfThread(0);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : {1, 2, 6}) CPU_SET(static_cast<std::size_t>(cpu), &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
  const Topology topology = Topology::Detect();
  CPU_ZERO(&set);
  for (int cpu : all) CPU_SET(static_cast<std::size_t>(cpu), &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (const Topology::Cpu& cpu : topology.cpus) cpus.push_back(cpu.os_id);
  EXPECT_EQ(cpus, (std::vector<int>{1, 2, 6}));
}

// Nearest first; the plan decides between two groups at the same distance.
class GuestStealOrder : public GuestTest {};

TEST_F(GuestStealOrder, IsByTheDistanceThatTheKernelSays) {
  RuntimeOptions options = OneGroupPerNode();
  options.scheduling_group_size = NodesOfKernel().size() == 2 ? 2 : 1;  // Two groups on each node.
  options.work_stealing_ratio = 3;
  options.cross_numa_work_stealing_ratio = 5;
  Start(options);
  const std::map<int, NodeFacts> kernel = NodesOfKernel();
  ASSERT_EQ(Groups().size(), 2 * kernel.size());
  for (SchedulingGroup* group : Groups()) {
    SCOPED_TRACE(group->id());
    ASSERT_NE(NodeOf(*group), -1);
    EXPECT_EQ(group->neighbours().all.size(), Groups().size() - 1);
    int last = 0;
    for (const SchedulingGroup::Neighbour& neighbour : group->neighbours().all) {
      const int node = NodeOf(*neighbour.group);
      const int distance = kernel.at(NodeOf(*group)).distances[static_cast<std::size_t>(node)];
      EXPECT_GE(distance, last) << "group " << neighbour.group->id();
      EXPECT_EQ(neighbour.steal_every_n, distance == 10 ? 3U : 5U);
      last = distance;
    }
  }
}

TEST_F(GuestStealOrder, ReachesOnlyNodesOfTheSocketByDefaultByTheDistanceThatTheKernelSays) {
  RuntimeOptions options = OneGroupPerNode();
  options.cross_numa_work_stealing_ratio = RuntimeOptions().cross_numa_work_stealing_ratio;
  Start(options);
  const std::map<int, NodeFacts> kernel = NodesOfKernel();
  const auto package_of = [&](int node) { return PackageOfCpu(kernel.at(node).cpus.front()); };
  for (SchedulingGroup* group : Groups()) {
    SCOPED_TRACE(group->id());
    const int here = NodeOf(*group);
    std::map<int, unsigned> expected;  // by node
    for (const auto& [node, facts] : kernel) {
      if (node == here || package_of(node) != package_of(here)) continue;
      const int distance = kernel.at(here).distances[static_cast<std::size_t>(node)];
      expected[node] = static_cast<unsigned>(16 * distance / 10);
    }
    std::map<int, unsigned> found;
    for (const SchedulingGroup::Neighbour& neighbour : group->neighbours().all) {
      found[NodeOf(*neighbour.group)] = neighbour.steal_every_n;
    }
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace weft::guest
