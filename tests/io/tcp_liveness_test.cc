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

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/tests/io/io_fixture.h"

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

class TcpLivenessTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(TcpLivenessTest);

TEST_P(TcpLivenessTest, AListenerHandsItsSettingsOn) {
  InFiberAndInThread([] {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(SocketAddress::LoopbackIpv4(0)));
    ASSERT_FALSE(listener.SetKeepAlive({.idle = 70s, .interval = 7s, .probes = 4}));
    ASSERT_FALSE(listener.SetUserTimeout(12'345ms));
    TcpStream client;
    TcpStream accepted;
    ASSERT_FALSE(client.Connect(listener.local_address(), Soon()));
    ASSERT_FALSE(listener.Accept(&accepted, Soon()));
    EXPECT_EQ(OptionOf(accepted, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(OptionOf(accepted, IPPROTO_TCP, TCP_KEEPIDLE), 70);
    EXPECT_EQ(OptionOf(accepted, IPPROTO_TCP, TCP_KEEPINTVL), 7);
    EXPECT_EQ(OptionOf(accepted, IPPROTO_TCP, TCP_KEEPCNT), 4);
    EXPECT_EQ(OptionOf(accepted, IPPROTO_TCP, TCP_USER_TIMEOUT), 12'345);
    EXPECT_EQ(OptionOf(client, SOL_SOCKET, SO_KEEPALIVE), 0);
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

// Two ends of a connection over a network that can be cut. Sockets belong to the namespace of the thread that makes
// them, whoever uses them.
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
    }).join();
    return reason;
  }
  ~CutNetwork() {
    if (control_ >= 0) ::close(control_);
  }
  void Cut() { SetUp(false); }

  Pair pair;

 private:
  void SetUp(bool up) const {
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = static_cast<short>(up ? IFF_UP : 0);
    ASSERT_EQ(::ioctl(control_, SIOCSIFFLAGS, &request), 0) << std::strerror(errno);
  }

  int control_ = -1;
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
    EXPECT_LT(Steady::now() - begin, 25s) << "it was the deadline";
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
    EXPECT_LT(Steady::now() - begin, 25s) << "it was the deadline";
  });
}

}  // namespace
}  // namespace weft::io
