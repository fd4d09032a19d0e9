// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How waits of ready fibers are sampled, and what is kept of them.
//
//   PushSampler     chooses a thread's pushes that get a time stamp
//   ReadyStamp      when such a fiber became ready, and how many pushes it stands for
//   WaitRecorder    counts the waits of the fibers that one worker runs
//   WaitHistogram   a snapshot; for users, in GroupCounts (counters.h)
//
// Reading the clock at each push and pop would cost more than a yield. So each push is a sample with probability 1/N,
// and stands for N pushes. N is a power of two that follows the rate of pushes: a sample comes every 10 to 20 us, at
// one push in some hundreds where fibers yield; where pushes are rarer than that, each is one. A sample costs 0.1 us.
//
//   every push          counts down (one subtraction on a line that is the thread's own)
//   a push at 0         gets a ReadyStamp (the time and N); draws the number of pushes to the next one
//   the fiber runs      its stamp is taken off, and its wait counts N times (Worker::PrepareToEnter)
//
// So numbers of fibers are estimates. Where fewer than some 50,000 a second become ready on a worker, each is a sample.
//
// Buckets are log-linear, as in HdrHistogram: kSubBuckets for each power of two of nanoseconds. A value from 16 ns to
// 69 s is known to 3 % either way; smaller ones exactly, larger ones as the last bucket. 4 KiB per worker.
//
// Invariants
//   PS1  Each push is a sample with probability 1/N, independently of all others, and N depends on former pushes only.
//        So on average the weights of the samples add up to the number of pushes, in each queue and at each point of a
//        burst, and the number of pushes to the next sample may be drawn anew at any time.
//   PS2  A worker that has slept starts with N = 1, so the first fiber after a pause is always a sample. (Samplers of
//        other threads do not learn of pauses; their N is at most 64.)
//
// Each thread has its own sampler, and alone uses it.
//
// Rejected: every n-th push (it keeps step with programs that do things in turn); a constant N (a small one is too
// dear, and with a large one a service with few requests has a sample every few seconds); unweighted samples (a burst's
// first fibers, which wait the least, would count hundreds of times as much as its others).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_WAIT_SAMPLES_H_
#define WEFT_SCHEDULING_GROUP_WATCH_WAIT_SAMPLES_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"

namespace weft::scheduling_group {

// When a fiber became ready, and how many pushes the sample stands for, in one word. The word of a parked fiber, and of
// one whose push was no sample, is a ParkStamp or 0 (fiber/wait_reason.h).
class ReadyStamp {
 public:
  ReadyStamp() = default;
  ReadyStamp(std::chrono::steady_clock::time_point now, unsigned shift)
      : word_(kSample | std::uint64_t{shift} << kTimeBits | (Nanoseconds(now) & kTime)) {}
  static ReadyStamp OfPark(std::uint64_t stamp) noexcept {
    ReadyStamp parked;
    parked.word_ = stamp;
    return parked;
  }

  // False: the push was not a sample.
  explicit operator bool() const noexcept { return static_cast<std::int64_t>(word_) < 0; }
  std::uint64_t weight() const noexcept { return std::uint64_t{1} << shift(); }
  unsigned shift() const noexcept { return static_cast<unsigned>((word_ & ~kSample) >> kTimeBits); }
  // Never negative, although the clocks of two CPUs may differ.
  std::chrono::nanoseconds WaitUntil(std::chrono::steady_clock::time_point now) const noexcept {
    const auto wait = static_cast<std::int64_t>(Nanoseconds(now)) - static_cast<std::int64_t>(word_ & kTime);
    return std::chrono::nanoseconds(wait > 0 ? wait : 0);
  }
  std::uint64_t word() const noexcept { return word_; }

 private:
  static std::uint64_t Nanoseconds(std::chrono::steady_clock::time_point time) noexcept {
    return static_cast<std::uint64_t>(time.time_since_epoch() / std::chrono::nanoseconds(1));
  }

  static constexpr std::uint64_t kSample = std::uint64_t{1} << 63;
  static constexpr unsigned kTimeBits = 59;  // of nanoseconds: 18 years since the machine was started
  static constexpr std::uint64_t kTime = (std::uint64_t{1} << kTimeBits) - 1;
  std::uint64_t word_ = 0;
};

// Pushes up to and with the next sample. A push that is not a sample touches nothing else. Lies in WorkerBase.
class PushCountdown {
 public:
  // Counts a push. True: it is a sample, and its fiber gets PushSampler::Take().
  [[nodiscard]] WEFT_ALWAYS_INLINE bool Count() noexcept { return --left_ == 0; }

  // Counts `count` pushes up to the first sample. True: it is the *which-th of them, from 0; its fiber gets
  // PushSampler::Take(), and the pushes after it are still to be counted.
  [[nodiscard]] bool CountMany(std::size_t count, std::size_t* which) noexcept {
    if (left_ > count) {
      left_ -= static_cast<std::uint32_t>(count);
      return false;
    }
    *which = left_ - 1;
    return true;
  }

  // Counts all of them, and calls sample(i), which calls PushSampler::Take(), for each sample.
  template <class Sample>
  void CountEach(std::size_t count, Sample sample) noexcept {
    std::size_t begin = 0;
    for (std::size_t which = 0; begin < count && CountMany(count - begin, &which); begin += which + 1) {
      sample(begin + which);
    }
  }

  void Set(std::uint32_t pushes) noexcept { left_ = pushes; }

 private:
  std::uint32_t left_ = 1;
};

class PushSampler {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The largest N. 512 yields of some 40 ns take 20 us; pushes of plain threads cost several times as much.
  static constexpr unsigned kMaxShiftOfWorker = 9;
  static constexpr unsigned kMaxShiftOfThread = 6;
  static constexpr std::chrono::nanoseconds kSampleEvery{20'000};

  constexpr explicit PushSampler(unsigned max_shift = kMaxShiftOfWorker) noexcept : max_shift_(max_shift) {}

  // Returns the stamp of the push at which this sampler's `countdown` ran out, and sets that to the next one.
  [[nodiscard]] ReadyStamp Take(TimePoint now, PushCountdown* countdown) noexcept;

  // The thread has paused (PS2).
  void Forget(PushCountdown* countdown) noexcept {
    shift_ = 0;
    interval_ = 1;
    countdown->Set(1);
  }

  unsigned shift() const noexcept { return shift_; }

 private:
  std::uint32_t Draw() noexcept;

  std::uint32_t interval_ = 1;  // the countdown's first value
  unsigned shift_ = 0;          // N = 2^shift_
  unsigned max_shift_;
  std::int64_t last_ = 0;     // when the last sample was taken, in ns
  std::uint64_t random_ = 0;  // 0: not used yet
};

// Of a plain thread.
struct PushSamplerOfThread {
  PushCountdown countdown;
  PushSampler sampler{PushSampler::kMaxShiftOfThread};
};
WEFT_TLS_ACCESSOR PushSamplerOfThread& ThisThreadsPushSampler() noexcept;

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
  // Fibers that waited less than `limit`, to the beginning of its bucket: exact for powers of two.
  std::uint64_t FibersBelow(std::chrono::nanoseconds limit) const;
  // All waits together, each the middle of its bucket.
  std::chrono::nanoseconds Sum() const;

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

// Its worker writes, any thread reads. relaxed throughout: statistics, which feed a heuristic (ready_waits.h).
class alignas(base::kCacheLineSize) WaitRecorder {
 public:
  // wait >= 0. long_wait: counts in fibers_long() too.
  void Record(std::chrono::nanoseconds wait, std::uint64_t fibers, bool long_wait) noexcept;
  // As above, of a stolen fiber: it waited in another group, and says nothing of this one's load.
  void RecordStolen(std::chrono::nanoseconds wait, std::uint64_t fibers) noexcept;
  // As the latter, of a recorder that several threads write by this.
  void RecordByMany(std::chrono::nanoseconds wait, std::uint64_t fibers) noexcept;

  void AddTo(WaitHistogram* histogram) const;
  // Fibers of this group, and how many of them waited long.
  std::uint64_t fibers_own() const noexcept { return fibers_own_.load(std::memory_order_relaxed); }
  std::uint64_t fibers_long() const noexcept { return fibers_long_.load(std::memory_order_relaxed); }

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

#endif  // WEFT_SCHEDULING_GROUP_WATCH_WAIT_SAMPLES_H_
