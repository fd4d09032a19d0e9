// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Histograms of how long ready fibers waited until they ran.
//
//   WaitHistogram   a snapshot; for users, in GroupCounts (counters.h)
//   WaitRecorder    counts the waits of the fibers that one worker runs
//
// Buckets are log-linear, as in HdrHistogram: kSubBuckets for each power of two of nanoseconds. A value from 16 ns to
// 69 s is known to 3 % either way; smaller ones exactly, larger ones as the last bucket. 4 KiB per worker.
//
// A sample stands for several fibers (push_sampler.h), so numbers of fibers are estimates. Where fewer than some 50,000
// a second become ready on a worker, each one is a sample.
#ifndef WEFT_SCHEDULING_GROUP_WATCH_WAIT_HISTOGRAM_H_
#define WEFT_SCHEDULING_GROUP_WATCH_WAIT_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clocks.h"

namespace weft::scheduling_group {

class WaitHistogram {
 public:
  static constexpr unsigned kSubBits = 4;
  static constexpr std::uint64_t kSubBuckets = std::uint64_t{1} << kSubBits;
  static constexpr unsigned kMaxBits = 36;
  static constexpr std::size_t kBuckets = (kMaxBits - kSubBits + 1) * kSubBuckets;

  void Add(std::chrono::nanoseconds wait, std::uint64_t fibers);
  void Add(const WaitHistogram& other);

  // The counts since `earlier`, an earlier snapshot of the same. Its max() is the end of a bucket.
  WaitHistogram Since(const WaitHistogram& earlier) const;

  // Fibers that were made ready, an estimate; and how many of them were samples.
  std::uint64_t fibers() const { return fibers_; }
  std::uint64_t samples() const { return samples_; }
  // The longest wait of a sample.
  std::chrono::nanoseconds max() const { return std::chrono::nanoseconds(max_); }
  // The wait that `part` of the fibers did not exceed, for example Percentile(0.99); 0 without samples.
  std::chrono::nanoseconds Percentile(double part) const;

  static constexpr std::size_t BucketOf(std::uint64_t ns) noexcept {
    if (ns < kSubBuckets) return ns;
    if (ns >> kMaxBits != 0) return kBuckets - 1;
    const unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - kSubBits;
    return (shift + 1) * kSubBuckets + (ns >> shift) - kSubBuckets;
  }
  // The least value of a bucket; of kBuckets, the end of the last.
  static constexpr std::uint64_t BeginOf(std::size_t bucket) noexcept {
    if (bucket < kSubBuckets) return bucket;
    return (kSubBuckets + bucket % kSubBuckets) << (bucket / kSubBuckets - 1);
  }

 private:
  friend class WaitRecorder;

  static std::uint64_t MiddleOf(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t fibers_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t max_ = 0;
};

// Its worker writes, any thread reads. relaxed throughout: statistics, which feed a heuristic (overload_detector.h).
class alignas(base::kCacheLineSize) WaitRecorder {
 public:
  // wait >= 0. long_wait: counts in fibers_long() too.
  void Record(std::chrono::nanoseconds wait, std::uint64_t fibers, bool long_wait) noexcept;
  // As above, of a stolen fiber: it waited in another group, and says nothing of this one's load.
  void RecordStolen(std::chrono::nanoseconds wait, std::uint64_t fibers) noexcept;

  void AddTo(WaitHistogram* histogram) const;
  // Fibers of this group, and how many of them waited long.
  std::uint64_t fibers_own() const noexcept { return fibers_own_.load(std::memory_order_relaxed); }
  std::uint64_t fibers_long() const noexcept { return fibers_long_.load(std::memory_order_relaxed); }

  // While no worker runs.
  void Clear() noexcept;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static void Add(Counter& counter, std::uint64_t n) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  Counter fibers_own_{0};
  Counter fibers_long_{0};
  Counter samples_{0};
  Counter max_{0};
  std::array<Counter, WaitHistogram::kBuckets> buckets_{};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_WAIT_HISTOGRAM_H_
