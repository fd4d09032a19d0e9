// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump_on_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>

#include "weft/base/report/build_mode.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/runtime/dump_hook.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"

#include "testing/patience.h"

namespace weft::observe {
namespace {

// What is written to stderr while it lives.
class StderrPipe {
 public:
  StderrPipe() : saved_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe(ends_.data()), 0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~StderrPipe() {
    ::dup2(saved_, STDERR_FILENO);
    for (const int fd : {saved_, ends_[0], ends_[1]}) ::close(fd);
  }
  StderrPipe(const StderrPipe&) = delete;
  StderrPipe& operator=(const StderrPipe&) = delete;

  std::string ReadUntil(const std::string& end) {
    std::string text;
    while (!Has(text, end)) {
      std::array<char, 4096> piece;
      const ssize_t size = ::read(ends_[0], piece.data(), piece.size());
      if (size <= 0) break;
      text.append(piece.data(), static_cast<std::size_t>(size));
    }
    return text;
  }

 private:
  const int saved_;
  std::array<int, 2> ends_{};
};

TEST(DumpOnSignal, ASignalThatIsUsedOrIsNoneIsRefused) {
  for (const int signal : {SIGKILL, SIGSTOP, SIGSEGV, SIGABRT, 0, 1000})
    EXPECT_FALSE(DumpFibersOnSignal(signal)) << signal;
  struct sigaction used = {};
  used.sa_handler = SIG_IGN;
  struct sigaction former = {};
  ::sigaction(SIGUSR1, &used, &former);
  StderrPipe pipe;
  EXPECT_FALSE(DumpFibersOnSignal(SIGUSR1));
  EXPECT_TRUE(Has(pipe.ReadUntil("\n"), "is not taken: it is used already"));
  ::sigaction(SIGUSR1, &former, nullptr);
}

RuntimeOptions OptionsWith(const std::string& dump_signal) {
  RuntimeOptions options = fiber::OptionsOf({1, 1});
  options.dump_signal = dump_signal;
  return options;
}

TEST(DumpOnSignal, TheFlagIsRefusedIfTheSignalIsUsed) {
  ::signal(SIGUSR1, SIG_IGN);
  std::string error;
  EXPECT_FALSE(TryStartRuntime(OptionsWith("USR1"), &error));
  EXPECT_EQ(error, "--fiber_dump_signal=USR1: must be another one: signal " + std::to_string(SIGUSR1) +
                       " (User defined signal 1) is not taken: it is used already");
  ::signal(SIGUSR1, SIG_DFL);
}

// In children: one signal is enough for a process.
TEST(DumpOnSignalDeathTest, TheFlagMakesTheSignalDumpInEachRuntime) {
  const auto run = [] {
    for (int i = 0; i < 2; ++i) {
      fiber::RuntimeOf runtime(OptionsWith("SIGUSR1"));
      StderrPipe pipe;
      ::raise(SIGUSR1);
      if (!Has(pipe.ReadUntil("\n"), "weft: 0 fibers")) ::_exit(1);
    }
    std::string error;
    if (TryStartRuntime(OptionsWith("SIGHUP"), &error)) ::_exit(2);
    ::_exit(Has(error, "another signal makes dumps already") ? 0 : 3);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

TEST(DumpOnSignalDeathTest, ASignalThatAllThreadsOfTheProgramBlockIsReceived) {
  if (WEFT_TSAN) GTEST_SKIP() << "ThreadSanitizer delays signals until their thread wakes";
  const auto run = [] {
    ::alarm(static_cast<unsigned>(testing::kSoon.count()));
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    fiber::RuntimeOf runtime(OptionsWith("SIGUSR1"));
    StderrPipe pipe;
    ::kill(::getpid(), SIGUSR1);
    ::_exit(Has(pipe.ReadUntil("\n"), "weft: 0 fibers") ? 0 : 1);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

// What a static constructor is told that starts the runtime.
const std::string answer_to_a_constructor = [] {
  RuntimeOptions options;
  options.dump_signal = std::to_string(SIGUSR1);
  options.dump_on_crash = false;
  ::signal(SIGUSR1, SIG_IGN);
  const std::optional<std::string> refused = fiber::detail::PrepareDumps(options);
  ::signal(SIGUSR1, SIG_DFL);
  return refused.value_or("");
}();

TEST(DumpOnSignal, AStaticConstructorMayStartTheRuntime) {
  EXPECT_TRUE(Has(answer_to_a_constructor, "is not taken: it is used already")) << answer_to_a_constructor;
}

TEST(DumpOnSignal, TheSignalMakesADump) {
  fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  FiberEvent event;
  Fiber waiter({.name = "waiter"}, [&] { event.Wait(); });
  static_cast<void>(DumpUntil("name=waiter", ", parked: event"));
  ASSERT_TRUE(DumpFibersOnSignal(SIGUSR2, {.stacks = false}));
  {
    StderrPipe pipe;
    EXPECT_FALSE(DumpFibersOnSignal(SIGUSR1)) << "one is enough";
    EXPECT_TRUE(Has(pipe.ReadUntil("\n"), "another signal makes dumps already"));
    for (int i = 0; i < 2; ++i) {
      ::raise(SIGUSR2);
      EXPECT_TRUE(Has(pipe.ReadUntil("in group 0\n"), "fiber 'waiter' (id ")) << i;
    }
    const pid_t child = ::fork();
    if (child == 0) {
      ::raise(SIGUSR2);
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "it has ignored it";
  }
  event.Set();
  waiter.Join();
}

}  // namespace
}  // namespace weft::observe
