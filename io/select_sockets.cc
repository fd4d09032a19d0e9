// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/select_sockets.h"

#include <poll.h>

#include <cerrno>
#include <chrono>

#include "weft/io/io_result.h"
#include "weft/io/reactor/fd_slot.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::io::detail {

namespace {

FdSlot::Direction DirectionOf(Readiness wanted) noexcept {
  return wanted == Readiness::kReadable ? FdSlot::kRead : FdSlot::kWrite;
}

// An error of poll(2) is left to the call that follows.
bool IsReadyNow(int fd, Readiness wanted) noexcept {
  pollfd polled{.fd = fd,
                .events = static_cast<short>(wanted == Readiness::kReadable ? POLLIN | POLLRDHUP : POLLOUT),
                .revents = 0};
  return PollUntil(&polled, 1, std::chrono::seconds(0)) != 0;
}

}  // namespace

// Between BeginUse() and EndUse(). True also where it was closed.
bool SlotCase::IsReadyInUse() noexcept {
  const FdSlot::Direction direction = DirectionOf(wanted_);
  const FdSlot::Ticket ticket = slot_->TicketOf(direction);
  if (ticket.closed()) {
    error_ = ErrnoCode(ECANCELED);
    return true;
  }
  const bool told = scheduling_group::CurrentFiber() != nullptr && slot_->IsServed(direction);
  if (!ticket.ready() && told && !has_waited_) return false;
  if (IsReadyNow(slot_->fd(), wanted_)) return true;
  slot_->ClearReadiness(direction, ticket);  // SCA2
  return false;
}

bool SlotCase::TryTake() noexcept {
  error_ = {};
  if (slot_ == nullptr || !slot_->BeginUse()) {
    error_ = ErrnoCode(ECANCELED);
    return true;
  }
  const bool ready = IsReadyInUse();
  slot_->EndUse();
  return ready;
}

// True: it waits.
bool SlotCase::EnterInUse() noexcept {
  const FdSlot::Direction direction = DirectionOf(wanted_);
  error_ = slot_->AwaitRegistered(direction);
  if (error_) return false;
  while (!slot_->EnterShared(direction, Waiting())) {
    if (IsReadyInUse()) return false;
  }
  return true;
}

SlotCase::Entered SlotCase::Enter() noexcept {
  if (scheduling_group::CurrentFiber() == nullptr) {
    error_ = ErrnoCode(ENOTSUP);
  } else if (!slot_->BeginUse()) {
    error_ = ErrnoCode(ECANCELED);
  } else if (EnterInUse()) {
    return Entered::kWaits;
  } else {
    slot_->EndUse();
  }
  return ClaimSelf() ? Entered::kTaken : Entered::kDecided;
}

void SlotCase::Leave() noexcept {
  has_waited_ = true;
  slot_->LeaveShared(DirectionOf(wanted_), &waiter());
  slot_->EndUse();
}

bool SlotCase::Notified() noexcept {
  const bool ready = IsReadyInUse();
  slot_->EndUse();
  return ready;
}

}  // namespace weft::io::detail
