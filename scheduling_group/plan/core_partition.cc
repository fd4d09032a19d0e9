// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/core_partition.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace weft::scheduling_group::planning {
namespace {

// See core_partition.h.
struct Cost {
  unsigned far_off = 0;
  unsigned straddling = 0;
  unsigned missing = 0;
  unsigned mixed = 0;
  unsigned groups = 0;
  unsigned squares = 0;

  Cost operator+(const Cost& other) const {
    return {far_off + other.far_off, straddling + other.straddling, missing + other.missing,
            mixed + other.mixed,     groups + other.groups,         squares + other.squares};
  }
  bool operator<(const Cost& other) const { return Weights() < other.Weights(); }

 private:
  std::tuple<unsigned, unsigned, unsigned, unsigned, unsigned, unsigned> Weights() const {
    return {far_off, straddling, missing, mixed, groups, squares};
  }
};

Cost CostOfGroup(unsigned workers, bool straddles, bool mixed, GroupSizes sizes) {
  const auto lacks = [&](unsigned least) { return workers < least ? least - workers : 0; };
  return {.far_off = lacks((sizes.min + 1) / 2),
          .straddling = straddles ? 1U : 0U,
          .missing = lacks(sizes.min),
          .mixed = mixed ? 1U : 0U,
          .groups = 1,
          .squares = workers * workers};
}

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
      bool mixed = false;
      for (std::size_t i = j; i-- > 0;) {
        workers += row_[i].workers;
        mixed = mixed || row_[i].kind() != row_[j - 1].kind();
        if (i + 1 < j && (workers > sizes_.max || row_[i].alone || row_[j - 1].alone)) break;
        const Cost cost = best[i] + CostOfGroup(workers, Straddles(i, j), mixed, sizes_);
        // Only if better, so that of equal ways the one wins whose larger groups come first.
        if (i + 1 == j || cost < best[j]) std::tie(best[j], from[j]) = std::pair(cost, i);
      }
    }
    Cuts cuts{.cost = best.back(), .ends = {}};
    for (std::size_t end = row_.size(); end > 0; end = from[end]) cuts.ends.insert(cuts.ends.begin(), end);
    return cuts;
  }

 private:
  bool Straddles(std::size_t begin, std::size_t end) const {
    const int first = row_[begin].l3();
    const int last = row_[end - 1].l3();
    return first != last && (domain_.at(first).first < begin || domain_.at(last).second > end);
  }

  const Row& row_;
  const GroupSizes sizes_;
  std::map<int, std::pair<std::size_t, std::size_t>> domain_;  // from where to where in the row
};

constexpr int kSeveralKinds = -1;

// What the search sees of a core, or of a whole L3 domain.
struct Part {
  unsigned workers;
  int kind;  // of its cores, or kSeveralKinds
  bool operator>(const Part& other) const { return std::tie(workers, kind) > std::tie(other.workers, other.kind); }
};

// The search: makes groups of whole parts, at the least cost. A state is how many parts of each type are left; the
// cheapest way to make groups of a state begins with a group that has a part of the largest type. Types and the states
// of fewer parts come first.
class Packing {
 public:
  Packing(const std::vector<Part>& parts, GroupSizes sizes) : sizes_(sizes) {
    std::map<Part, std::vector<std::size_t>, std::greater<>> by_type;
    for (std::size_t i = 0; i < parts.size(); ++i) by_type[parts[i]].push_back(i);
    for (auto& [part, members] : by_type) {
      left_.push_back(members.size());
      types_.push_back({part, std::move(members), 0});
    }
  }

  // The parts, group by group: their indices, equal ones in their order.
  std::vector<std::size_t> Order() {
    while (CountStates() > kMostStates) TakeGreedily();
    const std::size_t states = CountStates();
    best_.assign(states, Cost());
    choice_.assign(states, 0);
    for (std::size_t state = 1; state < states; ++state) Solve(state);
    for (std::size_t state = states - 1; state > 0;) {
      const std::size_t group = choice_[state];
      for (Type& type : types_) Take(&type, group / type.stride % type.radix);
      state -= group;
    }
    return std::move(order_);
  }

 private:
  static constexpr std::size_t kMostStates = 2048;  // Milliseconds. A node of 12 equal domains has 13.

  struct Type {
    Part part;
    std::vector<std::size_t> members;  // indices
    std::size_t taken;
    std::size_t stride = 0;  // what one of it adds to the number of a state
    std::size_t radix = 0;
  };
  struct Group {
    unsigned workers;
    bool mixed;
    std::size_t number;  // as a state
  };

  // Sets the strides, too.
  std::size_t CountStates() {
    std::size_t states = 1;
    for (std::size_t t = types_.size(); t-- > 0;) {
      types_[t].stride = states;
      types_[t].radix = left_[t] + 1;
      states *= types_[t].radix;
      if (states > kMostStates) break;
    }
    return states;
  }

  void Take(Type* type, std::size_t count) {
    for (; count > 0; --count) order_.push_back(type->members[type->taken++]);
  }

  // A group of the largest parts that fit.
  void TakeGreedily() {
    unsigned workers = 0;
    for (std::size_t t = 0; t < types_.size(); ++t) {
      while (left_[t] > 0 && (workers == 0 || workers + types_[t].part.workers <= sizes_.max)) {
        workers += types_[t].part.workers;
        --left_[t];
        Take(&types_[t], 1);
      }
    }
  }

  void Solve(std::size_t state) {
    for (std::size_t t = 0; t < types_.size(); ++t) left_[t] = state / types_[t].stride % types_[t].radix;
    const auto first = static_cast<std::size_t>(
        std::find_if(left_.begin(), left_.end(), [](std::size_t count) { return count > 0; }) - left_.begin());
    const Type& largest = types_[first];
    --left_[first];
    Try(state, first, {largest.part.workers, largest.part.kind == kSeveralKinds, largest.stride}, largest.part.kind);
  }

  // Tries `group`, and all that have more parts: of `type` and of those after it.
  void Try(std::size_t state, std::size_t type, const Group& group, int kind) {
    for (std::size_t t = type; t < types_.size(); ++t) {
      const Part& part = types_[t].part;
      if (left_[t] == 0 || group.workers + part.workers > sizes_.max) continue;
      --left_[t];
      Try(state, t, {group.workers + part.workers, group.mixed || part.kind != kind, group.number + types_[t].stride},
          kind);
      ++left_[t];
    }
    const Cost cost =
        best_[state - group.number] + CostOfGroup(group.workers, /*straddles=*/false, group.mixed, sizes_);
    if (choice_[state] != 0 && !(cost < best_[state])) return;
    best_[state] = cost;
    choice_[state] = group.number;
  }

  const GroupSizes sizes_;
  std::vector<Type> types_;
  std::vector<std::size_t> left_;  // of each type
  std::vector<Cost> best_;
  std::vector<std::size_t> choice_;  // the first group, as the state of its parts
  std::vector<std::size_t> order_;
};

template <typename T, typename PartOf>
void Pack(std::vector<T>* things, GroupSizes sizes, PartOf part_of) {
  std::vector<Part> parts;
  for (const T& thing : *things) parts.push_back(part_of(thing));
  std::vector<T> packed;
  for (const std::size_t i : Packing(parts, sizes).Order()) packed.push_back(std::move((*things)[i]));
  *things = std::move(packed);
}

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

Part PartOf(const Row& domain) {
  Part part{.workers = 0, .kind = domain.front().kind()};
  for (const Item& item : domain) {
    part.workers += item.workers;
    if (item.kind() != part.kind) part.kind = kSeveralKinds;
  }
  return part;
}

void PackCores(Row* domain, GroupSizes sizes) {
  const auto others = std::stable_partition(domain->begin(), domain->end(), [](const Item& i) { return i.alone; });
  Row rest(others, domain->end());
  Pack(&rest, sizes, [](const Item& item) { return Part{item.workers, item.kind()}; });
  std::copy(rest.begin(), rest.end(), others);
}

// Whether a domain is not left whole: it is too large, or has enough of each kind of core.
bool IsDivided(const Row& domain, GroupSizes sizes) {
  const Part part = PartOf(domain);
  if (part.workers > sizes.max) return true;
  if (part.kind != kSeveralKinds) return false;
  const Cost cost = RowCutter(domain, sizes).Cheapest().cost;
  return cost.missing == 0 && cost.mixed == 0;
}

// The domains side by side: those that are divided, then the others as they are packed.
Row PackedRow(const std::vector<Row>& domains, GroupSizes sizes) {
  Row row;
  std::vector<Row> whole;
  for (const Row& domain : domains) {
    if (IsDivided(domain, sizes)) {
      row.insert(row.end(), domain.begin(), domain.end());
    } else {
      whole.push_back(domain);
    }
  }
  Pack(&whole, sizes, PartOf);
  for (const Row& domain : whole) row.insert(row.end(), domain.begin(), domain.end());
  return row;
}

std::vector<Row> RowsToTry(std::vector<Row> domains, GroupSizes sizes) {
  std::vector<Row> rows(2);
  for (const Row& domain : domains) rows[0].insert(rows[0].end(), domain.begin(), domain.end());
  std::map<int, std::vector<Row>> packages;
  for (Row& domain : domains) {
    PackCores(&domain, sizes);
    packages[domain.front().package()].push_back(domain);
  }
  for (const auto& [package, parts] : packages) {
    const Row row = PackedRow(parts, sizes);
    rows[1].insert(rows[1].end(), row.begin(), row.end());
  }
  if (packages.size() > 1) rows.push_back(PackedRow(domains, sizes));
  return rows;
}

}  // namespace

std::vector<Row> PartitionCores(const CpuPool& pool, GroupSizes sizes) {
  Row row;
  Cuts cuts;
  for (Row& candidate : RowsToTry(DomainsOf(pool, sizes), sizes)) {
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
