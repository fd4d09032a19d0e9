// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/connect_to_host.h"

#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/io/tcp_listener.h"
#include "weft/net/resolver.h"
#include "weft/tests/io/dropping_listener.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;
using Addresses = std::vector<SocketAddress>;

// A port that refuses: nobody listens there any more.
SocketAddress Refusing() {
  TcpListener listener;
  EXPECT_FALSE(listener.Listen(OwnLoopback()));
  return listener.local_address();
}

// A listener that answers.
class Answering {
 public:
  explicit Answering(const SocketAddress& address = OwnLoopback()) { EXPECT_FALSE(listener_.Listen(address)); }
  SocketAddress address() const { return listener_.local_address(); }
  TcpListener& listener() { return listener_; }

 private:
  TcpListener listener_;
};

std::string Texts(const Addresses& addresses) {
  std::string texts;
  for (const SocketAddress& address : addresses) texts += address.ToString() + ' ';
  return texts;
}

Addresses Parsed(std::initializer_list<const char*> texts) {
  Addresses addresses;
  for (const char* text : texts) addresses.push_back(*SocketAddress::Parse(text));
  return addresses;
}

TEST(AlternateFamilies, BeginWithTheFirstAndKeepTheirOrder) {
  EXPECT_EQ(Texts(detail::AlternateFamilies({})), "");
  EXPECT_EQ(Texts(detail::AlternateFamilies(Parsed({"[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1", "10.0.0.2:1"}))),
            "[::1]:1 10.0.0.1:1 [::2]:1 10.0.0.2:1 [::3]:1 ");
  EXPECT_EQ(Texts(detail::AlternateFamilies(Parsed({"10.0.0.1:1", "[::1]:1", "[::2]:1", "[::3]:1"}))),
            "10.0.0.1:1 [::1]:1 [::2]:1 [::3]:1 ");
  EXPECT_EQ(Texts(detail::AlternateFamilies(Parsed({"10.0.0.2:1", "10.0.0.1:1"}))), "10.0.0.2:1 10.0.0.1:1 ");
}

// Before any runtime, since those of the other tests keep their reactors.
TEST(AConnectToFirstWithoutARuntime, TriesOneAfterTheOther) {
  Answering answering;
  DroppingListener dropping;
  TcpStream stream;
  EXPECT_FALSE(ConnectToFirst(Addresses{dropping.address(), Refusing(), answering.address()}, &stream, 1ms, Soon()));
  EXPECT_EQ(stream.peer_address(), answering.address());
}

class ConnectToHostTest : public IoTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, ConnectToHostTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}),
                         &fiber::NameOf);

// That a later one begins after an hour only is the test.
TEST_P(ConnectToHostTest, AnAddressThatRefusesIsFollowedAtOnce) {
  Answering answering;
  InFiberAndInThread([&] {
    TcpStream stream;
    const Addresses addresses = {Refusing(), Refusing(), answering.address(), Refusing()};
    EXPECT_FALSE(ConnectToFirst(addresses, &stream, 1h, Soon()));
    EXPECT_EQ(stream.peer_address(), answering.address());
    int no_delay = 0;
    socklen_t size = sizeof(no_delay);
    EXPECT_EQ(::getsockopt(stream.fd(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
    EXPECT_NE(no_delay, 0);
    // It is a stream like others.
    TcpStream accepted;
    EXPECT_FALSE(answering.listener().Accept(&accepted, Soon()));
    EXPECT_TRUE(accepted.WriteAll("hello").ok());
    char buffer[5];
    EXPECT_EQ(stream.ReadAll(buffer, Soon()).bytes, 5U);
    EXPECT_EQ(stream.ReadSome(buffer, 1ms).error, std::errc::timed_out);
  });
}

TEST_P(ConnectToHostTest, AnAddressThatDropsIsFollowedAfterTheDelay) {
  Answering answering;
  DroppingListener dropping;
  InFiberAndInThread([&] {
    TcpStream stream;
    const auto begin = Steady::now();
    EXPECT_FALSE(ConnectToFirst(Addresses{dropping.address(), answering.address()}, &stream, 20ms, Soon()));
    EXPECT_GE(Steady::now() - begin, 20ms);
    EXPECT_EQ(stream.peer_address(), answering.address());
  });
}

TEST_P(ConnectToHostTest, AFailureBesideAPendingAttemptIsFollowed) {
  Answering answering;
  DroppingListener dropping;
  InFiberAndInThread([&] {
    TcpStream stream;
    const Addresses addresses = {dropping.address(), Refusing(), answering.address()};
    const auto begin = Steady::now();
    EXPECT_FALSE(ConnectToFirst(addresses, &stream, 10ms, Soon()));
    EXPECT_GE(Steady::now() - begin, 10ms);
    EXPECT_EQ(stream.peer_address(), answering.address());
  });
}

TEST_P(ConnectToHostTest, ItIsOverAtItsDeadline) {
  DroppingListener one;
  DroppingListener other;
  InFiberAndInThread([&] {
    TcpStream stream;
    const auto begin = Steady::now();
    const Addresses addresses = {one.address(), Refusing(), other.address()};
    EXPECT_EQ(ConnectToFirst(addresses, &stream, 1ms, 20ms), std::errc::timed_out);
    EXPECT_GE(Steady::now() - begin, 20ms);
    EXPECT_FALSE(stream.IsOpen());
    EXPECT_EQ(ConnectToFirst(addresses, &stream, 1h, 0s), std::errc::timed_out);
    EXPECT_EQ(ConnectToFirst(addresses, &stream, 0s, 1ms), std::errc::timed_out) << "all at once";
  });
}

TEST_P(ConnectToHostTest, ACancellationEndsIt) {
  DroppingListener one;
  DroppingListener other;
  std::atomic<bool> connects{false};
  Fiber connecting([&] {
    TcpStream stream;
    connects = true;
    EXPECT_EQ(ConnectToFirst(Addresses{one.address(), other.address()}, &stream, 1ms), std::errc::operation_canceled);
  });
  ASSERT_TRUE(Reaches([&] { return connects.load(); }));
  EXPECT_TRUE(connecting.Cancel());
  connecting.Join();
}

// If all have failed. An address without a way from here stands for IPv6 on a machine that has none.
TEST_P(ConnectToHostTest, TheErrorIsTheMostTelling) {
  const SocketAddress no_way;  // address_family_not_supported
  InFiberAndInThread([&] {
    TcpStream stream;
    EXPECT_EQ(ConnectToFirst(Addresses{Refusing(), no_way}, &stream, 1h), std::errc::connection_refused);
    EXPECT_EQ(ConnectToFirst(Addresses{no_way, Refusing()}, &stream, 1h), std::errc::connection_refused);
    EXPECT_EQ(ConnectToFirst(Addresses{no_way, no_way}, &stream, 1h), std::errc::address_family_not_supported);
    EXPECT_EQ(ConnectToFirst(Addresses{Refusing()}, &stream, 1h), std::errc::connection_refused);
    EXPECT_EQ(ConnectToFirst(Addresses{}, &stream, 1h), std::errc::address_not_available);
    EXPECT_FALSE(stream.IsOpen());
  });
}

TEST_P(ConnectToHostTest, ManyRaceAtTheSameTime) {
  Answering answering;
  DroppingListener dropping;
  std::vector<Actor> actors;
  for (int i = 0; i < Scaled(32); ++i) {
    actors.emplace_back(i % 4 != 0, [&, i] {
      TcpStream stream;
      const Addresses addresses = {dropping.address(), i % 2 == 0 ? Refusing() : dropping.address(),
                                   answering.address()};
      EXPECT_FALSE(ConnectToFirst(addresses, &stream, 2ms, Soon()));
      EXPECT_EQ(stream.peer_address(), answering.address());
    });
  }
}

// --- By name ---

Resolver::Options Answers(Addresses addresses) {
  Resolver::Options options;
  options.look_up = [addresses = std::move(addresses)](const std::string& host, const std::string&,
                                                       ResolveOptions) -> ResolveResult {
    if (host == "none") return {{EAI_NONAME, ResolveCategory()}, {}};
    return {{}, addresses};
  };
  return options;
}

TEST_P(ConnectToHostTest, AllAddressesOfANameAreTried) {
  Answering answering;
  Resolver resolver(Answers({Refusing(), answering.address()}));
  InFiberAndInThread([&] {
    TcpStream stream;
    EXPECT_FALSE(ConnectToHost("shop", "80", &stream, {.attempt_delay = 1h, .resolver = &resolver}, Soon()));
    EXPECT_EQ(stream.peer_address(), answering.address());
    TcpStream none;
    EXPECT_EQ(ConnectToHost("none", "80", &none, {.resolver = &resolver}),
              std::error_code(EAI_NONAME, ResolveCategory()));
    EXPECT_FALSE(none.IsOpen());
  });
}

TEST_P(ConnectToHostTest, TheDeadlineIsThatOfTheLookUpToo) {
  std::latch answers(1);
  Resolver::Options options;
  options.look_up = [&](const std::string&, const std::string&, ResolveOptions) -> ResolveResult {
    answers.wait();
    return {{EAI_AGAIN, ResolveCategory()}, {}};
  };
  Resolver resolver(options);
  InFiberAndInThread([&] {
    TcpStream stream;
    EXPECT_EQ(ConnectToHost("slow", "80", &stream, {.resolver = &resolver}, 5ms), std::errc::timed_out);
  });
  answers.count_down();
}

TEST_P(ConnectToHostTest, TheLocalHostIsConnectedTo) {
  Answering answering(SocketAddress::LoopbackIpv4(0));
  const std::string port = std::to_string(answering.address().port());
  InFiberAndInThread([&] {
    TcpStream stream;
    EXPECT_FALSE(ConnectToHost("127.0.0.1", port, &stream, Soon()));
    EXPECT_EQ(stream.peer_address(), answering.address());
    TcpStream by_name;
    EXPECT_FALSE(ConnectToHost("localhost", port, &by_name, Soon()));
    EXPECT_EQ(by_name.peer_address(), answering.address());
  });
}

// The kernel asks again after a second, where a queue was full.
TEST(LateOutcomes, ALateAnswerWinsAndALateFailureIsFollowedAtOnce) {
  IoRuntime runtime({2, 1});
  DroppingListener never;
  Answering answering;
  DroppingListener late[2];
  DroppingListener closes[2];
  std::atomic<int> began{0};
  std::vector<Actor> actors;
  for (const bool in_fiber : {true, false}) {
    actors.emplace_back(in_fiber, [&, in_fiber] {
      TcpStream stream;
      ++began;
      const SocketAddress address = late[in_fiber].address();
      EXPECT_FALSE(ConnectToFirst(Addresses{address, never.address()}, &stream, 1ms, Soon()));
      EXPECT_EQ(stream.peer_address(), address);
    });
    actors.emplace_back(in_fiber, [&, in_fiber] {
      TcpStream stream;
      const Addresses addresses = {closes[in_fiber].address(), answering.address()};
      ++began;
      EXPECT_FALSE(ConnectToFirst(addresses, &stream, 1h, Soon()));
      EXPECT_EQ(stream.peer_address(), answering.address());
    });
  }
  EXPECT_TRUE(Reaches([&] { return began == 4; }));
  for (DroppingListener& listener : late) listener.Accept();
  for (DroppingListener& listener : closes) listener.Close();
  actors.clear();
}

}  // namespace
}  // namespace weft::io
