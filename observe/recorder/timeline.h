// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Timeline: what a recording's events mean together: turns of workers, waits of fibers, wakes.
//
//   turn   a worker had a fiber, from one switch event to the next. The fiber of the first turn may be unknown (0), and
//          then it is none. A turn that began before the recording begins with it, if its ring goes back so far; the
//          last one ends with the recording, if its ring was written up to there, and otherwise with its last event
//   wait   a fiber parked, was woken, ran: each with its time, as far as it was recorded
//   wake   somebody made a fiber ready, and it ran then
//
// All events are taken in the order of their times. Two that are nearer to each other than the CPUs' clocks may be in
// the wrong order: a wait that seems to end before it begins has no length.
#ifndef WEFT_OBSERVE_RECORDER_TIMELINE_H_
#define WEFT_OBSERVE_RECORDER_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/observe/recorder/recording_data.h"
#include "weft/scheduling_group/fiber/wait_reason.h"

namespace weft::observe {

struct Timeline {
  static constexpr std::int64_t kUnknown = -1;

  struct Turn {
    std::size_t track = 0;
    std::uint64_t fiber = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    scheduling_group::EventKind how{};  // it ended; kNone: not yet
    scheduling_group::WaitReason reason;
  };
  struct Wait {
    std::uint64_t fiber = 0;
    std::int64_t parked = 0;
    std::int64_t woken = kUnknown;  // where it was not recorded, it is in `ran` only; the end of the recording: neither
    std::int64_t ran = kUnknown;
    scheduling_group::WaitReason reason;
    std::uint64_t waker = 0;
  };
  struct Wake {
    bool start = false;
    std::uint64_t fiber = 0;
    std::uint64_t waker = 0;
    std::size_t from_track = 0;
    std::int64_t at = 0;
    std::size_t to_track = 0;
    std::int64_t ran = kUnknown;
  };
  // Of kSampled.
  struct SampledWait {
    std::uint64_t fiber = 0;
    std::uint64_t waker = 0;
    std::uint64_t weight = 1;
    std::int64_t waited = 0;
    scheduling_group::WaitReason reason;
  };

  explicit Timeline(const RecordingData& data);

  std::vector<Turn> turns;
  std::vector<Wait> waits;
  std::vector<Wake> wakes;
  std::vector<SampledWait> sampled;
};

// "mutex 0x7f0c5c0012a0", "readable 12", "sleep"
std::string TextOf(scheduling_group::WaitReason reason);

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_RECORDER_TIMELINE_H_
