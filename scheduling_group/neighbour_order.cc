// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/neighbour_order.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace weft::scheduling_group::planning {
namespace {

constexpr int kOwnNodeDistance = 10;  // As in the ACPI table.

// Where a group is on the machine.
struct Place {
  std::set<int> l3s;
  std::set<int> packages;
  // Ordinals, of worker 0:
  int node = 0;      // among the nodes that have groups
  int l3 = 0;        // among the L3 domains of the node
  int position = 0;  // among the groups in the L3 domain
};

class Places {
 public:
  Places(const numa::Topology& topology, const std::vector<PlannedGroup>& groups) {
    std::map<int, int> nodes;
    std::map<int, std::map<int, int>> l3s;
    for (const PlannedGroup& group : groups) {
      const numa::Topology::Cpu& cpu = *topology.FindCpu(group.worker_cpus.front());
      Place place;
      for (int id : group.worker_cpus) {
        const numa::Topology::Cpu& other = *topology.FindCpu(id);
        place.l3s.insert(other.l3);
        place.packages.insert(other.package);
      }
      place.node = nodes.try_emplace(group.node, static_cast<int>(nodes.size())).first->second;
      auto& l3s_here = l3s[place.node];
      place.l3 = l3s_here.try_emplace(cpu.l3, static_cast<int>(l3s_here.size())).first->second;
      place.position = groups_[{place.node, place.l3}]++;
      places_.push_back(std::move(place));
    }
    nodes_ = static_cast<int>(nodes.size());
    for (const auto& [node, l3s_here] : l3s) l3s_[node] = static_cast<int>(l3s_here.size());
  }

  // Smaller is nearer; equal for groups that are equally near.
  std::tuple<bool, bool> Nearness(std::size_t from, std::size_t to) const {
    const Place& a = places_[from];
    const Place& b = places_[to];
    const auto have_common = [](const std::set<int>& x, const std::set<int>& y) {
      return std::any_of(x.begin(), x.end(), [&](int item) { return y.contains(item); });
    };
    return {!have_common(a.l3s, b.l3s), !have_common(a.packages, b.packages)};
  }

  // Orders equally near groups: the next node or L3 domain first, and there the group at our own position or after it.
  std::tuple<int, int, int> Turn(std::size_t from, std::size_t to) const {
    const Place& a = places_[from];
    const Place& b = places_[to];
    const auto steps = [](int x, int y, int ring) { return ((y - x) % ring + ring) % ring; };
    return {steps(a.node, b.node, nodes_), steps(a.l3, b.l3, l3s_.at(b.node)),
            steps(a.position, b.position, groups_.at({b.node, b.l3}))};
  }

 private:
  std::vector<Place> places_;
  int nodes_ = 0;
  std::map<int, int> l3s_;                     // how many in a node
  std::map<std::pair<int, int>, int> groups_;  // how many in an L3 domain of a node
};

}  // namespace

void OrderNeighbours(const numa::Topology& topology, std::vector<PlannedGroup>* groups) {
  const Places places(topology, *groups);
  for (std::size_t g = 0; g < groups->size(); ++g) {
    PlannedGroup& group = (*groups)[g];
    using Key = std::tuple<int, std::tuple<bool, bool>, std::tuple<int, int, int>>;
    std::vector<std::pair<Key, PlannedGroup::Neighbour>> order;
    for (std::size_t o = 0; o < groups->size(); ++o) {
      if (o == g) continue;
      const int node = (*groups)[o].node;
      const bool same_node = group.node == node;
      const int distance = same_node ? kOwnNodeDistance : topology.Distance(group.node, node);
      order.emplace_back(Key(same_node ? 0 : distance, places.Nearness(g, o), places.Turn(g, o)),
                         PlannedGroup::Neighbour{static_cast<int>(o), same_node, distance});
    }
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second.group) < std::tie(b.first, b.second.group);
    });
    for (const auto& [key, neighbour] : order) group.neighbours.push_back(neighbour);
  }
}

}  // namespace weft::scheduling_group::planning
