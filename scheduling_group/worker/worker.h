// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Worker: the thread that runs the fibers of a group.
//
//       loop:  while (FiberEntity* f = NextFiber()) enter f
//
// There is no scheduler in between: a fiber that parks, yields or ends pops the next ready fiber and switches straight
// to it. If there is none it switches to the worker's own stack, the loop, where the worker spins, steals and sleeps.
//
// Some work must wait until the stack is left: pushing a fiber that yielded, publishing one that parked, freeing the
// stack of one that ended. `left_` and `switch_reason_` note it; the flow entered does it first (FinishSwitch).
//
// When a fiber ends and the next one has not begun yet, the next one starts on the same stack, without a switch and
// without the stack pool. Short fibers then cost hardly more than calls.
//
// Invariants
//   W1  `current` is the fiber whose stack the thread stands on, nullptr on the worker's own.
//   W2  Between a switch and FinishSwitch() nothing happens on the worker that could switch again.
//   W3  After a switch a fiber may be on another worker, which SwitchContext() returns: no pointer to a worker outlives
//       a switch.
//   W4  A worker without a fiber does what idle_loop.h says, and ends when told to stop. In time, or it is left behind
//       (worker_slot.h): then its fiber, if it ends after all, is not retired.
//   W5  Of a loop group: while a call of kind kMayWait (CallOnLoop()) waits, no other one begins, and those that come
//       queue. On the one stack a second one would have to end before the first one goes on, which may be what it waits
//       for: two that wait for one mutex, in order, would never end.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_WORKER_H_
#define WEFT_SCHEDULING_GROUP_WORKER_WORKER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/context/stack/stack_pool.h"
#include "weft/context/switch/context.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/events/recorder.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/idle/kept_timers.h"
#include "weft/scheduling_group/policy/policy_loop.h"
#include "weft/scheduling_group/queue/global_queue.h"
#include "weft/scheduling_group/queue/worker_queues.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {

class Worker final : public WorkerBase, public numa::NodeAllocated {
 public:
  // What the flow that is entered must do for the one that was left.
  enum class SwitchReason : std::uint8_t { kNothing, kParked, kPublished, kYielded, kDisplaced, kEnded };

  // Of a loop group: the loop makes and destroys it.
  Worker(SchedulingGroup* group, unsigned index);
  ~Worker();

  // The body of the worker's thread. Returns after SchedulingGroup::Stop(). False: the worker was left behind.
  [[nodiscard]] bool Run();

  // --- By the fiber that runs on it ---
  WEFT_ALWAYS_INLINE void Park(FiberEntity* self);  // state kParking
  WEFT_ALWAYS_INLINE void ParkKeeping(FiberEntity* self);
  WEFT_ALWAYS_INLINE void ParkAndPublish(FiberEntity* self, bool (*publish)(void*) noexcept, void* argument);
  void YieldCurrent() noexcept;  // so that its caller jumps here
  // Runs `next`: new, kReady, in no queue. The caller queues behind the others (kYielded) or goes on soon (kDisplaced).
  void RunInstead(FiberEntity* self, SwitchReason how, FiberEntity* next);
  // KT1 in idle/kept_timers.h.
  void GiveUpTimers() noexcept {
    if (kept_timers != nullptr) [[unlikely]] {
      std::exchange(kept_timers, nullptr)->GiveUp();
    }
  }
  // After time_slice.h has raised its flag.
  void YieldAfterSlice();
  // Of a loop group: the loop calls call(argument) on its own stack, and then goes on in the fiber at once.
  enum class LoopCallKind : std::uint8_t { kAtOnce, kMayWait };  // W5
  void CallOnLoop(FiberEntity* self, LoopCallKind kind, void (*call)(void* argument), void* argument);

  // --- By a FiberLoop, on its own stack (loop_groups.h): worker_in_loop.cc ---
  // The calling thread is the worker from here to EndLoop(). It may be that of another loop, in its main context: it
  // is that one again afterwards.
  void BeginLoop();
  void EndLoop();
  // The loop has just looked after timers and the poller. Runs the next ready fiber, and whatever runs after it until
  // it is time to look again. False: there is none.
  bool RunNext();
  // `fiber` is new and in no queue: runs it until it waits, yields or ends for the first time.
  void RunEagerly(FiberEntity* fiber);
  // Nothing is ready. True: from now on whoever makes a fiber ready ends the worker's sleep, which must follow:
  // SleepUntil(), or SleepElsewhere() and WakeUp(), or WakeUp() alone. False: something is ready.
  [[nodiscard]] bool AnnounceSleep();
  void SleepUntil(std::chrono::steady_clock::time_point until);
  // True: the thread that ends the sleep calls the group's LoopHook. False: the sleep has ended.
  [[nodiscard]] bool SleepElsewhere();
  void WakeUp();
  // While one lives, calls of kind kMayWait queue.
  class LoopCallsQueue;
  // The same: what runs in the main context waits, and the loop runs below it.
  class LoopCallWaits;

 private:
  class IdleSide;

  static Worker* Of(context::ThreadState* state) { return static_cast<Worker*>(static_cast<WorkerBase*>(state)); }
  [[noreturn]] static void FiberMain(context::ThreadState* here);  // every fiber's first frame

  FiberEntity* NextFiber();  // prepared to be entered; blocks; nullptr: stop
  // Prepared to be entered, or nullptr.
  FiberEntity* FindFiber();
  FiberEntity* Pop();
  // The same for a fiber that is about to leave.
  WEFT_ALWAYS_INLINE FiberEntity* NextFiberFor(FiberEntity* self, EventKind how);
  FiberEntity* NextFiberWithAttention(FiberEntity* self, EventKind how);
  // The same for one that has ended.
  WEFT_ALWAYS_INLINE FiberEntity* NextFiberAfter(FiberEntity* self);
  FiberEntity* NextFiberAfterRecorded(FiberEntity* self);
  void BeforeLeaving(FiberEntity* self);
  // Of a switch (events/recorder.h), if switches are recorded. self: nullptr: from the loop.
  void RecordSwitch(EventKind how, FiberEntity* self, FiberEntity* next) noexcept;
  void RecordEntry(FiberEntity* fiber) noexcept {
    if (group->attention().recorded()) [[unlikely]] {
      RecordSwitch(EventKind::kEntered, nullptr, fiber);
    }
  }
  WEFT_ALWAYS_INLINE bool PrepareToEnter(FiberEntity* fiber);
  bool GiveStack(FiberEntity* fiber);
  void CheckOverflowHandlerAtTimes();

  WEFT_ALWAYS_INLINE void StampPark(FiberEntity* self) {  // wait_reason.h
    self->ready_stamp = ReadyStamp::OfPark(ParkStamp(counters().switches.load(std::memory_order_relaxed)));
  }
  WEFT_ALWAYS_INLINE void SwitchTo(FiberEntity* self, SwitchReason how, FiberEntity* next);
  WEFT_ALWAYS_INLINE void FinishSwitch();
  void FinishRareSwitch(FiberEntity* fiber);
  void Enter(FiberEntity* fiber);  // of a loop group; the next two, too
  struct LoopCall {
    FiberEntity* caller;
    LoopCallKind kind;
    void (*call)(void* argument);
    void* argument;
    LoopCall* next = nullptr;
  };
  void ServeCalls();
  void Serve(const LoopCall& call);
  bool HasLoopCall() const noexcept { return first_call_ != nullptr && !loop_call_waits_; }
  void GetUpInLoop();
  void TakeOverStack(FiberEntity* from, FiberEntity* to);
  void GiveStackBack(FiberEntity* fiber);
  void Retire(FiberEntity* fiber);

  WorkerCounters& counters() { return *counters_; }

  FiberEntity* left_ = nullptr;
  SwitchReason switch_reason_ = SwitchReason::kNothing;
  bool (*publish_)(void* argument) noexcept = nullptr;  // of the fiber left, if kPublished; both
  void* publish_argument_ = nullptr;
  WorkerCounters* const counters_;
  context::Context loop_;
  context::StackCache stacks_;
  std::size_t stacks_until_record_;  // 0: none is recorded
  SpinMemory spin_memory_;
  SpinPolicy spin_policy_;
  std::uint64_t loop_left_ = 0;
  std::chrono::steady_clock::time_point retry_stack_at_;  // when to retry for fibers without a stack (SG2)
  bool stealing_ = false;                                 // the last attempt to steal brought a fiber
  std::vector<std::uint64_t> next_steal_search_;          // by neighbour
  // Of a loop group.
  LoopCall* loop_call_ = nullptr;   // CallOnLoop(): what the loop is to do next
  LoopCall* first_call_ = nullptr;  // W5: those that wait for their turn, on their callers' stacks
  LoopCall* last_call_ = nullptr;
  bool loop_call_waits_ = false;  // W5
  bool elsewhere_ = false;        // SleepElsewhere() said true
  Worker* outer_ = nullptr;       // what the thread was in BeginLoop(); nullptr: a plain thread

  Watchdog::WatchedWorker slice_;                               // Last: the Watchdog reads it.
  std::optional<Watchdog::WatchedWorker::Asleep> loop_is_out_;  // of a loop group
};

class Worker::LoopCallsQueue {
 public:
  explicit LoopCallsQueue(Worker* worker) noexcept
      : worker_(*worker), outer_(std::exchange(worker->loop_call_waits_, true)) {}
  ~LoopCallsQueue() { worker_.loop_call_waits_ = outer_; }
  LoopCallsQueue(const LoopCallsQueue&) = delete;
  LoopCallsQueue& operator=(const LoopCallsQueue&) = delete;

 private:
  Worker& worker_;
  const bool outer_;
};

class Worker::LoopCallWaits {
 public:
  explicit LoopCallWaits(Worker* worker) noexcept;
  ~LoopCallWaits();
  LoopCallWaits(const LoopCallWaits&) = delete;
  LoopCallWaits& operator=(const LoopCallWaits&) = delete;

 private:
  Worker& worker_;
  const LoopCallsQueue queue_;
  MainContext* const main_context_;
  const PolicyLoop::Release released_;
};

// Inline: park.cc.

WEFT_ALWAYS_INLINE bool Worker::PrepareToEnter(FiberEntity* fiber) {
  fiber->state_.OnAcquired();
  if (!fiber->has_stack() && !GiveStack(fiber)) return false;
  if (fiber->ready_stamp) [[unlikely]] {
    PrefetchStack(fiber);  // While the clock is read.
    group->RecordReadyWait(index, fiber);
  }
  return true;
}

// Inline: in Park() and YieldCurrent().
WEFT_ALWAYS_INLINE FiberEntity* Worker::NextFiberFor(FiberEntity* self, EventKind how) {
  if (group->needs_attention()) [[unlikely]] {
    return NextFiberWithAttention(self, how);
  }
  FiberEntity* fiber = group->PopWithoutAttention(index);
  if (fiber != nullptr && !PrepareToEnter(fiber)) [[unlikely]] {
    return FindFiber();
  }
  return fiber;
}

WEFT_ALWAYS_INLINE FiberEntity* Worker::NextFiberAfter(FiberEntity* self) {
  if (group->needs_attention()) [[unlikely]] {
    return NextFiberAfterRecorded(self);
  }
  return group->PopWithoutAttention(index);
}

// Leaves `self` for `next`, which is prepared to be entered. nullptr: the loop.
WEFT_ALWAYS_INLINE void Worker::SwitchTo(FiberEntity* self, SwitchReason how, FiberEntity* next) {
  WEFT_DCHECK(!must_not_switch, "a switch while another one ends (W2)");
  left_ = self;
  switch_reason_ = how;
  WorkerCounters::Add(counters().switches);  // Before: LS1 in slice_limits.h.
  current = next;
  context::ThreadState* here = context::SwitchContext(self != nullptr ? &self->context : &loop_,
                                                      next != nullptr ? &next->context : &loop_, this);
  Of(here)->FinishSwitch();  // Not `this`: W3.
}

WEFT_ALWAYS_INLINE void Worker::FinishSwitch() {
  FiberEntity* fiber = left_;
  if (switch_reason_ == SwitchReason::kParked) {
    if (fiber->state_.OnSwitchedOut() == SwitchOutResult::kParked) [[likely]] {
      return;
    }
  } else if (switch_reason_ == SwitchReason::kPublished) {
    fiber->state_.OnLeftUnseen();
    if (publish_(publish_argument_)) [[likely]] {
      return;
    }
  } else if (switch_reason_ == SwitchReason::kYielded) {
    fiber->state_.OnYielded();
    group->ReadyBy(this, static_cast<int>(index), fiber, ReadyReason::kYielded);
    return;
  }
  FinishRareSwitch(fiber);
}

WEFT_ALWAYS_INLINE void Worker::Park(FiberEntity* self) {
  FiberEntity* next = NextFiberFor(self, EventKind::kParked);
  StampPark(self);
  SwitchTo(self, SwitchReason::kParked, next);
}

WEFT_ALWAYS_INLINE void Worker::ParkKeeping(FiberEntity* self) {
  FiberEntity* next = NextFiberFor(self, EventKind::kParked);
  if (next != nullptr) GiveUpTimers();
  StampPark(self);
  SwitchTo(self, SwitchReason::kParked, next);
}

WEFT_ALWAYS_INLINE void Worker::ParkAndPublish(FiberEntity* self, bool (*publish)(void*) noexcept, void* argument) {
  FiberEntity* next = NextFiberFor(self, EventKind::kParked);
  publish_ = publish;
  publish_argument_ = argument;
  StampPark(self);
  SwitchTo(self, SwitchReason::kPublished, next);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_WORKER_H_
