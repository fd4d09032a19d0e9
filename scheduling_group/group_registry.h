// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// The scheduling groups of this process. Filled by fiber/runtime_instance.cc when the runtime has started, emptied when
// its workers have been joined.
//
// Invariants
//   GR1  A group that is found here stays, and is not given to another runtime, until the finder's OutsideSection ends;
//        for a worker, as long as it is one.
//   GR2  Nothing here has a destructor: the functions may be called while the process exits.
//
// All functions: any thread; plain threads in an OutsideSection, if they use what they find.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_REGISTRY_H_
#define WEFT_SCHEDULING_GROUP_GROUP_REGISTRY_H_

#include <cstddef>
#include <span>
#include <vector>

namespace weft::scheduling_group {

class SchedulingGroup;

inline constexpr std::size_t kMaxGroups = 1024;

// The group of the calling worker; nullptr outside of workers.
SchedulingGroup* CurrentGroup() noexcept;

// The group of the calling worker; for other threads one after the other; nullptr when no runtime runs.
SchedulingGroup* NearestGroup() noexcept;

// One after the other for every caller; nullptr when no runtime runs.
SchedulingGroup* NextGroup() noexcept;

// All of them, by index; empty when no runtime runs.
std::span<SchedulingGroup* const> AllGroups() noexcept;

// For a call that finds no runtime. Returns if one has run before: then the call is refused, or answers 0, since who
// makes it cannot know when the runtime ends. Aborts in `caller`'s name if none ever ran.
void CheckRuntimeHasRun(const char* caller);
// The same for a call that needs workers: aborts in a process forked from one in which the runtime ran, too.
void CheckMayBeRefused(const char* caller);

// The runtime only. While it runs no fiber and no other call of SetGroups(). At most kMaxGroups; none: when it returns
// nobody uses the former ones any more (GR1).
void SetGroups(const std::vector<SchedulingGroup*>& groups) noexcept;
// In a forked child (forked_child.h).
void ForgetGroups() noexcept;

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_REGISTRY_H_
