// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Input and output where a container's seccomp filter refuses system calls that they are made of.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weft/base/deadline.h"
#include "weft/base/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/wait_fd.h"

#include "testing/forbid_system_call.h"

namespace weft::io {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ForbidSystemCall;

// In the child an expectation is this.
#define REQUIRE(condition)                                         \
  do {                                                             \
    if (!(condition)) {                                            \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      _exit(1);                                                    \
    }                                                              \
  } while (false)

std::atomic<int> lines_about_epoll{0};

void CountLinesAboutEpoll() {
  base::SetLogSink([](base::LogSeverity, const char*, int, std::string_view text) {
    if (text.find("the system refuses it") != text.npos && text.find("epoll is used") != text.npos) ++lines_about_epoll;
  });
}

void StartRuntimeWith(const char* engine) {
  fiber::Options options;
  options.concurrency_hint = 2;
  options.scheduling_group_size = 1;
  options.io_engine = engine;
  fiber::StartRuntime(options);
}

template <class F>
void InAFiber(F&& f, std::size_t group = 0) {
  Fiber({.scheduling_group = group, .scheduling_group_local = true}, std::forward<F>(f)).Join();
}

// A wait that ends in time, and one that ends with what it waits for.
void WaitForAPipe() {
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_NONBLOCK | O_CLOEXEC) == 0);
  REQUIRE(WaitFd(pipe[0], POLLIN, milliseconds(5)).error == std::errc::timed_out);
  Fiber writer([&] { REQUIRE(::write(pipe[1], "x", 1) == 1); });
  REQUIRE(WaitFd(pipe[0], POLLIN, seconds(30)).events == POLLIN);
  writer.Join();
  REQUIRE(!CloseFd(pipe[0]));
  REQUIRE(!CloseFd(pipe[1]));
}

void AcceptAConnection() {
  TcpListener listener;
  REQUIRE(!listener.Listen(SocketAddress::LoopbackIpv4(0)));
  TcpStream stream;
  REQUIRE(listener.Accept(&stream, milliseconds(5)) == std::errc::timed_out);
  Fiber client([&] {
    TcpStream connected;
    REQUIRE(!connected.Connect(listener.local_address(), seconds(30)));
  });
  REQUIRE(!listener.Accept(&stream, seconds(30)));
  client.Join();
}

class RefusedSystemCallDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!testing::CanForbidSystemCalls()) GTEST_SKIP() << "no seccomp";
  }
};

#ifdef WEFT_HAVE_LIBURING
// WaitFd() said POLLIN of everything, 2.3 million times a second, and Accept() did not end.
TEST_F(RefusedSystemCallDeathTest, WithoutIoUringItIsEpollAndOneLineSaysSo) {
  for (const long call : {SYS_io_uring_setup, SYS_io_uring_enter}) {
    for (const int error : {EPERM, ENOSYS}) {
      EXPECT_EXIT(
          {
            ::alarm(20);  // The end of a process that spins.
            REQUIRE(ForbidSystemCall(call, error));
            CountLinesAboutEpoll();
            StartRuntimeWith("io_uring");
            for (std::size_t group = 0; group < fiber::GetSchedulingGroupCount(); ++group) {
              InAFiber(WaitForAPipe, group);
              InAFiber(AcceptAConnection, group);
            }
            fiber::TerminateRuntime();
            REQUIRE(lines_about_epoll == 1);
            _exit(0);
          },
          ::testing::ExitedWithCode(0), "")
          << "call " << call << ", error " << error;
    }
  }
}
#endif

// What the engine needs besides.
TEST_F(RefusedSystemCallDeathTest, WhereThereIsNoReactorAWaitSaysSoAndDoesNotTakeEverythingForAFile) {
  for (const long call : {SYS_timerfd_create, SYS_epoll_create1}) {
    EXPECT_EXIT(
        {
          REQUIRE(ForbidSystemCall(call, EPERM));
          StartRuntimeWith("epoll");
          InAFiber([] {
            int pipe[2];
            REQUIRE(::pipe2(pipe, O_NONBLOCK | O_CLOEXEC) == 0);
            REQUIRE(WaitFd(pipe[0], POLLIN, seconds(30)).error == std::errc::function_not_supported);
            TcpListener listener;
            REQUIRE(!listener.Listen(SocketAddress::LoopbackIpv4(0)));
            TcpStream stream;
            REQUIRE(listener.Accept(&stream, seconds(30)) == std::errc::function_not_supported);
          });
          fiber::TerminateRuntime();
          _exit(0);
        },
        ::testing::ExitedWithCode(0), "")
        << "call " << call;
  }
}

TEST_F(RefusedSystemCallDeathTest, AnAcceptThatIsRefusedEachTimeEndsAtItsDeadline) {
  EXPECT_EXIT(
      {
        ::alarm(20);  // The end of a process that spins.
        REQUIRE(ForbidSystemCall(SYS_accept4, EPERM));
        StartRuntimeWith("epoll");
        InAFiber([] {
          TcpListener listener;
          REQUIRE(!listener.Listen(SocketAddress::LoopbackIpv4(0)));
          TcpStream stream;
          REQUIRE(listener.Accept(&stream, milliseconds(20)) == std::errc::timed_out);
        });
        fiber::TerminateRuntime();
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft::io
