// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/watch_report.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "weft/base/log_sink.h"

namespace weft::scheduling_group {
namespace {

TEST(WatchReport, AThreadThatRunsComputes) {
  const ThreadNow now = ParseThreadNow("running\n");
  EXPECT_EQ(now.text, "computes");
  EXPECT_FALSE(now.blocked);
  EXPECT_TRUE(now.may_be_signalled);
  EXPECT_EQ(AdviceTo(!now.blocked, now.blocked), "; a long computation needs FiberYield()");
}

// A poll would fail with EINTR, and a read from a socket that has a time-out.
TEST(WatchReport, WhatASignalWouldDisturbGetsNone) {
  for (const long call : {long{SYS_ppoll}, long{SYS_nanosleep}, long{SYS_read}, long{SYS_recvfrom}, 9999L}) {
    const ThreadNow now = ParseThreadNow(std::to_string(call) + " 0x3 0x7ffe 0x1 0x0 0x0 0x0 0x7ffd 0x7f12\n");
    EXPECT_TRUE(now.blocked) << call;
    EXPECT_FALSE(now.may_be_signalled) << call;
    EXPECT_EQ(AdviceTo(!now.blocked, now.blocked), "; a call that blocks belongs into FiberBlocking()");
  }
  EXPECT_EQ(ParseThreadNow("9999 0x3\n").text, "is blocked in system call 9999");
  const ThreadNow mutex = ParseThreadNow(std::to_string(SYS_futex) + " 0x7f00 0x80\n");
  EXPECT_NE(mutex.text.find("is blocked in futex()"), std::string::npos) << mutex.text;
  EXPECT_TRUE(mutex.may_be_signalled);
}

// sem_timedwait() fails with EINTR, whatever SA_RESTART says.
TEST(WatchReport, AFutexWithATimeOutGetsNoSignal) {
  const std::string wait = std::to_string(SYS_futex) + " 0x7fb634c7aea0 0x189 0x0 ";
  EXPECT_FALSE(ParseThreadNow(wait + "0x7fb634c7ae90 0x0 0xffffffff 0x7fb634c7ade0 0x7fb634d04f16\n").may_be_signalled);
  EXPECT_TRUE(ParseThreadNow(wait + "0x0 0x0 0xffffffff 0x7fb634c7ade0 0x7fb634d04f16\n").may_be_signalled);
}

TEST(WatchReport, WhereWorkersDoBothOrAreHiddenBothAreAdvised) {
  std::string text;
  base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view line) { text = line; });
  constexpr pid_t kNobody = 1 << 30;
  ReportStandstill({.group = 3,
                    .label = "3",
                    .ready = 2,
                    .lasts = std::chrono::seconds(1),
                    .workers = {{.index = 0, .thread = kNobody}}});
  base::SetLogSink({});
  EXPECT_NE(text.find("worker 0 (thread 1073741824) is hidden; a call that blocks belongs into FiberBlocking(), a long "
                      "computation needs FiberYield()"),
            std::string::npos)
      << text;
}

TEST(WatchReport, LateTimersHaveTheAdviceThatFitsTheirThread) {
  std::string text;
  base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view line) { text = line; });
  LateTimers trouble{.label = "3",
                     .timers = {.late = std::chrono::seconds(1), .thread = 42, .callback = "Refresh"},
                     .does = ParseThreadNow(std::to_string(SYS_read) + " 0x3\n")};
  ReportTrouble(trouble);
  EXPECT_NE(
      text.find(" are late: one has been due for 1000 ms, and the timer thread (thread 42) is blocked in read() in "
                "the callback Refresh; a callback of CreateFiberTimer() may not wait: "),
      std::string::npos)
      << text;
  trouble.does = ParseThreadNow("running\n");
  ReportTrouble(trouble);
  EXPECT_NE(text.find(" computes in the callback Refresh; a callback of CreateFiberTimer() must be short: "),
            std::string::npos)
      << text;
  trouble.timers.callback = {};
  ReportTrouble(trouble);
  EXPECT_NE(text.find(") gets no CPU, or has more timers than it can fire; leave CPU time to it"), std::string::npos)
      << text;
  base::SetLogSink({});
}

TEST(WatchReport, APageFaultIsNoCall) {
  EXPECT_EQ(ParseThreadNow("-1 0x7ffd 0x7f12\n").text, "waits for memory or a debugger");
}

TEST(WatchReport, OfWhatCannotBeReadNothingIsSaid) {
  EXPECT_EQ(ParseThreadNow("").text, "");
  EXPECT_FALSE(ParseThreadNow("").may_be_signalled);
  EXPECT_EQ(LookAtThread(1 << 30).text, "");
}

TEST(WatchReport, AThreadThatReadsIsSeenThere) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  std::atomic<pid_t> number{0};
  std::thread reader([&] {
    number = ::gettid();
    char byte;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  });
  while (number == 0) std::this_thread::yield();
  std::string text = LookAtThread(number).text;
  if (!text.empty()) {  // The kernel tells.
    while ((text = LookAtThread(number).text) != "is blocked in read()") std::this_thread::yield();
  }
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  reader.join();
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace weft::scheduling_group
