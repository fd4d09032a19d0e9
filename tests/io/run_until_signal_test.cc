// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// In forked children, which may get signals.

#include "weft/io/run_until_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

template <class F>
int InChild(F&& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(RunUntilSignal, ReturnsTheSignalThatCameWhileTheRuntimeRan) {
  for (const int expected : {SIGTERM, SIGINT}) {
    EXPECT_EQ(InChild([expected] {
                const int signal = RunUntilSignal([expected] {
                  StartRuntime();
                  Fiber([expected] { ::kill(::getpid(), expected); }).Join();
                  return true;
                });
                TerminateRuntime();
                return signal == expected ? 0 : 1;
              }),
              0);
  }
}

TEST(RunUntilSignal, ASecondSignalDoesNotEndTheProcess) {
  EXPECT_EQ(InChild([] {
              const int signal = RunUntilSignal([] { return ::kill(::getpid(), SIGTERM) == 0; });
              ::kill(::getpid(), SIGTERM);
              ::kill(::getpid(), SIGINT);
              std::thread([] { ::kill(::getpid(), SIGTERM); }).join();
              return signal == SIGTERM ? 0 : 1;
            }),
            0);
}

TEST(RunUntilSignal, ReturnsAtItsDeadlineWhateverOtherSignalsCome) {
  EXPECT_EQ(InChild([] {
              struct sigaction action {};
              action.sa_handler = [](int) {};
              ::sigaction(SIGUSR1, &action, nullptr);
              const auto begin = std::chrono::steady_clock::now();
              const pthread_t self = ::pthread_self();
              const int signal = RunUntilSignal(
                  [self] {
                    std::thread([self] { ::pthread_kill(self, SIGUSR1); }).join();
                    return true;
                  },
                  30ms);
              return signal == 0 && std::chrono::steady_clock::now() - begin >= 30ms ? 0 : 1;
            }),
            0);
}

TEST(RunUntilSignal, WhatDoesNotStartIsNotWaitedFor) {
  EXPECT_EQ(InChild([] { return RunUntilSignal([] { return false; }) == -1 ? 0 : 1; }), 0);
}

bool IsBlocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(RunUntilSignal, WhatDoesNotStartLeavesTheMaskAsItWas) {
  EXPECT_EQ(InChild([] {
              sigset_t interrupt;
              sigemptyset(&interrupt);
              sigaddset(&interrupt, SIGINT);
              pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
              if (RunUntilSignal([] { return !IsBlocked(SIGTERM); }) != -1) return 1;
              if (IsBlocked(SIGTERM) || !IsBlocked(SIGINT)) return 2;
              try {
                RunUntilSignal([]() -> bool { throw std::runtime_error("as asked"); });
                return 3;
              } catch (const std::runtime_error&) {
              }
              return !IsBlocked(SIGTERM) && IsBlocked(SIGINT) ? 0 : 4;
            }),
            0);
}

TEST(RunUntilSignal, AfterUnblockingASecondSignalEndsTheProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);  // A shell without job control starts what is in its background with SIGINT ignored.
    const int first = RunUntilSignal([] { return ::kill(::getpid(), SIGTERM) == 0; });
    if (first != SIGTERM) ::_exit(1);
    ::kill(::getpid(), SIGINT);
    UnblockEndSignals();
    ::_exit(2);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

}  // namespace
}  // namespace weft::io
