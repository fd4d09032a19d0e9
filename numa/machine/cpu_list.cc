// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/machine/cpu_list.h"

#include <algorithm>
#include <charconv>

#include "weft/base/report/log.h"

namespace weft::numa {

namespace {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Returns what is wrong with it, or an empty string.
std::string ParseId(std::string_view text, int* id) {
  text = Trim(text);
  if (text.empty()) return "a number is missing";
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), *id);
  if (status == std::errc::result_out_of_range) return base::StrCat("'", text, "' is above ", kMaxCpuId);
  if (status != std::errc() || end != text.data() + text.size() || *id < 0) {
    return base::StrCat("'", text, "' is no number");
  }
  if (*id > kMaxCpuId) return base::StrCat("'", text, "' is above ", kMaxCpuId);
  return {};
}

// One item: "6" or "0-4".
std::string ParseItem(std::string_view item, std::vector<int>* ids) {
  const std::size_t dash = item.find('-');
  int first = 0;
  int last = 0;
  if (std::string wrong = ParseId(item.substr(0, dash), &first); !wrong.empty()) return wrong;
  last = first;
  if (dash != std::string_view::npos) {
    if (std::string wrong = ParseId(item.substr(dash + 1), &last); !wrong.empty()) return wrong;
    if (last < first) return base::StrCat("'", Trim(item), "' runs backwards");
  }
  for (int id = first; id <= last; ++id) ids->push_back(id);
  return {};
}

}  // namespace

std::optional<std::vector<int>> ParseCpuList(std::string_view text, std::string* error) {
  const auto fail = [&](std::string_view what) {
    if (error != nullptr) *error = base::StrCat("bad CPU list \"", text, "\": ", what, " (expected e.g. 0-4,6,7)");
    return std::nullopt;
  };
  std::vector<int> ids;
  if (Trim(text).empty()) return fail("it is empty");
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    if (std::string wrong = ParseItem(text.substr(start, comma - start), &ids); !wrong.empty()) return fail(wrong);
    start = comma + 1;
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::string FormatCpuList(std::span<const int> ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t run = 1;
    while (i + run < ids.size() && ids[i + run] == ids[i] + static_cast<int>(run)) ++run;
    if (run < 3) run = 1;  // "6,7" reads better than "6-7".
    if (!text.empty()) text += ',';
    text += std::to_string(ids[i]);
    if (run > 1) text += '-' + std::to_string(ids[i + run - 1]);
    i += run;
  }
  return text;
}

}  // namespace weft::numa
