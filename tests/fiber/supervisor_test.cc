// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/supervisor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/fiber_clock.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/test_clock.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "fiber/runtime_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr RestartBackoff kAtOnce{.first = 0ns, .longest = 0ns, .jitter = 0};
constexpr std::size_t kMany = 1'000'000;

class SupervisorTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, SupervisorTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}, fiber::Shape{2, 2}),
                         &fiber::NameOf);

template <class F>
void InFiberAndThread(F f) {
  Fiber(f).Join();
  std::thread(f).join();
}

// What children did, in its order.
class Record {
 public:
  void Add(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    all_ += all_.empty() ? what : " " + what;
  }
  std::string All() const {
    const std::scoped_lock lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::string all_;
};

TEST_P(SupervisorTest, RunReturnsWhenAllChildrenHaveEnded) {
  InFiberAndThread([] {
    std::atomic<int> runs{0};
    Supervisor supervisor;
    for (int i = 0; i < 20; ++i) supervisor.Add("child", RestartKind::kTransient, [&] { ++runs; });
    EXPECT_EQ(supervisor.Children().size(), 20U);
    supervisor.Run();
    EXPECT_EQ(runs, 20);
    EXPECT_EQ(supervisor.Restarts(), 0U);
    EXPECT_TRUE(supervisor.Children().empty());
    EXPECT_FALSE(supervisor.Add("late", RestartKind::kTransient, [] {})) << "it has ended";
    Supervisor without_children;
    without_children.Run();
  });
}

TEST_P(SupervisorTest, ATransientChildThatFailsIsStartedAgain) {
  InFiberAndThread([] {
    int runs = 0;  // By one fiber at a time.
    Supervisor supervisor({.max_restarts = kMany, .backoff = kAtOnce});
    supervisor.Add("fails twice", RestartKind::kTransient, [&] {
      if (++runs < 3) throw std::runtime_error("not yet");
    });
    supervisor.Run();
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(supervisor.Restarts(), 2U);
  });
}

TEST_P(SupervisorTest, ATemporaryChildIsNotStartedAgain) {
  InFiberAndThread([] {
    int runs = 0;
    Supervisor supervisor({.max_restarts = 0});
    supervisor.Add("once", RestartKind::kTemporary, [&] {
      ++runs;
      throw 1;
    });
    supervisor.Run();
    EXPECT_EQ(runs, 1);
  });
}

TEST_P(SupervisorTest, APermanentChildThatReturnsIsStartedAgain) {
  InFiberAndThread([] {
    int runs = 0;
    Supervisor supervisor({.max_restarts = kMany, .backoff = kAtOnce});
    supervisor.Add("permanent", RestartKind::kPermanent, [&] {
      if (++runs == 10) supervisor.Stop();
    });
    supervisor.Run();
    EXPECT_GE(runs, 10);
  });
}

TEST_P(SupervisorTest, TooManyRestartsEndItWithTheLastException) {
  InFiberAndThread([] {
    std::atomic<int> cancelled{0};
    int runs = 0;
    Supervisor supervisor({.max_restarts = 3, .period = 1h, .backoff = kAtOnce});
    supervisor.Add("bystander", RestartKind::kPermanent, [&] {
      try {
        FiberSleepFor(1h);
      } catch (const FiberCancelled&) {
        ++cancelled;
        throw;
      }
    });
    supervisor.Add("culprit", RestartKind::kTransient,
                   [&] { throw std::runtime_error("failure " + std::to_string(++runs)); });
    try {
      supervisor.Run();
      ADD_FAILURE() << "it fails";
    } catch (const SupervisionFailed& failed) {
      EXPECT_EQ(failed.Child(), "culprit");
      EXPECT_STREQ(failed.what(),
                   "Supervisor: child 'culprit' has failed: failure 4; 3 restarts within 3600000 ms are the most");
      ASSERT_NE(failed.Cause(), nullptr);
      try {
        std::rethrow_exception(failed.Cause());
      } catch (const std::runtime_error& cause) {
        EXPECT_STREQ(cause.what(), "failure 4");
      }
    }
    EXPECT_EQ(runs, 4);
    EXPECT_EQ(supervisor.Restarts(), 3U);
    EXPECT_EQ(cancelled, 1);
  });
}

TEST_P(SupervisorTest, APermanentChildThatReturnsTooOftenIsACauseWithoutException) {
  InFiber([] {
    Supervisor supervisor({.max_restarts = 1, .period = 1h, .backoff = kAtOnce});
    supervisor.Add("returns", RestartKind::kPermanent, [] {});
    try {
      supervisor.Run();
      ADD_FAILURE() << "it fails";
    } catch (const SupervisionFailed& failed) {
      EXPECT_EQ(failed.Cause(), nullptr);
      EXPECT_NE(std::string(failed.what()).find("'returns' has returned"), std::string::npos) << failed.what();
    }
  });
}

TEST_P(SupervisorTest, RestartsOfFormerPeriodsDoNotCount) {
  InFiber([] {
    int runs = 0;
    Supervisor supervisor({.max_restarts = 1, .period = 1ns, .backoff = kAtOnce});
    supervisor.Add("steady", RestartKind::kTransient, [&] {
      if (++runs < 50) throw std::runtime_error("again");
    });
    supervisor.Run();
    EXPECT_EQ(supervisor.Restarts(), 49U);
  });
}

TEST_P(SupervisorTest, ACancelledChildIsNoFailure) {
  InFiberAndThread([] {
    std::atomic<int> runs{0};
    Supervisor supervisor({.max_restarts = 0});
    for (const RestartKind kind : {RestartKind::kPermanent, RestartKind::kTransient, RestartKind::kTemporary}) {
      supervisor.Add("sleeper", kind, [&] {
        ++runs;
        EXPECT_TRUE(FindFiber(GetFiberId())->Cancel());
        FiberSleepFor(1h);
      });
    }
    supervisor.Run();
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(supervisor.Restarts(), 0U);
  });
}

// By a fiber, a thread, a child; before it runs; twice.
TEST_P(SupervisorTest, StopCancelsAllChildrenAndRunReturns) {
  InFiberAndThread([] {
    for (const bool by_child : {false, true}) {
      std::atomic<int> ended{0};
      FiberLatch began(10);
      Supervisor supervisor;
      struct Ends {
        ~Ends() { ++*ended; }
        std::atomic<int>* ended;
      };
      for (int i = 0; i < 10; ++i) {
        supervisor.Add("child", RestartKind::kPermanent, [&] {
          const Ends ends{&ended};
          began.CountDown();
          FiberSleepFor(1h);
        });
      }
      const auto stop = [&] {
        began.Wait();
        supervisor.Stop();
        supervisor.Stop();
      };
      std::thread thread;
      if (by_child) {
        supervisor.Add("stops", RestartKind::kTemporary, stop);
      } else {
        thread = std::thread(stop);
      }
      supervisor.Run();
      EXPECT_EQ(ended, 10);
      if (thread.joinable()) thread.join();
    }
    Supervisor stopped({.stays = true});
    stopped.Add("never", RestartKind::kPermanent, [] { ADD_FAILURE() << "stopped before"; });
    stopped.Stop();
    stopped.Run();
  });
}

TEST_P(SupervisorTest, ACancellationOfTheCallerStopsEverythingAlsoDuringABackoff) {
  InFiber([] {
    std::atomic<int> ended{0};
    auto held = std::make_shared<int>(0);
    Supervisor supervisor({.backoff = {.first = 1h, .longest = 1h}});
    CancelScope scope;
    supervisor.Add("sleeper", RestartKind::kPermanent, [&ended, held] {
      try {
        FiberSleepFor(1h);
      } catch (const FiberCancelled&) {
        ++ended;
        throw;
      }
    });
    supervisor.Add("fails", RestartKind::kPermanent, [] { throw std::runtime_error("once"); });
    supervisor.Add("cancels", RestartKind::kTemporary, [&] {
      while (supervisor.Restarts() == 0) FiberYield();
      scope.Cancel();
    });
    EXPECT_FALSE(scope.Run([&] { supervisor.Run(); }));
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(held.use_count(), 1) << "functions go with Run()";
  });
}

TEST_P(SupervisorTest, ChildrenInheritTheDeadlineOfTheCaller) {
  InFiber([] {
    Supervisor supervisor;
    supervisor.Add("sleeper", RestartKind::kPermanent, [] { FiberSleepFor(1h); });
    EXPECT_FALSE(MoveOnAfter(5ms, [&] { supervisor.Run(); }));
  });
}

TEST_P(SupervisorTest, ChildrenMayBeAddedWhileItRuns) {
  InFiberAndThread([] {
    std::atomic<int> runs{0};
    Supervisor supervisor({.stays = true});
    FiberLatch all(40);
    supervisor.Add("adds", RestartKind::kTransient, [&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(supervisor.Add("by a child", RestartKind::kTransient, [&] {
          ++runs;
          all.CountDown();
        }));
      }
    });
    std::thread thread([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(supervisor.Add("by a thread", RestartKind::kTransient, [&] {
          ++runs;
          all.CountDown();
        }));
        static_cast<void>(supervisor.Children());
      }
      all.Wait();
      supervisor.Stop();
    });
    supervisor.Run();
    thread.join();
    EXPECT_EQ(runs, 40);
  });
}

// The waits of kOneForAll and kRestForOne are those of the child that failed.
TEST_P(SupervisorTest, OneForAllStartsAllAgainInTheirOrder) {
  InFiberAndThread([] {
    Record record;
    FiberLatch first_runs(3);
    std::atomic<int> failures{0};
    Supervisor supervisor(
        {.strategy = RestartStrategy::kOneForAll, .max_restarts = 1, .period = 1h, .backoff = kAtOnce});
    std::atomic<int> running{0};
    const auto sleeper = [&](const char* name, RestartKind kind) {
      supervisor.Add(name, kind, [&, name] {
        if (failures != 0) record.Add(name);
        ++running;
        struct Leaves {
          ~Leaves() { --*running; }
          std::atomic<int>* running;
        } leaves{&running};
        if (failures == 0) first_runs.CountDown();
        FiberSleepFor(1h);
      });
    };
    sleeper("a", RestartKind::kTransient);
    supervisor.Add("fails", RestartKind::kTransient, [&] {
      first_runs.Wait();
      if (failures++ == 0) throw std::runtime_error("all of us");
      record.Add("fails");
      while (running < 2) FiberYield();
      supervisor.Stop();
    });
    sleeper("temporary", RestartKind::kTemporary);
    sleeper("b", RestartKind::kPermanent);
    supervisor.Run();
    EXPECT_EQ(supervisor.Restarts(), 1U) << "only the one that failed counts";
    // With more workers their first lines come in any order.
    const std::string all = record.All();
    EXPECT_NE(all.find('a'), std::string::npos) << all;
    EXPECT_NE(all.find('b'), std::string::npos) << all;
    EXPECT_EQ(all.find("temporary"), std::string::npos) << all;
    EXPECT_EQ(running, 0);
  });
}

// kOneForAll: the first is started again when the last has ended.
TEST_P(SupervisorTest, NobodyIsStartedAgainBeforeAllHaveEnded) {
  InFiber([] {
    std::atomic<bool> slow_one_runs{false};
    FiberEvent began;
    int runs = 0;
    Supervisor supervisor({.strategy = RestartStrategy::kOneForAll, .max_restarts = 1, .backoff = kAtOnce});
    supervisor.Add("fails", RestartKind::kTransient, [&] {
      if (++runs == 2) {
        EXPECT_FALSE(slow_one_runs);
        return supervisor.Stop();
      }
      began.Wait();
      throw std::runtime_error("once");
    });
    supervisor.Add("slow", RestartKind::kTemporary, [&] {
      slow_one_runs = true;
      began.Set();
      try {
        FiberSleepFor(1h);
      } catch (const FiberCancelled&) {
        Shielded([] { FiberSleepFor(5ms); });
        slow_one_runs = false;
        throw;
      }
    });
    supervisor.Run();
    EXPECT_EQ(runs, 2);
  });
}

// It had returned by itself, and Run() had not looked yet.
TEST_P(SupervisorTest, ATransientChildThatHasReturnedIsNotStartedAgainWithTheOthers) {
  for (const RestartStrategy strategy : {RestartStrategy::kOneForAll, RestartStrategy::kRestForOne}) {
    InFiber([strategy] {
      for (int round = 0; round < 100; ++round) {
        std::atomic<std::uint64_t> id{0};
        std::atomic<int> runs{0};
        std::atomic<int> failures{0};
        Supervisor supervisor({.strategy = strategy, .max_restarts = 1, .backoff = kAtOnce});
        supervisor.Add("fails", RestartKind::kTransient, [&] {
          if (failures++ != 0) return;
          while (id == 0) FiberYield();
          while (true) {  // Until its end has been noted. Nobody else runs then, if there are workers enough.
            const std::optional<FoundFiber> found = FindFiber(id);
            if (!found || found->HasEnded()) break;
            std::this_thread::yield();
            if (GetParam().workers == 1) FiberYield();
          }
          throw std::runtime_error("once");
        });
        supervisor.Add("has returned", RestartKind::kTransient, [&] {
          ++runs;
          id = GetFiberId();
        });
        supervisor.Run();
        EXPECT_EQ(runs, 1);
        EXPECT_EQ(failures, 2);
      }
    });
  }
}

// One that returns because it is stopped is started again.
TEST_P(SupervisorTest, ATransientChildThatReturnsBecauseItIsStoppedIsStartedAgain) {
  InFiber([] {
    FiberEvent began;
    int runs = 0;
    int failures = 0;
    Supervisor supervisor({.strategy = RestartStrategy::kOneForAll, .max_restarts = 1, .backoff = kAtOnce});
    supervisor.Add("fails", RestartKind::kTransient, [&] {
      began.Wait();
      if (failures++ == 0) throw std::runtime_error("once");
    });
    supervisor.Add("returns", RestartKind::kTransient, [&] {
      if (++runs == 2) return;
      static_cast<void>(MoveOnAfter(Deadline::None(), [&] {
        try {
          began.Set();
          FiberSleepFor(1h);
        } catch (const FiberCancelled&) {  // As where calls of io/ say so.
        }
      }));
    });
    supervisor.Run();
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(failures, 2);
  });
}

// Its function is destroyed when Run() has taken those added, and before it looks whether any is left.
TEST_P(SupervisorTest, AChildThatIsAddedWhileTheLastOneGoesIsRun) {
  InFiberAndThread([] {
    struct AddsAtItsEnd {
      explicit AddsAtItsEnd(std::function<void()> the_f) : f(std::move(the_f)) {}
      AddsAtItsEnd(AddsAtItsEnd&& other) noexcept : f(std::exchange(other.f, nullptr)) {}
      AddsAtItsEnd& operator=(AddsAtItsEnd&&) = delete;
      ~AddsAtItsEnd() {
        if (f) f();
      }
      void operator()() const {}
      std::function<void()> f;
    };
    int runs = 0;
    bool added = false;
    Supervisor supervisor;
    supervisor.Add("goes", RestartKind::kTransient,
                   AddsAtItsEnd([&] { added = supervisor.Add("added", RestartKind::kTransient, [&] { ++runs; }); }));
    supervisor.Run();
    EXPECT_TRUE(added);
    EXPECT_EQ(runs, 1);
  });
}

TEST_P(SupervisorTest, RestForOneStartsThoseAddedAfterItAgain) {
  InFiberAndThread([] {
    std::atomic<int> before{0};
    std::atomic<int> after{0};
    FiberLatch first_runs(2);
    int runs = 0;
    FiberEvent again;
    Supervisor supervisor({.strategy = RestartStrategy::kRestForOne, .max_restarts = 1, .backoff = kAtOnce});
    supervisor.Add("before", RestartKind::kTransient, [&] {
      ++before;
      first_runs.CountDown();
      again.Wait();
    });
    supervisor.Add("fails", RestartKind::kTransient, [&] {
      first_runs.Wait();
      if (++runs == 1) throw std::runtime_error("once");
    });
    supervisor.Add("after", RestartKind::kTransient, [&] {
      if (++after == 2) return again.Set();
      first_runs.CountDown();
      FiberSleepFor(1h);
    });
    supervisor.Run();
    EXPECT_EQ(before, 1);
    EXPECT_EQ(after, 2);
    EXPECT_EQ(runs, 2);
  });
}

// kOneForAll: one that waits for its own next run does not run earlier because another one fails.
TEST(SupervisorBackoffTest, AFailureDoesNotShortenTheWaitOfAnother) {
  TestClock clock;
  RunAsFiber([] {
    const auto begin = FiberClock::now();
    std::vector<std::chrono::nanoseconds> runs;
    int failures = 0;
    Supervisor supervisor({.strategy = RestartStrategy::kRestForOne,
                           .max_restarts = kMany,
                           .backoff = {.first = 8ms, .longest = 64ms, .jitter = 0}});
    supervisor.Add("fails once, while the other one waits", RestartKind::kTransient, [&] {
      if (failures != 0) return;
      FiberSleepFor(10ms);
      ++failures;
      throw std::runtime_error("once");
    });
    supervisor.Add("fails twice", RestartKind::kTransient, [&] {
      runs.push_back(FiberClock::now() - begin);
      if (runs.size() <= 2) throw std::runtime_error("twice");
    });
    supervisor.Run();
    ASSERT_EQ(runs.size(), 3U);
    EXPECT_EQ(runs[1], 8ms);
    EXPECT_EQ(runs[2], 24ms) << "16 ms after its second failure; the other one's wait ends at 18 ms";
  });
}

// SV2: a child that is added while Run() goes over the children starts at once, not after another one has ended. The
// test clock shows it: "stays for an hour" ends an hour later.
TEST(SupervisorBackoffTest, AChildThatIsAddedWhileTheOthersAreLookedAtStartsAtOnce) {
  TestClock clock;
  RunAsFiber([] {
    const auto begin = FiberClock::now();
    std::optional<std::chrono::nanoseconds> added_ran;
    Supervisor supervisor;
    const auto add = [&](void*) {
      EXPECT_TRUE(supervisor.Add("added", RestartKind::kTransient, [&] { added_ran = FiberClock::now() - begin; }));
    };
    // Its function goes when Run() has seen its end.
    EXPECT_TRUE(supervisor.Add("goes", RestartKind::kTransient, [last = std::shared_ptr<void>(nullptr, add)] {}));
    EXPECT_TRUE(supervisor.Add("stays for an hour", RestartKind::kTransient, [] { FiberSleepFor(1h); }));
    supervisor.Run();
    ASSERT_TRUE(added_ran.has_value());
    EXPECT_EQ(*added_ran, 0ns);
  });
}

// By the test clock: on the wall a loaded machine makes a run as long as the longest wait.
TEST(SupervisorBackoffTest, EachWaitIsTwiceAsLongUpToTheLongestUntilARunIsAsLong) {
  TestClock clock;
  RunAsFiber([] {
    std::vector<FiberClock::time_point> runs;
    Supervisor supervisor({.max_restarts = kMany, .backoff = {.first = 2ms, .longest = 8ms, .jitter = 0}});
    supervisor.Add("fails", RestartKind::kTransient, [&] {
      runs.push_back(FiberClock::now());
      if (runs.size() == 5) FiberSleepFor(8ms);
      if (runs.size() < 6) throw std::runtime_error("again");
    });
    supervisor.Run();
    ASSERT_EQ(runs.size(), 6U);
    EXPECT_EQ(runs[1] - runs[0], 2ms);
    EXPECT_EQ(runs[2] - runs[1], 4ms);
    EXPECT_EQ(runs[3] - runs[2], 8ms);
    EXPECT_EQ(runs[4] - runs[3], 8ms);
    EXPECT_EQ(runs[5] - runs[4], 8ms + 2ms);
  });
}

TEST_P(SupervisorTest, ASupervisorMayBeAChild) {
  InFiberAndThread([] {
    std::atomic<int> runs{0};
    Supervisor outer({.max_restarts = 2, .period = 1h, .backoff = kAtOnce});
    outer.Add("inner", RestartKind::kTransient, [&] {
      Supervisor inner({.max_restarts = 1, .period = 1h, .backoff = kAtOnce});
      inner.Add("leaf", RestartKind::kTransient, [&] {
        ++runs;
        throw std::runtime_error("leaf");
      });
      inner.Run();
    });
    try {
      outer.Run();
      ADD_FAILURE() << "it fails";
    } catch (const SupervisionFailed& failed) {
      EXPECT_EQ(failed.Child(), "inner");
      try {
        std::rethrow_exception(failed.Cause());
      } catch (const SupervisionFailed& inner) {
        EXPECT_EQ(inner.Child(), "leaf");
      }
    }
    EXPECT_EQ(runs, 6) << "three times two";
  });
}

TEST_P(SupervisorTest, ARefusedStartIsAFailure) {
  InFiber([] {
    Supervisor supervisor({.max_restarts = 2, .period = 1h, .backoff = kAtOnce});
    supervisor.Add("unwanted", RestartKind::kPermanent, [] { ADD_FAILURE() << "refused"; });
    const RefuseFiberStarts refuse;
    try {
      supervisor.Run();
      ADD_FAILURE() << "it fails";
    } catch (const SupervisionFailed& failed) {
      EXPECT_THROW(std::rethrow_exception(failed.Cause()), FiberNotStarted);
    }
    EXPECT_EQ(supervisor.Restarts(), 2U);
  });
}

TEST_P(SupervisorTest, ARefusedStartOfOneForAllStopsNobodyWhoHasNotStarted) {
  InFiber([] {
    Supervisor supervisor(
        {.strategy = RestartStrategy::kOneForAll, .max_restarts = 2, .period = 1h, .backoff = kAtOnce});
    for (const char* name : {"one", "two"}) supervisor.Add(name, RestartKind::kPermanent, [] { ADD_FAILURE(); });
    const RefuseFiberStarts refuse;
    EXPECT_THROW(supervisor.Run(), SupervisionFailed);
  });
}

TEST_P(SupervisorTest, ChildrenTellsTheFiberOfEachRun) {
  InFiber([] {
    std::atomic<std::uint64_t> id{0};
    FiberEvent checked;
    Supervisor supervisor({.max_restarts = 1, .backoff = kAtOnce});
    int runs = 0;
    supervisor.Add("named", RestartKind::kTransient, [&] {
      EXPECT_EQ(GetFiberName(), "named");
      if (++runs == 1) throw std::runtime_error("once");
      id = GetFiberId();
      checked.Wait();
    });
    supervisor.Add("looks", RestartKind::kTemporary, [&] {
      while (id == 0 || supervisor.Children()[0].fiber_id != id) FiberYield();
      const Supervisor::ChildInfo info = supervisor.Children()[0];
      EXPECT_EQ(info.name, "named");
      EXPECT_EQ(info.restarts, 1U);
      checked.Set();
    });
    supervisor.Run();
  });
}

// Children that fail, are cancelled by their ids and added at once.
TEST_P(SupervisorTest, ManyChildrenThatComeAndGo) {
  InFiber([] {
    std::atomic<int> runs{0};
    std::atomic<int> inside{0};
    Supervisor supervisor({.max_restarts = kMany, .backoff = {.first = 10us, .longest = 100us}});
    for (int i = 0; i < 50; ++i) {
      supervisor.Add("child", RestartKind::kTransient, [&, i, mine = 0]() mutable {
        ++inside;
        struct Leaves {
          ~Leaves() { --*inside; }
          std::atomic<int>* inside;
        } leaves{&inside};
        ++runs;
        ++mine;
        if (i % 2 == 0) FiberYield();
        if (i % 5 == 0) {
          FindFiber(GetFiberId())->Cancel();
          FiberSleepFor(1h);
        }
        if (mine < 10) throw std::runtime_error("again");
      });
    }
    EXPECT_TRUE(MoveOnAfter(60s, [&] { supervisor.Run(); }));
    EXPECT_EQ(inside, 0);
    EXPECT_EQ(runs, 10 + 40 * 10);
    EXPECT_EQ(supervisor.Restarts(), 40U * 9);
  });
}

TEST(SupervisorDeathTest, MisuseIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
        Supervisor supervisor;
        supervisor.Run();
        supervisor.Run();
      },
      "Supervisor::Run: it has run already");
  EXPECT_DEATH(Supervisor({.backoff = {.first = 2s, .longest = 1s}}), "Supervisor: a back-off of 2000000000 to");
  EXPECT_DEATH(Supervisor({.backoff = {.jitter = 2}}), "Supervisor: a jitter of 2 is not between 0 and 1");
  EXPECT_DEATH(Supervisor().Add("empty", RestartKind::kPermanent, base::UniqueFunction<void()>()),
               "Supervisor::Add: the function to run is empty");
}

}  // namespace
}  // namespace weft
