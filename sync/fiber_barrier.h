// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberBarrier: so many fibers or threads meet, again and again. As std::barrier, without tokens.
//
// Who may call: any fiber and any thread, at most `expected` of them in one phase. ArriveAndWait() may switch (a
// thread: block) and is a cancellation point; ArriveAndDrop() does not wait. The last to arrive runs the completion,
// which may switch, while all others wait, then lets them through.
// Memory ordering: what any of them did before it arrived is visible to the completion, and to all after the phase.
// Lifetime: may be destroyed as soon as all calls have returned, or by the last to be let through, if no one else will
// use it: a return is never followed by a touch of others.
// ArriveAndWait() takes no deadline: an arrival cannot be taken back.
#ifndef WEFT_SYNC_FIBER_BARRIER_H_
#define WEFT_SYNC_FIBER_BARRIER_H_

#include <cstddef>

#include "weft/base/thread/thread_annotations.h"
#include "weft/base/unique_function.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

class FiberBarrier {
 public:
  // `expected`: how many arrive in a phase, above 0. The last of them calls completion(), if there is one, before it
  // lets the others through.
  explicit FiberBarrier(std::ptrdiff_t expected, UniqueFunction<void()> completion = nullptr);
  FiberBarrier(const FiberBarrier&) = delete;
  FiberBarrier& operator=(const FiberBarrier&) = delete;
  ~FiberBarrier() { queue_.Drain("FiberBarrier"); }  // One whose cancelled wait was passed over may be there still.

  // A cancelled wait throws, and the arrival stays: the others do not wait for it again.
  void ArriveAndWait();
  // Arrives, and is not expected from the next phase on.
  void ArriveAndDrop() noexcept;

 private:
  void CompletePhase() noexcept;

  base::UniqueFunction<void()> completion_;  // may be empty
  synchronization::WaitQueue queue_;
  std::ptrdiff_t expected_ WEFT_GUARDED_BY(queue_);   // from the next phase on
  std::ptrdiff_t remaining_ WEFT_GUARDED_BY(queue_);  // in this phase
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_BARRIER_H_
