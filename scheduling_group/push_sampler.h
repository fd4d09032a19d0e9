// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// PushSampler: which of the pushes of one thread get a time stamp, so that it is known how long fibers that are ready
// wait until they run (wait_histogram.h).
//
// To read the clock at each push and each pop would cost more than the yield between them. So each push is a sample
// with a probability of 1/N, and stands for N of them. N is a power of two and follows the rate of pushes, so that
// there is about one sample every kSampleEvery: all pushes of a group that has little to do, one in some hundreds where
// fibers yield. A stamp and what comes of it cost about 0.1 us: half a percent of kSampleEvery, whatever the rate.
//
//   every push          counts down (one subtraction on a line that is the thread's own)
//   a push at 0         gets a ReadyStamp: the time and N; a new N, and the geometric number of pushes to the next one
//   the fiber is run    its stamp is taken off and the wait counted, N times (Worker::PrepareToEnter)
//
// Invariants
//   PS1  Each push is a sample with probability 1/N, independently of all others, and N depends on former pushes only.
//        So the sum of what the samples stand for is, on average, the number of pushes, in each place where fibers wait
//        and at each point of a burst; and the number of pushes to the next sample may be drawn anew at any time.
//   PS2  A worker that has slept starts with N = 1: the first fiber after a pause is always seen. (The samplers of
//        other threads do not know of their pauses; their N is at most 64.)
//
// Of one thread, and used by that thread only.
//
// Rejected
//   every n-th push: keeps step with programs that do the same things in turn, so that it sees one of two fibers that
//     talk to each other always and the other one never;
//   a constant N: too dear where it is small, and where it is large a service with a hundred requests a second has a
//     sample every few seconds;
//   samples that stand for one push each though N changes: a burst's first fibers, which wait the least, would count
//     hundreds of times as much as its others.
#ifndef WEFT_SCHEDULING_GROUP_PUSH_SAMPLER_H_
#define WEFT_SCHEDULING_GROUP_PUSH_SAMPLER_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/clocks.h"
#include "weft/base/cpu.h"

namespace weft::scheduling_group {

// When a fiber became ready, and how many pushes that stands for. In one word, in each fiber.
class ReadyStamp {
 public:
  ReadyStamp() = default;
  ReadyStamp(std::chrono::steady_clock::time_point now, unsigned shift)
      : word_(static_cast<std::uint64_t>(now.time_since_epoch() / std::chrono::nanoseconds(1)) << kShiftBits | shift) {}

  // False: the push was no sample.
  explicit operator bool() const noexcept { return word_ != 0; }
  std::uint64_t weight() const noexcept { return std::uint64_t{1} << shift(); }
  unsigned shift() const noexcept { return static_cast<unsigned>(word_ & ((1u << kShiftBits) - 1)); }
  // Not negative: clocks of two CPUs may be apart.
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

// Pushes to the next sample, with it. All that a push that is no sample touches: in WorkerBase, where there was room.
class PushCountdown {
 public:
  // Counts a push. True: it is a sample, and its fiber gets PushSampler::Take().
  [[nodiscard]] WEFT_ALWAYS_INLINE bool Count() noexcept { return --left_ == 0; }

  // Counts `count` pushes up to the first that is a sample. True: this is the *which-th of them, from 0, its fiber gets
  // PushSampler::Take(), and those that follow are still to be counted.
  [[nodiscard]] bool CountMany(std::size_t count, std::size_t* which) noexcept {
    if (left_ > count) {
      left_ -= static_cast<std::uint32_t>(count);
      return false;
    }
    *which = left_ - 1;
    return true;
  }

  // The same for all of them: calls sample(i), which calls PushSampler::Take(), for each that is a sample.
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

  // N at most. A yield takes some 40 ns, and so 512 of them 20 us. Other threads' pushes cost several times as much.
  static constexpr unsigned kMaxShiftOfWorker = 9;
  static constexpr unsigned kMaxShiftOfThread = 6;
  static constexpr std::chrono::nanoseconds kSampleEvery{20'000};

  constexpr explicit PushSampler(unsigned max_shift = kMaxShiftOfWorker) noexcept : max_shift_(max_shift) {}

  // The stamp of the push that `countdown`, which is this sampler's, has come to; sets it to the next.
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

  std::uint32_t interval_ = 1;  // what the countdown was at first
  unsigned shift_ = 0;          // N = 2^shift_
  unsigned max_shift_;
  std::int64_t last_ = 0;     // when the last sample was taken, in ns
  std::uint64_t random_ = 0;  // 0: not used yet
};

// Of a thread that is no worker.
struct PushSamplerOfThread {
  PushCountdown countdown;
  PushSampler sampler{PushSampler::kMaxShiftOfThread};
};
WEFT_TLS_ACCESSOR PushSamplerOfThread& ThisThreadsPushSampler() noexcept;

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_PUSH_SAMPLER_H_
