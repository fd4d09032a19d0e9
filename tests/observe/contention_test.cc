// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/contention.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/sync/wait/contention.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"

// What docs/diagnosing.md shows: so they have short names.
struct Prices {
  weft::FiberMutex mutex;
  weft::FiberEvent owned;
  weft::FiberEvent end;
};
WEFT_NOINLINE void RefreshPrices(Prices* prices);
WEFT_NOINLINE void AddPrice(Prices* prices);
WEFT_NOINLINE void ServeRequest(Prices* prices);

void RefreshPrices(Prices* prices) {
  const std::scoped_lock lock(prices->mutex);
  prices->owned.Set();
  prices->end.Wait();
}

void AddPrice(Prices* prices) {
  const std::scoped_lock lock(prices->mutex);
  prices->owned.Set();
  prices->end.Wait();
}

void ServeRequest(Prices* prices) { const std::scoped_lock lock(prices->mutex); }

namespace weft::observe {
namespace {

using synchronization::Contention;
using synchronization::ContentionSample;
using synchronization::ContentionSite;
using namespace std::chrono_literals;

std::vector<std::string> LinesOfProfile(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::uint64_t NumberOf(const std::string& line) { return std::stoull(line.substr(line.rfind(' ') + 1)); }

std::vector<ContentionSite> Sites() {
  std::vector<ContentionSite> sites(Contention::kSites);
  sites.resize(Contention::Copy(sites.data()).value());
  return sites;
}

std::uint64_t WaitsInTheTable() {
  std::uint64_t waits = Contention::lost();
  for (const ContentionSite& site : Sites()) waits += site.waits;
  return waits;
}

// A runtime at this level; the table is empty before and after.
class AtLevel {
 public:
  explicit AtLevel(RecorderLevel level) {
    Contention::Clear();
    SetRecorderLevel(level);  // The runtime has set its own.
  }
  ~AtLevel() { Contention::Clear(); }
  AtLevel(const AtLevel&) = delete;
  AtLevel& operator=(const AtLevel&) = delete;

 private:
  const fiber::RuntimeOf runtime_{fiber::Shape{1, 1}};
};

void AwaitThatItWaits(const std::string& name) {
  static_cast<void>(DumpUntil("reason=mutex,name=" + name, "\n1 of them match"));
}

// One request waits for RefreshPrices() before another one begins to wait for AddPrice(), and until that has gone on.
// The first waits of the worker: so they are samples.
void WaitInTwoPlaces() {
  Prices refreshed;
  Prices added;
  Fiber refresh([&] { RefreshPrices(&refreshed); });
  Fiber add([&] { AddPrice(&added); });
  refreshed.owned.Wait();
  added.owned.Wait();
  Fiber first({.name = "first"}, [&] { ServeRequest(&refreshed); });
  AwaitThatItWaits("first");
  Fiber second({.name = "second"}, [&] { ServeRequest(&added); });
  AwaitThatItWaits("second");
  added.end.Set();
  add.Join();
  second.Join();
  refreshed.end.Set();
  refresh.Join();
  first.Join();
}

class ContentionProfileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Contention::has_samples()) GTEST_SKIP() << "no samples: glibc is older than 2.35";
  }
};

TEST_F(ContentionProfileTest, NamesTheGreaterOneOfTwoGuiltyPlacesFirst) {
  const AtLevel level(RecorderLevel::kSampled);
  WaitInTwoPlaces();
  const std::string profile = ContentionProfile();
  const std::vector<std::string> lines = LinesOfProfile(profile);
  ASSERT_EQ(lines.size(), 2U) << profile;
  EXPECT_GE(NumberOf(lines[0]), NumberOf(lines[1])) << profile;
  EXPECT_NE(lines[0].substr(0, lines[0].find(';')), lines[1].substr(0, lines[1].find(';'))) << "two mutexes";
  const std::string pprof = ContentionProfile(ProfileFormat::kPprof);
  EXPECT_TRUE(Has(pprof, "nanoseconds"));
  if (!StackUnwinder().why_not().empty()) return;
  EXPECT_TRUE(Has(lines[0], "RefreshPrices(")) << profile;
  EXPECT_TRUE(Has(lines[1], "AddPrice(")) << profile;
  for (const std::string& line : lines) {
    const std::size_t waiter = line.find(";made wait;");
    ASSERT_NE(waiter, std::string::npos);
    EXPECT_TRUE(Has(line.substr(waiter), "ServeRequest(")) << line;
    EXPECT_FALSE(Has(line, "FiberMutex::")) << "where the caller is not to be seen";
    EXPECT_FALSE(Has(line, "Worker::")) << line;
  }
  EXPECT_TRUE(Has(pprof, "RefreshPrices("));
}

TEST_F(ContentionProfileTest, AFiberWithASmallStackMayAskForIt) {
  const AtLevel level(RecorderLevel::kSampled);
  WaitInTwoPlaces();
  std::string profile;
  Fiber({.stack_size = 16'384}, [&] { profile = ContentionProfile(); }).Join();
  EXPECT_EQ(LinesOfProfile(profile).size(), 2U) << profile;
}

// The lines of docs/diagnosing.md; there may be frames between those that it shows.
TEST_F(ContentionProfileTest, IsWhatThePageOfDiagnosingShows) {
  if (!StackUnwinder().why_not().empty()) GTEST_SKIP() << "no names";
  const AtLevel level(RecorderLevel::kSampled);
  WaitInTwoPlaces();
  const std::string profile = ContentionProfile();
  const std::vector<std::string> lines = LinesOfProfile(profile);
  std::ifstream page(WEFT_DOCS_DIR "/diagnosing.md");
  std::vector<std::string> shown;
  for (std::string line; std::getline(page, line);) {
    if (Has(line, ";made wait;")) shown.push_back(line.substr(4, line.rfind(' ') - 4));
  }
  ASSERT_EQ(shown.size(), lines.size()) << profile;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string pattern = std::regex_replace(shown[i], std::regex("[()*]"), "\\$&");
    pattern = std::regex_replace(pattern, std::regex("0x[0-9a-f]+"), "0x[0-9a-f]+");
    pattern = std::regex_replace(pattern, std::regex(";"), ";([^;]*;)*");
    EXPECT_TRUE(std::regex_match(lines[i], std::regex(pattern + "(;[^;]*)* [0-9]+"))) << lines[i] << "\n" << pattern;
  }
}

TEST_F(ContentionProfileTest, IsEmptyWhereTheRecorderIsOff) {
  const AtLevel level(RecorderLevel::kOff);
  WaitInTwoPlaces();
  EXPECT_EQ(ContentionProfile(), "");
}

TEST_F(ContentionProfileTest, AWaitWhoseTimeIsOverHasNoOwner) {
  const AtLevel level(RecorderLevel::kSampled);
  FiberTimedMutex mutex;
  Fiber([&] {
    const std::scoped_lock lock(mutex);
    while (WaitsInTheTable() == 0) {  // The time may be over before it waits.
      Fiber([&] { EXPECT_FALSE(mutex.try_lock_for(2ms)); }).Join();
    }
  }).Join();
  const std::string profile = ContentionProfile();
  EXPECT_EQ(LinesOfProfile(profile).size(), 1U) << profile;
  EXPECT_TRUE(Has(profile, ";no owner;made wait;")) << profile;
}

// 60 ns each, so one in tens of thousands is a sample.
TEST_F(ContentionProfileTest, WaitsThatAreNoSamplesCountWithTheNextOne) {
  const AtLevel level(RecorderLevel::kSampled);
  FiberMutex mutex;
  const auto take_turns = [&] {
    for (int i = 0; i < 1000; ++i) {
      const std::scoped_lock lock(mutex);
      FiberYield();
    }
  };
  while (WaitsInTheTable() < 10'000) {  // For ever, if they do not.
    Fiber other(take_turns);
    Fiber(take_turns).Join();
    other.Join();
  }
  EXPECT_LT(LinesOfProfile(ContentionProfile()).size(), 100U) << "a few places";
}

using TimePoint = std::chrono::steady_clock::time_point;

TimePoint SpinUntilAfter(TimePoint time) {
  for (;;) {
    if (const TimePoint now = std::chrono::steady_clock::now(); now > time) return now;
  }
}

std::uint64_t Nanoseconds(TimePoint::duration time) { return static_cast<std::uint64_t>(time / 1ns); }

// In a thread that has not waited before.
void RunAsSampled(const std::function<void()>& f) {
  const AtLevel level(RecorderLevel::kSampled);
  std::thread(f).join();
}

TEST_F(ContentionProfileTest, ASampleStandsForTheWaitsSinceTheOneBefore) {
  RunAsSampled([] {
    std::uint64_t waits = 0;
    for (int samples = 0; waits < 2; ++samples) {
      waits = 1;
      while (!ContentionSample::IsNext()) ++waits;
      ContentionSample sample;
      if (samples == 0) {
        EXPECT_EQ(waits, 1U) << "the first wait of all";
        continue;
      }
      Contention::Clear();
      const TimePoint begun = std::chrono::steady_clock::now();
      const TimePoint ended = SpinUntilAfter(begun + 1ms);
      sample.Finish(&waits);
      ASSERT_EQ(Sites().size(), 1U);
      EXPECT_EQ(Sites()[0].waits, waits);
      EXPECT_GE(Sites()[0].ns, waits * Nanoseconds(ended - begun));
    }
  });
}

TEST_F(ContentionProfileTest, AWaitIsOverAtItsDeadlineWheneverAWorkerIsFree) {
  RunAsSampled([] {
    while (!ContentionSample::IsNext()) {
    }
    const TimePoint before = std::chrono::steady_clock::now();
    ContentionSample sample;
    const TimePoint deadline = std::chrono::steady_clock::now();
    static_cast<void>(SpinUntilAfter(deadline + 1ms));
    sample.Finish(&sample, deadline);
    ASSERT_EQ(Sites().size(), 1U);
    EXPECT_LE(Sites()[0].ns, Nanoseconds(deadline - before));
  });
}

TEST(Contention, WhereAMutexHasNoRoomItIsOneOfSeveral) {
  const AtLevel level(RecorderLevel::kOff);
  ContentionSite site;
  site.waits = 1;
  site.ns = 1000;
  site.waiter.frames[0] = 1;
  constexpr std::uint64_t kMutexes = 3000;
  for (site.mutex = 1; site.mutex <= kMutexes; ++site.mutex) Contention::Add(site);
  const std::vector<ContentionSite> sites = Sites();
  std::uint64_t waits = 0;
  std::uint64_t of_several = 0;
  for (const ContentionSite& one : sites) {
    waits += one.waits;
    if (one.mutex == 0) of_several += one.waits;
  }
  EXPECT_EQ(waits, kMutexes);
  EXPECT_EQ(sites.size(), Contention::kSites / 2 + 1) << "half of the table is full";
  EXPECT_EQ(of_several, kMutexes - Contention::kSites / 2);
  EXPECT_EQ(Contention::lost(), 0U);
  EXPECT_TRUE(Has(ContentionProfile(), "several mutexes;no owner;made wait;"));
}

TEST(Contention, WithoutAnyRoomWaitsAreCountedAsLost) {
  const AtLevel level(RecorderLevel::kOff);
  ContentionSite site;
  site.waits = 2;
  constexpr std::uint64_t kPlaces = 3000;
  for (std::uint64_t place = 1; place <= kPlaces; ++place) {
    site.mutex = place;
    site.waiter.frames[0] = place;
    Contention::Add(site);
  }
  EXPECT_GT(Contention::lost(), 0U);
  EXPECT_EQ(WaitsInTheTable(), 2 * kPlaces);
  const std::string not_kept = "\nnot kept: " + std::to_string(Contention::lost()) + " waits 0\n";
  EXPECT_TRUE(Has(ContentionProfile(), not_kept)) << ContentionProfile();
}

}  // namespace
}  // namespace weft::observe
