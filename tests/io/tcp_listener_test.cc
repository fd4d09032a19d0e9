// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/sync/cancel_scope.h"
#include "weft/tests/base/temporary_folder.h"
#include "weft/tests/io/io_fixture.h"
#include "weft/tests/io/late_handshake.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class TcpListenerTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(TcpListenerTest);

// While it lives the process gets no further descriptor.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    const std::set<int> open = OpenDescriptors();
    rlim_t free = 0;
    while (open.contains(static_cast<int>(free))) ++free;
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) std::abort();
    const rlimit none{.rlim_cur = free, .rlim_max = before_.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) std::abort();
  }
  ~NoMoreDescriptors() { End(); }
  void End() {
    if (::setrlimit(RLIMIT_NOFILE, &before_) != 0) std::abort();
  }

 private:
  rlimit before_;
};

double ProcessCpuSeconds() {
  timespec used;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

TEST_P(TcpListenerTest, EachConnectionIsAcceptedOnce) {
  for (const bool in_fiber : {true, false}) {
    constexpr int kConnections = 64;
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    EXPECT_TRUE(listener.IsOpen());
    std::atomic<int> accepted{0};
    std::vector<Actor> acceptors;
    for (int i = 0; i < 4; ++i) {
      acceptors.emplace_back(in_fiber, [&] {
        for (TcpStream stream; !listener.Accept(&stream);) {
          char byte;
          EXPECT_EQ(stream.ReadAll(&byte, 1, Soon()).bytes, 1u);
          ++accepted;
          stream.Close();
        }
      });
    }
    {
      std::vector<Fiber> clients;
      for (int i = 0; i < kConnections; ++i) {
        clients.emplace_back([&] {
          TcpStream stream;
          EXPECT_FALSE(stream.Connect(listener.local_address(), Soon()));
          EXPECT_TRUE(stream.WriteAll("x").ok());
          char byte;
          const IoResult end = stream.ReadSome(&byte, 1, Soon());
          EXPECT_TRUE(end.ok()) << end.error.message();
          EXPECT_EQ(end.bytes, 0u);
        });
      }
      for (Fiber& client : clients) client.Join();
    }
    EXPECT_EQ(accepted, kConnections);
    EXPECT_TRUE(listener.Close());
    for (Actor& acceptor : acceptors) acceptor.Join();
    EXPECT_FALSE(listener.Close());
    EXPECT_FALSE(listener.IsOpen());
  }
}

TEST_P(TcpListenerTest, AcceptGivesUpAtItsDeadline) {
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(OwnLoopback()));
  InFiberAndInThread([&] {
    TcpStream stream;
    const auto begin = Steady::now();
    EXPECT_EQ(listener.Accept(&stream, 5ms), std::errc::timed_out);
    EXPECT_GE(Steady::now() - begin, 5ms);
    EXPECT_FALSE(stream.IsOpen());
  });
}

TEST_P(TcpListenerTest, CloseEndsAccept) {
  for (const bool in_fiber : {true, false}) {
    for (int round = 0; round < 20; ++round) {
      TcpListener listener;
      ASSERT_FALSE(listener.Listen(round % 2 == 0 ? OwnLoopback() : UnixAddress()));
      std::atomic<bool> begun{false};
      Actor acceptor(in_fiber, [&] {
        TcpStream stream;
        begun = true;
        EXPECT_EQ(listener.Accept(&stream, Soon()), std::errc::operation_canceled);
      });
      ASSERT_TRUE(Reaches([&] { return begun.load(); }));
      EXPECT_TRUE(listener.Close());
      acceptor.Join();
    }
  }
}

TEST_P(TcpListenerTest, ListenSaysWhatIsWrong) {
  TcpListener first;
  ASSERT_FALSE(first.Listen(OwnLoopback()));
  TcpListener second;
  EXPECT_EQ(second.Listen(first.local_address()), std::errc::address_in_use);
  EXPECT_FALSE(second.IsOpen());
  EXPECT_EQ(second.Listen(*SocketAddress::Parse("192.0.2.1:0")), std::errc::address_not_available);
  EXPECT_TRUE(second.Listen(SocketAddress()));
  const std::string path =
      std::filesystem::temp_directory_path() / ("weft_test_" + std::to_string(::getpid()) + ".listen");
  const SocketAddress unix_address = *SocketAddress::Parse("unix:" + path);
  ASSERT_FALSE(first.Listen(unix_address));
  EXPECT_EQ(second.Listen(unix_address), std::errc::address_in_use);
  EXPECT_EQ(first.local_address(), unix_address);
  ::unlink(path.c_str());
  TcpStream stream;
  EXPECT_EQ(second.Accept(&stream), std::errc::operation_canceled);
  EXPECT_FALSE(second.Close());
}

TEST_P(TcpListenerTest, SeveralListenersShareAPort) {
  TcpListener first;
  ASSERT_FALSE(first.Listen(OwnLoopback(), {.reuse_port = true}));
  TcpListener second;
  ASSERT_FALSE(second.Listen(first.local_address(), {.reuse_port = true}));
  TcpListener third;
  EXPECT_EQ(third.Listen(first.local_address()), std::errc::address_in_use);
  std::atomic<int> accepted{0};
  std::vector<Fiber> acceptors;
  for (TcpListener* listener : {&first, &second}) {
    acceptors.emplace_back([&, listener] {
      for (TcpStream stream; !listener->Accept(&stream);) ++accepted;
    });
  }
  for (int i = 0; i < 40; ++i) {
    TcpStream stream;
    ASSERT_FALSE(stream.Connect(first.local_address(), Soon()));
  }
  EXPECT_TRUE(Reaches([&] { return accepted == 40; })) << accepted;
  first.Close();
  second.Close();
  for (Fiber& acceptor : acceptors) acceptor.Join();
}

TEST_P(TcpListenerTest, OutOfDescriptorsConnectionsWait) {
  if (WEFT_ASAN) GTEST_SKIP() << "UndefinedBehaviorSanitizer needs a pipe to look at objects, and can open none";
  for (const bool in_fiber : {true, false}) {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    TcpStream client;
    ASSERT_FALSE(client.Connect(listener.local_address(), Soon()));
    TcpStream server;
    std::atomic<bool> gave_up{false};
    NoMoreDescriptors none;
    Actor acceptor(in_fiber, [&] {
      EXPECT_EQ(listener.Accept(&server, 300ms), std::errc::timed_out);
      gave_up = true;
      EXPECT_FALSE(listener.Accept(&server, Soon()));
    });
    const double cpu_before = ProcessCpuSeconds();
    EXPECT_TRUE(Reaches([&] { return gave_up.load(); }));
    // It tries at most each 50 ms in the end, it does not go round and round.
    EXPECT_LT(ProcessCpuSeconds() - cpu_before, 0.2);
    none.End();
    acceptor.Join();
    EXPECT_TRUE(client.WriteAll("x").ok());
    char byte;
    EXPECT_EQ(server.ReadAll(&byte, 1, Soon()).bytes, 1u);
  }
}

TEST_P(TcpListenerTest, CloseEndsAcceptThatIsOutOfDescriptors) {
  if (WEFT_ASAN) GTEST_SKIP() << "UndefinedBehaviorSanitizer needs a pipe to look at objects, and can open none";
  for (const bool in_fiber : {true, false}) {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    TcpStream client;
    ASSERT_FALSE(client.Connect(listener.local_address(), Soon()));
    std::atomic<int> given_up{0};
    const NoMoreDescriptors none;
    std::vector<Actor> acceptors;
    for (int i = 0; i < 3; ++i) {
      acceptors.emplace_back(in_fiber, [&] {
        TcpStream server;
        EXPECT_EQ(listener.Accept(&server, 10ms), std::errc::timed_out);
        ++given_up;
        EXPECT_EQ(listener.Accept(&server, Soon()), std::errc::operation_canceled);
      });
    }
    EXPECT_TRUE(Reaches([&] { return given_up == 3; }));
    EXPECT_TRUE(listener.Close());
    for (Actor& acceptor : acceptors) acceptor.Join();
  }
}

// Both throw nothing.
void ExpectTwoCancelledAccepts(TcpListener& listener) {
  EXPECT_TRUE(CancelScope(5ms).Run([&] {
    TcpStream server;
    EXPECT_EQ(listener.Accept(&server, Soon()), std::errc::operation_canceled);
    EXPECT_EQ(listener.Accept(&server, Soon()), std::errc::operation_canceled);
  }));
}

TEST_P(TcpListenerTest, ACancelledAcceptIsAnError) {
  Fiber([] {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    ExpectTwoCancelledAccepts(listener);
  }).Join();
}

TEST_P(TcpListenerTest, ACancelledAcceptIsAnErrorAlsoOutOfDescriptors) {
  if (WEFT_ASAN) GTEST_SKIP() << "UndefinedBehaviorSanitizer needs a pipe to look at objects, and can open none";
  Fiber([] {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    TcpStream client;
    ASSERT_FALSE(client.Connect(listener.local_address(), Soon()));
    const NoMoreDescriptors none;
    ExpectTwoCancelledAccepts(listener);
  }).Join();
}

TEST_P(TcpListenerTest, AConnectionThatIsGoneBeforeItWasAcceptedEndsNothing) {
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(OwnLoopback()));
  for (int i = 0; i < 5; ++i) {
    TcpStream gone;
    ASSERT_FALSE(gone.Connect(listener.local_address(), Soon()));
    gone.Reset();
  }
  TcpStream client;
  ASSERT_FALSE(client.Connect(listener.local_address(), Soon()));
  EXPECT_TRUE(client.WriteAll("x").ok());
  InFiber([&] {
    for (;;) {
      TcpStream server;
      const std::error_code error = listener.Accept(&server, Soon());
      EXPECT_FALSE(error) << error.message();
      char byte;
      if (error || server.ReadAll(&byte, 1, Soon()).bytes == 1) return;
    }
  });
}

// A listening socket of somebody else's.
int Socket(int family, int type) { return ::socket(family, type | SOCK_CLOEXEC, 0); }

TEST_P(TcpListenerTest, AdoptedListenersAccept) {
  for (const SocketAddress& address : {OwnLoopback(), UnixAddress()}) {
    const int fd = Socket(address.family(), SOCK_STREAM);  // It blocks.
    ASSERT_EQ(::bind(fd, address.data(), address.size()), 0);
    ASSERT_EQ(::listen(fd, 10), 0);
    TcpListener listener;
    ASSERT_FALSE(listener.Adopt(fd));
    EXPECT_EQ(listener.fd(), fd);
    ASSERT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    InFiberAndInThread([&] {
      TcpStream client, server;
      EXPECT_EQ(listener.Accept(&server, 1ms), std::errc::timed_out);
      ASSERT_FALSE(client.Connect(listener.local_address(), Soon()));
      ASSERT_FALSE(listener.Accept(&server, Soon()));
      EXPECT_TRUE(client.WriteAll("x").ok());
      char byte;
      EXPECT_EQ(server.ReadAll(&byte, 1, Soon()).bytes, 1u);
      int no_delay = 0;
      socklen_t size = sizeof(no_delay);
      if (address.is_unix()) return;
      EXPECT_EQ(::getsockopt(server.fd(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
      EXPECT_NE(no_delay, 0);
    });
    EXPECT_TRUE(listener.Close());
    EXPECT_EQ(::close(fd), -1);  // It was the listener's.
  }
}

TEST_P(TcpListenerTest, TwoListenersOnOneSocketAccept) {
  TcpListener first, second;
  ASSERT_FALSE(first.Listen(OwnLoopback()));
  ASSERT_FALSE(second.Adopt(::dup(first.fd())));
  TcpStream client, server;
  ASSERT_FALSE(client.Connect(first.local_address(), Soon()));
  EXPECT_TRUE(first.Close());
  // What has come for the first is there for the second.
  EXPECT_FALSE(second.Accept(&server, Soon()));
}

// A server could not take the last connections and close its listener: one that came between the two was reset.
TEST_P(TcpListenerTest, NoConnectionComesBetweenTheLastAcceptAndClose) {
  for (const char* const address : {"127.0.0.1:0", "[::1]:0"}) {
    TcpListener listener;
    const std::error_code error = listener.Listen(*SocketAddress::Parse(address));
    if (error == std::errc::address_not_available) continue;  // A machine without IPv6.
    ASSERT_FALSE(error) << error.message();
    TcpStream before, server;
    ASSERT_FALSE(before.Connect(listener.local_address(), Soon()));
    ASSERT_FALSE(listener.StopHandshakes());
    const Descriptor after = Connecting(listener.local_address());
    EXPECT_FALSE(listener.Accept(&server, Soon()));
    EXPECT_EQ(server.peer_address(), before.local_address());
    EXPECT_TRUE(before.WriteAll("x").ok());
    char byte;
    EXPECT_EQ(server.ReadAll(&byte, 1, Soon()).bytes, 1u);
    EXPECT_EQ(listener.Accept(&server, 0ms), std::errc::timed_out);
    // Others who have the socket, which we do not know of, get connections again.
    TcpListener other;
    ASSERT_FALSE(other.Adopt(::dup(listener.fd())));
    EXPECT_TRUE(listener.Close());
    EXPECT_FALSE(listener.Close());
    TcpStream client;
    EXPECT_FALSE(client.Connect(other.local_address(), Soon()));
    EXPECT_FALSE(other.Accept(&server, Soon()));
  }
}

TEST_P(TcpListenerTest, TheFilterGoesWithoutADescriptorToSpareToo) {
  TcpListener listener, other;
  ASSERT_FALSE(listener.Listen(OwnLoopback()));
  ASSERT_FALSE(listener.StopHandshakes());
  ASSERT_FALSE(other.Adopt(::dup(listener.fd())));
  {
    const NoMoreDescriptors none;
    EXPECT_TRUE(listener.Close());
  }
  TcpStream client, server;
  EXPECT_FALSE(client.Connect(other.local_address(), Soon()));
  EXPECT_FALSE(other.Accept(&server, Soon()));
}

class TcpListenerHandshakeTest : public IoTest {};
WEFT_INSTANTIATE_ONE_IO_SHAPE(TcpListenerHandshakeTest);

TEST_P(TcpListenerHandshakeTest, AHandshakeThatHasBegunGoesOnWhenNoFurtherOneBegins) {
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(OwnLoopback()));
  LateHandshake late(listener.local_address());
  ASSERT_FALSE(listener.StopHandshakes());
  static_cast<void>(late.GoOn());
  TcpStream server;
  ASSERT_FALSE(listener.Accept(&server, Soon()));
  socklen_t instructions = 0;
  EXPECT_EQ(::getsockopt(server.fd(), SOL_SOCKET, SO_GET_FILTER, nullptr, &instructions), 0);
  EXPECT_EQ(instructions, 0u) << "the connection has the listener's filter";
}

TEST_P(TcpListenerTest, ASocketThatOthersMayHaveGoesOnWithHandshakes) {
  const auto goes_on = [](TcpListener& listener) {
    EXPECT_EQ(listener.StopHandshakes(), std::errc::operation_not_supported);
    TcpStream client, server;
    EXPECT_FALSE(client.Connect(listener.local_address(), Soon()));
    EXPECT_FALSE(listener.Accept(&server, Soon()));
  };
  TcpListener first, adopted, passed_on, kept_by_exec, local;
  ASSERT_FALSE(first.Listen(OwnLoopback()));
  ASSERT_FALSE(adopted.Adopt(::dup(first.fd())));
  goes_on(adopted);
  ASSERT_FALSE(passed_on.Listen(OwnLoopback(), {.shared = true}));
  goes_on(passed_on);
  ASSERT_FALSE(kept_by_exec.Listen(OwnLoopback()));
  ASSERT_EQ(::fcntl(kept_by_exec.fd(), F_SETFD, 0), 0);
  goes_on(kept_by_exec);
  ASSERT_FALSE(local.Listen(UnixAddress()));
  goes_on(local);
  EXPECT_EQ(TcpListener().StopHandshakes(), std::errc::operation_canceled);
  // A pre-forking server's.
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  goes_on(first);
  ASSERT_FALSE(first.Listen(OwnLoopback()));
  EXPECT_FALSE(first.StopHandshakes());
}

TEST_P(TcpListenerTest, AdoptSaysWhatIsNoListener) {
  TcpListener listener;
  EXPECT_EQ(listener.Adopt(-1), std::errc::bad_file_descriptor);
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(listener.Adopt(file), std::errc::not_a_socket);
  const int datagrams = Socket(AF_INET, SOCK_DGRAM);
  EXPECT_EQ(listener.Adopt(datagrams), std::errc::wrong_protocol_type);
  const int silent = Socket(AF_INET, SOCK_STREAM);
  EXPECT_EQ(listener.Adopt(silent), std::errc::invalid_argument);
  const int multipath = ::socket(AF_INET, SOCK_STREAM, 262 /* IPPROTO_MPTCP */);
  if (multipath >= 0) {
    EXPECT_EQ(::listen(multipath, 1), 0);
    EXPECT_FALSE(TcpListener::CheckAdoptable(multipath));
    ::close(multipath);
  }
  const int messages = ::socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
  if (messages >= 0) {  // Where the kernel has it.
    EXPECT_EQ(::listen(messages, 1), 0);
    EXPECT_EQ(listener.Adopt(messages), std::errc::protocol_not_supported);
    ::close(messages);
  }
  EXPECT_FALSE(listener.IsOpen());
  EXPECT_EQ(::fcntl(silent, F_GETFL) & O_NONBLOCK, 0);
  for (const int fd : {file, datagrams, silent}) EXPECT_EQ(::close(fd), 0);
}

// A path for a Unix socket, in a folder of its own.
class SocketPath {
 public:
  const std::string& path() const { return path_; }
  SocketAddress address() const { return *SocketAddress::Parse("unix:" + path_); }
  bool exists() const { return std::filesystem::exists(std::filesystem::symlink_status(path_)); }
  bool is_served() const {
    TcpStream stream;
    return !stream.Connect(address(), Soon());
  }
  // Until it is closed nobody else has the lock of the folder.
  int Locked() const {
    const int fd = ::open(folder_.path().c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(::flock(fd, LOCK_EX), 0);
    return fd;
  }
  // A socket at the path, by other means than Weft's. `backlog` < 0: it does not listen.
  int Bound(int backlog) const {
    const int fd = Socket(AF_UNIX, SOCK_STREAM);
    EXPECT_EQ(::bind(fd, address().data(), address().size()), 0);
    if (backlog >= 0 && ::listen(fd, backlog) != 0) std::abort();
    return fd;
  }
  // As a process that was killed leaves it.
  void LeaveDead() const { ::close(Bound(1)); }

 private:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/socket";
};

TEST_P(TcpListenerTest, TheFileOfAUnixSocketGoesWithIt) {
  const SocketPath file;
  const SocketPath other;
  for (int round = 0; round < 2; ++round) {
    TcpListener closed;
    ASSERT_FALSE(closed.Listen(file.address()));
    TcpListener moved(std::move(closed));
    EXPECT_TRUE(file.is_served());
    EXPECT_TRUE(moved.Close());
    EXPECT_FALSE(file.exists());
    EXPECT_FALSE(moved.Close());
  }
  {
    TcpListener destroyed;
    ASSERT_FALSE(destroyed.Listen(file.address()));
  }
  EXPECT_FALSE(file.exists());
  TcpListener replaced;
  ASSERT_FALSE(replaced.Listen(file.address()));
  ASSERT_FALSE(replaced.Listen(other.address()));
  EXPECT_FALSE(file.exists());
  EXPECT_TRUE(other.is_served());
  TcpListener assigned;
  ASSERT_FALSE(assigned.Listen(file.address()));
  replaced = std::move(assigned);
  EXPECT_FALSE(other.exists());
  EXPECT_TRUE(file.is_served());
  replaced = TcpListener();
  EXPECT_FALSE(file.exists());
}

TEST_P(TcpListenerTest, ADeadUnixSocketIsTakenOver) {
  InFiberAndInThread([] {
    const SocketPath file;
    file.LeaveDead();
    EXPECT_FALSE(file.is_served());
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(file.address()));
    EXPECT_TRUE(file.is_served());
    EXPECT_TRUE(listener.Close());
    EXPECT_FALSE(file.exists());
  });
}

TEST_P(TcpListenerTest, WhatIsAtThePathOfAUnixSocketOtherwiseStays) {
  namespace fs = std::filesystem;
  const auto is_refused = [](const SocketPath& file) {
    TcpListener listener;
    return listener.Listen(file.address()) == std::errc::address_in_use && !listener.IsOpen() && file.exists();
  };
  const SocketPath live;
  TcpListener first;
  ASSERT_FALSE(first.Listen(live.address()));
  EXPECT_TRUE(is_refused(live));
  EXPECT_TRUE(live.is_served());

  const SocketPath full;
  const int one = full.Bound(0);
  const int waits = Socket(AF_UNIX, SOCK_STREAM);
  ASSERT_EQ(::connect(waits, full.address().data(), full.address().size()), 0);
  EXPECT_TRUE(is_refused(full));

  const SocketPath datagrams;
  const int other_kind = Socket(AF_UNIX, SOCK_DGRAM);
  ASSERT_EQ(::bind(other_kind, datagrams.address().data(), datagrams.address().size()), 0);
  EXPECT_TRUE(is_refused(datagrams));

  const SocketPath regular;
  ::close(::open(regular.path().c_str(), O_CREAT | O_CLOEXEC, 0600));
  EXPECT_TRUE(is_refused(regular));
  const SocketPath folder;
  fs::create_directory(folder.path());
  EXPECT_TRUE(is_refused(folder));
  const SocketPath dead;
  dead.LeaveDead();
  const SocketPath link;
  fs::create_symlink(dead.path(), link.path());
  EXPECT_TRUE(is_refused(link));
  EXPECT_TRUE(dead.exists());
  for (const int fd : {one, waits, other_kind}) ::close(fd);
}

TEST_P(TcpListenerTest, TheFileOfAnotherUnixSocketIsLeft) {
  const SocketPath file;
  TcpListener first;
  ASSERT_FALSE(first.Listen(file.address()));
  ASSERT_EQ(::unlink(file.path().c_str()), 0);
  const int other = file.Bound(1);
  first.Close();
  EXPECT_TRUE(file.is_served());
  ::close(other);
}

TEST_P(TcpListenerTest, AUnixSocketThatOthersMayHaveKeepsItsFile) {
  const SocketPath file;
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(file.address(), {.shared = true}));
  listener.Close();
  EXPECT_TRUE(file.exists());
  // A child's copy, and then its parent's, which cannot know whether the child serves.
  ASSERT_FALSE(listener.Listen(file.address()));
  const pid_t child = ::fork();
  if (child == 0) {
    listener.Close();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(file.is_served());
  listener.Close();
  EXPECT_TRUE(file.exists());
  // One that is passed to another program.
  ASSERT_FALSE(listener.Listen(file.address()));
  ASSERT_EQ(::fcntl(listener.fd(), F_SETFD, 0), 0);
  listener.Close();
  EXPECT_TRUE(file.exists());
  // A supervisor's.
  ASSERT_EQ(::unlink(file.path().c_str()), 0);
  const int fd = file.Bound(1);
  ASSERT_FALSE(listener.Adopt(fd));
  listener.Close();
  EXPECT_TRUE(file.exists());
}

// Between its bind() and its listen() it looks dead.
TEST_P(TcpListenerTest, AUnixSocketThatIsAboutToListenIsNotTakenOver) {
  for (const bool in_fiber : {true, false}) {
    const SocketPath file;
    const int directory = file.Locked();
    const int starting = file.Bound(-1);
    std::atomic<bool> ended{false};
    Actor second(in_fiber, [&] {
      TcpListener listener;
      EXPECT_EQ(listener.Listen(file.address()), std::errc::address_in_use);
      ended = true;
    });
    // Long enough for one that does not wait.
    std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(ended);
    EXPECT_EQ(::listen(starting, 1), 0);
    ::close(directory);
    second.Join();
    EXPECT_TRUE(file.is_served());
    ::close(starting);
  }
}

TEST_P(TcpListenerTest, WithoutTheLockADeadUnixSocketIsLeft) {
  InFiber([] {
    const SocketPath file;
    file.LeaveDead();
    const int directory = file.Locked();
    TcpListener listener;
    CancelScope scope;
    scope.Cancel();  // So that it does not wait for the lock.
    EXPECT_TRUE(scope.Run([&] { EXPECT_EQ(listener.Listen(file.address()), std::errc::address_in_use); }));
    EXPECT_TRUE(file.exists());
    ::close(directory);
    EXPECT_FALSE(listener.Listen(file.address()));
    // A path without a file needs no lock.
    listener.Close();
    const int again = file.Locked();
    EXPECT_TRUE(scope.Run([&] { EXPECT_FALSE(listener.Listen(file.address())); }));
    // Those who have the lock may have replaced the file before it was known.
    listener.Close();
    EXPECT_TRUE(file.exists());
    ::close(again);
    EXPECT_FALSE(listener.Listen(file.address()));
  });
}

TEST_P(TcpListenerTest, OfManyThatTakeADeadUnixSocketOverOneSucceeds) {
  for (int round = 0; round < Scaled(20); ++round) {
    const SocketPath file;
    file.LeaveDead();
    std::vector<TcpListener> listeners(4);
    std::atomic<int> succeeded{0};
    {
      std::vector<Actor> actors;
      for (TcpListener& listener : listeners) {
        actors.emplace_back(actors.size() % 2 == 0, [&] {
          const std::error_code error = listener.Listen(file.address());
          EXPECT_TRUE(!error || error == std::errc::address_in_use) << error.message();
          if (!error) ++succeeded;
        });
      }
    }
    EXPECT_EQ(succeeded, 1);
    EXPECT_TRUE(file.is_served());
  }
}

}  // namespace
}  // namespace weft::io
