// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Waiting until all fibers of the process have ended, for the end of the runtime.
//
//   last worker                            waiter
//   -----------                            ------
//   counts the fiber's end                 registers
//   full fence                             full fence
//   idle: looks for a waiter, wakes it     looks at the number of fibers
//
// Either the waiter sees that no fiber is left, or the worker sees the waiter.
// Checked in tests/model/drain_model.cc.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_DRAIN_H_
#define WEFT_SCHEDULING_GROUP_GROUP_DRAIN_H_

#include <cstddef>

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/parker.h"
#include "weft/base/time/test_time.h"

namespace weft::scheduling_group {

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

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_DRAIN_H_
