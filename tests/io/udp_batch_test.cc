// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// UdpSocket's calls that transfer several datagrams at once.

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/io/udp_socket.h"
#include "weft/tests/io/io_fixture.h"
#include "weft/tests/io/udp_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

class UdpBatchTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(UdpBatchTest);

// Room for datagrams.
class Rooms {
 public:
  Rooms(std::size_t count, std::size_t size) : memory_(count, std::string(size, '\0')) {}

  std::vector<Datagram> Empty() {
    std::vector<Datagram> datagrams;
    for (std::string& room : memory_) datagrams.push_back({.data = room.data(), .size = room.size()});
    return datagrams;
  }

 private:
  std::vector<std::string> memory_;
};

std::string_view TextOf(const Datagram& datagram) { return {static_cast<const char*>(datagram.data), datagram.size}; }

// Receives until it has `count` datagrams, or an error has ended it.
std::vector<std::string> Receive(UdpSocket& socket, std::size_t count) {
  std::vector<std::string> all;
  Rooms rooms(50, 9'000);
  while (all.size() < count) {
    std::vector<Datagram> datagrams = rooms.Empty();
    const DatagramsResult got = socket.ReceiveMany(datagrams, Soon());
    EXPECT_TRUE(got.ok()) << got.error.message();
    EXPECT_GT(got.datagrams, 0u);
    EXPECT_LE(got.datagrams, UdpSocket::kMostReceived);
    if (!got.ok() || got.datagrams == 0) break;
    for (std::size_t i = 0; i < got.datagrams; ++i) all.emplace_back(TextOf(datagrams[i]));
  }
  return all;
}

SocketAddress NewAddress(bool unix_socket) { return unix_socket ? UnixAddress() : OwnLoopback(); }

TEST_P(UdpBatchTest, ManyGoOutInOrder) {
  for (const bool unix_socket : {false, true}) {
    InFiberAndInThread([unix_socket] {
      UdpSocket a;
      UdpSocket b;
      ASSERT_FALSE(a.Bind(NewAddress(unix_socket)));
      ASSERT_FALSE(b.Bind(NewAddress(unix_socket)));
      std::vector<std::string> texts;
      for (int i = 0; i < 75; ++i)
        texts.push_back(std::string(static_cast<std::size_t>(i) % 7, '.') + std::to_string(i));
      std::vector<Datagram> datagrams;
      for (std::string& text : texts) {
        datagrams.push_back({.data = text.data(), .size = text.size(), .peer = b.local_address()});
      }
      DatagramsResult put;
      Actor sender(true, [&] { put = a.SendMany(datagrams, Soon()); });
      EXPECT_EQ(Receive(b, texts.size()), texts);
      sender.Join();
      EXPECT_TRUE(put.ok()) << put.error.message();
      EXPECT_EQ(put.datagrams, texts.size());
    });
  }
}

TEST_P(UdpBatchTest, ItTakesWhatThereIsAndSaysFromWhom) {
  InFiberAndInThread([] {
    UdpSocket a;
    UdpSocket b;
    UdpSocket to;
    for (UdpSocket* socket : {&a, &b, &to}) ASSERT_FALSE(socket->Bind(OwnLoopback()));
    EXPECT_TRUE(a.SendTo("from a", 6, to.local_address(), Soon()).ok());
    EXPECT_TRUE(b.SendTo("", 0, to.local_address(), Soon()).ok());
    EXPECT_TRUE(a.SendTo("third", 5, to.local_address(), Soon()).ok());
    Rooms rooms(2, 20);
    std::vector<Datagram> datagrams = rooms.Empty();
    EXPECT_EQ(to.ReceiveMany(datagrams, Soon()).datagrams, 2u);
    EXPECT_EQ(TextOf(datagrams[0]), "from a");
    EXPECT_EQ(datagrams[0].peer, a.local_address());
    EXPECT_EQ(TextOf(datagrams[1]), "");
    EXPECT_EQ(datagrams[1].peer, b.local_address());
    datagrams = rooms.Empty();
    EXPECT_EQ(to.ReceiveMany(datagrams, Soon()).datagrams, 1u);
    EXPECT_EQ(TextOf(datagrams[0]), "third");
    EXPECT_EQ(to.ReceiveMany({}, Soon()).error, std::error_code());
    EXPECT_EQ(a.SendMany({}, Soon()).error, std::error_code());
  });
}

TEST_P(UdpBatchTest, WhatDoesNotFitIsLostAndTold) {
  InFiberAndInThread([] {
    UdpSocket socket;
    ASSERT_FALSE(socket.Bind(OwnLoopback()));
    EXPECT_TRUE(socket.SendTo("0123456789", 10, socket.local_address(), Soon()).ok());
    EXPECT_TRUE(socket.SendTo("abcd", 4, socket.local_address(), Soon()).ok());
    Rooms rooms(2, 4);
    std::vector<Datagram> datagrams = rooms.Empty();
    datagrams[1].truncated = true;
    EXPECT_EQ(socket.ReceiveMany(datagrams, Soon()).datagrams, 2u);
    EXPECT_TRUE(datagrams[0].truncated);
    EXPECT_EQ(TextOf(datagrams[0]), "0123");
    EXPECT_FALSE(datagrams[1].truncated);
    EXPECT_EQ(TextOf(datagrams[1]), "abcd");
  });
}

TEST_P(UdpBatchTest, SegmentsArriveAsDatagrams) {
  for (const bool unix_socket : {false, true}) {
    for (const bool connected : {false, true}) {
      InFiberAndInThread([=] {
        UdpSocket a;
        UdpSocket b;
        ASSERT_FALSE(b.Bind(NewAddress(unix_socket)));
        ASSERT_FALSE(a.Bind(NewAddress(unix_socket)));
        if (connected) {
          ASSERT_FALSE(a.Connect(b.local_address()));
        }
        const SocketAddress to = connected ? SocketAddress() : b.local_address();
        for (const auto& sizes :
             {std::pair<std::size_t, std::size_t>{1, 100}, {100, 100}, {2'001, 100}, {7'000, 70}, {9'000, 8'000}}) {
          const std::size_t size = sizes.first;  // No binding, which clang does not let a lambda capture.
          const std::size_t segment = sizes.second;
          std::string bytes(size, '\0');
          for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('a' + i * 31 % 23);
          std::vector<std::string> expected;
          for (std::size_t at = 0; at < size; at += segment) expected.push_back(bytes.substr(at, segment));
          IoResult put;
          Actor sender(true, [&] { put = a.SendSegments(bytes.data(), size, segment, to, Soon()); });
          EXPECT_EQ(Receive(b, expected.size()), expected) << size << " by " << segment;
          sender.Join();
          EXPECT_TRUE(put.ok()) << put.error.message();
          EXPECT_EQ(put.bytes, size);
        }
      });
    }
  }
}

// A socket that sends no checksums cannot segment.
TEST_P(UdpBatchTest, WhereTheKernelRefusesToSegmentSeveralAreSent) {
  InFiberAndInThread([] {
    UdpSocket a;
    UdpSocket b;
    ASSERT_FALSE(a.Bind(OwnLoopback()));
    ASSERT_FALSE(b.Bind(OwnLoopback()));
    const int on = 1;
    ASSERT_EQ(::setsockopt(a.fd(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
    const std::string bytes(1'050, 'x');
    const IoResult put = a.SendSegments(bytes.data(), bytes.size(), 100, b.local_address(), Soon());
    EXPECT_TRUE(put.ok()) << put.error.message();
    EXPECT_EQ(put.bytes, bytes.size());
    const std::vector<std::string> got = Receive(b, 11);
    EXPECT_EQ(got.front().size(), 100u);
    EXPECT_EQ(got.back().size(), 50u);
  });
}

TEST_P(UdpBatchTest, ErrorsAreTold) {
  InFiberAndInThread([] {
    UdpSocket socket;
    ASSERT_FALSE(socket.Bind(OwnLoopback()));
    const SocketAddress here = socket.local_address();
    const std::string much(70'000, 'x');
    EXPECT_EQ(socket.SendSegments("x", 1, 0, here, Soon()).error, std::errc::invalid_argument);
    EXPECT_EQ(socket.SendSegments(much.data(), much.size(), much.size(), here, Soon()).error, std::errc::message_size);
    char a[] = "a";
    const Datagram datagrams[] = {{.data = a, .size = 1, .peer = here},
                                  {.data = const_cast<char*>(much.data()), .size = much.size(), .peer = here}};
    const DatagramsResult put = socket.SendMany(datagrams, Soon());
    EXPECT_EQ(put.error, std::errc::message_size);
    EXPECT_EQ(put.datagrams, 1u);
    EXPECT_EQ(Receive(socket, 1).front(), "a");
    Rooms rooms(3, 10);
    std::vector<Datagram> none = rooms.Empty();
    EXPECT_EQ(socket.ReceiveMany(none, 1ms).error, std::errc::timed_out);
    EXPECT_TRUE(socket.Close());
    EXPECT_EQ(socket.ReceiveMany(none, Soon()).error, std::errc::operation_canceled);
    EXPECT_EQ(socket.SendMany(datagrams, Soon()).error, std::errc::operation_canceled);
    EXPECT_EQ(socket.SendSegments("x", 1, 1, here, Soon()).error, std::errc::operation_canceled);
  });
}

TEST_P(UdpBatchTest, ACancellationEndsAWait) {
  UdpSocket socket;
  ASSERT_FALSE(socket.Bind(OwnLoopback()));
  std::atomic<bool> receives{false};
  Fiber receiver([&] {
    Rooms rooms(3, 10);
    std::vector<Datagram> datagrams = rooms.Empty();
    receives = true;
    EXPECT_EQ(socket.ReceiveMany(datagrams, Soon()).error, std::errc::operation_canceled);
  });
  ASSERT_TRUE(Reaches([&] { return receives.load(); }));
  EXPECT_TRUE(receiver.Cancel());
  receiver.Join();
}

// Several servers take batches from one socket, and answer by batches.
TEST_P(UdpBatchTest, ManyAskAndAreAnsweredByBatches) {
  UdpSocket server;
  ASSERT_FALSE(server.Bind(OwnLoopback()));
  std::vector<Fiber> servers;
  for (int i = 0; i < 4; ++i) {
    servers.emplace_back([&] {
      Rooms rooms(20, 64);
      for (;;) {
        std::vector<Datagram> datagrams = rooms.Empty();
        const DatagramsResult got = server.ReceiveMany(datagrams);
        if (!got.ok()) break;
        datagrams.resize(got.datagrams);
        EXPECT_EQ(server.SendMany(datagrams, Soon()).datagrams, got.datagrams);
      }
    });
  }
  AskFromManyFibers(server.local_address());
  server.Close();
  for (Fiber& fiber : servers) fiber.Join();
}

}  // namespace
}  // namespace weft::io
