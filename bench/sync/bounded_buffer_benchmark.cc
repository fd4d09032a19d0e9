// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// Four producers pass ints to four consumers through 128 slots; time per item. At best they take turns on one core, a
// hundred items at a time: an item costs two locks. At worst each item wakes somebody.
//
// BM_Buffer<Textbook...>: a ring under a mutex, two condition variables; the twin is the same over std::mutex, between
// threads. BM_Buffer<FiberChannel>, <FiberBlockingBoundedQueue>: ours.

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::bench {
namespace {

constexpr std::size_t kSlots = 128;
constexpr int kPeers = 4;
constexpr int kItemsEach = 5'000;

template <class Mutex, class ConditionVariable>
class Textbook {
 public:
  void Put(int item) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [&] { return count_ < kSlots; });
      slots_[(head_ + count_) % kSlots] = item;
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
      head_ = (head_ + 1) % kSlots;
      --count_;
    }
    not_full_.notify_one();
    return item;
  }

 private:
  Mutex mutex_;
  ConditionVariable not_full_;
  ConditionVariable not_empty_;
  std::array<int, kSlots> slots_{};
  std::size_t head_ = 0;
  std::size_t count_ = 0;
};

class ByChannel {
 public:
  void Put(int item) { static_cast<void>(channel_.Put(item)); }
  int Take() { return channel_.Get().value_or(0); }

 private:
  FiberChannel<int> channel_{kSlots};
};

class ByQueue {
 public:
  void Put(int item) { queue_.Push(std::move(item)); }
  int Take() {
    int item = 0;
    queue_.Pop(item);
    return item;
  }

 private:
  FiberBlockingBoundedQueue<int> queue_{kSlots};
};

template <class Buffer>
void Produce(Buffer* buffer) {
  for (int i = 0; i < kItemsEach; ++i) buffer->Put(i);
}

template <class Buffer>
std::int64_t Consume(Buffer* buffer) {
  std::int64_t sum = 0;
  for (int i = 0; i < kItemsEach; ++i) sum += buffer->Take();
  return sum;
}

template <class Buffer>
void BM_Buffer(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    Buffer buffer;
    std::atomic<std::int64_t> sum{0};
    for (auto _ : state) {
      FiberLatch done(2 * kPeers);
      for (int peer = 0; peer < kPeers; ++peer) {
        MustStart([&] {
          Produce(&buffer);
          done.CountDown();
        });
        MustStart([&] {
          sum += Consume(&buffer);
          done.CountDown();
        });
      }
      done.Wait();
    }
    benchmark::DoNotOptimize(sum.load());
  });
  state.SetItemsProcessed(state.iterations() * kPeers * kItemsEach);
}
BENCHMARK(BM_Buffer<Textbook<FiberMutex, FiberConditionVariable>>)->Apply(OnSomeWorkers);
BENCHMARK(BM_Buffer<ByChannel>)->Apply(OnSomeWorkers);
BENCHMARK(BM_Buffer<ByQueue>)->Apply(OnSomeWorkers);

template <class Buffer>
void BM_BufferOfThreads(benchmark::State& state) {
  Buffer buffer;
  std::atomic<std::int64_t> sum{0};
  for (auto _ : state) {
    std::vector<std::thread> crew;
    for (int peer = 0; peer < kPeers; ++peer) {
      crew.emplace_back([&] { Produce(&buffer); });
      crew.emplace_back([&] { sum += Consume(&buffer); });
    }
    for (std::thread& thread : crew) thread.join();
  }
  benchmark::DoNotOptimize(sum.load());
  state.SetItemsProcessed(state.iterations() * kPeers * kItemsEach);
}
BENCHMARK(BM_BufferOfThreads<Textbook<std::mutex, std::condition_variable>>)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(BM_BufferOfThreads<Textbook<FiberMutex, FiberConditionVariable>>)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace weft::bench
