// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/readable_watch.h"

#include "weft/io/reactor/fd_slot.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::io {
ReadableWatch::ReadableWatch(void (*readable)(ReadableWatch*) noexcept) noexcept
    : WakeTarget{&OnWake}, readable_(readable), waiter_(static_cast<WakeTarget*>(this)) {
  waiter_.BeginShared(&word_, &waiter_);  // The word is null, so nobody can claim it.
}

ReadableWatch::Armed ReadableWatch::Arm(FdSlot* slot) noexcept {
  if (!slot->BeginUse()) return Armed::kReadable;
  // Once. seq_cst, also in Disarm(): RDW5.
  if (slot_.load(std::memory_order_relaxed) != slot) slot_.store(slot, std::memory_order_seq_cst);
  const Armed armed = ArmInUse();
  if (armed != Armed::kArmed) slot->EndUse();
  return armed;
}

ReadableWatch::Armed ReadableWatch::ArmInUse() noexcept {
  FdSlot* const slot = slot_.load(std::memory_order_relaxed);
  if (slot->AwaitRegistered(FdSlot::kRead)) return Armed::kReadable;  // A wait of the reader's says why.
  for (;;) {
    const FdSlot::Ticket ticket = slot->TicketOf(FdSlot::kRead);
    if (ticket.closed()) return Armed::kReadable;
    if (ticket.ready()) {
      if (IsReadableNow(slot->fd())) return Armed::kReadable;
      slot->ClearReadiness(FdSlot::kRead, ticket);  // RDW2
    }
    switch (slot->EnterWatch(&waiter_, &word_, forbidden_)) {
      case FdSlot::Entered::kWaits:
        return Armed::kArmed;  // Nothing here is ours any more.
      case FdSlot::Entered::kForbidden:
        // The reactor may not have reported the latest bytes.
        return IsReadableNow(slot->fd()) ? Armed::kReadable : Armed::kForbidden;
      case FdSlot::Entered::kReady:
        break;
    }
  }
}

bool ReadableWatch::Disarm() noexcept {
  FdSlot* const slot = slot_.load(std::memory_order_seq_cst);  // As in Arm().
  if (slot == nullptr || !slot->LeaveWatch(&waiter_)) return false;
  slot->EndUse();
  return true;
}

void ReadableWatch::OnWake(synchronization::WakeTarget* target) noexcept {
  auto* const self = static_cast<ReadableWatch*>(target);
  self->slot_.load(std::memory_order_relaxed)->EndUse();  // The claim ordered it.
  const scheduling_group::NoWaitSection no_wait;
  self->readable_(self);
}

}  // namespace weft::io
