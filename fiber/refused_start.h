// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// A start that was refused because the caller's own runtime ends.
#ifndef WEFT_FIBER_REFUSED_START_H_
#define WEFT_FIBER_REFUSED_START_H_

namespace weft::fiber::detail {

// For a caller whose start was refused, before an exception or the end of the process says so. Does not return to a
// fiber whose workers have been told to stop: it is parked for good, and counts as unfinished (TerminateRuntime()).
void ParkForGoodIfGroupStops();

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_REFUSED_START_H_
