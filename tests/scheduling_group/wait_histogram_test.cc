// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "weft/scheduling_group/watch/wait_samples.h"

namespace weft::scheduling_group {
namespace {

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
  for (WaitRecorder& worker : workers) worker.Clear();
  WaitHistogram cleared;
  for (const WaitRecorder& worker : workers) worker.AddTo(&cleared);
  EXPECT_EQ(cleared.fibers(), 0u);
  EXPECT_EQ(cleared.max(), 0ns);
}

}  // namespace
}  // namespace weft::scheduling_group
