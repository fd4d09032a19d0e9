// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Input and output where a container's seccomp filter refuses system calls that they are made of.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/build_mode.h"
#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/io/run_until_signal.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/wait_fd.h"

#include "testing/forbid_system_call.h"

namespace {

std::atomic<int> accepts_to_fail{0};

}  // namespace

// That of this program: it fails as often as it is told to, in a way that nobody expects.
int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  if (accepts_to_fail > 0) {
    --accepts_to_fail;
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, fd, address, size, flags));
}

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
  RuntimeOptions options;
  options.concurrency_hint = 2;
  StartRuntime(options);
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
          TerminateRuntime();
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
        TerminateRuntime();
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

std::chrono::nanoseconds CpuTimeOfThisProcess() {
  timespec time{};
  REQUIRE(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0);
  return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The end of a process that spins.
void EndAfterCpuTime(seconds limit) {
  const auto end = static_cast<rlim_t>((std::chrono::ceil<seconds>(CpuTimeOfThisProcess()) + limit).count());
  const rlimit both{.rlim_cur = end, .rlim_max = end};
  REQUIRE(::setrlimit(RLIMIT_CPU, &both) == 0);
}

// A server whose accept4() fails each time with this error: it takes little CPU time, says so at most once a second,
// and can be stopped. Exits with 0.
void ServeInVain(int error, bool is_expected) {
  EndAfterCpuTime(seconds(3));
  ::alarm(30);  // The end of one that cannot be stopped.
  REQUIRE(ForbidSystemCall(SYS_accept4, error));
  static std::atomic<int> lines{0};
  base::SetLogSink([](base::LogSeverity, const char*, int, std::string_view text) {
    if (text.find("cannot accept") != std::string_view::npos) ++lines;
  });
  StartTwoWorkers();
  {
    TcpListener listener;
    REQUIRE(!listener.Listen(SocketAddress::LoopbackIpv4(0)));
    TcpServer server(std::move(listener), [](TcpStream&) {});
    const auto begin = std::chrono::steady_clock::now();
    const std::chrono::nanoseconds used = CpuTimeOfThisProcess();
    REQUIRE(server.Start());
    std::this_thread::sleep_for(seconds(1));  // That is the time in which they are counted.
    REQUIRE(2 * (CpuTimeOfThisProcess() - used) < std::chrono::steady_clock::now() - begin);
    server.Stop(seconds(10));
    const int said = lines;
    const auto took = std::chrono::floor<seconds>(std::chrono::steady_clock::now() - begin);
    REQUIRE(said >= (is_expected ? 0 : 1) && said <= 1 + took.count());
    REQUIRE(server.counts().accepted == 0);
  }
  TerminateRuntime();
  _exit(0);
}

TEST_F(RefusedSystemCallDeathTest, AServerThatMayNotAcceptPausesSaysSoSeldomAndStops) {
  EXPECT_EXIT(ServeInVain(EPERM, /*is_expected=*/true), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ServeInVain(ENOSYS, /*is_expected=*/false), ::testing::ExitedWithCode(0), "");
}

TEST(RefusedSystemCall, AServerGoesOnAfterAnErrorOfAcceptThatNobodyExpects) {
  accepts_to_fail = 2;
  StartTwoWorkers();
  {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(SocketAddress::LoopbackIpv4(0)));
    TcpServer server(std::move(listener), [](TcpStream& stream) { static_cast<void>(stream.WriteAll("x")); });
    ASSERT_TRUE(server.Start());
    for (int i = 0; i < 2; ++i) {  // A server that ends accepts what has come, and no more.
      TcpStream client;
      ASSERT_FALSE(client.Connect(server.local_address(), seconds(30)));
      char byte = 0;
      EXPECT_EQ(client.ReadSome(&byte, 1, seconds(30)).bytes, 1u);
    }
    EXPECT_EQ(accepts_to_fail, 0);
  }
  EXPECT_EQ(TerminateRuntime(), 0u);
}

// It spun at 100 %, whatever its deadline.
TEST_F(RefusedSystemCallDeathTest, AnEndSignalComesAlsoWhereSigtimedwaitIsRefused) {
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EXIT(
        {
          EndAfterCpuTime(seconds(1));
          const BlockedEndSignals blocked = BlockEndSignals();
          REQUIRE(ForbidSystemCall(SYS_rt_sigtimedwait, error));
          REQUIRE(WaitForEndSignal(milliseconds(20)) == 0);
          std::thread([] { ::kill(::getpid(), SIGINT); }).join();
          REQUIRE(WaitForEndSignal(seconds(30)) == SIGINT);
          std::thread([] { ::kill(::getpid(), SIGTERM); }).join();
          REQUIRE(WaitForEndSignal() == SIGTERM);
          UnblockEndSignals(blocked);
          _exit(0);
        },
        ::testing::ExitedWithCode(0), "^$")
        << "error " << error;
  }
}

TEST_F(RefusedSystemCallDeathTest, WhereNothingTellsOfAnEndSignalItEndsTheProcess) {
  EXPECT_EXIT(
      {
        EndAfterCpuTime(seconds(1));
        static_cast<void>(BlockEndSignals());
        REQUIRE(ForbidSystemCall(SYS_rt_sigtimedwait, EPERM));
        REQUIRE(ForbidSystemCall(SYS_signalfd4, EPERM));
        REQUIRE(WaitForEndSignal(milliseconds(20)) == 0);
        std::thread([] { ::kill(::getpid(), SIGTERM); }).detach();
        WaitForEndSignal();
      },
      ::testing::KilledBySignal(SIGTERM), "the system refuses both sigtimedwait\\(2\\), with error 1, and signalfd");
}

// hwloc asked again and again.
TEST_F(RefusedSystemCallDeathTest, TheRuntimeStartsWhereTheCpusOfTheProcessAreASecret) {
  if (WEFT_TSAN || WEFT_ASAN)
    GTEST_SKIP() << "a sanitizer's threads need pthread_getattr_np(3), which asks for the CPUs";
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EXIT(
        {
          EndAfterCpuTime(seconds(2));
          REQUIRE(ForbidSystemCall(SYS_sched_getaffinity, error));
          StartTwoWorkers();
          InAFiber([] {});
          TerminateRuntime();
          RuntimeOptions options;
          options.topology = "numa:2 core:2 pu:1";
          StartRuntime(options);
          InAFiber([] {});
          TerminateRuntime();
          _exit(0);
        },
        ::testing::ExitedWithCode(0), "the system refuses sched_getaffinity")
        << "error " << error;
  }
}

}  // namespace
}  // namespace weft::io
