// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/wait_samples.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;

// Of one thread: the tests look at it millions of times.
class Time {
 public:
  PushSampler::TimePoint now() const { return now_; }
  void Advance(std::chrono::nanoseconds by) { now_ += by; }

 private:
  PushSampler::TimePoint now_{123'456'789us};
};

// A sampler with its countdown, as threads have them.
class Sampler {
 public:
  explicit Sampler(unsigned max_shift = PushSampler::kMaxShiftOfWorker) : sampler_(max_shift) {}

  bool Count() { return countdown_.Count(); }
  bool CountMany(std::size_t count, std::size_t* which) { return countdown_.CountMany(count, which); }
  ReadyStamp Take(PushSampler::TimePoint now) { return sampler_.Take(now, &countdown_); }
  void Forget() { sampler_.Forget(&countdown_); }
  unsigned shift() const { return sampler_.shift(); }

 private:
  PushCountdown countdown_;
  PushSampler sampler_;
};

TEST(ReadyStamp, KeepsTimeAndWeight) {
  Time clock;
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
  Time clock;
  Sampler sampler;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(sampler.Count());
    ASSERT_EQ(sampler.Take(clock.now()).weight(), 1u);
    clock.Advance(PushSampler::kSampleEvery);
  }
}

// PS1: how much the samples stand for.
TEST(PushSampler, SamplesStandForAllPushesAtAnyRate) {
  for (const auto between : {10ns, 40ns, 300ns, 5000ns}) {
    Time clock;
    Sampler sampler;
    constexpr std::uint64_t kPushes = 2'000'000;
    std::uint64_t sum = 0;
    std::uint64_t samples = 0;
    for (std::uint64_t i = 0; i < kPushes; ++i) {
      if (sampler.Count()) {
        sum += sampler.Take(clock.now()).weight();
        ++samples;
      }
      clock.Advance(between);
    }
    // Of 512: 3,900 samples, so a standard deviation of 1.6 %.
    EXPECT_NEAR(static_cast<double>(sum), kPushes, 0.08 * kPushes) << between.count() << " ns";
    const double expected = static_cast<double>(kPushes) * static_cast<double>(between.count()) /
                            static_cast<double>(PushSampler::kSampleEvery.count());
    EXPECT_LT(static_cast<double>(samples), 4 * expected + 20'000) << between.count() << " ns";
    EXPECT_GT(static_cast<double>(samples), expected / 4) << between.count() << " ns";
  }
}

TEST(PushSampler, ItsCostIsBoundedByTime) {
  Time clock;
  Sampler sampler;
  std::uint64_t samples = 0;
  constexpr std::uint64_t kPushes = 1'000'000;
  for (std::uint64_t i = 0; i < kPushes; ++i) {
    if (sampler.Count()) {
      static_cast<void>(sampler.Take(clock.now()));
      ++samples;
    }
    clock.Advance(40ns);
  }
  // 40 ms at one in 20 us are 2,000.
  EXPECT_LT(samples, 6'000u);
}

// PS1: a program that does the same things in turn.
TEST(PushSampler, KeepsStepWithNoPattern) {
  for (const std::size_t period : {2u, 16u, 61u, 64u, 512u}) {
    Time clock;
    Sampler sampler;
    std::vector<double> weight(period);
    constexpr std::size_t kPushes = 2'000'000;
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
  Time clock;
  Sampler sampler;
  constexpr std::size_t kParts = 5;
  constexpr std::size_t kBurst = 300;
  constexpr std::size_t kBursts = 10'000;
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
    EXPECT_NEAR(weight[part] / (kBurst / kParts * kBursts), 1.0, 0.15) << part;
  }
}

TEST(PushSampler, TheFirstPushAfterAPauseIsASample) {
  Time clock;
  Sampler sampler;
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
  Time clock;
  Sampler sampler(PushSampler::kMaxShiftOfThread);
  constexpr std::size_t kBatch = 100;
  constexpr std::size_t kBatches = 10'000;
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
  PushSamplerOfThread* const own = &ThisThreadsPushSampler();
  EXPECT_EQ(own, &ThisThreadsPushSampler());
  std::thread([&] { EXPECT_NE(own, &ThisThreadsPushSampler()); }).join();
}

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

TEST(WaitHistogram, BucketsFollowEachOtherWithoutGapOrOverlap) {
  EXPECT_EQ(WaitHistogram::BeginOf(0), 0u);
  for (std::size_t b = 0; b < WaitHistogram::kBuckets; ++b) {
    const std::uint64_t begin = WaitHistogram::BeginOf(b);
    const std::uint64_t end = WaitHistogram::BeginOf(b + 1);
    ASSERT_LT(begin, end);
    ASSERT_EQ(WaitHistogram::BucketOf(begin), b);
    ASSERT_EQ(WaitHistogram::BucketOf(end - 1), b);
    // The middle is 3 % away at most.
    if (begin >= WaitHistogram::kSubBuckets) {
      ASSERT_LE((end - begin) * WaitHistogram::kSubBuckets, begin);
    }
  }
  EXPECT_EQ(WaitHistogram::BeginOf(WaitHistogram::kBuckets), std::uint64_t{1} << WaitHistogram::kMaxBits);
  EXPECT_EQ(WaitHistogram::BucketOf(UINT64_MAX), WaitHistogram::kBuckets - 1);
}

TEST(WaitHistogram, IsZeroWhenEmpty) {
  const WaitHistogram empty;
  EXPECT_EQ(empty.fibers(), 0u);
  EXPECT_EQ(empty.Percentile(0.5), 0ns);
  EXPECT_EQ(empty.Percentile(1.0), 0ns);
  EXPECT_EQ(empty.max(), 0ns);
}

TEST(WaitHistogram, PercentilesAreThoseOfTheValues) {
  WaitHistogram histogram;
  constexpr int kValues = 10'000;
  for (int i = 1; i <= kValues; ++i) histogram.Add(nanoseconds(i * 1000), 1);
  EXPECT_EQ(histogram.fibers(), static_cast<std::uint64_t>(kValues));
  for (const double part : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = part * kValues * 1000;
    EXPECT_NEAR(static_cast<double>(histogram.Percentile(part).count()), exact, 0.032 * exact) << part;
  }
  EXPECT_EQ(histogram.max(), 10ms);
  EXPECT_LE(histogram.Percentile(1.0), histogram.max());
}

TEST(WaitHistogram, ASampleCountsForAllThatItStandsFor) {
  WaitHistogram histogram;
  histogram.Add(100ns, 512);
  for (int i = 0; i < 8; ++i) histogram.Add(1ms, 1);
  EXPECT_EQ(histogram.fibers(), 520u);
  EXPECT_EQ(histogram.samples(), 9u);
  EXPECT_LT(histogram.Percentile(0.98), 110ns);
  EXPECT_GT(histogram.Percentile(0.99), 900us);
}

TEST(WaitHistogram, TheDifferenceOfTwoSnapshotsIsWhatCameBetween) {
  WaitHistogram now;
  now.Add(50ms, 10);
  const WaitHistogram earlier = now;
  now.Add(1us, 3);
  now.Add(2us, 1);
  const WaitHistogram between = now.Since(earlier);
  EXPECT_EQ(between.fibers(), 4u);
  EXPECT_EQ(between.samples(), 2u);
  EXPECT_GE(between.max(), 2us);
  EXPECT_LT(between.max(), 2200ns);
  EXPECT_LT(between.Percentile(0.5), 1100ns);
}

TEST(WaitHistogram, HoldsAnyWait) {
  WaitHistogram histogram;
  histogram.Add(-5ns, 1);
  histogram.Add(std::chrono::hours(1000), 1);
  EXPECT_EQ(histogram.fibers(), 2u);
  EXPECT_EQ(histogram.max(), std::chrono::hours(1000));
  EXPECT_EQ(histogram.Percentile(0.5), 0ns);
  EXPECT_GT(histogram.Percentile(1.0), 60s);
}

TEST(WaitRecorder, TheSumOfTheWorkersIsWhatTheyRecorded) {
  WaitRecorder workers[2];
  workers[0].Record(1us, 4, /*long_wait=*/false);
  workers[1].Record(8ms, 2, /*long_wait=*/true);
  workers[1].RecordStolen(9ms, 1);
  WaitHistogram sum;
  for (const WaitRecorder& worker : workers) worker.AddTo(&sum);
  EXPECT_EQ(sum.fibers(), 7u);
  EXPECT_EQ(sum.samples(), 3u);
  EXPECT_EQ(sum.max(), 9ms);
  EXPECT_EQ(workers[0].fibers_long(), 0u);
  EXPECT_EQ(workers[1].fibers_long(), 2u);
  EXPECT_EQ(workers[1].fibers_own(), 2u) << "what was stolen waited elsewhere";
}

}  // namespace
}  // namespace weft::scheduling_group
