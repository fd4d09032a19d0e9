// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Scheduling policies by name (`--fiber_scheduling_name`). "v1" and "v2" are built in; users register others before
// they start the runtime. All functions: any thread.
#ifndef WEFT_SCHEDULING_GROUP_POLICY_REGISTRY_H_
#define WEFT_SCHEDULING_GROUP_POLICY_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

using SchedulingPolicyFactory = std::function<std::unique_ptr<SchedulingPolicy>(const SchedulingPolicy::Options&)>;

// False: the name is taken.
bool RegisterSchedulingPolicy(std::string_view name, SchedulingPolicyFactory factory);
// nullptr: no such policy.
std::unique_ptr<SchedulingPolicy> CreateSchedulingPolicy(std::string_view name,
                                                         const SchedulingPolicy::Options& options);
std::vector<std::string> SchedulingPolicyNames();

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_POLICY_REGISTRY_H_
