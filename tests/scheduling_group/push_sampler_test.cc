// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/push_sampler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "testing/manual_clock.h"

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;

PushSampler OfWorker() { return PushSampler(PushSampler::kMaxShiftOfWorker); }

TEST(ReadyStamp, KeepsTimeAndWeight) {
  ManualClock clock;
  EXPECT_FALSE(ReadyStamp());
  for (unsigned shift = 0; shift <= PushSampler::kMaxShiftOfWorker; ++shift) {
    const ReadyStamp stamp(clock.now(), shift);
    EXPECT_TRUE(stamp);
    EXPECT_EQ(stamp.shift(), shift);
    EXPECT_EQ(stamp.weight(), std::uint64_t{1} << shift);
    EXPECT_EQ(stamp.WaitUntil(clock.now()), 0ns);
    EXPECT_EQ(stamp.WaitUntil(clock.now() + 12345ns), 12345ns);
    EXPECT_EQ(stamp.WaitUntil(clock.now() - 1s), 0ns) << "a clock that is behind";
  }
}

TEST(PushSampler, EachPushIsASampleWhereTheyAreFew) {
  ManualClock clock;
  PushSampler sampler = OfWorker();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(sampler.Count());
    ASSERT_EQ(sampler.Take(clock.now()).weight(), 1u);
    clock.Advance(PushSampler::kSampleEvery);
  }
}

// PS1: how much the samples stand for.
TEST(PushSampler, SamplesStandForAllPushesAtAnyRate) {
  for (const auto between : {10ns, 40ns, 300ns, 5000ns}) {
    ManualClock clock;
    PushSampler sampler = OfWorker();
    constexpr std::uint64_t kPushes = 4'000'000;
    std::uint64_t sum = 0;
    std::uint64_t samples = 0;
    for (std::uint64_t i = 0; i < kPushes; ++i) {
      if (sampler.Count()) {
        sum += sampler.Take(clock.now()).weight();
        ++samples;
      }
      clock.Advance(between);
    }
    // Of 512: 7,800 samples, so a standard deviation of 1.1 %.
    EXPECT_NEAR(static_cast<double>(sum), kPushes, 0.06 * kPushes) << between.count() << " ns";
    const double expected = static_cast<double>(kPushes) * static_cast<double>(between.count()) /
                            static_cast<double>(PushSampler::kSampleEvery.count());
    EXPECT_LT(static_cast<double>(samples), 4 * expected + 20'000) << between.count() << " ns";
    EXPECT_GT(static_cast<double>(samples), expected / 4) << between.count() << " ns";
  }
}

TEST(PushSampler, ItsCostIsBoundedByTime) {
  ManualClock clock;
  PushSampler sampler = OfWorker();
  std::uint64_t samples = 0;
  constexpr std::uint64_t kPushes = 4'000'000;
  for (std::uint64_t i = 0; i < kPushes; ++i) {
    if (sampler.Count()) {
      static_cast<void>(sampler.Take(clock.now()));
      ++samples;
    }
    clock.Advance(40ns);
  }
  // 160 ms at one in 20 us are 8,000.
  EXPECT_LT(samples, 24'000u);
}

// PS1: a program that does the same things in turn.
TEST(PushSampler, KeepsStepWithNoPattern) {
  for (const std::size_t period : {2u, 16u, 61u, 64u, 512u}) {
    ManualClock clock;
    PushSampler sampler = OfWorker();
    std::vector<double> weight(period);
    constexpr std::size_t kPushes = 8'000'000;
    for (std::size_t i = 0; i < kPushes; ++i) {
      if (sampler.Count()) weight[i % period] += static_cast<double>(sampler.Take(clock.now()).weight());
      clock.Advance(60ns);
    }
    // In two halves, and the first of them all by itself where it has enough samples to tell.
    double half = 0;
    double all = 0;
    for (std::size_t p = 0; p < period; ++p) {
      all += weight[p];
      if (p < period / 2) half += weight[p];
    }
    EXPECT_NEAR(half / all, static_cast<double>(period / 2) / static_cast<double>(period), 0.03) << period;
    if (period <= 16) {
      EXPECT_NEAR(weight[0] * static_cast<double>(period) / all, 1.0, 0.25) << period;
    }
  }
}

// PS1, PS2: neither the beginning nor the end of a burst is preferred, though the sampler begins anew with each.
TEST(PushSampler, EachPartOfABurstCountsTheSame) {
  ManualClock clock;
  PushSampler sampler = OfWorker();
  constexpr std::size_t kParts = 5;
  constexpr std::size_t kBurst = 300;
  constexpr std::size_t kBursts = 20'000;
  double weight[kParts] = {};
  for (std::size_t burst = 0; burst < kBursts; ++burst) {
    sampler.Forget();
    clock.Advance(1ms);
    for (std::size_t i = 0; i < kBurst; ++i) {
      if (sampler.Count()) weight[i * kParts / kBurst] += static_cast<double>(sampler.Take(clock.now()).weight());
      clock.Advance(50ns);
    }
  }
  for (std::size_t part = 0; part < kParts; ++part) {
    EXPECT_NEAR(weight[part] / (kBurst / kParts * kBursts), 1.0, 0.12) << part;
  }
}

TEST(PushSampler, TheFirstPushAfterAPauseIsASample) {
  ManualClock clock;
  PushSampler sampler = OfWorker();
  for (int i = 0; i < 100'000; ++i) {
    if (sampler.Count()) static_cast<void>(sampler.Take(clock.now()));
    clock.Advance(10ns);
  }
  EXPECT_EQ(sampler.shift(), PushSampler::kMaxShiftOfWorker);
  sampler.Forget();
  ASSERT_TRUE(sampler.Count());
  EXPECT_EQ(sampler.Take(clock.now()).weight(), 1u);
}

TEST(PushSampler, BatchesAreCountedAsSinglePushes) {
  ManualClock clock;
  PushSampler sampler(PushSampler::kMaxShiftOfThread);
  constexpr std::size_t kBatch = 100;
  constexpr std::size_t kBatches = 40'000;
  double weight[2] = {};
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    std::size_t begin = 0;
    for (std::size_t which = 0; begin < kBatch && sampler.CountMany(kBatch - begin, &which); begin += which + 1) {
      ASSERT_LT(begin + which, kBatch);
      weight[(begin + which) * 2 / kBatch] += static_cast<double>(sampler.Take(clock.now()).weight());
    }
    clock.Advance(50us);
  }
  for (const double half : weight) EXPECT_NEAR(half / (kBatch / 2 * kBatches), 1.0, 0.08);
}

TEST(PushSampler, ThreadsHaveOneEach) {
  PushSampler& own = PushSamplerOfThread();
  EXPECT_EQ(&own, &PushSamplerOfThread());
}

}  // namespace
}  // namespace weft::scheduling_group
