// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/readable_watch.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/this_fiber.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using Armed = ReadableWatch::Armed;

class ReadableWatchTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(ReadableWatchTest);

class Watch : public ReadableWatch {
 public:
  Watch() : ReadableWatch([](ReadableWatch* self) noexcept { static_cast<Watch*>(self)->calls_.fetch_add(1); }) {}
  int calls() const { return calls_.load(); }

 private:
  std::atomic<int> calls_{0};
};

// Two ends of a socket; one is watched.
struct Watched {
  Watched() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    own = Descriptor(ends[0]);
    other = ends[1];
  }
  ~Watched() { ::close(other); }
  void Send() const { EXPECT_EQ(::write(other, "x", 1), 1); }
  void Receive() const {
    char byte;
    EXPECT_EQ(::read(own.fd(), &byte, 1), 1);
  }
  Descriptor own;
  int other;
};

TEST_P(ReadableWatchTest, IsCalledOnceWhenBytesCome) {
  InFiber([] {
    Watched end;
    Watch watch;
    for (int i = 1; i <= 3; ++i) {
      ASSERT_EQ(end.own.Arm(&watch), Armed::kArmed);
      EXPECT_EQ(watch.calls(), i - 1);
      end.Send();
      EXPECT_TRUE(Reaches([&] { return watch.calls() == i; }));
      EXPECT_FALSE(watch.Disarm());
      end.Receive();
    }
  });
}

// RDW2
TEST_P(ReadableWatchTest, IsNotArmedWhileThereAreBytes) {
  InFiber([] {
    Watched end;
    Watch watch;
    end.Send();
    EXPECT_EQ(end.own.Arm(&watch), Armed::kReadable);
    end.Send();
    end.Receive();
    EXPECT_EQ(end.own.Arm(&watch), Armed::kReadable);
    end.Receive();
    ASSERT_EQ(end.own.Arm(&watch), Armed::kArmed);
    EXPECT_TRUE(watch.Disarm());
    EXPECT_EQ(watch.calls(), 0);
  });
}

TEST_P(ReadableWatchTest, ADisarmedWatchIsNotCalled) {
  InFiber([] {
    Watched end;
    Watch watch;
    EXPECT_FALSE(watch.Disarm()) << "it was never armed";
    ASSERT_EQ(end.own.Arm(&watch), Armed::kArmed);
    EXPECT_TRUE(watch.Disarm());
    EXPECT_FALSE(watch.Disarm());
    end.Send();
    EXPECT_FALSE(end.own.WaitReadable(Soon()));  // The event has come.
    EXPECT_EQ(watch.calls(), 0);
    end.Receive();
    ASSERT_EQ(end.own.Arm(&watch), Armed::kArmed);
    EXPECT_TRUE(watch.Disarm());
  });
}

// RDW4
TEST_P(ReadableWatchTest, CloseCallsItAndDoesNotWait) {
  for (const bool in_fiber : {true, false}) {
    InFiber([in_fiber] {
      Watched end;
      Watch watch;
      ASSERT_EQ(end.own.Arm(&watch), Armed::kArmed);
      Actor(in_fiber, [&] { EXPECT_TRUE(end.own.Close()); }).Join();
      EXPECT_TRUE(Reaches([&] { return watch.calls() == 1; }));
      EXPECT_EQ(end.own.Arm(&watch), Armed::kReadable);
      char byte;
      EXPECT_EQ(::read(end.other, &byte, 1), 0) << "its use has ended, so the number is closed";
    });
  }
}

// Whoever ends the wait is not held up by a full run queue.
TEST_P(ReadableWatchTest, ItIsCalledWhereNobodyWaits) {
  struct Asking : ReadableWatch {
    Asking()
        : ReadableWatch([](ReadableWatch* self) noexcept {
            const scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
            const bool may_wait = worker != nullptr ? !worker->must_not_switch : scheduling_group::ThreadMayWait();
            static_cast<Asking*>(self)->answer = may_wait ? 1 : 2;
          }) {}
    std::atomic<int> answer{0};
  };
  for (const bool in_fiber : {true, false}) {
    Watched by_event;
    Watched by_close;
    Asking event;
    Asking close;
    InFiber([&] {
      ASSERT_EQ(by_event.own.Arm(&event), Armed::kArmed);
      ASSERT_EQ(by_close.own.Arm(&close), Armed::kArmed);
    });
    by_event.Send();
    Actor(in_fiber, [&] {
      by_close.own.Close();
      const scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
      EXPECT_TRUE(worker != nullptr ? !worker->must_not_switch : scheduling_group::ThreadMayWait());
    }).Join();
    EXPECT_TRUE(Reaches([&] { return event.answer == 2 && close.answer == 2; }));
  }
}

// RDW5
TEST_P(ReadableWatchTest, AfterForbidItIsNotArmed) {
  InFiber([] {
    Watched end;
    Watch watch;
    watch.Forbid();
    end.Send();
    EXPECT_EQ(end.own.Arm(&watch), Armed::kReadable);
    end.Receive();
    EXPECT_EQ(end.own.Arm(&watch), Armed::kForbidden);
    EXPECT_FALSE(watch.Disarm());
    // Bytes that nobody has heard of.
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(end.own.Arm(&watch), Armed::kForbidden);
      end.Send();
      EXPECT_EQ(end.own.Arm(&watch), Armed::kReadable);
      end.Receive();
    }
  });
}

// RDW1: an event, a close and two that disarm, at the same time: one of them has it.
TEST_P(ReadableWatchTest, OneEndsIt) {
  for (int round = 0; round < Scaled(2000); ++round) {
    Watched end;
    Watch watch;
    std::atomic<int> disarmed{0};
    InFiber([&] { ASSERT_EQ(end.own.Arm(&watch), Armed::kArmed); });
    FiberLatch begin(4);
    std::vector<Fiber> fibers;
    for (int i = 0; i < 2; ++i) {
      fibers.emplace_back([&] {
        begin.ArriveAndWait();
        if (watch.Disarm()) ++disarmed;
      });
    }
    fibers.emplace_back([&] {
      begin.ArriveAndWait();
      (void)::send(end.other, "x", 1, MSG_NOSIGNAL);  // It may be closed.
    });
    fibers.emplace_back([&] {
      begin.ArriveAndWait();
      EXPECT_TRUE(end.own.Close());
    });
    for (Fiber& fiber : fibers) fiber.Join();
    ASSERT_TRUE(Reaches([&] { return disarmed + watch.calls() >= 1; }));
    ASSERT_FALSE(watch.Disarm());
    ASSERT_EQ(disarmed + watch.calls(), 1);
  }
}

// RDW5: who forbids and then disarms, while another one arms: it is not armed afterwards.
TEST_P(ReadableWatchTest, ForbidWhileItIsArmed) {
  for (int round = 0; round < Scaled(2000); ++round) {
    Watched end;
    Watch watch;
    FiberLatch begin(2);
    std::atomic<bool> disarmed{false};
    Armed armed{};
    Fiber arming([&] {
      begin.ArriveAndWait();
      armed = end.own.Arm(&watch);
    });
    Fiber ending([&] {
      begin.ArriveAndWait();
      watch.Forbid();
      disarmed = watch.Disarm();
    });
    arming.Join();
    ending.Join();
    // An event of the slot's former use may have ended it, too.
    ASSERT_TRUE(Reaches([&] { return (armed == Armed::kArmed) == (disarmed + watch.calls() == 1); }));
    ASSERT_FALSE(watch.Disarm());
  }
}

}  // namespace
}  // namespace weft::io
