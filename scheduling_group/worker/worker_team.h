// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WorkerTeam: the worker threads of one group, from Start() to Join().
//
// Invariants
//   WT1  After Start() each worker of the group has a thread, or, if the system refuses one, none has.
//   WT2  While the threads run, the Watchdog runs too.
// One thread, which may not be a worker of the group, calls all of it.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_WORKER_TEAM_H_
#define WEFT_SCHEDULING_GROUP_WORKER_WORKER_TEAM_H_

#include <memory>
#include <thread>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/thread/parker.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/worker_slot.h"

namespace weft::scheduling_group {

class WorkerTeam {
 public:
  explicit WorkerTeam(SchedulingGroup* group) : group_(group) {}
  ~WorkerTeam();  // only after Stop() and Join(), or without Start()
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  // One thread per worker, named FiberWorker_<group>_<worker>, or if the group has a name
  // <name>_<group>_<worker>, bound as the group's options say. False: WT1.
  [[nodiscard]] bool Start();
  // After SchedulingGroup::Stop(). Workers that are still in a fiber at the deadline are left behind (worker_slot.h);
  // returns them. The group and the team must then stay in memory.
  std::vector<LeftWorker> Join(Deadline deadline = {});

 private:
  void RunWorker(unsigned index, const std::vector<int>& cpus);  // the body of a thread

  SchedulingGroup* const group_;
  bool watched_ = false;  // by Watchdog
  std::vector<std::thread> threads_;
  std::unique_ptr<base::Parker[]> ended_;  // by worker: its thread is about to end
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_WORKER_TEAM_H_
