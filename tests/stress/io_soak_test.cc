// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Connections come and go for a while, with random sizes, deadlines, resets and closes, beside pipes, timers, fibers
// that compute, and servers that are drained and restarted (restarting_server.h). Every echo matches what was sent, no
// wait exceeds its deadline by much, and in the end no descriptor, fiber or registration is left.
//
// For how long: soak.h.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/reactor/epoll_reactor.h"
#include "weft/io/tcp_server.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "stress/restarting_server.h"
#include "stress/soak.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

using stress::kLateAtMost;
using stress::kLong;
using stress::kScale;

struct Tally {
  std::atomic<std::uint64_t> connections{0};
  std::atomic<std::uint64_t> messages{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> timeouts{0};
  std::atomic<std::uint64_t> resets{0};
  std::atomic<std::uint64_t> canceled{0};
  std::atomic<std::uint64_t> pipes{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> late{0};
};

class Soak {
 public:
  explicit Soak(steady_clock::time_point end) : end_(end) {}

  bool Over() const { return steady_clock::now() >= end_; }

  // Errors that random closes and deadlines may cause.
  bool Expected(std::error_code error, Deadline deadline) {
    if (!deadline.is_none() && steady_clock::now() > deadline.time_point() + kLateAtMost) tally.late.fetch_add(1);
    if (error == std::errc::timed_out) return tally.timeouts.fetch_add(1), true;
    if (error == std::errc::operation_canceled) return tally.canceled.fetch_add(1), true;
    if (error == std::errc::connection_reset || error == std::errc::broken_pipe) return tally.resets.fetch_add(1), true;
    if (!error) return true;
    tally.wrong.fetch_add(1);
    ADD_FAILURE() << error.message();
    return false;
  }

  // The server's side: echoes in pieces, at random.
  void Serve(TcpStream& stream) {
    std::minstd_rand random(static_cast<unsigned>(tally.connections.load() + 7));
    std::vector<char> buffer(1 + random() % 9000);
    for (;;) {
      const auto deadline = random() % 8 == 0 ? Deadline(std::chrono::microseconds(1 + random() % 3000)) : Deadline();
      const IoResult read = stream.ReadSome(buffer.data(), buffer.size(), deadline);
      if (!read.ok() || read.bytes == 0) return static_cast<void>(Expected(read.error, deadline));
      if (random() % 256 == 0) return stream.Reset();
      const IoResult written = stream.WriteAll(buffer.data(), read.bytes, kLong);
      if (!written.ok()) return static_cast<void>(Expected(written.error, Deadline()));
    }
  }

  // One connection of a client.
  void Visit(const SocketAddress& server, std::minstd_rand& random) {
    TcpStream stream;
    const Deadline connect_by = random() % 16 == 0 ? std::chrono::microseconds(1 + random() % 500) : kLong;
    if (const auto error = stream.Connect(server, connect_by)) return static_cast<void>(Expected(error, connect_by));
    tally.connections.fetch_add(1);
    // Now and then another fiber closes it under way.
    FiberEvent closed;
    const bool will_be_closed = random() % 8 == 0;
    if (will_be_closed) {
      const auto after = std::chrono::microseconds(1 + random() % 2000);
      ASSERT_TRUE(StartFiberDetached([&stream, &closed, after] {
        FiberSleepFor(after);
        stream.Close();
        closed.Set();
      }));
    }
    for (int messages = 1 + static_cast<int>(random() % 20); messages > 0 && !Over(); --messages) {
      if (!SendAndCompare(stream, random)) break;
      if (random() % 64 == 0) FiberSleepFor(std::chrono::microseconds(random() % 1000));
    }
    if (will_be_closed) closed.Wait();
    switch (random() % 4) {
      case 0:
        stream.Reset();
        break;
      case 1:
        (void)stream.ShutdownWrite();
        break;
      default:
        break;
    }
  }

  // Sends and receives at the same time, so that sizes beyond the sockets' buffers pass.
  bool SendAndCompare(TcpStream& stream, std::minstd_rand& random) {
    const std::size_t size = random() % 16 == 0 ? random() % 300'000 : 1 + random() % 600;
    const unsigned seed = static_cast<unsigned>(random());
    const auto deadline =
        random() % 8 == 0 ? Deadline(std::chrono::microseconds(1 + random() % 2000)) : Deadline(kLong);
    std::string sent(size, '\0');
    std::minstd_rand content(seed);
    for (char& c : sent) c = static_cast<char>(content());
    IoResult written;
    FiberLatch writer_done(1);
    auto write = [&] {
      written = stream.WriteAll(sent, deadline);
      writer_done.CountDown();
    };
    if (size < 1000) {
      write();
    } else if (!StartFiberDetached(write)) {
      ADD_FAILURE() << "no fiber";
      return false;
    }
    std::string got(size, '\0');
    const IoResult read = stream.ReadAll(got.data(), size, deadline);
    writer_done.Wait();
    if (read.bytes != 0 && got.compare(0, read.bytes, sent, 0, read.bytes) != 0) {
      tally.wrong.fetch_add(1);
      ADD_FAILURE() << "an echo is not what was sent";
    }
    tally.messages.fetch_add(1);
    tally.bytes.fetch_add(read.bytes);
    return Expected(written.error, deadline) && Expected(read.error, deadline) && written.ok() && read.bytes == size;
  }

  // A pipe that only WaitFd() knows.
  void UsePipe(std::minstd_rand& random) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    const auto write_after = std::chrono::microseconds(random() % 1500);
    const Deadline deadline = std::chrono::microseconds(1 + random() % 1500);
    const bool close_it = random() % 4 == 0;
    FiberLatch done(1);
    ASSERT_TRUE(StartFiberDetached([&, fd = ends[1]] {
      FiberSleepFor(write_after);
      if (!close_it) {
        EXPECT_EQ(::write(fd, "x", 1), 1);
      }
      EXPECT_FALSE(CloseFd(fd));
      done.CountDown();
    }));
    const WaitFdResult ready = WaitFd(ends[0], POLLIN, deadline);
    if (ready.error) {
      EXPECT_EQ(ready.error, std::errc::timed_out);
      Expected(ready.error, deadline);
    } else {
      EXPECT_NE(ready.events & (POLLIN | POLLHUP), 0);
    }
    done.Wait();
    EXPECT_FALSE(WaitFd(ends[0], POLLIN, kLong).error);  // It is written or closed by now.
    EXPECT_FALSE(CloseFd(ends[0]));
    tally.pipes.fetch_add(1);
  }

  Tally tally;

 private:
  const steady_clock::time_point end_;
};

class IoSoak : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, IoSoak, ::testing::Values(1, 2, 6));

TEST_P(IoSoak, ConnectionsComeAndGo) {
  const stress::SoakRuntime runtime(GetParam());
  const auto end = steady_clock::now() + stress::SoakTime();
  Soak soak(end);
  TcpListener tcp;
  ASSERT_FALSE(tcp.Listen(SocketAddress::LoopbackIpv4(0)));
  TcpListener local;
  ASSERT_FALSE(local.Listen(*SocketAddress::Parse("unix:@weft_io_soak_" + std::to_string(::getpid()))));
  const std::array<SocketAddress, 2> addresses = {tcp.local_address(), local.local_address()};
  TcpServer tcp_server(std::move(tcp), [&](TcpStream& stream) { soak.Serve(stream); });
  TcpServer local_server(std::move(local), [&](TcpStream& stream) { soak.Serve(stream); }, {.max_connections = 10});
  ASSERT_TRUE(tcp_server.Start());
  ASSERT_TRUE(local_server.Start());

  RestartingServer patient(RestartingServer::Drain::kPatient);
  RestartingServer impatient(RestartingServer::Drain::kImpatient);

  constexpr int kClients = 60 / kScale;
  constexpr int kClientsOfRestarting = 32 / kScale;
  constexpr int kPipes = 8;
  FiberLatch done(kClients + 2 * (kClientsOfRestarting + 1) + kPipes + 1);
  for (RestartingServer* server : {&patient, &impatient}) {
    stress::StartVisitors(server, kClientsOfRestarting, end, &done);
  }
  for (int i = 0; i < kClients; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      std::minstd_rand random(static_cast<unsigned>(i * 77 + 1));
      while (!soak.Over()) soak.Visit(addresses[random() % 2], random);
      done.CountDown();
    }));
  }
  for (int i = 0; i < kPipes; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      std::minstd_rand random(static_cast<unsigned>(i * 99 + 5));
      while (!soak.Over()) soak.UsePipe(random);
      done.CountDown();
    }));
  }
  // One fiber computes, and yields each 30 us.
  ASSERT_TRUE(StartFiberDetached([&] {
    while (!soak.Over()) {
      const auto until = steady_clock::now() + 30us;
      while (steady_clock::now() < until) base::CpuRelax();
      FiberYield();
    }
    done.CountDown();
  }));
  done.Wait();
  // No wait lasts until its deadline because of a lost wake-up.
  EXPECT_LT(steady_clock::now(), end + stress::kUntilAllIsSeen + kLateAtMost);
  local_server.Stop(kLong);
  tcp_server.Stop(kLong);
  for (RestartingServer* server : {&patient, &impatient}) {
    server->StopForGood();
    const RestartingServer::Tally& counts = server->tally;
    std::cout << counts.restarts << " restarts, " << counts.answered << " answered, " << counts.hung_up << " hung up, "
              << counts.given_up << " given up, " << counts.ended << " ended, " << counts.first_refused
              << " of them the first\n";
    EXPECT_EQ(counts.wrong, 0u);
    EXPECT_TRUE(server->HasSeenAll());
  }
  EXPECT_LT(steady_clock::now(), end + stress::kUntilAllIsSeen + kLateAtMost);

  const Tally& tally = soak.tally;
  std::cout << tally.connections << " connections, " << tally.messages << " messages, " << tally.bytes << " bytes, "
            << tally.timeouts << " timed out, " << tally.resets << " reset, " << tally.canceled << " closed, "
            << tally.pipes << " pipes\n";
  EXPECT_EQ(tally.wrong, 0u);
  EXPECT_EQ(tally.late, 0u);
  EXPECT_GT(tally.connections, 0u);
  EXPECT_GT(tally.timeouts, 0u);
  EXPECT_GT(tally.canceled, 0u);
  EXPECT_GT(tally.pipes, 0u);
  EXPECT_EQ(tcp_server.counts().open, 0u);
  EXPECT_EQ(local_server.counts().open, 0u);

  Fiber([&] {
    std::error_code error;
    EpollReactor* reactor = EpollReactor::OfCurrentGroup(&error);
    ASSERT_NE(reactor, nullptr) << error.message();
    EXPECT_EQ(reactor->counts().descriptors, 0u);
  }).Join();
}

}  // namespace
}  // namespace weft::io
