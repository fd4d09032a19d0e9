// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of io: a runtime of a given shape around each test, and afterwards no fiber, no descriptor and no
// registration may be left.
//
// WEFT_TEST_POLICY chooses what they run on.
#ifndef WEFT_TESTS_IO_IO_FIXTURE_H_
#define WEFT_TESTS_IO_IO_FIXTURE_H_

#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/unique_function.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/reactor/epoll_reactor.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/testing/function_ref.h"
#include "weft/tests/testing/patience.h"

namespace weft::io {

using fiber::Shape;

using testing::InTime;
using testing::kBeforeSoon;
using testing::kSoon;
using testing::Scaled;

// What must not come too late.
inline Deadline Soon() { return Deadline(kSoon); }

// The descriptors of this process.
inline std::set<int> OpenDescriptors() {
  std::set<int> numbers;
  DIR* const directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) std::abort();
  const int own = ::dirfd(directory);
  while (const dirent* entry = ::readdir(directory)) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number != own) numbers.insert(number);
  }
  ::closedir(directory);
  return numbers;
}

inline std::string NamesOf(const std::set<int>& numbers) {
  std::string names;
  for (const int number : numbers) {
    char target[256];
    const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(number)).c_str(), target, sizeof(target));
    names += ' ' + std::to_string(number) + ':' + (length > 0 ? std::string(target, length) : "closed");
  }
  return names;
}

// Makes the reactors of all groups: they stay.
inline std::vector<EpollReactor*> MakeReactors() {
  std::vector<EpollReactor*> reactors(GetSchedulingGroupCount());
  for (std::size_t g = 0; g < reactors.size(); ++g) {
    Fiber({.scheduling_group = g, .scheduling_group_local = true}, [&reactors, g] {
      std::error_code error;
      reactors[g] = EpollReactor::OfCurrentGroup(&error);
      if (reactors[g] == nullptr) {
        std::fprintf(stderr, "no reactor: %s\n", error.message().c_str());
        std::abort();
      }
    }).Join();
  }
  return reactors;
}

// A runtime for as long as it lives; at its end nothing may be left.
class IoRuntime {
 public:
  explicit IoRuntime(Shape shape) : IoRuntime(fiber::OptionsOf(shape)) {}
  explicit IoRuntime(const RuntimeOptions& options)
      : runtime_(options), reactors_(MakeReactors()), open_before_(OpenDescriptors()) {}
  ~IoRuntime() {
    std::size_t left = 0;
    if (IsRuntimeRunning()) left = TerminateRuntime();
    EXPECT_EQ(left, std::size_t{0}) << "fibers have not finished";
    for (const EpollReactor* reactor : reactors_) {
      EXPECT_EQ(reactor->counts().descriptors, 0u) << "a descriptor is still registered";
    }
    std::set<int> leaked;
    for (const int number : OpenDescriptors()) {
      if (!open_before_.contains(number)) leaked.insert(number);
    }
    EXPECT_TRUE(leaked.empty()) << "descriptors are left open:" << NamesOf(leaked);
  }

  // By group. Good for ever.
  const std::vector<EpollReactor*>& reactors() const { return reactors_; }
  EpollReactor::Counts counts() const {
    EpollReactor::Counts all;
    for (const EpollReactor* reactor : reactors_) {
      const EpollReactor::Counts some = reactor->counts();
      all.waits += some.waits;
      all.polls += some.polls;
      all.events += some.events;
      all.watchdog_wakes += some.watchdog_wakes;
      all.descriptors += some.descriptors;
    }
    return all;
  }

 private:
  fiber::RuntimeOf runtime_;
  const std::vector<EpollReactor*> reactors_;
  const std::set<int> open_before_;
};

class IoTest : public ::testing::TestWithParam<Shape>, protected fiber::CallsInFibers {
 protected:
  // Once in a fiber, once in a plain thread.
  static void InFiberAndInThread(testing::FunctionRef f) {
    InFiber(f);
    InThread(f);
  }

  IoRuntime runtime_{GetParam()};
};

#define WEFT_INSTANTIATE_IO_SHAPES(suite) WEFT_INSTANTIATE_THESE_SHAPES(suite, {1, 1}, {2, 1}, {4, 1}, {8, 1}, {2, 2})

// For tests that wait for a time-out of the kernel.
#define WEFT_INSTANTIATE_ONE_IO_SHAPE(suite) \
  INSTANTIATE_TEST_SUITE_P(Shapes, suite, ::testing::Values(::weft::fiber::Shape{2, 1}), &::weft::fiber::NameOf)

// A fiber or a thread.
class Actor {
 public:
  Actor(bool in_fiber, base::UniqueFunction<void()> f) {
    auto run = [f = std::move(f)]() mutable { f(); };
    if (in_fiber) {
      fiber_.emplace(std::move(run));
    } else {
      thread_.emplace(std::move(run));
    }
  }
  Actor(Actor&&) = default;
  ~Actor() { Join(); }
  void Join() {
    if (fiber_.has_value() && fiber_->Joinable()) fiber_->Join();
    if (thread_.has_value() && thread_->joinable()) thread_->join();
  }

 private:
  std::optional<Fiber> fiber_;
  std::optional<std::thread> thread_;
};

// An address of this process alone, with any port. A port of 127.0.0.1 that a test has given up may be a listener's in
// another process at once: that answers where nobody should, and loses the room in its queue.
inline SocketAddress OwnLoopback() {
  const auto id = static_cast<unsigned>(::getpid());
  const std::string host = "127." + std::to_string(1 + (id >> 16) % 128) + '.' + std::to_string((id >> 8) % 256) + '.' +
                           std::to_string(id % 256);
  return *SocketAddress::Parse(host + ":0");
}

struct Pair {
  TcpStream client;
  TcpStream server;
};

// Fiber or thread.
inline Pair ConnectedPair(const SocketAddress& address = OwnLoopback()) {
  Pair pair;
  TcpListener listener;
  std::error_code error = listener.Listen(address);
  if (!error) error = pair.client.Connect(listener.local_address(), Soon());
  if (!error) error = listener.Accept(&pair.server, Soon());
  if (error) {
    std::fprintf(stderr, "no connected pair: %s\n", error.message().c_str());
    std::abort();
  }
  return pair;
}

// An abstract Unix address of this test alone.
inline SocketAddress UnixAddress() {
  static std::atomic<int> count{0};
  return *SocketAddress::Parse("unix:@weft_test_" + std::to_string(::getpid()) + '_' + std::to_string(++count));
}

// Waits for a state that somebody else is about to reach. Fiber or thread; false: not within kSoon.
template <class Condition>
[[nodiscard]] bool Reaches(Condition&& condition) {
  for (const Deadline limit = Soon(); !condition();) {
    if (limit.expired()) return false;
    (void)synchronization::SleepUntil(std::chrono::microseconds(100), synchronization::Interruptible::kNo);
  }
  return true;
}

}  // namespace weft::io

#endif  // WEFT_TESTS_IO_IO_FIXTURE_H_
