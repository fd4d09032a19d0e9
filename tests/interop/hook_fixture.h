// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// For tests of the hooks: fibers whose blocking calls are hooked, and blocking descriptors, which end at kSoon.
#ifndef WEFT_TESTS_INTEROP_HOOK_FIXTURE_H_
#define WEFT_TESTS_INTEROP_HOOK_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/interop/hook.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::interop {

using namespace std::chrono_literals;
using io::Reaches;
using testing::kSoon;

// Open as long as it lives.
class OpenFd {
 public:
  explicit OpenFd(int fd = -1) : fd_(fd) {}
  OpenFd(OpenFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFd& operator=(OpenFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OpenFd() { Close(); }
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ < 0) return;
    EXPECT_EQ(::close(Release()), 0);
  }
  operator int() const { return fd_; }  // NOLINT: as the number.

 private:
  int fd_;
};

inline void SetTimeOut(int fd, int option, std::chrono::microseconds limit) {
  const timeval time{.tv_sec = limit / 1s, .tv_usec = (limit % 1s).count()};
  ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, option, &time, sizeof(time)), 0);
}

// Two ends of something that blocks.
struct Ends {
  OpenFd a;
  OpenFd b;
};

inline Ends SocketPair(int type = SOCK_STREAM) {
  int both[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, both) != 0) std::abort();
  for (const int fd : both) {
    SetTimeOut(fd, SO_RCVTIMEO, kSoon);
    SetTimeOut(fd, SO_SNDTIMEO, kSoon);
  }
  return {OpenFd(both[0]), OpenFd(both[1])};
}

// a reads, b writes.
inline Ends PipeEnds() {
  int both[2];
  if (::pipe2(both, O_CLOEXEC) != 0) std::abort();
  return {OpenFd(both[0]), OpenFd(both[1])};
}

// A blocking listener on the loopback interface, and its address.
struct BlockingListener {
  explicit BlockingListener(int backlog = 16) {
    std::memcpy(&address, io::OwnLoopback().data(), sizeof(address));
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd, backlog), 0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    SetTimeOut(fd, SO_RCVTIMEO, kSoon);
  }
  const sockaddr* at() const { return reinterpret_cast<const sockaddr*>(&address); }

  OpenFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
};

inline HookedCallCount CountOf(std::string_view name) {
  for (const HookedCallCount& count : GetHookedCallCounts()) {
    if (count.name == name) return count;
  }
  ADD_FAILURE() << name << " is not counted";
  return {};
}

class HookTest : public io::IoTest {
 protected:
  // A fiber whose calls are hooked.
  template <class F>
  static Fiber HookedFiber(F f) {
    return Fiber([f = std::move(f)]() mutable {
      HookBlockingCalls hooked;
      f();
    });
  }
  template <class F>
  static void InHookedFiber(F f) {
    HookedFiber(std::move(f)).Join();
  }
  // Runs meanwhile() when a fiber has parked in call(), a hooked `name`.
  template <class Call, class Meanwhile>
  static void WhileParked(std::string_view name, Call call, Meanwhile meanwhile) {
    const std::uint64_t before = CountOf(name).waits;
    Fiber caller = HookedFiber(std::move(call));
    ASSERT_TRUE(Reaches([&] { return CountOf(name).waits > before; }));
    meanwhile();
    caller.Join();
  }
};

#define WEFT_INSTANTIATE_HOOK_SHAPES(suite) WEFT_INSTANTIATE_THESE_SHAPES(suite, {1, 1}, {2, 1}, {2, 2})

}  // namespace weft::interop

#endif  // WEFT_TESTS_INTEROP_HOOK_FIXTURE_H_
