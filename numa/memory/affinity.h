// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Where threads may run and where memory comes from.
//
// A refusal of the kernel (a CPU offline or not ours, a seccomp filter) is returned; the caller logs it and goes on
// unbound. A NUMA node is named by the kernel's number (Topology::Node::os_id, TP3); -1 is "any".
#ifndef WEFT_NUMA_MEMORY_AFFINITY_H_
#define WEFT_NUMA_MEMORY_AFFINITY_H_

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <system_error>
#include <vector>

namespace weft::numa {

// The calling thread runs on these CPUs only, from the return on.
[[nodiscard]] std::error_code BindThread(std::span<const int> cpus);

// The calling thread, which may have inherited the CPUs of a bound one, runs where the first thread of that process
// may. If the kernel refuses, it keeps its CPUs. Async-signal-safe.
void RunWhereTheFirstThreadOf(pid_t process) noexcept;

// The CPUs of the calling thread's mask and its cgroup's cpuset, sorted; empty if the kernel does not say.
std::vector<int> ThreadCpus();

// The CPU that the calling thread runs on just now; -1 if the kernel does not say.
int CurrentCpu();
// The NUMA node of that CPU; -1 likewise.
int CurrentNode();

// Whether the kernel has more than one NUMA node.
bool HasSeveralNodes();

// The nodes that have memory and lie in the cgroup's cpuset. Sorted; empty if the kernel does not say.
std::vector<int> MemoryNodes();

// Pages of [address, address + length) first touched from now on come from `node` while it has memory, else from the
// nearest one. `address` is on a page boundary. No-op without error if node < 0, if the machine has one node only, or
// if the process may have no memory from this node (the kernel then takes the nearest).
[[nodiscard]] std::error_code BindMemory(void* address, std::size_t length, int node);

}  // namespace weft::numa

#endif  // WEFT_NUMA_MEMORY_AFFINITY_H_
