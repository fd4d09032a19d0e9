// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RetiredGroups: the scheduling groups of runtimes that have ended, kept for the runtimes to come.
//
// A group without unfinished fibers is closed: the memory of its queues, worker slots and stacks goes back. Its last
// kilobyte and its poller are used again by the next runtimes, whatever their options: descriptors that outlive a
// runtime refer to the poller (io/reactor/reactor.h). Groups with unfinished fibers stay as they are, and never run
// again; so do those that end while a thread lives that was left behind.
//
// Invariant
//   RT6  A child forked while no runtime ran uses no group of the parent's runtimes: it shares their pollers with the
//        parent, and if both started a runtime, each would take the other's events.
//
// For the thread that starts or terminates the runtime (RT1 in runtime.cc), unless a function says otherwise.
#ifndef WEFT_FIBER_RUNTIME_RETIRED_GROUPS_H_
#define WEFT_FIBER_RUNTIME_RETIRED_GROUPS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::fiber::detail {

class RetiredGroups {
 public:
  // Those of the process; never destroyed.
  static RetiredGroups& Get();

  RetiredGroups() = default;
  RetiredGroups(const RetiredGroups&) = delete;
  RetiredGroups& operator=(const RetiredGroups&) = delete;

  // Makes room for so many groups: nothing may fail when it comes to retire them.
  void Reserve(std::size_t groups);

  // A closed group that can be opened anew with these options, or a new one.
  std::unique_ptr<scheduling_group::SchedulingGroup> ReuseOrMake(
      const scheduling_group::SchedulingGroup::Options& options);

  // The groups of a runtime, in which so many fibers are left behind. Their workers have ended, or have been left
  // behind (WL3 in scheduling_group/worker/worker_slot.h).
  void Retire(std::vector<std::unique_ptr<scheduling_group::SchedulingGroup>> groups, std::size_t unfinished);

  // In all runtimes so far.
  std::size_t unfinished_fibers() const { return unfinished_fibers_; }

  // In a forked child, at once: what Get() holds is the parent's. Async-signal-safe.
  static void BelongToParent() noexcept;

 private:
  void KeepTheParentsApart();

  std::vector<std::unique_ptr<scheduling_group::SchedulingGroup>> closed_;
  std::vector<std::unique_ptr<scheduling_group::SchedulingGroup>> with_unfinished_fibers_;
  std::size_t unfinished_fibers_ = 0;
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_RETIRED_GROUPS_H_
