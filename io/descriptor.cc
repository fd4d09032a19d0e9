// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/descriptor.h"

namespace weft::io {

std::error_code Descriptor::WaitReady(FdSlot::Direction direction, Deadline deadline) {
  scheduling_group::YieldIfSliceIsOver();
  FdSlot* const slot = slot_;
  if (slot == nullptr || !slot->BeginUse()) return ErrnoCode(ECANCELED);
  std::error_code error;
  if (!slot->TicketOf(direction).ready() || !slot->IsRegistered(direction)) error = slot->Wait(direction, deadline);
  if (slot->TicketOf(direction).closed()) error = ErrnoCode(ECANCELED);
  slot->EndUse();
  return error;
}

}  // namespace weft::io
