// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpFibers() before there is a runtime, while it starts and ends, with fibers that it leaves behind, in a forked
// child, beside a loop, and without memory.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <new>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <thread>

#include "weft/base/report/build_mode.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/observe/dump_fibers.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"

#include "testing/patience.h"

namespace weft::observe {
namespace {

TEST(DumpAnyTime, WithoutARuntimeThereAreNoFibers) {
  EXPECT_EQ(DumpText().find("weft: 0 fibers: 0 parked, 0 ready, 0 new, 0 running\n"), 0u);
}

TEST(DumpAnyTime, WhileRuntimesStartAndEndAndFibersRun) {
  std::atomic<bool> stop{false};
  std::atomic<int> dumps{0};
  std::thread dumper([&] {
    while (!stop) {
      static_cast<void>(DumpText());
      ++dumps;
    }
  });
  for (int i = 0; i < testing::Scaled(10) || dumps < 3; ++i) {
    fiber::RuntimeOf runtime(fiber::Shape{2, 2});
    for (int j = 0; j < 100; ++j) {
      ASSERT_TRUE(StartFiberDetached({.name = "short"}, [] { FiberYield(); }));
    }
  }
  stop = true;
  dumper.join();
}

TEST(DumpAnyTime, AfterAForkTheChildShowsTheFibersOfItsParent) {
  fiber::RuntimeOf runtime(fiber::Shape{2, 1});
  FiberEvent event;
  Fiber waiter({.name = "waiter"}, [&] { event.Wait(); });
  static_cast<void>(DumpUntil("name=waiter", ", parked: event"));
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string dump = DumpText();
    ::_exit(Has(dump, "fiber 'waiter' (id ") && Has(dump, "parked: event ") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  event.Set();
  waiter.Join();
}

TEST(DumpAnyTime, AForkWhileAnotherThreadDumpsLeavesNothingLockedInTheChild) {
  fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  std::atomic<bool> stop{false};
  Fiber runner({.name = "runner"}, [&] {
    while (!stop) continue;
  });
  std::thread dumper([&] {
    while (!stop) static_cast<void>(DumpText());
  });
  for (int i = 0; i < testing::Scaled(10); ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(static_cast<unsigned>(testing::kSoon.count()));
      ::_exit(Has(DumpText(), "fiber 'runner' (id ") ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  dumper.join();
  runner.Join();
}

#if !WEFT_ASAN && !WEFT_TSAN  // They need their address space.

// In a child, whose address space may grow by so much.
TEST(DumpAnyTime, WithLittleMemoryItSaysSoOrDumpsLess) {
  fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  for (const std::size_t room : {0, 64, 256, 1024, 4096, 16384}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(static_cast<unsigned>(testing::kSoon.count()));
      std::size_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      rlimit limit{};
      ::getrlimit(RLIMIT_AS, &limit);
      limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + room * 1024;
      ::setrlimit(RLIMIT_AS, &limit);
      try {  // What the heap still has.
        for (;;) asm volatile("" : : "r"(new char[1024]));
      } catch (const std::bad_alloc&) {
      }
      std::ostringstream out;
      static_cast<void>(DumpFibers(out));
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << room << " KiB";
  }
}

#endif

TEST(DumpAnyTime, TheFibersOfALoopAreShown) {
  FiberLoop loop;
  FiberEvent event;
  std::string dump;
  loop.AddTask([&] { event.Wait(); });
  loop.AddTask([&] {
    dump = DumpUntil("reason=event", "parked: event ");
    event.Set();
  });
  loop.Run();
  EXPECT_TRUE(Has(dump, "in group 10")) << dump;  // LoopGroups::kFirstId and above
}

// A stream that has no memory.
class FailingBuffer : public std::streambuf {
  std::streamsize xsputn(const char* /*text*/, std::streamsize /*size*/) override { throw std::bad_alloc(); }
};

TEST(DumpAnyTime, WithoutMemoryOrStreamItFails) {
  FailingBuffer buffer;
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);
  EXPECT_FALSE(DumpFibers(out));
}

}  // namespace
}  // namespace weft::observe
