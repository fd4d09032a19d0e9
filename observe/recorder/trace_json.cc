// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// TraceOf(): Chrome's trace format ("Trace Event Format", Google, 2016), as Perfetto reads it: complete events (X) for
// turns and waits, instants (i), flows from a wake (s) to the turn that it led to (f), and metadata (M). Process 1 is
// the workers and threads, process 2 the fibers.

#include <string>
#include <string_view>
#include <unordered_map>

#include "weft/base/report/str_cat.h"
#include "weft/observe/flight_recorder.h"
#include "weft/observe/recorder/timeline.h"

namespace weft {
namespace observe {
namespace {

using scheduling_group::EventKind;

constexpr int kThreads = 1;
constexpr int kFibers = 2;

void AppendString(std::string* out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  *out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {  // Names may be no UTF-8.
      *out += "\\u00";
      *out += kHex[byte >> 4];
      *out += kHex[byte & 15];
    } else {
      *out += c;
    }
  }
  *out += '"';
}

class TraceWriter {
 public:
  explicit TraceWriter(const RecordingData& data) : data_(data), timeline_(data) {}

  std::string Write() {
    text_ = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"source\":\"weft\",\"refused_events\":\"";
    text_ += std::to_string(data_.refused) + "\"},\"traceEvents\":[";
    Metadata(kThreads, 0, "process_name", "workers");
    Metadata(kFibers, 0, "process_name", "fibers");
    for (std::size_t t = 0; t < data_.tracks.size(); ++t) Metadata(kThreads, t + 1, "thread_name", TrackName(t));
    for (const Timeline::Turn& turn : timeline_.turns) WriteTurn(turn);
    for (const Timeline::Wait& wait : timeline_.waits) WriteWait(wait);
    for (const Timeline::Wake& wake : timeline_.wakes) WriteWake(wake);
    for (std::size_t t = 0; t < data_.tracks.size(); ++t) WriteInstants(t);
    for (const auto& [fiber, track] : fiber_tracks_) Metadata(kFibers, track, "thread_name", data_.Label(fiber));
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  std::string TrackName(std::size_t track) const {
    const auto& owner = data_.tracks[track].owner;
    if (!owner.worker) return base::StrCat("thread ", owner.thread);
    return base::StrCat("group ", owner.group, ", worker ", owner.index, " (thread ", owner.thread, ")");
  }

  std::size_t FiberTrack(std::uint64_t fiber) {
    return fiber_tracks_.try_emplace(fiber, fiber_tracks_.size() + 1).first->second;
  }

  void Begin(std::string_view phase, int process, std::size_t track) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    text_ += base::StrCat("{\"ph\":\"", phase, "\",\"pid\":", process, ",\"tid\":", track);
  }
  void Text(std::string_view key, std::string_view value) {
    text_ += base::StrCat(",\"", key, "\":");
    AppendString(&text_, value);
  }
  // Microseconds, with three digits behind the point.
  void Time(std::string_view key, std::int64_t ns) {
    const std::string below = std::to_string(1000 + ns % 1000);
    text_ += base::StrCat(",\"", key, "\":", ns / 1000, ".", below.substr(1));
  }
  void End() { text_ += '}'; }

  void Metadata(int process, std::size_t track, std::string_view what, std::string_view name) {
    Begin("M", process, track);
    Text("name", what);
    text_ += ",\"args\":{\"name\":";
    AppendString(&text_, name);
    text_ += '}';
    End();
  }

  // Never below 0: on a CPU whose counter is behind, an event may seem to be before the first one.
  std::int64_t Since(std::int64_t ns) const { return ns > data_.begin_ns ? ns - data_.begin_ns : 0; }

  void Slice(int process, std::size_t track, std::string_view name, std::string_view category, std::int64_t begin,
             std::int64_t end) {
    Begin("X", process, track);
    Text("name", name);
    Text("cat", category);
    Time("ts", Since(begin));
    Time("dur", end > begin ? end - begin : 0);
  }

  void WriteTurn(const Timeline::Turn& turn) {
    Slice(kThreads, turn.track + 1, data_.Label(turn.fiber), "turn", turn.begin, turn.end);
    text_ += ",\"args\":{\"fiber\":" + std::to_string(turn.fiber);
    Text("left", HowLeft(turn));
    text_ += '}';
    End();
    Slice(kFibers, FiberTrack(turn.fiber), "runs", "turn", turn.begin, turn.end);
    text_ += ",\"args\":{\"on\":";
    AppendString(&text_, TrackName(turn.track));
    text_ += '}';
    End();
  }

  static std::string HowLeft(const Timeline::Turn& turn) {
    switch (turn.how) {
      case EventKind::kParked:
        return TextOf(turn.reason);
      case EventKind::kYielded:
        return "yield";
      case EventKind::kEnded:
        return "end";
      default:
        return "not yet";
    }
  }

  void WriteWait(const Timeline::Wait& wait) {
    const std::int64_t end = wait.ran != Timeline::kUnknown ? wait.ran : data_.end_ns;
    const std::int64_t woken = wait.woken != Timeline::kUnknown ? wait.woken : end;
    Slice(kFibers, FiberTrack(wait.fiber), TextOf(wait.reason), "wait", wait.parked, woken);
    text_ += ",\"args\":{\"woken_by\":";
    AppendString(&text_, wait.waker != 0 ? data_.Label(wait.waker) : "");
    text_ += '}';
    End();
    if (wait.woken == Timeline::kUnknown) return;
    Slice(kFibers, FiberTrack(wait.fiber), "ready", "ready", woken, end);
    End();
  }

  // An arrow needs a slice at each end. A wake has one of its own, which is in the turn of the waker.
  void WriteWake(const Timeline::Wake& wake) {
    constexpr std::int64_t kShown = 1;
    Slice(kThreads, wake.from_track + 1, base::StrCat(wake.start ? "start " : "wake ", data_.Label(wake.fiber)), "wake",
          wake.at, wake.at + kShown);
    text_ += ",\"args\":{\"by\":";
    AppendString(&text_, wake.waker != 0 ? data_.Label(wake.waker) : "thread, timer or poll");
    text_ += '}';
    End();
    if (wake.ran == Timeline::kUnknown) return;
    ++flows_;
    Flow("s", wake.from_track, wake.at);
    Slice(kThreads, wake.to_track + 1, base::StrCat("ran ", data_.Label(wake.fiber)), "ran", wake.ran,
          wake.ran + kShown);
    End();
    Flow("f", wake.to_track, wake.ran);
  }

  void Flow(std::string_view phase, std::size_t track, std::int64_t at) {
    Begin(phase, kThreads, track + 1);
    Text("name", "wake");
    Text("cat", "wake");
    text_ += base::StrCat(",\"id\":", flows_);
    Time("ts", Since(at));
    if (phase == "f") Text("bp", "e");
    End();
  }

  void Instant(int process, std::size_t track, std::string_view name, std::string_view category, std::int64_t at) {
    Begin("i", process, track);
    Text("name", name);
    Text("cat", category);
    Text("s", "t");
    Time("ts", Since(at));
  }

  void WriteInstants(std::size_t track) {
    const auto& events = data_.tracks[track].events;
    std::int64_t slept = Timeline::kUnknown;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const RecordedEvent& event = events[i];
      switch (event.kind) {
        case EventKind::kSlept:
          slept = event.ns;
          break;
        case EventKind::kGotUp:
          if (slept == Timeline::kUnknown) break;
          Slice(kThreads, track + 1, "sleeps", "sleep", slept, event.ns);
          End();
          slept = Timeline::kUnknown;
          break;
        case EventKind::kStolen:
          Instant(kThreads, track + 1, base::StrCat("steals ", data_.Label(event.a), " from group ", event.b), "steal",
                  event.ns);
          End();
          break;
        case EventKind::kPolled:
          Instant(kThreads, track + 1, base::StrCat("poll: ", event.a, " events"), "poll", event.ns);
          End();
          break;
        case EventKind::kTimers:
          Instant(kThreads, track + 1, base::StrCat("timers: ", event.a, " fibers, ", event.b, " callbacks"), "timer",
                  event.ns);
          End();
          break;
        case EventKind::kCancelled:
          Instant(kThreads, track + 1, "cancels a scope", "cancel", event.ns);
          End();
          break;
        case EventKind::kMark:
          WriteMark(track, event, i + 1 < events.size() ? events[i + 1] : RecordedEvent{});
          break;
        default:
          break;
      }
    }
    if (slept == Timeline::kUnknown) return;
    Slice(kThreads, track + 1, "sleeps", "sleep", slept, data_.end_ns);
    End();
  }

  void WriteMark(std::size_t track, const RecordedEvent& mark, const RecordedEvent& next) {
    const std::string& name = data_.mark_names.at(mark.b);
    const std::uint64_t value = next.kind == EventKind::kMarkValue ? next.a : 0;
    const auto write = [&](int process, std::size_t to) {
      Instant(process, to, name, "mark", mark.ns);
      text_ += base::StrCat(",\"args\":{\"value\":", value, "}");
      End();
    };
    write(kThreads, track + 1);
    if (mark.a != 0) write(kFibers, FiberTrack(mark.a));
  }

  const RecordingData& data_;
  const Timeline timeline_;
  std::unordered_map<std::uint64_t, std::size_t> fiber_tracks_;
  std::size_t flows_ = 0;
  bool first_ = true;
  std::string text_;
};

}  // namespace
}  // namespace observe

std::string TraceOf(const Recording& recording) {
  const observe::RecordingData nothing;
  return observe::TraceWriter(recording.data() != nullptr ? *recording.data() : nothing).Write();
}

}  // namespace weft
