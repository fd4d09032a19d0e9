// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The plans of machines that exist: those of server_shapes.txt.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "weft/numa/machine/cpu_list.h"
#include "weft/scheduling_group/plan/group_plan.h"

#include "scheduling_group/group_plan_rules.h"

namespace weft::scheduling_group {
namespace {

struct KnownMachine {
  std::string name;
  std::string topology;
  std::string options;
  std::string sizes;  // how many groups of how many workers
  // node: CPUs of workers, in order of the first and of the last group
  std::string first;
  std::string last;
};

std::ostream& operator<<(std::ostream& out, const KnownMachine& machine) { return out << machine.name; }

std::string Trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

std::vector<KnownMachine> ReadShapes() {
  std::vector<KnownMachine> machines;
  std::ifstream file(WEFT_SERVER_SHAPES);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream stream(line);
    std::vector<std::string> columns;
    for (std::string column; std::getline(stream, column, '|');) columns.push_back(Trimmed(column));
    columns.resize(6);
    machines.push_back({columns[0], columns[1], columns[2], columns[3], columns[4], columns[5]});
  }
  return machines;
}

class KnownMachines : public ::testing::TestWithParam<KnownMachine> {
 protected:
  void SetUp() override {
    std::string error;
    const auto topology = numa::Topology::FromString(GetParam().topology, &error);
    ASSERT_TRUE(topology.has_value()) << error;
    machine_ = *topology;
    std::istringstream options(GetParam().options);
    for (std::string option; options >> option;) {
      const auto equals = std::min(option.find('='), option.size() - 1);
      Apply(option.substr(0, equals), option.substr(equals + 1));
    }
  }

  void Apply(const std::string& key, const std::string& value) {
    if (key == "workers") wishes_.workers = static_cast<unsigned>(std::stoi(value));
    if (key == "size") wishes_.group_size = static_cast<unsigned>(std::stoi(value));
    if (key == "near") wishes_.near_cpu = std::stoi(value);
    if (key == "quota") machine_.cpu_quota = std::stod(value);
    if (key == "cpus") {
      std::string error;
      const auto restricted = machine_.Restrict(*numa::ParseCpuList(value), &error);
      ASSERT_TRUE(restricted.has_value()) << error;
      machine_ = *restricted;
    }
    if (key == "fast") {
      const std::vector<int> fast = *numa::ParseCpuList(value);
      for (auto& cpu : machine_.cpus) cpu.kind = std::binary_search(fast.begin(), fast.end(), cpu.os_id) ? 1 : 0;
    }
  }

  numa::Topology machine_;
  PlanWishes wishes_;
};

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
  std::string error;
  const auto plan = PlanGroups(machine_, wishes_, &error);
  ASSERT_TRUE(plan.has_value()) << error;
  const auto line = [&](const std::string& sizes, const std::string& first, const std::string& last) {
    return known.name + " | " + known.topology + " | " + known.options + " | " + sizes + " | " + first + " | " + last;
  };
  EXPECT_EQ(line(Sizes(*plan), NodeAndCpus(plan->groups.front()), NodeAndCpus(plan->groups.back())),
            line(known.sizes, known.first, known.last))
      << plan->ToString();
  for (const auto& [name, rule] : plan_rules::kRules) EXPECT_EQ(rule(machine_, wishes_, *plan), "") << name;
}

INSTANTIATE_TEST_SUITE_P(All, KnownMachines, ::testing::ValuesIn(ReadShapes()),
                         [](const auto& machine) { return machine.param.name; });

TEST(KnownMachinesInFull, AreThose68OfTheFile) {
  std::set<std::string> names;
  for (const KnownMachine& machine : ReadShapes()) names.insert(machine.name);
  EXPECT_EQ(names.size(), 68U);
}

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
