// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a process that dies says of its fibers, and that it dies, whatever becomes of the dump. Each dies in a child.

#include "weft/observe/dump/dump_thread.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/base/report/check.h"
#include "weft/fiber/fiber.h"
#include "weft/observe/dump_on_signal.h"
#include "weft/observe/waits/thread_states.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"

#include "testing/patience.h"

namespace weft::observe {
namespace {

std::function<void()> in_dump;               // Called by a dump when it reads memory.
std::atomic<bool> reads_are_refused{false};  // As by a seccomp filter.
std::atomic<bool> a_thread_that_dies_waits{false};

}  // namespace
}  // namespace weft::observe

// Instead of libc's: a dump reads by it.
extern "C" ssize_t process_vm_readv(pid_t process, const iovec* to, unsigned long to_size, const iovec* from,
                                    unsigned long from_size, unsigned long flags) {
  if (weft::observe::in_dump != nullptr) weft::observe::in_dump();
  if (weft::observe::reads_are_refused) return errno = EPERM, -1;
  return ::syscall(SYS_process_vm_readv, process, to, to_size, from, from_size, flags);
}

// The same, for the pauses of a thread that waits for the dump of its death.
extern "C" int poll(pollfd* fds, nfds_t size, int timeout) {
  if (size == 0) weft::observe::a_thread_that_dies_waits = true;
  const timespec limit = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1'000'000L};
  return static_cast<int>(::syscall(SYS_ppoll, fds, size, timeout < 0 ? nullptr : &limit, nullptr, 0));
}

namespace weft::observe {
namespace {

// A fiber waits; another one calls `die`.
void DieBeside(const std::function<void()>& die, bool dump_on_crash = true) {
  RuntimeOptions options = fiber::OptionsOf({1, 1});
  options.dump_on_crash = dump_on_crash;
  fiber::RuntimeOf runtime(options);
  FiberEvent event;
  Fiber waiter({.name = "waiter"}, [&] { event.Wait(); });
  static_cast<void>(DumpUntil("name=waiter", ", parked: event"));
  Fiber({.name = "dying"}, die).Join();
  event.Set();
  waiter.Join();
}

void WriteToNowhere() {
  volatile int* nowhere = nullptr;
  asm("" : "+r"(nowhere));
  *nowhere = 1;
}

constexpr const char* kDump =
    "(.|\n)*weft: the process is about to die; its fibers:\nweft: 2 fibers: 1 parked, 0 ready, 0 new, 1 "
    "running\n(.|\n)*fiber 'waiter' .id [0-9]+., parked: event 0x";

// A sanitizer's handler of faults ends the process before ours is asked.
constexpr bool kFaultsAreOurs = WEFT_ASAN == 0 && WEFT_TSAN == 0;

TEST(DumpThreadDeathTest, AFailedCheckIsFollowedByTheFibers) {
  EXPECT_DEATH(DieBeside([] { WEFT_FATAL("no way on"); }), std::string("no way on") + kDump);
}

TEST(DumpThreadDeathTest, AnUncaughtExceptionIsFollowedByTheFibers) {
  EXPECT_DEATH(DieBeside([] { throw std::runtime_error("lost"); }), std::string("std::runtime_error: lost") + kDump);
  EXPECT_DEATH(DieBeside([] { std::thread([] { throw std::runtime_error("lost"); }).join(); }),
               std::string("terminate called after(.|\n)*lost") + kDump);
}

TEST(DumpThreadDeathTest, AnAbortOfTheProgramAndOfAThreadShowsTheFibers) {
  EXPECT_EXIT(DieBeside([] { std::abort(); }), ::testing::KilledBySignal(SIGABRT), kDump);
  EXPECT_EXIT(DieBeside([] {
                std::atomic<bool> never{false};
                std::thread([] { std::abort(); }).detach();
                while (!never) continue;
              }),
              ::testing::KilledBySignal(SIGABRT), kDump);
}

TEST(DumpThreadDeathTest, AFaultShowsTheFibersAndStaysTheCauseOfDeath) {
  if (!kFaultsAreOurs) GTEST_SKIP() << "the sanitizer handles faults";
  EXPECT_EXIT(DieBeside(&WriteToNowhere), ::testing::KilledBySignal(SIGSEGV),
              std::string("segmentation fault in fiber dying") + kDump);
}

// Its thread stands on the stack for signals.
TEST(DumpThreadDeathTest, TheFiberThatDiesOfASignalHasItsStack) {
  if (WEFT_TSAN) GTEST_SKIP() << "there are no stacks of running fibers";
  const std::string frames = "fiber 'dying' .id [0-9]+., running, in group 0\n(  0x[^\n]*\n)*  0x[^\n]*";
  EXPECT_EXIT(DieBeside([] { std::abort(); }), ::testing::KilledBySignal(SIGABRT), frames + "abort");
  if (kFaultsAreOurs) {
    EXPECT_EXIT(DieBeside(&WriteToNowhere), ::testing::KilledBySignal(SIGSEGV), frames + "WriteToNowhere");
  }
}

TEST(DumpThreadDeathTest, AnInstructionThatIsNoneAndASignalThatIsSentShowTheFibers) {
  if (!kFaultsAreOurs) GTEST_SKIP() << "the sanitizer handles faults";
#if defined(__x86_64__)  // On others it is a SIGTRAP, which belongs to debuggers.
  EXPECT_EXIT(DieBeside([] { __builtin_trap(); }), ::testing::KilledBySignal(SIGILL), kDump);
#endif
  EXPECT_EXIT(DieBeside([] { ::raise(SIGFPE); }), ::testing::KilledBySignal(SIGFPE), kDump);
}

TEST(DumpThreadDeathTest, GlogsMessageComesBeforeTheFibers) {
  EXPECT_DEATH(DieBeside([] {
                 FLAGS_logtostderr = true;
                 google::InitGoogleLogging("shop");
                 WEFT_FATAL("no way on");
               }),
               std::string("^F[^\n]*no way on") + kDump);
}

TEST(DumpThreadDeathTest, AProgramThatHandlesAbortItselfKeepsItAndHasTheDumpOfWhatWeftSees) {
  const auto with_handler = [](const std::function<void()>& die) {
    ::signal(SIGABRT, [](int) { ::_exit(7); });
    DieBeside(die);
  };
  EXPECT_EXIT(with_handler([] { WEFT_FATAL("no way on"); }), ::testing::ExitedWithCode(7), kDump);
  EXPECT_EXIT(with_handler([] { throw std::runtime_error("lost"); }), ::testing::ExitedWithCode(7), kDump);
}

TEST(DumpThreadDeathTest, WithoutTheOptionTheMessageIsAll) {
  EXPECT_DEATH(DieBeside([] { WEFT_FATAL("no way on"); }, /*dump_on_crash=*/false), "^[^\n]*no way on[^\n]*\n$");
}

TEST(DumpThreadDeathTest, ALockThatTheDyingThreadHoldsEndsTheDumpAndNotTheDeath) {
  EXPECT_DEATH(DieBeside([] {
                 static std::mutex mutex;
                 mutex.lock();
                 in_dump = [] { mutex.lock(); };
                 WEFT_FATAL("no way on");
               }),
               "no way on(.|\n)*about to die(.|\n)*weft: no more is known of the fibers");
}

TEST(DumpThreadDeathTest, AFaultInTheDumpEndsTheDumpAndIsNotTheCauseOfDeath) {
  if (!kFaultsAreOurs) GTEST_SKIP() << "the sanitizer handles faults";
  constexpr const char* kFailed = "about to die(.|\n)*weft: the dump ends here: it has failed itself\n";
  EXPECT_EXIT(DieBeside([] {
                in_dump = &WriteToNowhere;
                WEFT_FATAL("no way on");
              }),
              ::testing::KilledBySignal(SIGABRT), kFailed);
  EXPECT_EXIT(DieBeside([] {
                in_dump = [] { WEFT_FATAL("in the dump"); };
                WriteToNowhere();
              }),
              ::testing::KilledBySignal(SIGSEGV), kFailed);
}

TEST(DumpThreadDeathTest, AFaultInADumpForASignalIsNotTheCauseOfADeathBesideIt) {
  if (!kFaultsAreOurs) GTEST_SKIP() << "the sanitizer handles faults";
  EXPECT_EXIT(DieBeside([] {
                static std::atomic<bool> dumps{false};
                if (!DumpFibersOnSignal(SIGUSR2)) ::_exit(1);
                in_dump = [] {
                  dumps = true;
                  while (!a_thread_that_dies_waits) continue;
                  WriteToNowhere();
                };
                ::raise(SIGUSR2);
                while (!dumps) continue;
                WEFT_FATAL("no way on");
              }),
              ::testing::KilledBySignal(SIGABRT), "no way on(.|\n)*weft: the dump ends here: it has failed itself\n");
}

// Where the program handles SIGABRT, the message of libstdc++'s terminate handler comes after the dump, and finds no
// room either.
TEST(DumpThreadDeathTest, AStderrThatNobodyReadsDoesNotKeepTheProcessAlive) {
  const auto die = [] {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK) != 0) ::_exit(1);
    const std::array<char, 4096> some{};
    while (::write(ends[1], some.data(), some.size()) > 0) continue;
    ::fcntl(ends[1], F_SETFL, 0);
    ::dup2(ends[1], STDERR_FILENO);
    ::alarm(static_cast<unsigned>(testing::kSoon.count()));
    ::signal(SIGABRT, [](int) { ::_exit(7); });
    std::thread([] { throw std::runtime_error("lost"); }).join();
  };
  EXPECT_EXIT(DieBeside(die), ::testing::ExitedWithCode(7), "");
}

TEST(DumpThreadDeathTest, WithoutMemoryItDiesOfThat) {
  if (!kFaultsAreOurs) GTEST_SKIP() << "sanitizers need their address space";
  EXPECT_DEATH(DieBeside([] {
                 rlimit limit{};
                 ::getrlimit(RLIMIT_AS, &limit);
                 std::size_t pages = 0;
                 std::ifstream("/proc/self/statm") >> pages;
                 limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
                 ::setrlimit(RLIMIT_AS, &limit);
                 for (;;) {
                   auto* const taken = new char[64];
                   asm volatile("" : : "r"(taken));
                 }
               }),
               "about to die; its fibers:\n(.|\n)*memory");
}

TEST(DumpThread, FibersWhoseMemoryMayNotBeReadAreMissed) {
  if (WEFT_ASAN) GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors to look at a vptr";
  fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  Fiber([] {}).Join();
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  rlimit none = files;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);  // No /proc/self/mem.
  reads_are_refused = true;
  const std::string dump = DumpText({.stacks = false});
  reads_are_refused = false;
  ::setrlimit(RLIMIT_NOFILE, &files);
  EXPECT_TRUE(Has(dump, "\nfibers are missing: this process may read its memory neither by")) << dump;
  EXPECT_FALSE(Has(DumpText({.stacks = false}), "missing"));
}

std::ptrdiff_t CountDumpThreads() {
  const std::optional<std::vector<ThreadState>> threads = ReadThreads();
  if (!threads) return -1;
  return std::count_if(threads->begin(), threads->end(),
                       [](const ThreadState& thread) { return thread.name == "FiberDump"; });
}

// fork() under ThreadSanitizer, unshare(): a program may have to have one thread only.
TEST(DumpThread, EndsWithTheRuntime) {
  for (int i = 0; i < 2; ++i) {
    {
      const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
      for (const Deadline limit = testing::kSoon; CountDumpThreads() != 1 && !limit.expired();)
        std::this_thread::yield();
      EXPECT_EQ(CountDumpThreads(), 1) << "it has no name yet?";
    }
    // /proc shows a thread that has been joined a little longer.
    for (const Deadline limit = testing::kSoon; CountDumpThreads() != 0 && !limit.expired();) std::this_thread::yield();
    EXPECT_EQ(CountDumpThreads(), 0);
  }
}

TEST(DumpThreadDeathTest, AForkedChildDiesWithoutTheDumpOfItsParent) {
  fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  EXPECT_DEATH(WEFT_FATAL("no way on"), "^[^\n]*no way on[^\n]*\n$");
}

}  // namespace
}  // namespace weft::observe
