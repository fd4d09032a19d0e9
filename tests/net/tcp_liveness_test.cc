// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Peers that vanish without a word: connections over the loopback device of a network namespace, which the test takes
// down.

#include "weft/io/tcp_liveness.h"

#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/net/connect_to_host.h"
#include "weft/net/connection_pool.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/io/tcp_server_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

int OptionOf(const TcpStream& stream, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(stream.fd(), level, option, &value, &size), 0);
  return value;
}

// Values that nobody sets but these tests.
constexpr TcpKeepAlive kKeepAlive{.idle = 70s, .interval = 7s, .probes = 4};
constexpr std::chrono::milliseconds kUserTimeout{12'345};

void ExpectBoth(const TcpStream& stream) {
  EXPECT_EQ(OptionOf(stream, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(OptionOf(stream, IPPROTO_TCP, TCP_KEEPIDLE), 70);
  EXPECT_EQ(OptionOf(stream, IPPROTO_TCP, TCP_KEEPINTVL), 7);
  EXPECT_EQ(OptionOf(stream, IPPROTO_TCP, TCP_KEEPCNT), 4);
  EXPECT_EQ(OptionOf(stream, IPPROTO_TCP, TCP_USER_TIMEOUT), 12'345);
}

void ExpectNeither(const TcpStream& stream) {
  EXPECT_EQ(OptionOf(stream, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(OptionOf(stream, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
}

class TcpLivenessTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(TcpLivenessTest);

TEST_P(TcpLivenessTest, AListenerHandsItsSettingsOn) {
  InFiberAndInThread([] {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(SocketAddress::LoopbackIpv4(0)));
    ASSERT_FALSE(listener.SetKeepAlive(kKeepAlive));
    ASSERT_FALSE(listener.SetUserTimeout(kUserTimeout));
    TcpStream client;
    TcpStream accepted;
    ASSERT_FALSE(client.Connect(listener.local_address(), Soon()));
    ASSERT_FALSE(listener.Accept(&accepted, Soon()));
    ExpectBoth(accepted);
    ExpectNeither(client);
    EXPECT_FALSE(accepted.SetKeepAlive({.enabled = false}));
    EXPECT_EQ(OptionOf(accepted, SOL_SOCKET, SO_KEEPALIVE), 0);
  });
}

TEST_P(TcpLivenessTest, WhatTheKernelRefusesIsTold) {
  InFiberAndInThread([] {
    auto pair = ConnectedPair();
    EXPECT_EQ(pair.client.SetKeepAlive({.idle = 40'000s}), std::errc::invalid_argument);
    EXPECT_EQ(pair.client.SetKeepAlive({.interval = 0s}), std::errc::invalid_argument);
    EXPECT_EQ(pair.client.SetKeepAlive({.probes = 128}), std::errc::invalid_argument);
    EXPECT_EQ(OptionOf(pair.client, SOL_SOCKET, SO_KEEPALIVE), 0);
    EXPECT_EQ(pair.client.SetUserTimeout(-1ms), std::errc::invalid_argument);
    EXPECT_EQ(pair.client.SetUserTimeout(24h * 60), std::errc::invalid_argument);
    auto local = ConnectedPair(UnixAddress());
    EXPECT_EQ(local.client.SetKeepAlive({}), std::errc::operation_not_supported);
    EXPECT_EQ(local.client.SetUserTimeout(1s), std::errc::operation_not_supported);
    local.client.Close();
    EXPECT_EQ(local.client.SetKeepAlive({}), std::errc::operation_canceled);
    EXPECT_EQ(local.client.SetUserTimeout(1s), std::errc::operation_canceled);
  });
}

// --- The options of servers and clients ---

class TcpLivenessOptionsTest : public TcpServerTest {};
WEFT_INSTANTIATE_IO_SHAPES(TcpLivenessOptionsTest);

TEST_P(TcpLivenessOptionsTest, TheConnectionsOfAServerHaveItsOptions) {
  for (const bool wanted : {true, false}) {
    std::atomic<int> handled{0};
    const auto expect = [&](TcpStream& stream) {
      wanted ? ExpectBoth(stream) : ExpectNeither(stream);
      ++handled;
    };
    TcpServer::Options options;
    if (wanted) {
      options.keep_alive = kKeepAlive;
      options.user_timeout = kUserTimeout;
    }
    TcpServer server(Listening(), expect, options);
    ASSERT_TRUE(server.Start());
    TcpStream client = Client(server);
    ExpectEnd(client);
    EXPECT_EQ(handled, 1);
  }
}

// The defaults do not undo what the owner of the listener has set.
TEST_P(TcpLivenessOptionsTest, AServerWithoutOptionsLeavesThoseOfItsListener) {
  TcpListener listener = Listening();
  ASSERT_FALSE(listener.SetKeepAlive(kKeepAlive));
  ASSERT_FALSE(listener.SetUserTimeout(kUserTimeout));
  std::atomic<int> handled{0};
  TcpServer server(std::move(listener), [&](TcpStream& stream) {
    ExpectBoth(stream);
    ++handled;
  });
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  ExpectEnd(client);
  EXPECT_EQ(handled, 1);
}

TEST_P(TcpLivenessOptionsTest, AServerWhoseOptionsTheKernelRefusesDoesNotStart) {
  TcpServer::Options no_keep_alive;
  no_keep_alive.keep_alive = {.idle = 40'000s};
  TcpServer::Options no_user_timeout;
  no_user_timeout.user_timeout = -1ms;
  for (const TcpServer::Options& options : {no_keep_alive, no_user_timeout}) {
    TcpServer server(
        Listening(), [](TcpStream&) {}, options);
    EXPECT_FALSE(server.Start());
  }
}

TEST_P(TcpLivenessOptionsTest, UnixSocketsGoWithoutThem) {
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(UnixAddress()));
  TcpServer server(std::move(listener), [](TcpStream&) {}, {.keep_alive = kKeepAlive, .user_timeout = kUserTimeout});
  ASSERT_TRUE(server.Start());
  const auto connect = [&](TcpStream* stream, Deadline deadline) {
    return stream->Connect(server.local_address(), deadline);
  };
  ConnectionPool pool(connect, {.keep_alive = kKeepAlive, .user_timeout = kUserTimeout});
  ConnectionPool::Lease lease;
  ASSERT_FALSE(pool.Acquire(&lease, Soon()));
  ExpectEnd(*lease);
}

TEST_P(TcpLivenessOptionsTest, AConnectionToAHostHasTheOptionsOfItsCall) {
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(SocketAddress::LoopbackIpv4(0)));
  const std::string port = std::to_string(listener.local_address().port());
  InFiberAndInThread([&] {
    TcpStream stream;
    const ConnectOptions both{.keep_alive = kKeepAlive, .user_timeout = kUserTimeout};
    ASSERT_FALSE(ConnectToHost("127.0.0.1", port, &stream, both, Soon()));
    ExpectBoth(stream);
    const ConnectOptions refused{.keep_alive = {.idle = 40'000s}};
    EXPECT_EQ(ConnectToHost("127.0.0.1", port, &stream, refused, Soon()), std::errc::invalid_argument);
    ExpectBoth(stream);  // As it was.
    ASSERT_FALSE(ConnectToHost("127.0.0.1", port, &stream, Soon()));
    ExpectNeither(stream);
  });
}

TEST_P(TcpLivenessOptionsTest, TheConnectionsOfAPoolHaveItsOptions) {
  const TcpListener listener = Listening();
  const auto connect = [&](TcpStream* stream, Deadline deadline) {
    return stream->Connect(listener.local_address(), deadline);
  };
  InFiberAndInThread([&] {
    ConnectionPool::Lease lease;
    ConnectionPool both(connect, {.keep_alive = kKeepAlive, .user_timeout = kUserTimeout});
    ASSERT_FALSE(both.Acquire(&lease, Soon()));
    ExpectBoth(*lease);
    ConnectionPool refused(connect, {.user_timeout = -1ms});
    EXPECT_EQ(refused.Acquire(&lease, Soon()), std::errc::invalid_argument);
    EXPECT_EQ(refused.counts().lent, 0u);
    ConnectionPool neither(connect);
    ASSERT_FALSE(neither.Acquire(&lease, Soon()));
    ExpectNeither(*lease);
    lease.Close();
  });
}

// --- Peers that vanish ---

// Two ends of a connection over a network that can be cut, and a listener there. Sockets belong to the namespace of the
// thread that makes them, whoever uses them.
class CutNetwork {
 public:
  // Why this machine does not let us have one, if it does not.
  static std::optional<std::string> Make(CutNetwork* network) {
    std::optional<std::string> reason;
    std::thread([&] {
      if (::unshare(CLONE_NEWNET) != 0) {
        reason = std::string("unshare(CLONE_NEWNET): ") + std::strerror(errno);
        return;
      }
      network->control_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      network->SetUp(true);
      network->pair = ConnectedPair();
      EXPECT_FALSE(network->listener.Listen(SocketAddress::LoopbackIpv4(0)));
      network->client_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }).join();
    return reason;
  }
  ~CutNetwork() {
    for (const int fd : {control_, client_}) {
      if (fd >= 0) ::close(fd);
    }
  }
  void Cut() { SetUp(false); }
  // Once. Returns when the kernel has made the connection, whether it is accepted or not.
  TcpStream Connect(const SocketAddress& address) {
    EXPECT_EQ(::connect(client_, address.data(), address.size()), 0) << std::strerror(errno);
    return TcpStream(Descriptor(std::exchange(client_, -1)));
  }

  Pair pair;
  TcpListener listener;

 private:
  void SetUp(bool up) const {
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = static_cast<short>(up ? IFF_UP : 0);
    ASSERT_EQ(::ioctl(control_, SIOCSIFFLAGS, &request), 0) << std::strerror(errno);
  }

  int control_ = -1;
  int client_ = -1;
};

TEST_P(TcpLivenessTest, KeepAliveEndsAReadFromAPeerThatHasVanished) {
  CutNetwork network;
  if (const auto reason = CutNetwork::Make(&network)) GTEST_SKIP() << *reason;
  InFiber([&] {
    ASSERT_FALSE(network.pair.client.SetKeepAlive({.idle = 1s, .interval = 1s, .probes = 2}));
    network.Cut();
    const auto begin = Steady::now();
    char byte;
    EXPECT_EQ(network.pair.client.ReadSome(&byte, 1, Soon()).error, std::errc::timed_out);
    EXPECT_LT(Steady::now() - begin, kBeforeSoon) << "it was the deadline";
  });
}

TEST_P(TcpLivenessTest, TheUserTimeoutEndsAWriteToAPeerThatHasVanished) {
  CutNetwork network;
  if (const auto reason = CutNetwork::Make(&network)) GTEST_SKIP() << *reason;
  InFiber([&] {
    ASSERT_FALSE(network.pair.client.SetUserTimeout(300ms));
    network.Cut();
    const auto begin = Steady::now();
    EXPECT_EQ(network.pair.client.WriteAll(std::string(20'000'000, 'x'), Soon()).error, std::errc::timed_out);
    EXPECT_LT(Steady::now() - begin, kBeforeSoon) << "it was the deadline";
  });
}

// What a handler's call without a deadline returns when the peer vanishes meanwhile.
template <class Call>
std::error_code WhenItsPeerVanishes(CutNetwork* network, const TcpServer::Options& options, Call&& call) {
  FiberEvent connected;
  FiberEvent ended;
  std::error_code error;
  const auto handle = [&](TcpStream& stream) {
    connected.Set();
    error = call(stream);
    ended.Set();
  };
  TcpServer server(std::move(network->listener), handle, options);
  EXPECT_TRUE(server.Start());
  const TcpStream client = network->Connect(server.local_address());
  EXPECT_TRUE(connected.Wait(Soon()));
  network->Cut();
  EXPECT_TRUE(ended.Wait(Soon())) << "the server waits for a peer that has vanished";
  server.Stop(0s);  // Ends a handler that still waits.
  return error;
}

TEST_P(TcpLivenessTest, AServersKeepAliveEndsAReadFromAPeerThatHasVanished) {
  CutNetwork network;
  if (const auto reason = CutNetwork::Make(&network)) GTEST_SKIP() << *reason;
  const auto read = [](TcpStream& stream) {
    char byte;
    return stream.ReadSome(&byte, 1).error;
  };
  TcpServer::Options options;
  options.keep_alive = {.idle = 1s, .interval = 1s, .probes = 2};
  EXPECT_EQ(WhenItsPeerVanishes(&network, options, read), std::errc::timed_out);
}

TEST_P(TcpLivenessTest, AServersUserTimeoutEndsAWriteToAPeerThatHasVanished) {
  CutNetwork network;
  if (const auto reason = CutNetwork::Make(&network)) GTEST_SKIP() << *reason;
  const auto write = [](TcpStream& stream) { return stream.WriteAll(std::string(20'000'000, 'x')).error; };
  TcpServer::Options options;
  options.user_timeout = 300ms;
  EXPECT_EQ(WhenItsPeerVanishes(&network, options, write), std::errc::timed_out);
}

}  // namespace
}  // namespace weft::io
