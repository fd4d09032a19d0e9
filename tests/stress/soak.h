// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the soaks share: of input and output (io_soak_test.cc), HTTP/2 (http2_soak_test.cc), and rpc
// (../rpc/rpc_soak_test.cc).
//
// WEFT_SOAK_SECONDS says for how long a soak runs, default 4 (tools/soak.sh: longer).
#ifndef WEFT_TESTS_STRESS_SOAK_H_
#define WEFT_TESTS_STRESS_SOAK_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <utility>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/testing/policy.h"

namespace weft::stress {

using Steady = std::chrono::steady_clock;

// How much less is done at a time under a sanitizer.
inline constexpr int kScale = WEFT_ASAN || WEFT_TSAN ? 4 : 1;
// A wait that nobody forgot ends sooner. Longer than the two below together, so that one that was forgotten shows.
inline constexpr std::chrono::seconds kLong{100};
// What ends later was forgotten; what ends earlier, but late, is the machine's doing.
inline constexpr std::chrono::seconds kLateAtMost{40};
// For how long a soak goes on, on a busy machine, until it has seen all that it looks for.
inline constexpr std::chrono::seconds kUntilAllIsSeen{30};

inline std::size_t CountOpenDescriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

// The soak's time, shared by the three numbers of workers that each soak is run with.
inline std::chrono::seconds SoakTime() {
  const char* const seconds = std::getenv("WEFT_SOAK_SECONDS");
  return std::chrono::seconds((seconds != nullptr ? std::atoi(seconds) : 4) / 3 + 1);
}

// One of the things that `count` counts, for as long as it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>* count) : count_(count) { count_->fetch_add(1); }
  ~Counted() { count_->fetch_sub(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>* const count_;
};

// A listening socket that stays while servers come and go on it.
class KeptSocket {
 public:
  KeptSocket() {
    io::TcpListener listener;
    EXPECT_FALSE(listener.Listen(io::SocketAddress::LoopbackIpv4(0)));
    address_ = listener.local_address();
    socket_ = ::fcntl(listener.fd(), F_DUPFD_CLOEXEC, 0);
    EXPECT_GE(socket_, 0);
  }
  ~KeptSocket() { ::close(socket_); }
  KeptSocket(const KeptSocket&) = delete;
  KeptSocket& operator=(const KeptSocket&) = delete;

  const io::SocketAddress& address() const { return address_; }
  io::TcpListener NewListener() const {
    io::TcpListener listener;
    EXPECT_FALSE(listener.Adopt(::fcntl(socket_, F_DUPFD_CLOEXEC, 0)));
    return listener;
  }

 private:
  io::SocketAddress address_;
  int socket_ = -1;
};

// Servers of one kind, one after the other, on one socket. A Generation is made of a listener, and has Stop(grace).
template <class Generation>
class Succession {
 public:
  using Make = std::function<std::unique_ptr<Generation>(io::TcpListener)>;
  // `patient`: each server has all the time that it needs for its drain.
  Succession(bool patient, Make make)
      : patient_(patient), make_(std::move(make)), current_(make_(socket_.NewListener())) {}

  // The next server accepts before the present one stops. In a fiber; one at a time.
  void Restart(std::minstd_rand& random) {
    std::unique_ptr<Generation> next = make_(socket_.NewListener());
    std::swap(current_, next);
    next->Stop(patient_ ? kLong : std::chrono::milliseconds(random() % 20));
    restarts_.fetch_add(1);
  }
  void StopForGood() {
    current_->Stop(kLong);
    current_.reset();
  }

  bool patient() const { return patient_; }
  const io::SocketAddress& address() const { return socket_.address(); }
  std::uint64_t restarts() const { return restarts_; }

 private:
  const bool patient_;
  const KeptSocket socket_;
  const Make make_;
  std::unique_ptr<Generation> current_;
  std::atomic<std::uint64_t> restarts_{0};
};

// The runtime of a soak. At its end no fiber and no descriptor is left.
class SoakRuntime {
 public:
  explicit SoakRuntime(int workers) {
    RuntimeOptions options;
    options.concurrency_hint = workers;
    options.scheduling_group_size = workers == 6 ? 3 : 0;  // Two groups.
    options.scheduling_name = testing::PolicyUnderTest();
    StartRuntime(options);
  }
  ~SoakRuntime() {
    // Each reactor has an epoll, an eventfd and a timerfd; the Watchdog has an epoll and a timerfd.
    const std::size_t of_weft = 3 * GetSchedulingGroupCount() + 2;
    EXPECT_EQ(TerminateRuntime(), 0U);
    EXPECT_LE(CountOpenDescriptors(), before_ + of_weft);
  }
  SoakRuntime(const SoakRuntime&) = delete;
  SoakRuntime& operator=(const SoakRuntime&) = delete;

 private:
  const std::size_t before_ = CountOpenDescriptors();
};

// Starts fibers that visit `place`, and one that restarts its server: visitors + 1, which `done` counts. They go on
// until `end`, and until place->HasSeenAll().
template <class Place>
void StartVisitors(Place* place, int visitors, Steady::time_point end, FiberLatch* done) {
  const auto goes_on = [place, end] {
    const Steady::time_point now = Steady::now();
    return now < end || (now < end + kUntilAllIsSeen && !place->HasSeenAll());
  };
  for (int i = 0; i < visitors; ++i) {
    ASSERT_TRUE(StartFiberDetached([place, i, goes_on, done] {
      std::minstd_rand random(static_cast<unsigned>(i * 55 + 3));
      while (goes_on()) place->Visit(random);
      done->CountDown();
    }));
  }
  ASSERT_TRUE(StartFiberDetached([place, goes_on, done] {
    std::minstd_rand random(11);
    while (goes_on()) {
      FiberSleepFor(std::chrono::microseconds(random() % 20'000));
      place->Restart(random);
    }
    done->CountDown();
  }));
}

}  // namespace weft::stress

#endif  // WEFT_TESTS_STRESS_SOAK_H_
