// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The scheduling groups of this process. Filled by fiber/runtime.cc when the runtime starts, emptied when it has
// stopped.
//
// All functions: any thread. The pointers are good while the runtime runs; who uses them while TerminateRuntime()
// returns in another thread uses freed memory.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_REGISTRY_H_
#define WEFT_SCHEDULING_GROUP_GROUP_REGISTRY_H_

#include <cstddef>
#include <vector>

namespace weft::scheduling_group {

class SchedulingGroup;

// The group of the calling worker; nullptr outside of workers.
SchedulingGroup* CurrentGroup() noexcept;

// The group of the calling worker; for other threads one after the other; nullptr when no runtime runs.
SchedulingGroup* NearestGroup() noexcept;

// One after the other for every caller; nullptr when no runtime runs.
SchedulingGroup* NextGroup() noexcept;

// nullptr: there is no such group.
SchedulingGroup* GroupAt(std::size_t index) noexcept;
std::size_t GroupCount() noexcept;

// The runtime only, while no fiber runs.
void SetGroups(std::vector<SchedulingGroup*> groups);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_REGISTRY_H_
