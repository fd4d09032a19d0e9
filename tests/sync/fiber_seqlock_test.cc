// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_seqlock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "testing/group_fixture.h"

namespace weft {
namespace {

using testing::Crew;
using testing::Scaled;
using testing::YieldActor;
using testing::YieldUntil;

// tRPC-Cpp's starts with whatever the memory holds: an odd number makes readers spin for ever.
TEST(FiberSeqLock, SeqLockStartsInitialised) {
  alignas(FiberSeqLock) unsigned char memory[sizeof(FiberSeqLock)];
  std::memset(memory, 0xff, sizeof(memory));
  auto* seqlock = new (memory) FiberSeqLock;
  const unsigned sequence = seqlock->ReadSeqBegin();
  EXPECT_EQ(sequence % 2, 0u);
  EXPECT_EQ(seqlock->ReadSeqRetry(sequence), 0u);
  seqlock->~FiberSeqLock();
}

TEST(FiberSeqLock, AReaderThatWasOvertakenReadsAgain) {
  FiberSeqLock seqlock;
  const unsigned sequence = seqlock.ReadSeqBegin();
  seqlock.WriteSeqLock();
  EXPECT_EQ(seqlock.ReadSeqRetry(sequence), 1u);
  seqlock.WriteSeqUnlock();
  EXPECT_EQ(seqlock.ReadSeqRetry(sequence), 1u);
  EXPECT_EQ(seqlock.ReadSeqRetry(seqlock.ReadSeqBegin()), 0u);
}

class FiberSeqLockTest : public testing::OnAnyCrew {};

TEST_P(FiberSeqLockTest, ReadersSeeConsistentValues) {
  const int rounds = Scaled(1000);
  FiberSeqLock seqlock;
  std::atomic<int> a{0}, b{0};
  std::atomic<int> writers{2};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int) {
    for (int i = 0; i < rounds; ++i) {
      seqlock.WriteSeqLock();
      a.store(a.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      if (i % 64 == 0) YieldActor();  // Readers meet a writer that does not run.
      b.store(b.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      seqlock.WriteSeqUnlock();
      if (i % 16 == 0) YieldActor();
    }
    --writers;
  });
  crew.AddMany(4, [&](int) {
    int last = 0;
    while (writers != 0) {
      int seen_a, seen_b;
      unsigned sequence;
      do {
        sequence = seqlock.ReadSeqBegin();
        seen_a = a.load(std::memory_order_relaxed);
        seen_b = b.load(std::memory_order_relaxed);
      } while (seqlock.ReadSeqRetry(sequence) != 0);
      EXPECT_EQ(seen_a, seen_b);
      EXPECT_GE(seen_a, last);
      last = seen_a;
      YieldActor();
    }
  });
  crew.Join();
  EXPECT_EQ(a, 2 * rounds);
}

// A reader that spun for a writer which is suspended would keep the only worker from running it.
TEST_P(FiberSeqLockTest, AReaderDoesNotKeepASuspendedWriterFromRunning) {
  FiberSeqLock seqlock;
  std::atomic<int> step{0};
  Crew crew = MakeCrew();
  crew.Add([&] {
    seqlock.WriteSeqLock();
    step = 1;
    for (int i = 0; i < 20; ++i) YieldActor();
    seqlock.WriteSeqUnlock();
  });
  crew.AddMany(3, [&](int) {
    YieldUntil([&] { return step == 1; });
    EXPECT_EQ(seqlock.ReadSeqBegin() % 2, 0u);
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberSeqLockTest);

}  // namespace
}  // namespace weft
