// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What limits a connection: time-outs, and how many a host may have.

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/fiber/this_fiber.h"
#include "weft/io/socket/peer_limit.h"
#include "weft/io/tcp_server.h"
#include "weft/tests/io/tcp_server_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class TcpLimitsTest : public TcpServerTest {
 protected:
  static void SmallBuffers(const TcpStream& stream) {
    const int size = 4'096;
    for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
      ASSERT_EQ(::setsockopt(stream.fd(), SOL_SOCKET, option, &size, sizeof(size)), 0);
    }
  }
  // What `call` returns, and that it has waited at least `least`.
  template <class Call>
  static void ExpectTimeout(std::chrono::milliseconds least, Call&& call) {
    const auto begin = Steady::now();
    const std::error_code error = call();
    EXPECT_EQ(error, std::errc::timed_out) << error.message();
    EXPECT_GE(Steady::now() - begin, least);
  }
};
WEFT_INSTANTIATE_IO_SHAPES(TcpLimitsTest);

TEST_P(TcpLimitsTest, ACallWithoutADeadlineEndsAfterTheTimeoutOfItsStream) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    TcpStream& a = pair.client;
    TcpStream& b = pair.server;
    SmallBuffers(a);
    SmallBuffers(b);
    char room[16];
    std::string much(10'000'000, 'x');
    EXPECT_FALSE(a.SetTimeouts({.read = 20ms, .write = 30ms}));
    ExpectTimeout(20ms, [&] { return a.ReadSome(room).error; });
    ExpectTimeout(20ms, [&] { return a.WaitReadable(); });
    ExpectTimeout(30ms, [&] { return a.WriteAll(much).error; });
    // A call's own deadline counts, be it earlier or later.
    ExpectTimeout(40ms, [&] { return a.ReadSome(room, 40ms).error; });
    EXPECT_FALSE(a.SetTimeouts({.read = 1h}));
    ExpectTimeout(5ms, [&] { return a.ReadSome(room, 5ms).error; });
    EXPECT_EQ(a.SetTimeouts({.read = -1ms}), std::errc::invalid_argument);
    EXPECT_EQ(a.SetTimeouts({.write = -1ms}), std::errc::invalid_argument);
    a.Close();
    EXPECT_EQ(a.SetTimeouts({.read = 1h}), std::errc::operation_canceled);
  });
}

// The time-out is that of a wait: a peer that goes on slowly is served.
TEST_P(TcpLimitsTest, ATimeoutBeginsAnewWithEachWait) {
  InFiber([] {
    constexpr std::size_t kBytes = 8;
    auto pair = ConnectedPair();
    EXPECT_FALSE(pair.client.SetTimeouts({.read = 600ms}));
    std::array<std::atomic<Steady::time_point>, kBytes> written_at{};
    const auto begin = Steady::now();
    Actor sender(true, [&] {
      for (auto& at : written_at) {
        FiberSleepFor(100ms);
        at = Steady::now();
        if (!pair.server.WriteAll("x", Soon()).ok()) return;
      }
    });
    char room[kBytes];
    const IoResult got = pair.client.ReadAll(room);
    const auto end = Steady::now();
    // On a machine that stands still for so long the time-out is right.
    if (!got.ok()) {
      EXPECT_GE(end - (got.bytes == 0 ? begin : written_at[got.bytes - 1].load()), 600ms);
    }
    pair.client.Close();
    sender.Join();
  });
}

// The kernel takes bytes for a while after it has said that it takes none, before it reports room: those were found
// when the time-out was over, and it began anew.
TEST_P(TcpLimitsTest, APeerThatReadsNothingGetsTheWriteTimeoutOnce) {
  InFiber([] {
    const std::string piece(1'000'000, 'x');
    EXPECT_TRUE(InTime(200ms, [&](std::chrono::milliseconds time) {
      Pair pair = ConnectedPair();
      EXPECT_FALSE(pair.client.SetTimeouts({.write = time}));
      const auto begin = Steady::now();
      IoResult put;
      while (put.ok()) put = pair.client.WriteAll(piece);
      EXPECT_EQ(put.error, std::errc::timed_out);
      const auto took = Steady::now() - begin;
      EXPECT_GE(took, time);
      return took < time * 3 / 2;  // An eighth later for each time that it has found such bytes.
    }));
  });
}

// The slot of a descriptor is used again.
TEST_P(TcpLimitsTest, ANewConnectionHasNoTimeoutOfAFormerOne) {
  InFiberAndInThread([] {
    for (int i = 0; i < 3; ++i) {
      auto pair = ConnectedPair();
      std::atomic<bool> written{false};
      Actor sender(true, [&] {
        FiberSleepFor(30ms);
        written = true;
        EXPECT_TRUE(pair.server.WriteAll("x", Soon()).ok());
      });
      char byte;
      EXPECT_TRUE(pair.client.ReadSome(&byte, 1).ok());
      EXPECT_TRUE(written);
      sender.Join();
      for (TcpStream* stream : {&pair.client, &pair.server})
        EXPECT_FALSE(stream->SetTimeouts({.read = 1ms, .write = 1ms}));
    }
  });
}

TEST_P(TcpLimitsTest, AServersConnectionsHaveItsTimeouts) {
  std::atomic<int> timed_out{0};
  TcpServer server(Listening(),
                   [&](TcpStream& stream) {
                     char byte;
                     if (stream.ReadSome(&byte, 1).error == std::errc::timed_out) ++timed_out;
                     SmallBuffers(stream);
                     if (stream.WriteAll(std::string(10'000'000, 'x')).error == std::errc::timed_out) ++timed_out;
                   },
                   {.read_timeout = 20ms, .write_timeout = 20ms});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  SmallBuffers(client);
  EXPECT_TRUE(Reaches([&] {
    const TcpServer::Counts counts = server.counts();
    return counts.open == 0 && counts.accepted == 1;
  }));
  EXPECT_EQ(timed_out, 2);
  EXPECT_EQ(server.counts().timed_out, 0u) << "the handler did not wait for a request";
}

TEST_P(TcpLimitsTest, OneTimeoutBelowZeroIsNoneAndLeavesTheOther) {
  std::atomic<bool> timed_out{false};
  TcpServer server(Listening(),
                   [&](TcpStream& stream) {
                     char byte;
                     timed_out = stream.ReadSome(&byte, 1).error == std::errc::timed_out;
                   },
                   {.read_timeout = 20ms, .write_timeout = -1ms});
  ASSERT_TRUE(server.Start());
  TcpStream client = Client(server);
  ExpectEnd(client);
  EXPECT_TRUE(timed_out);
}

TEST_P(TcpLimitsTest, AConnectionThatWaitsForARequestHasTheReadTimeoutIfNoOther) {
  for (const auto idle : {0ms, 20ms}) {
    TcpServer server(Listening(), RequestHandler([](TcpConnection& connection) {
                       char byte;
                       const IoResult got = connection.ReadRequest(&byte, 1);
                       if (got.bytes == 0) return AfterRequest::kClose;
                       const bool written = connection.stream().WriteAll(&byte, 1).ok();
                       return written ? AfterRequest::kWaitForNext : AfterRequest::kClose;
                     }),
                     {.idle_timeout = idle, .read_timeout = idle == 0ms ? 20ms : 60min});
    ASSERT_TRUE(server.Start());
    unsigned clients = 0;
    for (bool answered = false; !answered; ++clients) {
      const auto begin = Steady::now();
      TcpStream client = Client(server);
      answered = Ask(client, "x") == "x";
      if (answered) {
        ExpectEnd(client);
      } else {  // The machine stood still between Client() and Ask().
        EXPECT_GE(Steady::now() - begin, 20ms);
      }
    }
    EXPECT_TRUE(Reaches([&] { return server.counts().open == 0; }));
    EXPECT_EQ(server.counts().timed_out, clients);
  }
}

SocketAddress Parsed(std::string_view text) { return SocketAddress::Parse(text).value(); }

TEST(PeerLimitTest, AHostIsAnAddressOrAPrefix) {
  const auto host = [](std::string_view text) { return PeerLimit::HostOf(Parsed(text)); };
  EXPECT_EQ(host("192.0.2.1:80"), host("192.0.2.1:81"));
  EXPECT_NE(host("192.0.2.1:80"), host("192.0.2.2:80"));
  EXPECT_EQ(host("192.0.2.1:80"), host("[::ffff:192.0.2.1]:80"));
  EXPECT_EQ(host("[2001:db8:1:2::1]:80"), host("[2001:db8:1:2:ffff::3]:81"));
  EXPECT_NE(host("[2001:db8:1:2::1]:80"), host("[2001:db8:1:3::1]:80"));
  EXPECT_FALSE(host("unix:/tmp/x").has_value());
  EXPECT_FALSE(PeerLimit::HostOf(SocketAddress()).has_value());
}

TEST(PeerLimitTest, WhoLeavesMakesRoom) {
  PeerLimit limit(2);
  const PeerLimit::Host a = *PeerLimit::HostOf(Parsed("192.0.2.1:1"));
  const PeerLimit::Host b = *PeerLimit::HostOf(Parsed("192.0.2.2:1"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(limit.Enter(a));
    EXPECT_TRUE(limit.Enter(a));
    EXPECT_FALSE(limit.Enter(a));
    EXPECT_TRUE(limit.Enter(b));
    limit.Leave(a);
    EXPECT_TRUE(limit.Enter(a));
    EXPECT_FALSE(limit.Enter(a));
    limit.Leave(a);
    limit.Leave(a);
    limit.Leave(b);
  }
}

TEST_P(TcpLimitsTest, ConnectionsOfAHostAboveTheLimitAreReset) {
  std::atomic<int> asked{0};
  TcpServer server(Listening(),
                   [](TcpStream& stream) {
                     char byte;
                     while (stream.ReadSome(&byte, 1, Soon()).bytes == 1 && stream.WriteAll(&byte, 1, Soon()).ok()) {
                     }
                   },
                   {.admit =
                        [&] {
                          ++asked;
                          return true;
                        },
                    .max_connections_per_host = 2});
  ASSERT_TRUE(server.Start());
  TcpStream first = Client(server);
  TcpStream second = Client(server);
  EXPECT_EQ(Ask(first, "a"), "a");
  EXPECT_EQ(Ask(second, "b"), "b");
  for (int i = 0; i < 5; ++i) {
    TcpStream third;
    // The reset may come before Connect() has returned.
    std::error_code error = third.Connect(server.local_address(), Soon());
    char byte;
    if (!error) error = third.ReadSome(&byte, 1, Soon()).error;
    EXPECT_EQ(error, std::errc::connection_reset) << error.message();
  }
  EXPECT_EQ(server.counts().over_host_limit, 5u);
  EXPECT_EQ(server.counts().refused, 5u);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(Ask(first, "c"), "c");
  // Room again when one has gone.
  second.Close();
  ASSERT_TRUE(Reaches([&] { return server.counts().open == 1; }));
  TcpStream fourth = Client(server);
  EXPECT_EQ(Ask(fourth, "d"), "d");
}

TEST_P(TcpLimitsTest, UnixClientsHaveNoHost) {
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(UnixAddress()));
  TcpServer server(std::move(listener),
                   [](TcpStream& stream) {
                     char byte;
                     if (stream.ReadSome(&byte, 1, Soon()).bytes == 1)
                       static_cast<void>(stream.WriteAll(&byte, 1, Soon()));
                   },
                   {.max_connections_per_host = 1});
  ASSERT_TRUE(server.Start());
  TcpStream first = Client(server);
  TcpStream second = Client(server);
  EXPECT_EQ(Ask(first, "a"), "a");
  EXPECT_EQ(Ask(second, "b"), "b");
}

}  // namespace
}  // namespace weft::io
