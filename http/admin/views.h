// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the admin pages show, as JSON: OverviewJson(), what the scheduler and the process count; MachineJson(), CPUs and
// threads, as /sys and /proc have them; FlagsJson(), the flags of gflags, and SetFlag(); RecorderJson(), the recorder's
// level, and SetRecorder(). And what they give to be kept: Trace(), Profile().
//
// Times are in nanoseconds, of the monotonic clock. Counts begin with the process: a browser makes rates of two
// answers.
//
// Any fiber and thread. MachineJson() reads files, some 50 us for each CPU and thread. Trace() and Profile() take
// 4 us for each event: not on a worker; and memory, 0.3 GB at most: so one at a time, by who owns DownloadTurn().
#ifndef WEFT_HTTP_ADMIN_VIEWS_H_
#define WEFT_HTTP_ADMIN_VIEWS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/sync/fiber_timed_mutex.h"

namespace weft::http {

std::string OverviewJson(std::string_view title);
std::string MachineJson();
std::string FlagsJson(bool may_change);
// "name=value". False: *why is a line that says why.
[[nodiscard]] bool SetFlag(std::string_view assignment, std::string* why);
std::string RecorderJson(bool may_change);
// "off", "sampled" or "full". False: it is none of these.
[[nodiscard]] bool SetRecorder(std::string_view level);

// A file to be kept.
struct AdminDownload {
  std::string name;  // of the file
  std::string_view type;
  std::string text;
};

// The parameters of a query: ms=100, what=cpu, format=pprof.
struct RecordingQuery {
  std::chrono::milliseconds last{0};  // 0: not said
  std::string what{};
  std::string format{};
  std::size_t most_events = 1'000'000;  // Not in the query.
};

// Of the process: who makes a download owns it, until that is sent.
FiberTimedMutex& DownloadTurn();

// False: *why is a line that says why.
[[nodiscard]] bool Trace(const RecordingQuery& query, AdminDownload* trace, std::string* why);
[[nodiscard]] bool Profile(const RecordingQuery& query, AdminDownload* profile, std::string* why);

}  // namespace weft::http

#endif  // WEFT_HTTP_ADMIN_VIEWS_H_
