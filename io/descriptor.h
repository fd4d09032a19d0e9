// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Descriptor: owns a non-blocking descriptor that fibers and threads read, write and close at the same time. What
// sockets are made of; for descriptors of other libraries there is WaitFd() (io/wait_fd.h).
//
// Who may call: any fiber and any thread, several at once; but it is moved, assigned and destroyed while nobody else
// uses it. Close() may be called while others use it: they get operation_canceled, and the last of them closes the
// number.
// In a fiber a wait switches; a plain thread is blocked. A call makes at least one attempt, also when its deadline has
// passed already.
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
  // Takes over a descriptor that is non-blocking.
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

  // Opened and not closed.
  bool IsOpen() const noexcept { return slot_ != nullptr && !slot_->closed(); }
  // False: it was not open. Does not wait for those who use it.
  bool Close() noexcept { return slot_ != nullptr && slot_->Close(); }
  // For system calls that do not block, while it is certain that nobody closes it. -1: not open.
  int fd() const noexcept { return IsOpen() ? slot_->fd() : -1; }

  // Makes `call(fd)`, a system call that returns -1 and errno as they do, until it does not say EAGAIN or EINTR; waits
  // for `direction` between. A result below `full` means that no more was there; 0: never.
  template <class Call>
  [[nodiscard]] IoResult Retry(FdSlot::Direction direction, std::size_t full, Call&& call, Deadline deadline) {
    scheduling_group::YieldIfSliceIsOver();
    FdSlot* const slot = slot_;
    if (slot == nullptr || !slot->BeginUse()) return {0, ErrnoCode(ECANCELED)};
    const IoResult result = RetryInUse(slot, direction, full, call, deadline);
    slot->EndUse();
    return result;
  }

  // Makes `call(fd)`, a system call that does not wait, once.
  template <class Call>
  std::error_code Once(Call&& call) const {
    FdSlot* const slot = slot_;
    if (slot == nullptr || !slot->BeginUse()) return ErrnoCode(ECANCELED);
    const auto [result, error] = CallOnce(slot->fd(), call);
    slot->EndUse();
    return result >= 0 ? std::error_code() : ErrnoCode(error);
  }

  // Until `direction` may be worth a try.
  [[nodiscard]] std::error_code WaitReady(FdSlot::Direction direction, Deadline deadline = {});

 private:
  template <class Call>
  static IoResult RetryInUse(FdSlot* slot, FdSlot::Direction direction, std::size_t full, Call& call,
                             Deadline deadline) {
    bool timed_out = false;
    for (;;) {
      const FdSlot::Ticket ticket = slot->TicketOf(direction);
      if (ticket.closed()) return {0, ErrnoCode(ECANCELED)};
      // The reactor may not have told yet what has come, or the deadline have passed before: the last word is the
      // kernel's.
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
  // By itself, so that errno is that of the thread the call was made on (context/switch_safe_errno.h).
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
