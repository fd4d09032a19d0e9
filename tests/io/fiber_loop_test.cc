// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Input and output by fibers of a FiberLoop, without a runtime: the loop polls, and its descriptor tells of it.

#include "weft/fiber/fiber_loop.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <system_error>
#include <thread>

#include "weft/fiber/fiber.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/wait_fd.h"
#include "weft/tests/fiber/runtime_fixture.h"

#include "testing/patience.h"

namespace weft::io {
namespace {

bool IsReadable(int fd, int ms) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, ms) == 1;
}

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    out = ends[0];
    in = ends[1];
  }
  ~Pipe() {
    ::close(in);
    ::close(out);
  }
  void Write() const { ASSERT_EQ(::write(in, "x", 1), 1); }
  int in;
  int out;
};

TEST(FiberLoopIo, AFiberWaitsForADescriptorInRun) {
  FiberLoop loop;
  const Pipe pipe;
  bool done = false;
  loop.AddTask([&] {
    EXPECT_FALSE(WaitFd(pipe.out, POLLIN).error);
    done = true;
  });
  loop.RunReady();
  EXPECT_FALSE(done);
  std::thread writer([&] { pipe.Write(); });
  loop.Run();
  EXPECT_TRUE(done);
  writer.join();
}

TEST(FiberLoopIo, TheLoopsDescriptorTellsOfOthers) {
  FiberLoop loop({.longest_run = {}});
  const int fd = loop.NotifyFd();
  const Pipe pipe;
  loop.AddTask([&] {
    EXPECT_FALSE(WaitFd(pipe.out, POLLIN).error);
    char item;
    EXPECT_EQ(::read(pipe.out, &item, 1), 1);
    EXPECT_EQ(WaitFd(pipe.out, POLLIN, std::chrono::milliseconds(2)).error, std::errc::timed_out);
  });
  EXPECT_TRUE(loop.RunReady());
  EXPECT_FALSE(IsReadable(fd, 0));
  pipe.Write();
  EXPECT_TRUE(IsReadable(fd, 0));
  while (loop.RunReady()) ASSERT_TRUE(IsReadable(fd, 10'000));
  EXPECT_FALSE(IsReadable(fd, 0));
}

// A registration stays behind in the reactor of the loop, which does not run any more.
TEST(FiberLoopIo, ADescriptorThatALoopHasUsedWakesOthers) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  const Pipe pipe;
  FiberLoop loop;
  loop.AddTask([&] { EXPECT_FALSE(WaitFd(pipe.out, POLLIN).error); });
  loop.RunReady();
  pipe.Write();
  loop.Run();
  char item;
  ASSERT_EQ(::read(pipe.out, &item, 1), 1);
  const Deadline limit = std::chrono::seconds(20);
  Fiber fiber([&] { EXPECT_FALSE(WaitFd(pipe.out, POLLIN, limit).error); });
  Fiber([] {}).Join();  // There is one worker: `fiber` waits by now.
  pipe.Write();
  fiber.Join();
  EXPECT_FALSE(limit.expired()) << "it was not woken, but has looked once more at its deadline";
}

// The loop's own descriptor takes three.
TEST(FiberLoopIo, ALoopThatHasNoDescriptorLeftLooksAgainAndAgain) {
  if (WEFT_ASAN) GTEST_SKIP() << "UndefinedBehaviorSanitizer needs a pipe to look at objects, and can open none";
  FiberLoop loop;
  const Pipe pipe;
  bool done = false;
  loop.AddTask([&] {
    EXPECT_FALSE(WaitFd(pipe.out, POLLIN, std::chrono::seconds(20)).error);
    done = true;
  });
  loop.RunReady();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::error_code error;
  EXPECT_EQ(loop.NotifyFd(&error), -1);
  std::thread writer([&] {
    std::this_thread::yield();
    pipe.Write();
  });
  loop.Run();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(done);
  writer.join();
}

TEST(FiberLoopIo, AServerAndItsClientInOneLoop) {
  FiberLoop loop;
  std::string got;
  loop.AddTask([&] {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(*SocketAddress::Parse("127.0.0.1:0")));
    const SocketAddress address = listener.local_address();
    loop.AddTask([&got, address] {
      TcpStream client;
      ASSERT_FALSE(client.Connect(address, std::chrono::seconds(10)));
      ASSERT_FALSE(client.WriteAll("ping").error);
      char answer[4];
      ASSERT_FALSE(client.ReadAll(answer, std::chrono::seconds(10)).error);
      got.assign(answer, 4);
    });
    TcpStream stream;
    ASSERT_FALSE(listener.Accept(&stream, std::chrono::seconds(10)));
    char request[4];
    ASSERT_FALSE(stream.ReadAll(request, std::chrono::seconds(10)).error);
    ASSERT_FALSE(stream.WriteAll("pong").error);
  });
  loop.Run();
  EXPECT_EQ(got, "pong");
}

TEST(FiberLoopIo, ABlockingCallLeavesTheLoopFree) {
  FiberLoop loop;
  std::string order;
  std::promise<void> other;
  loop.AddTask([&] {
    FiberBlocking([&] { EXPECT_EQ(other.get_future().wait_for(testing::kSoon), std::future_status::ready); });
    order += "blocked ";
  });
  loop.AddTask([&] {
    order += "other ";
    other.set_value();
  });
  loop.Run();
  EXPECT_EQ(order, "other blocked ");
}

}  // namespace
}  // namespace weft::io
