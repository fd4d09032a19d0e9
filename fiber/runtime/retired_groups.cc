// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/retired_groups.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/worker/worker_slot.h"

namespace weft::fiber::detail {

using scheduling_group::SchedulingGroup;

namespace {

// In a forked child (RT6).
constinit std::atomic<bool> are_the_parents{false};

}  // namespace

RetiredGroups& RetiredGroups::Get() {
  static auto* const retired = new RetiredGroups;
  return *retired;
}

void RetiredGroups::Reserve(std::size_t groups) {
  KeepTheParentsApart();
  closed_.reserve(closed_.size() + groups);
  with_unfinished_fibers_.reserve(with_unfinished_fibers_.size() + groups);
}

void RetiredGroups::BelongToParent() noexcept { are_the_parents.store(true, std::memory_order_relaxed); }

void RetiredGroups::KeepTheParentsApart() {
  // relaxed: set while the process has one thread.
  if (!are_the_parents.load(std::memory_order_relaxed)) return;
  auto& kept = with_unfinished_fibers_;
  kept.reserve(kept.size() + closed_.size());
  std::move(closed_.begin(), closed_.end(), std::back_inserter(kept));  // Descriptors may refer to their pollers.
  closed_.clear();
  are_the_parents.store(false, std::memory_order_relaxed);
}

std::unique_ptr<SchedulingGroup> RetiredGroups::ReuseOrMake(const SchedulingGroup::Options& options) {
  const auto found =
      std::find_if(closed_.begin(), closed_.end(), [&](const auto& group) { return group->CanReopen(options); });
  if (found == closed_.end()) {
    return std::unique_ptr<SchedulingGroup>(new (numa::OnNode{options.node}) SchedulingGroup(options));
  }
  (*found)->Reopen(options);  // May throw: before it leaves the list.
  std::unique_ptr<SchedulingGroup> group = std::move(*found);
  closed_.erase(found);
  return group;
}

void RetiredGroups::Retire(std::vector<std::unique_ptr<SchedulingGroup>> groups, std::size_t unfinished) {
  const bool closes = unfinished == 0 && !scheduling_group::LeftThreads::Any();
  auto& list = closes ? closed_ : with_unfinished_fibers_;
  for (auto& group : groups) {
    group->SetIdleHook({});
    if (closes) {
      group->Close();
    } else {
      group->Abandon();
      (void)group->stacks().Trim(0);
    }
    list.push_back(std::move(group));
  }
  unfinished_fibers_ += unfinished;
  if (unfinished != 0) scheduling_group::LostFibers::Add(unfinished);
}

}  // namespace weft::fiber::detail
