// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Descriptor: owns a non-blocking descriptor that fibers and threads read, write and close at the same time. Sockets
// are made of it; for descriptors of other libraries there is WaitFd() (io/wait_fd.h).
//
// Who may call: any fiber and any thread, several at once; but move, assignment and destruction only while no one else
// uses it. Close() may be called while others use it: they get operation_canceled, and the last of them closes the
// number.
// In a fiber a wait switches; a plain thread blocks. A call makes at least one attempt, even if its deadline has
// passed.
#ifndef WEFT_IO_DESCRIPTOR_H_
#define WEFT_IO_DESCRIPTOR_H_

#include <sys/types.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "weft/base/cpu.h"
#include "weft/base/deadline.h"
#include "weft/io/fd_slot.h"
#include "weft/io/io_result.h"
#include "weft/scheduling_group/time_slice.h"

namespace weft::io {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes over a non-blocking descriptor.
  explicit Descriptor(int fd) : slot_(FdSlot::Take(fd)) {}
  Descriptor(Descriptor&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Drop();
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  ~Descriptor() { Drop(); }

  // It was opened, and not closed.
  bool IsOpen() const noexcept { return slot_ != nullptr && !slot_->closed(); }
  // False: it was not open. Does not wait until others have ended their calls.
  bool Close() noexcept { return slot_ != nullptr && slot_->Close(); }
  // For system calls that do not block, while no one can close it. -1: not open.
  int fd() const noexcept { return IsOpen() ? slot_->fd() : -1; }

  // Repeats `call(fd)`, a system call that returns -1 and sets errno, until it does not fail with EAGAIN or EINTR, and
  // waits for `direction` in between. A result below `full` means that there was no more; full 0: it never means that.
  template <class Call>
  [[nodiscard]] IoResult Retry(FdSlot::Direction direction, std::size_t full, Call&& call, Deadline deadline) {
    scheduling_group::YieldIfSliceIsOver();
    FdSlot* const slot = slot_;
    if (slot == nullptr || !slot->BeginUse()) return {0, ErrnoCode(ECANCELED)};
    const IoResult result = RetryInUse(slot, direction, full, call, deadline);
    slot->EndUse();
    return result;
  }

  // Makes `call(fd)`, a system call that does not block, once.
  template <class Call>
  std::error_code Once(Call&& call) const {
    FdSlot* const slot = slot_;
    if (slot == nullptr || !slot->BeginUse()) return ErrnoCode(ECANCELED);
    const auto [result, error] = CallOnce(slot->fd(), call);
    slot->EndUse();
    return result >= 0 ? std::error_code() : ErrnoCode(error);
  }

  // Waits until `direction` may be worth a try.
  [[nodiscard]] std::error_code WaitReady(FdSlot::Direction direction, Deadline deadline = {});

 private:
  template <class Call>
  static IoResult RetryInUse(FdSlot* slot, FdSlot::Direction direction, std::size_t full, Call& call,
                             Deadline deadline) {
    bool timed_out = false;
    for (;;) {
      const FdSlot::Ticket ticket = slot->TicketOf(direction);
      if (ticket.closed()) return {0, ErrnoCode(ECANCELED)};
      // After a time-out ask the kernel once more: the reactor may not have reported the latest events yet.
      if (timed_out || slot->WorthATry(direction, ticket)) {
        const auto [result, error] = CallOnce(slot->fd(), call);
        if (result >= 0) [[likely]] {
          const auto bytes = static_cast<std::size_t>(result);
          if (bytes < full && bytes != 0 && direction == FdSlot::kRead) slot->ClearReadinessAfterShortRead(ticket);
          slot->Succeeded(direction);
          return {bytes, {}};
        }
        if (error == EINTR) continue;
        if (error != EAGAIN && error != EWOULDBLOCK) return {0, ErrnoCode(error)};
        slot->ClearReadiness(direction, ticket);
        if (timed_out) return {0, ErrnoCode(ETIMEDOUT)};
      }
      const std::error_code error = slot->Wait(direction, deadline);
      timed_out = error.value() == ETIMEDOUT;
      if (error && !timed_out) return {0, error};
    }
  }

  struct CallResult {
    ssize_t result;
    int error;
  };
  // A function of its own, so that errno is that of the thread that made the call (context/switch_safe_errno.h).
  template <class Call>
  WEFT_NOINLINE static CallResult CallOnce(int fd, Call& call) {
    const ssize_t result = call(fd);
    return {result, result < 0 ? errno : 0};
  }

  void Drop() noexcept {
    if (slot_ != nullptr) std::exchange(slot_, nullptr)->Drop();
  }

  FdSlot* slot_ = nullptr;
};

}  // namespace weft::io

#endif  // WEFT_IO_DESCRIPTOR_H_
