// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/named_groups.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "weft/base/report/str_cat.h"
#include "weft/numa/machine/cpu_list.h"

namespace weft::scheduling_group {
namespace {

using base::StrCat;

// --- The text ---

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(Trim(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

// "a:1@0,2,b:1" has two items: one that begins with a digit goes on with the list of CPUs before it.
std::vector<std::string> SplitItems(std::string_view text) {
  std::vector<std::string> items;
  for (const std::string_view part : Split(text, ',')) {
    if (!items.empty() && !part.empty() && IsDigit(part.front()) && items.back().find('@') != std::string::npos) {
      items.back().append(",").append(part);
    } else {
      items.emplace_back(part);
    }
  }
  return items;
}

bool IsName(std::string_view text) {
  return !text.empty() && IsLetter(text.front()) && std::all_of(text.begin(), text.end(), [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '_' || c == '-';
  });
}

// The functions below return what is wrong, or an empty string.

std::string ParseWorkers(std::string_view text, NamedGroup* group) {
  const std::size_t at = text.find('@');
  const std::string_view number = Trim(text.substr(0, at));
  const auto [end, status] = std::from_chars(number.data(), number.data() + number.size(), group->workers);
  if (status == std::errc::invalid_argument || end != number.data() + number.size()) {
    return StrCat("'", number, "' is no number of workers, for ", group->name);
  }
  if (status != std::errc() || group->workers == 0 || group->workers > kMaxNamedWorkers) {
    return StrCat(group->name, " has ", number, " workers, and may have 1 to ", kMaxNamedWorkers);
  }
  if (at == std::string_view::npos) return {};
  std::string why;
  const auto cpus = numa::ParseCpuList(text.substr(at + 1), &why);
  if (!cpus.has_value()) return StrCat(group->name, " has a ", why);
  group->cpus = *cpus;
  return {};
}

std::string ParseItem(std::string_view item, NamedGroup* group) {
  const std::vector<std::string_view> parts = Split(item, ':');
  if (!IsName(parts[0])) {
    return StrCat("'", parts[0], "' is no name: it begins with a letter; letters, digits, _ and - follow");
  }
  if (parts[0].size() > kMaxNameLength) {
    return StrCat("a name of ", parts[0].size(), " characters, and it may have ", kMaxNameLength);
  }
  group->name = parts[0];
  if (parts.size() == 1) return StrCat(group->name, " has no number of workers, as in ", group->name, ":4");
  if (std::string wrong = ParseWorkers(parts[1], group); !wrong.empty()) return wrong;
  constexpr std::string_view kShares = "shares=";
  for (std::size_t i = 2; i < parts.size(); ++i) {
    if (!parts[i].starts_with(kShares)) {
      return StrCat("'", parts[i], "' is no option of ", group->name, ": there is only shares=<name>");
    }
    group->shares.emplace_back(Trim(parts[i].substr(kShares.size())));
  }
  return {};
}

const NamedGroup* Find(const std::vector<NamedGroup>& named, std::string_view name) {
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& group) { return group.name == name; });
  return found != named.end() ? &*found : nullptr;
}

std::string CheckTogether(const std::vector<NamedGroup>& named) {
  std::size_t workers = 0;
  for (const NamedGroup& group : named) workers += group.workers;
  if (workers > kMaxNamedWorkers) return StrCat(workers, " workers in all, and there may be ", kMaxNamedWorkers);
  for (const NamedGroup& group : named) {
    if (Find(named, group.name) != &group) return StrCat(group.name, " is there twice");
    for (const std::string& other : group.shares) {
      if (other == group.name) return StrCat(other, " shares with itself");
      if (Find(named, other) == nullptr) return StrCat(group.name, " shares with '", other, "', which is not there");
    }
    for (const NamedGroup& other : named) {
      if (&other == &group) break;
      std::vector<int> both;
      std::set_intersection(other.cpus.begin(), other.cpus.end(), group.cpus.begin(), group.cpus.end(),
                            std::back_inserter(both));
      if (both.empty() || other.cpus == group.cpus) continue;
      return StrCat(other.name, " and ", group.name, " both have CPU ", numa::FormatCpuList(both),
                    ": give each its own, or both the same list");
    }
  }
  return {};
}

// --- The plan ---

class Planner {
 public:
  Planner(const numa::Topology& machine, const std::vector<NamedGroup>& named, const PlanWishes& wishes)
      : machine_(machine), named_(named), wishes_(wishes) {
    for (const numa::Topology::Cpu& cpu : machine.cpus) left_.insert(cpu.os_id);
  }

  std::optional<GroupPlan> Plan(std::string* error) {
    unsigned to_come = 0;  // workers that have no CPUs yet
    unsigned workers = 0;
    for (const NamedGroup& group : named_) {
      workers += group.workers;
      if (group.cpus.empty()) to_come += group.workers;
      for (const int cpu : group.cpus) Take(cpu);
    }
    if (*error = TooMany(to_come, workers); !error->empty()) return std::nullopt;
    GroupPlan plan;
    for (const NamedGroup& group : named_) {
      const std::vector<int> cpus = !group.cpus.empty() ? Unplanned(group) : Choose(group.workers, to_come);
      const auto part = machine_.Restrict(cpus, error);
      if (!part.has_value() || !AddGroups(*part, group, &plan, error)) {
        *error = StrCat(group.name, ": ", *error);
        return std::nullopt;
      }
      if (group.cpus.empty()) to_come -= group.workers;
    }
    KeepApart(&plan);
    return plan;
  }

 private:
  void Take(int cpu) {
    left_.erase(cpu);
    if (const numa::Topology::Cpu* const found = machine_.FindCpu(cpu)) used_cores_.insert(found->core);
  }

  // NG4. Returns what is wrong, or an empty string.
  std::string TooMany(unsigned to_come, unsigned workers) const {
    if (to_come == 0) return {};
    const bool some_given = std::any_of(named_.begin(), named_.end(), [](const auto& g) { return !g.cpus.empty(); });
    std::string too_many;
    if (to_come > left_.size()) {
      too_many = StrCat(to_come, to_come == 1 ? " worker" : " workers", " for ", left_.size(),
                        left_.size() == 1 ? " CPU" : " CPUs", some_given ? " that no group has been given" : "");
    } else if (machine_.cpu_quota.has_value() && workers > std::ceil(*machine_.cpu_quota)) {
      too_many = StrCat(workers, " workers for a CPU quota of ", *machine_.cpu_quota);
    } else {
      return {};
    }
    const auto first = std::find_if(named_.begin(), named_.end(), [](const auto& g) { return g.cpus.empty(); });
    return StrCat(too_many, ": ask for fewer, or say where each group runs, as in ", first->name, ":", first->workers,
                  "@", machine_.cpus.front().os_id, ": its CPUs may be fewer, and several groups may have the same");
  }

  // Of the given CPUs those that no name with the same list has a worker on, if they are enough.
  std::vector<int> Unplanned(const NamedGroup& group) const {
    std::vector<int> cpus = group.cpus;
    std::erase_if(cpus, [this](int cpu) { return planned_.contains(cpu); });
    return cpus.size() >= group.workers ? cpus : group.cpus;
  }

  // The CPUs that a name with so many workers is planned on, where so many workers, with its own, are still to come.
  std::vector<int> Choose(unsigned workers, unsigned to_come) const {
    std::vector<int> fresh;  // on cores that nobody uses
    std::set<int> cores;
    using Key = std::tuple<bool, int, int, int, int, int>;
    std::set<Key> packed;
    for (const int id : left_) {
      const numa::Topology::Cpu& cpu = *machine_.FindCpu(id);
      const bool used = used_cores_.contains(cpu.core);
      packed.emplace(used, cpu.node, cpu.l3, cpu.core, cpu.smt, id);
      if (used) continue;
      fresh.push_back(id);
      cores.insert(cpu.core);
    }
    if (cores.size() >= to_come) return fresh;
    // Its share of the cores, with all their threads; more, one thread after the other, where these are too few.
    const std::size_t share = cores.size() * workers / to_come;
    std::vector<int> chosen;
    std::set<int> taken;
    for (const Key& next : packed) {
      const int id = std::get<5>(next);
      const int core = machine_.FindCpu(id)->core;
      const bool in_share =
          !std::get<0>(next) && (taken.size() < share || taken.contains(core)) && taken.size() <= share;
      if (chosen.size() >= workers && !in_share) break;
      chosen.push_back(id);
      taken.insert(core);
    }
    return chosen;
  }

  bool AddGroups(const numa::Topology& part, const NamedGroup& group, GroupPlan* plan, std::string* error) {
    PlanWishes wishes = wishes_;
    wishes.workers = group.workers;
    std::optional<GroupPlan> planned = PlanGroups(part, wishes, error);
    if (!planned.has_value()) return false;
    const bool bound = wishes_.numa != PlanWishes::Numa::kOff || machine_.nodes.size() == 1;
    for (PlannedGroup& made : planned->groups) {
      made.name = group.name;
      if (!bound) made.node = -1;  // The part may lie in one node, while another name's spans several.
      for (const int cpu : made.worker_cpus) Take(cpu);
      planned_.insert(made.worker_cpus.begin(), made.worker_cpus.end());
      plan->groups.push_back(std::move(made));
    }
    return true;
  }

  // NG2, NG3.
  void KeepApart(GroupPlan* plan) const {
    std::map<int, std::set<std::string>> names_on_core;
    for (const PlannedGroup& group : plan->groups) {
      for (const int cpu : group.worker_cpus) names_on_core[machine_.FindCpu(cpu)->core].insert(group.name);
    }
    for (PlannedGroup& group : plan->groups) {
      group.neighbours.clear();  // Their numbers are those of the name's own plan.
      if (!Find(named_, group.name)->cpus.empty()) continue;
      // It was planned before later names had their cores.
      std::erase_if(group.cpus, [&](int cpu) {
        const auto names = names_on_core.find(machine_.FindCpu(cpu)->core);
        return names != names_on_core.end() && !names->second.contains(group.name);
      });
    }
    planning::OrderNeighbours(machine_, &plan->groups);
    for (PlannedGroup& group : plan->groups) {
      std::erase_if(group.neighbours, [&](const PlannedGroup::Neighbour& neighbour) {
        return !Share(group.name, plan->groups[static_cast<std::size_t>(neighbour.group)].name);
      });
    }
  }

  bool Share(const std::string& a, const std::string& b) const {
    const auto says_so = [this](const std::string& name, const std::string& other) {
      const std::vector<std::string>& shares = Find(named_, name)->shares;
      return std::find(shares.begin(), shares.end(), other) != shares.end();
    };
    return a == b || says_so(a, b) || says_so(b, a);
  }

  const numa::Topology& machine_;
  const std::vector<NamedGroup>& named_;
  const PlanWishes& wishes_;
  std::set<int> left_;  // CPUs
  std::set<int> used_cores_;
  std::set<int> planned_;  // CPUs that have a worker
};

}  // namespace

std::optional<std::vector<NamedGroup>> ParseNamedGroups(std::string_view text, std::string* error) {
  std::vector<NamedGroup> named;
  for (const std::string& item : SplitItems(text)) {
    NamedGroup group;
    *error = ParseItem(item, &group);
    if (!error->empty()) {
      const bool of_a_list = !named.empty() && !named.back().shares.empty() && IsName(item);  // "a:1:shares=b,c"
      if (of_a_list) error->append("; each name to share with has a shares= of its own");
      return std::nullopt;
    }
    named.push_back(std::move(group));
  }
  *error = CheckTogether(named);
  if (!error->empty()) return std::nullopt;
  return named;
}

std::optional<GroupPlan> PlanNamedGroups(const numa::Topology& machine, const std::vector<NamedGroup>& named,
                                         const PlanWishes& wishes, std::string* error) {
  if (machine.cpus.empty()) {
    *error = "no CPU to plan for";
    return std::nullopt;
  }
  return Planner(machine, named, wishes).Plan(error);
}

}  // namespace weft::scheduling_group
