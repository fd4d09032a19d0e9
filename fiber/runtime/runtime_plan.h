// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Makes the plan of a runtime from its options, and from that the options of its scheduling groups. StartRuntime() does
// this first; the tool weft_topology shows the plan.
#ifndef WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_
#define WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "weft/fiber/runtime_options.h"
#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/plan/group_plan.h"

namespace weft::fiber {

struct RuntimePlan {
  numa::Topology machine;  // that is planned for: this one, or that of options.topology; only worker_accessible_cpus
  numa::Topology here;     // the one we run on, and all that the process may use of it
  scheduling_group::GroupPlan plan;
};

// nullopt: the options cannot be met, and *error says why in a line. Any thread: few workers are planned near its CPU.
std::optional<RuntimePlan> PlanRuntime(const RuntimeOptions& options, std::string* error);

// `here` is this machine. What of the plan is not here, because it is for another machine, is left out.
scheduling_group::SchedulingGroup::Options OptionsOfGroup(int id, const scheduling_group::PlannedGroup& planned,
                                                          const RuntimeOptions& options, const numa::Topology& here);

// How often an idle worker tries to steal from this neighbour: on every N-th search; 0: never.
std::int64_t StealEveryN(const scheduling_group::PlannedGroup::Neighbour& neighbour, const RuntimeOptions& options);

// A line about islands, for the log: nodes, alone or with those that they steal from, that have fewer workers than a
// group should have, while no work moves to or from the rest. Where groups have names, of one name that has any.
// Empty: there are none, or --fiber_cross_numa_work_stealing_ratio has been chosen.
std::string DescribeIslands(const scheduling_group::GroupPlan& plan, const RuntimeOptions& options);

}  // namespace weft::fiber

#endif  // WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_
