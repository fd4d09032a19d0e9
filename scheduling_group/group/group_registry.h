// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The scheduling groups of this process, and whether there are any. fiber/runtime/runtime_instance.cc fills the
// registry when the runtime has started, and empties it when the workers have been joined.
//
// A process forked while the runtime ran has no workers; fiber/runtime.h says what it may not do. A call that needs a
// worker ends it here, with one line, by write(2), as threads that the child lacks may hold the log's locks.
//
// Invariants
//   GR1  A group found here stays, and is not given to another runtime, until the finder's ReadSection ends; for a
//        worker, until its thread ends.
//   GR2  Nothing here has a destructor: the functions may be called while the process exits.
//   GR3  The groups of a name lie side by side. Where none is asked for, a fiber starts under the name of its starter,
//        and what a plain thread starts under the first: work crosses names only where the program says so.
// All functions: any thread. A plain thread that uses what it finds must be in a ReadSection.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_GROUP_REGISTRY_H_
#define WEFT_SCHEDULING_GROUP_GROUP_GROUP_REGISTRY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

namespace weft::scheduling_group {

class SchedulingGroup;

inline constexpr std::size_t kMaxGroups = 1024;

// The group of the calling worker; nullptr outside of workers.
SchedulingGroup* CurrentGroup() noexcept;

// The group of the calling worker; other threads get those of the NUMA node on which they run, one after the other, or
// of all nodes if theirs has none; nullptr when no runtime runs.
SchedulingGroup* NearestGroup() noexcept;

// One after the other of the caller's name, for every caller; nullptr when no runtime runs.
SchedulingGroup* NextGroup() noexcept;

// The calling thread, which is no worker, works for this group: what it starts goes to the group's name. nullptr: for
// none. Groups are never freed.
void ServeGroup(const SchedulingGroup* group) noexcept;
// That group; nullptr: none. It may have ended.
const SchedulingGroup* ServedGroup() noexcept;

// All of them, by index; empty when no runtime runs.
std::span<SchedulingGroup* const> AllGroups() noexcept;

// Those that have the name of `group`, or no name as it has none. For nullptr, and for a group of a FiberLoop, those of
// the first name. Empty when no runtime runs.
std::span<SchedulingGroup* const> PeersOf(const SchedulingGroup* group) noexcept;

// One of these after the other; nullptr when no runtime runs.
SchedulingGroup* NextPeerOf(const SchedulingGroup* group) noexcept;

// Whether `wanted` stands for the groups of the calling worker's name.
bool IsCallersName(std::size_t wanted) noexcept;

// Stands for the groups of a name where the index of a group is asked for: this, and the index of the first of them.
inline constexpr std::size_t kNamedGroups = std::size_t{1} << 20;

// The same, for debuggers (gdb_layout.h). Hidden: libweft.so does not show them.
extern __attribute__((visibility("hidden"))) std::array<SchedulingGroup*, kMaxGroups> all_groups;
extern __attribute__((visibility("hidden"))) std::atomic<std::size_t> group_count;

// For a call that finds no runtime. Aborts in `caller`'s name if none ever ran. Otherwise it returns, and the call is
// refused or returns 0, since its thread cannot know when the runtime ends.
void CheckRuntimeHasRun(const char* caller);
// The same for a call that needs workers: aborts also in a process forked while the runtime ran.
void CheckMayBeRefused(const char* caller);

// The runtime only, while no fiber runs, and one call at a time. At most kMaxGroups. After a call with none, no thread
// uses the former groups any more (GR1).
void SetGroups(const std::vector<SchedulingGroup*>& groups) noexcept;
// In a forked child (group_registry.h).
void ForgetGroups() noexcept;

// The child's handler of pthread_atfork() calls it, and ForgetGroups(): forgets other threads' sections, and that the
// caller was a worker. Async-signal-safe.
void MarkForkedChild() noexcept;

// Any thread.
bool IsForkedChild() noexcept;
// Aborts in such a child. `caller`: the public function that needs workers.
void CheckNotForkedChild(const char* caller) noexcept;
// Only writes the line.
void WarnOfForkedChild(const char* caller) noexcept;

inline constexpr char kForkedChildMessage[] =
    "this process was forked from one in which the runtime ran, and has no workers: fork, or call daemon(), before "
    "StartRuntime(); in the child call nothing but exec() and _exit()";

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_GROUP_REGISTRY_H_
