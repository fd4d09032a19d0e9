// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/fiber_filter.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "weft/base/report/str_cat.h"

namespace weft::observe {

using scheduling_group::FiberPhase;
using scheduling_group::WaitKind;

namespace {

constexpr std::array<const char*, 4> kStates{"new", "ready", "running", "parked"};
constexpr const char* kKnown = "known are name=, state=, reason=, age=, group= and id=";

// Calls visit(part) for each part between separators.
template <class Visit>
void Split(std::string_view text, char separator, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    visit(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "250ms", "3s", "5m", "2h".
std::optional<std::chrono::milliseconds> ParseTime(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::chrono::milliseconds>, 4> kUnits{
      {{"ms", std::chrono::milliseconds(1)},
       {"s", std::chrono::seconds(1)},
       {"m", std::chrono::minutes(1)},
       {"h", std::chrono::hours(1)}}};
  for (const auto& [unit, length] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto count = ParseNumber<std::uint32_t>(text.substr(0, text.size() - unit.size()));
    if (!count) return std::nullopt;
    return std::int64_t{*count} * length;
  }
  return std::nullopt;
}

std::optional<WaitKind> ParseKind(std::string_view text) {
  for (std::uint8_t i = 1; i < static_cast<std::uint8_t>(WaitKind::kCount); ++i) {
    if (text == ToString(static_cast<WaitKind>(i))) return static_cast<WaitKind>(i);
  }
  return std::nullopt;
}

std::string AllKinds() {
  std::string list;
  for (std::uint8_t i = 1; i < static_cast<std::uint8_t>(WaitKind::kCount); ++i) {
    list += (i == 1 ? "" : ", ") + std::string(ToString(static_cast<WaitKind>(i)));
  }
  return list;
}

template <class Container, class Value>
bool HasOrIsEmpty(const Container& container, const Value& value) {
  return container.empty() || std::find(container.begin(), container.end(), value) != container.end();
}

}  // namespace

const char* StateOf(const FiberRecord& fiber) {
  switch (fiber.phase) {
    case FiberPhase::kReady:
      return fiber.stack_top == 0 ? "new" : "ready";
    case FiberPhase::kParked:
      return "parked";
    default:
      return "running";
  }
}

std::optional<FiberFilter> FiberFilter::Parse(std::string_view text, std::string* error) {
  FiberFilter filter;
  std::set<std::string_view> keys;
  error->clear();
  Split(text, ',', [&](std::string_view term) {
    if (!error->empty()) return;
    const std::size_t equals = term.find('=');
    const bool has_both = equals != std::string_view::npos && equals + 1 != term.size();
    std::string why = has_both ? filter.Add(term.substr(0, equals), term.substr(equals + 1)) : kKnown;
    if (why.empty() && !keys.insert(term.substr(0, equals)).second)
      why = "once only; several states are state=new|ready";
    if (!why.empty()) *error = base::StrCat("DumpFibers: unknown filter '", term, "': ", why);
  });
  if (!error->empty()) return std::nullopt;
  return filter;
}

std::string FiberFilter::Add(std::string_view key, std::string_view value) {
  std::string why;
  if (key == "name") {
    name_ = value;
  } else if (key == "state") {
    Split(value, '|', [&](std::string_view state) {
      if (std::find(kStates.begin(), kStates.end(), state) == kStates.end()) {
        why = "the states are new, ready, running and parked";
      }
      states_.emplace_back(state);
    });
  } else if (key == "reason") {
    Split(value, '|', [&](std::string_view reason) {
      const std::optional<WaitKind> kind = ParseKind(reason);
      if (kind) {
        reasons_.push_back(*kind);
      } else {
        why = "the reasons are " + AllKinds();
      }
    });
  } else if (key == "age") {
    age_ = ParseTime(value);
    if (!age_) why = "an age is a number and ms, s, m or h";
  } else if (key == "group") {
    group_ = ParseNumber<int>(value);
    if (!group_) group_name_ = value;
    if (!group_ && value.front() >= '0' && value.front() <= '9') why = "a group is a number, or a name";
  } else if (key == "id") {
    id_ = ParseNumber<std::uint64_t>(value);
    if (!id_) why = "an id is a number";
  } else {
    why = kKnown;
  }
  return why;
}

bool FiberFilter::MayAccept(const FiberRecord& fiber) const {
  if (!HasOrIsEmpty(states_, StateOf(fiber))) return false;
  if (group_ && fiber.group != group_) return false;
  if (group_name_ && fiber.group_name != *group_name_) return false;
  return !id_ || fiber.id == *id_;
}

bool FiberFilter::Accepts(const FiberRecord& fiber) const {
  if (!MayAccept(fiber)) return false;
  if (name_ && ::fnmatch(name_->c_str(), fiber.name.c_str(), 0) != 0) return false;
  if (!reasons_.empty() && !(fiber.is_parked && HasOrIsEmpty(reasons_, fiber.reason.kind()))) return false;
  return !age_ || (fiber.is_parked && fiber.waits_for >= *age_);
}

}  // namespace weft::observe
