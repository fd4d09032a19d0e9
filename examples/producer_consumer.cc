// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Producers and consumers: three fibers put numbers into a bounded queue, two others and a plain thread take them out.
//
// A full queue makes producers wait, an empty one consumers. Stop() tells the consumers that nothing more comes; what
// is still in the queue is delivered first.  Threads may wait at the same queue as fibers: the thread blocks, the
// fibers' workers do not.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr int kProducers = 3;
constexpr int kItemsEach = 10'000;

using Queue = weft::FiberBlockingBoundedQueue<int>;

void Produce(Queue& queue) {
  for (int i = 1; i <= kItemsEach; ++i) {
    if (queue.Put(int{i}) != weft::ChannelResult::kOk) std::abort();  // Stopped too early.
  }
}

std::int64_t Consume(Queue& queue) {
  std::int64_t sum = 0;
  for (const int item : queue) sum += item;  // until it is stopped, and empty
  return sum;
}

}  // namespace

int main() {
  weft::StartRuntime();

  Queue queue(64);
  std::atomic<std::int64_t> sum{0};

  std::vector<weft::Fiber> producers;
  for (int i = 0; i < kProducers; ++i) producers.emplace_back([&queue] { Produce(queue); });
  std::vector<weft::Fiber> consumers;
  for (int i = 0; i < 2; ++i) consumers.emplace_back([&queue, &sum] { sum += Consume(queue); });
  std::thread consumer_thread([&queue, &sum] { sum += Consume(queue); });

  for (weft::Fiber& producer : producers) producer.Join();
  queue.Stop();
  for (weft::Fiber& consumer : consumers) consumer.Join();
  consumer_thread.join();

  weft::TerminateRuntime();
  constexpr std::int64_t kExpected = std::int64_t{kProducers} * kItemsEach * (kItemsEach + 1) / 2;
  std::cout << "consumed numbers that add up to " << sum.load() << ", expected " << kExpected << "\n";
  return sum.load() == kExpected ? 0 : 1;
}
