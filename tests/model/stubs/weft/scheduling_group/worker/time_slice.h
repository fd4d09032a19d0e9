// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces scheduling_group/worker/time_slice.h in model tests of sync: slices never end. (A model thread may be
// preempted anywhere in any case.)
#ifndef WEFT_SCHEDULING_GROUP_WORKER_TIME_SLICE_H_
#define WEFT_SCHEDULING_GROUP_WORKER_TIME_SLICE_H_

namespace weft::scheduling_group {

inline bool TimeSliceIsOver() noexcept { return false; }
inline void YieldAfterSlice() noexcept {}
inline void YieldIfSliceIsOver() noexcept {}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_TIME_SLICE_H_
