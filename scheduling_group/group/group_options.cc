// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/group_options.h"

#include "weft/base/report/check.h"
#include "weft/scheduling_group/idle/idle_loop.h"

namespace weft::scheduling_group {

void CheckGroupOptions(const GroupOptions& options) {
  WEFT_CHECK(options.workers >= 1 && options.workers <= kMaxWorkersPerGroup, "SchedulingGroup: workers must be 1..",
             kMaxWorkersPerGroup, ", is ", options.workers);
  WEFT_CHECK(options.spin_for >= SpinPolicy::kMinSpin, "SchedulingGroup: spin_for must be at least ",
             SpinPolicy::kMinSpin.count(), " ns, is ", options.spin_for.count());
}

context::StackPool::Options StackPoolOptions(const GroupOptions& options, void* owner) {
  context::StackPool::Options stacks = options.stacks;
  stacks.stack_size = options.stack_size;
  stacks.guard = options.guard_pages;
  stacks.guard_size = options.guard_size;
  stacks.node = options.node;
  stacks.owner = owner;
  return stacks;
}

}  // namespace weft::scheduling_group
