// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Named groups: reads the text of --fiber_groups, and plans scheduling groups that have names.
//
//   latency:6,batch:2                 workers of each name; the plan chooses their CPUs
//   latency:6@0-5,batch:2@6,7         the same on these CPUs
//   web:8,render:8:shares=web         web and render steal from each other
//
// A name begins with a letter, so a number after a comma goes on with the list of CPUs.
//
// Names with CPUs given are planned on these. The others follow in the order given, on the CPUs that are left. Each has
// cores of its own as long as there is a core for every worker still to come. Where there is not, a name is packed: it
// takes whole cores, one after the other, with all their threads. Both times PlanGroups() plans the name as if the
// machine had no other CPUs. So a name with many workers is several scheduling groups, which keep to GP1 to GP9.
//
// Invariants
//   NG1  The groups of a name lie side by side, the names in the order given. So the first group has the first name.
//   NG2  No group may run on a CPU that is given to another name, or planned for one. Names that are given the same
//        list share its CPUs; lists that overlap in part are refused.
//   NG3  A group's neighbours are the groups of its name, and of names that share with it. So no fiber is stolen from
//        any other name. Sharing is mutual.
//   NG4  Workers without CPUs given are refused if there are more of them than CPUs left, or if all workers together
//        are more than the CPU quota. A list of CPUs is taken at its word: it may be shorter than the workers are many.
//
// Pure functions; errors are one line.
// Rejected: stealing in one direction (a stolen fiber belongs to the thief's group from then on, so a group that is
// helped would lose its fibers to one that it may not steal from); more workers than CPUs without a word (a machine
// that is smaller than its flags would give no isolation, and nobody would know why).
#ifndef WEFT_SCHEDULING_GROUP_PLAN_NAMED_GROUPS_H_
#define WEFT_SCHEDULING_GROUP_PLAN_NAMED_GROUPS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/plan/group_plan.h"

namespace weft::scheduling_group {

struct NamedGroup {
  std::string name{};
  unsigned workers = 0;
  std::vector<int> cpus{};            // os ids, sorted; empty: planned
  std::vector<std::string> shares{};  // other names

  friend bool operator==(const NamedGroup&, const NamedGroup&) = default;
};

// Of one name.
inline constexpr unsigned kMaxNamedWorkers = 4096;
// Messages, dumps and metrics repeat it; a thread's name has its first letters.
inline constexpr std::size_t kMaxNameLength = 64;

// At least one. nullopt: *error says what is wrong with the text.
std::optional<std::vector<NamedGroup>> ParseNamedGroups(std::string_view text, std::string* error);

// `wishes.workers` does not count. nullopt: the machine has too few CPUs, or not the given ones.
std::optional<GroupPlan> PlanNamedGroups(const numa::Topology& machine, const std::vector<NamedGroup>& named,
                                         const PlanWishes& wishes, std::string* error);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_PLAN_NAMED_GROUPS_H_
