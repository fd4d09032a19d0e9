// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A periodic timer: runs a callback each 20 ms, ten times, and is then cancelled.
//
// The callback runs in a new fiber each time, so it may wait, sleep and lock.  It never overlaps itself: the next run
// is due only after the last one has ended.  FiberTimerKiller cancels in its destructor, so that a timer cannot outlive
// what its callback uses.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "weft/weft.h"

using namespace std::chrono_literals;

int main() {
  weft::StartRuntime();

  constexpr int kTicks = 10;
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<int> ticks{0};
  weft::FiberLatch ten_ticks(kTicks);
  {
    const std::uint64_t timer = weft::SetFiberTimer(begin + 20ms, 20ms, [&] {
      if (ticks.fetch_add(1) < kTicks) ten_ticks.CountDown();
    });
    const weft::FiberTimerKiller killer(timer);
    ten_ticks.Wait();  // main() is a plain thread; a fiber would wait in the same way.
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);

  const std::size_t unfinished = weft::TerminateRuntime();
  std::cout << kTicks << " ticks of 20 ms in " << took.count() << " ms\n";
  return took >= kTicks * 20ms && unfinished == 0 ? 0 : 1;
}
