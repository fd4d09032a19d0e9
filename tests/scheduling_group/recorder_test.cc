// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Rings and who owns them; what workers write is in tests/observe/flight_recorder_test.cc.

#include "weft/scheduling_group/events/recorder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/watch/group_attention.h"

#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

// One event, of which all words follow from its number.
void WriteNumbered(EventRing* ring, std::uint64_t n) { ring->Write(n, n * 3, ~n); }

struct RingOf {
  explicit RingOf(std::size_t capacity)
      : slots(std::make_unique<EventRing::Slot[]>(capacity)), ring(slots.get(), capacity), out(capacity) {}
  std::unique_ptr<EventRing::Slot[]> slots;
  EventRing ring;
  std::vector<EventRing::Words> out;
};

TEST(EventRing, KeepsTheLastEvents) {
  RingOf of(4);
  for (std::uint64_t n = 0; n < 10; ++n) WriteNumbered(&of.ring, n);
  std::size_t first = 0;
  std::uint64_t number = 0;
  // The oldest of the four might be just being overwritten.
  ASSERT_EQ(of.ring.Copy(0, of.out.data(), &first, &number), 3u);
  EXPECT_EQ(number, 7u);
  EXPECT_EQ(of.out[first], (EventRing::Words{7, 21, ~std::uint64_t{7}}));
  EXPECT_EQ(of.ring.Copy(9, of.out.data(), &first, &number), 1u);
  EXPECT_EQ(number, 9u);
  EXPECT_EQ(of.ring.Copy(11, of.out.data(), &first, &number), 0u);
}

TEST(EventRing, ReturnsNoTornEventWhileItIsWritten) {
  RingOf of(256);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t n = 0; !stop.load(std::memory_order_relaxed); ++n) WriteNumbered(&of.ring, n);
  });
  std::uint64_t last = 0;
  for (int i = 0; i < 2'000; ++i) {
    std::size_t first = 0;
    std::uint64_t number = 0;
    const std::size_t count = of.ring.Copy(0, of.out.data(), &first, &number);
    for (std::size_t e = 0; e < count; ++e) {
      const std::uint64_t n = number + e;
      ASSERT_EQ(of.out[first + e], (EventRing::Words{n, n * 3, ~n}));
    }
    ASSERT_GE(number + count, last);
    last = number + count;
  }
  stop.store(true, std::memory_order_relaxed);
  writer.join();
}

// All that the process has recorded of this kind, whose b is this, with the rings' owners.
std::vector<Recorder::Owner> OwnersOf(EventKind kind, std::uint64_t b) {
  std::vector<Recorder::Owner> owners;
  Recorder::Visit([&](const RecorderRing& ring) {
    std::vector<EventRing::Words> words(ring.events.capacity());
    std::size_t begin = 0;
    Recorder::Owner owner;
    const std::size_t count = ring.Copy(words.data(), &begin, &owner);
    for (std::size_t i = begin; i < begin + count; ++i) {
      if (words[i][0] >> Recorder::kTimeBits == static_cast<std::uint64_t>(kind) && words[i][2] == b) {
        owners.push_back(owner);
      }
    }
  });
  return owners;
}

std::size_t Rings() {
  std::size_t rings = 0;
  Recorder::Visit([&](const RecorderRing&) { ++rings; });
  return rings;
}

class RecorderTest : public ::testing::Test {
 protected:
  ~RecorderTest() override { Recorder::SetLevel(RecordLevel::kOff); }
};

constexpr auto kNote = EventKind::kCancelled;

TEST_F(RecorderTest, NothingIsWrittenWhileItIsOff) {
  Recorder::Note(kNote, 0, 101);
  EXPECT_TRUE(OwnersOf(kNote, 101).empty());
}

TEST_F(RecorderTest, AThreadsEventsStayUntilAnotherThreadTakesTheRing) {
  Recorder::SetLevel(RecordLevel::kSampled);
  std::thread([] { Recorder::Note(kNote, 0, 201); }).join();
  ASSERT_EQ(OwnersOf(kNote, 201).size(), 1u);
  EXPECT_FALSE(OwnersOf(kNote, 201).front().worker);
  EXPECT_NE(OwnersOf(kNote, 201).front().thread, static_cast<std::uint32_t>(::gettid()));
  const std::size_t rings = Rings();
  for (int i = 0; i < 10; ++i) std::thread([] { Recorder::Note(kNote, 0, 202); }).join();
  EXPECT_EQ(Rings(), rings) << "threads that come after each other share one";
  EXPECT_TRUE(OwnersOf(kNote, 201).empty()) << "what its last owner wrote is not shown as another's (REC2)";
  EXPECT_EQ(OwnersOf(kNote, 202).size(), 1u);
}

TEST_F(RecorderTest, AWorkersRingIsGivenOnWhenItEnds) {
  Recorder::SetLevel(RecordLevel::kSampled);
  const auto write = [](std::uint64_t b) {
    testing::WorkerGroup group(2);
    ASSERT_TRUE(group.Start([b] { Recorder::Note(kNote, 0, b); }));
  };
  write(301);
  const auto owners = OwnersOf(kNote, 301);
  ASSERT_EQ(owners.size(), 1u) << "it can be read when the worker has ended";
  EXPECT_TRUE(owners.front().worker);
  EXPECT_LT(owners.front().index, 2u);
  const std::size_t rings = Rings();
  for (std::uint64_t i = 0; i < 5; ++i) write(302 + i);
  EXPECT_LE(Rings(), rings + 1) << "of two workers one may have had nothing to say before";
}

TEST_F(RecorderTest, AWorkerTakesALargerRingWhenMoreIsWanted) {
  Recorder::SetLevel(RecordLevel::kSampled);
  testing::WorkerGroup group(1);
  ASSERT_TRUE(group.Start([] { Recorder::Note(kNote, 0, 401); }));
  group.Drain();
  Recorder::SetLevel(RecordLevel::kSampled, Recorder::kRingOfWorker * 2);
  constexpr std::size_t kMore = Recorder::kRingOfWorker * 3 / 2;
  ASSERT_TRUE(group.Start([] {
    for (std::size_t i = 0; i < kMore; ++i) Recorder::Note(kNote, 0, 402);
  }));
  group.Drain();
  EXPECT_EQ(OwnersOf(kNote, 402).size(), kMore);
  EXPECT_EQ(OwnersOf(kNote, 401).size(), 1u) << "the smaller one has not been taken over";
}

TEST_F(RecorderTest, OfTwoLevelsSetAtOnceOneStays) {
  constexpr int kRounds = 20'000;
  const std::array<GroupAttention, 50> groups;  // So that it takes a while.
  std::atomic<int> round{0};
  std::atomic<int> answered{0};
  std::thread other([&] {
    for (int i = 1; i <= kRounds; ++i) {
      for (int spins = 0; round.load(std::memory_order_acquire) < i; ++spins) {
        if (spins > 1000) std::this_thread::yield();
      }
      Recorder::SetLevel(RecordLevel::kOff);
      answered.store(i, std::memory_order_release);
    }
  });
  int wrong = 0;
  for (int i = 1; i <= kRounds; ++i) {
    round.store(i, std::memory_order_release);
    Recorder::SetLevel(RecordLevel::kFull);
    for (int spins = 0; answered.load(std::memory_order_acquire) < i; ++spins) {
      if (spins > 1000) std::this_thread::yield();
    }
    if (groups.front().recorded() != (Recorder::level() == RecordLevel::kFull)) ++wrong;
  }
  other.join();
  EXPECT_EQ(wrong, 0) << "switches are recorded though the level is kOff, or are not though it is kFull";
}

TEST_F(RecorderTest, AForkedChildReadsItsParentsAndWritesItsOwn) {
  Recorder::SetLevel(RecordLevel::kSampled);
  Recorder::Note(kNote, 0, 501);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool has_parents = OwnersOf(kNote, 501).size() == 1;
    Recorder::Note(kNote, 0, 502);
    std::thread([] { Recorder::Note(kNote, 0, 503); }).join();
    ::_exit(has_parents && OwnersOf(kNote, 502).size() == 1 && OwnersOf(kNote, 503).size() == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(OwnersOf(kNote, 502).empty());
}

#if !WEFT_ASAN && !WEFT_TSAN  // They need address space.
TEST_F(RecorderTest, WithoutMemoryNothingIsWrittenUntilTheLevelIsSetAnew) {
  constexpr std::size_t kNobodyHasIt = Recorder::kRingOfWorker * 8;
  testing::WorkerGroup group(1);
  ASSERT_TRUE(group.Start([] {
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &usual), 0);
    rlimit none = usual;
    none.rlim_cur = 1 << 20;  // Of what is there nothing goes.
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &none), 0);
    Recorder::SetLevel(RecordLevel::kSampled, kNobodyHasIt);
    const std::size_t refused = Recorder::refused();
    for (int i = 0; i < 3; ++i) Recorder::Note(kNote, 0, 601);
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &usual), 0);
    EXPECT_EQ(Recorder::refused(), refused + 3);
    Recorder::Note(kNote, 0, 602);
    Recorder::SetLevel(RecordLevel::kSampled, kNobodyHasIt);
    Recorder::Note(kNote, 0, 603);
  }));
  group.Drain();
  EXPECT_TRUE(OwnersOf(kNote, 601).empty());
  EXPECT_TRUE(OwnersOf(kNote, 602).empty()) << "each event would ask the system again";
  EXPECT_EQ(OwnersOf(kNote, 603).size(), 1u);
}
#endif

}  // namespace
}  // namespace weft::scheduling_group
