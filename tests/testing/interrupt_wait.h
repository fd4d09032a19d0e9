// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of waits below CancelScope: ends the wait of a fiber as a canceller does, once, without a cancelled scope.
// Only for waits in a WaitQueue or a list: SoleWaiter needs kPending (SW2).
#ifndef WEFT_TESTS_TESTING_INTERRUPT_WAIT_H_
#define WEFT_TESTS_TESTING_INTERRUPT_WAIT_H_

#include <mutex>

#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::testing {

// The calling fiber is in a scope: its waits can be interrupted.
class InScope {
 public:
  InScope() { synchronization::EnterScope(fiber_, &node_); }
  ~InScope() { synchronization::LeaveScope(fiber_, &node_); }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  scheduling_group::FiberEntity* const fiber_ = scheduling_group::CurrentFiber();
  synchronization::CancelNode node_;
};

// False: the fiber is in no wait that can be interrupted.
inline bool InterruptWait(scheduling_group::FiberEntity* fiber) {
  synchronization::TakenWait taken;
  {
    std::lock_guard guard(fiber->cancel_word);
    taken = synchronization::TakenWait::Of(fiber);
  }
  if (!taken) return false;
  taken.Wake();
  return true;
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_INTERRUPT_WAIT_H_
