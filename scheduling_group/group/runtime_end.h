// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The end of a runtime: waiting until its fibers have ended, and what becomes of those that have not.
//
// WaitUntilNoFibers() waits for all fibers of the process:
//
//   last worker                            waiter
//   -----------                            ------
//   counts the fiber's end                 registers
//   full fence                             full fence
//   idle: looks for a waiter, wakes it     looks at the number of fibers
//
// Either the waiter sees that no fiber is left, or the worker sees the waiter.
// Checked in tests/model/drain_model.cc.
//
// Lost fibers are those that were unfinished when their runtime ended. They never run again, so a wait without a
// deadline for the end of one would never return. Whoever owns fibers, and so knows whom it waits for, asks before such
// a wait; if one is lost, the process ends with one line, as in a forked child (group_registry.h). Destructors of
// static objects must not hang exit(), nor abort it: there the line is written, and the wait is left out.
//
// What fibers hold besides (a lock, the right to set an event) nobody knows: a thread that waits for that, while no
// runtime runs, writes a line once (WarnOfWait()).
//
// LostFibers: any thread.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_RUNTIME_END_H_
#define WEFT_SCHEDULING_GROUP_GROUP_RUNTIME_END_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/parker.h"
#include "weft/base/time/test_time.h"

namespace weft::scheduling_group {

class FiberEntity;

// The one used below is never destroyed: a worker may still be in Tell() when the waiter has gone on.
class DrainWaiter {
 public:
  // One thread at a time. Waits until done(). False: the deadline came first.
  template <class Done>
  [[nodiscard]] bool Wait(Deadline deadline, Done done) {
    waiting_.store(true, std::memory_order_relaxed);
    bool is_done = false;
    for (;;) {
      base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad; pairs with the fence in Tell().
      is_done = done();
      if (is_done || deadline.expired()) break;
      if (deadline.is_none()) {
        parker_.Park();
      } else {
        (void)base::ParkUntil(&parker_, deadline.time_point());  // In either case we look again.
      }
    }
    waiting_.store(false, std::memory_order_relaxed);
    return is_done;
  }

  // After something that may make done() true.
  void Tell() noexcept {
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad; pairs with the fence in Wait().
    if (waiting_.load(std::memory_order_relaxed)) [[unlikely]] {
      (void)parker_.Unpark();
    }
  }

 private:
  base::Atomic<bool> waiting_{false};
  base::Parker parker_;
};

// One plain thread at a time. Waits until at most `unfinished` fibers are alive (those of a former runtime that wait
// for ever); those of FiberLoops do not count: they end with their loops. False: the deadline came first.
[[nodiscard]] bool WaitUntilNoFibers(Deadline deadline, std::size_t unfinished = 0);

// Workers, each time they find nothing to do.
void TellDrainWaiter() noexcept;

#ifndef WEFT_MODEL_CHECK

class LostFibers {
 public:
  // By the thread that ends a runtime, when its workers have ended: so many are unfinished, not 0; their groups say so
  // (SchedulingGroup::Abandon()).
  static void Add(std::size_t unfinished) noexcept;
  // How many runtimes have left some. One that differs from what it was at a server's start has ended since then.
  static std::uint64_t runtimes() noexcept;

  static bool Any() noexcept { return runtimes() != 0; }
  // `fiber` has not ended, as the caller knows.
  static bool Has(const FiberEntity* fiber) noexcept;

  // Ends the process. `waiter`: the public function that would wait. Returns inside exit().
  static void Fail(const char* waiter, const FiberEntity* fiber);
  static void Fail(const char* waiter, const std::string& what_it_waits_for);

  // By a plain thread before a wait without a deadline.
  static void WarnOfWait() noexcept;
};

#else

class LostFibers {
 public:
  static bool Any() noexcept { return false; }
  static bool Has(const FiberEntity*) noexcept { return false; }
  static void Fail(const char*, const FiberEntity*) {}
  static void WarnOfWait() noexcept {}
};

#endif  // WEFT_MODEL_CHECK

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_RUNTIME_END_H_
