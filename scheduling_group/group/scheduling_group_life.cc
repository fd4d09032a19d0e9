// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// SchedulingGroup: how a group begins, ends and begins anew, and its memory.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/policy/policy_loop.h"

namespace weft::scheduling_group {
namespace {

constinit IdleGroupSlots slots;

PolicyDispatch MakeDispatch(const GroupOptions& options) {
  if (options.driven) return PolicyDispatch(std::make_unique<PolicyLoop>());
  return PolicyDispatch(options.policy,
                        {.workers = options.workers, .run_queue_size = options.run_queue_size, .node = options.node});
}

}  // namespace

constinit IdleGroups SchedulingGroup::all_idle_groups_;

SchedulingGroup::Parts::Parts(SchedulingGroup* group, const Options& options)
    : policy(MakeDispatch(options)),
      worker_slots(options.workers, options.node),
      ready_waits(options.workers, options.node, options.max_ready_wait, *options.clock),
      neighbours(options.workers),
      stacks(StackPoolOptions(options, group), options.record_stack_every) {}

SchedulingGroup::SchedulingGroup(const Options& options)
    : id_(options.id),
      slot_(all_idle_groups_, slots, /*wanted=*/!options.driven),  // Nobody steals from a driven one.
      // On a machine with one node all groups share one, whatever the node's number.
      entity_arena_(EntityPool::ArenaOn(numa::HasSeveralNodes() ? options.node : -1)),
      options_(options) {
  CheckGroupOptions(options);
  parts_.emplace(this, options_);
}

void SchedulingGroup::Stop() {
  attention_.SetStopping();
  for (unsigned w = 0; w < size(); ++w) Unpark(w);
}

void SchedulingGroup::Close() {
  WEFT_CHECK(stopping(), "SchedulingGroup::Close: group ", id(), " was not stopped");
  parts_.reset();
}

bool SchedulingGroup::CanReopen(const Options& options) const {
  // The poller knows the id, and the group itself lies on the node. (Only tests set another clock.)
  return options.id == options_.id && options.node == options_.node;
}

void SchedulingGroup::Reopen(const Options& options) {
  WEFT_CHECK(!parts_ && CanReopen(options), "SchedulingGroup::Reopen: group ", id(), " was not closed");
  CheckGroupOptions(options);
  options_ = options;
  parts_.emplace(this, options_);  // May throw: it stays closed.
  // relaxed, all: published by the last store.
  for (auto& stolen : stolen_out_) stolen.store(0, std::memory_order_relaxed);
  steal_requested_.store(false, std::memory_order_relaxed);
  start_gate_.Open();
  attention_.ClearStopping();  // Publishes the parts.
}

std::size_t SchedulingGroup::TrimIdleMemory() {
  context::CheckOverflowHandler();
  const std::size_t left = parts_->stacks.Trim(options_.warm_stacks);
  return left + EntityPool::Trim();
}

std::vector<std::span<const std::byte>> SchedulingGroup::Memory() const {
  std::vector<std::span<const std::byte>> memory = policy().Memory();
  memory.push_back(std::as_bytes(std::span(this, 1)));
  memory.push_back(std::as_bytes(parts_->worker_slots.objects()));
  memory.push_back(std::as_bytes(parts_->ready_waits.recorders().objects()));
  return memory;
}

}  // namespace weft::scheduling_group
