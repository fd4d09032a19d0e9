// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/wait_samples.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>

namespace weft::scheduling_group {
namespace {

// -ln(1 - 1/N): the rate at which the probability falls that none of k pushes was a sample.
constexpr double DecayOf(unsigned shift) {
  const double p = 1.0 / static_cast<double>(std::uint64_t{1} << shift);
  double sum = 0.0;
  double power = p;
  for (int k = 1; k <= 64; ++k) {  // Of N >= 2: the rest is below 2^-64.
    sum += power / k;
    power *= p;
  }
  return sum;
}

constexpr auto kDecay = [] {
  std::array<double, PushSampler::kMaxShiftOfWorker + 1> decay{};
  for (unsigned shift = 1; shift < decay.size(); ++shift) decay[shift] = DecayOf(shift);
  return decay;
}();

// splitmix64, one step of it: neighbouring seeds give unrelated sequences.
std::uint64_t Seed() {
  static std::atomic<std::uint64_t> seeds{0};
  std::uint64_t z = seeds.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) | 1;
}

constinit thread_local PushSamplerOfThread tls_sampler;

}  // namespace

ReadyStamp PushSampler::Take(TimePoint now, PushCountdown* countdown) noexcept {
  const ReadyStamp stamp(now, shift_);
  const std::int64_t ns = now.time_since_epoch() / std::chrono::nanoseconds(1);
  const auto took = static_cast<std::uint64_t>(std::max<std::int64_t>(ns - last_, 1));
  last_ = ns;
  const std::uint64_t pushes = interval_ * static_cast<std::uint64_t>(kSampleEvery.count()) / took;
  shift_ = std::min(static_cast<unsigned>(std::bit_width(std::max<std::uint64_t>(pushes, 1))) - 1, max_shift_);
  interval_ = Draw();
  countdown->Set(interval_);
  return stamp;
}

// Geometric, by inversion (L. Devroye, Non-Uniform Random Variate Generation, 1986, X.2.1).
std::uint32_t PushSampler::Draw() noexcept {
  if (shift_ == 0) return 1;
  if (random_ == 0) random_ = Seed();
  // xorshift64* (S. Vigna, 2014).
  random_ ^= random_ >> 12;
  random_ ^= random_ << 25;
  random_ ^= random_ >> 27;
  const std::uint64_t bits = random_ * 0x2545f4914f6cdd1d;
  const double uniform = (static_cast<double>(bits >> 40) + 0.5) * 0x1p-24;    // Between 0 and 1, neither of them.
  return 1 + static_cast<std::uint32_t>(-std::log(uniform) / kDecay[shift_]);  // At most 18 N.
}

PushSamplerOfThread& ThisThreadsPushSampler() noexcept {
  base::OpaqueBarrier();
  return tls_sampler;
}

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

std::uint64_t WaitHistogram::FibersBelow(std::chrono::nanoseconds limit) const {
  const std::size_t end = BucketOf(static_cast<std::uint64_t>(std::max<std::int64_t>(limit.count(), 0)));
  return std::accumulate(buckets_.begin(), buckets_.begin() + static_cast<std::ptrdiff_t>(end), std::uint64_t{0});
}

std::chrono::nanoseconds WaitHistogram::Sum() const {
  double sum = 0;
  for (std::size_t b = 0; b < kBuckets; ++b) sum += static_cast<double>(buckets_[b]) * static_cast<double>(MiddleOf(b));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(sum, 9e18)));
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

void WaitRecorder::RecordByMany(std::chrono::nanoseconds wait, std::uint64_t fibers) noexcept {
  const auto ns = static_cast<std::uint64_t>(wait.count());
  samples_.fetch_add(1, std::memory_order_relaxed);
  buckets_[WaitHistogram::BucketOf(ns)].fetch_add(fibers, std::memory_order_relaxed);
  std::uint64_t max = max_.load(std::memory_order_relaxed);
  while (ns > max && !max_.compare_exchange_weak(max, ns, std::memory_order_relaxed)) {
  }
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

}  // namespace weft::scheduling_group
