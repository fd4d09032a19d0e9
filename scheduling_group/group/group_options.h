// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GroupOptions: what a SchedulingGroup is made from.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_GROUP_OPTIONS_H_
#define WEFT_SCHEDULING_GROUP_GROUP_GROUP_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "weft/base/time/clock.h"
#include "weft/context/stack/stack_pool.h"

namespace weft::scheduling_group {

inline constexpr unsigned kMaxWorkersPerGroup = 64;

struct GroupOptions {
  int id = 0;
  unsigned workers = 1;  // 1..64
  std::string policy = "v1";
  bool driven = false;                  // driven_groups.h: one worker, which drives itself, and PolicyLoop
  std::size_t run_queue_size = 131072;  // a power of two
  std::size_t stack_size = 131072;      // bytes
  bool guard_pages = true;
  std::size_t guard_size = 65536;            // bytes, if guard_pages
  int node = -1;                             // NUMA node of its memory (of the group itself: OnNode); -1: any
  std::vector<int> cpus{};                   // its workers may run there; empty: anywhere
  std::vector<int> worker_cpus{};            // worker i runs on this one only; empty, or -1: on `cpus`
  std::chrono::nanoseconds spin_for{5'000};  // About one futex wake and sleep: bench/base/parker_benchmark.cc
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(2);
  std::size_t warm_stacks = 1024;                        // free stacks that TrimIdleMemory() leaves their memory
  std::size_t record_stack_every = 0;                    // of the group's stacks (group_stacks.h); 0: none
  context::StackPool::Options stacks{};                  // stack_size, guard and node above override it
  std::chrono::nanoseconds max_ready_wait{0};            // longer waits mean overload (ready_waits.h); 0: never
  const base::Clock* clock = &base::SteadyClock::Get();  // of ready fibers' waits

  bool operator==(const GroupOptions&) const = default;
};

// Aborts on an option out of range (the runtime has checked what users give).
void CheckGroupOptions(const GroupOptions& options);

// The options of the group's own stacks. owner: the group.
context::StackPool::Options StackPoolOptions(const GroupOptions& options, void* owner);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_GROUP_OPTIONS_H_
