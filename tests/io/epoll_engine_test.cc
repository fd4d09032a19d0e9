// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What EpollReactor relies on.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "weft/io/reactor/epoll_reactor.h"

namespace weft::io {
namespace {

class EpollEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::error_code error;
    engine = EpollEngine::Make(&error);
    ASSERT_NE(engine, nullptr) << error.message();
    ASSERT_EQ(::pipe2(pipe, O_NONBLOCK | O_CLOEXEC), 0);
  }
  void TearDown() override {
    for (const int fd : pipe) {
      if (fd >= 0) ::close(fd);
    }
  }

  void WriteByte() { ASSERT_EQ(::write(pipe[1], "x", 1), 1); }
  void ReadByte() {
    char byte;
    ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
  }
  // All that is there now, for this tag.
  std::uint32_t Look(void* tag) {
    std::uint32_t events = 0;
    for (std::size_t n; (n = engine->Wait(/*block=*/false)) != 0;) events |= EventsOf(tag, n);
    return events;
  }
  // Waits until something is there for it.
  std::uint32_t WaitFor(void* tag) {
    for (;;) {
      if (const std::uint32_t events = EventsOf(tag, engine->Wait(/*block=*/true))) return events;
    }
  }

  std::unique_ptr<EpollEngine> engine;
  int pipe[2] = {-1, -1};
  int tag_ = 0;
  void* const tag = &tag_;

 private:
  std::uint32_t EventsOf(void* wanted, std::size_t count) {
    std::uint32_t events = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (engine->event(i).tag == wanted) events |= engine->event(i).events;
    }
    return events;
  }
};

TEST_F(EpollEngineTest, EachChangeIsToldOnce) {
  ASSERT_FALSE(engine->Add(pipe[0], EPOLLIN | EPOLLET, tag));
  EXPECT_EQ(Look(tag), 0u);
  WriteByte();
  EXPECT_EQ(WaitFor(tag) & EPOLLIN, EPOLLIN);
  EXPECT_EQ(Look(tag), 0u);
  WriteByte();  // There is more, though the first was not read.
  EXPECT_EQ(WaitFor(tag) & EPOLLIN, EPOLLIN);
  engine->Remove(pipe[0]);
}

TEST_F(EpollEngineTest, WhatIsThereAlreadyIsToldWhenItIsAdded) {
  WriteByte();
  ASSERT_FALSE(engine->Add(pipe[0], EPOLLIN | EPOLLET, tag));
  EXPECT_EQ(WaitFor(tag) & EPOLLIN, EPOLLIN);
  engine->Remove(pipe[0]);
}

TEST_F(EpollEngineTest, WhatIsThereAlreadyIsToldWhenItIsModified) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  ASSERT_FALSE(engine->Add(sockets[0], EPOLLIN | EPOLLET, tag));
  EXPECT_EQ(Look(tag), 0u);
  ASSERT_FALSE(engine->Modify(sockets[0], EPOLLIN | EPOLLOUT | EPOLLET, tag));
  EXPECT_EQ(WaitFor(tag) & EPOLLOUT, EPOLLOUT);
  engine->Remove(sockets[0]);
  for (const int fd : sockets) ::close(fd);
}

TEST_F(EpollEngineTest, OneShotIsSilentUntilItIsModified) {
  WriteByte();
  ASSERT_FALSE(engine->Add(pipe[0], EPOLLIN | EPOLLONESHOT, tag));
  EXPECT_EQ(WaitFor(tag) & EPOLLIN, EPOLLIN);
  WriteByte();
  EXPECT_EQ(Look(tag), 0u);
  ASSERT_FALSE(engine->Modify(pipe[0], EPOLLIN | EPOLLONESHOT, tag));
  EXPECT_EQ(WaitFor(tag) & EPOLLIN, EPOLLIN);
  engine->Remove(pipe[0]);
}

TEST_F(EpollEngineTest, NothingIsToldAfterRemove) {
  ASSERT_FALSE(engine->Add(pipe[0], EPOLLIN | EPOLLET, tag));
  engine->Remove(pipe[0]);
  WriteByte();
  EXPECT_EQ(Look(tag), 0u);
}

TEST_F(EpollEngineTest, TheEndIsTold) {
  ASSERT_FALSE(engine->Add(pipe[0], EPOLLIN | EPOLLRDHUP | EPOLLET, tag));
  ::close(std::exchange(pipe[1], -1));
  EXPECT_EQ(WaitFor(tag) & EPOLLHUP, EPOLLHUP);
  engine->Remove(pipe[0]);
}

TEST_F(EpollEngineTest, ModifyFindsThatTheDescriptorWasClosedAndIsAnotherNow) {
  const int first = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_FALSE(engine->Add(first, EPOLLIN | EPOLLONESHOT, tag));
  ::close(first);
  const int second = ::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_EQ(second, first);
  int other = 0;
  EXPECT_EQ(engine->Modify(second, EPOLLIN | EPOLLONESHOT, &other), std::errc::no_such_file_or_directory);
  ASSERT_FALSE(engine->Add(second, EPOLLIN | EPOLLONESHOT, &other));
  EXPECT_EQ(WaitFor(&other) & EPOLLIN, EPOLLIN);  // Of the second one.
  engine->Remove(second);
  ::close(second);
}

// Or the first would wait for ever.
TEST_F(EpollEngineTest, ASecondRegistrationOfADescriptorIsRefused) {
  int other = 0;
  ASSERT_FALSE(engine->Add(pipe[0], EPOLLIN | EPOLLET, tag));
  EXPECT_EQ(engine->Add(pipe[0], EPOLLIN | EPOLLONESHOT, &other), std::errc::file_exists);
  WriteByte();
  EXPECT_EQ(WaitFor(tag) & EPOLLIN, EPOLLIN);
  engine->Remove(pipe[0]);
  ASSERT_FALSE(engine->Add(pipe[0], EPOLLIN | EPOLLONESHOT, &other));
  EXPECT_EQ(WaitFor(&other) & EPOLLIN, EPOLLIN);
  EXPECT_EQ(engine->Add(pipe[0], EPOLLIN | EPOLLET, tag), std::errc::file_exists);  // Silent, but there.
  engine->Remove(pipe[0]);
}

TEST_F(EpollEngineTest, WhatIsNoDescriptorIsRefused) {
  EXPECT_EQ(engine->Add(-1, EPOLLIN, tag), std::errc::bad_file_descriptor);
  const int closed = ::eventfd(0, EFD_CLOEXEC);
  ::close(closed);
  EXPECT_EQ(engine->Add(closed, EPOLLIN, tag), std::errc::bad_file_descriptor);
}

TEST_F(EpollEngineTest, AnInterruptEndsTheWaitThatIsUnderWayOrTheNext) {
  for (int i = 0; i < 100; ++i) {
    engine->Interrupt();
    (void)engine->Wait(/*block=*/true);  // Or it would never return.
  }
  std::atomic<int> returned{0};
  std::thread waiter([&] {
    for (int i = 0; i < 200; ++i) {
      (void)engine->Wait(/*block=*/true);
      ++returned;
    }
  });
  // Sometimes before it waits, sometimes while it does. Returns without a reason shorten it.
  while (returned < 200) {
    const int before = returned;
    engine->Interrupt();
    while (returned == before) std::this_thread::yield();
  }
  waiter.join();
}

TEST_F(EpollEngineTest, AWaitEndsAtItsTimeOrWithAnEvent) {
  using Clock = std::chrono::steady_clock;
  ASSERT_FALSE(engine->Add(pipe[0], EPOLLIN | EPOLLET, tag));
  EXPECT_EQ(engine->WaitUntil(Clock::time_point::min()), 0u);
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(3);
  while (Clock::now() < until) {  // It may return for no reason, but mostly the loop ends after one wait.
    EXPECT_EQ(engine->WaitUntil(until), 0u);
  }
  WriteByte();
  while (engine->WaitUntil(Clock::now() + std::chrono::hours(1)) == 0) {
  }
  EXPECT_EQ(engine->event(0).tag, tag);
  engine->Remove(pipe[0]);
}

TEST_F(EpollEngineTest, ManyAreToldInSeveralRounds) {
  constexpr int kMany = 600;
  std::vector<int> fds;
  std::vector<int> told(kMany);
  for (int i = 0; i < kMany; ++i) {
    fds.push_back(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
    ASSERT_FALSE(engine->Add(fds.back(), EPOLLIN | EPOLLET, &told[i]));
  }
  for (int all = 0; all < kMany;) {
    const std::size_t count = engine->Wait(/*block=*/true);
    for (std::size_t i = 0; i < count; ++i) {
      if (engine->event(i).tag == nullptr) continue;
      EXPECT_EQ(++*static_cast<int*>(engine->event(i).tag), 1);
      ++all;
    }
  }
  for (const int fd : fds) {
    engine->Remove(fd);
    ::close(fd);
  }
}

}  // namespace
}  // namespace weft::io
