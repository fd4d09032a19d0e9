// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/flight_recorder.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "weft/fiber/runtime/recorder_level.h"
#include "weft/observe/recorder/recording_data.h"

namespace weft {
namespace {

using scheduling_group::Recorder;

constexpr std::chrono::seconds kKeepEvery{1};

constexpr std::int64_t kNever = INT64_MIN;
constinit std::atomic<std::int64_t> kept_at{kNever};  // in ns

}  // namespace

void SetRecorderLevel(RecorderLevel level, std::size_t events) noexcept {
  fiber::detail::SetRecorderLevel(level, events);
}

RecorderLevel GetRecorderLevel() noexcept { return static_cast<RecorderLevel>(Recorder::level()); }

std::size_t Recording::events() const noexcept {
  if (data_ == nullptr) return 0;
  return std::accumulate(data_->tracks.begin(), data_->tracks.end(), std::size_t{0},
                         [](std::size_t sum, const auto& track) { return sum + track.events.size(); });
}

std::size_t Recording::refused() const noexcept { return data_ != nullptr ? data_->refused : 0; }

std::chrono::nanoseconds Recording::length() const noexcept {
  return std::chrono::nanoseconds(data_ != nullptr ? data_->end_ns - data_->begin_ns : 0);
}

Recording KeepRecording(std::chrono::nanoseconds last) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 30);  // Older times do not fit into an event.
  last = std::clamp(last, std::chrono::nanoseconds(0), kLongest);
  return Recording(std::make_shared<const observe::RecordingData>(observe::ReadRings(last)));
}

std::chrono::steady_clock::time_point RecordIfLate::After(std::chrono::nanoseconds limit) noexcept {
  using TimePoint = std::chrono::steady_clock::time_point;
  const TimePoint now = std::chrono::steady_clock::now();
  return limit < TimePoint::max() - now ? now + limit : TimePoint::max();
}

void RecordIfLate::Late() noexcept {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t before = kept_at.load(std::memory_order_relaxed);
  // relaxed: who wins keeps one; nothing else hangs on it.
  if (before != kNever && now - before < std::chrono::nanoseconds(kKeepEvery).count()) return;
  if (!kept_at.compare_exchange_strong(before, now, std::memory_order_relaxed)) return;
  try {
    then_(KeepRecording(last_));
  } catch (...) {
    // Nobody would catch it: this is a destructor.
  }
}

}  // namespace weft
