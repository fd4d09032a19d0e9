// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GroupOptions: makes a scheduling group's options from its plan and the runtime's options. For runtime_instance.cc.
#ifndef WEFT_FIBER_RUNTIME_GROUP_OPTIONS_H_
#define WEFT_FIBER_RUNTIME_GROUP_OPTIONS_H_

#include "weft/fiber/runtime_options.h"
#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/plan/group_plan.h"

namespace weft::fiber::detail {

// `here` is this machine. What of the plan is not here, because it is for another machine, is left out.
scheduling_group::SchedulingGroup::Options GroupOptions(int id, const scheduling_group::PlannedGroup& planned,
                                                        const Options& options, const numa::Topology& here);

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_GROUP_OPTIONS_H_
