// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A plan node by node, as its rules look at it, and searches for the groups that the cores of a node could make. They
// share no code with the planner.
#ifndef WEFT_TESTS_SCHEDULING_GROUP_PLAN_POOLS_H_
#define WEFT_TESTS_SCHEDULING_GROUP_PLAN_POOLS_H_

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "weft/scheduling_group/plan/group_plan.h"

namespace weft::scheduling_group::plan_rules {

unsigned Size(const auto& container) { return static_cast<unsigned>(container.size()); }

struct Limits {
  unsigned least;  // for the sake of whole L3 domains
  unsigned min;
  unsigned max;
  Limits Halved() const { return {least, least, max}; }
};
Limits LimitsOf(const PlanWishes& wishes);

unsigned WorkersWished(const numa::Topology& machine, const PlanWishes& wishes);

bool IgnoresNodes(const numa::Topology& machine, const PlanWishes& wishes);

// A node as the plan sees it (all of the machine if NUMA is off).
struct Pool {
  int node = -1;
  std::map<int, std::vector<int>> cpus_of_core{};
  std::map<int, int> kind_of_core{};
  std::map<int, std::set<int>> cores_of_l3{};
  unsigned cpus = 0;
  std::vector<const PlannedGroup*> groups{};
  unsigned workers = 0;
  std::map<int, unsigned> workers_of_core{};
  std::map<int, unsigned> workers_of_l3{};

  std::set<int> KindsInUse() const;
};
std::map<int, Pool> Pools(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);

bool KeepsSiblings(const Pool& pool);

// How many cores have so many workers. `cores`: only these.
std::map<unsigned, unsigned> WeightsOfCores(const Pool& pool, const std::set<int>* cores = nullptr);

// The fewest groups of min to max that whole cores make, whatever their domains. nullopt: there is no way, or cores
// have more than two different numbers of workers.
std::optional<unsigned> FewestOfCores(const Pool& pool, Limits limits);

// The fewest groups of whole domains, or within one, where those that are too large for a group are divided each by
// itself. nullopt: there is no way, or more than 10 domains are not too large, and of more than two sizes.
std::optional<unsigned> FewestOfWholeDomains(const Pool& pool, Limits limits);

// Whether the cores of each kind in each domain make groups by themselves.
bool EachKindMakesGroups(const Pool& pool, Limits limits);

// Groups with a part of a domain and something else.
unsigned StraddlingGroups(const numa::Topology& machine, const Pool& pool);

}  // namespace weft::scheduling_group::plan_rules

#endif  // WEFT_TESTS_SCHEDULING_GROUP_PLAN_POOLS_H_
