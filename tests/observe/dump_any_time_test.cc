// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpFibers() before there is a runtime, while it starts and ends, with fibers that it leaves behind, in a forked
// child, beside a loop, and without memory.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>
#include <ostream>
#include <streambuf>
#include <string>
#include <thread>

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
