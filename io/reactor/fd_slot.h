// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FdSlot: a descriptor that fibers and threads use at the same time. It knows the waiters, whether a system call is
// worth a try, and when the number may be closed. Users hold it through io/reactor/descriptor.h.
//
// Reading and writing are independent, each with a word and a queue of waiters:
//
//     Retry():  ticket = TicketOf()
//               ready, or not registered yet:  try the system call;  EAGAIN: ClearReadiness(ticket)
//               not ready:                     Wait()                  an event: OnEvents() sets ready, claims all
//
// The first fiber that has to wait registers the descriptor edge-triggered, once per direction. In the steady state a
// request costs a read, a write and a share of one epoll_wait, and no EAGAIN: a read that fills less than its buffer
// has drained the socket (epoll(7)), and the next one waits without trying. That is true of TCP until the peer has
// finished (the end is still to be read) or has sent urgent data (a read ends there). It is not true of TCP below an
// upper-layer protocol (TCP_ULP: kTLS), where a read ends at a record of another kind, nor of anything else: on Unix
// sockets a read ends at a message with descriptors. Plain threads wait with poll(2), and need no reactor.
//
// Invariants
//   FD1  Readiness is not lost. An event increments the word and sets ready. Clearing ready compares with the ticket
//        taken before the system call, so it fails after a later event. A waiter checks ready under the queue's lock,
//        and an event sets it under that lock before it claims.
//   FD2  Ready is a hint: a caller that gets EAGAIN waits again. Events of a former use of the slot do no harm.
//   FD3  The number is closed when Close() was called and no use is left (word `uses_`), so no system call is made on
//        another descriptor's number. Then the slot goes back to the pool (io/reactor/fd_slot_pool.h), once its holder
//        has dropped it.
//   FD4  Close() wakes all waiters with operation_canceled, and no wait begins after it.
//   FD5  A fiber that finds its descriptor ready each time yields after kMaxStreak calls, to let others run.
//   FD6  The memory of slots is never given back (io/reactor/registration.h).
//   FD7  If a descriptor outlives its runtime, the first fiber of the next one that waits for it registers it anew,
//        unless its reactor's group runs again.
//   FD8  A watch misses no hang-up: an event that may be one leaves a note, and then looks for the watch; Watch()
//        enters the watch, and then looks for the note; both under `register_mutex_`. The watch asks the kernel,
//        because the note may be a former use's (FD2). It has a use, so the number is the right one (FD3).
//   FD9  A watch for bytes is entered, left and claimed under the lock of its queue: the thread that takes it out,
//        alone, goes on with what it guards (io/reactor/readable_watch.h).
// FD1 to FD4, FD8 and FD9, of reading: explored in tests/model/fd_slot_model.cc, within bounds.
// Rejected: one way of waiting with WaitFd() (io/wait_fd.h), see docs/decisions/016.
// Source: the use count follows Go's fdMutex, the hint that all was read epoll(7).
#ifndef WEFT_IO_REACTOR_FD_SLOT_H_
#define WEFT_IO_REACTOR_FD_SLOT_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/registration.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::io {

class FdSlot final : public EventHandler {
 public:
  enum Direction { kRead = 0, kWrite = 1 };

  // The state of a direction at some moment.
  class Ticket {
   public:
    bool ready() const noexcept { return (word_ & kReady) != 0; }
    bool closed() const noexcept { return (word_ & kClosed) != 0; }
    // Whether a read below its buffer's size drains the descriptor, and only bytes that came make it ready.
    bool is_plain() const noexcept { return (word_ & kShortProvesNothing) == 0; }

   private:
    friend class FdSlot;
    explicit Ticket(std::uint32_t word) : word_(word) {}
    std::uint32_t word_;
  };

  // Any thread. Returns a slot for `fd`, which is non-blocking and which the slot then owns. The caller holds the slot.
  static FdSlot* Take(int fd);
  // The holder, once. Closes it if it is open. Afterwards the slot may serve another descriptor.
  void Drop() noexcept;

  // Any thread. False: it is closed. True: EndUse() must follow.
  [[nodiscard]] bool BeginUse() noexcept;
  void EndUse() noexcept;

  // The holder, or between BeginUse() and EndUse(). False: it was closed already.
  bool Close() noexcept;
  bool closed() const noexcept { return (uses_.load(std::memory_order_relaxed) & kClosing) != 0; }

  // --- Between BeginUse() and EndUse() ---
  // Makes a system call until it ends in something else than EAGAIN or EINTR: Descriptor::RetryRead(), RetryWrite().
  // May switch. `function` gets `call`.
  using SystemCall = ssize_t (*)(void* call, int fd);
  [[nodiscard]] IoResult Retry(Direction direction, std::size_t full, SystemCall function, void* call,
                               Deadline deadline);
  int fd() const noexcept { return fd_; }
  Ticket TicketOf(Direction direction) const noexcept {
    // acquire: pairs with the release in SetReady(). The kernel orders its own part.
    return Ticket(sides_[direction].word.load(std::memory_order_acquire));
  }
  // Whether the system call is worth a try.
  bool WorthATry(Direction direction, Ticket ticket) const noexcept {
    return ticket.ready() || !sides_[direction].registered.load(std::memory_order_relaxed);
  }
  // The system call said EAGAIN after `ticket` was taken.
  void ClearReadiness(Direction direction, Ticket ticket) noexcept;
  // The read filled less than its buffer.
  void ClearReadinessAfterShortRead(Ticket ticket) noexcept;
  // From now on that means nothing: as an event, since such a read may have cleared the readiness before.
  void ExpectShortReads() noexcept;
  // A write has succeeded without an event: the kernel takes bytes before it reports room, which it does when a third
  // of the send buffer is free. The writes that follow are worth a try, too, or each would wait for its deadline.
  void NoteRoomWithoutEvent() noexcept;
  // For waits that begin from now on and have no deadline: each gets this one. 0: none. Any thread.
  void SetWaitLimit(Direction direction, std::chrono::milliseconds limit) noexcept;
  // Returns when a try may succeed. A fiber may switch; a thread blocks. Errors: as in io_result.h. Of its limit a
  // write gets one part at a time.
  [[nodiscard]] std::error_code Wait(Direction direction, Deadline deadline) noexcept;
  // So many time-outs of Wait(), each followed by a try in vain, end a call. A write tries in between, because the
  // kernel may take bytes long before it reports room (NoteRoomWithoutEvent()): found at the end of the whole limit,
  // they would give a peer that reads nothing the limit twice.
  static constexpr int TimeoutsOf(Direction direction, Deadline deadline) noexcept {
    return direction == kWrite && deadline.is_none() ? kPartsOfWriteLimit : 1;
  }

  // A selection, in a fiber (io/select_sockets.h). Before it enters; errors as those of Wait().
  [[nodiscard]] std::error_code AwaitRegistered(Direction direction) noexcept;
  // False: a try may succeed. True: LeaveShared() must follow, unless it was notified.
  [[nodiscard]] bool EnterShared(Direction direction, synchronization::Waiter* waiter) noexcept;
  void LeaveShared(Direction direction, synchronization::Waiter* waiter) noexcept;
  // For io/reactor/readable_watch.h; after AwaitRegistered(kRead). `waiter` shares `word`.
  enum class Entered { kWaits, kReady, kForbidden };
  [[nodiscard]] Entered EnterWatch(synchronization::Waiter* waiter, synchronization::WaitNode::DecisionWord* word,
                                   const base::Atomic<bool>& forbidden) noexcept;
  // False: it is not in the queue, or not any more. Any thread, while the slot has its holder.
  [[nodiscard]] bool LeaveWatch(synchronization::Waiter* waiter) noexcept;

  // A fiber. Whether it is told when a try may succeed.
  bool IsServed(Direction direction) const noexcept { return IsRegistered(direction) && registration_.is_served(); }

  // A fiber. From now on `watch` is told of what may be a hang-up, also if it came before; one watch at a time. After
  // an error nothing is watched. Unwatch() comes before EndUse(); afterwards `watch` is told nothing.
  [[nodiscard]] std::error_code Watch(HangupWatch* watch) noexcept;
  void Unwatch() noexcept;
  // The owner is about to shut reading down, which looks like a peer that has finished.
  void NoteReadIsShut() noexcept {
    read_is_shut_.store(true, std::memory_order_relaxed);  // The system call orders it.
  }

  bool IsRegistered(Direction direction) const noexcept {
    return sides_[direction].registered.load(std::memory_order_relaxed);
  }
  // After a success. A fiber whose calls always succeed yields here now and then.
  void Succeeded(Direction direction) noexcept;
  // After it: whether the call had to wait, or the fiber yielded after it. A hint.
  bool HasGivenWay(Direction direction) const noexcept {
    return sides_[direction].streak.load(std::memory_order_relaxed) <= 1;
  }

  // --- By the reactor ---
  void OnEvents(std::uint32_t events, synchronization::WaitList* claimed) noexcept override;

 private:
  friend class FdSlotPool;

  static constexpr std::uint32_t kMaxStreak = 32;
  // A peer that has stopped reading is ended an eighth of the limit late at most.
  static constexpr int kPartsOfWriteLimit = 8;

  // The word of a direction: the number of events, and flags. A new slot has kReady without an event.
  static constexpr std::uint32_t kReady = 1;
  static constexpr std::uint32_t kClosed = 2;
  static constexpr std::uint32_t kShortProvesNothing = 4;  // even a read that fills less than its buffer
  static constexpr std::uint32_t kOneEvent = 8;
  // uses_: the number of uses, and
  static constexpr std::uint64_t kClosing = 1;
  static constexpr std::uint64_t kFdClosed = 2;
  static constexpr std::uint64_t kDropped = 4;
  static constexpr std::uint64_t kOneUse = 8;

  struct Side {
    synchronization::WaitQueue queue;
    base::Atomic<std::uint32_t> word{0};  // written under the queue's lock, but for ClearReadiness()
    base::Atomic<bool> registered{false};
    std::atomic<std::uint32_t> streak{0};  // system calls that succeeded without a wait in between
    std::atomic<std::uint32_t> wait_limit_ms{0};
  };

  void SetReady(Side* side, std::uint32_t flags, synchronization::WaitList* claimed) noexcept;
  void NoteHangup() noexcept;
  void CloseSide(Side* side, synchronization::WaitList* claimed) noexcept;
  [[nodiscard]] std::error_code Register(Direction direction);
  Deadline LimitOfWait(Direction direction) const noexcept;
  [[nodiscard]] std::error_code WaitInThread(Direction direction, Deadline deadline) noexcept;
  void CloseFd() noexcept;
  // io/reactor/fd_slot_pool.cc
  static FdSlot* TakeFree();
  void GiveBack() noexcept;

  Side sides_[2];
  base::Atomic<std::uint64_t> uses_{0};
  int fd_ = -1;
  std::atomic<bool> read_is_shut_{false};
  Registration registration_;     // guarded by register_mutex_, all five
  std::uint32_t registered_ = 0;  // for which events
  int thread_waker_ = -1;         // an eventfd, if a thread has ever waited
  bool may_have_hung_up_ = false;
  HangupWatch* watch_ = nullptr;
  std::mutex register_mutex_;
  // io/reactor/fd_slot_pool.h; while it is free, but for home_.
  FdSlot* next_free_ = nullptr;
  FdSlot* next_batch_ = nullptr;
  std::uint32_t batch_size_ = 0;
  std::uint8_t home_ = 0;
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_FD_SLOT_H_
