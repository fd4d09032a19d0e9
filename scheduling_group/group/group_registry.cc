// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/group_registry.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {

// Written while group_count is 0 and no thread reads.
constinit std::array<SchedulingGroup*, kMaxGroups> all_groups{};
constinit std::atomic<std::size_t> group_count{0};  // publishes all_groups, and peers

namespace {

struct Range {
  std::uint16_t begin = 0;
  std::uint16_t end = 0;
};
constinit std::array<Range, kMaxGroups> peers{};  // of each group, by index (GR3)
constinit std::atomic<bool> runtime_has_run{false};
// Each thread goes round by itself, so that nothing is shared.
constinit thread_local std::size_t next_group_ordinal = 0;

WEFT_TLS_ACCESSOR std::size_t NextOrdinal() noexcept {
  base::OpaqueBarrier();
  return next_group_ordinal++;
}

// relaxed: set while the process has one thread.
constinit std::atomic<bool> is_forked_child{false};

void Write(const char* text) noexcept {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // No one to report it to.
}

}  // namespace

SchedulingGroup* CurrentGroup() noexcept {
  const WorkerBase* worker = CurrentWorker();
  return worker != nullptr ? worker->group : nullptr;
}

SchedulingGroup* NearestGroup() noexcept {
  SchedulingGroup* current = CurrentGroup();
  return current != nullptr ? current : NextGroup();
}

SchedulingGroup* NextGroup() noexcept { return NextPeerOf(CurrentGroup()); }

SchedulingGroup* NextPeerOf(const SchedulingGroup* group) noexcept {
  const std::span<SchedulingGroup* const> groups = PeersOf(group);
  if (groups.size() <= 1) return groups.empty() ? nullptr : groups[0];
  return groups[NextOrdinal() % groups.size()];
}

std::span<SchedulingGroup* const> AllGroups() noexcept {
  // acquire: pairs with the release in SetGroups().
  return {all_groups.data(), group_count.load(std::memory_order_acquire)};
}

std::span<SchedulingGroup* const> PeersOf(const SchedulingGroup* group) noexcept {
  const std::span<SchedulingGroup* const> groups = AllGroups();
  if (groups.empty()) return groups;
  // A FiberLoop's, and that of a thread that was left behind, are none of them.
  const std::size_t index = group != nullptr ? static_cast<std::size_t>(group->id()) : 0;
  const Range range = peers[index < groups.size() && groups[index] == group ? index : 0];
  return groups.subspan(range.begin, range.end - range.begin);
}

void CheckRuntimeHasRun(const char* caller) {
  // relaxed: it says nothing about other data.
  WEFT_CHECK(runtime_has_run.load(std::memory_order_relaxed), caller,
             ": the runtime does not run: call weft::StartRuntime() first");
}

void CheckMayBeRefused(const char* caller) {
  CheckNotForkedChild(caller);
  CheckRuntimeHasRun(caller);
}

void ForgetGroups() noexcept { group_count.store(0, std::memory_order_relaxed); }

void SetGroups(const std::vector<SchedulingGroup*>& groups) noexcept {
  WEFT_CHECK(groups.size() <= kMaxGroups, "SetGroups: ", groups.size(), " groups are too many");
  if (groups.empty()) {
    group_count.store(0, std::memory_order_relaxed);  // The wait makes a fence.
    WaitForReadSections();
    return;
  }
  std::copy(groups.begin(), groups.end(), all_groups.begin());
  for (std::size_t begin = 0, end = 0; begin < groups.size(); begin = end) {
    while (end < groups.size() && groups[end]->name() == groups[begin]->name()) ++end;
    const Range range{.begin = static_cast<std::uint16_t>(begin), .end = static_cast<std::uint16_t>(end)};
    std::fill_n(&peers[begin], end - begin, range);
  }
  runtime_has_run.store(true, std::memory_order_relaxed);
  group_count.store(groups.size(), std::memory_order_release);  // Pairs with the acquire in AllGroups().
}

void MarkForkedChild() noexcept {
  is_forked_child.store(true, std::memory_order_relaxed);
  SetCurrentWorker(nullptr);
  ForgetOtherThreadsSections();
}

bool IsForkedChild() noexcept { return is_forked_child.load(std::memory_order_relaxed); }

WEFT_NOINLINE WEFT_COLD void WarnOfForkedChild(const char* caller) noexcept {
  Write("Weft: ");
  Write(caller);
  Write(": ");
  Write(kForkedChildMessage);
  Write("\n");
}

void CheckNotForkedChild(const char* caller) noexcept {
  if (WEFT_LIKELY(!IsForkedChild())) return;
  WarnOfForkedChild(caller);
  std::abort();
}

}  // namespace weft::scheduling_group
