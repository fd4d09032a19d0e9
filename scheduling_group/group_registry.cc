// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group_registry.h"

#include <atomic>
#include <utility>

#include "weft/base/cpu.h"
#include "weft/scheduling_group/current_worker.h"

namespace weft::scheduling_group {
namespace {

std::vector<SchedulingGroup*> all_groups;         // written while no fiber runs
std::atomic<std::size_t> group_count{0};          // publishes all_groups
thread_local std::size_t next_group_ordinal = 0;  // each thread goes round for itself: nothing is shared

WEFT_TLS_ACCESSOR std::size_t NextOrdinal() noexcept {
  base::OpaqueBarrier();
  return next_group_ordinal++;
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

SchedulingGroup* NextGroup() noexcept {
  const std::size_t count = GroupCount();
  if (count <= 1) return GroupAt(0);
  return all_groups[NextOrdinal() % count];
}

SchedulingGroup* GroupAt(std::size_t index) noexcept { return index < GroupCount() ? all_groups[index] : nullptr; }

// acquire: pairs with the release in SetGroups().
std::size_t GroupCount() noexcept { return group_count.load(std::memory_order_acquire); }

void SetGroups(std::vector<SchedulingGroup*> groups) {
  group_count.store(0, std::memory_order_relaxed);
  all_groups = std::move(groups);
  group_count.store(all_groups.size(), std::memory_order_release);  // Pairs with the acquire in GroupCount().
}

}  // namespace weft::scheduling_group
