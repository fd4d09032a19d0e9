// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/descriptor.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <optional>

#include "weft/io/reactor/fd_slot.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/time_slice.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::io {
namespace {

IoResult Retry(FdSlot* slot, FdSlot::Direction direction, std::size_t full, FdSlot::SystemCall function, void* call,
               Deadline deadline) {
  scheduling_group::YieldIfSliceIsOver();
  if (slot == nullptr || !slot->BeginUse()) return {0, ErrnoCode(ECANCELED)};
  const IoResult result = slot->Retry(direction, full, function, call, deadline);
  slot->EndUse();
  return result;
}

// None: it is not readable.
std::optional<std::error_code> LookNow(int fd) {
  pollfd polled{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  if (PollUntil(&polled, 1, std::chrono::seconds(0)) <= 0) return std::nullopt;
  return (polled.revents & POLLNVAL) != 0 ? ErrnoCode(EBADF) : std::error_code();
}

// Readiness is only a hint (FD2): the kernel has the last word.
std::error_code WaitReadableInUse(FdSlot* slot, Deadline deadline) {
  const bool in_fiber = scheduling_group::CurrentFiber() != nullptr;  // FdSlot::Wait() in a thread asks the kernel.
  for (bool told = false;; told = true) {
    const FdSlot::Ticket ticket = slot->TicketOf(FdSlot::kRead);
    if (ticket.closed()) return ErrnoCode(ECANCELED);
    if (told || (in_fiber && slot->WorthATry(FdSlot::kRead, ticket))) {
      if (const auto found = LookNow(slot->fd())) return *found;
      slot->ClearReadiness(FdSlot::kRead, ticket);
    }
    const std::error_code error = slot->Wait(FdSlot::kRead, deadline);
    if (!error) continue;
    // The reactor may not have reported the latest events: as in FdSlot::Retry(), the kernel has the last word.
    const bool timed_out = error.value() == ETIMEDOUT && !slot->TicketOf(FdSlot::kRead).closed();
    if (timed_out) {
      if (const auto found = LookNow(slot->fd())) return *found;
    }
    return timed_out ? error : error.value() == ETIMEDOUT ? ErrnoCode(ECANCELED) : error;
  }
}

}  // namespace

Descriptor::Descriptor(int fd) : slot_(FdSlot::Take(fd)) {
  // A bad number fails here and in each call that follows.
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_NONBLOCK) == 0) (void)::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

bool Descriptor::IsOpen() const noexcept { return slot_ != nullptr && !slot_->closed(); }

bool Descriptor::Close() noexcept { return slot_ != nullptr && slot_->Close(); }

int Descriptor::fd() const noexcept { return IsOpen() ? slot_->fd() : -1; }

void Descriptor::DropSlot() noexcept { std::exchange(slot_, nullptr)->Drop(); }

IoResult Descriptor::RetryRead(std::size_t full, SystemCall function, void* call, Deadline deadline) {
  return Retry(slot_, FdSlot::kRead, full, function, call, deadline);
}

IoResult Descriptor::RetryWrite(SystemCall function, void* call, Deadline deadline) {
  return Retry(slot_, FdSlot::kWrite, 0, function, call, deadline);
}

std::error_code Descriptor::Once(SystemCall function, void* call) const {
  FdSlot* const slot = slot_;
  if (slot == nullptr || !slot->BeginUse()) return ErrnoCode(ECANCELED);
  const ssize_t result = function(call, slot->fd());
  const std::error_code error = result >= 0 ? std::error_code() : ErrnoCode(errno);
  slot->EndUse();
  return error;
}

FdSlot* Descriptor::StartWatching(HangupWatch* watch, std::error_code* error) {
  FdSlot* const slot = slot_;
  *error = {};
  if (slot == nullptr || !slot->BeginUse()) {
    *error = ErrnoCode(ECANCELED);
    return nullptr;
  }
  *error = slot->Watch(watch);
  if (!*error) return slot;
  slot->EndUse();
  return nullptr;
}

void Descriptor::StopWatching(FdSlot* slot) noexcept {
  slot->Unwatch();
  slot->EndUse();
}

void Descriptor::NoteReadIsShut() noexcept {
  if (slot_ != nullptr) slot_->NoteReadIsShut();
}

bool Descriptor::ReadHasGivenWay() const noexcept { return slot_ != nullptr && slot_->HasGivenWay(FdSlot::kRead); }

ReadableWatch::Armed Descriptor::Arm(ReadableWatch* watch) noexcept {
  return slot_ == nullptr ? ReadableWatch::Armed::kReadable : watch->Arm(slot_);
}

std::error_code Descriptor::WaitReadable(Deadline deadline) {
  scheduling_group::YieldIfSliceIsOver();
  FdSlot* const slot = slot_;
  if (slot == nullptr || !slot->BeginUse()) return ErrnoCode(ECANCELED);
  const std::error_code error = WaitReadableInUse(slot, deadline);
  slot->EndUse();
  return error;
}

std::error_code Descriptor::SetWaitLimits(std::chrono::milliseconds read, std::chrono::milliseconds write) noexcept {
  if (slot_ == nullptr || !slot_->BeginUse()) return ErrnoCode(ECANCELED);
  slot_->SetWaitLimit(FdSlot::kRead, read);
  slot_->SetWaitLimit(FdSlot::kWrite, write);
  slot_->EndUse();
  return {};
}

void Descriptor::ExpectShortReads() noexcept {
  if (slot_ == nullptr || !slot_->BeginUse()) return;
  slot_->ExpectShortReads();
  slot_->EndUse();
}

}  // namespace weft::io
