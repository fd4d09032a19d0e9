// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group_options.h"

#include "weft/base/check.h"

namespace weft::scheduling_group {
namespace {

// A spinner must stay long enough to see that a busy worker's hand-off slot does not change (HS2 in hand_off_slot.h).
constexpr std::chrono::nanoseconds kMinSpin{4'000};

}  // namespace

void CheckGroupOptions(const GroupOptions& options) {
  WEFT_CHECK(options.workers >= 1 && options.workers <= kMaxWorkersPerGroup, "SchedulingGroup: workers must be 1..",
             kMaxWorkersPerGroup, ", is ", options.workers);
  WEFT_CHECK(options.spin_for >= kMinSpin, "SchedulingGroup: spin_for must be at least ", kMinSpin.count(), " ns, is ",
             options.spin_for.count());
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
