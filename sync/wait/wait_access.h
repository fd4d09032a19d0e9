// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WaitAccess: waits of the primitives that do not throw, for the layers above and for what may not be cancelled.
#ifndef WEFT_SYNC_WAIT_WAIT_ACCESS_H_
#define WEFT_SYNC_WAIT_WAIT_ACCESS_H_

#include "weft/base/deadline.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::synchronization {

// select.h
template <class Primitive>
class QueueCase;
template <class T>
class GetCase;
template <class T>
class PutCase;

struct WaitAccess {
  // kInterrupted: it was cancelled; CheckInterrupted() says so (kResult: CheckInterruptedWithResult()).
  template <class Primitive>
  [[nodiscard]] static WaitResult Wait(Primitive& primitive, Deadline deadline, Interruptible interruptible) noexcept {
    return primitive.WaitHow(deadline, interruptible);
  }

  template <class Primitive>
  static void WaitUncancelled(Primitive& primitive) noexcept {
    static_cast<void>(primitive.WaitHow(Deadline::None(), Interruptible::kNo));
  }
  template <class Primitive>
  [[nodiscard]] static bool WaitUncancelled(Primitive& primitive, Deadline deadline) noexcept {
    return primitive.WaitHow(deadline, Interruptible::kNo) == WaitResult::kNotified;
  }
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_WAIT_ACCESS_H_
