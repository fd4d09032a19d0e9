// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fibers that never find a reason to wait (scheduling_group/worker/time_slice.h), and input and output.
#include "weft/scheduling_group/worker/time_slice.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "weft/io/udp_socket.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

// It ends by itself, so that a failed test does not hang.
template <class Done>
bool LoopUntil(const Done& done, const std::function<void()>& operation) {
  const Deadline give_up_at = std::chrono::seconds(15);
  for (;;) {
    for (int i = 0; i < 100; ++i) {
      operation();
      if (done()) return true;
    }
    if (give_up_at.expired()) return false;
  }
}

class IoTimeSliceTest : public IoTest {
 protected:
  // On each worker a fiber that does nothing else, until another fiber has run.
  void ExpectThatOthersRunBeside(const std::function<void()>& operation) {
    ExpectThatOthersRunBesideEach([&](int) { operation(); });
  }
  // The same; it is told which of them it is.
  void ExpectThatOthersRunBesideEach(const std::function<void(int)>& operation) {
    const int workers = GetParam().workers * GetParam().groups;
    std::atomic<int> looping = 0;
    std::atomic<bool> other_has_run = false;
    std::atomic<int> ended_by_the_other = 0;
    std::vector<Fiber> loops;
    for (int i = 0; i < workers; ++i) {
      loops.emplace_back([&, i] {
        ++looping;
        if (LoopUntil([&] { return looping == workers && other_has_run; }, [&] { operation(i); })) ++ended_by_the_other;
      });
    }
    Fiber other([&] { other_has_run = true; });
    for (Fiber& loop : loops) loop.Join();
    other.Join();
    EXPECT_EQ(ended_by_the_other, workers);
  }
};
WEFT_INSTANTIATE_IO_SHAPES(IoTimeSliceTest);

TEST_P(IoTimeSliceTest, WhoWaitsForInputIsServedBesideFibersThatLoopOverAMutexOnAllWorkers) {
  const int workers = GetParam().workers * GetParam().groups;
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_GE(event, 0);
  std::atomic<bool> served = false;
  std::atomic<int> looping = 0;
  std::atomic<int> ended_by_the_other = 0;
  Fiber waiting([&] {
    const WaitFdResult result = WaitFd(event, POLLIN, Soon());
    EXPECT_EQ(result.events, POLLIN);
    served = true;
  });
  ASSERT_TRUE(Reaches([&] { return runtime_.counts().descriptors == 1; }));
  std::vector<Fiber> loops;
  for (int i = 0; i < workers; ++i) {
    loops.emplace_back([&] {
      FiberMutex mutex;
      ++looping;
      if (LoopUntil([&] { return looping == workers && served; }, [&] { std::scoped_lock lock(mutex); })) {
        ++ended_by_the_other;
      }
    });
  }
  ASSERT_TRUE(Reaches([&] { return looping == workers; }));
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(event, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  for (Fiber& loop : loops) loop.Join();
  waiting.Join();
  (void)CloseFd(event);
  EXPECT_EQ(ended_by_the_other, workers);
}

TEST_P(IoTimeSliceTest, AFiberThatLoopsOverASocketThatIsAlwaysReadyLetsOthersRun) {
  UdpSocket socket;
  ASSERT_FALSE(socket.Bind(OwnLoopback()));
  // Too long for a datagram: refused at once. One that is sent may wait for room, which lets others run too.
  const std::string datagram(100'000, 'x');
  ExpectThatOthersRunBeside([&] {
    EXPECT_EQ(socket.SendTo(datagram.data(), datagram.size(), socket.local_address(), Soon()).error,
              std::errc::message_size);
  });
}

// At the end of a stream each read returns at once.
TEST_P(IoTimeSliceTest, AFiberThatReadsFromAStreamThatIsAlwaysReadyLetsOthersRun) {
  std::vector<Pair> pairs;
  for (int i = 0; i < GetParam().workers * GetParam().groups; ++i) {
    pairs.push_back(ConnectedPair());
    ASSERT_FALSE(pairs.back().server.ShutdownWrite());
  }
  ExpectThatOthersRunBesideEach([&](int loop) {
    char byte;
    const IoResult end = pairs[static_cast<std::size_t>(loop)].client.ReadSome(&byte, 1, Soon());
    EXPECT_TRUE(end.ok() && end.bytes == 0);
  });
}

TEST_P(IoTimeSliceTest, AFiberThatOnlyLooksAtDescriptorsLetsOthersRun) {
  const int event = ::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_GE(event, 0);
  // A deadline that has passed: a look.
  ExpectThatOthersRunBeside([&] { (void)WaitFd(event, POLLIN, Deadline::TimePoint::min()); });
  ::close(event);
}

}  // namespace
}  // namespace weft::io
