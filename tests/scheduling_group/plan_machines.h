// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Machines for tests of the planner: of a kind, or random ones, from numbers that are the same everywhere.
#ifndef WEFT_TESTS_SCHEDULING_GROUP_PLAN_MACHINES_H_
#define WEFT_TESTS_SCHEDULING_GROUP_PLAN_MACHINES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "weft/numa/machine/topology.h"

namespace weft::scheduling_group::plan_machines {

using numa::Topology;

// The same numbers everywhere (those of <random>'s distributions are not).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 2 + 1) {}
  unsigned Below(unsigned n) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<unsigned>(state_ >> 33) % n;
  }
  bool OneIn(unsigned n) { return Below(n) == 0; }
  template <typename T>
  T Of(std::initializer_list<T> items) {
    return *(items.begin() + Below(static_cast<unsigned>(items.size())));
  }

 private:
  std::uint64_t state_;
};

struct MachineKind {
  int packages = 1;
  int nodes_per_package = 1;
  int l3s_per_node = 1;
  int cores_per_l3 = 4;
  int threads = 1;
  bool siblings_apart = false;  // Linux on x86 numbers all first threads before the second ones.
  int node_id_step = 1;
  bool unequal_distances = false;

  std::string ToString() const {
    std::ostringstream out;
    out << packages << " packages of " << nodes_per_package << " nodes of " << l3s_per_node << " L3 domains of "
        << cores_per_l3 << " cores of " << threads << " threads" << (siblings_apart ? ", siblings apart" : "")
        << ", node ids by " << node_id_step << (unequal_distances ? ", unequal distances" : "");
    return out.str();
  }
};

inline Topology Make(const MachineKind& kind) {
  Topology machine;
  const int nodes = kind.packages * kind.nodes_per_package;
  const int cores = nodes * kind.l3s_per_node * kind.cores_per_l3;
  for (int core = 0; core < cores; ++core) {
    for (int thread = 0; thread < kind.threads; ++thread) {
      Topology::Cpu cpu;
      cpu.os_id = kind.siblings_apart ? thread * cores + core : core * kind.threads + thread;
      cpu.core = core;
      cpu.smt = thread;
      cpu.l3 = core / kind.cores_per_l3;
      const int node = cpu.l3 / kind.l3s_per_node;
      cpu.node = node * kind.node_id_step;
      cpu.package = node / kind.nodes_per_package;
      machine.cpus.push_back(cpu);
    }
  }
  std::sort(machine.cpus.begin(), machine.cpus.end(), [](auto& a, auto& b) { return a.os_id < b.os_id; });
  for (int n = 0; n < nodes; ++n) {
    Topology::Node node{.os_id = n * kind.node_id_step, .cpus = {}, .distances = {}};
    for (const auto& cpu : machine.cpus) {
      if (cpu.node == node.os_id) node.cpus.push_back(cpu.os_id);
    }
    for (int other = 0; other < nodes; ++other) {
      const int apart = std::abs(n - other);
      node.distances.push_back(n == other ? 10 : kind.unequal_distances ? 11 + std::min(apart, nodes - apart) : 21);
    }
    machine.nodes.push_back(std::move(node));
  }
  return machine;
}

// In each L3 domain the last cores are slow, and have one thread.
inline Topology WithSlowCores(Topology machine, Dice* dice) {
  std::map<int, std::set<int>> cores_of_l3;
  for (const auto& cpu : machine.cpus) cores_of_l3[cpu.l3].insert(cpu.core);
  const unsigned in_eight = 1 + dice->Below(7);
  std::set<int> slow;
  for (const auto& [l3, cores] : cores_of_l3) {
    const auto fast = static_cast<std::ptrdiff_t>(cores.size() * in_eight / 8);
    slow.insert(std::next(cores.begin(), fast), cores.end());
  }
  std::vector<int> left;
  for (auto& cpu : machine.cpus) {
    cpu.kind = slow.contains(cpu.core) ? 0 : 1;
    if (cpu.kind == 1 || cpu.smt == 0) left.push_back(cpu.os_id);
  }
  std::string error;
  return *machine.Restrict(left, &error);
}

// Leaves about one CPU in `n` out.
inline Topology WithHoles(const Topology& machine, Dice* dice, unsigned n) {
  std::vector<int> left;
  for (const auto& cpu : machine.cpus) {
    if (!dice->OneIn(n)) left.push_back(cpu.os_id);
  }
  if (left.empty()) left.push_back(machine.cpus.back().os_id);
  std::string error;
  return *machine.Restrict(left, &error);
}

inline MachineKind RandomKind(Dice* dice) {
  MachineKind kind;
  kind.packages = dice->Of({1, 1, 2, 2, 4, 8});
  kind.nodes_per_package = dice->Of({1, 1, 1, 2, 4});
  kind.cores_per_l3 = dice->Of({1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 16, 28, 56, 64});
  const int most = 128 / (kind.nodes_per_package * kind.cores_per_l3);
  kind.l3s_per_node = 1 + static_cast<int>(dice->Below(static_cast<unsigned>(std::max(1, std::min(16, most)))));
  kind.threads = dice->Of({1, 1, 2, 2, 2, 4});
  kind.siblings_apart = dice->OneIn(2);
  kind.node_id_step = dice->Of({1, 1, 1, 3, 8});
  kind.unequal_distances = dice->OneIn(3);
  return kind;
}

}  // namespace weft::scheduling_group::plan_machines

#endif  // WEFT_TESTS_SCHEDULING_GROUP_PLAN_MACHINES_H_
