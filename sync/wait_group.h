// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WaitGroup: waits until as many Done() as Add() have been called. As Go's sync.WaitGroup, with timed waits.
// Sample:
//   WaitGroup group;
//   for (Connection& connection : connections) {
//     group.Add();                                              // before the start
//     const bool started = StartFiberDetached([&] {
//       Serve(connection);
//       group.Done();
//     });
//     if (!started) group.Done();
//   }
//   Shielded([&] { group.Wait(); });                            // not cancelled: the fibers use `group`
//
// Better than this: FiberScope (fiber/fiber_scope.h) where the caller starts the fibers itself: they end with it, also
// after an exception or a cancellation, and no Done() can be forgotten. FiberLatch where the number is known before:
// CountDown() is one instruction on one word, Done() a locked section.
//
// Who may call: any fiber and any thread. Add(), Done() and Count() never switch or block. Wait() may switch (a thread:
// block) and is a cancellation point.
// Memory ordering: what X did before its Done() is visible to Y after a Wait() that this Done() has let through.
// Lifetime: may be destroyed once the count has come to zero and all waits have returned, even if the last Done() has
// not. A wait that throws (it was cancelled) or says false has waited for nothing: the fibers still call Done().
// Errors: Done() below zero ends the process, and so do an Add() of less than nothing and a destructor that finds a
// count above zero.
//
// Reuse: Wait() returns if the count is zero, or has been since it began to wait, also if an Add() has followed. Add()
// for the next round only when the waits of the last one have returned, as in Go. Add() for the work of this round
// comes before its Wait().
//
// The count is guarded by the queue's lock: no protocol of its own (sync/wait/wait_queue.h).
//   WG1  The Done() that comes to zero takes all waiters out of the queue in the same section.
//   WG2  Its last touch is the unlock of the queue, and Wait() returns only after it: what it has waited for is told
//        after the unlock, or seen under the lock.
// Source: Go's sync.WaitGroup.
#ifndef WEFT_SYNC_WAIT_GROUP_H_
#define WEFT_SYNC_WAIT_GROUP_H_

#include <cstddef>

#include "weft/base/deadline.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

class WaitGroup {
 public:
  // The count is zero.
  constexpr WaitGroup() = default;
  WaitGroup(const WaitGroup&) = delete;
  WaitGroup& operator=(const WaitGroup&) = delete;
  ~WaitGroup();

  // `n` more to wait for, 0 or more. Never switches.
  void Add(std::ptrdiff_t n = 1) noexcept;
  // One less. Lets all waiters through when the count comes to zero; below zero ends the process. Never switches.
  void Done() noexcept;

  // Waits until the count is zero, or has been since the wait began. A cancellation point.
  void Wait();
  // False: it did not come to zero in time.
  [[nodiscard]] bool Wait(Deadline deadline);

  // A snapshot.
  [[nodiscard]] std::ptrdiff_t Count() const noexcept;

 private:
  mutable synchronization::WaitQueue queue_;
  std::ptrdiff_t count_ WEFT_GUARDED_BY(queue_) = 0;
};

}  // namespace weft

#endif  // WEFT_SYNC_WAIT_GROUP_H_
