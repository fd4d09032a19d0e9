// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PushSampler: chooses a thread's pushes that get a time stamp, to measure waits of ready fibers (wait_histogram.h).
//
// Reading the clock at each push and pop would cost more than a yield. So each push is a sample with probability 1/N,
// and stands for N pushes. N is a power of two that follows the rate of pushes: a sample comes every 10 to 20 us, at
// one push in some hundreds where fibers yield; where pushes are rarer than that, each is one. A sample costs 0.1 us.
//
//   every push          counts down (one subtraction on a line that is the thread's own)
//   a push at 0         gets a ReadyStamp (the time and N); draws the number of pushes to the next one
//   the fiber runs      its stamp is taken off, and its wait counts N times (Worker::PrepareToEnter)
//
// Invariants
//   PS1  Each push is a sample with probability 1/N, independently of all others, and N depends on former pushes only.
//        So on average the weights of the samples add up to the number of pushes, in each queue and at each point of a
//        burst, and the number of pushes to the next sample may be drawn anew at any time.
//   PS2  A worker that has slept starts with N = 1, so the first fiber after a pause is always a sample. (Samplers of
//        other threads do not learn of pauses; their N is at most 64.)
//
// Each thread has its own, and alone uses it.
//
// Rejected: every n-th push (it keeps step with programs that do things in turn); a constant N (a small one is too
// dear, and with a large one a service with few requests has a sample every few seconds); unweighted samples (a burst's
// first fibers, which wait the least, would count hundreds of times as much as its others).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_PUSH_SAMPLER_H_
#define WEFT_SCHEDULING_GROUP_WATCH_PUSH_SAMPLER_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clocks.h"

namespace weft::scheduling_group {

// When a fiber became ready, and how many pushes the sample stands for, in one word.
class ReadyStamp {
 public:
  ReadyStamp() = default;
  ReadyStamp(std::chrono::steady_clock::time_point now, unsigned shift)
      : word_(static_cast<std::uint64_t>(now.time_since_epoch() / std::chrono::nanoseconds(1)) << kShiftBits | shift) {}

  // False: the push was not a sample.
  explicit operator bool() const noexcept { return word_ != 0; }
  std::uint64_t weight() const noexcept { return std::uint64_t{1} << shift(); }
  unsigned shift() const noexcept { return static_cast<unsigned>(word_ & ((1u << kShiftBits) - 1)); }
  // Never negative, although the clocks of two CPUs may differ.
  std::chrono::nanoseconds WaitUntil(std::chrono::steady_clock::time_point now) const noexcept {
    const auto wait =
        now.time_since_epoch() / std::chrono::nanoseconds(1) - static_cast<std::int64_t>(word_ >> kShiftBits);
    return std::chrono::nanoseconds(wait > 0 ? wait : 0);
  }

 private:
  // 60 bits of nanoseconds are 36 years since the machine was started.
  static constexpr unsigned kShiftBits = 4;
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

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_PUSH_SAMPLER_H_
