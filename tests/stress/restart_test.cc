// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Restarts: whatever the options, a process that starts and ends runtimes needs the memory of one, and the last runtime
// works like the first.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
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

struct Footprint {
  std::size_t resident = 0;  // bytes, both
  std::size_t addresses = 0;
  std::size_t mappings = 0;

  static Footprint Now() {
    Footprint now;
    std::ifstream("/proc/self/statm") >> now.addresses >> now.resident;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    now.addresses *= page;
    now.resident *= page;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++now.mappings;
    return now;
  }
};

std::ostream& operator<<(std::ostream& out, const Footprint& footprint) {
  return out << "RSS " << footprint.resident / 1024 << " KiB, addresses " << (footprint.addresses >> 20) << " MiB, "
             << footprint.mappings << " mappings";
}

RuntimeOptions RandomOptions(std::mt19937& random) {
  const auto below = [&](int limit) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(limit)); };
  RuntimeOptions options = OptionsOf({static_cast<int>(1 + below(3)), static_cast<int>(1 + below(3))});
  options.scheduling_name = below(2) == 0 ? "v1" : "v2";
  options.run_queue_size = std::int64_t{1} << (10 + below(8));
  options.stack_size = 4096 * (8 + below(120));
  options.stack_enable_guard_page = below(4) != 0;
  options.stack_pool_size = 16 + below(1000);
  options.work_stealing_ratio = below(20);
  options.start_timeout = std::chrono::milliseconds(100 + below(1000));
  options.limit_ready_wait = std::chrono::milliseconds(below(2) * 50);
  return options;
}

// Fibers of the runtime's own stack size and of others, some of which wait, and a thread that wakes the last one.
void UseRuntime(std::mt19937& random) {
  constexpr int kFibers = 32;
  FiberLatch latch(kFibers);
  FiberEvent go;
  for (int i = 0; i < kFibers; ++i) {
    Fiber::Attributes attributes;
    if (i % 8 == 0) attributes.stack_size = std::size_t{1} << (14 + random() % 17);
    ASSERT_TRUE(StartFiberDetached(attributes, [&, i] {
      if (i % 3 == 0) FiberYield();
      latch.CountDown();
    }));
  }
  std::thread waker([&] { go.Set(); });
  Fiber last([&] { go.Wait(); });
  latch.Wait();
  last.Join();
  ASSERT_EQ(TerminateRuntime(), 0U);
  waker.join();
}

// Groups with other options than before were kept for ever, 4.3 MB and 388 MB of addresses each; after 1,024 of them
// there was no stack left. WEFT_TEST_RESTARTS=5000: as many.
TEST(Restart, WithRandomOptionsEachTimeNeedsTheMemoryOfOne) {
  const char* const wanted = std::getenv("WEFT_TEST_RESTARTS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : WEFT_TSAN || WEFT_ASAN ? 60 : 400;
  std::mt19937 random(1);
  Footprint at_first;
  for (int round = 1; round <= rounds; ++round) {
    StartRuntime(RandomOptions(random));
    ASSERT_NO_FATAL_FAILURE(UseRuntime(random)) << "restart " << round;
    if (round == rounds / 4) at_first = Footprint::Now();
    if (round == 100 || round == 1000 || round == rounds) {
      std::cout << "after " << round << " restarts: " << Footprint::Now() << '\n';
    }
  }
  const Footprint in_the_end = Footprint::Now();
  // The groups' parts are freed between two runtimes; the rest varies with the heap and thread stacks.
  EXPECT_LE(in_the_end.addresses, at_first.addresses + (std::size_t{256} << 20)) << at_first << " -> " << in_the_end;
  EXPECT_LE(in_the_end.mappings, at_first.mappings + 100) << at_first << " -> " << in_the_end;
  if (WEFT_TSAN || WEFT_ASAN) return;  // Their own memory is more than that.
  EXPECT_LE(in_the_end.resident, at_first.resident + (std::size_t{16} << 20)) << at_first << " -> " << in_the_end;
}

// A fiber of each of the 17 stack sizes in each of 64 groups: more than 1,024 pieces of address space. No large ones
// under AddressSanitizer, which clears its shadow of each stack, an eighth of it.
TEST(Restart, SixtyFourGroupsWithFibersOfAllStackSizesRunThemAll) {
  if (WEFT_TSAN) GTEST_SKIP() << "ThreadSanitizer has not that many addresses";
  RuntimeOptions options = OptionsOf({1, 64});
  const RuntimeOf runtime(options);
  constexpr int kSizes = WEFT_ASAN ? 12 : 17;  // 16 KiB to 1 GiB
  FiberLatch latch(64 * kSizes);
  for (std::size_t group = 0; group < 64; ++group) {
    for (int size = 0; size < kSizes; ++size) {
      Fiber::Attributes attributes;
      attributes.scheduling_group = group;
      attributes.scheduling_group_local = true;
      attributes.stack_size = std::size_t{1} << (14 + size);
      ASSERT_TRUE(StartFiberDetached(attributes, [&] { latch.CountDown(); }));
    }
  }
  EXPECT_TRUE(latch.Wait(60s));
}

}  // namespace
}  // namespace weft::fiber
