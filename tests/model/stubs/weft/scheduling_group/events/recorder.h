// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// In place of scheduling_group/events/recorder.h: nothing is recorded.
#ifndef WEFT_TESTS_MODEL_STUBS_RECORDER_H_
#define WEFT_TESTS_MODEL_STUBS_RECORDER_H_

#include <cstdint>

namespace weft::scheduling_group {

enum class EventKind : std::uint8_t { kCancelled };

struct Recorder {
  static void Note(EventKind, std::uint64_t, std::uint64_t) noexcept {}
};

}  // namespace weft::scheduling_group

#endif  // WEFT_TESTS_MODEL_STUBS_RECORDER_H_
