// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/counters.h"

#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::scheduling_group {
namespace {

std::uint64_t Read(const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

WorkerCounts GroupCounts::Sum() const {
  WorkerCounts sum;
  for (const WorkerCounts& worker : workers) {
    sum.begun += worker.begun;
    sum.finished += worker.finished;
    sum.switches += worker.switches;
    sum.spins += worker.spins;
    sum.sleeps += worker.sleeps;
    sum.wakes += worker.wakes;
    sum.idle_searches += worker.idle_searches;
    sum.peer_takes += worker.peer_takes;
    sum.adopted += worker.adopted;
    sum.queue_visits += worker.queue_visits;
    sum.queue_fibers += worker.queue_fibers;
  }
  return sum;
}

GroupCounts ReadCounts(const SchedulingGroup& group) {
  GroupCounts counts;
  counts.group = group.id();
  counts.name = group.name();
  counts.node = group.node();
  counts.ready = group.queue_size();
  counts.overflowed = group.overflow_count();
  counts.oldest_ready = group.overload().oldest();
  counts.starts_refused = group.starts_refused();
  counts.stack_high_water = group.group_stacks().high_water();
  const context::StackPool::Statistics stacks = group.group_stacks().pool().statistics();
  counts.stacks_in_use = stacks.in_use;
  counts.stacks_cached = stacks.free_warm;
  if (const Reactor* reactor = group.reactor()) counts.reactor = reactor->counts();
  for (unsigned w = 0; w < group.size(); ++w) {
    const WorkerCounters& worker = group.counters(w);
    const QueueCounts queue = group.policy().CountsOf(w);
    counts.workers.push_back({.begun = Read(worker.begun),
                              .finished = Read(worker.finished),
                              .switches = Read(worker.switches),
                              .spins = Read(worker.spins),
                              .sleeps = Read(worker.sleeps),
                              .wakes = Read(worker.wakes),
                              .idle_searches = Read(worker.idle_searches),
                              .peer_takes = Read(worker.peer_takes),
                              .adopted = Read(worker.adopted),
                              .queue_visits = queue.visits,
                              .queue_fibers = queue.fibers});
    group.ready_waits(w).AddTo(&counts.ready_wait);
  }
  const SchedulingGroup::NeighbourList& neighbours = group.neighbours();
  for (std::size_t n = 0; n < neighbours.all.size(); ++n) {
    const SchedulingGroup::Neighbour& neighbour = neighbours.all[n];
    StealCounts steals{
        .group = neighbour.group->id(), .distance = neighbour.distance, .every_n = neighbour.steal_every_n};
    for (unsigned w = 0; w < group.size(); ++w) {
      const StealCounters& counters = neighbours.counters(w, n);
      steals.attempts += Read(counters.attempts);
      steals.stolen_in += Read(counters.stolen_in);
    }
    counts.steals.push_back(steals);
  }
  counts.stolen_out_same_node = Read(group.stolen_out(true));
  counts.stolen_out_other_node = Read(group.stolen_out(false));
  return counts;
}

}  // namespace weft::scheduling_group
