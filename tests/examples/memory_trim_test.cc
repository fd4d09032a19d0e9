// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/serving/memory_trim.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>

#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/tests/fiber/runtime_fixture.h"

DECLARE_uint32(trim_memory_ms);

namespace examples {
namespace {

using namespace std::chrono_literals;

class MemoryTrimTest : public weft::fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, MemoryTrimTest, ::testing::Values(weft::fiber::Shape{1, 1}, weft::fiber::Shape{2, 1}),
                         &weft::fiber::NameOf);

std::chrono::nanoseconds Used() {
  timespec used{};
  EXPECT_EQ(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// Uses as much CPU time, and lets others run.
void Work(std::chrono::nanoseconds time) {
  const auto begin = Used();
  while (Used() - begin < time) weft::FiberYield();
}

TEST_P(MemoryTrimTest, AProcessThatHasWorkedTrimsOnceItIsQuiet) {
  InFiber([] {
    FLAGS_trim_memory_ms = 50;
    MemoryTrim trim;
    ASSERT_TRUE(trim.Start());
    for (std::uint64_t round = 1; round <= 3; ++round) {
      Work(300ms);
      EXPECT_EQ(trim.trims(), round - 1) << "while there was work";
      while (trim.trims() != round) weft::FiberSleepFor(10ms);
    }
    // Nothing has happened since.
    weft::FiberSleepFor(500ms);
    EXPECT_EQ(trim.trims(), 3u);
  });
}

TEST_P(MemoryTrimTest, ItCanBeTurnedOff) {
  InFiber([] {
    FLAGS_trim_memory_ms = 0;
    MemoryTrim trim;
    ASSERT_TRUE(trim.Start());
    Work(50ms);
    weft::FiberSleepFor(100ms);
    EXPECT_EQ(trim.trims(), 0u);
  });
}

}  // namespace
}  // namespace examples
