// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Memory comes back: after a burst of fibers the idle process shrinks to its former size by itself.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <thread>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

std::size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Runs so many fibers at a time, each with 1 KiB of its stack in use.  Returns the process's size meanwhile.
std::size_t Burst(int fibers) {
  FiberLatch waiting(fibers);
  FiberLatch done(fibers);
  FiberEvent go;
  for (int i = 0; i < fibers; ++i) {
    const bool started = StartFiberDetached([&] {
      volatile char used[1024];
      used[0] = 1;
      used[1023] = 1;
      waiting.CountDown();
      go.Wait();
      used[512] = used[0];
      done.CountDown();
    });
    EXPECT_TRUE(started);
  }
  waiting.Wait();
  const std::size_t resident = ResidentBytes();
  go.Set();
  done.Wait();
  return resident;
}

// The smallest size within `limit`, or the first of at most `wanted`.
std::size_t SizeAfterIdling(Steady::duration limit, std::size_t wanted) {
  const auto until = Steady::now() + limit;
  std::size_t size = ResidentBytes();
  while (size > wanted && Steady::now() < until) {
    std::this_thread::sleep_for(50ms);
    size = ResidentBytes();
  }
  return size;
}

class Memory : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Memory, ::testing::Values(Shape{1, 1}, Shape{2, 2}), &NameOf);

TEST_P(Memory, FallsToWithinAFifthOfWhatItWasWithinTenSecondsOfIdling) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizers keep memory of their own";
  RuntimeOptions options = OptionsOf(GetParam());
  options.start_timeout = 60s;
  options.terminate_timeout = 60s;
  const RuntimeOf runtime(options);
  // A program that has worked for a while: as many stacks are warm as the pools keep, and each slot of the run queues
  // has had a fiber.
  const int each = 4 * static_cast<int>(options.stack_pool_size) * GetParam().groups;
  const std::int64_t slots = options.run_queue_size * GetParam().groups;
  for (std::int64_t pushed = 0; pushed < 2 * slots; pushed += each) Burst(each);
  SizeAfterIdling(3s, 0);

  const std::size_t before = ResidentBytes();
  const std::size_t during = Burst(100'000);
  // Not `before` and that: the burst takes warm stacks first, which `before` has in it.
  ASSERT_GT(during, 100'000 * std::size_t{4096});
  const std::size_t after = SizeAfterIdling(10s, before + before / 5);
  EXPECT_LE(after, before + before / 5) << "before " << before << ", during " << during;
}

}  // namespace
}  // namespace weft::fiber
