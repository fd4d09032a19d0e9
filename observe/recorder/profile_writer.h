// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Profiles as text and for pprof: times and counts by stacks of names, the outermost first.
#ifndef WEFT_OBSERVE_RECORDER_PROFILE_WRITER_H_
#define WEFT_OBSERVE_RECORDER_PROFILE_WRITER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft::observe {

struct ProfileTotal {
  std::int64_t count = 0;
  std::int64_t ns = 0;
};
using ProfileStack = std::vector<std::string>;
using ProfileTotals = std::map<ProfileStack, ProfileTotal>;

// Lines of "a;b;c 123", in this order; the numbers in microseconds.
std::string WriteFolded(const std::vector<std::pair<ProfileStack, ProfileTotal>>& lines);

// Message Profile of github.com/google/pprof/proto/profile.proto, of which these fields are written:
// 1 sample_type {1 type, 2 unit}, 2 sample {1 location_id, 2 value}, 4 location {1 id, 4 line {1 function_id}},
// 5 function {1 id, 2 name}, 6 string_table, 10 duration_nanos.
std::string WritePprof(const ProfileTotals& totals, std::chrono::nanoseconds length);

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_RECORDER_PROFILE_WRITER_H_
