// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/recorder_level.h"

#include "weft/scheduling_group/events/recorder.h"

namespace weft::fiber::detail {
namespace {

using scheduling_group::Recorder;
using scheduling_group::RecordLevel;

static_assert(static_cast<int>(RecorderLevel::kOff) == static_cast<int>(RecordLevel::kOff));
static_assert(static_cast<int>(RecorderLevel::kSampled) == static_cast<int>(RecordLevel::kSampled));
static_assert(static_cast<int>(RecorderLevel::kFull) == static_cast<int>(RecordLevel::kFull));

// Of a worker, where each switch is recorded: 3 MB, 10 ms and more.
constexpr std::size_t kEventsOfAll = std::size_t{1} << 17;

}  // namespace

void SetRecorderLevel(RecorderLevel level, std::size_t events) noexcept {
  if (events == 0) events = level == RecorderLevel::kFull ? kEventsOfAll : Recorder::kRingOfWorker;
  Recorder::SetLevel(static_cast<RecordLevel>(level), events);
}

}  // namespace weft::fiber::detail
