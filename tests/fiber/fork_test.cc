// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// fork() beside a runtime: the child learns what it cannot do, and may do the rest.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/forked_child.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class ForkTest : public ::testing::Test {
 protected:
  RuntimeOf runtime_{Shape{2, 1}};
};

TEST_F(ForkTest, AChildThatNeedsWorkersIsToldSoInOneLine) {
  struct Case {
    const char* name;
    void (*call)();
  };
  static std::optional<Fiber> joinable;
  static auto* const event = new FiberEvent;
  joinable.emplace([] { event->Wait(); });
  const std::array cases = {
      Case{"StartFiberDetached", [] { static_cast<void>(StartFiberDetached([] {})); }},
      Case{"StartFiberDetached", [] { static_cast<void>(StartFiberDetached({.scheduling_group = 0}, [] {})); }},
      Case{"BatchStartFiberDetached",
           [] { static_cast<void>(BatchStartFiberDetached(std::vector<std::function<void()>>(2, [] {}))); }},
      Case{"Fiber", [] { Fiber([] {}).Join(); }},
      Case{"Fiber::Join", [] { joinable->Join(); }},
      Case{"SetFiberTimer", [] { static_cast<void>(SetFiberTimer(std::chrono::steady_clock::now(), [] {})); }},
      Case{"CreateFiberTimer", [] { static_cast<void>(CreateFiberTimer(std::chrono::steady_clock::now(), [] {})); }},
  };
  for (const Case& one : cases) {
    const Ended ended = Fork(one.call);
    EXPECT_TRUE(ended.by(SIGABRT)) << one.name << ": status " << ended.status;
    ExpectOneLine(ended, one.name);
  }
  event->Set();
  joinable->Join();
}

TEST_F(ForkTest, AChildThatStartsARuntimeIsToldSo) {
  const Ended ended = Fork([] {
    std::string error;
    if (TryStartRuntime(OptionsOf({1, 1}), &error)) ::_exit(1);
    if (error.find("has no workers") == std::string::npos) ::_exit(2);
  });
  EXPECT_TRUE(ended.with(kFine)) << ended.status;
}

TEST_F(ForkTest, TheEndOfTheRuntimeInAChildIsNone) {
  const Ended ended = Fork([] {
    if (TerminateRuntime() != 0) ::_exit(1);
  });
  EXPECT_TRUE(ended.with(kFine)) << ended.status;
  ExpectOneLine(ended, "TerminateRuntime");
}

TEST_F(ForkTest, QuestionsInAChildAreAnsweredByNothing) {
  FiberEvent go;
  Fiber alive([&] { go.Wait(); });
  const Ended ended = Fork([] {
    if (IsRuntimeRunning() || GetFiberQueueSize() != 0 || GetSchedulingGroupCount() != 0) ::_exit(1);
    if (!GetSchedulingCounts().empty() || TryAdmit() != Admission::kNoRuntime) ::_exit(2);
    if (GetFiberCount() != 0 || GetFiberId() != 0) ::_exit(3);  // Though fibers were alive in the parent.
    FiberSleepFor(1us);
    KillFiberTimer(0);
  });
  EXPECT_TRUE(ended.with(kFine)) << ended.status;
  EXPECT_EQ(ended.text, "");
  go.Set();
  alive.Join();
}

TEST_F(ForkTest, AChildMayExec) {
  Ended ended = Fork([] { ::execl("/bin/sh", "sh", "-c", "exit 7", nullptr); });
  EXPECT_TRUE(ended.with(7)) << ended.status;
  Fiber([&] { ended = Fork([] { ::execl("/bin/sh", "sh", "-c", "exit 8", nullptr); }); }).Join();
  EXPECT_TRUE(ended.with(8)) << ended.status;
}

#if !WEFT_ASAN && !WEFT_TSAN  // LeakSanitizer and ThreadSanitizer look for the threads of the parent at exit().
TEST_F(ForkTest, AChildMayExit) {
  Ended ended = Fork([] { std::exit(kFine); });
  EXPECT_TRUE(ended.with(kFine)) << ended.status;
  Fiber([&] { ended = Fork([] { std::exit(kFine); }); }).Join();
  EXPECT_TRUE(ended.with(kFine)) << ended.status;
}
#endif

TEST_F(ForkTest, TheChildOfAFiberIsAPlainThread) {
  Ended ended;
  Fiber([&] {
    ended = Fork([] {
      if (IsRunningInFiberWorker()) ::_exit(1);
      static_cast<void>(StartFiberDetached([] {}));
    });
  }).Join();
  EXPECT_TRUE(ended.by(SIGABRT)) << ended.status;
  ExpectOneLine(ended, "StartFiberDetached");
}

TEST_F(ForkTest, AChildThatReturnsFromItsFiberIsToldSo) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  pid_t pid = -1;
  Fiber([&] {
    pid = ::fork();
    if (pid == 0) {
      ::alarm(kHangsAfter);
      ::dup2(ends[1], STDERR_FILENO);
    }
  }).Join();
  ::close(ends[1]);
  Ended ended;
  std::array<char, 512> buffer{};
  const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
  ended.text.assign(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  ::close(ends[0]);
  ASSERT_EQ(::waitpid(pid, &ended.status, 0), pid);
  EXPECT_TRUE(ended.by(SIGABRT)) << ended.status;
  EXPECT_EQ(ended.text.rfind("Weft: ", 0), std::size_t{0}) << ended.text;
}

TEST_F(ForkTest, TheParentGoesOn) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(Fork([] {}).with(kFine));
    bool ran = false;
    Fiber([&] { ran = true; }).Join();
    EXPECT_TRUE(ran);
  }
}

#if !WEFT_TSAN  // It allows no threads in the child of a process with threads.
void RunARuntime() {
  { const RuntimeOf runtime(Shape{2, 1}); }
  StartRuntime(OptionsOf({1, 2}));
  bool ran = false;
  Fiber([&] {
    FiberSleepFor(100us);
    ran = true;
  }).Join();
  if (!ran || TerminateRuntime() != 0) ::_exit(1);
}

TEST(ForkWithoutARuntime, TheChildMayHaveOne) {
  const Ended ended = Fork(&RunARuntime);
  EXPECT_TRUE(ended.with(kFine)) << ended.status << ' ' << ended.text;
}

TEST(ForkWithoutARuntime, TheChildMayHaveOneThoughTheParentHadOne) {
  { const RuntimeOf runtime(Shape{2, 1}); }
  const Ended ended = Fork(&RunARuntime);
  EXPECT_TRUE(ended.with(kFine)) << ended.status << ' ' << ended.text;
}
#endif

}  // namespace
}  // namespace weft::fiber
