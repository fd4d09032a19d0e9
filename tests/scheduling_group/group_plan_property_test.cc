// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The rules of group_plan.h over 2,000 machines, made up by a generator with a fixed seed, and over machines that hwloc
// makes up.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/scheduling_group/plan/group_plan.h"

#include "scheduling_group/group_plan_rules.h"
#include "scheduling_group/plan_machines.h"

namespace weft::scheduling_group {
namespace {

using Numa = PlanWishes::Numa;
using numa::Topology;
using plan_machines::Dice;
using plan_machines::MachineKind;

std::vector<PlanWishes> WishesFor(const Topology& machine, Dice* dice) {
  const auto cpus = static_cast<unsigned>(machine.cpus.size());
  const auto any_cpu = [&] { return machine.cpus[dice->Below(cpus)].os_id; };
  std::vector<PlanWishes> wishes = {{}, {.numa = Numa::kOn}, {.numa = Numa::kOff}};
  for (Numa numa : {Numa::kAuto, Numa::kOn, Numa::kOff}) {
    wishes.push_back({.workers = 1 + dice->Below(cpus), .numa = numa, .near_cpu = any_cpu()});
  }
  wishes.push_back({.workers = 1 + dice->Below(16), .near_cpu = any_cpu()});
  wishes.push_back({.group_size = 4 + dice->Below(61)});
  wishes.push_back({.workers = 1 + dice->Below(std::min(cpus, 256U)), .group_size = 1 + dice->Below(20)});
  if (cpus <= 128) wishes.push_back({.group_size = 1 + dice->Below(3)});  // Below the threads of a core.
  wishes.push_back({.workers = std::min(4096U, cpus + dice->Below(3 * cpus))});
  return wishes;
}

std::string Describe(const PlanWishes& wishes) {
  std::ostringstream out;
  out << "wishes: workers " << wishes.workers << ", group size " << wishes.group_size << ", numa "
      << static_cast<int>(wishes.numa) << ", near " << wishes.near_cpu;
  return out.str();
}

void ExpectAllRules(const std::string& name, const Topology& machine, const PlanWishes& wishes) {
  std::string error;
  const auto plan = PlanGroups(machine, wishes, &error);
  ASSERT_TRUE(plan.has_value()) << error;
  for (const auto& [rule_name, rule] : plan_rules::kRules) {
    const std::string message = rule(machine, wishes, *plan);
    ASSERT_EQ(message, "") << rule_name << "\n"
                           << name << "\n"
                           << Describe(wishes) << "\n"
                           << (machine.ToString() + plan->ToString()).substr(0, 4000);
  }
}

// A sanitizer sees no more in the hundredth machine than in the tenth.
constexpr int kFewer = WEFT_ASAN || WEFT_TSAN ? 20 : 1;

// A random machine, and what befell it: a mask with holes (CPUs that are kept for something else, cores with one thread
// switched off), a quota, cores of two kinds.
TEST(GroupPlanProperties, HoldOn2000RandomMachines) {
  Dice dice(1);
  std::set<std::string> kinds;
  for (int i = 0; i < 2000 / kFewer; ++i) {
    MachineKind kind = RandomKind(&dice);
    kinds.insert(kind.ToString());
    if (dice.OneIn(3)) kind.threads = std::min(kind.threads, 2);
    if (!dice.OneIn(16)) kind.packages = std::min(kind.packages, 2);  // Else most of the time goes to a few giants.
    std::string name = kind.ToString();
    Topology machine = Make(kind);
    if (dice.OneIn(4)) {
      machine = WithSlowCores(machine, &dice);
      name += ", slow cores";
    }
    if (kind.threads <= 2 && dice.OneIn(2)) {
      machine = WithHoles(machine, &dice, dice.Of({2U, 3U, 8U, 30U}));
      name += ", holes";
    }
    if (dice.OneIn(6)) machine.cpu_quota = dice.Of({0.1, 1.0, 1.5, 2.5, 4.0, 7.5, 8.0, 16.0, 33.3, 100.0});
    ASSERT_NO_FATAL_FAILURE(ExpectAllRules(name, machine, {}));
    const std::vector<PlanWishes> wishes = WishesFor(machine, &dice);
    ASSERT_NO_FATAL_FAILURE(ExpectAllRules(name, machine, wishes[1 + static_cast<unsigned>(i) % (wishes.size() - 1)]));
  }
  EXPECT_GE(kinds.size(), 1000U / kFewer);
}

// The domains of one package after all that could befall them: here the rules' searches are exact.
TEST(GroupPlanProperties, HoldOnUnequalL3Domains) {
  Dice dice(5);
  for (int i = 0; i < 2000 / kFewer; ++i) {
    MachineKind kind = RandomKind(&dice);
    kind.packages = kind.nodes_per_package = 1;
    kind.threads = std::min(kind.threads, 2);
    kind.l3s_per_node = std::min(kind.l3s_per_node, 10);
    const Topology machine = WithHoles(Make(kind), &dice, dice.Of({2U, 3U, 8U, 30U}));
    ASSERT_NO_FATAL_FAILURE(ExpectAllRules(kind.ToString() + ", holes", machine, {}));
  }
}

constexpr int kFewOfHwloc = kFewer > 1 ? 5 : 1;

TEST(GroupPlanProperties, HoldOnMachinesMadeByHwloc) {
  Dice dice(4);
  int machines = 0;
  for (const char* outer : {"pack:1 numa:1", "pack:2 numa:1", "pack:4 numa:1", "pack:1 numa:2", "pack:2 numa:4",
                            "numa:3(indexes=8,0,4)", "numa:1 pack:2"}) {
    for (const char* inner : {"core:1 pu:1", "core:2 pu:2", "core:12 pu:1", "core:20 pu:2", "l3:2 core:4 pu:2",
                              "l3:3 core:8 pu:2", "l3:4 core:3 pu:2", "l3:2 core:8 pu:1", "l3:2 core:6 pu:4"}) {
      // A prime number: each of `inner` and of `outer` has its turn.
      if (machines++ % kFewOfHwloc != 0) continue;
      const std::string description = std::string(outer) + " " + inner;
      std::string error;
      const auto machine = Topology::FromString(description, &error);
      ASSERT_TRUE(machine.has_value()) << error;
      for (const PlanWishes& wishes : WishesFor(*machine, &dice)) {
        ASSERT_NO_FATAL_FAILURE(ExpectAllRules(description, *machine, wishes));
      }
    }
  }
  EXPECT_EQ(machines, 63);
}

}  // namespace
}  // namespace weft::scheduling_group
