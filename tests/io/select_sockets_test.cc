// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/select_sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "weft/fiber/this_fiber.h"
#include "weft/io/reactor/fd_slot.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/select.h"
#include "weft/tests/io/io_fixture.h"
#include "weft/tests/testing/scripted_case.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

class IoSelectTest : public IoTest {
 protected:
  [[nodiscard]] bool AwaitRegistered(std::uint32_t descriptors) {
    return Reaches([&] { return runtime_.counts().descriptors >= descriptors; });
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, IoSelectTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}),
                         &fiber::NameOf);

struct Pipe {
  Pipe() {
    int both[2];
    if (::pipe2(both, O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
    read = both[0];
    write = both[1];
  }
  ~Pipe() {
    CloseRead();
    EXPECT_FALSE(CloseFd(write));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void WriteByte() const { EXPECT_EQ(::write(write, "x", 1), 1); }
  void ReadByte() const {
    char byte;
    EXPECT_EQ(::read(read, &byte, 1), 1);
  }
  void CloseRead() {
    if (read >= 0) {
      EXPECT_FALSE(CloseFd(std::exchange(read, -1)));
    }
  }
  int read;
  int write;
};

// --- Sockets ---

TEST_P(IoSelectTest, AStreamThatIsReadableEndsTheWait) {
  InFiber([] {
    Pair pair = ConnectedPair();
    FiberEvent never;
    EXPECT_EQ(Select(OnReadable(pair.server), OnSet(never), Otherwise()), 2U);
    EXPECT_EQ(Select(OnReadable(pair.server), OnDeadline(1ms)), 1U);
    for (int i = 0; i < 50; ++i) {
      Fiber writer([&] { EXPECT_TRUE(pair.client.WriteAll("ping").ok()); });
      std::error_code error = ErrnoCode(EIO);
      EXPECT_EQ(Select(OnSet(never), OnReadable(pair.server, [&](std::error_code how) { error = how; })), 1U);
      EXPECT_FALSE(error);
      writer.Join();
      char data[16];
      EXPECT_EQ(pair.server.ReadSome(data, sizeof(data), 0s).bytes, 4U) << "it does not wait";
      EXPECT_EQ(Select(OnReadable(pair.server), OnSet(never), Otherwise()), 2U) << "all was read";
    }
  });
}

// A read that leaves bytes, and one that leaves none though it filled its buffer.
TEST_P(IoSelectTest, WhatIsLeftIsStillReadable) {
  InFiber([] {
    Pair pair = ConnectedPair();
    FiberEvent never;
    EXPECT_TRUE(pair.client.WriteAll("four").ok());
    char data[2];
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(Select(OnReadable(pair.server), OnSet(never)), 0U);
      EXPECT_EQ(pair.server.ReadSome(data, sizeof(data), 0s).bytes, 2U);
    }
    EXPECT_EQ(Select(OnReadable(pair.server), OnDeadline(1ms)), 1U);
  });
}

TEST_P(IoSelectTest, TheEndOfAStreamIsReadable) {
  InFiber([] {
    Pair pair = ConnectedPair();
    FiberEvent never;
    Fiber closer([&] { pair.client.Close(); });
    EXPECT_EQ(Select(OnReadable(pair.server), OnSet(never)), 0U);
    char byte;
    const IoResult end = pair.server.ReadSome(&byte, 1, 0s);
    EXPECT_TRUE(end.ok());
    EXPECT_EQ(end.bytes, 0U);
    closer.Join();
  });
}

TEST_P(IoSelectTest, AStreamBecomesWritable) {
  InFiber([] {
    Pair pair = ConnectedPair(UnixAddress());
    FiberEvent never;
    EXPECT_EQ(Select(OnWritable(pair.client), OnSet(never)), 0U);
    const std::string much(1U << 16, 'x');
    while (pair.client.WriteSome(much.data(), much.size(), 0s).ok()) {
    }
    EXPECT_EQ(Select(OnWritable(pair.client), OnDeadline(1ms)), 1U);
    Fiber reader([&] {
      std::string room(1U << 20, ' ');
      IoResult got;
      do {
        got = pair.server.ReadSome(room.data(), room.size(), 0s);
      } while (got.ok() && got.bytes != 0);
    });
    EXPECT_EQ(Select(OnSet(never), OnWritable(pair.client)), 1U);
    reader.Join();
  });
}

TEST_P(IoSelectTest, AConnectionMakesAListenerReadable) {
  InFiber([] {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    FiberEvent never;
    EXPECT_EQ(Select(OnReadable(listener), OnDeadline(1ms)), 1U);
    TcpStream client;
    Fiber connects([&] { EXPECT_FALSE(client.Connect(listener.local_address(), Soon())); });
    EXPECT_EQ(Select(OnReadable(listener), OnSet(never)), 0U);
    TcpStream server;
    EXPECT_FALSE(listener.Accept(&server, 0s));
    connects.Join();
  });
}

TEST_P(IoSelectTest, ADatagramMakesASocketReadable) {
  InFiber([] {
    UdpSocket receiver;
    ASSERT_FALSE(receiver.Bind(OwnLoopback()));
    UdpSocket sender;
    ASSERT_FALSE(sender.Connect(receiver.local_address()));
    FiberEvent never;
    EXPECT_EQ(Select(OnReadable(receiver), OnDeadline(1ms)), 1U);
    EXPECT_EQ(Select(OnWritable(sender), OnSet(never)), 0U);
    Fiber sends([&] { EXPECT_TRUE(sender.Send("x", 1).ok()); });
    EXPECT_EQ(Select(OnReadable(receiver), OnSet(never)), 0U);
    char byte;
    EXPECT_EQ(receiver.Receive(&byte, 1, 0s).bytes, 1U);
    sends.Join();
  });
}

TEST_P(IoSelectTest, ASocketThatIsClosedWhileSelectedIsAnError) {
  InFiber([this] {
    Pair pair = ConnectedPair();
    FiberEvent never;
    std::error_code error;
    const auto take = [&](std::error_code how) { error = how; };
    const std::uint32_t others = runtime_.counts().descriptors;
    Fiber selects([&] { EXPECT_EQ(Select(OnSet(never), OnReadable(pair.server, take)), 1U); });
    EXPECT_TRUE(AwaitRegistered(others + 1));
    EXPECT_TRUE(pair.server.Close());
    selects.Join();
    EXPECT_EQ(error, std::errc::operation_canceled);
    error = {};
    EXPECT_EQ(Select(OnReadable(pair.server, take), Otherwise()), 0U) << "it is closed";
    EXPECT_EQ(error, std::errc::operation_canceled);
    TcpStream none;
    EXPECT_EQ(Select(OnWritable(none, take), Otherwise()), 0U) << "it was never open";
    EXPECT_EQ(error, std::errc::operation_canceled);
  });
}

// Both are ready when it begins: each has its turn. Both become ready while it waits: one is taken, the other is left.
TEST_P(IoSelectTest, TwoThatAreReadyAtOnceAreTakenOneByOne) {
  InFiber([] {
    Pair one = ConnectedPair();
    Pair two = ConnectedPair();
    char byte;
    for (int i = 0; i < 100; ++i) {
      Fiber writer([&] {
        EXPECT_TRUE(one.client.WriteAll("1").ok());
        EXPECT_TRUE(two.client.WriteAll("2").ok());
      });
      if (i % 2 == 0) FiberYield();
      std::string got;
      for (int k = 0; k < 2; ++k) {
        Select(OnReadable(one.server,
                          [&](std::error_code) {
                            EXPECT_TRUE(one.server.ReadSome(&byte, 1, 0s).ok());
                            got += byte;
                          }),
               OnReadable(two.server, [&](std::error_code) {
                 EXPECT_TRUE(two.server.ReadSome(&byte, 1, 0s).ok());
                 got += byte;
               }));
      }
      EXPECT_TRUE(got == "12" || got == "21") << got;
      writer.Join();
    }
  });
}

// An event wakes both that select the socket; the second finds nothing, and goes on waiting.
TEST_P(IoSelectTest, OfTwoThatSelectOneSocketOneReads) {
  // On more workers both may look before one has read.
  const bool one_at_a_time = GetParam().workers * GetParam().groups == 1;
  InFiber([&] {
    Pair pair = ConnectedPair();
    FiberEvent stop;
    std::atomic<int> read{0};
    std::atomic<int> late{0};
    const auto reads = [&] {
      const auto take = [&](std::error_code error) {
        EXPECT_FALSE(error);
        char byte;
        pair.server.ReadSome(&byte, 1, 0s).ok() ? ++read : ++late;
      };
      while (Select(OnReadable(pair.server, take), OnSet(stop)) == 0) {
      }
    };
    Fiber one(reads);
    Fiber two(reads);
    for (int i = 1; i <= 20; ++i) {
      EXPECT_TRUE(Reaches([&] { return read == i - 1; }));
      EXPECT_TRUE(pair.client.WriteAll("x").ok());
    }
    EXPECT_TRUE(Reaches([&] { return read == 20; }));
    stop.Set();
    one.Join();
    two.Join();
    EXPECT_TRUE(late == 0 || !one_at_a_time) << late;
  });
}

// The deadline passes while no worker asks for events.
TEST_P(IoSelectTest, WhatIsReadyAtTheDeadlineIsTaken) {
  InFiber([&] {
    Pair pair = ConnectedPair();
    char byte;
    EXPECT_EQ(pair.server.ReadSome(&byte, 1, 1ms).error, std::errc::timed_out);
    FiberEvent selects;
    const Deadline deadline = 5ms;
    bool in_time = false;
    Fiber writer([&] {
      selects.Wait();
      FiberYield();
      EXPECT_TRUE(pair.client.WriteAll("x").ok());
      in_time = !deadline.expired();  // Not if other programs have the CPU.
      const Deadline busy = 20ms;
      while (!busy.expired()) {
      }
    });
    selects.Set();
    const std::size_t taken = Select(OnReadable(pair.server), OnDeadline(deadline));
    writer.Join();
    EXPECT_TRUE(taken == 0 || !in_time);
  });
}

// Bytes, an item and a cancellation: nothing is lost, and the slot is left.
TEST_P(IoSelectTest, ACancelledSelectLeavesTheSocket) {
  InFiber([] {
    Pair pair = ConnectedPair();
    for (int i = 0; i < Scaled(200); ++i) {
      FiberChannel<int> channel(1);
      CancelScope scope;
      int items = 0;
      Fiber selects([&] {
        static_cast<void>(scope.Run([&] {
          Select(OnReadable(pair.server), OnGet(channel, [&](const ChannelItem<int>& item) { items += item ? 1 : 0; }));
        }));
      });
      Fiber writes([&] { EXPECT_TRUE(pair.client.WriteAll("x").ok()); });
      std::thread cancels([&] { scope.Cancel(); });
      Fiber puts([&] { EXPECT_EQ(channel.TryPut(1), ChannelResult::kOk); });
      selects.Join();
      puts.Join();
      writes.Join();
      cancels.join();
      EXPECT_EQ(items + (channel.TryGet() ? 1 : 0), 1);
      char byte;
      EXPECT_EQ(pair.server.ReadSome(&byte, 1, Soon()).bytes, 1U);
    }
    EXPECT_TRUE(pair.server.Close());
  });
}

TEST_P(IoSelectTest, AThreadIsToldThatItCannotWait) {
  Pair pair;
  InFiber([&] { pair = ConnectedPair(); });
  Pipe pipe;
  FiberEvent never;
  std::error_code error;
  const auto take = [&](std::error_code how) { error = how; };
  EXPECT_EQ(Select(OnReadable(pair.server, take), OnSet(never)), 0U);
  EXPECT_EQ(error, std::errc::operation_not_supported);
  error = {};
  EXPECT_EQ(Select(OnFd(pipe.read, POLLIN, [&](WaitFdResult ready) { error = ready.error; }), OnSet(never)), 0U);
  EXPECT_EQ(error, std::errc::operation_not_supported);
  // What is ready is taken, and what is not is not waited for.
  EXPECT_EQ(Select(OnReadable(pair.server), Otherwise()), 1U);
  EXPECT_TRUE(pair.client.WriteAll("x").ok());
  ASSERT_FALSE(pair.server.WaitReadable(Soon()));
  error = ErrnoCode(EIO);
  EXPECT_EQ(Select(OnReadable(pair.server, take), OnSet(never)), 0U);
  EXPECT_FALSE(error);
}

// --- Descriptors of others ---

TEST_P(IoSelectTest, ADescriptorEndsTheWait) {
  InFiber([] {
    Pipe pipe;
    FiberEvent never;
    EXPECT_EQ(Select(OnFd(pipe.read, POLLIN), OnSet(never), Otherwise()), 2U);
    EXPECT_EQ(Select(OnFd(pipe.read, POLLIN), OnDeadline(1ms)), 1U);
    for (int i = 0; i < 50; ++i) {
      Fiber writer([&] { pipe.WriteByte(); });
      WaitFdResult ready;
      EXPECT_EQ(Select(OnSet(never), OnFd(pipe.read, POLLIN, [&](WaitFdResult how) { ready = how; })), 1U);
      EXPECT_FALSE(ready.error);
      EXPECT_EQ(ready.events, POLLIN);
      writer.Join();
      pipe.ReadByte();
    }
  });
}

// Nothing stays registered behind a selection that took another case.
TEST_P(IoSelectTest, NothingIsLeftArmed) {
  InFiber([this] {
    Pipe pipe;
    FiberEvent event;
    Fiber selects([&] { EXPECT_EQ(Select(OnFd(pipe.read, POLLIN), OnSet(event)), 1U); });
    EXPECT_TRUE(AwaitRegistered(1));
    event.Set();
    selects.Join();
    EXPECT_EQ(runtime_.counts().descriptors, 0U);
  });
}

TEST_P(IoSelectTest, ADescriptorThatIsClosedWhileSelectedIsAnError) {
  InFiber([this] {
    Pipe pipe;
    FiberEvent never;
    WaitFdResult ready;
    const auto take = [&](WaitFdResult how) { ready = how; };
    const int number = pipe.read;
    Fiber selects([&] { EXPECT_EQ(Select(OnSet(never), OnFd(number, POLLIN, take)), 1U); });
    EXPECT_TRUE(AwaitRegistered(1));
    pipe.CloseRead();
    selects.Join();
    EXPECT_EQ(ready.error, std::errc::operation_canceled);
    EXPECT_EQ(ready.events, 0);
    EXPECT_EQ(Select(OnFd(number, POLLIN, take), Otherwise()), 0U) << "it is closed";
    EXPECT_EQ(ready.error, std::errc::bad_file_descriptor);
    EXPECT_EQ(Select(OnFd(-1, POLLIN, take), OnSet(never)), 0U);
    EXPECT_EQ(ready.error, std::errc::bad_file_descriptor);
  });
}

// Another waiter's event is none of the selection's: it goes on waiting.
TEST_P(IoSelectTest, AnEventForAnotherWaiterIsPassedOver) {
  InFiber([this] {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    const std::string much(1U << 16, 'x');
    while (::write(ends[0], much.data(), much.size()) > 0) {
    }
    FiberEvent event;
    std::atomic<std::size_t> taken{99};
    Fiber selects([&] { taken = Select(OnFd(ends[0], POLLIN), OnSet(event)); });
    EXPECT_TRUE(AwaitRegistered(1));
    std::atomic<bool> writable{false};
    Fiber writer([&] {
      EXPECT_EQ(WaitFd(ends[0], POLLOUT, Soon()).events, POLLOUT);
      writable = true;
    });
    std::string room(1U << 20, ' ');
    while (!writable) {
      while (::read(ends[1], room.data(), room.size()) > 0) {
      }
      FiberYield();
    }
    writer.Join();
    EXPECT_EQ(taken, 99U) << "nothing is to be read";
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    selects.Join();
    EXPECT_EQ(taken, 0U);
    EXPECT_FALSE(CloseFd(ends[0]));
    EXPECT_FALSE(CloseFd(ends[1]));
  });
}

TEST_P(IoSelectTest, ASocketOfWeftIsNoDescriptorOfOthers) {
  // In one group: elsewhere another reactor would take it.
  Fiber({.scheduling_group = 0, .scheduling_group_local = true}, [] {
    Pair pair = ConnectedPair();
    char byte;
    EXPECT_EQ(pair.server.ReadSome(&byte, 1, 1ms).error, std::errc::timed_out);  // Registers it.
    FiberEvent never;
    WaitFdResult ready;
    Select(OnFd(pair.server.fd(), POLLIN, [&](WaitFdResult how) { ready = how; }), OnSet(never));
    EXPECT_EQ(ready.error, std::errc::device_or_resource_busy);
  }).Join();
}

// --- After a hint ---

// In a first round `hinted` is given hints, by GiveHint() of another fiber. In the next one an earlier case is
// notified, and a second sees that before `hinted` has been entered.
template <class GiveHint>
void TakeAnItemBehindAHint(synchronization::Selection* selection, synchronization::SelectCase* hinted,
                           GiveHint give_hint) {
  testing::ScriptedCase item(selection);
  testing::ScriptedCase ready(selection);
  std::atomic<int> round{0};
  item.on_enter = [&] { return ++round == 1 ? item.Waits() : item.IsNotified(); };
  ready.on_enter = [&] { return round < 2 ? ready.Waits() : ready.IsReady(); };
  Fiber hints([&] {
    while (round < 2) {
      give_hint();
      FiberYield();
    }
  });
  synchronization::SelectCase* const cases[] = {&item, &ready, hinted};
  EXPECT_EQ(selection->Wait(cases, Soon()), 0U);
  hints.Join();
  EXPECT_EQ(item.wins, 1) << "an item was lost";
}

TEST_P(IoSelectTest, ASocketIsClosedThoughAHintCameBefore) {
  InFiber([] {
    for (int i = 0; i < 12; ++i) {  // The first case is another one each time.
      Pair pair = ConnectedPair();
      FdSlot* const slot = detail::SelectAccess::SlotOf(pair.server);
      synchronization::Selection selection;
      detail::SlotCase hinted(&selection, slot, detail::Readiness::kReadable);
      TakeAnItemBehindAHint(&selection, &hinted, [&] {
        synchronization::WaitList claimed;
        slot->OnEvents(EPOLLIN, &claimed);
        synchronization::WakeAll(&claimed);
      });
      const int number = pair.server.fd();
      EXPECT_TRUE(pair.server.Close());
      EXPECT_EQ(::fcntl(number, F_GETFD), -1) << "it is in use for ever";
    }
  });
}

TEST_P(IoSelectTest, NothingIsLeftArmedThoughAHintCameBefore) {
  InFiber([this] {
    for (int i = 0; i < 12; ++i) {
      int ends[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
      synchronization::Selection selection;
      detail::FdCase hinted(&selection, ends[0], POLLIN);
      TakeAnItemBehindAHint(&selection, &hinted, [&] { EXPECT_EQ(WaitFd(ends[0], POLLOUT, Soon()).events, POLLOUT); });
      // The last wait to end takes the registration with it, if it has waited: its deadline may have passed before.
      EXPECT_TRUE(Reaches([&] {
        EXPECT_EQ(WaitFd(ends[0], POLLIN, 1ms).error, std::errc::timed_out);
        return runtime_.counts().descriptors == 0;
      }));
      EXPECT_FALSE(CloseFd(ends[0]));
      EXPECT_FALSE(CloseFd(ends[1]));
    }
  });
}

// Closed at any moment of a selection, from another thread.
TEST_P(IoSelectTest, AClosureRacesWithTheSelection) {
  InFiber([] {
    for (int i = 0; i < Scaled(200); ++i) {
      Pair pair = ConnectedPair(UnixAddress());
      Pipe pipe;
      const int number = pipe.read;
      FiberEvent never;
      std::error_code socket_error;
      std::error_code fd_error;
      Fiber selects_socket(
          [&] { Select(OnReadable(pair.server, [&](std::error_code error) { socket_error = error; }), OnSet(never)); });
      Fiber selects_fd(
          [&] { Select(OnFd(number, POLLIN, [&](WaitFdResult ready) { fd_error = ready.error; }), OnSet(never)); });
      std::thread closes([&] {
        pair.server.Close();
        pipe.CloseRead();
      });
      selects_socket.Join();
      selects_fd.Join();
      closes.join();
      EXPECT_EQ(socket_error, std::errc::operation_canceled);
      EXPECT_TRUE(fd_error == std::errc::operation_canceled || fd_error == std::errc::bad_file_descriptor) << fd_error;
    }
  });
}

}  // namespace
}  // namespace weft::io
