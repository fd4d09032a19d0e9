// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/contention.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/report/str_cat.h"
#include "weft/observe/dump/own_thread.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/observe/recorder/profile_writer.h"
#include "weft/observe/waits/frame_lines.h"
#include "weft/sync/wait/contention.h"

namespace weft {
namespace {

using observe::ProfileStack;
using observe::ProfileTotals;
using observe::StackUnwinder;
using synchronization::Contention;
using synchronization::ContentionSite;
using synchronization::ContentionStack;

bool BeginsWithOneOf(std::string_view name, std::span<const std::string_view> begins) {
  return std::any_of(begins.begin(), begins.end(), [&](std::string_view begin) { return name.starts_with(begin); });
}

// How Weft takes the stack, and calls a fiber's function.
bool IsInside(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kBegins = {
      "weft::synchronization::", "weft::FiberMutex::", "weft::FiberTimedMutex::"};
  return BeginsWithOneOf(name, kBegins);
}
bool IsOutside(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kBegins = {"weft_context_",
                                                              "weft::scheduling_group::", "weft::fiber::detail::"};
  return BeginsWithOneOf(name, kBegins);
}

class Names {
 public:
  // Adds the stack's names, the outermost first.
  void Add(const ContentionStack& stack, ProfileStack* to) {
    std::vector<std::string> names;
    for (const std::uintptr_t address : stack.frames) {
      if (address != 0) names.push_back(NameOf(address));
    }
    // Down to the last call into Weft among the innermost ones.
    constexpr std::size_t kMostInside = 8;
    auto first = names.begin();
    for (std::size_t i = 0; i < std::min(names.size(), kMostInside); ++i) {
      if (IsInside(names[i])) first = names.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    }
    // One at least: a lambda stands in the name of what calls it.
    while (names.end() - first > 1 && IsOutside(names.back())) names.pop_back();
    to->insert(to->end(), names.rbegin(), std::make_reverse_iterator(first));
  }

 private:
  const std::string& NameOf(std::uintptr_t address) {
    const auto [found, is_new] = names_.try_emplace(address);
    if (is_new) {
      found->second = unwinder_.why_not().empty() ? unwinder_.Name(address, /*source=*/false).function : "";
      if (found->second.empty()) found->second = observe::Hex(address);
    }
    return found->second;
  }

  StackUnwinder unwinder_;
  std::map<std::uintptr_t, std::string> names_;
};

ProfileTotals ReadTotals() {
  std::vector<ContentionSite> sites(Contention::kSites);
  const std::optional<std::size_t> count = Contention::Copy(sites.data());
  sites.resize(count.value_or(0));
  ProfileTotals totals;
  if (!Contention::has_samples()) totals[ProfileStack(1, "no samples: glibc is older than 2.35")];
  if (!count) totals[ProfileStack(1, "no samples: their table is being written: ask again")];
  Names names;
  for (const ContentionSite& site : sites) {
    ProfileStack stack{site.mutex != 0 ? "mutex " + observe::Hex(site.mutex) : "several mutexes"};
    const bool has_owner = site.owner.frames[0] != 0;
    stack.emplace_back(has_owner ? "owned by" : "no owner");
    names.Add(site.owner, &stack);
    stack.emplace_back("made wait");
    names.Add(site.waiter, &stack);
    observe::ProfileTotal& total = totals[std::move(stack)];
    total.count += static_cast<std::int64_t>(site.waits);
    total.ns += static_cast<std::int64_t>(site.ns);
  }
  if (const std::uint64_t lost = Contention::lost()) {
    totals[ProfileStack(1, base::StrCat("not kept: ", lost, " waits"))].count = static_cast<std::int64_t>(lost);
  }
  return totals;
}

std::string Write(ProfileFormat format) {
  const ProfileTotals totals = ReadTotals();
  if (format == ProfileFormat::kPprof) return observe::WritePprof(totals, std::chrono::nanoseconds(0));
  std::vector<std::pair<ProfileStack, observe::ProfileTotal>> lines(totals.begin(), totals.end());
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  return observe::WriteFolded(lines);
}

}  // namespace

std::string ContentionProfile(ProfileFormat format) {
  std::string profile;
  observe::OnOwnThread([&] { profile = Write(format); });
  return profile;
}

}  // namespace weft
