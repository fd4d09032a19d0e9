// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/deadlock.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/test_clock.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/wait_fd.h"
#include "weft/observe/dump/memory_reader.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/observe/waits/asleep_check.h"
#include "weft/observe/waits/thread_states.h"
#include "weft/scheduling_group/fiber/node_arena.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"
#include "weft/tests/observe/in_child.h"
#include "weft/tests/observe/threads_are_seen.h"
#include "weft/timer/fiber_timer.h"

namespace weft::observe {
namespace {

using namespace std::chrono_literals;

class AsleepTest : public ::testing::TestWithParam<fiber::Shape> {
 protected:
  void SetUp() override {
    if (!SleepIsSeen()) GTEST_SKIP() << "of no thread is it known that it sleeps";
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, AsleepTest, ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{4, 1}), &fiber::NameOf);

void AwaitAsleep() {
  while (!AllFibersAreAsleep()) std::this_thread::yield();
}

// That is the reason at last, and they are never asleep.
void AwaitWhyNot(const std::string& text) {
  SCOPED_TRACE(text);
  for (std::string why_not; !Has(why_not, text); std::this_thread::yield()) {
    ASSERT_FALSE(AllFibersAreAsleep(&why_not));
  }
}

// A fiber 'waiter' that waits for what only the test does.
struct Waiter {
  ~Waiter() {
    event.Set();
    fiber.Join();
  }
  FiberEvent event;
  Fiber fiber{{.name = "waiter"}, [this] { event.Wait(); }};
};

TEST_P(AsleepTest, ALostNotifyIsSeen) {
  std::string why_not;
  EXPECT_FALSE(AllFibersAreAsleep(&why_not));
  EXPECT_EQ(why_not, "no runtime runs");
  const fiber::RuntimeOf runtime(GetParam());
  AwaitWhyNot("there are no fibers");
  FiberMutex mutex;
  FiberConditionVariable ready;
  bool may_go = false;
  Fiber consumer({.name = "consumer"}, [&] {
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return may_go; });
  });
  AwaitAsleep();
  bool asks = true;
  Fiber other([&] { asks = AllFibersAreAsleep(&why_not); });
  other.Join();
  EXPECT_FALSE(asks);
  EXPECT_EQ(why_not, "a fiber asks");
  {
    const std::scoped_lock lock(mutex);
    may_go = true;
  }
  ready.notify_one();
  consumer.Join();
  EXPECT_FALSE(AllFibersAreAsleep());
}

TEST_P(AsleepTest, AFiberThatRunsIsAwake) {
  const fiber::RuntimeOf runtime(GetParam());
  std::atomic<bool> stop{false};
  Fiber runner([&] {
    while (!stop) continue;
  });
  AwaitWhyNot("the fiber with id " + std::to_string(runner.Id()) + " is ready or runs");
  stop = true;
  runner.Join();
}

TEST_P(AsleepTest, AThreadInASystemCallMayWakeAFiber) {
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  std::thread outsider([&] {
    ::pthread_setname_np(::pthread_self(), "Outsider");
    char byte = 0;
    EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
  });
  AwaitWhyNot("thread 'Outsider' (tid ");
  AwaitWhyNot(") is in system call ");
  EXPECT_EQ(::write(pipe[1], "x", 1), 1);
  outsider.join();
  AwaitAsleep();
  for (const int fd : pipe) ::close(fd);
}

TEST_P(AsleepTest, ThreadsThatWaitForEachOtherAreAsleep) {
  const fiber::RuntimeOf runtime(GetParam());
  FiberEvent may_end;
  FiberEvent event;
  Fiber waiter([&] { event.Wait(); });
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  std::thread in_weft([&] { may_end.Wait(); });
  std::thread outside([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ends; });
  });
  std::thread joins([&] { outside.join(); });
  AwaitAsleep();
  may_end.Set();
  in_weft.join();
  {
    const std::scoped_lock lock(mutex);
    ends = true;
  }
  changed.notify_one();
  joins.join();
  event.Set();
  waiter.Join();
}

TEST_P(AsleepTest, ATimerMayWakeAFiber) {
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  Fiber sleeper([] { FiberSleepFor(1000h); });
  AwaitWhyNot("timers are set: 1");
  sleeper.Cancel();
  sleeper.Join();
  AwaitAsleep();
}

TEST_P(AsleepTest, ADescriptorMayWakeAFiber) {
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Fiber reader([&] { EXPECT_FALSE(io::WaitFd(fd, POLLIN).error); });
  AwaitWhyNot("descriptors may become ready: 1");
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(fd, &one, sizeof(one)), 8);
  reader.Join();
  io::ForgetFd(fd);
  ::close(fd);
  AwaitAsleep();  // Though workers poll a reactor.
}

TEST_P(AsleepTest, ABlockingCallMayWakeAFiber) {
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  Fiber caller([&] {
    FiberBlocking([&] {
      char byte = 0;
      EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
    });
  });
  AwaitWhyNot("thread 'FiberBlocking' (tid ");
  EXPECT_EQ(::write(pipe[1], "x", 1), 1);
  caller.Join();
  AwaitAsleep();  // Though the thread of the pool waits for a minute.
  for (const int fd : pipe) ::close(fd);
}

TEST_P(AsleepTest, ASignalsHandlerMayWakeAThread) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  struct sigaction former = {};
  ::sigaction(SIGUSR1, &action, &former);
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  AwaitAsleep();  // There is none but Weft's.
  FiberEvent may_end;
  std::thread outsider([&] { may_end.Wait(); });
  AwaitWhyNot("a handler of signal " + std::to_string(SIGUSR1) + " may wake a thread: thread '");
  may_end.Set();
  outsider.join();
  ::sigaction(SIGUSR1, &former, nullptr);
}

// Its timer is set no more, and it may still wake a fiber.
TEST_P(AsleepTest, ACallbackMayWakeAFiber) {
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  EnableFiberTimer(CreateFiberTimer(1ms, [&] {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 1h, [&] { return ends; });
  }));
  AwaitWhyNot("thread 'TimerWorker_0' (tid ");
  {
    const std::scoped_lock lock(mutex);
    ends = true;
  }
  changed.notify_one();
  AwaitAsleep();
}

TEST_P(AsleepTest, AThreadThatWaitsWithATimeOutMayWakeAFiber) {
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  FiberEvent may_end;
  std::thread outsider([&] {
    ::pthread_setname_np(::pthread_self(), "Outsider");
    EXPECT_TRUE(may_end.Wait(1h));
  });
  AwaitWhyNot("thread 'Outsider' (tid ");
  AwaitWhyNot(" waits with a time-out");
  may_end.Set();
  outsider.join();
}

TEST_P(AsleepTest, UnderATestClockTimersAreSeen) {
  TestClock clock;
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  AwaitAsleep();
  clock.SetAutoAdvance(false);
  Fiber sleeper([] { FiberSleepFor(1h); });
  AwaitWhyNot("timers are set: 1");
  clock.Advance(1h);
  sleeper.Join();
  AwaitAsleep();
}

// Its timer is set no more, and it may still wake a fiber.
TEST_P(AsleepTest, UnderATestClockACallbackMayWakeAFiber) {
  TestClock clock;
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  AwaitAsleep();
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  EnableFiberTimer(CreateFiberTimer(1ms, [&] {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 1h, [&] { return ends; });
  }));
  AwaitWhyNot("a thread that watches is at work");
  {
    const std::scoped_lock lock(mutex);
    ends = true;
  }
  changed.notify_one();
  AwaitAsleep();
}

// --- The second look ---

// Calls `after` when memory has been read so many times.
class LetsRunAfter final : public MemoryReader {
 public:
  LetsRunAfter(std::size_t reads, std::function<void()> after) : reads_(reads), after_(std::move(after)) {}

  bool Read(std::span<const Part> parts) noexcept override {
    const bool done = MemoryReader::Read(parts);
    if (--reads_ == 0) after_();
    return done;
  }
  bool has_called() const { return static_cast<std::ptrdiff_t>(reads_) <= 0; }

 private:
  std::size_t reads_;
  const std::function<void()> after_;
};

// Both: again if a thread of Weft's was seen running first.
TEST_P(AsleepTest, AFiberThatRanBetweenTheLooksWasAwake) {
  const fiber::RuntimeOf runtime(GetParam());
  for (std::string why_not; why_not != "a fiber has run meanwhile";) {
    FiberEvent first;
    FiberEvent second;
    std::atomic<bool> on_the_way{false};
    Fiber waiter([&] {
      first.Wait();
      on_the_way = true;
      second.Wait();
    });
    AwaitAsleep();
    // After the first look at fibers, and before that at threads.
    LetsRunAfter memory(scheduling_group::EntityChunkCount(), [&] {
      first.Set();
      while (!on_the_way) std::this_thread::yield();
      AwaitAsleep();
    });
    why_not = AsleepCheck(&memory).WhyNot();
    EXPECT_TRUE(memory.has_called());
    second.Set();
    waiter.Join();
    ASSERT_NE(why_not, "");
  }
}

TEST_P(AsleepTest, AThreadThatRanBetweenTheLooksWasAwake) {
  const fiber::RuntimeOf runtime(GetParam());
  Waiter waiter;
  for (std::string why_not; why_not != "a thread has run meanwhile";) {
    FiberEvent first;
    FiberEvent second;
    std::atomic<bool> on_the_way{false};
    std::thread outsider([&] {
      first.Wait();
      on_the_way = true;
      second.Wait();
    });
    AwaitAsleep();
    // After the second look at fibers, and before that at threads; unless the first one has said no.
    LetsRunAfter memory(2 * scheduling_group::EntityChunkCount(), [&] {
      first.Set();
      while (!on_the_way) std::this_thread::yield();
      AwaitAsleep();
    });
    why_not = AsleepCheck(&memory).WhyNot();
    first.Set();
    second.Set();
    outsider.join();
    ASSERT_NE(why_not, "");
  }
}

// --- std::mutex ---

TEST(StdMutexOverASuspension, IsReportedWhenItBlocksItsOwnWorker) {
  if (!SleepIsSeen()) GTEST_SKIP() << "ThreadSanitizer waits in its own way";
  InChild([] {
    const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
    std::mutex mutex;
    FiberEvent event;
    Fiber holder({.name = "holder"}, [&] {
      std::unique_lock lock(mutex);
      event.Wait();
    });
    static_cast<void>(DumpUntil("name=holder", ", parked: event"));
    DeadlockFinder finder;
    EXPECT_EQ(finder.Look().find("std::mutex"), std::string::npos) << "nobody wants it yet";
    Fiber wants({.name = "wants"}, [&] { const std::unique_lock lock(mutex); });
    std::string report;
    while (!Has(report, "std::mutex")) report = finder.Look();
    EXPECT_TRUE(Has(report, "waits for another thread: fiber 'wants' (id " + std::to_string(wants.Id()) + ") wants "))
        << report;
    EXPECT_TRUE(Has(report, ", it seems fiber 'holder' (id " + std::to_string(holder.Id()) + "); ")) << report;
    if (StackUnwinder().why_not().empty()) {
      EXPECT_TRUE(Has(report, "the stack of fiber 'holder' (id ")) << report;
      EXPECT_TRUE(Has(report, "weft::FiberEvent::Wait")) << report;
    }
    EXPECT_EQ(finder.Look().find("std::mutex"), std::string::npos) << "not again";
    EXPECT_TRUE(Has(DumpText({.stacks = false}), ", it seems fiber 'holder' (id "));
    const std::string json = DumpText({.format = DumpOptions::Format::kJson, .stacks = false});
    EXPECT_TRUE(Has(json.substr(0, json.find("\"groups\"")), ", it seems fiber 'holder' (id ")) << json;
    EXPECT_TRUE(Has(json, "may be held meanwhile\"")) << json;
    LeaveChild();
  });
}

TEST(StdMutexOverASuspension, OneOfAnotherThreadIsNotReported) {
  if (!ThreadsAreSeen()) GTEST_SKIP() << "nothing is known of threads";
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::atomic<bool> begun{false};
  Fiber wants([&] {
    begun = true;
    const std::unique_lock other(mutex);
  });
  while (!begun) std::this_thread::yield();
  for (bool waits = false; !waits;) {
    const std::vector<ThreadState> threads = ReadThreads().value();
    for (const ThreadState& thread : threads) {
      waits |= thread.futex == reinterpret_cast<std::uintptr_t>(&mutex);
    }
  }
  EXPECT_EQ(DeadlockFinder().Look(), "");
  lock.unlock();
  wants.Join();
}

// --- Who reports ---

TEST_P(AsleepTest, TheFinderReportsOnceWithAllFibers) {
  const fiber::RuntimeOf runtime(GetParam());
  DeadlockFinder finder;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(finder.Look(), "");
    Waiter waiter;
    std::string report;
    while (report.empty()) report = finder.Look();
    EXPECT_TRUE(Has(report, "weft: all fibers are asleep: nothing can wake any\nweft: 1 fibers: 1 parked")) << report;
    EXPECT_TRUE(Has(report, "fiber 'waiter' (id " + std::to_string(waiter.fiber.Id()) + "), parked: event ")) << report;
    EXPECT_EQ(finder.Look(), "");
  }
}

TEST_P(AsleepTest, TheWatchReportsToItsFunction) {
  const fiber::RuntimeOf runtime(GetParam());
  std::mutex mutex;
  std::condition_variable reported;
  std::string text;
  DeadlockWatch watch({.every = 1ms, .report = [&](const std::string& report) {
                         const std::scoped_lock lock(mutex);
                         text = report;
                         reported.notify_one();
                       }});
  Waiter waiter;
  std::unique_lock lock(mutex);
  reported.wait(lock, [&] { return !text.empty(); });  // As who joins a fiber: asleep.
  EXPECT_TRUE(Has(text, "all fibers are asleep")) << text;
}

TEST_P(AsleepTest, TheWatchOfAParentIsLeftAlone) {
  DeadlockWatch* const watch = new DeadlockWatch;
  InChild([watch] {
    delete watch;
    LeaveChild();
  });
  delete watch;
}

// Refuses large pieces of memory: an array of entities, which each look copies.
std::atomic<bool> refuses_memory{false};
std::atomic<int> refusals{0};

TEST_P(AsleepTest, TheWatchOutlivesALackOfMemory) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer has its own operator new";
  const fiber::RuntimeOf runtime(GetParam());
  std::mutex mutex;
  std::condition_variable reported;
  bool found = false;
  refuses_memory = true;
  refusals = 0;
  DeadlockWatch watch({.every = 1ms, .report = [&](const std::string&) {
                         const std::scoped_lock lock(mutex);
                         found = true;
                         reported.notify_one();
                       }});
  while (refusals < 2) std::this_thread::yield();
  refuses_memory = false;
  Waiter waiter;
  std::unique_lock lock(mutex);
  reported.wait(lock, [&] { return found; });
}

}  // namespace
}  // namespace weft::observe

#if !WEFT_ASAN && !WEFT_TSAN
WEFT_NOINLINE void* operator new[](std::size_t size, std::align_val_t alignment) {
  using weft::observe::refuses_memory;
  constexpr std::size_t kLarge = 100'000;
  const bool refused = refuses_memory && size >= kLarge;
  void* const memory = refused ? nullptr : std::aligned_alloc(static_cast<std::size_t>(alignment), size);
  if (refused) ++weft::observe::refusals;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
WEFT_NOINLINE void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
