// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How much CPU time and memory the process may use: the limits of its control groups, of versions 1 and 2 and both at
// once.
//
// The smallest limit from our group up to the root of its mount (/proc/self/mountinfo) counts. A container may see only
// a part of the tree (the mount's root), while its group's path is the host's: the common part is left out.
#ifndef WEFT_NUMA_MACHINE_CGROUP_H_
#define WEFT_NUMA_MACHINE_CGROUP_H_

#include <optional>
#include <string>

namespace weft::numa {

// In CPUs: 1.5 is 150 ms of CPU time per 100 ms.  nullopt: no limit, or none that can be read. `root` stands before
// each path that is read: tests give a directory with proc/self/{cgroup,mountinfo} and sys/fs/cgroup/... in it.
std::optional<double> ReadCpuQuota(const std::string& root = "");
// In bytes.
std::optional<double> ReadMemoryLimit(const std::string& root = "");

}  // namespace weft::numa

#endif  // WEFT_NUMA_MACHINE_CGROUP_H_
