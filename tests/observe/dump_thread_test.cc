// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a process that dies says of its fibers, and that it dies, whatever becomes of the dump. Each dies in a child.

#include "weft/observe/dump/dump_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "weft/base/report/build_mode.h"
#include "weft/base/report/check.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"

namespace weft::observe {
namespace {

std::function<void()> in_dump;  // Called by a dump when it reads memory.

}  // namespace
}  // namespace weft::observe

// Instead of libc's: a dump reads by it.
extern "C" ssize_t process_vm_readv(pid_t process, const iovec* to, unsigned long to_size, const iovec* from,
                                    unsigned long from_size, unsigned long flags) {
  if (weft::observe::in_dump != nullptr) weft::observe::in_dump();
  return ::syscall(SYS_process_vm_readv, process, to, to_size, from, from_size, flags);
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

TEST(DumpThreadDeathTest, AForkedChildDiesWithoutTheDumpOfItsParent) {
  fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  EXPECT_DEATH(WEFT_FATAL("no way on"), "^[^\n]*no way on[^\n]*\n$");
}

}  // namespace
}  // namespace weft::observe
