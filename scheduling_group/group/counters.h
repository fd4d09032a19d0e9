// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler counts. Users call ReadCounts(), or for all groups GetSchedulingCounts() in fiber/runtime.h.
// Counts begin at 0 when the runtime starts and only grow. Each worker counts on its own cache line, with plain
// additions; what threads outside the group do (stolen_out) needs atomic ones. A snapshot is not one instant: sums that
// must be equal (CT1, CT2) are so when nothing runs.
//
// Invariants
//   CT1  Each fiber begins and finishes once: when none is alive, the sums of `begun` and of `finished` are equal.
//   CT2  The thief's worker (StealCounts::stolen_in) and the group that it came from (stolen_out_*) both count a stolen
//        fiber, in the class of the same distance: when nothing runs, the sums over all groups are equal.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_COUNTERS_H_
#define WEFT_SCHEDULING_GROUP_GROUP_COUNTERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/scheduling_group/idle/reactor.h"
#include "weft/scheduling_group/watch/wait_samples.h"

namespace weft::scheduling_group {

class SchedulingGroup;

// One worker, at the time of the snapshot.
struct WorkerCounts {
  std::uint64_t begun = 0;          // fibers that ran here first
  std::uint64_t finished = 0;       // fibers that ended here
  std::uint64_t switches = 0;       // times it entered a fiber, or its loop
  std::uint64_t spins = 0;          // times it began to spin
  std::uint64_t sleeps = 0;         // times it went to sleep, even if its last search then found work
  std::uint64_t wakes = 0;          // times a producer or another worker woke it for work
  std::uint64_t idle_searches = 0;  // times it had nothing to do and checked whether it is time to steal
  std::uint64_t peer_takes = 0;     // times it took fibers that another worker of its group kept at hand
  std::uint64_t adopted = 0;        // fibers of other groups that their partners here took in (idle/adoption.h)
  // Of the shared queue. Not counted in groups of one worker, where each fiber is a visit.
  std::uint64_t queue_visits = 0;  // those that brought fibers
  std::uint64_t queue_fibers = 0;  // brought
};

// What one group has stolen from another.
struct StealCounts {
  int group = 0;      // the other
  int distance = 10;  // between their NUMA nodes, as in the ACPI table: 10 is the same node
  unsigned every_n = 0;
  std::uint64_t attempts = 0;
  std::uint64_t stolen_in = 0;  // fibers
};

// Of a group's timers: those with callbacks, and the time-outs of waits.
struct TimerCounts {
  std::uint64_t set = 0;  // also: set again
  std::uint64_t fired = 0;
  std::size_t armed = 0;  // now
  // How late they fired, of those that fired together the first one, at the granularity of a tick (timer_node.h).
  WaitHistogram lateness;
};

struct GroupCounts {
  int group = 0;
  std::string name;  // of the group (--fiber_groups); empty: none
  int node = -1;
  std::size_t ready = 0;                     // fibers that now wait for a worker
  std::size_t overflowed = 0;                // fibers readied while the run queue was full
  std::chrono::nanoseconds oldest_ready{0};  // so long the oldest of `ready` has waited, at least (ready_waits.h)
  std::uint64_t starts_refused = 0;          // starts, or batches, for which the run queue was full for too long
  // Bytes of stack that a fiber has used, at most, of those that were recorded (--fiber_record_stack_every).
  std::size_t stack_high_water = 0;
  // Of the default size: those of fibers and those that workers keep at hand; and those that are free and hold memory.
  std::size_t stacks_in_use = 0;
  std::size_t stacks_cached = 0;
  std::vector<WorkerCounts> workers;
  std::vector<StealCounts> steals;          // nearest first
  std::uint64_t stolen_out_same_node = 0;   // fibers taken from it by groups of its node
  std::uint64_t stolen_out_other_node = 0;  // ... by others

  WaitHistogram ready_wait;  // how long ready fibers waited until its workers ran them
  ReactorCounts reactor;     // all 0 until a fiber of the group has waited for a descriptor
  TimerCounts timers;        // only by GetSchedulingCounts()

  WorkerCounts Sum() const;
};

// Any thread, as long as the group lives.
GroupCounts ReadCounts(const SchedulingGroup& group);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_COUNTERS_H_
