// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/descriptor.h"

#include <poll.h>

#include <cerrno>
#include <chrono>

#include "weft/io/fd_slot.h"
#include "weft/io/poll_until.h"
#include "weft/scheduling_group/time_slice.h"

namespace weft::io {
namespace {

bool IsReadableNow(int fd) {
  pollfd polled{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  return PollUntil(&polled, 1, std::chrono::seconds(0)) > 0;
}

}  // namespace

Descriptor::Descriptor(int fd) : slot_(FdSlot::Take(fd)) {}

bool Descriptor::IsOpen() const noexcept { return slot_ != nullptr && !slot_->closed(); }

bool Descriptor::Close() noexcept { return slot_ != nullptr && slot_->Close(); }

int Descriptor::fd() const noexcept { return IsOpen() ? slot_->fd() : -1; }

void Descriptor::DropSlot() noexcept { std::exchange(slot_, nullptr)->Drop(); }

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

std::error_code Descriptor::WaitReadable(Deadline deadline) {
  scheduling_group::YieldIfSliceIsOver();
  FdSlot* const slot = slot_;
  if (slot == nullptr || !slot->BeginUse()) return ErrnoCode(ECANCELED);
  std::error_code error;
  if (!slot->TicketOf(FdSlot::kRead).ready() || !slot->IsRegistered(FdSlot::kRead)) {
    error = slot->Wait(FdSlot::kRead, deadline);
  }
  // The reactor may not have reported the latest events: as in RetryInUse(), the kernel has the last word.
  if (error.value() == ETIMEDOUT && IsReadableNow(slot->fd())) error = {};
  if (slot->TicketOf(FdSlot::kRead).closed()) error = ErrnoCode(ECANCELED);
  slot->EndUse();
  return error;
}

}  // namespace weft::io
