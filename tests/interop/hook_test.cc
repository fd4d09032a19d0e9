// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Where calls are hooked, and how their waits end. With sockets; other calls: hook_calls_test.cc.
#include "weft/interop/hook.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/io/wait_fd.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/cancel_scope.h"
#include "weft/tests/fiber/forked_child.h"

#include "interop/hook_fixture.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::interop {
namespace {

class HookWhere : public HookTest {};
WEFT_INSTANTIATE_HOOK_SHAPES(HookWhere);

TEST_P(HookWhere, NothingIsHookedUnlessAFiberAsks) {
  ASSERT_TRUE(CanHookBlockingCalls());
  EXPECT_FALSE(BlockingCallsAreHooked());
  const std::uint64_t before = CountOf("recv").calls;
  Ends ends = SocketPair();
  ASSERT_EQ(::send(ends.b, "x", 1, 0), 1);
  InFiber([&] {
    EXPECT_FALSE(BlockingCallsAreHooked());
    char byte = 0;
    EXPECT_EQ(::recv(ends.a, &byte, 1, 0), 1);
    HookBlockingCalls hooked;
    EXPECT_TRUE(BlockingCallsAreHooked());
    Fiber([] { EXPECT_FALSE(BlockingCallsAreHooked()) << "what a fiber starts has not asked"; }).Join();
    {
      HookBlockingCalls not_here(false);
      EXPECT_FALSE(BlockingCallsAreHooked());
    }
    EXPECT_TRUE(BlockingCallsAreHooked());
  });
  InFiber([] { EXPECT_FALSE(BlockingCallsAreHooked()) << "it is over with the block"; });
  EXPECT_EQ(CountOf("recv").calls, before);
}

TEST_P(HookWhere, AllFibersMayBeHooked) {
  HookBlockingCallsOfAllFibers(true);
  InFiber([] {
    EXPECT_TRUE(BlockingCallsAreHooked());
    HookBlockingCalls not_here(false);
    EXPECT_FALSE(BlockingCallsAreHooked());
  });
  const std::uint64_t before = CountOf("recv").calls;
  Ends ends = SocketPair();
  InThread([&] {
    HookBlockingCalls has_no_effect;
    EXPECT_FALSE(BlockingCallsAreHooked());
    char byte = 0;
    EXPECT_EQ(::send(ends.b, "x", 1, 0), 1);
    EXPECT_EQ(::recv(ends.a, &byte, 1, 0), 1);
  });
  EXPECT_EQ(CountOf("recv").calls, before);
  HookBlockingCallsOfAllFibers(false);
  InFiber([] { EXPECT_FALSE(BlockingCallsAreHooked()); });
}

TEST_P(HookWhere, ACallIsNotHookedWhereItsFiberMayNotSwitch) {
  InHookedFiber([] {
    scheduling_group::NoWaitSection section;
    EXPECT_FALSE(BlockingCallsAreHooked());
    ::usleep(1);  // The machine's own.
  });
}

TEST_P(HookWhere, WeftsOwnCallsStayWhatTheyAre) {
  HookBlockingCallsOfAllFibers(true);
  InFiber([] {
    io::Pair pair = io::ConnectedPair();
    Fiber echo([&] {
      char byte = 0;
      EXPECT_TRUE(pair.server.ReadSome(&byte, 1, io::Soon()).ok());
      EXPECT_TRUE(pair.server.WriteAll(&byte, 1, io::Soon()).ok());
    });
    FiberYield();
    char byte = 0;
    EXPECT_TRUE(pair.client.WriteAll("x", 1, io::Soon()).ok());
    EXPECT_TRUE(pair.client.ReadSome(&byte, 1, io::Soon()).ok());
    EXPECT_EQ(byte, 'x');
    echo.Join();
  });
  HookBlockingCallsOfAllFibers(false);
}

// ---- A wait ends ----

class HookWaits : public HookTest {};
WEFT_INSTANTIATE_HOOK_SHAPES(HookWaits);

TEST_P(HookWaits, AParkedCallLeavesItsWorkerToOthers) {
  Ends ends = SocketPair();
  char byte = 0;
  // With one worker the second fiber runs only if the first one does not block it.
  Fiber reader = HookedFiber([&] { EXPECT_EQ(::recv(ends.a, &byte, 1, 0), 1); });
  Fiber writer = HookedFiber([&] { EXPECT_EQ(::send(ends.b, "x", 1, 0), 1); });
  reader.Join();
  writer.Join();
  EXPECT_EQ(byte, 'x');
}

TEST_P(HookWaits, ACancellationEndsACallWithEcanceled) {
  Ends ends = SocketPair();
  CancelScope scope;
  WhileParked(
      "recv",
      [&] {
        EXPECT_TRUE(scope.Run([&] {
          char byte = 0;
          EXPECT_EQ(::recv(ends.a, &byte, 1, 0), -1);
          EXPECT_EQ(errno, ECANCELED);
          // For each call that would wait.
          EXPECT_EQ(::recv(ends.a, &byte, 1, 0), -1);
          EXPECT_EQ(errno, ECANCELED);
          EXPECT_EQ(::send(ends.a, "x", 1, 0), 1) << "this one need not";
        }));
      },
      [&] { scope.Cancel(); });
  CancelScope late(1ms);
  InHookedFiber([&] {
    EXPECT_TRUE(late.Run([&] {
      char byte = 0;
      EXPECT_EQ(::read(ends.a, &byte, 1), -1);
      EXPECT_EQ(errno, ECANCELED) << "by its deadline";
    }));
  });
}

TEST_P(HookWaits, ACallWaitsInACancelledScopeUnderAShield) {
  Ends ends = SocketPair();
  InHookedFiber([&] {
    CancelScope scope;
    scope.Cancel();
    scope.Run([&] {
      Shielded([&] {
        Fiber writer([&] { EXPECT_EQ(::send(ends.b, "x", 1, 0), 1); });
        char byte = 0;
        EXPECT_EQ(::recv(ends.a, &byte, 1, 0), 1);
        writer.Join();
      });
    });
  });
}

TEST_P(HookWaits, TimeOutsOfTheSocketHold) {
  Ends ends = SocketPair();
  SetTimeOut(ends.a, SO_RCVTIMEO, 2ms);
  SetTimeOut(ends.a, SO_SNDTIMEO, 2ms);
  InHookedFiber([&] {
    const auto begin = std::chrono::steady_clock::now();
    char byte = 0;
    EXPECT_EQ(::recv(ends.a, &byte, 1, 0), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    const std::vector<char> much(8 << 20);
    const ssize_t sent = ::send(ends.a, much.data(), much.size(), 0);
    EXPECT_GT(sent, 0) << "what could be sent counts more than that it took too long";
    EXPECT_LT(sent, static_cast<ssize_t>(much.size()));
    EXPECT_EQ(::send(ends.a, much.data(), much.size(), 0), -1);
    EXPECT_EQ(errno, EAGAIN);
  });
}

TEST_P(HookWaits, ADescriptorThatDoesNotBlockDoesNotWait) {
  Ends ends = SocketPair();
  ASSERT_EQ(::fcntl(ends.a, F_SETFL, O_NONBLOCK), 0);
  SetTimeOut(ends.a, SO_RCVTIMEO, 1ms);
  SetTimeOut(ends.a, SO_SNDTIMEO, 1ms);
  const std::uint64_t before = CountOf("recv").waits;
  InHookedFiber([&] {
    char byte = 0;
    EXPECT_EQ(::recv(ends.a, &byte, 1, 0), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(::recv(ends.b, &byte, 1, MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, EAGAIN);
    const std::vector<char> much(8 << 20);
    const ssize_t sent = ::write(ends.a, much.data(), much.size());
    EXPECT_GT(sent, 0);
    EXPECT_LT(sent, static_cast<ssize_t>(much.size()));
  });
  EXPECT_EQ(CountOf("recv").waits, before);
}

TEST_P(HookWaits, ClosingTheDescriptorEndsACall) {
  if (WEFT_TSAN) GTEST_SKIP() << "it takes close() for a race with what waits for the descriptor";
  enum class How { kClose, kDup2, kDup3, kCloseFd };
  for (const How how : {How::kClose, How::kDup2, How::kDup3, How::kCloseFd}) {
    Ends ends = SocketPair();
    SetTimeOut(ends.a, SO_RCVTIMEO, 10s);
    const int number = ends.a;
    WhileParked(
        "recv",
        [&] {
          char byte = 0;
          EXPECT_EQ(::recv(number, &byte, 1, 0), -1);
          EXPECT_EQ(errno, ECANCELED);
        },
        [&] {
          // The wait is counted just before it begins.
          ASSERT_TRUE(Reaches([&] { return runtime_.counts().descriptors != 0; }));
          OpenFd other(::eventfd(0, EFD_CLOEXEC));
          switch (how) {
            case How::kClose:
              ends.a.Close();
              break;
            case How::kDup2:
              EXPECT_EQ(::dup2(other, number), number);
              break;
            case How::kDup3:
              EXPECT_EQ(::dup3(other, number, O_CLOEXEC), number);
              break;
            case How::kCloseFd:
              EXPECT_FALSE(io::CloseFd(ends.a.Release()));
              break;
          }
        });
  }
}

TEST_P(HookWaits, ANumberThatMeansSomethingElseIsReadAsThat) {
  InHookedFiber([] {
    char byte = 0;
    Ends sockets = SocketPair();
    EXPECT_EQ(::write(sockets.b, "s", 1), 1);
    EXPECT_EQ(::read(sockets.a, &byte, 1), 1);
    // close_range() is not hooked.
    Ends pipe = PipeEnds();
    const int number = sockets.a.Release();
    ASSERT_EQ(::close_range(static_cast<unsigned>(number), static_cast<unsigned>(number), 0), 0);
    OpenFd in_its_place(::fcntl(pipe.a, F_DUPFD_CLOEXEC, number));
    ASSERT_EQ(in_its_place, number);
    EXPECT_EQ(::write(pipe.b, "p", 1), 1);
    EXPECT_EQ(::read(in_its_place, &byte, 1), 1);
    EXPECT_EQ(byte, 'p');
  });
}

TEST_P(HookWaits, OneOfWeftsOwnSocketsMayBeWaitedFor) {
  if (WEFT_TSAN) GTEST_SKIP() << "poll(): see interop/hook.h";
  io::Pair pair = io::ConnectedPair();
  // A fiber of the group has waited for it.
  InFiber([&] {
    Fiber reader([&] {
      char byte = 0;
      EXPECT_TRUE(pair.client.ReadSome(&byte, 1, io::Soon()).ok());
    });
    FiberYield();
    EXPECT_TRUE(pair.server.WriteAll("x", 1, io::Soon()).ok());
    reader.Join();
  });
  WhileParked(
      "poll",
      [&] {
        pollfd polled{.fd = pair.client.fd(), .events = POLLIN, .revents = 0};
        EXPECT_EQ(::poll(&polled, 1, -1), 1);
        EXPECT_EQ(polled.revents, POLLIN);
      },
      [&] { InFiber([&] { EXPECT_TRUE(pair.server.WriteAll("x", 1, io::Soon()).ok()); }); });
}

// ---- fork ----

TEST_P(HookWaits, AForkedFiberHasNoHooks) {
  Ends ends = SocketPair();
  InHookedFiber([&] {
    const fiber::Ended ended = fiber::Fork([&] {
      if (BlockingCallsAreHooked()) ::_exit(1);
      char byte = 0;
      if (::send(ends.b, "x", 1, 0) != 1 || ::recv(ends.a, &byte, 1, 0) != 1) ::_exit(2);
    });
    EXPECT_TRUE(ended.with(fiber::kFine)) << ended.status << ' ' << ended.text;
    EXPECT_TRUE(BlockingCallsAreHooked());
  });
}

TEST_P(HookWaits, AForkedChildClosesWhatFibersWaitFor) {
  Ends ends = SocketPair();
  const int number = ends.a;
  WhileParked(
      "recv",
      [&] {
        char byte = 0;
        EXPECT_EQ(::recv(number, &byte, 1, 0), 1);
      },
      [&] {
        ASSERT_TRUE(Reaches([&] { return runtime_.counts().descriptors != 0; }));
        const fiber::Ended ended = fiber::Fork([&] {
          if (::close(number) != 0) ::_exit(1);
        });
        EXPECT_TRUE(ended.with(fiber::kFine)) << ended.status << ' ' << ended.text;
        EXPECT_EQ(::send(ends.b, "x", 1, 0), 1);
      });
}

TEST_P(HookWaits, AChildOfVforkClosesItsOwn) {
  Ends ends = SocketPair();
  const int number = ends.a;
  WhileParked(
      "recv",
      [&] {
        char byte = 0;
        EXPECT_EQ(::recv(number, &byte, 1, 0), 1) << std::strerror(errno);
      },
      [&] {
        ASSERT_TRUE(Reaches([&] { return runtime_.counts().descriptors != 0; }));
        const pid_t child = ::vfork();
        if (child == 0) {
          static_cast<void>(::close(number));
          ::_exit(0);
        }
        EXPECT_EQ(::waitpid(child, nullptr, 0), child);
        EXPECT_EQ(::send(ends.b, "x", 1, 0), 1);
      });
}

// ---- Threads ----

TEST(HookInAThread, ACancelledThreadEndsInItsCall) {
  Ends ends = PipeEnds();
  pthread_t thread;
  ASSERT_EQ(::pthread_create(
                &thread, nullptr,
                [](void* fd) -> void* {
                  char byte = 0;
                  static_cast<void>(!::read(*static_cast<OpenFd*>(fd), &byte, 1));
                  return nullptr;
                },
                &ends.a),
            0);
  EXPECT_EQ(::pthread_cancel(thread), 0);
  void* result = nullptr;
  EXPECT_EQ(::pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

// ---- FiberLoop ----

TEST(HookInALoop, FibersOfALoopAreHookedToo) {
  FiberLoop loop;
  std::string order;
  Ends ends = SocketPair();
  loop.AddTask([&] {
    HookBlockingCalls hooked;
    char byte = 0;
    EXPECT_EQ(::recv(ends.a, &byte, 1, 0), 1);
    order += 'r';
  });
  loop.AddTask([&] {
    order += 'w';
    EXPECT_EQ(::send(ends.b, "x", 1, 0), 1);
  });
  loop.Run();
  EXPECT_EQ(order, "wr");
}

TEST(HookInALoop, AForkedFiberOfALoopHasNoHooks) {
  FiberLoop loop;
  Ends ends = SocketPair();
  loop.AddTask([&] {
    HookBlockingCalls hooked;
    const fiber::Ended ended = fiber::Fork([&] {
      if (BlockingCallsAreHooked()) ::_exit(1);
      char byte = 0;
      if (::send(ends.b, "x", 1, 0) != 1 || ::recv(ends.a, &byte, 1, 0) != 1) ::_exit(2);
    });
    EXPECT_TRUE(ended.with(fiber::kFine)) << ended.status << ' ' << ended.text;
    EXPECT_TRUE(BlockingCallsAreHooked());
  });
  loop.Run();
}

}  // namespace
}  // namespace weft::interop
