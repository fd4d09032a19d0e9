// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Makes the plan of a runtime from its options, and from that the options of its scheduling groups. StartRuntime() does
// this first; the tool weft_topology shows the plan.
#ifndef WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_
#define WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_

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

}  // namespace weft::fiber

#endif  // WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_
