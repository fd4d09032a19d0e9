// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/fiber_report.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ios>
#include <locale>
#include <ostream>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/context/stack/stack_registry.h"

namespace weft::observe {

using scheduling_group::WaitKind;

namespace {

std::string Hex(std::uint64_t value) {
  std::array<char, 20> text;
  static_cast<void>(std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value)));
  return text.data();
}

std::string Seconds(std::chrono::nanoseconds time) {
  std::array<char, 32> text;
  const double seconds = std::chrono::duration<double>(time).count();
  static_cast<void>(std::snprintf(text.data(), text.size(), "%.3g s", seconds));
  return text.data();
}

// "3 s", or "1.2 s to 3 s".
template <class Time>
std::string Range(Time least, Time most) {
  const std::string low = Seconds(least);
  const std::string high = Seconds(most);
  return low == high ? low : low + " to " + high;
}

std::chrono::milliseconds DueIn(timer::Tick tick) {
  return std::chrono::floor<std::chrono::milliseconds>(timer::BeginOfTick(tick) - FiberClock::now());
}

std::string Object(scheduling_group::WaitReason reason) {
  if (reason.of_descriptor()) return " of descriptor " + std::to_string(reason.object());
  return reason.object() != 0 ? " " + Hex(reason.object()) : "";
}

const char* ToString(StackNote note) {
  switch (note) {
    case StackNote::kNotBegun:
      return "it has no stack yet";
    case StackNote::kRunning:
      return "a worker uses its stack, which is not shown";
    case StackNote::kNoAnswer:
      return "its stack is not shown: its thread did not answer in time, is in a signal's handler or just left the "
             "fiber";
    case StackNote::kChanging:
      return "its stack is not shown: it ran while it was being read";
    case StackNote::kUnreadable:
      return "its stack cannot be read";
    case StackNote::kRead:
    case StackNote::kNotWanted:
      break;
  }
  return "";
}

void WriteQuoted(std::ostream& out, std::string_view text) {
  out << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      // A byte is shown as the character of that number: names need not be UTF-8.
      std::array<char, 8> escaped;
      static_cast<void>(std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned char>(c)));
      out << escaped.data();
    } else {
      out << c;
    }
  }
  out << '"';
}

// As in messages: "1", or with a name "1 (batch)".
std::string LabelOfGroup(const FiberRecord& fiber) {
  if (!fiber.group) return "?";
  const std::string number = std::to_string(*fiber.group);
  return fiber.group_name.empty() ? number : number + " (" + fiber.group_name + ")";
}

std::string Describe(const FiberRecord& fiber) { return scheduling_group::DescribeFiber(fiber.name, fiber.id); }

}  // namespace

void FiberReport::Add(FiberRecord fiber) {
  ++count_;
  ++counts_[StateOf(fiber)];
  if (!fiber.only_counted) fibers_.push_back(std::move(fiber));
}

void FiberReport::Remark(std::string line) { remarks_.push_back(std::move(line)); }

void FiberReport::Write(std::ostream& out) {
  FindOwners();
  // Numbers are as they should be, whatever the stream's user has set.
  const std::ios::fmtflags flags = out.flags(std::ios::dec | std::ios::skipws);
  const std::locale locale = out.imbue(std::locale::classic());
  out.width(0);
  if (options_.format == DumpOptions::Format::kJson) {
    WriteJson(out);
  } else {
    WriteText(out);
  }
  out.flags(flags);
  out.imbue(locale);
  out.flush();
}

void FiberReport::FindOwners() {
  for (const FiberRecord& fiber : fibers_) {
    by_entity_[fiber.entity] = &fiber;
    if (fiber.stack_top != 0) by_top_[fiber.stack_top] = &fiber;
  }
}

// nullptr: it has none, or a thread.
const FiberRecord* FiberReport::OwnerOf(const FiberRecord& fiber) const {
  if (!fiber.is_parked) return nullptr;
  if (fiber.reason.kind() == WaitKind::kJoin) {
    const auto found = by_entity_.find(fiber.reason.object());
    return found != by_entity_.end() ? found->second : nullptr;
  }
  if (fiber.owner_address == 0) return nullptr;
  const auto above = by_top_.upper_bound(fiber.owner_address);
  context::StackBounds bounds;
  if (above == by_top_.end() || !context::FindStack(reinterpret_cast<const void*>(fiber.owner_address), &bounds)) {
    return nullptr;
  }
  return above->first <= reinterpret_cast<std::uintptr_t>(bounds.high) ? above->second : nullptr;
}

std::vector<FiberReport::Group> FiberReport::MakeGroups() const {
  using Key = std::tuple<std::string_view, WaitKind, StackNote, int>;
  std::map<Key, Group> by_key;
  for (const FiberRecord& fiber : fibers_) {
    if (!filter_.Accepts(fiber)) continue;
    const WaitKind kind = fiber.is_parked ? fiber.reason.kind() : WaitKind::kNone;
    by_key[{StateOf(fiber), kind, fiber.stack_note, fiber.stack}].fibers.push_back(&fiber);
  }
  std::vector<Group> groups;
  for (auto& [key, group] : by_key) {
    std::sort(group.fibers.begin(), group.fibers.end(),
              [](const FiberRecord* a, const FiberRecord* b) { return a->id < b->id; });
    groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::make_pair(b.fibers.size(), a.first().id) < std::make_pair(a.fibers.size(), b.first().id);
  });
  return groups;
}

const FrameName& FiberReport::NameOf(std::uint64_t address) {
  const auto [found, is_new] = names_.try_emplace(address);
  if (is_new) found->second = unwinder_.Name(address, options_.source_lines);
  return found->second;
}

// --- Text ---

void FiberReport::WriteText(std::ostream& out) {
  out << "weft: " << count_ << " fibers: " << counts_["parked"] << " parked, " << counts_["ready"] << " ready, "
      << counts_["new"] << " new, " << counts_["running"] << " running\n";
  if (options_.stacks && !unwinder_.why_not().empty()) out << "no stacks are shown: " << unwinder_.why_not() << "\n";
  for (const std::string& remark : remarks_) out << remark << "\n";
  const std::vector<Group> groups = MakeGroups();
  if (!options_.filter.empty()) {
    std::size_t shown = 0;
    for (const Group& group : groups) shown += group.fibers.size();
    out << shown << " of them match '" << options_.filter << "'\n";
  }
  const std::size_t shown = std::min(groups.size(), options_.most_groups);
  for (std::size_t i = 0; i < shown; ++i) WriteTextGroup(out, groups[i]);
  if (shown < groups.size()) out << "\n... and " << groups.size() - shown << " more groups of fibers\n";
  if (timers_.count != 0) WriteTextTimers(out);
}

void FiberReport::WriteTextTimers(std::ostream& out) const {
  constexpr std::size_t kMostKinds = 10;
  out << "\n" << timers_.count << " timers with callbacks are set";
  if (!timers_.complete) out << ", and perhaps more: a lock was not to be had";
  out << "\n";
  for (std::size_t i = 0; i < std::min(timers_.kinds.size(), kMostKinds); ++i) {
    const timer::TimerKind& kind = timers_.kinds[i];
    out << "  " << kind.count << " with " << kind.callback;
    if (kind.periodic != 0) out << ", " << kind.periodic << " of them periodic";
    if (kind.armed != 0) out << ", due in " << Range(DueIn(kind.next), DueIn(kind.last));
    out << "\n";
  }
  if (timers_.kinds.size() > kMostKinds) {
    out << "  ... and those of " << timers_.kinds.size() - kMostKinds << " more kinds of callbacks\n";
  }
}

void FiberReport::WriteTextGroup(std::ostream& out, const Group& group) {
  const FiberRecord& first = group.first();
  const bool single = group.fibers.size() == 1;
  out << "\n" << (single ? Describe(first) : std::to_string(group.fibers.size()) + " fibers") << ", " << StateOf(first);
  if (first.is_parked) WriteTextWait(out, group);
  std::set<std::string> groups;
  for (const FiberRecord* fiber : group.fibers) groups.insert(LabelOfGroup(*fiber));
  out << ", in group";
  for (const std::string& number : groups) out << " " << number;
  const auto cancelled = std::count_if(group.fibers.begin(), group.fibers.end(),
                                       [](const FiberRecord* fiber) { return fiber->cancelled; });
  if (single && cancelled != 0) out << ", cancelled";
  if (!single && cancelled != 0) out << ", " << cancelled << " of them cancelled";
  out << "\n";
  if (!single) WriteTextList(out, group);
  WriteTextStack(out, first);
}

void FiberReport::WriteTextWait(std::ostream& out, const Group& group) {
  const FiberRecord& first = group.first();
  std::set<std::uint64_t> objects;
  std::set<const FiberRecord*> owners;
  std::vector<std::chrono::milliseconds> ages;
  std::vector<std::chrono::nanoseconds> limits;
  for (const FiberRecord* fiber : group.fibers) {
    objects.insert(fiber->reason.object());
    if (const FiberRecord* owner = OwnerOf(*fiber)) owners.insert(owner);
    ages.push_back(fiber->waits_for);
    if (fiber->limit) limits.push_back(*fiber->limit);
  }
  out << ": " << ToString(first.reason.kind());
  if (objects.size() == 1) {
    out << Object(first.reason);
  } else {
    out << " (" << objects.size() << " different ones)";
  }
  const char* const verb = first.reason.kind() == WaitKind::kJoin ? " of " : ", owned by ";
  if (owners.size() == 1) out << verb << Describe(**owners.begin());
  if (owners.size() > 1) out << verb << owners.size() << " fibers";
  const auto age = std::minmax_element(ages.begin(), ages.end());
  out << ", for " << Range(*age.first, *age.second);
  if (limits.empty()) return;
  const auto limit = std::minmax_element(limits.begin(), limits.end());
  out << ", deadline in " << Range(*limit.first, *limit.second);
}

void FiberReport::WriteTextList(std::ostream& out, const Group& group) {
  const std::size_t listed = std::min(group.fibers.size(), options_.most_listed);
  if (listed == 0) return;
  out << "  ";
  for (std::size_t i = 0; i < listed; ++i) {
    const FiberRecord& fiber = *group.fibers[i];
    if (i != 0) out << ", ";
    if (!fiber.name.empty()) out << "'" << fiber.name << "' ";
    out << "(id " << fiber.id << ")";
  }
  if (listed < group.fibers.size()) out << " and " << group.fibers.size() - listed << " more";
  out << "\n";
}

void FiberReport::WriteTextStack(std::ostream& out, const FiberRecord& fiber) {
  if (fiber.stack == StackTable::kNone) {
    const char* const note = ToString(fiber.stack_note);
    if (options_.stacks && unwinder_.why_not().empty() && *note != '\0') out << "  " << note << "\n";
    return;
  }
  for (const std::uint64_t address : stacks_[static_cast<std::size_t>(fiber.stack)]) {
    const FrameName& name = NameOf(address);
    out << "  " << Hex(address) << " " << (name.function.empty() ? "?" : name.function);
    if (!name.file.empty()) {
      out << " (" << name.file << ":" << name.line << ")";
    } else if (name.function.empty() && !name.module.empty()) {
      out << " (" << name.module << ")";
    }
    out << "\n";
  }
}

// --- JSON ---

void FiberReport::WriteJson(std::ostream& out) {
  const std::vector<Group> groups = MakeGroups();
  std::map<int, std::size_t> numbers;  // of the stacks that are shown
  out << "{\"fibers\": " << count_ << ", \"why_no_stacks\": ";
  WriteQuoted(out, options_.stacks ? unwinder_.why_not() : "not asked for");
  out << ", \"remarks\": [";
  const char* separator = "";
  for (const std::string& remark : remarks_) {
    out << std::exchange(separator, ", ");
    WriteQuoted(out, remark);
  }
  out << "], \"groups\": [";
  separator = "\n";
  for (const Group& group : groups) {
    const FiberRecord& first = group.first();
    out << std::exchange(separator, ",\n") << "{\"count\": " << group.fibers.size() << ", \"state\": \""
        << StateOf(first) << "\"";
    if (first.is_parked) out << ", \"reason\": \"" << ToString(first.reason.kind()) << "\"";
    if (first.stack != StackTable::kNone) {
      out << ", \"stack\": " << numbers.try_emplace(first.stack, numbers.size()).first->second;
    }
    out << ", \"fibers\": [";
    const char* between = "\n  ";
    for (const FiberRecord* fiber : group.fibers) {
      out << std::exchange(between, ",\n  ");
      WriteJsonFiber(out, *fiber);
    }
    out << "]}";
  }
  out << "],\n\"stacks\": [";
  std::vector<std::size_t> shown(numbers.size());
  for (const auto& [stack, number] : numbers) shown[number] = static_cast<std::size_t>(stack);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    out << (i == 0 ? "\n" : ",\n");
    WriteJsonStack(out, shown[i]);
  }
  out << "]";
  if (timers_.count != 0) WriteJsonTimers(out);
  if (cycles_) WriteJsonCycles(out);
  out << "}\n";
}

void FiberReport::WriteJsonTimers(std::ostream& out) const {
  out << ",\n\"timers\": [";
  const char* separator = "\n  ";
  for (const timer::TimerKind& kind : timers_.kinds) {
    out << std::exchange(separator, ",\n  ") << "{\"count\": " << kind.count << ", \"callback\": ";
    WriteQuoted(out, kind.callback);
    out << ", \"periodic\": " << kind.periodic;
    if (kind.armed != 0) {
      out << ", \"next_due_in_ms\": " << DueIn(kind.next).count()
          << ", \"last_due_in_ms\": " << DueIn(kind.last).count();
    }
    out << "}";
  }
  out << "]";
}

void FiberReport::WriteJsonCycles(std::ostream& out) const {
  out << ",\n\"cycles\": [";
  const char* separator = "\n";
  for (const WaitCycle& cycle : *cycles_) {
    out << std::exchange(separator, ",\n") << "{\"may_end\": " << (cycle.may_end ? "true" : "false")
        << ", \"fibers\": [";
    const char* between = "\n  ";
    for (const WaitCycle::Member& member : cycle.members) {
      out << std::exchange(between, ",\n  ") << "{\"id\": " << member.id << ", \"name\": ";
      WriteQuoted(out, member.name);
      out << ", \"reason\": \"" << member.reason << "\", \"object\": \"" << Hex(member.object)
          << "\", \"waits_for_ms\": " << member.waits_for.count() << "}";
    }
    out << "]}";
  }
  out << "]";
}

void FiberReport::WriteJsonFiber(std::ostream& out, const FiberRecord& fiber) {
  out << "{\"id\": " << fiber.id << ", \"name\": ";
  WriteQuoted(out, fiber.name);
  if (fiber.group) out << ", \"group\": " << *fiber.group;
  if (!fiber.group_name.empty()) out << ", \"group_name\": \"" << fiber.group_name << '"';
  if (fiber.is_parked) {
    if (fiber.reason.of_descriptor()) {
      out << ", \"descriptor\": " << fiber.reason.object();
    } else if (fiber.reason.object() != 0) {
      out << ", \"object\": \"" << Hex(fiber.reason.object()) << "\"";
    }
    if (const FiberRecord* owner = OwnerOf(fiber)) out << ", \"owner\": " << owner->id;
    out << ", \"waits_for_ms\": " << fiber.waits_for.count();
    if (fiber.limit) out << ", \"deadline_in_ms\": " << *fiber.limit / std::chrono::milliseconds(1);
  }
  out << ", \"in_scope\": " << (fiber.in_scope ? "true" : "false")
      << ", \"cancelled\": " << (fiber.cancelled ? "true" : "false") << "}";
}

void FiberReport::WriteJsonStack(std::ostream& out, std::size_t number) {
  out << "[";
  const char* separator = "\n  ";
  for (const std::uint64_t address : stacks_[number]) {
    const FrameName& name = NameOf(address);
    out << std::exchange(separator, ",\n  ") << "{\"address\": \"" << Hex(address) << "\", \"function\": ";
    WriteQuoted(out, name.function);
    out << ", \"file\": ";
    WriteQuoted(out, name.file);
    out << ", \"line\": " << name.line << ", \"module\": ";
    WriteQuoted(out, name.module);
    out << "}";
  }
  out << "]";
}

}  // namespace weft::observe
