// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Input and output where a container's seccomp filter refuses system calls that they are made of.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "weft/base/deadline.h"
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

void StartTwoWorkers() {
  fiber::Options options;
  options.concurrency_hint = 2;
  fiber::StartRuntime(options);
}

template <class F>
void InAFiber(F&& f) {
  Fiber(std::forward<F>(f)).Join();
}

class RefusedSystemCallDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!testing::CanForbidSystemCalls()) GTEST_SKIP() << "no seccomp";
  }
};

// WaitFd() said POLLIN of everything, 2.3 million times a second, and Accept() did not end.
TEST_F(RefusedSystemCallDeathTest, WhereThereIsNoReactorAWaitSaysSoAndDoesNotTakeEverythingForAFile) {
  for (const long call : {SYS_timerfd_create, SYS_epoll_create1}) {
    EXPECT_EXIT(
        {
          REQUIRE(ForbidSystemCall(call, EPERM));
          StartTwoWorkers();
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
        StartTwoWorkers();
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
