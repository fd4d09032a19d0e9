// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Loop groups: scheduling groups of one worker without a thread of its own. A FiberLoop (fiber/fiber_loop.h) has one,
// and the thread that made it runs as its worker (worker.h).
//
// They are in no registry: no start of another group's fiber, no steal and no timer of a plain thread finds them. Their
// fibers stay. What waits in their queue goes by PolicyLoop, first in, first out.
//
// A waker may still use the group after the fiber runs, to look for a sleeping worker, and is in a ReadSection only
// if it is a plain thread. So a group is never freed and never closed: GiveBack() keeps it for the next loop with the
// same options, and a late wake makes that loop's worker look around in vain. Of its former loop it keeps what serves
// as new: the event descriptor, the poller and the pace of its polls.
//
// Invariants
//   DRV1  A group in the hands of a loop has no fibers but that loop's: when it was given back all had ended.
//   DRV2  A child process uses no group that was made before the fork: its event descriptor is the parent's, too.
// Any thread.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_LOOP_GROUPS_H_
#define WEFT_SCHEDULING_GROUP_GROUP_LOOP_GROUPS_H_

#include <atomic>
#include <cstddef>
#include <vector>

#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/policy/policy_loop.h"

namespace weft::scheduling_group {

struct LoopGroup {
  LoopGroup(const GroupOptions& options, unsigned made_after_forks);

  PolicyLoop& policy() { return static_cast<PolicyLoop&>(group.policy()); }
  static LoopGroup* Of(const SchedulingGroup* group) noexcept {
    return static_cast<LoopGroup*>(group->loop_hook().arg);
  }
  std::size_t live_fibers() const noexcept;

  SchedulingGroup group;
  const unsigned forks;  // that had made the process when it was made
  // An eventfd that WakeLoop() writes to, to end the worker's wait; -1: none yet. release: carries the open eventfd;
  // pairs with the acquire in WakeLoop().
  std::atomic<int> event_fd{-1};
  void* loop = nullptr;  // the LoopCore that runs it
};

class LoopGroups {
 public:
  // Their ids: behind those of the runtime's groups.
  static constexpr int kFirstId = 1024;
  static constexpr int kMost = 1024;

  // The group's id and what one of a loop must have are set here. nullptr: there are kMost already. One that is lent
  // again has no fibers and stacks of its former loop, and no statistics that it shows.
  static LoopGroup* Borrow(GroupOptions options);
  // DRV1; by the loop, which is not asleep.
  static void GiveBack(LoopGroup* group);

  // All that were ever made.
  static std::vector<const SchedulingGroup*> All();

  // How many are in the hands of loops.
  static std::size_t Borrowed();

  // Of all of them, since the process began: fibers started, and fibers that have ended (before their memory was given
  // back). To be read before, and after, EntityPool::LiveFibers(): see WaitUntilNoFibers().
  static std::size_t FibersStarted();
  static std::size_t FibersFinished();

  // How many forks have made this process.
  static unsigned Forks() noexcept;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_LOOP_GROUPS_H_
