// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RuntimeInstance: one runtime. The composition root: only its source file and runtime.cc know all layers.
//
//   StartRuntime                                    TerminateRuntime
//   ------------                                    ----------------
//   1  options are checked                          1  plain threads are refused new fibers; fibers are not
//   2  the machine is read, groups are planned      2  timers with callbacks are dropped, none can be set any more
//   3  groups are made; they know their victims     3  drain: waits until all fibers have ended, up to
//   4  timer threads start                             terminate_timeout; sleeps and timed waits end in time
//   5  workers start                                4  timer threads stop: nothing is woken by time any more
//   6  the runtime and its groups are published     5  workers stop, each when its fiber suspends or ends; threads that
//                                                      do not come back for kGraceForThreads more are left behind
//                                                   6  both are unpublished, and whoever still looks is waited for
//                                                   7  unfinished fibers are logged, by name and id
//
// If a step before 6 fails, the ones before it are undone: threads are joined, groups kept for the next start.
//
// An unfinished fiber never runs again, though waking it is harmless. Its stack is not unwound: running destructors
// under fibers that still refer to each other would be worse. A wait for its end ends the process, with a line that
// says so (scheduling_group/group/runtime_end.h).
//
// A fiber that blocks its worker's thread, or computes without end, is left behind with the thread; the log names both.
// It goes on until it suspends or returns, which nobody notices. It starts no fibers. So it is with a timer thread that
// is blocked by a callback.
//
// Invariants
//   RT2  After StartFiberDetached() says true the fiber runs, or step 7 counts it as unfinished. (Step 1 refuses, then
//        waits for all ReadSections: a spawner sees the refusal, or its fiber is queued, and in step 3's count.)
//   RT3  After step 6 only the terminating thread uses the runtime and its groups: even a plain thread that woke the
//        last fiber has left that wake-up (SchedulingGroup::Notify). So its groups can be closed.
//        Unless a thread has been left behind: while it lives, nothing of any runtime is freed (WL3).
//   RT5  A start that fails has changed nothing: it removes all that it made, and the next start begins anew.
//   RT6  A child forked while no runtime ran uses no group of the parent's runtimes: it shares their pollers with the
//        parent, and if both started a runtime, each would take the other's events.
//
// RetiredGroups: the scheduling groups of runtimes that have ended, kept for the runtimes to come. A group without
// unfinished fibers is closed: the memory of its queues, worker slots and stacks goes back. Its last kilobyte and its
// poller are used again by the next runtimes, whatever their options: descriptors that outlive a runtime refer to the
// poller (io/reactor/epoll_reactor.h). Groups with unfinished fibers stay as they are, and never run again; so do
// those that end while a thread lives that was left behind.
//
// For runtime.cc. By the thread that starts or terminates the runtime, unless a function says otherwise (RT1).
#ifndef WEFT_FIBER_RUNTIME_RUNTIME_INSTANCE_H_
#define WEFT_FIBER_RUNTIME_RUNTIME_INSTANCE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/fiber/runtime/runtime_plan.h"
#include "weft/fiber/runtime_options.h"
#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/group/counters.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/plan/group_plan.h"
#include "weft/scheduling_group/worker/worker_team.h"
#include "weft/timer/worker/timer_worker.h"

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

class RuntimeInstance {
 public:
  explicit RuntimeInstance(const RuntimeOptions& options) : terminate_timeout_(options.terminate_timeout) {}
  RuntimeInstance(const RuntimeInstance&) = delete;
  RuntimeInstance& operator=(const RuntimeInstance&) = delete;
  ~RuntimeInstance() = default;

  // Steps 3 to 5. False, with the reason, or an exception: Undo() must follow.
  [[nodiscard]] bool Start(const RuntimeOptions& options, RuntimePlan planned, std::string* error);
  void Undo();
  // Step 6.
  void Publish() noexcept;

  // Steps 1 to 7, once. How many fibers have not finished.
  std::size_t Terminate();
  // After that, and after Undo(). False: a thread that was left behind may still use it.
  static bool MayBeDestroyed();

  std::size_t group_count() const { return groups_.size(); }
  std::vector<scheduling_group::GroupCounts> counts() const;
  std::size_t largest_group() const { return largest_group_; }
  std::size_t worker_count() const { return worker_count_; }
  int planned_node(std::size_t group) const { return plan_.groups[group].node; }
  const std::string& name(std::size_t group) const { return plan_.groups[group].name; }
  // SchedulingGroupNamed()
  std::size_t GroupsNamed(std::string_view name) const;

  // How long threads may take to come back, beyond terminate_timeout: one that computes, and gives its worker back in a
  // moment, should not be left behind, also on a busy machine. Only tests change it.
  static constexpr std::chrono::milliseconds kGraceForThreads{1000};
  static inline std::chrono::milliseconds grace_for_threads_ = kGraceForThreads;

 private:
  void MakeGroups(const RuntimeOptions& options, const numa::Topology& here);
  void IntroduceNeighbours(const RuntimeOptions& options);
  bool StartTimers(std::string* error);
  bool StartWorkers(std::string* error);

  bool Drain();
  void StopWorkers(Deadline give_up);
  void Retire(std::size_t unfinished);

  const std::chrono::milliseconds terminate_timeout_;
  scheduling_group::GroupPlan plan_;
  std::size_t largest_group_ = 0;
  std::size_t worker_count_ = 0;
  Deadline drain_deadline_;
  mutable std::atomic<bool> has_warned_of_no_names_{false};
  std::vector<std::unique_ptr<scheduling_group::SchedulingGroup>> groups_;
  std::vector<scheduling_group::SchedulingGroup*> group_pointers_;  // the same
  std::vector<std::unique_ptr<timer::TimerWorker>> timers_;
  std::vector<std::unique_ptr<scheduling_group::WorkerTeam>> teams_;
};

// The published one. Changed while the runtime starts or ends (RT1); used by workers, and in ReadSections.
extern constinit std::atomic<RuntimeInstance*> the_runtime;

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_RUNTIME_INSTANCE_H_
