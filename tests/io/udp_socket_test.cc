// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/udp_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/io/socket/socket.h"
#include "weft/tests/base/temporary_folder.h"
#include "weft/tests/io/io_fixture.h"
#include "weft/tests/io/udp_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class UdpSocketTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(UdpSocketTest);

TEST_P(UdpSocketTest, DatagramsComeAsTheyWereSent) {
  for (const bool unix_socket : {false, true}) {
    InFiberAndInThread([unix_socket] {
      UdpSocket a;
      UdpSocket b;
      ASSERT_FALSE(a.Bind(unix_socket ? UnixAddress() : OwnLoopback()));
      ASSERT_FALSE(b.Bind(unix_socket ? UnixAddress() : OwnLoopback()));
      EXPECT_TRUE(a.IsOpen());
      for (const std::size_t size : {0, 1, 100, 9000}) {
        const std::string sent(size, 'd');
        const IoResult put = a.SendTo(sent.data(), sent.size(), b.local_address(), Soon());
        EXPECT_TRUE(put.ok()) << put.error.message();
        EXPECT_EQ(put.bytes, size);
        std::string got(10'000, '\0');
        SocketAddress from;
        bool truncated = true;
        const IoResult received = b.ReceiveFrom(got.data(), got.size(), &from, &truncated, Soon());
        EXPECT_TRUE(received.ok());
        EXPECT_EQ(got.substr(0, received.bytes), sent);
        EXPECT_FALSE(truncated);
        EXPECT_EQ(from, a.local_address());
      }
    });
  }
}

TEST_P(UdpSocketTest, WhatDoesNotFitIsLostAndTold) {
  InFiberAndInThread([] {
    UdpSocket socket;
    ASSERT_FALSE(socket.Bind(OwnLoopback()));
    EXPECT_TRUE(socket.SendTo("0123456789", 10, socket.local_address(), Soon()).ok());
    EXPECT_TRUE(socket.SendTo("abc", 3, socket.local_address(), Soon()).ok());
    char buffer[4];
    bool truncated = false;
    EXPECT_EQ(socket.ReceiveFrom(buffer, sizeof(buffer), nullptr, &truncated, Soon()).bytes, 4u);
    EXPECT_TRUE(truncated);
    EXPECT_EQ(std::string_view(buffer, 4), "0123");
    EXPECT_EQ(socket.ReceiveFrom(buffer, sizeof(buffer), nullptr, &truncated, Soon()).bytes, 3u);
    EXPECT_FALSE(truncated);
  });
}

TEST_P(UdpSocketTest, ACancellationEndsAWaitAndTakesNoDatagram) {
  UdpSocket socket;
  ASSERT_FALSE(socket.Bind(OwnLoopback()));
  std::atomic<bool> receives{false};
  char buffer[16];
  Fiber receiver([&] {
    receives = true;
    EXPECT_EQ(socket.ReceiveFrom(buffer, sizeof(buffer), nullptr, nullptr, Soon()).error,
              std::errc::operation_canceled);
  });
  ASSERT_TRUE(Reaches([&] { return receives.load(); }));
  EXPECT_TRUE(receiver.Cancel());
  receiver.Join();
  EXPECT_TRUE(socket.IsOpen());
  EXPECT_TRUE(socket.SendTo("abc", 3, socket.local_address(), Soon()).ok());
  EXPECT_EQ(socket.ReceiveFrom(buffer, sizeof(buffer), nullptr, nullptr, Soon()).bytes, 3u);
}

TEST_P(UdpSocketTest, ConnectedItHearsItsPeerOnly) {
  InFiberAndInThread([] {
    UdpSocket server;
    UdpSocket stranger;
    UdpSocket client;
    ASSERT_FALSE(server.Bind(OwnLoopback()));
    ASSERT_FALSE(stranger.Bind(OwnLoopback()));
    ASSERT_FALSE(client.Connect(server.local_address()));
    EXPECT_TRUE(client.Send("request", 7, Soon()).ok());
    char buffer[16];
    SocketAddress from;
    EXPECT_EQ(server.ReceiveFrom(buffer, sizeof(buffer), &from, Soon()).bytes, 7u);
    EXPECT_EQ(from, client.local_address());
    EXPECT_TRUE(stranger.SendTo("spam", 4, client.local_address(), Soon()).ok());
    EXPECT_TRUE(server.SendTo("answer", 6, from, Soon()).ok());
    const IoResult got = client.Receive(buffer, sizeof(buffer), Soon());
    EXPECT_EQ(std::string_view(buffer, got.bytes), "answer");
    // Once more from its own port, by Bind() first.
    ASSERT_FALSE(client.Bind(OwnLoopback()));
    ASSERT_FALSE(client.Connect(server.local_address()));
    EXPECT_TRUE(client.Send("", 0, Soon()).ok());
    EXPECT_EQ(server.ReceiveFrom(buffer, sizeof(buffer), &from, Soon()).bytes, 0u);
    EXPECT_EQ(from, client.local_address());
  });
}

TEST_P(UdpSocketTest, APeerThatIsNotThereIsTold) {
  InFiberAndInThread([] {
    UdpSocket gone;
    ASSERT_FALSE(gone.Bind(OwnLoopback()));
    UdpSocket client;
    ASSERT_FALSE(client.Connect(gone.local_address()));
    gone.Close();
    EXPECT_TRUE(client.Send("x", 1, Soon()).ok());
    char buffer[1];
    EXPECT_EQ(client.Receive(buffer, 1, Soon()).error, std::errc::connection_refused);
  });
}

TEST_P(UdpSocketTest, AnUnnamedSenderHasNoAddress) {
  UdpSocket socket;
  ASSERT_FALSE(socket.Bind(UnixAddress()));
  const SocketAddress address = socket.local_address();
  InFiberAndInThread([&] {
    const int unnamed = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::sendto(unnamed, "x", 1, 0, address.data(), address.size()), 1);
    ::close(unnamed);
    char buffer[1];
    SocketAddress from = SocketAddress::LoopbackIpv4(80);
    EXPECT_EQ(socket.ReceiveFrom(buffer, 1, &from, Soon()).bytes, 1u);
    EXPECT_EQ(from, SocketAddress()) << from.ToString();
  });
}

TEST_P(UdpSocketTest, DeadlinesAndClose) {
  for (const bool in_fiber : {true, false}) {
    UdpSocket socket;
    ASSERT_FALSE(socket.Bind(OwnLoopback()));
    std::atomic<bool> timed_out{false};
    Actor receiver(in_fiber, [&] {
      char buffer[1];
      const auto begin = Steady::now();
      EXPECT_EQ(socket.Receive(buffer, 1, 5ms).error, std::errc::timed_out);
      EXPECT_GE(Steady::now() - begin, 5ms);
      timed_out = true;
      EXPECT_EQ(socket.Receive(buffer, 1, Soon()).error, std::errc::operation_canceled);
    });
    ASSERT_TRUE(Reaches([&] { return timed_out.load(); }));
    EXPECT_TRUE(socket.Close());
    receiver.Join();
    EXPECT_FALSE(socket.IsOpen());
    EXPECT_EQ(socket.Send("x", 1).error, std::errc::operation_canceled);
    EXPECT_EQ(socket.local_address(), SocketAddress());
  }
}

TEST_P(UdpSocketTest, ManyAskAndAreAnswered) {
  UdpSocket server;
  ASSERT_FALSE(server.Bind(OwnLoopback()));
  std::vector<Fiber> servers;
  for (int i = 0; i < 4; ++i) {
    servers.emplace_back([&] {
      char buffer[64];
      for (;;) {
        SocketAddress from;
        const IoResult got = server.ReceiveFrom(buffer, sizeof(buffer), &from);
        if (!got.ok()) break;
        EXPECT_TRUE(server.SendTo(buffer, got.bytes, from, Soon()).ok());
      }
    });
  }
  AskFromManyFibers(server.local_address());
  server.Close();
  for (Fiber& fiber : servers) fiber.Join();
}

// Beside what tcp_listener_test.cc says of such files.
TEST_P(UdpSocketTest, TheFileOfAUnixSocketGoesWithItAndADeadOneIsTakenOver) {
  InFiberAndInThread([] {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/socket";
    const SocketAddress address = *SocketAddress::Parse("unix:" + path);
    const auto exists = [&path] { return ::access(path.c_str(), F_OK) == 0; };
    const int dead = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(dead, address.data(), address.size()), 0);
    UdpSocket socket;
    EXPECT_EQ(socket.Bind(address), std::errc::address_in_use);  // It is alive yet.
    ::close(dead);
    ASSERT_FALSE(socket.Bind(address));
    UdpSocket second;
    EXPECT_EQ(second.Bind(address), std::errc::address_in_use);
    UdpSocket sender;
    ASSERT_FALSE(sender.Connect(address));
    EXPECT_TRUE(sender.Send("x", 1, Soon()).ok());
    EXPECT_TRUE(socket.Close());
    EXPECT_FALSE(exists());
    ASSERT_FALSE(UdpSocket().Bind(address));
    EXPECT_FALSE(exists());
    ASSERT_FALSE(socket.Bind(address));
    ASSERT_FALSE(socket.Bind(UnixAddress()));
    EXPECT_FALSE(exists());
    ASSERT_FALSE(socket.Bind(address));
    second = std::move(socket);
    EXPECT_TRUE(exists());
    second = UdpSocket();
    EXPECT_FALSE(exists());
  });
}

// The file of another socket, with the number (the inode) that the former one had, as file systems give it again.
class FileOfAnother {
 public:
  explicit FileOfAnother(std::string path) : path_(std::move(path)) {
    EXPECT_EQ(::link(path_.c_str(), (path_ + "2").c_str()), 0);
  }
  void Appear() const { EXPECT_EQ(::link((path_ + "2").c_str(), path_.c_str()), 0); }
  bool exists() const { return ::access(path_.c_str(), F_OK) == 0; }

 private:
  const std::string path_;
};

// SOF1.
TEST_P(UdpSocketTest, AClosedSocketThatConnectsHasNoFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/socket";
  UdpSocket server;
  ASSERT_FALSE(server.Bind(UnixAddress()));
  UdpSocket socket;
  ASSERT_FALSE(socket.Bind(*SocketAddress::Parse("unix:" + path)));
  const FileOfAnother file(path);
  ASSERT_TRUE(socket.Close());
  EXPECT_FALSE(file.exists());
  file.Appear();
  ASSERT_FALSE(socket.Connect(server.local_address()));
  EXPECT_TRUE(socket.Close());
  EXPECT_TRUE(file.exists());
}

// SOF1. Two Close() at once; the later one still has its look at the file before it.
TEST_P(UdpSocketTest, TheFileOfAUnixSocketIsRemovedOnce) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/socket";
  Descriptor socket;
  ASSERT_FALSE(OpenSocket(AF_UNIX, SOCK_DGRAM, &socket));
  std::unique_ptr<SocketFile> removes;
  ASSERT_FALSE(SocketFile::Bind(socket.fd(), *SocketAddress::Parse("unix:" + path), ForksSoFar(), &removes));
  const FileOfAnother file(path);
  removes->Remove(socket);
  EXPECT_FALSE(file.exists());
  file.Appear();
  removes->Remove(socket);
  EXPECT_TRUE(file.exists());
}

}  // namespace
}  // namespace weft::io
