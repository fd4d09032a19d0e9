// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/wait_histogram.h"

#include <algorithm>
#include <cmath>

namespace weft::scheduling_group {

void WaitHistogram::Add(std::chrono::nanoseconds wait, std::uint64_t fibers) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(wait.count(), 0));
  buckets_[BucketOf(ns)] += fibers;
  fibers_ += fibers;
  ++samples_;
  max_ = std::max(max_, ns);
}

void WaitHistogram::Add(const WaitHistogram& other) {
  for (std::size_t b = 0; b < kBuckets; ++b) buckets_[b] += other.buckets_[b];
  fibers_ += other.fibers_;
  samples_ += other.samples_;
  max_ = std::max(max_, other.max_);
}

WaitHistogram WaitHistogram::Since(const WaitHistogram& earlier) const {
  WaitHistogram difference;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    difference.buckets_[b] = buckets_[b] - earlier.buckets_[b];
    if (difference.buckets_[b] != 0) difference.max_ = std::min(BeginOf(b + 1) - 1, max_);
  }
  difference.fibers_ = fibers_ - earlier.fibers_;
  difference.samples_ = samples_ - earlier.samples_;
  return difference;
}

std::uint64_t WaitHistogram::MiddleOf(std::size_t bucket) { return (BeginOf(bucket) + BeginOf(bucket + 1) - 1) / 2; }

std::chrono::nanoseconds WaitHistogram::Percentile(double part) const {
  const double wanted = std::max(std::ceil(std::clamp(part, 0.0, 1.0) * static_cast<double>(fibers_)), 1.0);
  std::uint64_t sum = 0;
  for (std::size_t b = 0; b < kBuckets; ++b) {
    sum += buckets_[b];
    if (static_cast<double>(sum) >= wanted) return std::chrono::nanoseconds(std::min(MiddleOf(b), max_));
  }
  return max();
}

void WaitRecorder::Record(std::chrono::nanoseconds wait, std::uint64_t fibers, bool long_wait) noexcept {
  Add(fibers_own_, fibers);
  if (long_wait) Add(fibers_long_, fibers);
  RecordStolen(wait, fibers);
}

void WaitRecorder::RecordStolen(std::chrono::nanoseconds wait, std::uint64_t fibers) noexcept {
  const auto ns = static_cast<std::uint64_t>(wait.count());
  Add(samples_, 1);
  Add(buckets_[WaitHistogram::BucketOf(ns)], fibers);
  if (ns > max_.load(std::memory_order_relaxed)) max_.store(ns, std::memory_order_relaxed);
}

void WaitRecorder::AddTo(WaitHistogram* histogram) const {
  for (std::size_t b = 0; b < WaitHistogram::kBuckets; ++b) {
    const std::uint64_t fibers = buckets_[b].load(std::memory_order_relaxed);
    histogram->buckets_[b] += fibers;
    histogram->fibers_ += fibers;  // The sum of the buckets, so that each snapshot is consistent.
  }
  histogram->samples_ += samples_.load(std::memory_order_relaxed);
  histogram->max_ = std::max(histogram->max_, max_.load(std::memory_order_relaxed));
}

void WaitRecorder::Clear() noexcept {
  for (Counter& counter : buckets_) counter.store(0, std::memory_order_relaxed);
  for (Counter* counter : {&fibers_own_, &fibers_long_, &samples_, &max_}) counter->store(0, std::memory_order_relaxed);
}

}  // namespace weft::scheduling_group
