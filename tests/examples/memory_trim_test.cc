// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/serving/memory_trim.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>

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

// A process that uses a CPU, or nothing, between two looks.
std::atomic<bool> busy{false};
std::atomic<int> looks{0};

std::chrono::nanoseconds Used() {
  static std::atomic<std::int64_t> periods{0};
  ++looks;
  return (busy ? ++periods : periods.load()) * 20ms;
}

void AwaitLooks(int count) {
  const int until = looks + count;
  while (looks < until) weft::FiberSleepFor(1ms);
}

TEST_P(MemoryTrimTest, AProcessThatHasWorkedTrimsOnceItIsQuiet) {
  InFiber([] {
    FLAGS_trim_memory_ms = 20;
    MemoryTrim trim(&Used);
    busy = true;
    ASSERT_TRUE(trim.Start());
    for (std::uint64_t round = 1; round <= 3; ++round) {
      AwaitLooks(5);
      EXPECT_EQ(trim.trims(), round - 1) << "while there was work";
      busy = false;
      while (trim.trims() < round) weft::FiberSleepFor(1ms);
      AwaitLooks(5);
      EXPECT_EQ(trim.trims(), round) << "nothing has happened since";
      busy = true;
    }
  });
}

TEST_P(MemoryTrimTest, ItCanBeTurnedOff) {
  InFiber([] {
    FLAGS_trim_memory_ms = 0;
    looks = 0;
    MemoryTrim trim(&Used);
    ASSERT_TRUE(trim.Start());
    weft::FiberSleepFor(50ms);
    EXPECT_EQ(looks, 0);
  });
}

TEST(MemoryTrim, KnowsWhatTheProcessUses) {
  const auto before = MemoryTrim::CpuTimeOfProcess();
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (MemoryTrim::CpuTimeOfProcess() - before < 10ms) ASSERT_LT(std::chrono::steady_clock::now(), until);
}

}  // namespace
}  // namespace examples
