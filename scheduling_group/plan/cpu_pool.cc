// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/cpu_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace weft::scheduling_group::planning {
namespace {

unsigned CoreCount(const CpuPool& pool) { return static_cast<unsigned>(pool.cores.size()); }

bool HasCpu(const CpuPool& pool, int cpu) {
  return std::any_of(pool.cores.begin(), pool.cores.end(), [&](const Core& core) {
    return std::find(core.cpus.begin(), core.cpus.end(), cpu) != core.cpus.end();
  });
}

// The pool's cores by L3 domain, in the order in which domains are filled: the largest first, of equals the nearest.
std::vector<std::vector<Core*>> DomainsToFill(CpuPool* pool, int near_cpu) {
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

// Places workers on the second hardware threads of a domain's cores, then on the third ones ...
void PlaceOnSiblings(unsigned workers, const std::vector<Core*>& cores) {
  for (std::size_t thread = 1; workers > 0; ++thread) {
    for (Core* core : cores) {
      if (workers == 0 || thread >= core->cpus.size()) continue;
      ++core->workers;
      --workers;
    }
  }
}

}  // namespace

std::vector<unsigned> Apportion(unsigned total, const std::vector<unsigned>& capacities) {
  const std::uint64_t capacity = std::accumulate(capacities.begin(), capacities.end(), std::uint64_t{0});
  if (total >= capacity) return capacities;
  std::vector<unsigned> shares;
  std::vector<std::pair<std::uint64_t, std::size_t>> order;  // the largest fractions first, of equal ones the first
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    const std::uint64_t share = std::uint64_t{total} * capacities[i];
    shares.push_back(static_cast<unsigned>(share / capacity));
    order.emplace_back(capacity - share % capacity, i);
  }
  unsigned left = total - std::accumulate(shares.begin(), shares.end(), 0U);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; left > 0; ++i, --left) ++shares[order[i].second];
  return shares;
}

std::vector<CpuPool> MakePools(const numa::Topology& topology, bool numa_off) {
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
  std::vector<CpuPool> pools;
  for (auto& [node, cores] : cores_of_node) {
    CpuPool pool{.node = node};
    for (auto& [number, core] : cores) {
      pool.cpus += static_cast<unsigned>(core.cpus.size());
      pool.cores.push_back(std::move(core));
    }
    pools.push_back(std::move(pool));
  }
  return pools;
}

std::vector<CpuPool> ChoosePools(const numa::Topology& topology, std::vector<CpuPool> pools, unsigned workers,
                                 unsigned min_size, int near_cpu) {
  std::vector<CpuPool> chosen;
  unsigned cpus = 0;
  unsigned cores = 0;
  const auto enough = [&] {
    if (cpus < workers) return false;
    return cores >= workers || workers < min_size * (chosen.size() + 1);
  };
  while (!pools.empty() && !enough()) {
    // The largest; among equal ones that with near_cpu, then the nearest to the first, then the lowest number.
    const auto rank = [&](const CpuPool& pool) {
      const int distance = chosen.empty() ? 0 : topology.Distance(chosen.front().node, pool.node);
      return std::tuple(-static_cast<int>(CoreCount(pool)), -static_cast<int>(pool.cpus), !HasCpu(pool, near_cpu),
                        distance, pool.node);
    };
    const auto best = std::min_element(pools.begin(), pools.end(),
                                       [&](const CpuPool& a, const CpuPool& b) { return rank(a) < rank(b); });
    cpus += best->cpus;
    cores += CoreCount(*best);
    chosen.push_back(std::move(*best));
    pools.erase(best);
  }
  std::sort(chosen.begin(), chosen.end(), [](const CpuPool& a, const CpuPool& b) { return a.node < b.node; });
  return chosen;
}

void ShareWorkers(unsigned workers, unsigned min_size, std::vector<CpuPool>* pools) {
  unsigned left = workers;
  const auto give = [&](auto capacity_of) {
    std::vector<unsigned> capacities;
    for (const CpuPool& pool : *pools) {
      const unsigned capacity = capacity_of(pool);
      capacities.push_back(capacity > pool.workers ? capacity - pool.workers : 0);
    }
    const std::vector<unsigned> shares = Apportion(left, capacities);
    for (std::size_t i = 0; i < pools->size(); ++i) {
      (*pools)[i].workers += shares[i];
      left -= shares[i];
    }
  };
  if (workers >= min_size * pools->size()) {
    give([&](const CpuPool& pool) { return std::min(min_size, pool.cpus); });
  }
  give(CoreCount);
  unsigned round = 0;
  while (left > 0) {
    ++round;
    give([&](const CpuPool& pool) { return round * pool.cpus; });
  }
}

void PlaceWorkers(CpuPool* pool, int near_cpu) {
  const unsigned rounds = pool->workers / pool->cpus;  // On each CPU.
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
  const std::vector<unsigned> shares = Apportion(left, spare_siblings);
  for (std::size_t i = 0; i < domains.size(); ++i) PlaceOnSiblings(shares[i], domains[i]);
}

namespace {

// The faults of groups, the weightiest first.
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
  RowCutter(const Row& row, GroupSizes sizes) : row_(row), sizes_(sizes) {
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
        // Only if better, so that of equal ways the one wins whose larger groups come first.
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
  const GroupSizes sizes_;
  std::map<int, std::pair<std::size_t, std::size_t>> domain_;  // from where to where in the row
};

// Appends the workers of a core to the row, in `parts` items, the larger ones first.
void AddParts(const Core& core, unsigned parts, bool alone, Row* row) {
  for (unsigned part = 0, first = 0; part < parts; ++part) {
    const unsigned workers = core.workers / parts + (part < core.workers % parts ? 1 : 0);
    row->push_back({&core, first, workers, alone});
    first += workers;
  }
}

// The workers of the pool as items, by package, L3 domain and core.
std::vector<Row> DomainsOf(const CpuPool& pool, GroupSizes sizes) {
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

enum class Sequence {
  kFalling,  // the largest first
  kZigzag,   // the largest, the smallest, the second largest ...
  kSpread,   // those of each size evenly over the whole row
};
constexpr Sequence kSequences[] = {Sequence::kFalling, Sequence::kZigzag, Sequence::kSpread};

// The order in which to put parts of these sizes: indices, equal ones in their order. Not a template, for small code.
std::vector<std::size_t> Arrangement(const std::vector<unsigned>& sizes, Sequence sequence) {
  const std::size_t count = sizes.size();
  std::vector<std::pair<double, std::size_t>> sorted;
  sorted.reserve(count);
  for (std::size_t i = 0; i < count; ++i) sorted.emplace_back(-static_cast<double>(sizes[i]), i);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> indices(count);
  for (std::size_t i = 0; i < count; ++i) indices[i] = sorted[i].second;
  if (sequence == Sequence::kFalling) return indices;
  for (std::size_t i = 0; i < count; ++i) {
    if (sequence == Sequence::kZigzag) {
      sorted[i] = {i < (count + 1) / 2 ? 2 * i : 2 * (count - i) - 1, i};
      continue;
    }
    const unsigned size = sizes[indices[i]];
    const auto first = std::count_if(sizes.begin(), sizes.end(), [&](unsigned other) { return other > size; });
    const auto equal = std::count(sizes.begin(), sizes.end(), size);
    sorted[i] = {(static_cast<double>(i) - static_cast<double>(first) + 0.5) / static_cast<double>(equal), i};
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> arranged(count);
  for (std::size_t i = 0; i < count; ++i) arranged[i] = indices[sorted[i].second];
  return arranged;
}

template <typename T, typename SizeOf>
void Arrange(std::vector<T>* parts, Sequence sequence, SizeOf size_of) {
  std::vector<unsigned> sizes;
  for (const T& part : *parts) sizes.push_back(size_of(part));
  std::vector<T> arranged;
  arranged.reserve(parts->size());
  for (const std::size_t i : Arrangement(sizes, sequence)) arranged.push_back(std::move((*parts)[i]));
  *parts = std::move(arranged);
}

// The domains side by side, with packages kept together.
Row MakeRow(const std::vector<Row>& domains, std::optional<Sequence> sequence) {
  std::map<int, std::vector<Row>> packages;
  for (const Row& domain : domains) packages[domain.front().package()].push_back(domain);
  Row row;
  for (auto& [package, parts] : packages) {
    if (sequence) Arrange(&parts, *sequence, WorkersOf);
    for (const Row& part : parts) row.insert(row.end(), part.begin(), part.end());
  }
  return row;
}

template <typename List, typename SizeOf>
bool AllEqual(const List& list, SizeOf size_of) {
  return std::all_of(list.begin(), list.end(),
                     [&](const auto& item) { return size_of(item) == size_of(list.front()); });
}

std::vector<Row> RowsToTry(const std::vector<Row>& domains) {
  const auto workers_of = [](const Item& item) { return item.workers; };
  std::vector<std::vector<Row>> variants = {domains};
  if (!std::all_of(domains.begin(), domains.end(), [&](const Row& row) { return AllEqual(row, workers_of); })) {
    for (const Sequence sequence : kSequences) {
      variants.push_back(domains);
      for (Row& row : variants.back()) Arrange(&row, sequence, workers_of);
    }
  }
  std::vector<Row> rows;
  for (const auto& variant : variants) {
    rows.push_back(MakeRow(variant, std::nullopt));
    if (AllEqual(variant, WorkersOf)) continue;
    for (const Sequence sequence : kSequences) rows.push_back(MakeRow(variant, sequence));
  }
  return rows;
}

}  // namespace

std::vector<Row> PartitionCores(const CpuPool& pool, GroupSizes sizes) {
  Row row;
  Cuts cuts;
  for (Row& candidate : RowsToTry(DomainsOf(pool, sizes))) {
    Cuts found = RowCutter(candidate, sizes).Cheapest();
    if (!row.empty() && !(found.cost < cuts.cost)) continue;
    row = std::move(candidate);
    cuts = std::move(found);
  }
  std::vector<Row> groups;
  std::size_t begin = 0;
  for (std::size_t end : cuts.ends) {
    groups.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(begin),
                        row.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return groups;
}

}  // namespace weft::scheduling_group::planning
