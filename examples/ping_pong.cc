// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Ping-pong: two fibers pass a ball back and forth, 100,000 times, to measure a hand-off.
//
// FiberMutex and FiberConditionVariable are used exactly like their std:: counterparts.  A waiting fiber costs its
// worker nothing: the worker switches to the other fiber in some tens of nanoseconds, where two threads would need the
// kernel.

#include <chrono>
#include <iostream>
#include <mutex>

#include "weft/weft.h"

namespace {

constexpr int kRounds = 100'000;

class Table {
 public:
  enum class Side { kPing, kPong };

  // Waits until the ball is on `side`, then plays it to the other one.
  void Play(Side side) {
    std::unique_lock lock(mutex_);
    played_.wait(lock, [&] { return ball_ == side; });
    ball_ = side == Side::kPing ? Side::kPong : Side::kPing;
    ++strokes_;
    lock.unlock();
    played_.notify_one();
  }

  int strokes() {
    const std::scoped_lock lock(mutex_);
    return strokes_;
  }

 private:
  weft::FiberMutex mutex_;
  weft::FiberConditionVariable played_;
  Side ball_ = Side::kPing;
  int strokes_ = 0;
};

}  // namespace

int main() {
  weft::StartRuntime();

  Table table;
  const auto begin = std::chrono::steady_clock::now();
  weft::Fiber ping([&] {
    for (int i = 0; i < kRounds; ++i) table.Play(Table::Side::kPing);
  });
  weft::Fiber pong([&] {
    for (int i = 0; i < kRounds; ++i) table.Play(Table::Side::kPong);
  });
  ping.Join();
  pong.Join();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;

  const int strokes = table.strokes();
  weft::TerminateRuntime();
  std::cout << kRounds << " rounds, " << took.count() / kRounds << " ns each\n";
  return strokes == 2 * kRounds ? 0 : 1;
}
