// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the flight recorder keeps, and what it says. trace_reader_test.py reads what ReadByTheirReaders writes to where
// WEFT_TRACE_DIR says.

#include "weft/observe/flight_recorder.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/this_fiber.h"
#include "weft/observe/contention.h"
#include "weft/observe/recorder/recording_data.h"
#include "weft/observe/recorder/timeline.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"

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

bool HasWaitForEvent(const Recording& recording) {
  const Timeline timeline(*recording.data());
  return std::any_of(timeline.waits.begin(), timeline.waits.end(),
                     [](const auto& wait) { return wait.reason.kind() == WaitKind::kEvent && wait.waker != 0; });
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

// As in a library that is unloaded.
TEST(FlightRecorder, AMarksNameMayGo) {
  const Recorded recorded(RecorderLevel::kSampled, {1, 1});
  constexpr std::size_t kPage = 4096;
  void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  std::memcpy(page, "unloaded", sizeof("unloaded"));
  Mark(*static_cast<const char(*)[sizeof("unloaded")]>(page), 1);
  const Recording before = KeepRecording(hours(1));
  ::munmap(page, kPage);
  EXPECT_TRUE(Has(TraceOf(before), "\"unloaded\"")) << "it was there when the recording was kept";
  const std::string trace = TraceOf(recorded.Keep());
  EXPECT_TRUE(Has(trace, "\"(a name that is gone)\"")) << trace;
}

template <class Text>
concept Markable = requires(Text& text) {
  Mark(text);
};
static_assert(Markable<const char[5]>);
static_assert(!Markable<char[5]>, "an array that may be gone when it is read");

// A row that begins behind the first of a name's parts.
TEST(FlightRecorder, ANameIsWholeOrMissing) {
  const std::string whole = "abcdefghijklmnopqrstuvwxyz012345";
  const Recorded recorded(RecorderLevel::kOff, {1, 1});
  SetRecorderLevel(RecorderLevel::kFull, 1024);
  for (int i = 0; i < 300; ++i) Fiber(Named(whole.c_str()), [] {}).Join();
  for (int i = 0; i < 10; ++i) {
    Fiber(Named(whole.c_str()), [] {}).Join();
    const Recording recording = recorded.Keep();
    for (const auto& [fiber, name] : recording.data()->names) EXPECT_EQ(name, whole);
  }
}

TEST(FlightRecorder, NobodyRunsOnAfterTheRecorderWasSetOff) {
  const Recorded recorded(RecorderLevel::kFull, {1, 1});
  const auto begin = std::chrono::steady_clock::now();
  Fiber([&] {
    SetRecorderLevel(RecorderLevel::kOff);
    const auto off = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - off < 3 * (off - begin) + milliseconds(5)) {
    }
    const Recording recording = KeepRecording(std::chrono::steady_clock::now() - begin);
    const Timeline timeline(*recording.data());
    EXPECT_FALSE(timeline.turns.empty());
    for (const auto& turn : timeline.turns) EXPECT_LE(turn.end - turn.begin, (off - begin).count());
  }).Join();
}

TEST(FlightRecorder, WhoRanAllTheTimeIsShown) {
  const Recorded recorded(RecorderLevel::kFull, {1, 1});
  Fiber(Named("hog"), [] {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < milliseconds(4)) {
    }
    const Recording recording = KeepRecording((std::chrono::steady_clock::now() - begin) / 2);
    const RecordingData& data = *recording.data();
    const Timeline timeline(data);
    ASSERT_EQ(timeline.turns.size(), 1u) << "it was entered before the recording begins";
    EXPECT_EQ(data.Name(timeline.turns[0].fiber), "hog");
    EXPECT_EQ(timeline.turns[0].begin, data.begin_ns);
    EXPECT_EQ(timeline.turns[0].end, data.end_ns);
  }).Join();
}

// One that is made by hand.
Recording RecordingOf(std::vector<observe::RecordedTrack> tracks, std::int64_t begin, std::int64_t end) {
  RecordingData data;
  data.tracks = std::move(tracks);
  data.begin_ns = begin;
  data.end_ns = end;
  return Recording(std::make_shared<const RecordingData>(std::move(data)));
}

// A thread that has written nothing for half a year.
TEST(RecordingData, AnOldEventIsNotANewOne) {
  using observe::CyclesAgo;
  constexpr std::uint64_t kNow = (std::uint64_t{1} << 60) + 12'345;
  constexpr std::uint64_t kLow = (std::uint64_t{1} << scheduling_group::Recorder::kTimeBits) - 1;
  constexpr std::int64_t kHalf = std::int64_t{1} << (scheduling_group::Recorder::kTimeBits - 1);
  for (const std::int64_t ago : {std::int64_t{0}, std::int64_t{300'000'000}, kHalf - 1, kHalf, kHalf + kHalf / 2,
                                 std::int64_t{-1}, std::int64_t{-300'000'000}}) {
    EXPECT_EQ(CyclesAgo(kNow, (kNow - static_cast<std::uint64_t>(ago)) & kLow), ago);
  }
}

TEST(Timeline, WhatATrackHasOverwrittenIsNobodysTurn) {
  observe::RecordedTrack quiet;
  quiet.events = {{.ns = 1'000, .kind = EventKind::kPolled, .a = 1}};
  observe::RecordedTrack busy;  // It has the last 10 ms.
  busy.events = {{.ns = 90'000'000, .kind = EventKind::kYielded, .a = 8, .b = 7},
                 {.ns = 90'000'100, .kind = EventKind::kParked}};
  const Recording recording = RecordingOf({quiet, busy}, 1'000, 100'000'000);
  const Timeline timeline(*recording.data());
  ASSERT_EQ(timeline.turns.size(), 2u);
  EXPECT_EQ(timeline.turns[0].fiber, 7u);
  EXPECT_EQ(timeline.turns[0].begin, 90'000'000);
  EXPECT_EQ(timeline.turns[1].begin, 90'000'000);
}

TEST(Trace, AnEventOfACpuWhoseClockIsBehindIsStillJson) {
  const std::regex no_number("\\.[^0-9]|\\.[0-9]{1,2}[,}]");
  for (std::int64_t behind = 1; behind < 3'000; behind += 7) {
    observe::RecordedTrack track;
    track.events = {{.ns = 5'000, .kind = EventKind::kPolled, .a = 1},
                    {.ns = 5'000 - behind, .kind = EventKind::kPolled, .a = 2}};
    const std::string trace = TraceOf(RecordingOf({track}, 5'000, 6'000));
    EXPECT_FALSE(std::regex_search(trace, no_number)) << trace;
    EXPECT_FALSE(Has(trace, "\"ts\":-")) << trace;
  }
}

TEST(Profile, ALockThatAThreadGaveUpWasGiven) {
  const int lock = 0;
  const std::uint64_t mutex = scheduling_group::WaitReason(WaitKind::kMutex, &lock).word();
  observe::RecordedTrack track;
  track.events = {{.ns = 1, .kind = EventKind::kEntered, .a = 7},
                  {.ns = 2, .kind = EventKind::kParked, .b = mutex},
                  {.ns = 3, .kind = EventKind::kWoken, .a = 7},
                  {.ns = 4, .kind = EventKind::kEntered, .a = 8},
                  {.ns = 5, .kind = EventKind::kParked, .b = mutex}};
  const std::string locks = ProfileOf(RecordingOf({track}, 1, 10), Profiled::kLocks);
  EXPECT_TRUE(Has(locks, ";given by a thread ")) << locks;
  EXPECT_TRUE(Has(locks, ";not given yet ")) << locks;
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

TEST(FlightRecorder, AsLongAsTimeIsAllAndLessThanNothingIsNothing) {
  const Recorded recorded(RecorderLevel::kSampled, {1, 1});
  Mark("at any time");
  EXPECT_TRUE(Has(TraceOf(KeepRecording(std::chrono::nanoseconds::max())), "\"at any time\""));
  EXPECT_FALSE(Has(TraceOf(KeepRecording(std::chrono::nanoseconds::min())), "\"at any time\""));
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
  fibers.reserve(8);
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
    { const RecordIfLate never(std::chrono::nanoseconds::max(), then); }
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
    // On two workers the event may be set before it is waited for.
    do {
      WaitForAnother();
    } while (recorder_level == RecorderLevel::kFull && !HasWaitForEvent(recorded.Keep()));
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
  {
    const Recorded recorded(RecorderLevel::kSampled, {2, 1});
    FiberMutex mutex;
    FiberEvent owned;
    FiberEvent end;
    Fiber owner([&] {
      const std::scoped_lock lock(mutex);
      owned.Set();
      end.Wait();
    });
    Fiber waiter([&] {
      owned.Wait();
      const std::scoped_lock lock(mutex);
    });
    static_cast<void>(observe::DumpUntil("reason=mutex", "\n1 of them match"));
    end.Set();
    owner.Join();
    waiter.Join();
  }
  write("contention.pb", ContentionProfile(ProfileFormat::kPprof));
}

}  // namespace
}  // namespace weft
