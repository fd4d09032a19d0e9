// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ThreadParker: how a wait outside of fibers sleeps. A plain thread sleeps on its base::Parker. The main context of a
// FiberLoop (fiber/fiber_loop.h) runs the loop meanwhile: what it waits for may be held by a fiber of that loop.
//
//   the owner, in a main context                    a waker, e.g. a fiber of the loop
//   ----------------------------                    ---------------------------------
//   Prepare(): notes the loop's group
//   makes itself known                              finds it
//   BeginWaitElsewhere()                            reads the group, then Unpark(): the owner may be gone now
//   runs the loop until the word has changed        it said true: Notify(), so that a loop that sleeps looks at it
//   EndWaitElsewhere()
//
// Invariants
//   THP1  The loop asks the word once more after its group has announced that it sleeps, and Notify() ends an
//         announced sleep: a wake-up is not lost (LDR3 in fiber/loop/loop_core.h).
//   THP2  A loop group is never freed (loop_groups.h), so the waker may use it after Unpark().
// Prepare() and Park(): the owner. Unpark(): any thread, as base::Parker's.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_THREAD_PARKER_H_
#define WEFT_SCHEDULING_GROUP_WORKER_THREAD_PARKER_H_

#include <sched.h>

#include "weft/base/deadline.h"
#include "weft/base/thread/parker.h"

namespace weft::scheduling_group {

class SchedulingGroup;

#ifndef WEFT_MODEL_CHECK

// A loop, while a function of its user's runs in its main context.
class MainContext {
 public:
  // That the caller is in. nullptr: it is in none, or in a fiber.
  static MainContext* OfCaller() noexcept;

  virtual SchedulingGroup* Group() noexcept = 0;
  // Runs the loop until the owner's wait elsewhere has ended, or the deadline has come.
  virtual void RunUntilUnparked(base::Parker* parker, Deadline deadline) noexcept = 0;
  // Runs some of what is ready. False: nothing is.
  virtual bool RunSome() noexcept = 0;

 protected:
  ~MainContext() = default;
};

class ThreadParker {
 public:
  // Before a waker can find it.
  void Prepare() noexcept;
  // False: the deadline passed, and there was no Unpark().
  [[nodiscard]] bool Park(Deadline deadline) noexcept;
  // Park() has said false, and an Unpark() is on its way; it may be a fiber's of the loop, which has yet to run.
  void ParkForWaker() noexcept { static_cast<void>(Park(Deadline::None())); }

  void Unpark() noexcept {
    SchedulingGroup* const loop_group = loop_group_;  // Before: PK3.
    if (parker_.Unpark()) [[unlikely]] {
      TellLoop(loop_group);
    }
  }

 private:
  static void TellLoop(SchedulingGroup* loop_group) noexcept;

  base::Parker parker_;
  SchedulingGroup* loop_group_;  // By Prepare(): a fiber's waits need not pay for it.
};

// Lets other threads run; in a main context, the loop's fibers.
void YieldThread() noexcept;

#else

class ThreadParker {
 public:
  void Prepare() noexcept {}
  [[nodiscard]] bool Park(Deadline deadline) noexcept {
    if (!deadline.is_none()) return parker_.ParkUntil(deadline.time_point());
    parker_.Park();
    return true;
  }
  void ParkForWaker() noexcept { parker_.Park(); }
  void Unpark() noexcept { static_cast<void>(parker_.Unpark()); }

 private:
  base::Parker parker_;
};

inline void YieldThread() noexcept { static_cast<void>(sched_yield()); }

#endif  // WEFT_MODEL_CHECK

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_THREAD_PARKER_H_
