// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/connection_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/io/tcp_listener.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Lease = ConnectionPool::Lease;

class ConnectionPoolTest : public IoTest {
 protected:
  ConnectionPoolTest() { EXPECT_FALSE(listener_.Listen(OwnLoopback())); }
  ConnectionPool::Connect Connecting() {
    return
        [this](TcpStream* stream, Deadline deadline) { return stream->Connect(listener_.local_address(), deadline); };
  }
  TcpStream Accepted() {
    TcpStream stream;
    EXPECT_FALSE(listener_.Accept(&stream, Soon()));
    return stream;
  }
  static void UseOnce(ConnectionPool& pool) {
    Lease lease;
    ASSERT_FALSE(pool.Acquire(&lease, Soon()));
    lease.GiveBack();
  }

  TcpListener listener_;
};
INSTANTIATE_TEST_SUITE_P(Shapes, ConnectionPoolTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}), &fiber::NameOf);

TEST_P(ConnectionPoolTest, WhatIsGivenBackIsLentAgain) {
  InFiberAndInThread([&] {
    ConnectionPool pool(Connecting());
    Lease lease;
    EXPECT_FALSE(lease);
    ASSERT_FALSE(pool.Acquire(&lease, Soon()));
    EXPECT_TRUE(lease);
    EXPECT_FALSE(lease.is_reused());
    const SocketAddress first = lease->local_address();
    lease.GiveBack();
    EXPECT_FALSE(lease);
    TcpStream server = Accepted();
    ASSERT_FALSE(pool.Acquire(&lease, Soon()));
    EXPECT_TRUE(lease.is_reused());
    EXPECT_EQ(lease->local_address(), first);
    EXPECT_TRUE(server.WriteAll("hello").ok());
    char buffer[5];
    EXPECT_EQ(lease->ReadAll(buffer, Soon()).bytes, 5U);
    lease.GiveBack();
    const ConnectionPool::Counts counts = pool.counts();
    EXPECT_EQ(counts.connected, 1U);
    EXPECT_EQ(counts.reused, 1U);
    EXPECT_EQ(counts.lent, 0U);
    EXPECT_EQ(counts.idle, 1U);
    pool.CloseIdle();
    EXPECT_EQ(pool.counts().idle, 0U);
    EXPECT_EQ(server.ReadSome(buffer, Soon()).bytes, 0U) << "it is closed";
  });
}

TEST_P(ConnectionPoolTest, WhatIsNotGivenBackIsClosed) {
  InFiberAndInThread([&] {
    ConnectionPool pool(Connecting());
    {
      Lease lease;
      ASSERT_FALSE(pool.Acquire(&lease, Soon()));
      Lease moved = std::move(lease);
      EXPECT_EQ(pool.counts().lent, 1U);
    }
    TcpStream server = Accepted();
    char byte;
    EXPECT_EQ(server.ReadSome(&byte, 1, Soon()).bytes, 0U);
    EXPECT_EQ(pool.counts().idle, 0U);
    EXPECT_EQ(pool.counts().lent, 0U);
  });
}

// Its server has closed it, has sent what nobody asked for, or nobody has used it for long; or its last user closed it.
TEST_P(ConnectionPoolTest, AnUnhealthyConnectionIsNotLent) {
  InFiberAndInThread([&] {
    ConnectionPool pool(Connecting());
    for (int how = 0; how < 3; ++how) {
      UseOnce(pool);
      TcpStream server = Accepted();
      const auto unhealthy = pool.counts().unhealthy;
      if (how == 0) server.Close();
      if (how == 1) server.Reset();
      if (how == 2) {
        EXPECT_TRUE(server.WriteAll("x").ok());
      }
      Lease lease;
      ASSERT_FALSE(pool.Acquire(&lease, Soon()));
      EXPECT_FALSE(lease.is_reused()) << how;
      EXPECT_EQ(pool.counts().unhealthy, unhealthy + 1);
      TcpStream next = Accepted();
      lease->Close();
      lease.GiveBack();
      EXPECT_EQ(pool.counts().idle, 0U);
    }
    ConnectionPool short_lived(Connecting(), {.idle_timeout = 10ms});
    UseOnce(short_lived);
    const Deadline too_old = 10ms;
    ASSERT_TRUE(Reaches([&] { return too_old.expired(); }));
    UseOnce(short_lived);
    EXPECT_EQ(short_lived.counts().connected, 2U);
    TcpStream first = Accepted();
    TcpStream second = Accepted();
  });
}

TEST_P(ConnectionPoolTest, TheOneThatIsIdleLongestGoesWhenThereAreTooMany) {
  ConnectionPool pool(Connecting(), {.max_idle = 2});
  std::vector<Lease> leases(3);
  std::vector<SocketAddress> addresses;
  for (Lease& lease : leases) {
    ASSERT_FALSE(pool.Acquire(&lease, Soon()));
    addresses.push_back(lease->local_address());
  }
  for (Lease& lease : leases) lease.GiveBack();
  EXPECT_EQ(pool.counts().idle, 2U);
  ASSERT_FALSE(pool.Acquire(&leases[0], Soon()));
  EXPECT_EQ(leases[0]->local_address(), addresses[2]) << "the last one first";
  ASSERT_FALSE(pool.Acquire(&leases[1], Soon()));
  EXPECT_EQ(leases[1]->local_address(), addresses[1]);
}

TEST_P(ConnectionPoolTest, ACallerWaitsForItsTurn) {
  for (const bool in_fiber : {true, false}) {
    ConnectionPool pool(Connecting(), {.max_connections = 1});
    Lease lease;
    ASSERT_FALSE(pool.Acquire(&lease, Soon()));
    std::atomic<bool> waits{false};
    Actor next(in_fiber, [&] {
      Lease second;
      EXPECT_EQ(pool.Acquire(&second, 1ms), std::errc::timed_out);
      EXPECT_FALSE(second);
      waits = true;
      EXPECT_FALSE(pool.Acquire(&second, Soon()));
      EXPECT_TRUE(second.is_reused());
    });
    ASSERT_TRUE(Reaches([&] { return waits.load(); }));
    lease.GiveBack();
    next.Join();
    EXPECT_EQ(pool.counts().connected, 1U);
  }
}

TEST_P(ConnectionPoolTest, ACancellationEndsTheWaitForATurnAndTakesNone) {
  ConnectionPool pool(Connecting(), {.max_connections = 1});
  Lease lease;
  ASSERT_FALSE(pool.Acquire(&lease, Soon()));
  std::atomic<bool> waits{false};
  Fiber next([&] {
    Lease second;
    waits = true;
    EXPECT_EQ(pool.Acquire(&second, Soon()), std::errc::operation_canceled);
    EXPECT_FALSE(second);
    EXPECT_EQ(pool.Acquire(&second, Soon()), std::errc::operation_canceled);
  });
  ASSERT_TRUE(Reaches([&] { return waits.load(); }));
  EXPECT_TRUE(next.Cancel());
  next.Join();
  EXPECT_EQ(pool.counts().lent, 1U);
  lease.GiveBack();
  ASSERT_FALSE(pool.Acquire(&lease, Soon()));
  EXPECT_TRUE(lease.is_reused());
}

TEST_P(ConnectionPoolTest, AFailureToConnectTakesNoTurn) {
  InFiberAndInThread([&] {
    int calls = 0;
    ConnectionPool pool(
        [&](TcpStream*, Deadline) -> std::error_code {
          if (++calls == 2) throw std::runtime_error("no");
          return std::make_error_code(std::errc::connection_refused);
        },
        {.max_connections = 1});
    Lease lease;
    EXPECT_EQ(pool.Acquire(&lease, 0s), std::errc::connection_refused);
    EXPECT_THROW((void)pool.Acquire(&lease, 0s), std::runtime_error);
    EXPECT_EQ(pool.Acquire(&lease, 0s), std::errc::connection_refused);
    EXPECT_EQ(pool.counts().lent, 0U);
  });
}

TEST_P(ConnectionPoolTest, ManyShareAFew) {
  ConnectionPool pool(Connecting(), {.max_connections = 4, .max_idle = 2});
  std::atomic<int> lent{0};
  {
    std::vector<Actor> actors;
    for (int a = 0; a < 8; ++a) {
      actors.emplace_back(a % 4 != 0, [&] {
        for (int i = 0; i < Scaled(50); ++i) {
          Lease lease;
          EXPECT_FALSE(pool.Acquire(&lease, Soon()));
          EXPECT_LE(++lent, 4);
          EXPECT_TRUE(lease->WriteAll("x").ok());
          --lent;
          if (i % 8 != 0) lease.GiveBack();
        }
      });
    }
  }
  const ConnectionPool::Counts counts = pool.counts();
  EXPECT_EQ(counts.lent, 0U);
  EXPECT_LE(counts.idle, 2U);
  EXPECT_EQ(counts.connected + counts.reused, 8U * static_cast<unsigned>(Scaled(50)));
}

}  // namespace
}  // namespace weft::io
