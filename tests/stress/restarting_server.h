// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RestartingServer: a TCP server that is drained and replaced by the next one all the time, on a socket that stays; and
// its clients, of which some hang up while their request is served, or in the middle of it.
//
// A request is a Message, and so is its answer. The server sleeps for as long as the request says, in several fibers of
// a scope that a hang-up cancels.
//
// What must hold
//   - An answer is the request's.
//   - If the drains are patient, the first request of each connection is answered.
//   - Stop() returns when it should, and then no connection is open and no fiber of a request is left.
//   - No wait lasts for ever.
#ifndef WEFT_TESTS_STRESS_RESTARTING_SERVER_H_
#define WEFT_TESTS_STRESS_RESTARTING_SERVER_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>

#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/cancel_on_hangup.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/cancel_scope.h"

#include "stress/soak.h"

namespace weft::io {

class RestartingServer {
 public:
  enum class Drain : std::uint8_t { kPatient, kImpatient };

  struct Tally {
    std::atomic<std::uint64_t> restarts{0};
    std::atomic<std::uint64_t> answered{0};
    std::atomic<std::uint64_t> given_up{0};       // requests whose client hung up, or that the drain has cut
    std::atomic<std::uint64_t> ended{0};          // requests of a client that was told nothing
    std::atomic<std::uint64_t> first_refused{0};  // of these: the first of a connection
    std::atomic<std::uint64_t> hung_up{0};
    std::atomic<std::uint64_t> wrong{0};
  };

  explicit RestartingServer(Drain drain) : drain_(drain) {}

  // The next server accepts before the present one stops. In a fiber; one at a time.
  void Restart(std::minstd_rand& random) {
    std::unique_ptr<Generation> next = NewServer(socket_.NewListener());
    std::swap(current_, next);
    Stop(next.get(), drain_ == Drain::kPatient ? kLong : std::chrono::milliseconds(random() % 20));
    tally.restarts.fetch_add(1);
  }

  void StopForGood() {
    Stop(current_.get(), kLong);
    current_.reset();
  }

  // One connection of a client.
  void Visit(std::minstd_rand& random) {
    TcpStream stream;
    if (const std::error_code error = stream.Connect(socket_.address(), kLong)) return Wrong("connect", error);
    bool is_first = true;
    for (int requests = 1 + static_cast<int>(random() % 8); requests > 0; --requests) {
      if (!Ask(stream, random, is_first)) return;
      is_first = false;
      if (random() % 4 == 0) FiberSleepFor(std::chrono::microseconds(random() % 3000));
    }
    if (random() % 2 == 0) stream.Reset();
  }

  bool HasSeenAll() const { return tally.restarts > 0 && tally.answered > 0 && tally.given_up > 0; }

  Tally tally;

 private:
  static constexpr auto kLong = stress::kLong;

  struct Message {
    std::uint32_t key;
    std::uint32_t sleep_us;
  };

  struct Generation {
    std::atomic<int> running{0};  // fibers of requests
    std::unique_ptr<TcpServer> server;
  };

  std::unique_ptr<Generation> NewServer(TcpListener listener) {
    auto made = std::make_unique<Generation>();
    const RequestHandler handler(
        [this, generation = made.get()](TcpConnection& connection) { return Serve(connection, generation->running); });
    TcpServer::Options options;
    options.first_request_at_stop = kLong;  // No client connects and says nothing.
    options.idle_at_stop = std::chrono::milliseconds(5);
    made->server = std::make_unique<TcpServer>(std::move(listener), handler, options);
    EXPECT_TRUE(made->server->Start());
    return made;
  }

  void Stop(Generation* generation, std::chrono::milliseconds grace) {
    const auto begin = std::chrono::steady_clock::now();
    generation->server->Stop(grace);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, grace + stress::kLateAtMost);
    EXPECT_EQ(generation->server->counts().open, 0u);
    EXPECT_EQ(generation->running, 0) << "fibers of requests have outlived their server's Stop()";
  }

  AfterRequest Serve(TcpConnection& connection, std::atomic<int>& running) {
    Message request{};
    IoResult got = connection.ReadRequest(&request, sizeof(request));
    if (got.bytes == 0) return AfterRequest::kClose;
    if (got.bytes < sizeof(request)) {
      const std::size_t missing = sizeof(request) - got.bytes;
      got = connection.stream().ReadAll(reinterpret_cast<char*>(&request) + got.bytes, missing, kLong);
      if (got.error == std::errc::timed_out) Wrong("the rest of a request", got.error);
      if (got.bytes != missing) return AfterRequest::kClose;
    }
    if (!Work(connection, std::chrono::microseconds(request.sleep_us), running)) {
      tally.given_up.fetch_add(1);
      return AfterRequest::kClose;
    }
    const bool written = connection.stream().WriteAll(&request, sizeof(request), kLong).ok();
    return written ? AfterRequest::kWaitForNext : AfterRequest::kClose;
  }

  // False: the client has hung up.
  static bool Work(TcpConnection& connection, std::chrono::microseconds how_long, std::atomic<int>& running) {
    CancelScope scope;
    const CancelOnHangup watch(connection.stream(), &scope);
    return scope.Run([&] {
      FiberScope fan_out;
      for (int part = 1; part <= 3; ++part) {
        const bool spawned = fan_out.Spawn([&running, nap = how_long / part] {
          const stress::Counted counted(&running);
          FiberSleepFor(nap);
        });
        EXPECT_TRUE(spawned || scope.IsCancelled());
      }
      fan_out.Wait();
    });
  }

  // False: the connection is over.
  bool Ask(TcpStream& stream, std::minstd_rand& random, bool is_first) {
    const bool hangs_up = random() % 8 == 0;
    const Message request{static_cast<std::uint32_t>(random()),
                          static_cast<std::uint32_t>(hangs_up ? 50'000 : random() % 1000)};
    const char* const bytes = reinterpret_cast<const char*>(&request);
    const std::size_t at_first = random() % 4 == 0 ? 1 + random() % (sizeof(request) - 1) : sizeof(request);
    if (!stream.WriteAll(bytes, at_first, kLong).ok()) return Ended(is_first);
    if (at_first < sizeof(request)) {
      FiberSleepFor(std::chrono::microseconds(random() % 2000));
      if (hangs_up && random() % 2 == 0) return HangUp(stream, random);  // In the middle of it.
      if (!stream.WriteAll(bytes + at_first, sizeof(request) - at_first, kLong).ok()) return Ended(is_first);
    }
    if (hangs_up) {
      FiberSleepFor(std::chrono::microseconds(random() % 5000));
      return HangUp(stream, random);
    }
    Message answer{};
    const IoResult got = stream.ReadAll(&answer, sizeof(answer), kLong);
    if (got.error == std::errc::timed_out) return Wrong("an answer", got.error), false;
    if (got.bytes == 0) return Ended(is_first);
    if (got.bytes != sizeof(answer) || answer.key != request.key) return Wrong("an answer", got.error), false;
    tally.answered.fetch_add(1);
    return true;
  }

  bool HangUp(TcpStream& stream, std::minstd_rand& random) {
    tally.hung_up.fetch_add(1);
    if (random() % 2 == 0) {
      stream.Reset();
    } else {
      stream.Close();
    }
    return false;
  }

  bool Ended(bool is_first) {
    tally.ended.fetch_add(1);
    if (!is_first) return false;
    tally.first_refused.fetch_add(1);
    EXPECT_EQ(drain_, Drain::kImpatient) << "a connection was ended before its first request was answered";
    return false;
  }

  void Wrong(const char* what, std::error_code error) {
    tally.wrong.fetch_add(1);
    ADD_FAILURE() << what << ": " << error.message();
  }

  const Drain drain_;
  const stress::KeptSocket socket_;
  std::unique_ptr<Generation> current_ = NewServer(socket_.NewListener());
};

}  // namespace weft::io

#endif  // WEFT_TESTS_STRESS_RESTARTING_SERVER_H_
