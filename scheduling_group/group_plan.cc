// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "weft/numa/cpu_list.h"

namespace weft::scheduling_group {
namespace {

constexpr int kOwnNodeDistance = 10;  // As in the ACPI table.

struct Sizes {
  unsigned min = kMinPlannedGroupSize;
  unsigned max = kMaxPlannedGroupSize;
};

struct Core {
  int package = 0;
  int l3 = 0;
  int number = 0;
  std::vector<int> cpus{};  // first siblings first
  unsigned workers = 0;     // seated here
};

// CPUs that one group may not mix with others: a node, or everything if NUMA is off.
struct Pool {
  int node = -1;
  std::vector<Core> cores{};
  unsigned cpus = 0;
  unsigned workers = 0;
};

// ---- 1: the workers are shared out over the nodes ----

std::vector<Pool> MakePools(const numa::Topology& topology, bool numa_off) {
  std::map<int, std::map<int, Core>> cores_of_node;
  std::vector<numa::Topology::Cpu> cpus = topology.cpus;
  std::sort(cpus.begin(), cpus.end(),
            [](const auto& a, const auto& b) { return std::tie(a.smt, a.os_id) < std::tie(b.smt, b.os_id); });
  for (const auto& cpu : cpus) {
    Core& core = cores_of_node[numa_off ? -1 : cpu.node][cpu.core];
    core.package = cpu.package;
    core.l3 = cpu.l3;
    core.number = cpu.core;
    core.cpus.push_back(cpu.os_id);
  }
  std::vector<Pool> pools;
  for (auto& [node, cores] : cores_of_node) {
    Pool pool{.node = node};
    for (auto& [number, core] : cores) {
      pool.cpus += static_cast<unsigned>(core.cpus.size());
      pool.cores.push_back(std::move(core));
    }
    pools.push_back(std::move(pool));
  }
  return pools;
}

// Gives out `total`, or less if that is all there is room for, in proportion to the rooms, the remainder to the largest
// fractions.
std::vector<unsigned> Share(unsigned total, const std::vector<unsigned>& rooms) {
  const std::uint64_t room = std::accumulate(rooms.begin(), rooms.end(), std::uint64_t{0});
  if (total >= room) return rooms;
  std::vector<unsigned> shares;
  std::vector<std::pair<std::uint64_t, std::size_t>> fractions;
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    const std::uint64_t share = std::uint64_t{total} * rooms[i];
    shares.push_back(static_cast<unsigned>(share / room));
    fractions.emplace_back(share % room, i);
  }
  unsigned left = total - std::accumulate(shares.begin(), shares.end(), 0U);
  std::stable_sort(fractions.begin(), fractions.end(), [](auto& a, auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; left > 0; ++i, --left) ++shares[fractions[i].second];
  return shares;
}

unsigned CoreCount(const Pool& pool) { return static_cast<unsigned>(pool.cores.size()); }

bool HasCpu(const Pool& pool, int cpu) {
  return std::any_of(pool.cores.begin(), pool.cores.end(), [&](const Core& core) {
    return std::find(core.cpus.begin(), core.cpus.end(), cpu) != core.cpus.end();
  });
}

// GP4: the nodes that are used, near each other.
std::vector<Pool> ChoosePools(const numa::Topology& topology, std::vector<Pool> pools, unsigned workers,
                              unsigned min_size, int near_cpu) {
  std::vector<Pool> chosen;
  unsigned cpus = 0;
  unsigned cores = 0;
  const auto enough = [&] {
    if (cpus < workers) return false;
    return cores >= workers || workers < min_size * (chosen.size() + 1);
  };
  while (!pools.empty() && !enough()) {
    // The largest; of these the one beside near_cpu, then the nearest to the first; then the lowest number.
    const auto rank = [&](const Pool& pool) {
      const int distance = chosen.empty() ? 0 : topology.Distance(chosen.front().node, pool.node);
      return std::tuple(-static_cast<int>(CoreCount(pool)), -static_cast<int>(pool.cpus), !HasCpu(pool, near_cpu),
                        distance, pool.node);
    };
    const auto best =
        std::min_element(pools.begin(), pools.end(), [&](const Pool& a, const Pool& b) { return rank(a) < rank(b); });
    cpus += best->cpus;
    cores += CoreCount(*best);
    chosen.push_back(std::move(*best));
    pools.erase(best);
  }
  std::sort(chosen.begin(), chosen.end(), [](const Pool& a, const Pool& b) { return a.node < b.node; });
  return chosen;
}

// First what makes a group (GP1), then a worker for each core (GP5), for each CPU (GP3), then rounds over all CPUs.
void ShareWorkers(unsigned workers, unsigned min_size, std::vector<Pool>* pools) {
  unsigned left = workers;
  const auto give = [&](auto room_of) {
    std::vector<unsigned> rooms;
    for (const Pool& pool : *pools) {
      const unsigned room = room_of(pool);
      rooms.push_back(room > pool.workers ? room - pool.workers : 0);
    }
    const std::vector<unsigned> shares = Share(left, rooms);
    for (std::size_t i = 0; i < pools->size(); ++i) {
      (*pools)[i].workers += shares[i];
      left -= shares[i];
    }
  };
  if (workers >= min_size * pools->size()) {
    give([&](const Pool& pool) { return std::min(min_size, pool.cpus); });
  }
  give(CoreCount);
  unsigned round = 0;
  while (left > 0) {
    ++round;
    give([&](const Pool& pool) { return round * pool.cpus; });
  }
}

// ---- 2: the workers of a pool are seated on its cores ----

// Their cores by L3 domain, in the order in which domains are filled: the largest, of these the one with near_cpu,
// those of its package, then the lowest number.
std::vector<std::vector<Core*>> DomainsToFill(Pool* pool, int near_cpu) {
  std::map<int, std::vector<Core*>> by_l3;
  int near_l3 = -1;
  int near_package = -1;
  for (Core& core : pool->cores) {
    by_l3[core.l3].push_back(&core);
    if (std::find(core.cpus.begin(), core.cpus.end(), near_cpu) == core.cpus.end()) continue;
    near_l3 = core.l3;
    near_package = core.package;
  }
  std::vector<std::vector<Core*>> domains;
  domains.reserve(by_l3.size());
  for (auto& [l3, cores] : by_l3) domains.push_back(std::move(cores));
  const auto rank = [&](const std::vector<Core*>& cores) {
    const Core& first = *cores.front();
    return std::tuple(-static_cast<int>(cores.size()), first.l3 != near_l3, first.package != near_package,
                      first.package, first.l3);
  };
  std::sort(domains.begin(), domains.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return domains;
}

// The second hardware threads of the cores of a domain get workers, then the third ones ...
void SeatOnSiblings(unsigned workers, const std::vector<Core*>& cores) {
  for (std::size_t thread = 1; workers > 0; ++thread) {
    for (Core* core : cores) {
      if (workers == 0 || thread >= core->cpus.size()) continue;
      ++core->workers;
      --workers;
    }
  }
}

void SeatWorkers(Pool* pool, int near_cpu) {
  const unsigned rounds = pool->workers / pool->cpus;  // Each CPU has so many.
  unsigned left = pool->workers % pool->cpus;
  const std::vector<std::vector<Core*>> domains = DomainsToFill(pool, near_cpu);
  std::vector<unsigned> spare_siblings;
  for (const auto& cores : domains) {
    unsigned spare = 0;
    for (Core* core : cores) {
      const unsigned first = left > 0 ? 1 : 0;
      left -= first;
      core->workers = rounds * static_cast<unsigned>(core->cpus.size()) + first;
      spare += static_cast<unsigned>(core->cpus.size()) - 1;
    }
    spare_siblings.push_back(spare);
  }
  const std::vector<unsigned> shares = Share(left, spare_siblings);
  for (std::size_t i = 0; i < domains.size(); ++i) SeatOnSiblings(shares[i], domains[i]);
}

// ---- 3: the row of cores is cut into groups ----

// What a group is made of: a core with its workers, a part of them, or one.
struct Item {
  const Core* core;
  unsigned first_worker;  // of those on the core
  unsigned workers;
  bool alone;  // A group of its own (GP6).
  int package() const { return core->package; }
  int l3() const { return core->l3; }
};
using Row = std::vector<Item>;

// In the order in which bad things matter.
struct Cost {
  unsigned missing = 0;     // workers below or above the sizes of GP1
  unsigned straddling = 0;  // groups against GP7
  unsigned groups = 0;
  unsigned squares = 0;  // least where sizes are equal

  Cost operator+(const Cost& other) const {
    return {missing + other.missing, straddling + other.straddling, groups + other.groups, squares + other.squares};
  }
  bool operator<(const Cost& other) const {
    return std::tie(missing, straddling, groups, squares) <
           std::tie(other.missing, other.straddling, other.groups, other.squares);
  }
};

struct Cuts {
  Cost cost;
  std::vector<std::size_t> ends;  // of the groups, as positions in the row
};

class RowCutter {
 public:
  RowCutter(const Row& row, Sizes sizes) : row_(row), sizes_(sizes) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      domain_.try_emplace(row[i].l3(), i, i).first->second.second = i + 1;
    }
  }

  // best[j]: the first j items are cut in the cheapest way; the last group is [from[j], j).
  Cuts Cheapest() const {
    std::vector<Cost> best(row_.size() + 1);
    std::vector<std::size_t> from(row_.size() + 1, 0);
    for (std::size_t j = 1; j <= row_.size(); ++j) {
      unsigned workers = 0;
      for (std::size_t i = j; i-- > 0;) {
        workers += row_[i].workers;
        if (i + 1 < j && (workers > sizes_.max || row_[i].alone || row_[j - 1].alone)) break;
        const Cost cost = best[i] + CostOf(i, j, workers);
        // Only if better: of equal ways the one with the larger groups first.
        if (i + 1 == j || cost < best[j]) std::tie(best[j], from[j]) = std::pair(cost, i);
      }
    }
    Cuts cuts{.cost = best.back(), .ends = {}};
    for (std::size_t end = row_.size(); end > 0; end = from[end]) cuts.ends.insert(cuts.ends.begin(), end);
    return cuts;
  }

 private:
  Cost CostOf(std::size_t begin, std::size_t end, unsigned workers) const {
    const unsigned missing = workers < sizes_.min   ? sizes_.min - workers
                             : workers > sizes_.max ? workers - sizes_.max
                                                    : 0;
    const int first = row_[begin].l3();
    const int last = row_[end - 1].l3();
    const bool straddles = first != last && (domain_.at(first).first < begin || domain_.at(last).second > end);
    return {.missing = missing, .straddling = straddles ? 1U : 0U, .groups = 1, .squares = workers * workers};
  }

  const Row& row_;
  const Sizes sizes_;
  std::map<int, std::pair<std::size_t, std::size_t>> domain_;  // from where to where in the row
};

// The workers of a core in `parts` items, the larger ones first.
void AddParts(const Core& core, unsigned parts, bool alone, Row* row) {
  for (unsigned part = 0, first = 0; part < parts; ++part) {
    const unsigned workers = core.workers / parts + (part < core.workers % parts ? 1 : 0);
    row->push_back({&core, first, workers, alone});
    first += workers;
  }
}

// The workers of the pool as items, by package, L3 domain and core.
std::vector<Row> DomainsOf(const Pool& pool, Sizes sizes) {
  const bool keep_siblings = pool.workers <= pool.cpus;  // GP6
  std::map<std::pair<int, int>, Row> domains;
  for (const Core& core : pool.cores) {
    if (core.workers == 0) continue;
    Row& row = domains[{core.package, core.l3}];
    const unsigned groups = (core.workers + sizes.max - 1) / sizes.max;
    AddParts(core, keep_siblings ? groups : core.workers, /*alone=*/keep_siblings && groups > 1, &row);
  }
  std::vector<Row> result;
  result.reserve(domains.size());
  for (auto& [key, row] : domains) result.push_back(std::move(row));
  return result;
}

unsigned WorkersOf(const Row& domain) {
  return std::accumulate(domain.begin(), domain.end(), 0U, [](unsigned sum, const Item& i) { return sum + i.workers; });
}

enum class Order {
  kFalling,  // the largest first
  kZigzag,   // the largest, the smallest, the second largest ...
  kSpread,   // those of each size evenly over the whole row
};
constexpr Order kOrders[] = {Order::kFalling, Order::kZigzag, Order::kSpread};

template <typename T, typename SizeOf>
void Arrange(std::vector<T>* parts, Order order, SizeOf size_of) {
  std::stable_sort(parts->begin(), parts->end(), [&](const T& a, const T& b) { return size_of(a) > size_of(b); });
  std::vector<std::pair<double, std::size_t>> places;
  const std::size_t count = parts->size();
  for (std::size_t i = 0; i < count && order != Order::kFalling; ++i) {
    if (order == Order::kZigzag) {
      places.emplace_back(i < (count + 1) / 2 ? 2 * i : 2 * (count - i) - 1, i);
      continue;
    }
    const auto of_size = [&](const T& part) { return size_of(part) == size_of((*parts)[i]); };
    const auto first = std::find_if(parts->begin(), parts->end(), of_size) - parts->begin();
    const auto equal = std::count_if(parts->begin(), parts->end(), of_size);
    places.emplace_back((static_cast<double>(i) - static_cast<double>(first) + 0.5) / static_cast<double>(equal), i);
  }
  if (places.empty()) return;
  std::sort(places.begin(), places.end());
  std::vector<T> arranged;
  arranged.reserve(count);
  for (const auto& [place, i] : places) arranged.push_back(std::move((*parts)[i]));
  *parts = std::move(arranged);
}

// Domains that are side by side, packages kept together.
Row MakeRow(const std::vector<Row>& domains, std::optional<Order> order) {
  std::map<int, std::vector<Row>> packages;
  for (const Row& domain : domains) packages[domain.front().package()].push_back(domain);
  Row row;
  for (auto& [package, parts] : packages) {
    if (order) Arrange(&parts, *order, WorkersOf);
    for (const Row& part : parts) row.insert(row.end(), part.begin(), part.end());
  }
  return row;
}

template <typename List, typename SizeOf>
bool AllEqual(const List& list, SizeOf size_of) {
  return std::all_of(list.begin(), list.end(),
                     [&](const auto& item) { return size_of(item) == size_of(list.front()); });
}

// In a row only what is side by side can be one group: where sizes differ it is cut in several orders.
std::vector<Row> RowsToTry(const std::vector<Row>& domains) {
  const auto workers_of = [](const Item& item) { return item.workers; };
  std::vector<std::vector<Row>> variants = {domains};
  if (!std::all_of(domains.begin(), domains.end(), [&](const Row& row) { return AllEqual(row, workers_of); })) {
    for (const Order order : kOrders) {
      variants.push_back(domains);
      for (Row& row : variants.back()) Arrange(&row, order, workers_of);
    }
  }
  std::vector<Row> rows;
  for (const auto& variant : variants) {
    rows.push_back(MakeRow(variant, std::nullopt));
    if (AllEqual(variant, WorkersOf)) continue;
    for (const Order order : kOrders) rows.push_back(MakeRow(variant, order));
  }
  return rows;
}

PlannedGroup MakeGroup(int node, const Row& items) {
  // The first worker of each core first.
  std::vector<std::tuple<unsigned, std::size_t, int>> seats;  // how many before it on its core, place in the row, CPU
  std::map<const Core*, unsigned> on_core;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Core& core = *items[i].core;
    for (unsigned w = 0; w < items[i].workers; ++w) {
      seats.emplace_back(on_core[&core]++, i, core.cpus[(items[i].first_worker + w) % core.cpus.size()]);
    }
  }
  std::sort(seats.begin(), seats.end());
  PlannedGroup group;
  group.node = node;
  group.workers = static_cast<unsigned>(seats.size());
  for (const auto& [turn, place, cpu] : seats) group.worker_cpus.push_back(cpu);
  group.cpus = group.worker_cpus;
  return group;
}

// GP8: the CPUs without a worker.
void AddSpareCpus(const Pool& pool, std::vector<PlannedGroup>* groups) {
  std::map<int, const Core*> core_of_cpu;
  for (const Core& core : pool.cores) {
    for (int cpu : core.cpus) core_of_cpu[cpu] = &core;
  }
  std::set<int> planned;
  std::map<int, std::set<PlannedGroup*>> groups_of_core;
  std::map<int, std::set<PlannedGroup*>> groups_of_l3;
  for (PlannedGroup& group : *groups) {
    planned.insert(group.worker_cpus.begin(), group.worker_cpus.end());
    for (int cpu : group.worker_cpus) {
      groups_of_core[core_of_cpu[cpu]->number].insert(&group);
      groups_of_l3[core_of_cpu[cpu]->l3].insert(&group);
    }
  }
  for (const auto& [cpu, core] : core_of_cpu) {
    if (planned.contains(cpu)) continue;
    const auto beside = groups_of_core.find(core->number);
    for (PlannedGroup* group : beside != groups_of_core.end() ? beside->second : groups_of_l3[core->l3]) {
      group->cpus.push_back(cpu);
    }
  }
  for (PlannedGroup& group : *groups) {
    std::sort(group.cpus.begin(), group.cpus.end());
    group.cpus.erase(std::unique(group.cpus.begin(), group.cpus.end()), group.cpus.end());
  }
}

void PlanPool(const Pool& pool, Sizes sizes, std::vector<PlannedGroup>* groups) {
  Row row;
  Cuts cuts;
  for (Row& candidate : RowsToTry(DomainsOf(pool, sizes))) {
    Cuts found = RowCutter(candidate, sizes).Cheapest();
    if (!row.empty() && !(found.cost < cuts.cost)) continue;
    row = std::move(candidate);
    cuts = std::move(found);
  }
  std::vector<PlannedGroup> made;
  std::size_t begin = 0;
  for (std::size_t end : cuts.ends) {
    made.push_back(MakeGroup(pool.node, Row(row.begin() + static_cast<std::ptrdiff_t>(begin),
                                            row.begin() + static_cast<std::ptrdiff_t>(end))));
    begin = end;
  }
  AddSpareCpus(pool, &made);
  std::stable_sort(made.begin(), made.end(), [](const PlannedGroup& a, const PlannedGroup& b) {
    return *std::min_element(a.worker_cpus.begin(), a.worker_cpus.end()) <
           *std::min_element(b.worker_cpus.begin(), b.worker_cpus.end());
  });
  std::move(made.begin(), made.end(), std::back_inserter(*groups));
}

// ---- 4: neighbours ----

// Where a group is, as far as distance goes.
struct Place {
  std::set<int> l3s;
  std::set<int> packages;
  int node = 0;      // This and the following: of worker 0; ordinals: of the node among those with groups,
  int l3 = 0;        // of the L3 domain in the node,
  int position = 0;  // of the group in the L3 domain
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

  // Among equals: the next node or L3 domain first, and there the group with our own position, or the one after it.
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

void FindNeighbours(const numa::Topology& topology, std::vector<PlannedGroup>* groups) {
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

// "5-23 0-4": runs of three and more shortened, in this order.
std::string FormatOrder(const std::vector<int>& numbers) {
  std::ostringstream out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (last < i + 2) last = i;
    out << ' ' << numbers[i];
    if (last > i) out << '-' << numbers[last];
    i = last + 1;
  }
  return out.str();
}

}  // namespace

unsigned GroupPlan::WorkerCount() const {
  return std::accumulate(groups.begin(), groups.end(), 0U, [](unsigned sum, auto& g) { return sum + g.workers; });
}

std::string GroupPlan::ToString() const {
  std::ostringstream out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const PlannedGroup& group = groups[g];
    out << "group " << g << ": " << group.workers << (group.workers == 1 ? " worker" : " workers");
    if (group.node >= 0) out << ", node " << group.node;
    std::vector<int> planned = group.worker_cpus;
    std::sort(planned.begin(), planned.end());
    planned.erase(std::unique(planned.begin(), planned.end()), planned.end());
    out << ", CPUs " << numa::FormatCpuList(planned);
    if (planned != group.cpus) out << " (may use " << numa::FormatCpuList(group.cpus) << ')';
    for (std::size_t n = 0; n < group.neighbours.size();) {
      const int distance = group.neighbours[n].distance;
      const bool same_node = group.neighbours[n].same_node;
      std::vector<int> equal;
      for (; n < group.neighbours.size() && group.neighbours[n].distance == distance &&
             group.neighbours[n].same_node == same_node;
           ++n) {
        equal.push_back(group.neighbours[n].group);
      }
      if (same_node) {
        out << "; steals from" << FormatOrder(equal);
      } else {
        out << "; at distance " << distance << " from" << FormatOrder(equal);
      }
    }
    out << '\n';
  }
  return out.str();
}

std::optional<GroupPlan> PlanGroups(const numa::Topology& topology, const PlanWishes& wishes, std::string* error) {
  if (topology.cpus.empty()) {
    *error = "no CPU to plan for";
    return std::nullopt;
  }
  if (wishes.group_size > kMaxWishedGroupSize) {
    *error = "group size " + std::to_string(wishes.group_size) + " is not in 0.." + std::to_string(kMaxWishedGroupSize);
    return std::nullopt;
  }
  const unsigned workers = wishes.workers != 0 ? wishes.workers : topology.UsableCpuCount();
  Sizes sizes;
  if (wishes.group_size != 0) sizes = {.min = (wishes.group_size + 1) / 2, .max = wishes.group_size};

  using Numa = PlanWishes::Numa;
  std::vector<Pool> pools = MakePools(topology, wishes.numa == Numa::kOff && topology.nodes.size() > 1);
  if (wishes.numa == Numa::kAuto) {
    pools = ChoosePools(topology, std::move(pools), workers, sizes.min, wishes.near_cpu);
  }
  ShareWorkers(workers, sizes.min, &pools);
  GroupPlan plan;
  for (Pool& pool : pools) {
    if (pool.workers == 0) continue;
    SeatWorkers(&pool, wishes.near_cpu);
    PlanPool(pool, sizes, &plan.groups);
  }
  FindNeighbours(topology, &plan.groups);
  return plan;
}

}  // namespace weft::scheduling_group
