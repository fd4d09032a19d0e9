// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ReadableWatch: calls a function once when a descriptor may be readable, so that a wait for bytes needs no fiber.
//
//     a fiber                   ends the watch: the first of these, alone
//     -------                   -----------------------------------------
//     Arm(): kArmed  ------->   an event: a worker that polls      }  wakes it: `readable`
//     touches nothing           Close() of the descriptor: any     }
//     any more                  Disarm(): any thread                  true
//
// The watch guards what it waits for (a connection): whoever ends the watch goes on with that, and may destroy both.
// It is a waiter in the queue of the slot's reading side (io/reactor/fd_slot.h), as those of fibers and of selections
// are.
//
// Invariants
//   RDW1  After Arm() has said kArmed either `readable` is called, once, or one Disarm() says true; never both. Whoever
//        armed it touches neither the watch nor what it guards afterwards.
//   RDW2  No byte is missed: Arm() enters the queue only while its side is not ready (FD1), and takes readiness away
//        only after the kernel has said that there is nothing.
//   RDW3  The call of `readable` is the last touch of the watch. It is made without a lock.
//   RDW4  From Arm() to its end the watch has a use of the slot, so that the number stays the descriptor's (FD3).
//   RDW5  After Forbid() the watch is not armed: a Disarm() that follows finds it armed before, or it never is again.
//        Both orders are those of the queue's lock; before it is first armed, those of four seq_cst accesses: either
//        Disarm() sees the slot, or the first EnterWatch() what Forbid() has written.
//
// Explored in tests/model/fd_slot_model.cc, within bounds.
// Memory ordering: what the one that arms it did before is visible to the one that ends it.
#ifndef WEFT_IO_REACTOR_READABLE_WATCH_H_
#define WEFT_IO_REACTOR_READABLE_WATCH_H_

#include <atomic>
#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::io {

class FdSlot;

class ReadableWatch : private synchronization::WakeTarget {
 public:
  enum class Armed : std::uint8_t {
    kArmed,
    kReadable,   // bytes, the end, an error; or it was closed: a read says which
    kForbidden,  // after Forbid(): the kernel has nothing now
  };

  // `readable` is called by the worker that polls, outside of fibers, or by whoever closes the descriptor. It must not
  // wait; a fiber that it starts while the run queue is full goes into the overflow list.
  explicit ReadableWatch(void (*readable)(ReadableWatch* self) noexcept) noexcept;
  ReadableWatch(const ReadableWatch&) = delete;
  ReadableWatch& operator=(const ReadableWatch&) = delete;

  // A fiber, while it is not armed. Does not switch.
  [[nodiscard]] Armed Arm(FdSlot* slot) noexcept;
  // Any thread, while nobody else may destroy it. True: it was armed, and is not any more.
  [[nodiscard]] bool Disarm() noexcept;
  // Any thread.
  void Forbid() noexcept { forbidden_.store(true, std::memory_order_seq_cst); }  // RDW5

 private:
  static void OnWake(synchronization::WakeTarget* target) noexcept;
  Armed ArmInUse() noexcept;

  void (*const readable_)(ReadableWatch*) noexcept;
  // Written before it is first armed: one descriptor for all times.
  base::Atomic<FdSlot*> slot_{nullptr};
  base::Atomic<bool> forbidden_{false};
  synchronization::WaitNode::DecisionWord word_{nullptr};
  synchronization::Waiter waiter_;
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_READABLE_WATCH_H_
