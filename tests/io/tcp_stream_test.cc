// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_stream.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/this_fiber.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket/socket.h"
#include "weft/io/tcp_listener.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class TcpStreamTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(TcpStreamTest);

// What is sent in a test: byte `i` of stream `seed`.
char ByteAt(std::uint64_t i, unsigned seed) { return static_cast<char>((i * 2654435761u + seed) >> 7); }

std::string BytesOf(std::uint64_t from, std::size_t count, unsigned seed) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = ByteAt(from + i, seed);
  return bytes;
}

void SetSendBuffer(TcpStream& stream, int bytes) {
  EXPECT_EQ(::setsockopt(stream.fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

// Until nothing more goes out. (The kernel may find some room later.)
void FillUp(TcpStream& stream) {
  SetSendBuffer(stream, 8192);
  const std::string much(65536, 'f');
  while (stream.WriteSome(much.data(), much.size(), 10ms).ok()) {
  }
}

// What an echo server does, until the peer has finished.
void Echo(TcpStream& stream, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char> buffer(20'000);
  for (;;) {
    const IoResult got = stream.ReadSome(buffer.data(), 1 + random() % buffer.size(), Soon());
    if (!got.ok()) ADD_FAILURE() << "echo reads: " << got.error.message();
    if (!got.ok() || got.bytes == 0) break;
    const IoResult put = stream.WriteAll(buffer.data(), got.bytes, Soon());
    if (!put.ok()) ADD_FAILURE() << "echo writes: " << put.error.message();
    if (!put.ok()) break;
  }
  EXPECT_FALSE(stream.ShutdownWrite());
}

// Sends `total` bytes in pieces of random size and reads them back, each in its own fiber or thread.
void SendAndCheck(TcpStream& stream, std::uint64_t total, unsigned seed, bool in_fiber) {
  Actor sender(in_fiber, [&stream, total, seed] {
    std::mt19937 random(seed + 1);
    for (std::uint64_t sent = 0; sent < total;) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(total - sent, 1 + random() % 30'000));
      std::string bytes = BytesOf(sent, size, seed);
      IoResult put;
      if (random() % 2 == 0) {
        put = stream.WriteAll(bytes, Soon());
      } else {
        const std::size_t cut = random() % (size + 1);
        iovec parts[] = {{bytes.data(), cut}, {nullptr, 0}, {bytes.data() + cut, size - cut}};
        put = stream.WriteAll(parts, 3, Soon());
      }
      EXPECT_TRUE(put.ok()) << put.error.message();
      EXPECT_EQ(put.bytes, size);
      if (!put.ok()) return;
      sent += size;
    }
    EXPECT_FALSE(stream.ShutdownWrite());
  });
  std::mt19937 random(seed + 2);
  std::vector<char> buffer(30'000);
  std::uint64_t received = 0;
  for (;;) {
    IoResult got;
    const std::size_t size = 1 + random() % buffer.size();
    switch (random() % 3) {
      case 0:
        got = stream.ReadSome(buffer.data(), size, Soon());
        break;
      case 1: {
        const iovec parts[] = {{buffer.data(), size / 2}, {buffer.data() + size / 2, size - size / 2}};
        got = stream.ReadSome(parts, 2, Soon());
        break;
      }
      default:
        got = stream.ReadAll(buffer.data(), size, Soon());
        break;
    }
    EXPECT_TRUE(got.ok()) << got.error.message();
    if (!got.ok() || got.bytes == 0) break;
    for (std::size_t i = 0; i < got.bytes; ++i) {
      if (buffer[i] == ByteAt(received + i, seed)) continue;
      ADD_FAILURE() << "byte " << received + i << " is another";
      return;
    }
    received += got.bytes;
  }
  EXPECT_EQ(received, total);
}

TEST_P(TcpStreamTest, EchoIsExactToTheByte) {
  for (const bool unix_socket : {false, true}) {
    for (const bool in_fiber : {true, false}) {
      Actor client(in_fiber, [unix_socket, in_fiber] {
        Pair pair = ConnectedPair(unix_socket ? UnixAddress() : OwnLoopback());
        Actor server(in_fiber, [&pair] { Echo(pair.server, 3); });
        SendAndCheck(pair.client, Scaled(2'000'000), 11, in_fiber);
      });
    }
  }
}

TEST_P(TcpStreamTest, AFiberAndAThreadEchoToEachOther) {
  for (const bool client_is_fiber : {true, false}) {
    Pair pair = ConnectedPair();
    Actor server(!client_is_fiber, [&pair] { Echo(pair.server, 4); });
    Actor client(client_is_fiber, [&] { SendAndCheck(pair.client, Scaled(500'000), 12, client_is_fiber); });
  }
}

TEST_P(TcpStreamTest, ASmallSendBufferMakesManyPartialWrites) {
  InFiber([] {
    Pair pair = ConnectedPair();
    SetSendBuffer(pair.client, 4096);
    SetSendBuffer(pair.server, 4096);
    Fiber server([&pair] { Echo(pair.server, 5); });
    SendAndCheck(pair.client, Scaled(400'000), 13, true);
    server.Join();
  });
}

TEST_P(TcpStreamTest, ManyConnectionsEchoAtTheSameTime) {
  std::vector<Fiber> fibers;
  for (unsigned i = 0; i < 40; ++i) {
    fibers.emplace_back([i] {
      Pair pair = ConnectedPair(i % 2 == 0 ? OwnLoopback() : UnixAddress());
      Fiber server([&pair, i] { Echo(pair.server, i); });
      SendAndCheck(pair.client, Scaled(80'000), i, true);
      server.Join();
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
}

TEST_P(TcpStreamTest, WriteAllOfPartsGoesOnAfterPartialWrites) {
  InFiber([] {
    Pair pair = ConnectedPair();
    SetSendBuffer(pair.client, 4096);
    std::string bytes = BytesOf(0, 300'000, 1);
    Fiber reader([&] {
      std::string got(bytes.size(), '\0');
      const IoResult all = pair.server.ReadAll(got.data(), got.size(), Soon());
      EXPECT_TRUE(all.ok());
      EXPECT_EQ(got, bytes);
    });
    // More parts than the kernel takes at once.
    std::vector<iovec> parts;
    for (std::size_t at = 0; at < bytes.size(); at += 100) parts.push_back({bytes.data() + at, 100});
    const IoResult put = pair.client.WriteAll(parts.data(), parts.size(), Soon());
    EXPECT_TRUE(put.ok());
    EXPECT_EQ(put.bytes, bytes.size());
    reader.Join();
  });
}

TEST_P(TcpStreamTest, ReadAllEndsWithThePeer) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    EXPECT_TRUE(pair.client.WriteAll("half").ok());
    EXPECT_FALSE(pair.client.ShutdownWrite());
    char buffer[16];
    const IoResult got = pair.server.ReadAll(buffer, sizeof(buffer), Soon());
    EXPECT_TRUE(got.ok());
    EXPECT_EQ(std::string_view(buffer, got.bytes), "half");
    const IoResult end = pair.server.ReadAll(buffer, sizeof(buffer), Soon());
    EXPECT_TRUE(end.ok());
    EXPECT_EQ(end.bytes, 0u);
  });
}

// Though the reactor may not have told of it yet.
TEST_P(TcpStreamTest, WaitReadableSeesWhatHasComeThoughItsDeadlineHasPassed) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    EXPECT_TRUE(pair.client.WriteAll("x").ok());
    EXPECT_FALSE(pair.server.WaitReadable(std::chrono::seconds(0)));
    // After a short read it waits for the next event.
    char buffer[16];
    EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), Soon()).bytes, 1u);
    EXPECT_EQ(pair.server.WaitReadable(std::chrono::seconds(0)), std::errc::timed_out);
    EXPECT_TRUE(pair.client.WriteAll("y").ok());
    EXPECT_FALSE(pair.server.WaitReadable(std::chrono::seconds(0)));
  });
}

// It was: a slot that is new, or whose last read filled its buffer, is worth a try, and was taken for readable.
TEST_P(TcpStreamTest, WaitReadableWaitsUntilPollWouldSaySo) {
  for (const bool unix_socket : {false, true}) {
    InFiberAndInThread([unix_socket] {
      Pair pair = ConnectedPair(unix_socket ? UnixAddress() : OwnLoopback());
      EXPECT_EQ(pair.server.WaitReadable(0s), std::errc::timed_out) << "a new connection";
      EXPECT_EQ(pair.server.WaitReadable(2ms), std::errc::timed_out) << "a new connection";
      char buffer[4];
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(pair.client.WriteAll("four").ok());
        EXPECT_FALSE(pair.server.WaitReadable(Soon()));
        EXPECT_FALSE(pair.server.WaitReadable(Soon())) << "it takes nothing";
        EXPECT_EQ(pair.server.ReadSome(buffer, Soon()).bytes, 4u);
        EXPECT_EQ(pair.server.WaitReadable(2ms), std::errc::timed_out) << "after a read that filled its buffer";
      }
      EXPECT_FALSE(pair.client.ShutdownWrite());
      EXPECT_FALSE(pair.server.WaitReadable(Soon())) << "the end is read, too";
      EXPECT_EQ(pair.server.ReadSome(buffer, Soon()).bytes, 0u);
      EXPECT_FALSE(pair.server.WaitReadable(Soon()));
    });
  }
}

TEST_P(TcpStreamTest, WaitReadableEndsWhenBytesComeOrItIsClosed) {
  for (const bool in_fiber : {true, false}) {
    Pair pair = ConnectedPair();
    std::atomic<int> step{0};
    Actor waiting(in_fiber, [&] {
      step = 1;
      EXPECT_FALSE(pair.server.WaitReadable(Soon()));
      char buffer[16];
      EXPECT_EQ(pair.server.ReadSome(buffer, Soon()).bytes, 1u);
      step = 2;
      EXPECT_EQ(pair.server.WaitReadable(Soon()), std::errc::operation_canceled);
    });
    ASSERT_TRUE(Reaches([&] { return step == 1; }));
    EXPECT_TRUE(pair.client.WriteAll("x").ok());
    ASSERT_TRUE(Reaches([&] { return step == 2; }));
    EXPECT_TRUE(pair.server.Close());
  }
}

// It was: the first read stopped the worker, and no deadline ended it.
TEST_P(TcpStreamTest, ABlockingDescriptorThatIsTakenOverBlocksNoWorker) {
  InFiberAndInThread([] {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    TcpStream left{Descriptor(ends[0])};
    TcpStream right{Descriptor(ends[1])};
    ASSERT_NE(::fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    char buffer[16];
    EXPECT_EQ(left.ReadSome(buffer, 1ms).error, std::errc::timed_out);
    EXPECT_TRUE(right.WriteAll("x", Soon()).ok());
    EXPECT_EQ(left.ReadSome(buffer, Soon()).bytes, 1u);
  });
}

TEST_P(TcpStreamTest, HalfClosedTheOtherHalfGoesOn) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    EXPECT_FALSE(pair.client.ShutdownWrite());
    char buffer[16];
    EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), Soon()).bytes, 0u);
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(pair.server.WriteAll("answer", Soon()).ok());
      const IoResult got = pair.client.ReadAll(buffer, 6, Soon());
      EXPECT_EQ(std::string_view(buffer, got.bytes), "answer");
    }
    EXPECT_EQ(pair.client.WriteAll("more").error, std::errc::broken_pipe);
  });
}

TEST_P(TcpStreamTest, AResetIsToldToWhoReadsAndToWhoWrites) {
  for (const bool in_fiber : {true, false}) {
    Pair pair = ConnectedPair();
    std::atomic<bool> reads{false};
    Actor reader(in_fiber, [&] {
      char buffer[16];
      reads = true;
      EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), Soon()).error, std::errc::connection_reset);
      const std::error_code error = pair.server.WriteAll("x").error;
      EXPECT_TRUE(error == std::errc::broken_pipe || error == std::errc::connection_reset) << error.message();
    });
    ASSERT_TRUE(Reaches([&] { return reads.load(); }));
    pair.client.Reset();
    EXPECT_FALSE(pair.client.IsOpen());
    reader.Join();
  }
  // One that waits for room to write.
  for (const bool in_fiber : {true, false}) {
    Pair pair = ConnectedPair();
    std::atomic<bool> full{false};
    Actor writer(in_fiber, [&] {
      FillUp(pair.server);
      full = true;
      const std::error_code error = pair.server.WriteAll(std::string(1 << 20, 'x'), Soon()).error;
      EXPECT_TRUE(error == std::errc::broken_pipe || error == std::errc::connection_reset) << error.message();
    });
    ASSERT_TRUE(Reaches([&] { return full.load(); }));
    pair.client.Reset();
  }
}

TEST_P(TcpStreamTest, ConnectToNobodyIsRefused) {
  // A port that nobody listens at: one that was just freed.
  SocketAddress nobody;
  {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    nobody = listener.local_address();
  }
  InFiberAndInThread([&] {
    TcpStream stream;
    EXPECT_EQ(stream.Connect(nobody, Soon()), std::errc::connection_refused);
    EXPECT_FALSE(stream.IsOpen());
    EXPECT_EQ(stream.Connect(UnixAddress(), Soon()), std::errc::connection_refused);
    EXPECT_EQ(stream.Connect(*SocketAddress::Parse("unix:/no/such/socket"), Soon()),
              std::errc::no_such_file_or_directory);
    EXPECT_TRUE(stream.Connect(SocketAddress(), Soon()));  // An error of the kernel.
    EXPECT_FALSE(stream.IsOpen());
  });
}

TEST_P(TcpStreamTest, ConnectGivesUpAtItsDeadline) {
  // The kernel answers no more when the listener's queue is full.
  TcpListener listener;
  ASSERT_FALSE(listener.Listen(OwnLoopback(), {.backlog = 0}));
  const SocketAddress address = listener.local_address();
  std::vector<TcpStream> queued(8);
  bool full = false;
  for (TcpStream& stream : queued) full = full || stream.Connect(address, 50ms) == std::errc::timed_out;
  ASSERT_TRUE(full) << "the kernel's queue of a listener with backlog 0 takes 8 connections";
  InFiberAndInThread([&] {
    TcpStream stream;
    const auto begin = Steady::now();
    EXPECT_EQ(stream.Connect(address, 20ms), std::errc::timed_out);
    EXPECT_GE(Steady::now() - begin, 20ms);
    EXPECT_FALSE(stream.IsOpen());
  });
}

// A Unix socket's connect() does not wait for room in the listener's queue: it says EAGAIN, and nothing tells of room.
TEST_P(TcpStreamTest, ConnectToAUnixListenerWhoseQueueIsFullWaitsForRoom) {
  for (const bool in_fiber : {true, false}) {
    TcpListener listener;
    const SocketAddress address = UnixAddress();
    ASSERT_FALSE(listener.Listen(address, {.backlog = 0}));
    std::vector<TcpStream> queued(8);
    bool full = false;
    for (TcpStream& stream : queued) full = full || stream.Connect(address, 0s) == std::errc::timed_out;
    ASSERT_TRUE(full) << "the queue of a listener with backlog 0 takes 8 connections";
    std::atomic<bool> connects{false};
    Actor actor(in_fiber, [&] {
      TcpStream stream;
      const auto begin = Steady::now();
      EXPECT_EQ(stream.Connect(address, 20ms), std::errc::timed_out);
      EXPECT_GE(Steady::now() - begin, 20ms);
      EXPECT_FALSE(stream.IsOpen());
      connects = true;
      EXPECT_FALSE(stream.Connect(address, Soon()));
    });
    ASSERT_TRUE(Reaches([&] { return connects.load(); }));
    std::vector<TcpStream> accepted(2);
    for (TcpStream& stream : accepted) EXPECT_FALSE(listener.Accept(&stream, Soon()));
  }
}

TEST_P(TcpStreamTest, ACancellationEndsTheWaitForRoomInAUnixListenersQueue) {
  TcpListener listener;
  const SocketAddress address = UnixAddress();
  ASSERT_FALSE(listener.Listen(address, {.backlog = 0}));
  std::vector<TcpStream> queued(8);
  for (TcpStream& stream : queued) (void)stream.Connect(address, 0s);
  std::atomic<bool> connects{false};
  Fiber connecting([&] {
    TcpStream stream;
    connects = true;
    EXPECT_EQ(stream.Connect(address, Soon()), std::errc::operation_canceled);
  });
  ASSERT_TRUE(Reaches([&] { return connects.load(); }));
  EXPECT_TRUE(connecting.Cancel());
  connecting.Join();
}

TEST_P(TcpStreamTest, OnePartIsReadAndWrittenAsSeveralAre) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    char sent[] = "abc";
    const iovec to_send{.iov_base = sent, .iov_len = 3};
    EXPECT_EQ(pair.client.WriteSome(&to_send, 1, Soon()).bytes, 3u);
    char got[8] = "unread!";
    const iovec room{.iov_base = got, .iov_len = sizeof(got)};
    EXPECT_EQ(pair.server.ReadSome(&room, 1, Soon()).bytes, 3u);
    EXPECT_EQ(std::string_view(got, 3), "abc");
    const iovec nothing{.iov_base = nullptr, .iov_len = 0};
    EXPECT_TRUE(pair.client.ReadSome(&nothing, 1, Soon()).ok());
    EXPECT_TRUE(pair.client.WriteSome(&nothing, 1, Soon()).ok());
    EXPECT_TRUE(pair.server.Close());
    EXPECT_EQ(pair.client.ReadSome(&room, 1, Soon()).bytes, 0u) << "a read has written";
  });
}

TEST_P(TcpStreamTest, ConnectsWhereverAListenerIs) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("weft_test_" + std::to_string(::getpid()) + ".sock");
  std::vector<SocketAddress> addresses = {OwnLoopback(), UnixAddress(), *SocketAddress::Parse("unix:" + path)};
  if (std::filesystem::exists("/proc/net/if_inet6")) addresses.push_back(*SocketAddress::Parse("[::1]:0"));
  for (const SocketAddress& address : addresses) {
    InFiberAndInThread([&] {
      TcpListener listener;
      const std::error_code error = listener.Listen(address);
      if (error == std::errc::address_not_available) return;  // IPv6 without a loopback interface.
      ASSERT_FALSE(error) << address.ToString() << ": " << error.message();
      TcpStream client;
      TcpStream server;
      ASSERT_FALSE(client.Connect(listener.local_address(), Soon()));
      ASSERT_FALSE(listener.Accept(&server, Soon()));
      EXPECT_EQ(client.peer_address(), listener.local_address());
      EXPECT_EQ(server.local_address(), listener.local_address());
      if (!address.is_unix()) {
        EXPECT_EQ(server.peer_address(), client.local_address());
        for (TcpStream* stream : {&client, &server}) {
          int no_delay = 0;
          socklen_t size = sizeof(no_delay);
          EXPECT_EQ(::getsockopt(stream->fd(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
          EXPECT_NE(no_delay, 0);
        }
        EXPECT_FALSE(client.SetNoDelay(false));
      }
      EXPECT_TRUE(client.WriteAll("hello").ok());
      char buffer[5];
      EXPECT_EQ(server.ReadAll(buffer, 5, Soon()).bytes, 5u);
      if (address.is_unix()) ::unlink(path.c_str());
    });
  }
}

TEST_P(TcpStreamTest, ReadAndWriteGiveUpAtTheirDeadlines) {
  for (const bool in_fiber : {true, false}) {
    Actor actor(in_fiber, [] {
      Pair pair = ConnectedPair();
      char buffer[16];
      for (int i = 0; i < 3; ++i) {
        const auto begin = Steady::now();
        const IoResult got = pair.server.ReadAll(buffer, sizeof(buffer), 5ms);
        EXPECT_EQ(got.error, std::errc::timed_out);
        EXPECT_GE(Steady::now() - begin, 5ms);
      }
      EXPECT_TRUE(pair.client.WriteAll("abc").ok());
      const IoResult got = pair.server.ReadAll(buffer, sizeof(buffer), 50ms);
      EXPECT_EQ(got.error, std::errc::timed_out);
      EXPECT_EQ(got.bytes, 3u);  // What came before the deadline is told.

      FillUp(pair.client);
      for (;;) {
        const auto begin = Steady::now();
        const IoResult put = pair.client.WriteSome("x", 1, 5ms);
        if (put.ok()) continue;
        EXPECT_EQ(put.error, std::errc::timed_out);
        EXPECT_GE(Steady::now() - begin, 5ms);
        break;
      }
    });
  }
}

// The kernel takes bytes again before it reports room. Only a time-out finds that out, and once is enough: a peer that
// takes nothing held its writers for a time-out for each write that still fitted.
TEST_P(TcpStreamTest, RoomThatATimeOutHasFoundIsFilledAtOnce) {
  Actor actor(true, [] {
    Pair pair = ConnectedPair();
    SetSendBuffer(pair.client, 100'000);
    const std::string much(65'536, 'f');
    while (pair.client.WriteSome(much.data(), much.size(), 100ms).ok()) {  // Later than an acknowledgement is.
    }
    for (int bytes = 100'000; !pair.client.WriteSome("f", 1, 1ms).ok(); bytes += 5'000)
      SetSendBuffer(pair.client, bytes);
    const auto begin = Steady::now();
    EXPECT_TRUE(pair.client.WriteSome("f", 1, Soon()).ok());
    EXPECT_LT(Steady::now() - begin, kBeforeSoon);
  });
}

TEST_P(TcpStreamTest, ReadsIntoWhateverIsContiguousUntilADurationOrATimePoint) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    char array[16];
    std::string string(16, '\0');
    std::vector<std::byte> bytes(2);
    EXPECT_EQ(pair.server.ReadSome(array, 1ms).error, std::errc::timed_out);
    EXPECT_EQ(pair.server.ReadSome(array, 0s).error, std::errc::timed_out);
    EXPECT_EQ(pair.server.ReadSome(array, std::chrono::system_clock::now()).error, std::errc::timed_out);
    EXPECT_TRUE(pair.client.WriteAll("abc", 30s).ok());
    EXPECT_EQ(pair.server.ReadSome(array, 30s).bytes, 3u);
    EXPECT_EQ(std::string_view(array, 3), "abc");
    EXPECT_TRUE(pair.client.WriteAll("defg").ok());
    EXPECT_EQ(pair.server.ReadAll(bytes, Steady::now() + 30s).bytes, 2u);
    EXPECT_EQ(bytes[1], std::byte{'e'});
    EXPECT_EQ(pair.server.ReadSome(string).bytes, 2u);
    EXPECT_EQ(string.substr(0, 2), "fg");
  });
}

TEST_P(TcpStreamTest, ACancellationEndsAWait) {
  Pair pair = ConnectedPair();
  std::atomic<bool> reads{false};
  Fiber reader([&] {
    char buffer[16];
    reads = true;
    EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), Soon()).error, std::errc::operation_canceled);
    EXPECT_TRUE(pair.server.IsOpen());
    EXPECT_EQ(pair.server.WriteAll("x").bytes, 1U) << "a call that need not wait succeeds";
    EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), Soon()).error, std::errc::operation_canceled);
  });
  ASSERT_TRUE(Reaches([&] { return reads.load(); }));
  EXPECT_TRUE(reader.Cancel());
  reader.Join();
}

TEST_P(TcpStreamTest, CloseEndsTheWaitsOfOthers) {
  for (const bool in_fiber : {true, false}) {
    for (const bool close_in_fiber : {true, false}) {
      for (int round = 0; round < 3; ++round) {
        Pair pair = ConnectedPair();
        FillUp(pair.server);
        std::atomic<int> begun{0};
        std::vector<Actor> actors;
        for (int i = 0; i < 2; ++i) {
          actors.emplace_back(in_fiber, [&] {
            char buffer[16];
            ++begun;
            EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), Soon()).error, std::errc::operation_canceled);
          });
          actors.emplace_back(in_fiber, [&] {
            ++begun;
            EXPECT_EQ(pair.server.WriteAll(std::string(1 << 22, 'x'), Soon()).error, std::errc::operation_canceled);
          });
        }
        ASSERT_TRUE(Reaches([&] { return begun == 4; }));
        Actor closer(close_in_fiber, [&] { EXPECT_TRUE(pair.server.Close()); });
        closer.Join();
        for (Actor& actor : actors) actor.Join();
        EXPECT_FALSE(pair.server.Close());
        EXPECT_FALSE(pair.server.IsOpen());
        EXPECT_EQ(pair.server.fd(), -1);
        char buffer[1];
        EXPECT_EQ(pair.server.ReadSome(buffer, 1).error, std::errc::operation_canceled);
        EXPECT_EQ(pair.server.WriteAll("x").error, std::errc::operation_canceled);
        EXPECT_EQ(pair.server.ShutdownWrite(), std::errc::operation_canceled);
      }
    }
  }
}

TEST_P(TcpStreamTest, ANewOneIsNotOpen) {
  InFiberAndInThread([] {
    TcpStream stream;
    char buffer[1];
    EXPECT_FALSE(stream.IsOpen());
    EXPECT_EQ(stream.fd(), -1);
    EXPECT_FALSE(stream.Close());
    EXPECT_EQ(stream.ReadSome(buffer, 1).error, std::errc::operation_canceled);
    EXPECT_EQ(stream.WriteAll("x").error, std::errc::operation_canceled);
    EXPECT_EQ(stream.local_address(), SocketAddress());
    EXPECT_EQ(stream.peer_address(), SocketAddress());
    EXPECT_TRUE(stream.SetNoDelay(true));
    stream.Reset();
    TcpStream moved = std::move(stream);
    EXPECT_FALSE(moved.IsOpen());
  });
}

// Whoever reads or writes while the stream is closed never touches the descriptor that has its number next: each stream
// carries its own letter only.
TEST_P(TcpStreamTest, AClosedNumberIsNeverReadOrWrittenByFormerUsers) {
  const int rounds = Scaled(300);
  std::vector<Fiber> fibers;
  for (unsigned f = 0; f < 4; ++f) {
    fibers.emplace_back([f, rounds] {
      std::mt19937 random(f);
      for (int round = 0; round < rounds; ++round) {
        const char letter = static_cast<char>('a' + random() % 26);
        int sockets[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) != 0) std::abort();
        TcpStream near{Descriptor(sockets[0])};
        TcpStream far{Descriptor(sockets[1])};
        std::vector<Fiber> users;
        for (TcpStream* stream : {&near, &far}) {
          users.emplace_back([stream, letter] {
            const std::string letters(100, letter);
            while (stream->WriteAll(letters, Soon()).ok()) FiberYield();
          });
          users.emplace_back([stream, letter] {
            char buffer[64];
            for (;;) {
              const IoResult got = stream->ReadSome(buffer, sizeof(buffer), Soon());
              EXPECT_NE(got.error, std::errc::timed_out);
              if (!got.ok() || got.bytes == 0) return;
              for (std::size_t i = 0; i < got.bytes; ++i) EXPECT_EQ(buffer[i], letter);
            }
          });
        }
        for (unsigned yields = random() % 8; yields != 0; --yields) FiberYield();
        if (random() % 4 == 0) FiberSleepFor(50us);
        near.Close();
        if (random() % 2 == 0) FiberYield();
        far.Close();
        for (Fiber& user : users) user.Join();
      }
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
}

TEST_P(TcpStreamTest, AStreamIsMovedWhileNobodyUsesIt) {
  InFiber([] {
    Pair pair = ConnectedPair();
    TcpStream other = std::move(pair.client);
    EXPECT_TRUE(other.IsOpen());
    EXPECT_TRUE(other.WriteAll("x").ok());
    Pair second = ConnectedPair();
    other = std::move(second.client);  // Closes what it was.
    char buffer[2];
    EXPECT_EQ(pair.server.ReadAll(buffer, 2, Soon()).bytes, 1u);
    EXPECT_TRUE(other.WriteAll("y").ok());
    EXPECT_EQ(second.server.ReadAll(buffer, 1, Soon()).bytes, 1u);
  });
}

// --- Edge-triggered readiness (FD1) ---

// Data that come between a read that brought less than it had room for and the wait are not missed.
TEST_P(TcpStreamTest, DataBetweenAShortReadAndTheWaitAreNotMissed) {
  for (const bool writer_is_fiber : {true, false}) {
    for (const bool unix_socket : {false, true}) {
      Pair pair = ConnectedPair(unix_socket ? UnixAddress() : OwnLoopback());
      const int rounds = Scaled(20'000);
      std::atomic<int> received{0};
      Actor writer(writer_is_fiber, [&] {
        std::mt19937 random(21);
        for (int i = 0; i < rounds; ++i) {
          if (!pair.client.WriteAll("xy", Soon()).ok()) ADD_FAILURE() << "the writer fails";
          // Often the reader is about to wait just now.
          for (unsigned pauses = random() % 200; pauses != 0; --pauses) base::CpuRelax();
          while (received.load(std::memory_order_relaxed) + 64 < 2 * i) {
            writer_is_fiber ? FiberYield() : std::this_thread::yield();
          }
        }
      });
      Fiber reader([&] {
        char buffer[256];
        while (received < 2 * rounds) {
          const IoResult got = pair.server.ReadSome(buffer, sizeof(buffer), Soon());
          if (!got.ok() || got.bytes == 0) {
            ADD_FAILURE() << "after " << received << " bytes: " << got.error.message();
            received = 2 * rounds;
            return;
          }
          received += static_cast<int>(got.bytes);
        }
      });
      reader.Join();
      writer.Join();
    }
  }
}

// Data, then the end, at any moments: the data and then the end are read, whatever was told in one event.
TEST_P(TcpStreamTest, TheEndRightBehindTheDataIsNotMissed) {
  const int rounds = Scaled(400);
  std::vector<Fiber> fibers;
  for (unsigned f = 0; f < 4; ++f) {
    fibers.emplace_back([f, rounds] {
      std::mt19937 random(f);
      for (int i = 0; i < rounds; ++i) {
        Pair pair = ConnectedPair(f % 2 == 0 ? OwnLoopback() : UnixAddress());
        Fiber reader([&pair] {
          char buffer[64];
          const IoResult first = pair.server.ReadAll(buffer, 3, Soon());
          EXPECT_EQ(first.bytes, 3u) << first.error.message();
          const IoResult end = pair.server.ReadSome(buffer, sizeof(buffer), Soon());
          EXPECT_TRUE(end.ok()) << end.error.message();
          EXPECT_EQ(end.bytes, 0u);
        });
        if (random() % 2 == 0) FiberYield();
        EXPECT_TRUE(pair.client.WriteAll("abc").ok());
        if (random() % 2 == 0) FiberYield();
        if (random() % 2 == 0) {
          EXPECT_FALSE(pair.client.ShutdownWrite());
        } else {
          pair.client.Close();
        }
        reader.Join();
      }
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
}

// FD5. On one worker nobody else would run.
TEST_P(TcpStreamTest, WhoAlwaysFindsDataLetsOthersRun) {
  Pair pair = ConnectedPair();
  std::atomic<bool> stop{false};
  std::atomic<int> turns{0};
  Fiber writer([&] {
    const std::string much(4096, 'x');
    while (!stop) {
      if (!pair.client.WriteAll(much, Soon()).ok()) break;
    }
    pair.client.Close();
  });
  Fiber reader([&] {
    char buffer[8];  // There is always more.
    for (;;) {
      const IoResult got = pair.server.ReadSome(buffer, sizeof(buffer), Soon());
      if (!got.ok() || got.bytes == 0) break;
    }
  });
  // As many as there are workers, so that one of them has to share with the reader.
  std::vector<Fiber> others;
  for (std::size_t i = 0; i < GetConcurrencyHint(); ++i) {
    others.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) {
        FiberYield();
        ++turns;
      }
    });
  }
  for (Fiber& other : others) other.Join();
  EXPECT_EQ(turns, 20 * static_cast<int>(GetConcurrencyHint()));
  stop = true;
  pair.server.Close();
  writer.Join();
  reader.Join();
}

// --- What went wrong ---

// recv(2) says EAGAIN where no data are, also to who has no room for any.
TEST_P(TcpStreamTest, AReadOrAWriteOfNothingDoesNotWait) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    char buffer[1];
    const IoResult got = pair.server.ReadSome(buffer, 0, 2s);
    EXPECT_TRUE(got.ok());
    EXPECT_EQ(got.bytes, 0u);
    EXPECT_TRUE(pair.server.WriteAll("").ok());
    EXPECT_TRUE(pair.server.WriteAll(static_cast<iovec*>(nullptr), 0).ok());
    EXPECT_TRUE(pair.server.ReadAll(buffer, 0).ok());
  });
}

// shutdown(2) was kept waiting for room to write, and TcpServer::Stop() with it.
TEST_P(TcpStreamTest, ShutdownDoesNotWaitForRoomToWrite) {
  for (const bool in_fiber : {true, false}) {
    Actor actor(in_fiber, [] {
      Pair pair = ConnectedPair();
      FillUp(pair.client);
      Fiber writer([&pair] {
        EXPECT_EQ(pair.client.WriteAll(std::string(1 << 22, 'x'), Soon()).error, std::errc::broken_pipe);
      });
      const auto begin = Steady::now();
      EXPECT_FALSE(pair.client.ShutdownRead());
      EXPECT_FALSE(pair.client.Shutdown());
      EXPECT_LT(Steady::now() - begin, kBeforeSoon);
      writer.Join();
    });
  }
}

double CpuSeconds() {
  timespec used;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// A thread that waited for what a fiber had registered was told by poll(2) that it is ready, and left it to the fibers'
// reactor to say so: it went round and round until a worker did, for ever when the runtime had ended.
TEST_P(TcpStreamTest, AThreadReadsOnWhereAFiberHasReadBefore) {
  Pair pair = ConnectedPair();
  InFiber([&] {
    Fiber writer([&] { EXPECT_TRUE(pair.client.WriteAll("one").ok()); });
    char buffer[16];
    EXPECT_EQ(pair.server.ReadAll(buffer, 3, Soon()).bytes, 3u);
    EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), 1ms).error, std::errc::timed_out);
    writer.Join();
    FillUp(pair.client);
  });
  ASSERT_EQ(TerminateRuntime(), 0u);
  std::string buffer(1 << 20, '\0');
  const double cpu_before = CpuSeconds();
  for (std::size_t some = 1; some != 0;) {
    const IoResult got = pair.server.ReadSome(buffer.data(), buffer.size(), 50ms);
    some = got.bytes;
    EXPECT_TRUE(got.ok() || got.error == std::errc::timed_out) << got.error.message();
  }
  EXPECT_TRUE(pair.client.WriteAll("two", Soon()).ok());
  EXPECT_EQ(pair.server.ReadAll(buffer.data(), 3, Soon()).bytes, 3u);
  EXPECT_EQ(buffer.substr(0, 3), "two");
  EXPECT_EQ(pair.server.ReadSome(buffer.data(), 1, 300ms).error, std::errc::timed_out);
  const double limit = WEFT_TSAN || WEFT_ASAN ? 2 : 0.2;
  EXPECT_LT(CpuSeconds() - cpu_before, limit);
  pair = Pair();
}

// A message with descriptors ends a read, though more bytes lie behind it: a short read had drained nothing.
TEST_P(TcpStreamTest, AUnixSocketThatWasSentDescriptorsIsReadToItsEnd) {
  Pair pair = ConnectedPair(UnixAddress());
  const int fd = pair.client.fd();
  InFiber([&] {
    char buffer[64];
    // Registered, and empty.
    EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), 1ms).error, std::errc::timed_out);
    for (int round = 0; round < 20; ++round) {
      for (int message = 0; message < 3; ++message) {
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
        iovec part{.iov_base = const_cast<char*>("abc"), .iov_len = 3};
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof(control);
        cmsghdr* descriptor = CMSG_FIRSTHDR(&header);
        descriptor->cmsg_level = SOL_SOCKET;
        descriptor->cmsg_type = SCM_RIGHTS;
        descriptor->cmsg_len = CMSG_LEN(sizeof(int));
        const int passed = STDERR_FILENO;
        std::memcpy(CMSG_DATA(descriptor), &passed, sizeof(passed));
        EXPECT_EQ(::sendmsg(fd, &header, 0), 3);
      }
      const IoResult got = pair.server.ReadAll(buffer, 9, 5s);
      EXPECT_TRUE(got.ok()) << got.error.message();
      EXPECT_EQ(std::string_view(buffer, got.bytes), "abcabcabc");
      if (!got.ok()) return;
    }
  });
}

// Nor has it in kTLS. Here: the reader is short of what it cannot know, and goes on without an event.
TEST_P(TcpStreamTest, AfterExpectShortReadsAShortReadIsFollowedByATry) {
  InFiber([] {
    Pair pair = ConnectedPair();
    char buffer[16];
    EXPECT_EQ(pair.server.ReadSome(buffer, 1ms).error, std::errc::timed_out);
    pair.server.ExpectShortReads();
    for (int round = 0; round < 20; ++round) {
      EXPECT_TRUE(pair.client.WriteAll("abc").ok());
      EXPECT_EQ(pair.server.ReadSome(buffer, Soon()).bytes, 3u);
      EXPECT_EQ(pair.server.WaitReadable(0s), std::errc::timed_out);
    }
    TcpStream().ExpectShortReads();
  });
}

// So does TCP's urgent byte.
TEST_P(TcpStreamTest, AStreamWithUrgentDataIsReadToItsEnd) {
  Pair pair = ConnectedPair();
  const int fd = pair.client.fd();
  InFiber([&] {
    char buffer[64];
    EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), 1ms).error, std::errc::timed_out);
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(::send(fd, "abc", 3, 0), 3);
      EXPECT_EQ(::send(fd, "!", 1, MSG_OOB), 1);
      EXPECT_EQ(::send(fd, "def", 3, 0), 3);
      const IoResult got = pair.server.ReadAll(buffer, 6, 5s);
      EXPECT_TRUE(got.ok()) << got.error.message();
      EXPECT_EQ(std::string_view(buffer, got.bytes), "abcdef");
      if (!got.ok()) return;
    }
  });
}

TEST_P(TcpStreamTest, AnUrgentByteAloneIsNotReadable) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    EXPECT_EQ(pair.server.WaitReadable(1ms), std::errc::timed_out);
    EXPECT_EQ(::send(pair.client.fd(), "!", 1, MSG_OOB), 1);
    EXPECT_EQ(pair.server.WaitReadable(5ms), std::errc::timed_out);
    EXPECT_TRUE(pair.client.WriteAll("abc").ok());
    EXPECT_FALSE(pair.server.WaitReadable(Soon()));
  });
}

// A thread waited 292 years: what is left until then is not a number of nanoseconds.
TEST_P(TcpStreamTest, TheFirstOfAllTimePointsHasPassed) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    char byte;
    const Deadline first = Deadline::TimePoint::min();
    EXPECT_EQ(pair.server.ReadSome(&byte, 1, first).error, std::errc::timed_out);
  });
}

// It said timed_out without a look, though the data had come long before.
TEST_P(TcpStreamTest, ADeadlineThatHasPassedIsALook) {
  for (const bool in_fiber : {true, false}) {
    Actor actor(in_fiber, [] {
      Pair pair = ConnectedPair();
      char buffer[64];
      for (int round = 0; round < 20; ++round) {
        const Deadline past = Steady::now();
        EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), past).error, std::errc::timed_out);
        EXPECT_TRUE(pair.client.WriteAll("abc").ok());
        const IoResult got = pair.server.ReadSome(buffer, sizeof(buffer), past);
        EXPECT_TRUE(got.ok()) << got.error.message();
        EXPECT_EQ(std::string_view(buffer, got.bytes), "abc");
        EXPECT_EQ(pair.server.ReadSome(buffer, sizeof(buffer), 100us).error, std::errc::timed_out);
      }
    });
  }
}

// A port of this machine on which nobody listens may become the connecting socket's own: the two then are one.
TEST(TcpStreamConnect, AConnectionToItselfIsRefused) {
  Descriptor socket;
  ASSERT_FALSE(OpenSocket(AF_INET, SOCK_STREAM, &socket));
  const SocketAddress any_port = OwnLoopback();
  ASSERT_EQ(::bind(socket.fd(), any_port.data(), any_port.size()), 0);
  const SocketAddress own = LocalAddress(socket);
  EXPECT_EQ(ConnectSocket(&socket, own, Soon()), std::errc::connection_refused);
  EXPECT_EQ(PeerAddress(socket), own) << "the kernel did it";
}

}  // namespace
}  // namespace weft::io
