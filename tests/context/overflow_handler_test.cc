// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/overflow_handler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <thread>

#include "weft/context/stack/stack_memory.h"
#include "weft/context/stack/stack_pool.h"

#include "context/flow.h"

namespace weft::context {
namespace {

// Each test of the handler is a death test: it is installed in the child only.

// Sanitizers have a handler of their own, which is the former action: it reports and exits.
bool DiedBySegmentationFault(int status) {
#if WEFT_ASAN || WEFT_TSAN
  return WIFEXITED(status) && WEXITSTATUS(status) != 0;
#else
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
#endif
}

bool DescribeParser(OverflowInfo* info) {
  info->name = "parser";
  info->id = 42;
  return true;
}

WEFT_NOINLINE int Recurse(int depth) {
  volatile char frame[256];
  frame[0] = static_cast<char>(depth);
  const int result = depth < 0 ? 0 : Recurse(depth + 1);
  return result + frame[0];
}

struct Runner : Carrier {
  Context flow;
  int result = 0;
};

void RunOverflowOn(StackPool& pool) {
  Runner runner;
  runner.Init();
  MakeContext(&runner.flow, pool.Acquire(), pool.usable_size(), [](ThreadState* here) {
    auto* runner = static_cast<Runner*>(here);
    runner->result = Recurse(0);
    LeaveContext(&runner->flow, &runner->own, runner);
  });
  SwitchContext(&runner.own, &runner.flow, &runner);
}

class NoGuardRegions : public StackMemory {
 public:
  bool InstallGuards(std::span<const Range>) override { return false; }
};

void WriteWord(std::string_view word) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, word.data(), word.size());
}

void HandleAndExit(int, siginfo_t*, void*) {
  WriteWord("the former handler\n");
  _exit(3);
}

void InstallFormer(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
}

volatile int* volatile g_nowhere = nullptr;

TEST(OverflowHandlerDeathTest, NamesTheFiberItsStackAndWhereItWas) {
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        SetDescribeRunningFiber(DescribeParser);
        AlternateSignalStack signal_stack;
        StackPool pool({.stack_size = 64 * 1024});
        RunOverflowOn(pool);
      },
      DiedBySegmentationFault,
      "weft: stack overflow in fiber parser \\(id 42\\), stack size 65536 bytes, stack \\[0x[0-9a-f]+, 0x[0-9a-f]+\\), "
      "fault at 0x[0-9a-f]+\n.*\\[0x[0-9a-f]+\\]\n.*\\[0x[0-9a-f]+\\]\n");
}

TEST(OverflowHandlerDeathTest, SeesAGuardThatMprotectMade) {
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        AlternateSignalStack signal_stack;
        NoGuardRegions memory;
        StackPool pool({.stack_size = 32 * 1024, .memory = &memory});
        RunOverflowOn(pool);
      },
      DiedBySegmentationFault, "weft: stack overflow in a fiber, stack size 32768 bytes");
}

TEST(OverflowHandlerDeathTest, WorksOnAnyThreadWithAnAlternateStack) {
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        SetDescribeRunningFiber(DescribeParser);
        std::thread thread([] {
          AlternateSignalStack signal_stack;
          StackPool pool({});
          RunOverflowOn(pool);
        });
        thread.join();
      },
      DiedBySegmentationFault, "weft: stack overflow in fiber parser \\(id 42\\), stack size 131072 bytes");
}

TEST(OverflowHandlerDeathTest, AFiberWithoutANameIsReportedByItsId) {
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        SetDescribeRunningFiber([](OverflowInfo* info) {
          info->id = 18446744073709551615ULL;
          return true;
        });
        AlternateSignalStack signal_stack;
        StackPool pool({});
        RunOverflowOn(pool);
      },
      DiedBySegmentationFault, "overflow in fiber \\(unnamed\\) \\(id 18446744073709551615\\)");
}

TEST(OverflowHandlerDeathTest, TheFormerHandlerComesAfterTheReport) {
  EXPECT_EXIT(
      {
        InstallFormer(HandleAndExit);
        InstallOverflowHandler();
        AlternateSignalStack signal_stack;
        StackPool pool({});
        RunOverflowOn(pool);
      },
      ::testing::ExitedWithCode(3), "weft: stack overflow.*the former handler");
}

// As google::InstallFailureSignalHandler() after StartRuntime(): it replaced ours, and could not even run on the
// exhausted stack.
TEST(OverflowHandlerDeathTest, AHandlerThatWasInstalledLaterComesAfterTheReport) {
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        InstallFormer(HandleAndExit);
        CheckOverflowHandler();
        AlternateSignalStack signal_stack;
        StackPool pool({});
        RunOverflowOn(pool);
      },
      ::testing::ExitedWithCode(3), "weft: stack overflow.*the former handler");
}

struct sigaction g_replaced;
void HandleAndPassOn(int signal, siginfo_t* info, void* machine_context) {
  WriteWord("passes on\n");
  g_replaced.sa_sigaction(signal, info, machine_context);
}

// It calls the handler that it has replaced, which is ours, which calls it ...
TEST(OverflowHandlerDeathTest, AHandlerThatCallsOursIsNotCalledInARing) {
  EXPECT_EXIT(
      {
        InstallFormer(HandleAndExit);
        InstallOverflowHandler();
        sigaction(SIGSEGV, nullptr, &g_replaced);
        InstallFormer(HandleAndPassOn);
        CheckOverflowHandler();
        CheckOverflowHandler();
        AlternateSignalStack signal_stack;
        StackPool pool({});
        RunOverflowOn(pool);
      },
      ::testing::ExitedWithCode(3), "^weft: stack overflow[^~]*passes on\nthe former handler\n$");
}

TEST(OverflowHandlerDeathTest, ACheckBeforeItIsInstalledInstallsNothing) {
  EXPECT_EXIT(
      {
        CheckOverflowHandler();
        struct sigaction found = {};
        sigaction(SIGSEGV, nullptr, &found);
        CheckOverflowHandler();
        struct sigaction later = {};
        sigaction(SIGSEGV, nullptr, &later);
        _exit(found.sa_sigaction == later.sa_sigaction && found.sa_handler == later.sa_handler ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(OverflowHandlerDeathTest, AnyFaultOnAFibersStackNamesTheFiber) {
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        SetDescribeRunningFiber(DescribeParser);
        AlternateSignalStack signal_stack;
        StackPool pool({});
        Runner runner;
        runner.Init();
        MakeContext(&runner.flow, pool.Acquire(), pool.usable_size(), [](ThreadState*) { *g_nowhere = 1; });
        SwitchContext(&runner.own, &runner.flow, &runner);
      },
      DiedBySegmentationFault, "weft: segmentation fault in fiber parser \\(id 42\\).*fault at 0x0\n");
}

TEST(OverflowHandlerDeathTest, AWildPointerOntoAnothersGuardIsNoOverflow) {
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        SetDescribeRunningFiber(DescribeParser);
        AlternateSignalStack signal_stack;
        StackPool pool({});
        static volatile char* other = nullptr;
        other = static_cast<char*>(pool.Acquire()) - pool.usable_size() - 4096 - 1024;
        Runner runner;
        runner.Init();
        MakeContext(&runner.flow, pool.Acquire(), pool.usable_size(), [](ThreadState*) { *other = 1; });
        SwitchContext(&runner.own, &runner.flow, &runner);
      },
      DiedBySegmentationFault, "weft: segmentation fault in fiber parser.*on the guard of another fiber's stack");
}

TEST(OverflowHandlerDeathTest, AFaultElsewhereGoesToTheFormerHandler) {
  EXPECT_EXIT(
      {
        InstallFormer(HandleAndExit);
        InstallOverflowHandler();
        *g_nowhere = 1;
      },
      ::testing::ExitedWithCode(3), "^the former handler");
}

TEST(OverflowHandlerDeathTest, AFaultElsewhereIsSilentlyFatalByDefault) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "the sanitizer's handler is not silent";
#else
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        *g_nowhere = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "^$");
#endif
}

TEST(OverflowHandlerDeathTest, ASignalThatWasSentKillsToo) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "the sanitizer's handler takes it";
#else
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        kill(getpid(), SIGSEGV);
      },
      ::testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT(
      {
        InstallOverflowHandler();
        kill(getpid(), SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "^$");
#endif
}

TEST(OverflowHandlerDeathTest, ASignalThatWasIgnoredStaysIgnored) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "the sanitizer's handler takes it";
#else
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_IGN);
        InstallOverflowHandler();
        kill(getpid(), SIGSEGV);
        _exit(5);
      },
      ::testing::ExitedWithCode(5), "");
#endif
}

// --- What the program said when it installed its handler ---

// A handler that recovers by longjmp(), as garbage collectors and WebAssembly engines do.
sigjmp_buf g_recovery;
volatile int g_recovered = 0;

void Recover(int) { siglongjmp(g_recovery, 1); }

void RecoverFrom(int faults) {
  g_recovered = 0;
  volatile int left = faults;
  while (left != 0) {
    left = left - 1;
    // Without the mask: the handler finds what the kernel would give it, and leaves that behind.
    if (sigsetjmp(g_recovery, /*savemask=*/0) == 0) {
      *g_nowhere = 1;
    } else {
      g_recovered = g_recovered + 1;
    }
  }
}

void InstallRecovery(int flags) {
  struct sigaction action = {};
  action.sa_handler = Recover;
  action.sa_flags = flags;
  sigaction(SIGSEGV, &action, nullptr);
}

bool Ended(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

TEST(OverflowHandlerDeathTest, AHandlerWithNodeferRecoversFromEachFault) {
  EXPECT_EXIT(
      {
        InstallRecovery(SA_NODEFER);
        InstallOverflowHandler();
        RecoverFrom(5);
        std::thread([] { RecoverFrom(5); }).join();
        AlternateSignalStack signal_stack;
        RecoverFrom(5);
        _exit(g_recovered == 5 ? 0 : 1);
      },
      Ended, "^$");
}

TEST(OverflowHandlerDeathTest, WithoutNodeferTheSecondFaultKillsAsItDoesWithoutUs) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "the sanitizer has an opinion of its own";
#else
  EXPECT_EXIT(
      {
        InstallRecovery(0);
        InstallOverflowHandler();
        RecoverFrom(2);
      },
      testing::KilledBySignal(SIGSEGV), "^$");
#endif
}

// In a fiber, where an unhandled fault would give a line.
TEST(OverflowHandlerDeathTest, AFaultThatTheProgramHandlesPrintsNothing) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "a sanitizer's handler is taken for none of the program's";
#else
  EXPECT_EXIT(
      {
        InstallRecovery(SA_NODEFER);
        InstallOverflowHandler();
        SetDescribeRunningFiber(DescribeParser);
        AlternateSignalStack signal_stack;
        StackPool pool({});
        Runner runner;
        runner.Init();
        MakeContext(&runner.flow, pool.Acquire(), pool.usable_size(), [](ThreadState*) {
          RecoverFrom(5);
          _exit(g_recovered == 5 ? 0 : 1);
        });
        SwitchContext(&runner.own, &runner.flow, &runner);
      },
      Ended, "^$");
#endif
}

bool IsBlocked(int signal) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 1;
}

TEST(OverflowHandlerDeathTest, ItsMaskHoldsWhileItRunsAndNotAfterwards) {
  if (WEFT_TSAN) GTEST_SKIP() << "ThreadSanitizer calls the handler itself, with a mask of its own";
  EXPECT_EXIT(
      {
        struct sigaction action = {};
        action.sa_handler = [](int signal) {
          WriteWord(IsBlocked(SIGUSR1) && IsBlocked(signal) && !IsBlocked(SIGUSR2) ? "as it should be" : "wrong");
        };
        sigaddset(&action.sa_mask, SIGUSR1);
        sigaction(SIGSEGV, &action, nullptr);
        InstallOverflowHandler();
        raise(SIGSEGV);
        _exit(IsBlocked(SIGUSR1) || IsBlocked(SIGSEGV) ? 1 : 0);
      },
      Ended, "^as it should be$");
}

TEST(OverflowHandlerDeathTest, AHandlerThatIsResetRunsOnce) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "the sanitizer has an opinion of its own";
#else
  const auto install = [] {
    struct sigaction action = {};
    action.sa_handler = [](int) { WriteWord("once."); };
    action.sa_flags = static_cast<int>(static_cast<unsigned>(SA_RESETHAND));
    sigaction(SIGSEGV, &action, nullptr);
  };
  EXPECT_EXIT(
      {
        install();
        InstallOverflowHandler();
        raise(SIGSEGV);
        raise(SIGSEGV);
        _exit(0);
      },
      testing::KilledBySignal(SIGSEGV), "^once\\.$");
  EXPECT_EXIT(
      {
        install();
        InstallOverflowHandler();
        raise(SIGSEGV);
        install();
        CheckOverflowHandler();
        raise(SIGSEGV);
        _exit(0);
      },
      Ended, "^once\\.once\\.$");
#endif
}

TEST(OverflowHandlerDeathTest, TheSameHandlerMayBeInstalledAnewWithOtherFlags) {
  EXPECT_EXIT(
      {
        InstallRecovery(0);
        InstallOverflowHandler();
        InstallRecovery(SA_NODEFER);
        CheckOverflowHandler();
        RecoverFrom(5);
        _exit(g_recovered == 5 ? 0 : 1);
      },
      Ended, "^$");
}

TEST(AlternateSignalStack, PutsTheFormerOneBack) {
  stack_t before = {};
  sigaltstack(nullptr, &before);
  {
    AlternateSignalStack signal_stack;
    stack_t during = {};
    sigaltstack(nullptr, &during);
    EXPECT_EQ(during.ss_flags & SS_DISABLE, 0);
    EXPECT_GE(during.ss_size, 64u * 1024);
    EXPECT_NE(during.ss_sp, before.ss_sp);
  }
  stack_t after = {};
  sigaltstack(nullptr, &after);
  EXPECT_EQ(after.ss_sp, before.ss_sp);
  EXPECT_EQ(after.ss_flags, before.ss_flags);
}

}  // namespace
}  // namespace weft::context
