// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Topology: the CPUs that this process may use, and how they are connected.  Plain data: tests fill one in by hand.
//
// Detect() reads the machine, FromString() a description: an hwloc synthetic one ("numa:2 l3:2 core:4 pu:2") or an XML
// file written by hwloc's lstopo.  Only topology.cc uses hwloc.
//
// Invariants
//   TP1  cpus is sorted by os_id; it has only CPUs that may be used, and at least one.
//   TP2  nodes is sorted by os_id; it has the nodes of those CPUs only. Each Cpu::node is the os_id of one of them.
//   TP3  A node is named by the kernel's number (os_id), which need not be dense; "ordinal" is a position in nodes and
//        is only used for distances.  The two are never mixed.
//   TP4  l3, package and core are dense numbers, equal for CPUs that share that thing; two CPUs of one core share l3,
//        package and node.
//   TP5  memory_nodes is sorted by os_id, too; it has the nodes beside CPUs of ours that are not the node of any CPU of
//        the machine. They are shown, but nothing is planned for them.
//   TP6  kind is 0 for all cores, unless the system says which cores are faster by design (P and E cores, big.LITTLE).
#ifndef WEFT_NUMA_MACHINE_TOPOLOGY_H_
#define WEFT_NUMA_MACHINE_TOPOLOGY_H_

#include <optional>
#include <string>
#include <vector>

namespace weft::numa {

// From a node to itself, as in the ACPI table: other distances are relative to it (20: twice as far).
inline constexpr int kLocalDistance = 10;

struct Topology {
  struct Cpu {
    int os_id = 0;    // As in sched_setaffinity().
    int node = 0;     // Node::os_id of the memory beside it.
    int package = 0;  // Socket.
    int l3 = 0;       // CPUs that share their last level of cache.  Where there is no L3: those of a die or package.
    int core = 0;     // SMT siblings share it.
    int smt = 0;      // 0 for the first hardware thread of the core (that may be used), 1 for the next ...
    int kind = 0;     // Of the core: the larger the faster (TP6).

    friend bool operator==(const Cpu&, const Cpu&) = default;
  };

  struct Node {
    int os_id = 0;
    std::vector<int> cpus;       // os_ids, sorted.
    std::vector<int> distances;  // To each node, by ordinal; 10 is the node itself, as in the ACPI table.

    friend bool operator==(const Node&, const Node&) = default;
  };

  // Memory without CPUs (a CXL expander), or further memory of CPUs that have a node (HBM beside DRAM).
  struct MemoryNode {
    int os_id = 0;
    std::vector<int> cpus;  // os_ids, sorted; of ours, which it is beside.

    friend bool operator==(const MemoryNode&, const MemoryNode&) = default;
  };

  std::vector<Cpu> cpus;
  std::vector<Node> nodes;
  std::vector<MemoryNode> memory_nodes;
  std::optional<double> cpu_quota;  // Of the control groups, in CPUs.

  // This machine: the CPUs of the calling thread's affinity mask (which respects the cpuset of a control group), and
  // the quota. If hwloc fails: one node with those CPUs, and a warning.
  static Topology Detect();

  // A description, or the path of an XML file.  No quota.  nullopt: *error is one line that says why.
  static std::optional<Topology> FromString(const std::string& description, std::string* error);

  // How many threads are useful: the CPUs, cut by the quota (rounded up); at least 1.
  unsigned UsableCpuCount() const;

  // nullptr: no such CPU, or not ours.
  const Cpu* FindCpu(int os_id) const;
  // nullptr: no such node, or without a CPU of ours.
  const Node* FindNode(int os_id) const;

  // Between two nodes, by os_id.  Both exist.
  int Distance(int from_os_id, int to_os_id) const;

  // Keeps only these CPUs and their nodes.  nullopt: one of them does not exist; *error says which.
  std::optional<Topology> Restrict(const std::vector<int>& cpu_os_ids, std::string* error) const;

  // For people: a line for each node.
  std::string ToString() const;
};

}  // namespace weft::numa

#endif  // WEFT_NUMA_MACHINE_TOPOLOGY_H_
