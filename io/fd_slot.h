// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// FdSlot: a descriptor that fibers and threads use at the same time: who waits for it, whether it is worth a try, and
// when it may be closed. Users hold it by io/descriptor.h.
//
// Reading and writing go on independently, each with a word and a queue of waiters:
//
//     ticket = Ticket()
//     ready, or not registered yet:  try the system call;  EAGAIN: ClearReadiness(ticket)
//     not ready:                     Wait()                            an event: OnEvents() sets ready, claims all
//
// The descriptor is registered edge-triggered, once per direction, by the first fiber that has to wait. So in the
// steady state a request costs a read, a write and a share of one epoll_wait, and no EAGAIN: a read that brings less
// than it had room for has drained the socket (epoll(7)), and the next one waits without trying. That holds of TCP, but
// not once the peer has finished (the end is to be read, too) or has sent urgent data, where a read ends early, and not
// of Unix sockets, where it ends at a message with descriptors. Threads that are no workers wait with poll(2) and need
// no reactor.
//
// Invariants
//   FD1  Readiness is not lost. An event counts up the word and sets ready; who clears ready compares with the ticket
//        that it took before its system call, so an event that came after that stands. A waiter looks at ready under
//        the queue's lock, and an event sets it under that lock before it claims.
//   FD2  Ready is a hint: who finds EAGAIN waits again. Events that are about a former use of the slot do no harm.
//   FD3  The descriptor's number is closed when Close() was called and no use is left (word `uses_`): no system call
//        is ever made on a number that is another descriptor's by then. The slot goes back to the pool when, besides,
//        its holder has gone.
//   FD4  Close() wakes all that wait, with operation_canceled, and no wait begins after it.
//   FD5  A fiber that finds its descriptor ready each time yields after kMaxStreak calls: it does not keep its worker
//        from others.
//   FD6  The memory of slots is never given back (io/event_handler.h).
//   FD7  A descriptor that outlives its runtime is registered anew by the first fiber of the next one that waits for
//        it, unless its reactor's group runs again.
// Rejected: one way of waiting with WaitFd() (io/wait_fd.h), see docs/decisions/016. Registration (io/reactor.h) is
// shared.
// Source: the use count is that of Go's fdMutex, in idea; the drained hint is epoll(7)'s.
#ifndef WEFT_IO_FD_SLOT_H_
#define WEFT_IO_FD_SLOT_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <system_error>

#include "weft/base/atomic.h"
#include "weft/base/deadline.h"
#include "weft/io/event_handler.h"
#include "weft/io/registration.h"
#include "weft/sync/wait_queue.h"

namespace weft::io {

class FdSlot final : public EventHandler {
 public:
  enum Direction { kRead = 0, kWrite = 1 };

  // What a direction looked like at some moment.
  class Ticket {
   public:
    bool ready() const noexcept { return (word_ & kReady) != 0; }
    bool closed() const noexcept { return (word_ & kClosed) != 0; }

   private:
    friend class FdSlot;
    explicit Ticket(std::uint32_t word) : word_(word) {}
    std::uint32_t word_;
  };

  // Any thread. A slot for `fd`, which is non-blocking and from now on the slot's; held by the caller.
  static FdSlot* Take(int fd);
  // The holder, once; closes it if nobody did. The slot may be another's from now on.
  void Drop() noexcept;

  // Any thread. False: it is closed. True: EndUse() must follow.
  [[nodiscard]] bool BeginUse() noexcept;
  void EndUse() noexcept;

  // The holder, or one who uses it. False: it was closed already.
  bool Close() noexcept;
  bool closed() const noexcept { return (uses_.load(std::memory_order_relaxed) & kClosing) != 0; }

  // --- Between BeginUse() and EndUse() ---
  int fd() const noexcept { return fd_; }
  Ticket TicketOf(Direction direction) const noexcept {
    // acquire: pairs with the release in OnEvents(); what the event's cause did in the kernel needs no help of ours.
    return Ticket(sides_[direction].word.load(std::memory_order_acquire));
  }
  // Whether the system call is worth a try.
  bool WorthATry(Direction direction, Ticket ticket) const noexcept {
    return ticket.ready() || !sides_[direction].registered.load(std::memory_order_relaxed);
  }
  // The system call said EAGAIN after `ticket` was taken.
  void ClearReadiness(Direction direction, Ticket ticket) noexcept;
  // It brought less than it had room for.
  void ClearReadinessAfterShortRead(Ticket ticket) noexcept;
  // Returns when a try may be worth it. A fiber may switch; a thread blocks. Errors: as in io_result.h.
  [[nodiscard]] std::error_code Wait(Direction direction, Deadline deadline) noexcept;

  bool IsRegistered(Direction direction) const noexcept {
    return sides_[direction].registered.load(std::memory_order_relaxed);
  }
  // After a success. A fiber whose calls always succeed lets others run now and then.
  void Succeeded(Direction direction) noexcept;

  // --- By the reactor ---
  void OnEvents(std::uint32_t events, synchronization::WaitList* claimed) noexcept override;

 private:
  friend class FdSlotPool;

  static constexpr std::uint32_t kMaxStreak = 32;

  // Of a direction: the number of events, and
  static constexpr std::uint32_t kReady = 1;
  static constexpr std::uint32_t kClosed = 2;
  static constexpr std::uint32_t kShortProvesNothing = 4;  // a read that brings less than it had room for
  static constexpr std::uint32_t kOneEvent = 8;
  // Of the slot: how many use it, and
  static constexpr std::uint64_t kClosing = 1;
  static constexpr std::uint64_t kFdClosed = 2;
  static constexpr std::uint64_t kDropped = 4;
  static constexpr std::uint64_t kOneUse = 8;

  struct Side {
    synchronization::WaitQueue queue;
    base::Atomic<std::uint32_t> word{
        0};  // ready and the number of events: written under the queue's lock, but see ClearReadiness()
    std::atomic<bool> registered{false};
    std::atomic<std::uint32_t> streak{0};  // system calls that succeeded without a wait between them
  };

  void SetReady(Side* side, std::uint32_t flags, synchronization::WaitList* claimed) noexcept;
  void CloseSide(Side* side, synchronization::WaitList* claimed) noexcept;
  [[nodiscard]] std::error_code Register(Direction direction);
  [[nodiscard]] std::error_code WaitInThread(Direction direction, Deadline deadline) noexcept;
  void CloseFd() noexcept;
  void GiveBack() noexcept;

  Side sides_[2];
  std::atomic<std::uint64_t> uses_{0};
  int fd_ = -1;
  Registration registration_;     // guarded by register_mutex_, all three
  std::uint32_t registered_ = 0;  // for which events
  int thread_waker_ = -1;         // an eventfd, if a thread has ever waited
  std::mutex register_mutex_;
  FdSlot* next_free_ = nullptr;
};

}  // namespace weft::io

#endif  // WEFT_IO_FD_SLOT_H_
