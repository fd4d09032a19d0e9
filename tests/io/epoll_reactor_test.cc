// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How input and output and the scheduler get on with each other. Figures are printed; limits are those of a machine
// that others share: what starves does so every time.

#include "weft/io/reactor/epoll_reactor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/io/io_fixture.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class ReactorTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(ReactorTest);

double Microseconds(Steady::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

// Of all threads but the caller.
std::uint64_t VoluntarySwitches() {
  std::uint64_t all = 0;
  const std::string own = std::to_string(::syscall(SYS_gettid));
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == own) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      constexpr std::string_view kLabel = "voluntary_ctxt_switches:";
      if (line.starts_with(kLabel)) all += std::stoull(line.substr(kLabel.size()));
    }
  }
  return all;
}

// Fibers that wait for a byte of a connection each; closes them at its end.
class IdleConnections {
 public:
  explicit IdleConnections(int count) {
    for (int i = 0; i < count; ++i) pairs_.push_back(std::make_unique<Pair>(ConnectedPair()));
    for (auto& pair : pairs_) {
      readers_.emplace_back([pair = pair.get()] {
        char byte;
        EXPECT_EQ(pair->server.ReadSome(&byte, 1).error, std::errc::operation_canceled);
      });
    }
  }
  ~IdleConnections() {
    for (auto& pair : pairs_) pair->server.Close();
    for (Fiber& reader : readers_) reader.Join();
  }

 private:
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::vector<Fiber> readers_;
};

// RE2. What there is to settle (a spinner, the watchdog, memory to trim) is over some time.
TEST_P(ReactorTest, AnIdleProcessMakesNoWakeUps) {
  constexpr int kConnections = 100;
  const IdleConnections idle(kConnections);
  ASSERT_TRUE(Reaches([&] { return runtime_.counts().descriptors == kConnections; }));
  bool silent = false;
  for (int attempt = 0; attempt < 30 && !silent; ++attempt) {
    const EpollReactor::Counts before = runtime_.counts();
    const std::uint64_t switches = VoluntarySwitches();
    std::this_thread::sleep_for(300ms);
    const std::uint64_t switches_after = VoluntarySwitches();
    const EpollReactor::Counts after = runtime_.counts();
    // ThreadSanitizer has a thread of its own, which wakes up.
    silent = (switches_after == switches || WEFT_TSAN) && after.waits == before.waits && after.polls == before.polls &&
             after.watchdog_wakes == before.watchdog_wakes;
  }
  EXPECT_TRUE(silent) << "no 300 ms of 30 without a wake-up";
}

// Its worker waits in the poll, until then.
TEST_P(ReactorTest, ASleepBesideAWaitForInputIsEndedByTheWorker) {
  const IdleConnections idle(1);
  Fiber([] {
    const timer::TimerWorker* const timers = timer::TimerWorker::Of(scheduling_group::CurrentGroup());
    while (timers->fired_by_workers() < 3) FiberSleepFor(500us);
  }).Join();
}

// RE1, PL2. The worker that polled runs a fiber that computes and does not yield.
TEST_P(ReactorTest, AnAbandonedPollIsTakenOverByAWorkerThatSleeps) {
  if (GetSchedulingGroupSize() < 2) GTEST_SKIP() << "there is no other worker";
  const int rounds = Scaled(200);
  Pair long_one = ConnectedPair();
  Pair other = ConnectedPair();
  std::atomic<bool> busy{false};
  std::atomic<bool> go_on{false};
  std::atomic<Steady::rep> served_at{0};
  // Both in one group, or others would poll.
  Fiber computes({.scheduling_group = 0, .scheduling_group_local = true}, [&] {
    char byte;
    for (int i = 0; i < rounds; ++i) {
      EXPECT_EQ(long_one.server.ReadAll(&byte, 1, Soon()).bytes, 1u);
      busy = true;
      while (!go_on.exchange(false)) base::CpuRelax();
    }
  });
  Fiber answers({.scheduling_group = 0, .scheduling_group_local = true}, [&] {
    char byte;
    for (int i = 0; i < rounds; ++i) {
      EXPECT_EQ(other.server.ReadAll(&byte, 1, Soon()).bytes, 1u);
      served_at = Steady::now().time_since_epoch().count();
    }
  });
  std::vector<double> latencies;
  const scheduling_group::IdleWorkers& idle = runtime_.reactors()[0]->group()->idle_workers();
  for (int i = 0; i < rounds; ++i) {
    ASSERT_TRUE(Reaches([&] { return idle.sleepers().Count() == GetSchedulingGroupSize(); }));
    EXPECT_TRUE(long_one.client.WriteAll("x").ok());
    ASSERT_TRUE(Reaches([&] { return busy.exchange(false); }));
    const auto written_at = Steady::now();
    EXPECT_TRUE(other.client.WriteAll("y").ok());
    const bool served = Reaches([&] { return served_at != 0; });
    EXPECT_TRUE(served) << "nobody polls while a fiber computes, round " << i;
    latencies.push_back(Microseconds(Steady::duration(served_at.exchange(0)) - written_at.time_since_epoch()));
    go_on = true;
    if (!served) break;
  }
  computes.Join();
  answers.Join();
  std::sort(latencies.begin(), latencies.end());
  std::cout << "served while a worker computes, after us: median " << latencies[latencies.size() / 2] << ", at most "
            << latencies.back() << ", by the watchdog " << runtime_.counts().watchdog_wakes << " times of "
            << latencies.size() << '\n';
}

// RE3.
TEST_P(ReactorTest, InputIsServedThoughNoWorkerIsEverIdle) {
  std::atomic<bool> stop{false};
  std::vector<Fiber> yielders;
  FiberLatch running(static_cast<std::ptrdiff_t>(4 * GetConcurrencyHint()));
  for (std::size_t i = 0; i < 4 * GetConcurrencyHint(); ++i) {
    yielders.emplace_back([&] {
      running.CountDown();
      while (!stop.load(std::memory_order_relaxed)) {
        FiberYield();
        for (int pause = 0; pause < 50; ++pause) base::CpuRelax();
      }
    });
  }
  running.Wait();
  const int rounds = Scaled(200);
  Steady::duration took{};
  InFiber([&] {
    Pair pair = ConnectedPair();
    Fiber server([&] {
      char byte;
      while (pair.server.ReadSome(&byte, 1, Soon()).bytes == 1) {
        EXPECT_TRUE(pair.server.WriteAll({&byte, 1}, Soon()).ok());
      }
    });
    const auto begin = Steady::now();
    for (int i = 0; i < rounds; ++i) {
      char byte = 'x';
      EXPECT_TRUE(pair.client.WriteAll({&byte, 1}, Soon()).ok());
      EXPECT_EQ(pair.client.ReadAll(&byte, 1, Soon()).bytes, 1u);
    }
    took = Steady::now() - begin;
    EXPECT_FALSE(pair.client.ShutdownWrite());
    server.Join();
  });
  stop = true;
  for (Fiber& yielder : yielders) yielder.Join();
  std::cout << "a round trip beside " << yielders.size() << " fibers that yield: " << Microseconds(took) / rounds
            << " us\n";
}

// The reverse: echoes on all workers, and fibers that compute get their turns.
TEST_P(ReactorTest, InputDoesNotStarveFibersThatCompute) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> echoes{0};
  std::vector<Fiber> echoing;
  const std::size_t pairs = 4 * GetConcurrencyHint();
  for (std::size_t i = 0; i < pairs; ++i) {
    echoing.emplace_back([&] {
      Pair pair = ConnectedPair();
      Fiber server([&] {
        char bytes[64];
        for (IoResult got; (got = pair.server.ReadSome(bytes, sizeof(bytes), Soon())).bytes != 0;) {
          if (!pair.server.WriteAll(bytes, got.bytes, Soon()).ok()) break;
        }
      });
      char byte = 'x';
      while (!stop.load(std::memory_order_relaxed)) {
        EXPECT_TRUE(pair.client.WriteAll({&byte, 1}, Soon()).ok());
        EXPECT_EQ(pair.client.ReadAll(&byte, 1, Soon()).bytes, 1u);
        echoes.fetch_add(1, std::memory_order_relaxed);
      }
      EXPECT_FALSE(pair.client.ShutdownWrite());
      server.Join();
    });
  }
  EXPECT_TRUE(Reaches([&] { return echoes >= pairs * 2; }));
  constexpr int kTurns = 200;
  std::atomic<int> ended{0};
  const auto begin = Steady::now();
  std::vector<Fiber> computing;
  for (std::size_t i = 0; i < GetConcurrencyHint(); ++i) {
    computing.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        FiberYield();
        for (int pause = 0; pause < 50; ++pause) base::CpuRelax();
      }
      ++ended;
    });
  }
  const std::uint64_t echoes_before = echoes;
  EXPECT_TRUE(Reaches([&] { return ended == static_cast<int>(computing.size()); })) << "they get no turns";
  const auto took = Steady::now() - begin;
  stop = true;
  for (Fiber& fiber : echoing) fiber.Join();
  for (Fiber& fiber : computing) fiber.Join();
  std::cout << "a turn beside " << pairs << " echoes at once: " << Microseconds(took) / kTurns << " us, "
            << static_cast<double>(echoes - echoes_before) / kTurns << " echoes meanwhile\n";
}

// A stream belongs to no group: who reads and who writes may be anywhere, and move.
TEST_P(ReactorTest, AStreamIsUsedByFibersOfAllGroups) {
  const std::size_t groups = GetSchedulingGroupCount();
  const int rounds = Scaled(400);
  std::vector<Fiber> fibers;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (std::size_t i = 0; i < 4; ++i) {
    pairs.push_back(std::make_unique<Pair>(ConnectedPair()));
    Pair* const pair = pairs.back().get();
    const auto relay = [rounds](TcpStream& stream, std::size_t group, std::size_t next, bool first) {
      return Fiber({.scheduling_group = group, .scheduling_group_local = true}, [&stream, rounds, next, first] {
        char byte = 'x';
        for (int round = 0; round < rounds; ++round) {
          // A part of the turns is done by a fiber of another group.
          const auto turn = [&] {
            const auto write = [&] { EXPECT_TRUE(stream.WriteAll({&byte, 1}, Soon()).ok()); };
            if (first) write();
            EXPECT_EQ(stream.ReadAll(&byte, 1, Soon()).bytes, 1u);
            if (!first) write();
          };
          if (round % 8 == 0) {
            Fiber({.scheduling_group = next, .scheduling_group_local = true}, turn).Join();
          } else {
            turn();
          }
        }
      });
    };
    fibers.push_back(relay(pair->client, i % groups, (i + 1) % groups, true));
    fibers.push_back(relay(pair->server, (i / 2) % groups, (i / 2 + 1) % groups, false));
  }
  for (Fiber& fiber : fibers) fiber.Join();
}

// --- From one runtime to the next ---

void PingPong(Pair& pair, int rounds) {
  Fiber server([&] {
    char byte;
    for (int i = 0; i < rounds; ++i) {
      EXPECT_EQ(pair.server.ReadAll(&byte, 1, Soon()).bytes, 1u);
      EXPECT_TRUE(pair.server.WriteAll({&byte, 1}, Soon()).ok());
    }
  });
  Fiber client([&] {
    char byte = 'x';
    for (int i = 0; i < rounds; ++i) {
      EXPECT_TRUE(pair.client.WriteAll({&byte, 1}, Soon()).ok());
      EXPECT_EQ(pair.client.ReadAll(&byte, 1, Soon()).bytes, 1u);
    }
  });
  server.Join();
  client.Join();
}

TEST(ReactorOfSeveralRuntimes, StreamsOfOwnRuntimesWork) {
  for (int i = 0; i < 10; ++i) {
    const IoRuntime runtime(Shape{.workers = 1 + i % 3, .groups = 1});
    Fiber([] {
      Pair pair = ConnectedPair();
      PingPong(pair, 20);
    }).Join();
  }
}

// A stream, and a number that WaitFd() knows, registered with groups that have ended with their runtime, were never
// heard of again in a runtime of another shape (FD7).
TEST(ReactorOfSeveralRuntimes, ADescriptorThatOutlivesItsRuntimeIsServedByTheNext) {
  Pair pair = ConnectedPair();
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  for (const Shape shape : {Shape{2, 1}, Shape{1, 1}, Shape{3, 1}, Shape{2, 1}, Shape{1, 2}}) {
    const fiber::RuntimeOf runtime(shape);
    (void)MakeReactors();
    PingPong(pair, 50);
    Fiber waiter([event] {
      EXPECT_EQ(WaitFd(event, POLLIN, Soon()).events, POLLIN);
      std::uint64_t count;
      EXPECT_EQ(::read(event, &count, sizeof(count)), 8);
    });
    Fiber setter([event] {
      FiberSleepFor(1ms);
      const std::uint64_t one = 1;
      EXPECT_EQ(::write(event, &one, sizeof(one)), 8);
    });
    waiter.Join();
    setter.Join();
  }
  // What registered them is not the last to go: nothing stays registered anywhere.
  EXPECT_FALSE(CloseFd(event));
}

// RG1. The group that they are registered with is not there in the next runtime.
TEST(ReactorOfSeveralRuntimes, ADescriptorOfAGroupThatIsNoMoreIsServedByAnother) {
  Pair pair = ConnectedPair();
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  for (const std::size_t group : {1, 0}) {
    const fiber::RuntimeOf runtime(group == 1 ? Shape{1, 2} : Shape{1, 1});
    (void)MakeReactors();
    std::atomic<int> asleep{0};
    const FiberAttributes there{.scheduling_group = group, .scheduling_group_local = true};
    const auto begin = Steady::now();
    Fiber waiter(there, [&] {
      ++asleep;
      EXPECT_EQ(WaitFd(event, POLLIN, Soon()).events, POLLIN);
    });
    Fiber reader(there, [&] {
      char byte;
      ++asleep;
      EXPECT_EQ(pair.server.ReadAll(&byte, 1, Soon()).bytes, 1u);
    });
    ASSERT_TRUE(Reaches([&] { return asleep == 2; }));
    std::uint64_t count = 1;
    EXPECT_EQ(::write(event, &count, sizeof(count)), 8);
    EXPECT_TRUE(pair.client.WriteAll("x").ok());
    waiter.Join();
    reader.Join();
    EXPECT_LT(Steady::now() - begin, kBeforeSoon);  // Not by the look at the deadline.
    EXPECT_EQ(::read(event, &count, sizeof(count)), 8);
  }
  EXPECT_FALSE(CloseFd(event));
}

TEST(ReactorOfSeveralRuntimes, ItIsAboutFibers) {
  std::error_code error;
  EXPECT_DEATH((void)EpollReactor::OfCurrentGroup(&error), "EpollReactor::OfCurrentGroup: the caller is not a fiber");
}

}  // namespace
}  // namespace weft::io
