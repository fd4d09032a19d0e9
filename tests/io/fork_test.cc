// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a forked child does to its copies of descriptors and servers, as destructors do at exit(), is no loss to the
// parent (RE4).

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <optional>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/io/reactor/epoll_reactor.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/tests/fiber/forked_child.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using fiber::Ended;
using fiber::Fork;

TcpListener Listening() {
  TcpListener listener;
  EXPECT_FALSE(listener.Listen(OwnLoopback()));
  return listener;
}

class IoForkTest : public ::testing::Test {
 protected:
  IoRuntime runtime_{Shape{2, 1}};
};

// A byte that the reader has to wait for.
void SendAByte(TcpStream& from, TcpStream& to) {
  Fiber([&] {
    Fiber reader([&] {
      char byte = 0;
      const Deadline limit = Soon();
      const IoResult got = to.ReadSome(&byte, 1, limit);
      EXPECT_TRUE(got.ok()) << got.error.message();
      EXPECT_FALSE(limit.expired()) << "it was not woken, and looked when its time was up";
    });
    FiberSleepFor(std::chrono::milliseconds(1));  // Mostly it waits by then; where it does not, nothing is shown.
    EXPECT_TRUE(from.WriteAll("x", Soon()).ok());
    reader.Join();
  }).Join();
}

TEST_F(IoForkTest, AChildThatClosesAStreamDoesNotTakeItsEventsFromTheParent) {
  TcpListener listener = Listening();
  TcpStream ours;
  TcpStream theirs;
  ASSERT_FALSE(ours.Connect(listener.local_address(), Soon()));
  ASSERT_FALSE(listener.Accept(&theirs, Soon()));
  // Until `ours` is registered, and nobody waits for it: a reader that finds its byte there does not register it.
  for (const Deadline limit = Soon(); runtime_.counts().descriptors == 0 && !limit.expired();) SendAByte(theirs, ours);
  ASSERT_GT(runtime_.counts().descriptors, std::size_t{0});
  const Ended ended = Fork([&] { ours.Close(); });
  EXPECT_TRUE(ended.with(fiber::kFine)) << ended.status << ' ' << ended.text;
  SendAByte(theirs, ours);
}

TEST_F(IoForkTest, AServerThatIsStoppedInAChildSaysSoAndServesTheParent) {
  TcpServer server(Listening(), [](TcpStream& stream) {
    char byte = 0;
    while (stream.ReadSome(&byte, 1).bytes == 1) static_cast<void>(stream.WriteAll(&byte, 1));
  });
  ASSERT_TRUE(server.Start());
  TcpStream client;
  ASSERT_FALSE(client.Connect(server.local_address(), Soon()));
  const auto echoed = [&] {
    char byte = 0;
    EXPECT_TRUE(client.WriteAll("x", 1, Soon()).ok());
    const IoResult got = client.ReadSome(&byte, 1, Soon());
    return got.ok() && got.bytes == 1;
  };
  EXPECT_TRUE(echoed());
  const Ended ended = Fork([&] { server.Stop(std::chrono::seconds(1)); });
  EXPECT_TRUE(ended.by(SIGABRT)) << ended.status;
  fiber::ExpectOneLine(ended, "TcpServer::Stop");
  EXPECT_TRUE(echoed());
  client.Close();
  server.Stop(Soon());
  // One that has ended may be destroyed there.
  EXPECT_TRUE(Fork([&] { server.Stop(Soon()); }).with(fiber::kFine));
}

}  // namespace
}  // namespace weft::io
