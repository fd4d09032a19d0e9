// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the flight recorder keeps, and what it says. trace_reader_test.py reads what ReadByTheirReaders writes to where
// WEFT_TRACE_DIR says.

#include "weft/observe/flight_recorder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/this_fiber.h"
#include "weft/observe/recorder/recording_data.h"
#include "weft/observe/recorder/timeline.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft {
namespace {

using fiber::OptionsOf;
using fiber::Shape;
using observe::RecordingData;
using observe::Timeline;
using scheduling_group::EventKind;
using scheduling_group::WaitKind;
using std::chrono::hours;
using std::chrono::milliseconds;

// While it lives a runtime runs, which records so from the start: its threads see it with their first wake.
// (Earlier tests' events are still there: rings are given on, and not cleared.)
class Recorded {
 public:
  explicit Recorded(RecorderLevel level, Shape shape = {2, 1}) {
    RuntimeOptions options = OptionsOf(shape);
    options.recorder = level;
    StartRuntime(options);
  }
  ~Recorded() {
    TerminateRuntime();
    SetRecorderLevel(RecorderLevel::kOff);
  }

  // What was recorded since it began.
  Recording Keep() const { return KeepRecording(std::chrono::steady_clock::now() - begin_); }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

FiberAttributes Named(const char* name) {
  FiberAttributes attributes;
  attributes.name = name;
  return attributes;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t Count(const RecordingData& data, EventKind kind) {
  std::size_t count = 0;
  for (const auto& track : data.tracks) {
    count += static_cast<std::size_t>(
        std::count_if(track.events.begin(), track.events.end(), [=](const auto& event) { return event.kind == kind; }));
  }
  return count;
}

// On one worker: a fiber waits for an event that another one sets, which marks that.
void WaitForAnother() {
  Fiber(Named("setter"), [] {
    FiberEvent event;
    Fiber waiter(Named("waiter"), [&] { event.Wait(); });
    FiberYield();
    Mark("about to set", 42);
    event.Set();
    waiter.Join();
  }).Join();
}

TEST(FlightRecorder, AFullRecordingShowsWhoWaitedAndWhoWokeIt) {
  const Recorded recorded(RecorderLevel::kFull, {1, 1});
  WaitForAnother();
  const Recording recording = recorded.Keep();
  ASSERT_NE(recording.data(), nullptr);
  const RecordingData& data = *recording.data();
  const Timeline timeline(data);
  const auto wait = std::find_if(timeline.waits.begin(), timeline.waits.end(),
                                 [](const auto& w) { return w.reason.kind() == WaitKind::kEvent; });
  ASSERT_NE(wait, timeline.waits.end());
  EXPECT_EQ(data.Name(wait->fiber), "waiter") << "it has ended, and its name is known";
  EXPECT_EQ(data.Name(wait->waker), "setter");
  EXPECT_LE(wait->parked, wait->woken);
  EXPECT_LE(wait->woken, wait->ran);
  const std::string trace = TraceOf(recording);
  EXPECT_TRUE(Has(trace, "\"event 0x")) << trace;
  EXPECT_TRUE(Has(trace, "\"about to set\"")) << trace;
  EXPECT_TRUE(Has(trace, "\"value\":42")) << trace;
  const std::string waits = ProfileOf(recording, Profiled::kWaits);
  EXPECT_TRUE(Has(waits, "waiter;event 0x")) << waits;
  EXPECT_TRUE(Has(waits, "setter;join 0x")) << waits;
  const std::string cpu = ProfileOf(recording, Profiled::kCpu);
  EXPECT_TRUE(Has(cpu, "waiter ")) << cpu;
  EXPECT_TRUE(Has(cpu, "setter ")) << cpu;
}

TEST(FlightRecorder, ASampledRecordingShowsWhatAWokenFiberHadWaitedFor) {
  const Recorded recorded(RecorderLevel::kSampled, {1, 1});
  EXPECT_EQ(GetRecorderLevel(), RecorderLevel::kSampled);
  WaitForAnother();  // The first wakes after a rest are samples.
  const Recording recording = recorded.Keep();
  ASSERT_NE(recording.data(), nullptr);
  EXPECT_EQ(Count(*recording.data(), EventKind::kParked), 0u);
  EXPECT_GE(Count(*recording.data(), EventKind::kStarted), 1u);
  EXPECT_GE(Count(*recording.data(), EventKind::kRan), 1u);
  EXPECT_EQ(Count(*recording.data(), EventKind::kMark), 1u);
}

TEST(FlightRecorder, TurnsOfAWorkerFollowEachOther) {
  const Recorded recorded(RecorderLevel::kFull, {2, 1});
  for (int i = 0; i < 50; ++i) {
    Fiber([] {
      for (int y = 0; y < 20; ++y) FiberYield();
    }).Join();
  }
  const Recording recording = recorded.Keep();
  ASSERT_NE(recording.data(), nullptr);
  const Timeline timeline(*recording.data());
  std::vector<std::int64_t> ends(recording.data()->tracks.size(), 0);
  for (const auto& turn : timeline.turns) {
    EXPECT_LE(ends[turn.track], turn.begin);
    EXPECT_LE(turn.begin, turn.end);
    ends[turn.track] = turn.end;
  }
  EXPECT_GE(timeline.turns.size(), 50u);
}

TEST(FlightRecorder, WhatIsOlderThanAskedForIsLeftOut) {
  const Recorded recorded(RecorderLevel::kSampled, {1, 1});
  Fiber([] { Mark("old"); }).Join();
  const auto then = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - then < milliseconds(20)) {
  }
  Fiber([] { Mark("new"); }).Join();
  const auto since = std::chrono::steady_clock::now() - then;
  const std::string trace = TraceOf(KeepRecording(since - milliseconds(1)));
  EXPECT_TRUE(Has(trace, "\"new\""));
  EXPECT_FALSE(Has(trace, "\"old\""));
  EXPECT_TRUE(Has(TraceOf(KeepRecording(hours(1))), "\"old\""));
}

TEST(FlightRecorder, OffRecordsNothing) {
  const Recorded recorded(RecorderLevel::kOff, {1, 1});
  Fiber([] { Mark("nobody writes this down"); }).Join();
  EXPECT_FALSE(Has(TraceOf(KeepRecording(hours(1))), "nobody writes this down"));
}

TEST(FlightRecorder, APlainThreadMarks) {
  const Recorded recorded(RecorderLevel::kSampled, {1, 1});
  std::thread([] { Mark("of a thread", 7); }).join();
  const std::string trace = TraceOf(KeepRecording(hours(1)));
  EXPECT_TRUE(Has(trace, "\"of a thread\"")) << trace;
  EXPECT_TRUE(Has(trace, "\"thread ")) << trace;
}

TEST(FlightRecorder, WhatWasRecordedStaysWhenTheRuntimeHasEnded) {
  {
    const Recorded recorded(RecorderLevel::kFull, {2, 1});
    Fiber([] { Mark("before the end"); }).Join();
  }
  EXPECT_TRUE(Has(TraceOf(KeepRecording(hours(1))), "\"before the end\""));
}

TEST(FlightRecorder, AForkedChildReadsWhatItsParentDid) {
  const Recorded recorded(RecorderLevel::kSampled, {1, 1});
  Fiber([] { Mark("of the parent"); }).Join();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Mark("of the child");
    const std::string trace = TraceOf(KeepRecording(hours(1)));
    ::_exit(Has(trace, "of the parent") && Has(trace, "of the child") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(FlightRecorder, AnEmptyRecordingIsReadAsNothing) {
  const Recording none;
  EXPECT_EQ(none.events(), 0u);
  EXPECT_EQ(none.length().count(), 0);
  EXPECT_TRUE(Has(TraceOf(none), "\"traceEvents\":["));
  EXPECT_EQ(ProfileOf(none, Profiled::kCpu), "");
}

TEST(FlightRecorder, RecordingsAreKeptWhileWorkersWrite) {
  const Recorded recorded(RecorderLevel::kFull, {2, 1});
  std::atomic<bool> stop{false};
  std::vector<Fiber> fibers;
  for (int i = 0; i < 8; ++i) {
    fibers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) FiberYield();
    });
  }
  for (int i = 0; i < 5; ++i) {
    const Recording recording = KeepRecording();
    for (const auto& track : recording.data()->tracks) {
      std::int64_t last = 0;
      for (const auto& event : track.events) {
        ASSERT_NE(event.kind, EventKind::kNone);
        ASSERT_LT(event.kind, EventKind::kCount);
        ASSERT_LE(last, event.ns);
        last = event.ns;
      }
    }
  }
  stop.store(true, std::memory_order_relaxed);
  for (Fiber& fiber : fibers) fiber.Join();
}

TEST(FlightRecorder, ALockSaysWhoWaitedAndWhoGaveItUp) {
  const Recorded recorded(RecorderLevel::kFull, {1, 1});
  Fiber([] {
    FiberMutex mutex;
    Fiber holder(Named("holder"), [&] {
      const std::scoped_lock lock(mutex);
      FiberYield();
      FiberYield();
    });
    FiberYield();
    Fiber waiter(Named("waits_for_holder"), [&] { const std::scoped_lock lock(mutex); });
    holder.Join();
    waiter.Join();
  }).Join();
  const std::string locks = ProfileOf(recorded.Keep(), Profiled::kLocks);
  EXPECT_TRUE(Has(locks, ";waits_for_holder;given by holder ")) << locks;
}

TEST(RecordIfLate, KeepsWhatHappenedIfItsTimeIsOverAtMostOnceASecond) {
  const Recorded recorded(RecorderLevel::kSampled, {1, 1});
  int kept = 0;
  std::string trace;
  const auto then = [&](const Recording& recording) {
    if (++kept == 1) trace = TraceOf(recording);
  };
  Fiber([&] {
    { const RecordIfLate in_time(hours(1), then); }
    EXPECT_EQ(kept, 0);
    const auto before = std::chrono::steady_clock::now();
    {
      const RecordIfLate late(std::chrono::nanoseconds(-1), then);
      Mark("why it was late");
    }
    EXPECT_EQ(kept, 1);
    { const RecordIfLate late(std::chrono::nanoseconds(-1), then); }
    const bool within_a_second = std::chrono::steady_clock::now() - before < std::chrono::seconds(1);
    EXPECT_EQ(kept, within_a_second ? 1 : kept) << "at most one in a second, of all";
  }).Join();
  EXPECT_TRUE(Has(trace, "\"why it was late\"")) << trace;
}

// --- docs/diagnosing.md ---

// Lines of a profile, without their numbers, in the order of their text.
std::set<std::string> LinesOf(const std::string& profile) {
  std::istringstream lines(profile);
  std::set<std::string> all;
  for (std::string line; std::getline(lines, line);) {
    line = std::regex_replace(line, std::regex("0x[0-9a-f]+"), "0x");
    all.insert(line.substr(0, line.rfind(' ')));
  }
  return all;
}

// Those that stand on the page below a line that ends so.
std::set<std::string> LinesOfThePage(const std::string& head) {
  std::ifstream page(WEFT_DOCS_DIR "/diagnosing.md");
  std::string profile;
  bool found = false;
  for (std::string line; std::getline(page, line);) {
    if (found && line.starts_with("    ")) profile += line.substr(4) + "\n";
    if (found && !profile.empty() && !line.starts_with("    ")) break;
    if (line.ends_with(head)) found = true;
  }
  return LinesOf(profile);
}

TEST(ProfilePage, ThePageOfDiagnosingShowsWhatProfilesSay) {
  const Recorded recorded(RecorderLevel::kFull, {1, 1});
  FiberMutex prices;
  Fiber refresh(Named("refresh"), [&] {
    const std::scoped_lock lock(prices);
    FiberSleepFor(milliseconds(5));
  });
  Fiber first(Named("request"), [&] { const std::scoped_lock lock(prices); });
  Fiber second(Named("request"), [&] { const std::scoped_lock lock(prices); });
  refresh.Join();
  first.Join();
  second.Join();
  const Recording recording = recorded.Keep();
  EXPECT_EQ(LinesOf(ProfileOf(recording, Profiled::kLocks)), LinesOfThePage("`Profiled::kLocks`:"));
  EXPECT_EQ(LinesOf(ProfileOf(recording, Profiled::kWaits)), LinesOfThePage("`Profiled::kWaits`:"));
  EXPECT_EQ(LinesOf(ProfileOf(recording, Profiled::kCpu)), LinesOfThePage("`Profiled::kCpu`:"));
}

// For trace_reader_test.py.
TEST(FlightRecorder, ReadByTheirReaders) {
  const char* const folder = std::getenv("WEFT_TRACE_DIR");
  if (folder == nullptr) GTEST_SKIP() << "trace_reader_test.py sets WEFT_TRACE_DIR";
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(std::string(folder) + '/' + name) << text;
  };
  const auto write_all = [&](RecorderLevel recorder_level, const std::string& level) {
    const Recorded recorded(recorder_level, {2, 1});
    WaitForAnother();
    Fiber(Named("a \"quoted\" \\ name; \xc3\xa4"), [] {
      for (int i = 0; i < 3; ++i) FiberSleepFor(milliseconds(1));
      CancelScope scope;
      scope.Cancel();
    }).Join();
    const Recording recording = recorded.Keep();
    write(level + ".json", TraceOf(recording));
    write(level + ".cpu.pb", ProfileOf(recording, Profiled::kCpu, ProfileFormat::kPprof));
    write(level + ".waits.pb", ProfileOf(recording, Profiled::kWaits, ProfileFormat::kPprof));
    write(level + ".waits.folded", ProfileOf(recording, Profiled::kWaits));
  };
  write_all(RecorderLevel::kFull, "full");
  write_all(RecorderLevel::kSampled, "sampled");
}

}  // namespace
}  // namespace weft
