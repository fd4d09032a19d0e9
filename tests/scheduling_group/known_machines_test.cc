// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The plans of machines that exist.  A machine is described as hwloc shows it there, CPU numbers as Linux gives them
// (with two threads in each core: first threads of all cores, then the second ones).

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "weft/numa/machine/cpu_list.h"
#include "weft/scheduling_group/plan/group_plan.h"

#include "scheduling_group/group_plan_rules.h"

namespace weft::scheduling_group {
namespace {

struct KnownMachine {
  const char* name;
  const char* topology;
  const char* cpus;  // that may be used; empty: all
  double quota;      // 0: none
  PlanWishes wishes;
  const char* sizes;  // how many groups of how many workers
  // node: CPUs of workers, in order of the first and of the last group
  const char* first;
  const char* last;
};

std::ostream& operator<<(std::ostream& out, const KnownMachine& machine) { return out << machine.name; }

const KnownMachine kMachines[] = {
    // 12 CCDs per socket, each an L3 domain of 8 cores with 16 threads: two groups in each.
    {"DualEpyc9654Nps1",
     "pack:2 numa:1 l3:12 core:8 pu:2(indexes=2*192:1*2)",
     "",
     0,
     {},
     "48x8",
     "0: 0-3,192-195",
     "1: 188-191,380-383"},
    // A quarter of a socket is a node: three CCDs.
    {"DualEpyc9654Nps4",
     "pack:2 numa:4 l3:3 core:8 pu:2(indexes=2*192:1*2)",
     "",
     0,
     {},
     "48x8",
     "0: 0-3,192-195",
     "7: 188-191,380-383"},
    // 56 cores share an L3: whole cores, hence 14 and not 15.
    {"DualXeon8480",
     "pack:2 numa:1 l3:1 core:56 pu:2(indexes=2*112:1*2)",
     "",
     0,
     {},
     "16x14",
     "0: 0-6,112-118",
     "1: 105-111,217-223"},
    // With sub-NUMA clustering 4 the 56 cores are four nodes of 14.
    {"DualXeon8480Snc4",
     "pack:2 l3:1 numa:4 core:14 pu:2(indexes=2*112:1*2)",
     "",
     0,
     {},
     "16x14",
     "0: 0-6,112-118",
     "7: 105-111,217-223"},
    {"Ryzen9950X",
     "pack:1 numa:1 l3:2 core:8 pu:2(indexes=2*16:1*2)",
     "",
     0,
     {},
     "4x8",
     "0: 0-3,16-19",
     "0: 12-15,28-31"},
    // The system level cache of Altra is not a CPU cache to Linux: the package is the domain.
    {"AmpereAltra2P", "pack:2 numa:1 core:80 pu:1", "", 0, {}, "4x14 8x13", "0: 0-13", "1: 147-159"},
    // The same CPUs of a host with 256, given by a cpuset (docker --cpuset-cpus) ...
    {"ContainerWithFourCpusOf256",
     "pack:2 numa:1 l3:8 core:8 pu:2(indexes=2*128:1*2)",
     "68-71",
     0,
     {},
     "1x4",
     "1: 68-71",
     "1: 68-71"},
    // ... or as a quota (docker --cpus=4): one group, four cores, one L3 domain; there it may move.
    {"ContainerWithAQuotaOfFourOf256",
     "pack:2 numa:1 l3:8 core:8 pu:2(indexes=2*128:1*2)",
     "",
     4,
     {},
     "1x4",
     "0: 0-3",
     "0: 0-3"},
    {"ContainerWithAQuotaNearCpu200",
     "pack:2 numa:1 l3:8 core:8 pu:2(indexes=2*128:1*2)",
     "",
     2.5,
     {.near_cpu = 200},
     "1x3",
     "1: 72-74",
     "1: 72-74"},
    // Two CPUs of each node: a group never spans nodes, so there are two.
    {"ContainerWithACpusetAcrossNodes",
     "pack:2 numa:1 l3:8 core:8 pu:2(indexes=2*128:1*2)",
     "62-65",
     0,
     {},
     "2x2",
     "0: 62,63",
     "1: 64,65"},
    {"VmWithTwoCores", "pack:1 numa:1 l3:1 core:2 pu:1", "", 0, {}, "1x2", "0: 0,1", "0: 0,1"},
    {"VmWithOneCpu", "pack:1 numa:1 core:1 pu:1", "", 0, {}, "1x1", "0: 0", "0: 0"},
    // QEMU's default: each CPU is a socket of its own.
    {"VmWithEightSockets", "numa:1 pack:8 core:1 pu:1", "", 0, {}, "1x8", "0: 0-7", "0: 0-7"},
    // Zen 2: L3 domains of 4 cores with 8 threads.
    {"Epyc7742",
     "pack:1 numa:1 l3:16 core:4 pu:2(indexes=2*64:1*2)",
     "",
     0,
     {},
     "16x8",
     "0: 0-3,64-67",
     "0: 60-63,124-127"},
    // Zen 2 with SMT off: three domains of 4 make 12.
    {"Epyc7742WithoutSmt", "pack:1 numa:1 l3:16 core:4 pu:1", "", 0, {}, "4x12 2x8", "0: 0-11", "0: 56-63"},
    // Half as many workers as CPUs: each has its core.
    {"DualEpyc9654WithAWorkerForEachCore",
     "pack:2 numa:1 l3:12 core:8 pu:2(indexes=2*192:1*2)",
     "",
     0,
     {.workers = 192},
     "24x8",
     "0: 0-7",
     "1: 184-191"},
    {"DualXeon8480WithGroupsOf28",
     "pack:2 numa:1 l3:1 core:56 pu:2(indexes=2*112:1*2)",
     "",
     0,
     {.group_size = 28},
     "8x28",
     "0: 0-13,112-125",
     "1: 98-111,210-223"},
};

class KnownMachines : public ::testing::TestWithParam<KnownMachine> {};

numa::Topology Read(const KnownMachine& known) {
  std::string error;
  auto topology = numa::Topology::FromString(known.topology, &error);
  EXPECT_TRUE(topology.has_value()) << error;
  if (*known.cpus != '\0') topology = topology->Restrict(*numa::ParseCpuList(known.cpus), &error);
  EXPECT_TRUE(topology.has_value()) << error;
  if (known.quota > 0) topology->cpu_quota = known.quota;
  return *topology;
}

std::string Sizes(const GroupPlan& plan) {
  std::map<unsigned, int, std::greater<>> sizes;
  for (const PlannedGroup& group : plan.groups) ++sizes[group.workers];
  std::ostringstream out;
  for (const auto& [size, count] : sizes) out << (out.tellp() > 0 ? " " : "") << count << 'x' << size;
  return out.str();
}

std::string NodeAndCpus(const PlannedGroup& group) {
  std::vector<int> cpus = group.worker_cpus;
  std::sort(cpus.begin(), cpus.end());
  return std::to_string(group.node) + ": " + numa::FormatCpuList(cpus);
}

TEST_P(KnownMachines, HaveTheExpectedPlan) {
  const KnownMachine& known = GetParam();
  const numa::Topology machine = Read(known);
  std::string error;
  const auto plan = PlanGroups(machine, known.wishes, &error);
  ASSERT_TRUE(plan.has_value()) << error;
  EXPECT_EQ(Sizes(*plan), known.sizes) << plan->ToString();
  EXPECT_EQ(NodeAndCpus(plan->groups.front()), known.first) << plan->ToString();
  EXPECT_EQ(NodeAndCpus(plan->groups.back()), known.last) << plan->ToString();
  for (const auto& [name, rule] : plan_rules::kRules) EXPECT_EQ(rule(machine, known.wishes, *plan), "") << name;
}

INSTANTIATE_TEST_SUITE_P(All, KnownMachines, ::testing::ValuesIn(kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

TEST(KnownMachinesInFull, ARyzen9950X) {
  std::string error;
  const auto machine = numa::Topology::FromString("pack:1 numa:1 l3:2 core:8 pu:2(indexes=2*16:1*2)", &error);
  ASSERT_TRUE(machine.has_value()) << error;
  EXPECT_EQ(PlanGroups(*machine, {}, &error)->ToString(),
            "group 0: 8 workers, node 0, CPUs 0-3,16-19; steals from 1-3\n"
            "group 1: 8 workers, node 0, CPUs 4-7,20-23; steals from 0 3 2\n"
            "group 2: 8 workers, node 0, CPUs 8-11,24-27; steals from 3 0 1\n"
            "group 3: 8 workers, node 0, CPUs 12-15,28-31; steals from 2 1 0\n");
  const PlannedGroup first = PlanGroups(*machine, {}, &error)->groups.front();
  EXPECT_EQ(first.worker_cpus, (std::vector<int>{0, 1, 2, 3, 16, 17, 18, 19}));
}

TEST(KnownMachinesInFull, AQuotaLeavesTheRestOfItsL3DomainToMoveIn) {
  std::string error;
  auto machine = numa::Topology::FromString("pack:2 numa:1 l3:8 core:8 pu:2(indexes=2*128:1*2)", &error);
  ASSERT_TRUE(machine.has_value()) << error;
  machine->cpu_quota = 4;
  EXPECT_EQ(PlanGroups(*machine, {}, &error)->ToString(),
            "group 0: 4 workers, node 0, CPUs 0-3 (may use 0-7,128-135)\n");
}

}  // namespace
}  // namespace weft::scheduling_group
