// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/cancel_on_hangup.h"

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/io/io_fixture.h"
#include "weft/tests/io/work_for_nobody.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

class CancelOnHangupTest : public IoTest {
 protected:
  // Cancelled by the hang-up, not by the end of patience.
  static bool EndsByHangup(
      TcpStream& stream, Hangup what, const std::function<void()>& meanwhile = [] {}) {
    CancelScope scope(Soon());
    const CancelOnHangup watch(stream, &scope, what);
    EXPECT_FALSE(watch.error()) << watch.error().message();
    const bool returned = scope.Run([&] {
      meanwhile();
      FiberEvent().Wait();
    });
    EXPECT_FALSE(returned);
    EXPECT_EQ(watch.hung_up(), !scope.DeadlineHasPassed());
    return watch.hung_up();
  }
  // The kernel has told the server's side.
  static bool HasSeen(const TcpStream& stream, short events) {
    pollfd polled{.fd = stream.fd(), .events = events, .revents = 0};
    return ::poll(&polled, 1, 30'000) == 1;
  }
};
WEFT_INSTANTIATE_IO_SHAPES(CancelOnHangupTest);

TEST_P(CancelOnHangupTest, AClientThatClosesCancelsWhatItsRequestHasStarted) {
  InFiber([] {
    for (const SocketAddress& address : {OwnLoopback(), UnixAddress()}) {
      Pair pair = ConnectedPair(address);
      CancelScope scope(Soon());
      FiberLatch begun(3);
      std::atomic<int> cancelled{0};
      const CancelOnHangup watch(pair.server, &scope);
      EXPECT_FALSE(scope.Run([&] {
        FiberScope parts;
        for (int i = 0; i < 3; ++i) {
          EXPECT_TRUE(parts.Spawn([&] {
            begun.CountDown();
            try {
              FiberEvent().Wait();
            } catch (const FiberCancelled&) {
              ++cancelled;
              throw;
            }
          }));
        }
        begun.Wait();
        pair.client.Close();
        parts.Wait();
      }));
      EXPECT_EQ(cancelled, 3);
      EXPECT_TRUE(watch.hung_up());
    }
  });
}

TEST_P(CancelOnHangupTest, AResetCountsAlways) {
  InFiber([] {
    for (const Hangup what : {Hangup::kEnd, Hangup::kReset}) {
      Pair pair = ConnectedPair();
      EXPECT_TRUE(EndsByHangup(pair.server, what, [&] { pair.client.Reset(); }));
    }
  });
}

TEST_P(CancelOnHangupTest, AHalfCloseCountsAsTheProtocolSays) {
  InFiber([this] {
    for (const SocketAddress& address : {OwnLoopback(), UnixAddress()}) {
      Pair pair = ConnectedPair(address);
      pair.client.ShutdownWrite();
      ASSERT_TRUE(HasSeen(pair.server, POLLRDHUP));
      {
        const std::uint64_t before = runtime_.counts().events;
        CancelScope scope;
        const CancelOnHangup watch(pair.server, &scope, Hangup::kReset);
        EXPECT_TRUE(Reaches([&] { return runtime_.counts().events > before; }));
        EXPECT_FALSE(scope.IsCancelled());
        EXPECT_TRUE(pair.server.WriteAll("answer").ok());
        char answer[6];
        EXPECT_EQ(pair.client.ReadAll(answer, sizeof(answer), Soon()).bytes, 6u);
      }
      EXPECT_TRUE(EndsByHangup(pair.server, Hangup::kEnd));
    }
  });
}

TEST_P(CancelOnHangupTest, OnAUnixSocketACloseIsToldFromAHalfClose) {
  InFiber([] {
    Pair pair = ConnectedPair(UnixAddress());
    EXPECT_TRUE(EndsByHangup(pair.server, Hangup::kReset, [&] { pair.client.Close(); }));
  });
}

TEST_P(CancelOnHangupTest, AResetAfterAHalfCloseIsNoticed) {
  InFiber([] {
    Pair pair = ConnectedPair();
    pair.client.ShutdownWrite();
    ASSERT_TRUE(HasSeen(pair.server, POLLRDHUP));
    EXPECT_TRUE(EndsByHangup(pair.server, Hangup::kReset, [&] {
      pair.client.Close();
      EXPECT_TRUE(pair.server.WriteAll("nobody reads it").ok());
    }));
  });
}

// Pipelined requests may lie before the end.
TEST_P(CancelOnHangupTest, UnreadDataDoNotHideTheEnd) {
  InFiber([] {
    Pair pair = ConnectedPair();
    EXPECT_TRUE(pair.client.WriteAll("GET / HTTP/1.1\r\n").ok());
    char byte;
    EXPECT_EQ(pair.server.ReadSome(&byte, 1, Soon()).bytes, 1u);
    EXPECT_TRUE(EndsByHangup(pair.server, Hangup::kEnd, [&] { pair.client.Close(); }));
  });
}

TEST_P(CancelOnHangupTest, AnEndThatHasBeenReportedBeforeCancelsAtOnce) {
  InFiber([] {
    Pair pair = ConnectedPair();
    {
      CancelScope before;
      const CancelOnHangup watch(pair.server, &before);
      pair.client.Close();
      EXPECT_TRUE(Reaches([&] { return watch.hung_up(); }));
    }
    CancelScope scope;
    {
      const CancelOnHangup watch(pair.server, &scope);
      EXPECT_TRUE(watch.hung_up());
    }
    EXPECT_FALSE(scope.Run([] { TestCancel(); }));
  });
}

TEST_P(CancelOnHangupTest, DataAloneCancelNothing) {
  InFiber([] {
    Pair pair = ConnectedPair();
    CancelScope scope(Soon());
    const CancelOnHangup watch(pair.server, &scope);
    EXPECT_TRUE(scope.Run([&] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(pair.client.WriteAll("x").ok());
        char byte;
        EXPECT_EQ(pair.server.ReadSome(&byte, 1).bytes, 1u);
      }
    }));
    EXPECT_FALSE(watch.hung_up());
  });
}

TEST_P(CancelOnHangupTest, OurOwnShutdownIsNoHangupAndHidesNone) {
  InFiber([this] {
    for (const SocketAddress& address : {OwnLoopback(), UnixAddress()}) {
      Pair pair = ConnectedPair(address);
      bool went_on = false;
      EXPECT_TRUE(EndsByHangup(pair.server, Hangup::kEnd, [&] {
        const std::uint64_t before = runtime_.counts().events;
        pair.server.ShutdownRead();
        EXPECT_TRUE(Reaches([&] { return runtime_.counts().events > before; }));
        TestCancel();
        went_on = true;
        pair.client.Close();
      }));
      EXPECT_TRUE(went_on);
    }
  });
}

TEST_P(CancelOnHangupTest, AfterItsEndTheScopeIsLeftAlone) {
  InFiber([] {
    Pair pair = ConnectedPair();
    CancelScope scope;
    { const CancelOnHangup watch(pair.server, &scope); }
    pair.client.Close();
    char byte;
    EXPECT_TRUE(scope.Run([&] { EXPECT_EQ(pair.server.ReadSome(&byte, 1, Soon()).bytes, 0u); }));
    EXPECT_FALSE(scope.IsCancelled());
  });
}

TEST_P(CancelOnHangupTest, TheStreamMayBeMovedAndClosedMeanwhile) {
  InFiber([] {
    Pair pair = ConnectedPair();
    CancelScope scope;
    const CancelOnHangup watch(pair.server, &scope);
    TcpStream moved = std::move(pair.server);
    moved.Close();
    EXPECT_EQ(watch.error(), std::error_code());
    TcpStream none;
    EXPECT_EQ(CancelOnHangup(none, &scope).error(), std::errc::operation_canceled);
  });
}

TEST_P(CancelOnHangupTest, InAPlainThreadItWatchesNothing) {
  std::thread([] {
    Pair pair = ConnectedPair();
    CancelScope scope;
    const CancelOnHangup watch(pair.server, &scope);
    EXPECT_FALSE(watch.error());
    pair.client.Close();
    ASSERT_TRUE(HasSeen(pair.server, POLLRDHUP));
    EXPECT_FALSE(watch.hung_up());
  }).join();
}

// Slots of closed connections are used again; events of their former use must not count.
TEST_P(CancelOnHangupTest, ConnectionsComeAndGoAndOnlyTheirOwnEndsCount) {
  FiberLatch ended(8);
  std::vector<Fiber> fibers;
  for (int f = 0; f < 8; ++f) {
    fibers.emplace_back([&, f] {
      for (int i = 0; i < Scaled(40); ++i) {
        Pair pair = ConnectedPair();
        const bool hangs_up = (f + i) % 2 == 0;
        CancelScope scope(Soon());
        const CancelOnHangup watch(pair.server, &scope);
        const bool returned = scope.Run([&] {
          if (hangs_up) pair.client.Close();
          for (int turn = 0; hangs_up || turn < 8; ++turn) FiberYield();
        });
        EXPECT_EQ(returned, !hangs_up);
        EXPECT_EQ(watch.hung_up(), hangs_up);
      }
      ended.CountDown();
    });
  }
  ended.Wait();
  for (Fiber& fiber : fibers) fiber.Join();
}

// Work and hang-ups are counted, not timed: a client goes when its request has done a tenth of its slices. A slice is a
// wait and what a worker does after it, so that a machine that stops for a moment does no slices, either. One that runs
// some threads and not others does; it gets further tries.
TEST_P(CancelOnHangupTest, LessThanATenthOfTheWorkForNobodyIsLeft) {
  InFiber([] {
    HangupLoad load{.clients = 16,
                    .slice = [] { FiberSleepFor(1ms); },
                    .patience =
                        [&load](const ClientRequest& request) {
                          while (request.slices < load.parts * load.slices / 10) FiberSleepFor(100us);
                        }};
    HangupWork without;
    HangupWork with;
    for (int tries = 0; tries < 5; ++tries) {
      load.cancels = false;
      without = ServeClientsThatHangUp(load);
      EXPECT_GT(without.for_nobody, 0u);
      load.cancels = true;
      with = ServeClientsThatHangUp(load);
      if (10 * with.for_nobody < without.for_nobody) break;
    }
    RecordProperty("without", static_cast<int>(without.for_nobody));
    RecordProperty("with", static_cast<int>(with.for_nobody));
    EXPECT_LT(10 * with.for_nobody, without.for_nobody);
  });
}

}  // namespace
}  // namespace weft::io
