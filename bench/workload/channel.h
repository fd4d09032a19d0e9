// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// chan: four producers and four consumers pass 1,000,000 ints through 128 slots: a ring under a mutex with two
// condition variables (ns_per_item), and the runtime's own channel where it has one (ns_per_item_channel). The sum is
// checked.
#ifndef WEFT_BENCH_WORKLOAD_CHANNEL_H_
#define WEFT_BENCH_WORKLOAD_CHANNEL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

inline constexpr std::size_t kChannelSlots = 128;
inline constexpr std::int64_t kChannelPeers = 4;

// The textbook bounded buffer over the runtime's mutex and condition variable.
template <class Runtime>
class BoundedBuffer {
 public:
  void Put(int item) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [&] { return count_ < kChannelSlots; });
      slots_[(head_ + count_) % kChannelSlots] = item;
      ++count_;
    }
    not_empty_.notify_one();
  }

  int Take() {
    int item = 0;
    {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [&] { return count_ > 0; });
      item = slots_[head_];
      head_ = (head_ + 1) % kChannelSlots;
      --count_;
    }
    not_full_.notify_one();
    return item;
  }

 private:
  // On two lines what each operation touches, whatever the size of a mutex: a third one costs a twentieth.
  alignas(64) typename Runtime::Mutex mutex_;
  typename Runtime::ConditionVariable not_full_;
  typename Runtime::ConditionVariable not_empty_;
  alignas(64) std::size_t head_ = 0;
  std::size_t count_ = 0;
  std::array<int, kChannelSlots> slots_{};
};

template <class Runtime, class Buffer>
void RunBuffer(Round& round, Buffer& buffer, const char* figure) {
  const std::int64_t items = round.Scaled(1'000'000, kChannelPeers, Runtime::kBlockDivisor);
  const std::int64_t items_each = items / kChannelPeers;
  Runtime::RunInside([&] {
    std::atomic<std::int64_t> sum = 0;
    Stopwatch watch;
    typename Runtime::Latch done(2 * kChannelPeers);
    for (std::int64_t peer = 0; peer < kChannelPeers; ++peer) {
      auto producer = [&, first = peer * items_each] {
        for (std::int64_t i = 0; i < items_each; ++i) buffer.Put(static_cast<int>(first + i));
        done.CountDown();
      };
      auto consumer = [&] {
        std::int64_t own = 0;
        for (std::int64_t i = 0; i < items_each; ++i) own += buffer.Take();
        sum.fetch_add(own, std::memory_order_relaxed);
        done.CountDown();
      };
      Require(Runtime::Spawn(producer), "a producer can be started");
      Require(Runtime::Spawn(consumer), "a consumer can be started");
    }
    done.Wait();
    round.Report(figure, watch.NanosecondsPer(items), "ns");
    Require(sum.load() == items * (items - 1) / 2, "every item arrived once");
  });
}

template <class Runtime>
void RunChannel(Round& round) {
  BoundedBuffer<Runtime> buffer;
  RunBuffer<Runtime>(round, buffer, "ns_per_item");
  if constexpr (Runtime::kHasChannel) {
    typename Runtime::Channel channel(kChannelSlots);
    RunBuffer<Runtime>(round, channel, "ns_per_item_channel");
  }
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_CHANNEL_H_
