// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What each hooked call does, as its caller sees it.
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "weft/fiber/test_clock.h"
#include "weft/interop/hook.h"
#include "weft/io/fiber_blocking.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"

#include "interop/hook_fixture.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

// What _FORTIFY_SOURCE calls.
extern "C" {
ssize_t __read_chk(int fd, void* room, std::size_t size, std::size_t room_size);
ssize_t __recv_chk(int fd, void* room, std::size_t size, std::size_t room_size, int flags);
ssize_t __recvfrom_chk(int fd, void* room, std::size_t size, std::size_t room_size, int flags, sockaddr* from,
                       socklen_t* length);
int __poll_chk(pollfd* polled, nfds_t count, int time_out, std::size_t room);
}

namespace weft::interop {
namespace {

// ---- Bytes ----

class HookedBytes : public HookTest {
 protected:
  static constexpr std::size_t kMuch = 1 << 20;

  static std::vector<char> Numbered(std::size_t size) {
    std::vector<char> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
    return bytes;
  }

  // Two fibers: all that `write` sends, in one call, comes out of `read`, call by call.
  template <class Write, class Read>
  static void Transfers(const Ends& ends, Write write, Read read) {
    const std::vector<char> sent = Numbered(kMuch);
    std::vector<char> received;
    Fiber writer = HookedFiber([&] { EXPECT_EQ(write(ends.b, sent), static_cast<ssize_t>(kMuch)); });
    InHookedFiber([&] {
      std::array<char, 50'000> room;
      while (received.size() < kMuch) {
        const ssize_t some = read(ends.a, room.data(), room.size());
        ASSERT_GT(some, 0) << std::strerror(errno);
        received.insert(received.end(), room.data(), room.data() + some);
      }
    });
    writer.Join();
    EXPECT_TRUE(received == sent);
  }

  static std::array<iovec, 3> Parts(const std::vector<char>& bytes) {
    auto* const data = const_cast<char*>(bytes.data());
    return {iovec{data, 10}, iovec{data + 10, bytes.size() / 2},
            iovec{data + 10 + bytes.size() / 2, bytes.size() - bytes.size() / 2 - 10}};
  }

  static ssize_t Write(int fd, const std::vector<char>& bytes) { return ::write(fd, bytes.data(), bytes.size()); }
  static ssize_t Writev(int fd, const std::vector<char>& bytes) {
    const auto parts = Parts(bytes);
    return ::writev(fd, parts.data(), static_cast<int>(parts.size()));
  }
  static ssize_t Sendmsg(int fd, const std::vector<char>& bytes) {
    auto parts = Parts(bytes);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return ::sendmsg(fd, &message, 0);
  }
  static ssize_t Read(int fd, char* room, std::size_t size) { return ::read(fd, room, size); }
  static ssize_t Readv(int fd, char* room, std::size_t size) {
    const std::array<iovec, 2> parts = {iovec{room, 7}, iovec{room + 7, size - 7}};
    return ::readv(fd, parts.data(), 2);
  }
};
WEFT_INSTANTIATE_HOOK_SHAPES(HookedBytes);

TEST_P(HookedBytes, ALargeWriteToASocketSendsAll) {
  Transfers(SocketPair(), &Write, &Read);
  Transfers(SocketPair(), &Writev, &Readv);
  Transfers(SocketPair(), &Sendmsg, [](int fd, char* room, std::size_t size) { return ::recv(fd, room, size, 0); });
  Transfers(
      SocketPair(),
      [](int fd, const std::vector<char>& bytes) { return ::sendto(fd, bytes.data(), bytes.size(), 0, nullptr, 0); },
      [](int fd, char* room, std::size_t size) { return __recv_chk(fd, room, size, size, 0); });
}

TEST_P(HookedBytes, ALargeWriteToAPipeWritesAll) {
  Transfers(PipeEnds(), &Write, &Read);
  Transfers(PipeEnds(), &Writev, &Readv);
  Transfers(PipeEnds(), &Write, [](int fd, char* room, std::size_t size) { return __read_chk(fd, room, size, size); });
}

TEST_P(HookedBytes, WaitallWaitsForAll) {
  Ends ends = SocketPair();
  const std::vector<char> sent = Numbered(kMuch);
  Fiber writer = HookedFiber([&] {
    for (std::size_t at = 0; at < kMuch; at += kMuch / 4) EXPECT_GT(::send(ends.b, &sent[at], kMuch / 4, 0), 0);
    ends.b.Close();
  });
  InHookedFiber([&] {
    std::vector<char> received(kMuch / 2);
    EXPECT_EQ(::recv(ends.a, received.data(), received.size(), MSG_WAITALL), static_cast<ssize_t>(received.size()));
    EXPECT_TRUE(std::equal(received.begin(), received.end(), sent.begin()));
    // The end comes before the room is full.
    received.resize(kMuch);
    EXPECT_EQ(::recv(ends.a, received.data(), received.size(), MSG_WAITALL), static_cast<ssize_t>(kMuch / 2));
    EXPECT_EQ(::recv(ends.a, received.data(), received.size(), MSG_WAITALL), 0);
  });
  writer.Join();
}

TEST_P(HookedBytes, DatagramsStayWhatTheyAre) {
  Ends ends = SocketPair(SOCK_DGRAM);
  InHookedFiber([&] {
    std::array<char, 16> room{};
    EXPECT_EQ(::send(ends.b, "ab", 2, 0), 2);
    EXPECT_EQ(::send(ends.b, "", 0, 0), 0);
    EXPECT_EQ(::send(ends.b, "cde", 3, 0), 3);
    EXPECT_EQ(::recv(ends.a, room.data(), room.size(), MSG_WAITALL), 2) << "one message";
    EXPECT_EQ(::read(ends.a, room.data(), room.size()), 0);
    sockaddr_storage from{};
    socklen_t length = sizeof(from);
    EXPECT_EQ(
        __recvfrom_chk(ends.a, room.data(), room.size(), room.size(), 0, reinterpret_cast<sockaddr*>(&from), &length),
        3);
  });
}

TEST_P(HookedBytes, AnAddressComesWithADatagramThatWasWaitedFor) {
  OpenFd receiver(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  OpenFd sender(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(receiver, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(receiver, reinterpret_cast<sockaddr*>(&address), &size), 0);
  WhileParked(
      "recvfrom",
      [&] {
        char byte = 0;
        sockaddr_in from{};
        socklen_t length = sizeof(from);
        EXPECT_EQ(::recvfrom(receiver, &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), &length), 1);
        EXPECT_EQ(length, sizeof(from));
        EXPECT_EQ(from.sin_family, AF_INET);
      },
      [&] { EXPECT_EQ(::sendto(sender, "x", 1, 0, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 1); });
  WhileParked(
      "recvmsg",
      [&] {
        char byte = 0;
        iovec part{&byte, 1};
        sockaddr_in from{};
        msghdr message{};
        message.msg_name = &from;
        message.msg_namelen = sizeof(from);
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        EXPECT_EQ(::recvmsg(receiver, &message, 0), 1);
        EXPECT_EQ(message.msg_namelen, sizeof(from));
        EXPECT_EQ(from.sin_family, AF_INET);
      },
      [&] { EXPECT_EQ(::sendto(sender, "x", 1, 0, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 1); });
}

TEST_P(HookedBytes, ErrorsAreTheKernels) {
  InHookedFiber([] {
    char byte = 0;
    EXPECT_EQ(::read(-1, &byte, 1), -1);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(::recv(-1, &byte, 1, 0), -1);
    EXPECT_EQ(errno, EBADF);
    Ends pipe = PipeEnds();
    EXPECT_EQ(::recv(pipe.a, &byte, 1, 0), -1);
    EXPECT_EQ(errno, ENOTSOCK);
    EXPECT_EQ(::read(pipe.b, &byte, 1), -1);
    EXPECT_EQ(errno, EBADF);
    pipe.b.Close();
    EXPECT_EQ(::read(pipe.a, &byte, 1), 0);
    EXPECT_EQ(::read(pipe.a, &byte, 0), 0);
    OpenFd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::read(zero, &byte, 1), 1);
  });
}

// ---- Connections ----

class HookedConnections : public HookTest {};
WEFT_INSTANTIATE_HOOK_SHAPES(HookedConnections);

TEST_P(HookedConnections, ConnectAndAcceptPark) {
  BlockingListener listener;
  Fiber server = HookedFiber([&] {
    OpenFd accepted(::accept(listener.fd, nullptr, nullptr));
    EXPECT_GE(accepted, 0);
    OpenFd another(::accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_GE(another, 0);
  });
  InHookedFiber([&] {
    for (int i = 0; i < 2; ++i) {
      OpenFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(client, listener.at(), sizeof(listener.address)), 0) << std::strerror(errno);
      EXPECT_EQ(::fcntl(client, F_GETFL) & O_NONBLOCK, 0) << "as it was";
    }
  });
  server.Join();
}

TEST_P(HookedConnections, ARefusedConnectionSaysSo) {
  sockaddr_in address;
  {
    BlockingListener listener;
    address = listener.address;
  }
  InHookedFiber([&] {
    OpenFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
  });
}

// A listener whose backlog is full answers no more.
TEST_P(HookedConnections, AConnectThatIsNotAnsweredEndsInTime) {
  BlockingListener listener(0);
  std::vector<OpenFd> filling;
  for (int i = 0; i < 4; ++i) {
    filling.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    static_cast<void>(::connect(filling.back(), listener.at(), sizeof(listener.address)));
  }
  OpenFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SetTimeOut(client, SO_SNDTIMEO, 2ms);
  InHookedFiber([&] {
    EXPECT_EQ(::connect(client, listener.at(), sizeof(listener.address)), -1);
    EXPECT_EQ(errno, EINPROGRESS);
  });
  CancelScope scope(1ms);
  InHookedFiber([&] {
    EXPECT_TRUE(scope.Run([&] {
      OpenFd another(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(another, listener.at(), sizeof(listener.address)), -1);
      EXPECT_EQ(errno, ECANCELED);
    }));
  });
}

TEST_P(HookedConnections, AUnixSocketWhoseBacklogIsFullIsWaitedFor) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static std::atomic<int> count{0};
  const int length =
      std::snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "weft_hook_%d_%d", ::getpid(), ++count);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  OpenFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener, at, size), 0);
  ASSERT_EQ(::listen(listener, 0), 0);
  OpenFd first(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(first, at, size), 0);
  WhileParked(
      "connect",
      [&] {
        OpenFd second(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        SetTimeOut(second, SO_SNDTIMEO, kSoon);
        EXPECT_EQ(::connect(second, at, size), 0) << std::strerror(errno);
      },
      [&] { OpenFd accepted(::accept(listener, nullptr, nullptr)); });
}

TEST_P(HookedConnections, FibersThatAcceptFromOneListenerDoNotBlockEachOther) {
  BlockingListener listener;
  std::atomic<int> accepted{0};
  std::vector<Fiber> servers;
  for (int i = 0; i < 4; ++i) {
    servers.push_back(HookedFiber([&] {
      OpenFd connection(::accept(listener.fd, nullptr, nullptr));
      EXPECT_GE(connection, 0);
      ++accepted;
    }));
  }
  for (int i = 1; i <= 4; ++i) {
    OpenFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(client, listener.at(), sizeof(listener.address)), 0);
    ASSERT_TRUE(Reaches([&] { return accepted == i; }));
  }
  for (Fiber& server : servers) server.Join();
}

// ---- poll, select, epoll ----

class HookedPolls : public HookTest {};
WEFT_INSTANTIATE_HOOK_SHAPES(HookedPolls);

TEST_P(HookedPolls, PollTellsWhichDescriptorIsReady) {
  Ends one = PipeEnds();
  Ends two = SocketPair();
  std::array<pollfd, 5> polled = {pollfd{one.a, POLLIN, 0}, pollfd{-1, POLLIN, 0}, pollfd{two.a, POLLIN, 0},
                                  pollfd{one.a, POLLPRI, 0}, pollfd{one.a, 0, 0}};  // one of them thrice
  WhileParked(
      "poll", [&] { EXPECT_EQ(__poll_chk(polled.data(), polled.size(), -1, sizeof(polled)), 1); },
      [&] { EXPECT_EQ(::send(two.b, "x", 1, 0), 1); });
  EXPECT_EQ(polled[0].revents, 0);
  EXPECT_EQ(polled[2].revents, POLLIN);
  EXPECT_EQ(polled[3].revents, 0);
  WhileParked(
      "poll", [&] { EXPECT_EQ(::poll(polled.data(), 1, -1), 1); }, [&] { EXPECT_EQ(::write(one.b, "x", 1), 1); });
  EXPECT_EQ(polled[0].revents, POLLIN);
  WhileParked(
      "ppoll", [&] { EXPECT_EQ(::ppoll(&polled[4], 1, nullptr, nullptr), 1); }, [&] { one.b.Close(); });
  EXPECT_EQ(polled[4].revents, POLLHUP);
}

TEST_P(HookedPolls, PollEndsInTime) {
  Ends ends = PipeEnds();
  InHookedFiber([&] {
    std::array<pollfd, 2> polled = {pollfd{ends.a, POLLIN, 0}, pollfd{ends.b, POLLIN, 0}};
    EXPECT_EQ(::poll(polled.data(), 1, 1), 0);
    EXPECT_EQ(::poll(polled.data(), 2, 1), 0);
    EXPECT_EQ(::poll(nullptr, 0, 1), 0);
    EXPECT_EQ(::poll(polled.data(), 2, 0), 0);
    const timespec time{.tv_sec = 0, .tv_nsec = 1'000'000};
    EXPECT_EQ(::ppoll(polled.data(), 2, &time, nullptr), 0);
    pollfd closed{.fd = 1'000'000, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&closed, 1, -1), 1);
    EXPECT_EQ(closed.revents, POLLNVAL);
    CancelScope scope(1ms);
    EXPECT_TRUE(scope.Run([&] {
      EXPECT_EQ(::poll(polled.data(), 2, -1), -1);
      EXPECT_EQ(errno, ECANCELED);
    }));
  });
}

TEST_P(HookedPolls, SelectTellsWhichDescriptorIsReady) {
  Ends one = PipeEnds();
  Ends two = SocketPair();
  const int count = std::max<int>(one.a, two.a) + 1;
  fd_set read;
  fd_set except;
  const auto fill = [&] {
    FD_ZERO(&read);
    FD_SET(one.a, &read);
    FD_SET(two.a, &read);
    except = read;
  };
  fill();
  timeval time{.tv_sec = 60, .tv_usec = 0};
  WhileParked(
      "select", [&] { EXPECT_EQ(::select(count, &read, nullptr, &except, &time), 1); },
      [&] { EXPECT_EQ(::send(two.b, "x", 1, 0), 1); });
  EXPECT_FALSE(FD_ISSET(one.a, &read));
  EXPECT_TRUE(FD_ISSET(two.a, &read));
  EXPECT_FALSE(FD_ISSET(two.a, &except));
  EXPECT_LT(time.tv_sec, 60);
  InHookedFiber([&] {
    fill();
    FD_CLR(two.a, &read);
    timeval short_time{.tv_sec = 0, .tv_usec = 1000};
    EXPECT_EQ(::select(count, &read, nullptr, nullptr, &short_time), 0);
    EXPECT_FALSE(FD_ISSET(one.a, &read));
    EXPECT_EQ(short_time.tv_sec + short_time.tv_usec, 0);
    const timespec left{.tv_sec = 0, .tv_nsec = 1'000'000};
    EXPECT_EQ(::pselect(0, nullptr, nullptr, nullptr, &left, nullptr), 0);
  });
}

TEST_P(HookedPolls, EpollWaits) {
  OpenFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Ends ends = SocketPair();
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 7}};
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, ends.a, &event), 0);
  WhileParked(
      "epoll_wait",
      [&] {
        epoll_event ready{};
        EXPECT_EQ(::epoll_wait(epoll, &ready, 1, -1), 1);
        const std::uint64_t data = ready.data.u64;  // Of a packed struct, to which nothing may refer.
        EXPECT_EQ(data, 7u);
      },
      [&] { EXPECT_EQ(::send(ends.b, "x", 1, 0), 1); });
  InHookedFiber([&] {
    char byte = 0;
    EXPECT_EQ(::recv(ends.a, &byte, 1, 0), 1);
    epoll_event ready{};
    EXPECT_EQ(::epoll_wait(epoll, &ready, 1, 1), 0);
    EXPECT_EQ(::epoll_pwait(epoll, &ready, 1, 1, nullptr), 0);
  });
}

// ---- Time and names ----

TEST(HookedSleeps, TakeFibersTime) {
  TestClock clock;
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  Fiber([&] {
    HookBlockingCalls hooked;
    const auto begin = clock.Now();
    EXPECT_EQ(::sleep(3600), 0u);
    EXPECT_EQ(clock.Now() - begin, 1h);
    EXPECT_EQ(::usleep(999'999), 0);
    const timespec hour{.tv_sec = 3600, .tv_nsec = 0};
    EXPECT_EQ(::nanosleep(&hour, nullptr), 0);
    EXPECT_EQ(::clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, nullptr), 0);
    EXPECT_EQ(::poll(nullptr, 0, 3'600'000), 0);
    EXPECT_EQ(clock.Now() - begin, 4h + 999'999us);
    timespec past{.tv_sec = 1, .tv_nsec = 0};
    EXPECT_EQ(::clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &past, nullptr), 0);
    const timespec wrong{.tv_sec = 0, .tv_nsec = 1'000'000'000};
    EXPECT_EQ(::nanosleep(&wrong, nullptr), -1);
    EXPECT_EQ(errno, EINVAL);
  }).Join();
}

TEST(HookedSleeps, ACancelledOneSaysWhatIsLeft) {
  TestClock clock;
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  Fiber([&] {
    HookBlockingCalls hooked;
    CancelScope scope(1h);
    EXPECT_TRUE(scope.Run([] {
      timespec left{};
      const timespec day{.tv_sec = 24 * 3600, .tv_nsec = 0};
      EXPECT_EQ(::nanosleep(&day, &left), -1);
      EXPECT_EQ(errno, ECANCELED);
      EXPECT_EQ(left.tv_sec, 23 * 3600);
      EXPECT_EQ(::sleep(10), 10u);
      EXPECT_EQ(::clock_nanosleep(CLOCK_MONOTONIC, 0, &day, nullptr), ECANCELED);
    }));
  }).Join();
}

class HookedNames : public HookTest {};
WEFT_INSTANTIATE_HOOK_SHAPES(HookedNames);

TEST_P(HookedNames, GetaddrinfoAnswers) {
  InHookedFiber([] {
    const std::uint64_t before = CountOf("getaddrinfo").waits;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    ASSERT_EQ(::getaddrinfo("127.0.0.1", "80", &hints, &found), 0);
    EXPECT_EQ(reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_port, htons(80));
    ::freeaddrinfo(found);
    EXPECT_EQ(CountOf("getaddrinfo").waits, before) << "it needs nobody's answer";
    ASSERT_EQ(::getaddrinfo("localhost", "80", &hints, &found), 0);
    EXPECT_EQ(found->ai_socktype, SOCK_STREAM);
    ::freeaddrinfo(found);
    EXPECT_EQ(CountOf("getaddrinfo").waits, before + 1);
    hints.ai_flags = AI_NUMERICHOST;
    EXPECT_EQ(::getaddrinfo("no address", nullptr, &hints, &found), EAI_NONAME);
  });
}

TEST(HookedNamesWithOneThread, ACancelledGetaddrinfoSaysSo) {
  RuntimeOptions options = fiber::OptionsOf(fiber::Shape{2, 1});
  options.blocking_threads = 1;
  const fiber::RuntimeOf runtime(options);
  FiberEvent may_end;
  FiberEvent has_begun;
  Fiber busy([&] {
    FiberBlocking([&] {
      has_begun.Set();
      may_end.Wait();
    });
  });
  Fiber([&] {
    HookBlockingCalls hooked;
    has_begun.Wait();
    CancelScope scope;
    scope.Cancel();
    EXPECT_TRUE(scope.Run([&] {
      addrinfo* found = nullptr;
      EXPECT_EQ(::getaddrinfo("localhost", nullptr, nullptr, &found), EAI_SYSTEM);
      EXPECT_EQ(errno, ECANCELED);
    }));
  }).Join();
  may_end.Set();
  busy.Join();
}

}  // namespace
}  // namespace weft::interop
