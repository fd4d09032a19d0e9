// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <atomic>
#include <cstdio>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/sync/fiber_latch.h"

int main() {
  constexpr int kFibers = 1000;
  weft::RuntimeOptions options;
  options.dump_signal = "USR2";  // Refused if the linker has left out what makes dumps.
  weft::StartRuntime(options);
  std::atomic<int> ran{0};
  int refused = 0;
  {
    weft::FiberLatch latch(kFibers);
    for (int i = 0; i < kFibers; ++i) {
      const bool started = weft::StartFiberDetached([&] {
        ran.fetch_add(1);
        latch.CountDown();
      });
      if (!started) {
        ++refused;
        latch.CountDown();
      }
    }
    latch.Wait();
  }
  weft::TerminateRuntime();
  std::printf("%d fibers ran, %d were refused\n", ran.load(), refused);
  return ran.load() == kFibers ? 0 : 1;
}
