// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How much CPU time the process may use: the quotas of its control groups, versions 1 and 2 and both at once.
//
// A group's quota holds for all groups in it, so the smallest one on the way from our group to the root of what is
// mounted counts.  Where the hierarchies are mounted is read from /proc/self/mountinfo; a container may see only a part
// of the tree (the mount's root), and may have been told the path of its group as the host sees it: what the two have
// in common is left out.

#ifndef WEFT_NUMA_CGROUP_H_
#define WEFT_NUMA_CGROUP_H_

#include <optional>
#include <string>

namespace weft::numa {

// In CPUs: 1.5 is 150 ms of CPU time per 100 ms.  nullopt: no limit (or none that can be read).
// `root` stands before each path that is read: tests give a directory with proc/self/{cgroup,mountinfo} and
// sys/fs/cgroup/... in it.
std::optional<double> ReadCpuQuota(const std::string& root = "");

}  // namespace weft::numa

#endif  // WEFT_NUMA_CGROUP_H_
