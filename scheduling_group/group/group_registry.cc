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
#include <span>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/numa/memory/affinity.h"
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
// Those of the first name by node, if they are on several. As all_groups.
struct NodeGroups {
  int node = -1;
  std::size_t begin = 0;  // in groups_by_node
  std::size_t count = 0;
};
constexpr std::size_t kMaxNodes = 64;  // With more, the nearest groups are those of all nodes.
constinit std::array<SchedulingGroup*, kMaxGroups> groups_by_node{};
constinit std::array<NodeGroups, kMaxNodes> nodes{};
constinit std::size_t node_count = 0;
// Each thread goes round by itself, so that nothing is shared, and for each name by itself (as far as 8 names go).
constinit thread_local std::array<std::uint32_t, 8> next_group_ordinals{};

WEFT_TLS_ACCESSOR std::size_t NextOrdinal(std::size_t first) noexcept {
  base::OpaqueBarrier();
  return next_group_ordinals[first % next_group_ordinals.size()]++;
}

constinit thread_local const SchedulingGroup* served_group = nullptr;

// Of a thread. The kernel is asked at each kAskNodeEvery-th call only: the answer takes part of the time of a start. A
// thread that has changed its node starts at most so many fibers on its former one.
constexpr unsigned kAskNodeEvery = 16;
constinit thread_local int node_of_thread = -1;
constinit thread_local unsigned calls_until_asked = 0;

WEFT_TLS_ACCESSOR int NodeOfThread() noexcept {
  base::OpaqueBarrier();
  if (calls_until_asked-- == 0) {
    node_of_thread = numa::CurrentNode();
    calls_until_asked = kAskNodeEvery - 1;
  }
  return node_of_thread;
}

void SortByNode(std::span<SchedulingGroup* const> groups) noexcept {
  std::copy(groups.begin(), groups.end(), groups_by_node.begin());
  const auto end = groups_by_node.begin() + static_cast<std::ptrdiff_t>(groups.size());
  std::sort(groups_by_node.begin(), end, [](const SchedulingGroup* a, const SchedulingGroup* b) {
    return a->node() != b->node() ? a->node() < b->node() : a->id() < b->id();
  });
  node_count = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const int node = groups_by_node[i]->node();
    if (node_count == 0 || nodes[node_count - 1].node != node) {
      if (node_count == kMaxNodes) {
        node_count = 0;
        return;
      }
      nodes[node_count++] = {.node = node, .begin = i};
    }
    ++nodes[node_count - 1].count;
  }
}

SchedulingGroup* InTurn(std::span<SchedulingGroup* const> groups) noexcept {
  if (groups.size() <= 1) return groups.empty() ? nullptr : groups[0];
  return groups[NextOrdinal(static_cast<std::size_t>(groups.front()->id())) % groups.size()];
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
  if (SchedulingGroup* const current = CurrentGroup()) return current;
  const std::span<SchedulingGroup* const> all = PeersOf(ServedGroup());
  if (all.data() != PeersOf(nullptr).data()) return InTurn(all);
  if (all.empty() || node_count <= 1) return InTurn(all);
  const int here = NodeOfThread();
  for (const NodeGroups& node : std::span(nodes).first(node_count)) {
    if (node.node == here) return InTurn(std::span(groups_by_node).subspan(node.begin, node.count));
  }
  return InTurn(all);
}

SchedulingGroup* NextGroup() noexcept {
  const SchedulingGroup* const own = CurrentGroup();
  return NextPeerOf(own != nullptr ? own : ServedGroup());
}

WEFT_TLS_ACCESSOR void ServeGroup(const SchedulingGroup* group) noexcept {
  base::OpaqueBarrier();
  served_group = group;
}

WEFT_TLS_ACCESSOR const SchedulingGroup* ServedGroup() noexcept {
  base::OpaqueBarrier();
  return served_group;
}

SchedulingGroup* NextPeerOf(const SchedulingGroup* group) noexcept { return InTurn(PeersOf(group)); }

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

bool IsCallersName(std::size_t wanted) noexcept {
  const SchedulingGroup* const own = CurrentGroup();
  const std::span<SchedulingGroup* const> groups = AllGroups();
  const std::size_t first = wanted - kNamedGroups;
  return own != nullptr && !own->of_loop() && first < groups.size() &&
         PeersOf(own).data() == PeersOf(groups[first]).data();
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
  SortByNode(std::span(all_groups).subspan(peers[0].begin, peers[0].end - peers[0].begin));
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
