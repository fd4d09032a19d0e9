// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RecordingData: a recording, with times in place of cycles, and the names that fibers had.
//
// Rings are copied one after the other (events/recorder.h), each as a row without gaps; what is older than asked for is
// left out. A fiber's name is in a kName event, if it has ended while each switch was recorded; else it is looked up
// among those that live. Names of marks are copied with the rings: a library that is unloaded takes its own with it.
#ifndef WEFT_OBSERVE_RECORDER_RECORDING_DATA_H_
#define WEFT_OBSERVE_RECORDER_RECORDING_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/base/time/clock.h"
#include "weft/scheduling_group/events/recorder.h"

namespace weft::observe {

// Without kName, whose names are in RecordingData.
struct RecordedEvent {
  std::int64_t ns = 0;  // of the steady clock
  scheduling_group::EventKind kind{};
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};

// Of one worker or thread, the oldest event first.
struct RecordedTrack {
  scheduling_group::Recorder::Owner owner;
  std::vector<RecordedEvent> events;
  std::uint64_t running = 0;  // The fiber that ran when the recording begins. 0: none, or unknown.
  bool open = false;          // What came after the last one would be there. Otherwise that is unknown, too.
};

struct RecordingData {
  std::vector<RecordedTrack> tracks;
  std::unordered_map<std::uint64_t, std::string> names;       // of fibers that have one
  std::unordered_map<std::uint64_t, std::string> mark_names;  // by their addresses
  std::size_t refused = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;

  // "'parser' (id 42)"; "fiber 42"
  std::string Label(std::uint64_t fiber) const;
  // "parser"; "(unnamed)"
  std::string Name(std::uint64_t fiber) const;
};

// How long ago an event was written, in cycles; `low`: the low bits of its reading, as it has them. Below 0: after
// `now`, since writers go on while a reader reads; by less than 2^40, which is some minutes. Modulo 277 days.
constexpr std::int64_t CyclesAgo(std::uint64_t now, std::uint64_t low) noexcept {
  constexpr std::uint64_t kWhole = std::uint64_t{1} << scheduling_group::Recorder::kTimeBits;
  constexpr std::uint64_t kAfter = std::uint64_t{1} << 40;
  const std::uint64_t ago = (now - low) & (kWhole - 1);
  return ago < kWhole - kAfter ? static_cast<std::int64_t>(ago) : -static_cast<std::int64_t>(kWhole - ago);
}

// Where there are more than `most` events, most + 1 of them: the rest is not copied.
RecordingData ReadRings(std::chrono::nanoseconds last, std::size_t most = SIZE_MAX - 1);

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_RECORDER_RECORDING_DATA_H_
