// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy/policy_dispatch.h"

#include <utility>

#include "weft/base/report/check.h"

namespace weft::scheduling_group {
namespace {

std::unique_ptr<SchedulingPolicy> MakePolicy(std::string_view name, const SchedulingPolicy::Options& options) {
  auto policy = CreateSchedulingPolicy(name, options);
  WEFT_CHECK(policy != nullptr, "SchedulingGroup: no scheduling policy is called \"", name, '"');
  return policy;
}

}  // namespace

PolicyDispatch::PolicyDispatch(std::string_view name, const SchedulingPolicy::Options& options)
    : PolicyDispatch(MakePolicy(name, options)) {}

PolicyDispatch::PolicyDispatch(std::unique_ptr<SchedulingPolicy> policy)
    : policy_(std::move(policy)),
      v1_(dynamic_cast<PolicyV1*>(policy_.get())),
      v2_(dynamic_cast<PolicyV2*>(policy_.get())) {}

}  // namespace weft::scheduling_group
