// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Makes the plan of a runtime from its options. StartRuntime() does this first; the tool weft_topology shows the plan.
#ifndef WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_
#define WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_

#include <optional>
#include <string>

#include "weft/fiber/runtime_options.h"
#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/plan/group_plan.h"

namespace weft::fiber {

struct RuntimePlan {
  numa::Topology machine;  // that is planned for: this one, or that of options.topology; only worker_accessible_cpus
  numa::Topology here;     // the one we run on, and all that the process may use of it
  scheduling_group::GroupPlan plan;
};

// nullopt: the options cannot be met, and *error says why in a line. Any thread: few workers are planned near its CPU.
std::optional<RuntimePlan> PlanRuntime(const Options& options, std::string* error);

}  // namespace weft::fiber

#endif  // WEFT_FIBER_RUNTIME_RUNTIME_PLAN_H_
