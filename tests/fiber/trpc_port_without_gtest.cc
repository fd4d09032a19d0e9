// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/tests/fiber/trpc_port_without_gtest.h"

#include "weft/fiber/fiber_latch.h"
#include "weft/fiber/testing/fiber_runtime.h"

#ifdef GTEST_TEST
#error "fiber/testing/fiber_runtime.h needs no GoogleTest"
#endif

namespace weft {

bool RunInAFiberWithoutGoogleTest() {
  bool in_fiber = false;
  ::RunAsFiber([&] { in_fiber = IsRunningInFiberWorker(); });
  return in_fiber;
}

int CountUnderALockOfTheLatchsHeader(int count) {
  int counted = 0;
  ::RunAsFiber([&] {
    FiberMutex mutex;
    FiberConditionVariable changed;
    FiberLatch latch(count);
    for (int i = 0; i < count; ++i) {
      StartFiberDetached([&, i] {
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return counted == i; });
          ++counted;
          changed.notify_all();
        }
        latch.CountDown();
      });
    }
    latch.Wait();
  });
  return counted;
}

}  // namespace weft
