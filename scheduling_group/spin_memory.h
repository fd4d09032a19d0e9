// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// SpinMemory: what a spinning worker remembers between two searches of what the others of its group do.
#ifndef WEFT_SCHEDULING_GROUP_SPIN_MEMORY_H_
#define WEFT_SCHEDULING_GROUP_SPIN_MEMORY_H_

#include <chrono>
#include <cstdint>
#include <vector>

namespace weft::scheduling_group {

struct SpinMemory {
  std::vector<std::uint32_t> seen;  // by worker; the policy's to use
  std::chrono::steady_clock::time_point sampled_at;
  bool active = false;  // at `sampled_at` the group's workers handed fibers to each other: worth staying awake for

  void Forget() {
    seen.clear();
    active = false;
  }
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_SPIN_MEMORY_H_
