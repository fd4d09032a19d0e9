// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SpinMemory: what a spinning worker remembers of the other workers' slots between two searches.
#ifndef WEFT_SCHEDULING_GROUP_IDLE_SPIN_MEMORY_H_
#define WEFT_SCHEDULING_GROUP_IDLE_SPIN_MEMORY_H_

#include <chrono>
#include <cstdint>
#include <vector>

namespace weft::scheduling_group {

struct SpinMemory {
  std::vector<std::uint32_t> seen;  // by worker; for the policy
  std::chrono::steady_clock::time_point sampled_at;
  bool active = false;  // at `sampled_at` the group's workers were handing fibers to each other

  void Forget() {
    seen.clear();
    active = false;
  }
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_SPIN_MEMORY_H_
