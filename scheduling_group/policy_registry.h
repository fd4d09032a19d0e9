// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The policies by name, "v1", "v2" and those registered: RegisterSchedulingPolicy(), see scheduling_policy.h.
#ifndef WEFT_SCHEDULING_GROUP_POLICY_REGISTRY_H_
#define WEFT_SCHEDULING_GROUP_POLICY_REGISTRY_H_

#include "weft/scheduling_group/scheduling_policy.h"

#endif  // WEFT_SCHEDULING_GROUP_POLICY_REGISTRY_H_
