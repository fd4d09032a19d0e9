// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The flight recorder: what workers and fibers did in the last moments, kept when something was slow, and read as a
// trace or as a profile.
// Sample:
//   weft::SetRecorderLevel(weft::RecorderLevel::kFull);  // or --fiber_recorder=full; kSampled is the default
//   ...
//   // In the function that serves a request: if it takes more than 50 ms, the last 100 ms are kept.
//   const weft::RecordIfLate late(50ms, [](const weft::Recording& recording) {
//     std::ofstream("/tmp/late.json") << weft::TraceOf(recording);
//   });
//   weft::Mark("parse", 17);
//
//   kSampled  sleeps of workers, steals, polls, timers, cancellations, marks; and of wakes and starts a sample, one
//             each 10 to 20 us of a thread, with what the fiber had waited for and when it ran then
//   kFull     each switch, each wake, each start
//
// Each worker writes what it does into memory of its own, over what is oldest: 8,192 events, or in kFull 131,072 (24
// bytes each; SetRecorderLevel() takes another number). Other threads have 1,024. Nothing is written to a file, and no
// name is looked up, until somebody asks.
//
//   TraceOf()    JSON that https://ui.perfetto.dev and chrome://tracing open: a track for each worker and each fiber,
//                arrows from who wakes to who was woken
//   ProfileOf()  CPU time by fibers' names, or waits by what was waited for, or by lock; for flamegraph.pl, or as pprof
//                reads it
//
// docs/how-to/flight-recorder.md says what it costs, and reads a trace.
//
// Who may call: any fiber and any thread, at any time: before StartRuntime(), while it runs, after its end (what was
// recorded stays until other threads take the memory over), in a forked child (which has its parent's events). Not in
// a signal handler. Errors: KeepRecording() and what reads a recording throw std::bad_alloc. Where there is no memory
// for a worker's events, they are missing, and Recording::refused() counts them.
#ifndef WEFT_OBSERVE_FLIGHT_RECORDER_H_
#define WEFT_OBSERVE_FLIGHT_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "weft/base/time/clock.h"
#include "weft/fiber/runtime_options.h"
#include "weft/scheduling_group/events/recorder.h"

namespace weft {

namespace observe {
struct RecordingData;
}  // namespace observe

// From now on. `events`: of each worker, at most 2^24; 0: as many as
// suit the level. A worker that has as many already keeps them.
void SetRecorderLevel(RecorderLevel level, std::size_t events = 0) noexcept;
// Returns the level that was set last. StartRuntime() sets the one of --fiber_recorder.
RecorderLevel GetRecorderLevel() noexcept;

// A mark of the calling fiber or thread, with a number of its own: some 20 ns, and where nothing is recorded a load and
// a branch. `name`: a literal.
template <std::size_t size>
void Mark(const char (&name)[size], std::uint64_t value = 0) noexcept {
  if (scheduling_group::Recorder::on()) scheduling_group::Recorder::Mark(name, value);
}
// Not a literal: it would be read when it may be gone.
template <std::size_t size>
void Mark(char (&name)[size], std::uint64_t value = 0) = delete;

// Holds the events up to the moment at which they were kept. Copies share them.
class Recording {
 public:
  // An empty one.
  Recording() = default;
  // For the functions below.
  explicit Recording(std::shared_ptr<const observe::RecordingData> data) noexcept : data_(std::move(data)) {}

  // How many there are.
  std::size_t events() const noexcept;
  // How many were not written for want of memory, since the process began.
  std::size_t refused() const noexcept;
  // From the first event to when it was kept.
  std::chrono::nanoseconds length() const noexcept;

  // For the functions below; nullptr: it is empty.
  const observe::RecordingData* data() const noexcept { return data_.get(); }

 private:
  std::shared_ptr<const observe::RecordingData> data_;
};

// The last `last` (0 to 30 days) of what was recorded, as far as it has not been overwritten. Some ms: the events of
// all workers are copied, and the names of living fibers looked up. Workers go on meanwhile.
Recording KeepRecording(std::chrono::nanoseconds last = std::chrono::milliseconds(100));

// Chrome's trace format, JSON.
std::string TraceOf(const Recording& recording);

// What a profile is made of.
enum class Profiled : std::uint8_t {
  kCpu,    // time on workers, by fibers' names. Needs kFull
  kWaits,  // time that fibers waited, by their names and what they waited for; "ready": for a worker
  kLocks,  // of these, mutexes': by lock, who waited, and who gave it up to them
};
// Lines of "a;b;c 123", the numbers in microseconds; or a protocol buffer for `go tool pprof`, not compressed.
enum class ProfileFormat : std::uint8_t { kFolded, kPprof };
// From kSampled times are estimates: each wait stands for as many as its sample does, and is known to 10 ms.
std::string ProfileOf(const Recording& recording, Profiled what, ProfileFormat format = ProfileFormat::kFolded);

// If it lives for longer than `limit`, its end keeps the last `last` of what was recorded, and calls then(recording):
// in its fiber, and for at most one such object of the process in a second. What `then` throws is swallowed.
class RecordIfLate {
 public:
  // Takes the recording, in the destructor of RecordIfLate.
  using Then = std::function<void(const Recording&)>;
  // See above.
  RecordIfLate(std::chrono::nanoseconds limit, Then then,
               std::chrono::nanoseconds last = std::chrono::milliseconds(100))
      : end_(After(limit)), last_(last), then_(std::move(then)) {}
  ~RecordIfLate() {
    if (std::chrono::steady_clock::now() > end_) Late();
  }
  RecordIfLate(const RecordIfLate&) = delete;
  RecordIfLate& operator=(const RecordIfLate&) = delete;

 private:
  static std::chrono::steady_clock::time_point After(std::chrono::nanoseconds limit) noexcept;
  void Late() noexcept;

  const std::chrono::steady_clock::time_point end_;
  const std::chrono::nanoseconds last_;
  const Then then_;
};

}  // namespace weft

#endif  // WEFT_OBSERVE_FLIGHT_RECORDER_H_
