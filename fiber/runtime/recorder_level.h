// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How much is recorded, as users say it, by --fiber_recorder and at any time. scheduling_group/events/recorder.h does
// it.
#ifndef WEFT_FIBER_RUNTIME_RECORDER_LEVEL_H_
#define WEFT_FIBER_RUNTIME_RECORDER_LEVEL_H_

#include <cstddef>

#include "weft/fiber/runtime_options.h"

namespace weft::fiber::detail {

// StartRuntime(), and users. events: of each worker; 0: as many as suit the level. Any thread.
void SetRecorderLevel(RecorderLevel level, std::size_t events) noexcept;

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_RECORDER_LEVEL_H_
