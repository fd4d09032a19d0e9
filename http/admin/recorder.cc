// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "weft/base/report/str_cat.h"
#include "weft/http/admin/json_writer.h"
#include "weft/http/admin/views.h"
#include "weft/observe/contention.h"
#include "weft/observe/flight_recorder.h"
#include "weft/observe/recorder/recording_data.h"

namespace weft::http {
namespace {

constexpr std::array<std::string_view, 3> kLevels = {"off", "sampled", "full"};  // as RecorderLevel
static_assert(static_cast<int>(RecorderLevel::kOff) == 0 && static_cast<int>(RecorderLevel::kFull) == 2);

constexpr std::array<std::pair<std::string_view, Profiled>, 3> kProfiles = {
    {{"cpu", Profiled::kCpu}, {"waits", Profiled::kWaits}, {"locks", Profiled::kLocks}}};

std::string FileName(std::string_view what, std::string_view extension) {
  return base::StrCat("weft-", ::getpid(), '.', what, '.', extension);
}

// False: they are too many.
bool Keep(const RecordingQuery& query, std::chrono::milliseconds otherwise, Recording* kept, std::string* why) {
  const std::chrono::milliseconds last = query.last.count() != 0 ? query.last : otherwise;
  *kept = Recording(std::make_shared<const observe::RecordingData>(observe::ReadRings(last, query.most_events)));
  if (kept->events() <= query.most_events) return true;
  *why = base::StrCat("there are more than ", query.most_events, " events: ask for fewer ms");
  return false;
}

// make: gives the text in a format.
template <class Make>
AdminDownload ProfileFile(std::string_view name, bool pprof, Make make) {
  if (pprof) return {FileName(name, "pb"), "application/octet-stream", make(ProfileFormat::kPprof)};
  return {FileName(name, "folded"), "text/plain; charset=utf-8", make(ProfileFormat::kFolded)};
}

}  // namespace

FiberTimedMutex& DownloadTurn() {
  static auto* const turn = new FiberTimedMutex;
  return *turn;
}

std::string RecorderJson(bool may_change) {
  JsonWriter json;
  json.Open('{').Field("level", kLevels[static_cast<std::size_t>(GetRecorderLevel())]);
  json.Field("may_change", may_change).Close('}');
  return json.Take();
}

bool SetRecorder(std::string_view level) {
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i] != level) continue;
    SetRecorderLevel(static_cast<RecorderLevel>(i));
    return true;
  }
  return false;
}

bool Trace(const RecordingQuery& query, AdminDownload* trace, std::string* why) {
  Recording recording;
  if (!Keep(query, std::chrono::milliseconds(100), &recording, why)) return false;
  *trace = {FileName("trace", "json"), "application/json", TraceOf(recording)};
  return true;
}

bool Profile(const RecordingQuery& query, AdminDownload* profile, std::string* why) {
  const bool pprof = query.format == "pprof";
  if (!pprof && !query.format.empty() && query.format != "folded") {
    *why = base::StrCat("format=", query.format, ": expected folded or pprof");
    return false;
  }
  if (query.what == "contention") {
    *profile = ProfileFile(query.what, pprof, &ContentionProfile);
    return true;
  }
  for (const auto& [name, what] : kProfiles) {
    if (name != query.what) continue;
    Recording recording;
    if (!Keep(query, std::chrono::seconds(1), &recording, why)) return false;
    if (what == Profiled::kCpu && GetRecorderLevel() != RecorderLevel::kFull && ProfileOf(recording, what).empty()) {
      *why = "what=cpu needs the recorder's level full (--fiber_recorder=full)";
      return false;
    }
    *profile =
        ProfileFile(name, pprof, [&, of = what](ProfileFormat format) { return ProfileOf(recording, of, format); });
    return true;
  }
  *why = base::StrCat("what=", query.what, ": expected cpu, waits, locks or contention");
  return false;
}

}  // namespace weft::http
