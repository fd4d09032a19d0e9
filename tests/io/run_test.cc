// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Each call in a child of its own, which may get signals.

#include "weft/io/run.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/start/run_as_fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/select.h"

#include "testing/forbid_system_call.h"
#include "testing/patience.h"
#include "testing/policy.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

// What main() gets.
struct CommandLine {
  explicit CommandLine(std::vector<std::string> the_words = {}) : words(std::move(the_words)) {
    words.insert(words.begin(),
                 {"program", "--fiber_scheduling_name=" + testing::PolicyUnderTest(), "--fiber_concurrency_hint=2"});
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    argc = static_cast<int>(words.size());
    argv = pointers.data();
  }
  std::vector<std::string> words;
  std::vector<char*> pointers;
  int argc = 0;
  char** argv = nullptr;
};

// How a child ends: its status, or minus a signal.
template <class F>
int EndOf(F&& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);  // A shell without job control starts what is in its background with SIGINT ignored.
    ::alarm(static_cast<unsigned>(testing::kSoon.count()));
    ::_exit(f());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
template <class F>
int RunInChild(F&& f, std::vector<std::string> words = {}) {
  return EndOf([&] {
    CommandLine line(words);
    return weft::Run(line.argc, line.argv, f);
  });
}
void Signal(int signal) { ::kill(::getpid(), signal); }

TEST(Run, ReturnsWhatTheFunctionReturns) {
  EXPECT_EQ(RunInChild([] { return IsRunningInFiberWorker() ? 7 : 8; }), 7);
  EXPECT_EQ(RunInChild([] {}), 0);
  EXPECT_EQ(RunInChild([](EndSignal& end) { return end.signal() == 0 ? 7 : 8; }), 7);
  EXPECT_EQ(RunInChild([](EndSignal&) {}), 0);
  EXPECT_EQ(RunInChild([count = 0]() mutable { return ++count; }), 1);
}

int SevenAsAFunction() { return 7; }
TEST(Run, TakesAFunction) { EXPECT_EQ(RunInChild(SevenAsAFunction), 7); }

TEST(Run, ParsesTheFlagsAndLeavesTheRest) {
  EXPECT_EQ(EndOf([] {
              CommandLine line({"one", "--fiber_concurrency_hint=3", "two"});
              const auto is_right = [&] {
                return line.argc == 3 && line.argv[0] == std::string("program") && line.argv[1] == std::string("one") &&
                       line.argv[2] == std::string("two") && line.argv[3] == nullptr;
              };
              const int status =
                  weft::Run(line.argc, line.argv, [&] { return is_right() && GetConcurrencyHint() == 3 ? 0 : 1; });
              return status == 0 && is_right() && !IsRuntimeRunning() ? 7 : 8;
            }),
            7);
  EXPECT_EQ(RunInChild([] { return 7; }, {"--no_such_flag"}), 1) << "gflags";
  EXPECT_EQ(RunInChild([] { return 7; }, {"--fiber_concurrency_hint=-5"}), 2) << "as StartRuntime()";
}

TEST(Run, ASignalCancelsTheFunctionWithItsFibers) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(RunInChild([signal] {
                FiberScope scope;
                static_cast<void>(scope.Spawn([] { FiberSleepFor(1h); }));
                Signal(signal);
                scope.Wait();
                return 7;
              }),
              0);
    EXPECT_EQ(RunInChild([signal] {
                Signal(signal);
                try {
                  FiberSleepFor(1h);
                } catch (const FiberCancelled&) {
                  Shielded([] { FiberSleepFor(1ms); });
                  return 7;  // Its own status.
                }
                return 8;
              }),
              7);
  }
}

TEST(Run, AFunctionThatTakesTheEndSignalWaitsForItAndIsNotCancelled) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(RunInChild([signal](EndSignal& end) {
                if (end.Wait(1ms) != 0 || end.signal() != 0 || end.event().IsSet()) return 1;
                Signal(signal);
                if (end.Wait() != signal || end.Wait(1h) != signal || end.signal() != signal) return 2;
                FiberSleepFor(1ms);  // Drains.
                return Select(OnDeadline(1h), OnSet(end.event())) == 1 ? 7 : 3;
              }),
              7);
  }
}

TEST(Run, TheWaitForTheSignalIsACancellationPoint) {
  EXPECT_EQ(RunInChild([](EndSignal& end) {
              const bool ended = MoveOnAfter(1ms, [&] { end.Wait(); });
              const bool ended_too = MoveOnAfter(1ms, [&] { static_cast<void>(end.Wait(1h)); });
              return !ended && !ended_too ? 7 : 8;
            }),
            7);
}

TEST(Run, ASecondInterruptEndsTheProcessAtOnce) {
  for (const int first : {SIGINT, SIGTERM}) {
    EXPECT_EQ(RunInChild([first](EndSignal& end) {
                Signal(first);
                end.Wait();
                Signal(SIGINT);
                FiberSleepFor(1h);
                return 7;
              }),
              -SIGINT);
  }
}

TEST(Run, ASecondTerminationDoesNothing) {
  for (const int first : {SIGINT, SIGTERM}) {
    EXPECT_EQ(EndOf([first] {
                CommandLine line;
                const int status = weft::Run(line.argc, line.argv, [first](EndSignal& end) {
                  Signal(first);
                  end.Wait();
                  Signal(SIGTERM);
                  FiberSleepFor(1ms);
                  Signal(SIGTERM);
                  return 7;
                });
                Signal(SIGTERM);
                return status;
              }),
              7);
  }
}

// As a shell starts what is in the background of a script.
TEST(Run, AnIgnoredSignalStaysIgnored) {
  for (const auto& [ignored, other] : {std::pair(SIGINT, SIGTERM), std::pair(SIGTERM, SIGINT)}) {
    EXPECT_EQ(EndOf([ignored = ignored, other = other] {
                ::signal(ignored, SIG_IGN);
                CommandLine line;
                return weft::Run(line.argc, line.argv, [&](EndSignal& end) {
                  Signal(ignored);
                  if (end.Wait(5ms) != 0) return 1;
                  Signal(other);
                  if (end.Wait() != other) return 2;
                  Signal(ignored);
                  return 7;
                });
              }),
              7);
  }
}

// The end of f() that a first signal has cancelled may take its time, too.
TEST(Run, ASecondInterruptEndsACancelledFunctionThatDoesNotEnd) {
  EXPECT_EQ(RunInChild([] {
              Signal(SIGTERM);
              try {
                FiberSleepFor(1h);
              } catch (const FiberCancelled&) {
                Signal(SIGINT);
                Shielded([] { FiberSleepFor(1h); });
                throw;
              }
            }),
            -SIGINT);
}

TEST(Run, AfterTheFunctionsEndSignalsHaveTheirActionsAgain) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(EndOf([signal] {
                CommandLine line;
                if (weft::Run(line.argc, line.argv, [] {}) != 0) return 1;
                Signal(signal);
                return 2;
              }),
              -signal);
  }
}

TEST(Run, ASignalThatComesAsTheFunctionEndsIsNoEndOfTheProcess) {
  EXPECT_EQ(RunInChild([](EndSignal&) {
              Signal(SIGTERM);
              return 7;
            }),
            7);
  EXPECT_EQ(RunInChild([](EndSignal&) {
              Signal(SIGINT);
              return 7;
            }),
            7);
}

TEST(Run, AnExceptionIsAFailure) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunInChild([]() -> int { throw std::runtime_error("as asked"); }), 1);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("an exception has left the main fiber: as asked"),
            std::string::npos);
  EXPECT_EQ(RunInChild([](EndSignal&) { throw std::runtime_error("as asked"); }), 1);
  EXPECT_EQ(RunInChild([] { throw 5; }), 1);
  EXPECT_EQ(RunInChild([] { throw FiberCancelled(false); }), 1) << "no signal has cancelled it";
}

TEST(Run, FibersThatHaveNotFinishedAreAFailure) {
  const auto leave = [](int status) {
    return RunInChild(
        [status] {
          StartFiberDetached([] { FiberSleepFor(1h); });
          return status;
        },
        {"--fiber_terminate_timeout_ms=1"});
  };
  EXPECT_EQ(leave(0), 1);
  EXPECT_EQ(leave(7), 7);
}

TEST(Run, AMainFiberThatIsRefusedIsAFailure) {
  EXPECT_EQ(EndOf([] {
              CommandLine line;
              {
                const RefuseFiberStarts refuse;
                if (weft::Run(line.argc, line.argv, [] {}) != 1) return 2;
              }
              if (IsRuntimeRunning()) return 3;
              return weft::Run(line.argc, line.argv, [] { return 7; });
            }),
            7);
}

TEST(Run, CanBeCalledAgain) {
  EXPECT_EQ(EndOf([] {
              for (int i = 0; i < 3; ++i) {
                CommandLine line;
                const auto wait = [](EndSignal& end) {
                  Signal(SIGTERM);
                  return end.Wait() == SIGTERM ? 7 : 8;
                };
                if (weft::Run(line.argc, line.argv, wait) != 7) return 1;
              }
              return 7;
            }),
            7);
}

TEST(Run, WhereSignalsAreNotToldTheyEndTheProcess) {
  if (WEFT_TSAN || !testing::CanForbidSystemCalls()) GTEST_SKIP() << "no seccomp here";
  for (const long refused : {SYS_signalfd4, SYS_eventfd2}) {
    const auto run = [refused](auto f) {
      return EndOf([&] {
        CommandLine line;
        if (!testing::ForbidSystemCall(refused, EPERM)) return 1;
        return weft::Run(line.argc, line.argv, f);
      });
    };
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run([] {
                FiberSleepFor(1ms);
                return 7;
              }),
              7);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("Run: the system refuses to tell of signals, with error 1"),
              std::string::npos);
    EXPECT_EQ(run([](EndSignal& end) {
                Signal(SIGTERM);
                return end.Wait();
              }),
              -SIGTERM);
  }
}

TEST(RunDeathTest, InAFiberOrBesideARuntimeItEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CommandLine line;
  EXPECT_DEATH(static_cast<void>(weft::Run(line.argc, line.argv,
                                           [] {
                                             CommandLine again;
                                             return weft::Run(again.argc, again.argv, [] {});
                                           })),
               "Run: called in a fiber");
  EXPECT_DEATH(
      {
        StartRuntime();
        static_cast<void>(weft::Run(line.argc, line.argv, [] {}));
      },
      "Run: a runtime runs already");
}

}  // namespace
}  // namespace weft
