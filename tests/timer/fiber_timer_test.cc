// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/fiber_timer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/parker.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/tests/testing/timer_sleep.h"
#include "weft/timer/callback/callback_runner.h"
#include "weft/timer/queue/timer_shard.h"
#include "weft/timer/queue/timer_slab.h"
#include "weft/timer/worker/timer_worker.h"

#include "testing/group_fixture.h"

namespace weft::timer {
namespace {

using scheduling_group::CurrentFiber;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using testing::Countdown;
using testing::Scaled;
using testing::TimedGroup;

steady_clock::time_point In(steady_clock::duration duration) { return steady_clock::now() + duration; }

// The callbacks that are alive, copies in between not counted twice.
class Token {
 public:
  explicit Token(std::atomic<int>* alive) : alive_(alive) { alive_->fetch_add(1); }
  Token(Token&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
  ~Token() {
    if (alive_ != nullptr) alive_->fetch_sub(1);
  }

 private:
  std::atomic<int>* alive_;
};

void SleepFiber(steady_clock::duration duration) { testing::TimerSleepUntil(duration); }

class FiberTimer : public ::testing::TestWithParam<unsigned> {
 protected:
  FiberTimer() : group(GetParam()) {}

  // By hand, from a fiber, on the thread of the timers: the places from which timers are set.
  void FromEverywhere(const std::function<void()>& f) {
    f();
    group.Run(f);
    Countdown done(1);
    EnableFiberTimer(CreateFiberTimer(In(milliseconds(0)), [&] {
      f();
      done.Done();
    }));
    ASSERT_TRUE(done.Wait());
  }

  TimedGroup group;
};

// --- Each form of the interface ---

TEST_P(FiberTimer, ATimerCallsBackOnceInANewFiberNotBeforeItsTime) {
  FromEverywhere([this] {
    auto* done = new Countdown(1);
    const auto at = In(milliseconds(5));
    scheduling_group::FiberEntity* setter = CurrentFiber();
    const std::uint64_t id = SetFiberTimer(at, [=] {
      EXPECT_GE(steady_clock::now(), at);
      EXPECT_NE(CurrentFiber(), nullptr);
      EXPECT_NE(CurrentFiber(), setter);
      done->Done();
    });
    EXPECT_NE(id, 0u);
    if (ShardSetOfThread() != nullptr || CurrentFiber() != nullptr) {
      // Somebody else waits for it: neither may block.
      group.Start([done] {
        while (done->left() != 0) SleepFiber(milliseconds(1));
        EXPECT_TRUE(done->Wait());
        delete done;
      });
    } else {
      EXPECT_TRUE(done->Wait());
      delete done;
    }
  });
}

TEST_P(FiberTimer, ACallbackMayTakeTheTimersId) {
  Countdown done(2);
  std::atomic<std::uint64_t> seen{0};
  const std::uint64_t id = SetFiberTimer(In(milliseconds(1)), [&](std::uint64_t own) {
    seen = own;
    done.Done();
  });
  ASSERT_TRUE(SetFiberDetachedTimer(In(milliseconds(1)), [&](std::uint64_t own) {
    EXPECT_NE(own, 0u);
    done.Done();
  }));
  ASSERT_TRUE(done.Wait());
  EXPECT_EQ(seen, id);
}

TEST_P(FiberTimer, AnyClockWillDo) {
  Countdown done(2);
  DetachFiberTimer(SetFiberTimer(std::chrono::system_clock::now() + milliseconds(2), [&] { done.Done(); }));
  DetachFiberTimer(
      SetFiberTimer(std::chrono::time_point_cast<milliseconds>(steady_clock::now()), [&] { done.Done(); }));
  EXPECT_TRUE(done.Wait());
}

TEST_P(FiberTimer, ADurationCountsFromNowInAllForms) {
  Countdown done(7);
  const auto begin = steady_clock::now();
  const auto run = [&] {
    EXPECT_GE(steady_clock::now(), begin + milliseconds(2));
    done.Done();
  };
  const auto run_and_kill = [run](std::uint64_t id) {
    run();
    KillFiberTimer(id);
  };
  DetachFiberTimer(SetFiberTimer(milliseconds(2), run));
  DetachFiberTimer(SetFiberTimer(std::chrono::duration<double>(0.002), hours(1), run_and_kill));
  EXPECT_TRUE(SetFiberDetachedTimer(milliseconds(2), run));
  EXPECT_TRUE(SetFiberDetachedTimer(milliseconds(2), hours(1), run_and_kill));
  EnableFiberTimer(CreateFiberTimer(milliseconds(2), run));
  EnableFiberTimer(CreateFiberTimer(milliseconds(2), hours(1), run_and_kill));
  DetachFiberTimer(SetFiberTimer(Deadline(milliseconds(2)), run));
  EXPECT_TRUE(done.Wait());
}

TEST_P(FiberTimer, ADurationOfZeroFiresAtOnce) {
  Countdown done(2);
  DetachFiberTimer(SetFiberTimer(seconds(0), [&] { done.Done(); }));
  DetachFiberTimer(SetFiberTimer(-hours(1), [&] { done.Done(); }));
  EXPECT_TRUE(done.Wait());
}

// The deadline of such a duration is the first of all time points, and the rhythm would be that point's.
TEST_P(FiberTimer, APeriodicTimerOfADurationOfZeroHasTheRhythmOfItsSetting) {
  for (const milliseconds interval : {milliseconds(11), milliseconds(13), milliseconds(17), milliseconds(19)}) {
    Countdown done(2);
    const auto begin = steady_clock::now();
    FiberTimerKiller killer(SetFiberTimer(seconds(0), interval, [&] {
      if (done.left() == 1) {
        EXPECT_GE(steady_clock::now(), begin + interval);
      }
      if (done.left() != 0) done.Done();
    }));
    EXPECT_TRUE(done.Wait());
    killer.KillAndWait();
  }
}

TEST_P(FiberTimer, APeriodicTimerFiresAgainAndAgainInItsRhythm) {
  Countdown done(10);
  const auto start = In(milliseconds(2));
  std::atomic<int> runs{0};
  FiberTimerKiller killer(SetFiberTimer(start, milliseconds(3), [&] {
    EXPECT_GE(steady_clock::now(), start + runs.load() * milliseconds(3));
    runs.fetch_add(1);
    if (done.left() > 0) done.Done();
  }));
  EXPECT_TRUE(done.Wait());
  killer.KillAndWait();
}

// Midnight on a machine that was started today: it fired once and never again.
TEST_P(FiberTimer, APeriodicTimerWhoseFirstExpiryLiesBeforeTheSystemStartedFiresAgainAndAgain) {
  const auto fires = [](auto first) {
    Countdown done(3);
    FiberTimerKiller killer(SetFiberTimer(first, milliseconds(1), [&] {
      if (done.left() != 0) done.Done();
    }));
    EXPECT_TRUE(done.Wait());
    killer.KillAndWait();
  };
  fires(steady_clock::time_point::min());
  fires(steady_clock::time_point::min() + nanoseconds(1));
  fires(steady_clock::time_point(nanoseconds(-1)));
  fires(steady_clock::time_point());
  fires(In(-hours(24 * 365)));
  fires(system_clock::time_point());
  fires(system_clock::time_point::min());
  fires(std::chrono::time_point<system_clock, std::chrono::days>::min());
}

TEST_P(FiberTimer, IntervalsMayBeAsShortAndAsLongAsTheyWill) {
  Countdown done(100);
  std::atomic<int> runs{0};
  Countdown ran(3);
  std::vector<FiberTimerKiller> longest;
  const auto run = [&] {
    ++runs;
    ran.Done();
  };
  longest.emplace_back(SetFiberTimer(steady_clock::time_point(), nanoseconds::max(), run));
  longest.emplace_back(SetFiberTimer(In(seconds(0)), hours::max(), run));
  longest.emplace_back(SetFiberTimer(In(seconds(0)), std::chrono::duration<double>::max(), run));
  const std::uint64_t id = CreateFiberTimer(steady_clock::time_point::min(), nanoseconds(1), [&] {
    if (done.left() != 0) done.Done();
  });
  EnableFiberTimer(id);
  EXPECT_TRUE(done.Wait());
  EXPECT_TRUE(KillFiberTimerAndWait(id));
  EXPECT_TRUE(ran.Wait());
  for (auto& killer : longest) killer.KillAndWait();
  EXPECT_EQ(runs, 3);
}

TEST_P(FiberTimer, ATimerAtTheLastOfAllTimePointsWaitsAndCanBeKilled) {
  const auto kill = [](std::uint64_t id) { EXPECT_TRUE(KillFiberTimerAndWait(id)); };
  kill(SetFiberTimer(steady_clock::time_point::max(), [] { ADD_FAILURE(); }));
  kill(SetFiberTimer(steady_clock::time_point::max(), nanoseconds(1), [] { ADD_FAILURE(); }));
  kill(SetFiberTimer(system_clock::time_point::max(), hours::max(), [] { ADD_FAILURE(); }));
  kill(SetFiberTimer(steady_clock::time_point::max() - nanoseconds(1), hours::max(), [] { ADD_FAILURE(); }));
}

TEST_P(FiberTimer, ADetachedPeriodicTimerFiresUntilTheRuntimeEnds) {
  auto done = std::make_shared<Countdown>(5);
  auto left = std::make_shared<std::atomic<int>>(5);
  ASSERT_TRUE(SetFiberDetachedTimer(In(milliseconds(1)), milliseconds(1), [done, left] {
    if (left->fetch_sub(1) > 0) done->Done();
  }));
  EXPECT_TRUE(done->Wait());
  group.timers().DropCallbacks();
}

TEST_P(FiberTimer, ACreatedTimerDoesNothingBeforeItIsEnabledAndThenRunsOnTheTimersThread) {
  Countdown done(2);
  std::atomic<bool> enabled{false};
  std::atomic<int> left{2};
  const auto callback = [&] {
    EXPECT_TRUE(enabled);
    EXPECT_EQ(CurrentFiber(), nullptr);
    EXPECT_NE(ShardSetOfThread(), nullptr);
    if (left.fetch_sub(1) > 0) done.Done();
  };
  const std::uint64_t once = CreateFiberTimer(In(milliseconds(0)), callback);
  FiberTimerKiller again(0);
  const std::uint64_t periodic = CreateFiberTimer(In(milliseconds(0)), milliseconds(1), callback);
  again.Reset(periodic);
  std::this_thread::sleep_for(milliseconds(5));
  enabled = true;
  EnableFiberTimer(once);
  EnableFiberTimer(once);  // Harmless.
  EnableFiberTimer(periodic);
  EXPECT_TRUE(done.Wait());
  again.KillAndWait();
}

TEST_P(FiberTimer, AKillerKillsAtTheEndOfItsScope) {
  std::atomic<int> alive{0};
  {
    FiberTimerKiller killer(SetFiberTimer(In(hours(1)), [token = Token(&alive)] {}));
    FiberTimerKiller moved(std::move(killer));
    EXPECT_EQ(alive, 1);
    moved.Reset(SetFiberTimer(In(hours(1)), [token = Token(&alive)] {}));
    EXPECT_EQ(alive, 1);
    FiberTimerKiller assigned;
    assigned = std::move(moved);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST_P(FiberTimer, CallablesOfAllSizesArriveUnharmed) {
  constexpr int kForms = 8;
  Countdown done(kForms);
  const auto at = [] { return In(milliseconds(1)); };
  const auto expect_bytes = [&done](const auto& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], static_cast<char>(i));
    done.Done();
  };
  const auto bytes_of = [](auto bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
    return bytes;
  };
  static Countdown* global;
  global = &done;
  DetachFiberTimer(SetFiberTimer(at(), [] { global->Done(); }));
  DetachFiberTimer(SetFiberTimer(at(), [&done] { done.Done(); }));
  DetachFiberTimer(SetFiberTimer(at(), [&, bytes = bytes_of(std::array<char, 40>())] { expect_bytes(bytes); }));
  DetachFiberTimer(SetFiberTimer(at(), [&, bytes = bytes_of(std::array<char, 400>())] { expect_bytes(bytes); }));
  DetachFiberTimer(SetFiberTimer(at(), [&done, p = std::make_unique<int>(7)] {
    EXPECT_EQ(*p, 7);
    done.Done();
  }));
  const std::function<void()> function = [&done, s = std::string(100, 'x')] {
    EXPECT_EQ(s, std::string(100, 'x'));
    done.Done();
  };
  DetachFiberTimer(SetFiberTimer(at(), function));  // Copied.
  DetachFiberTimer(SetFiberTimer(at(), std::function<void()>(function)));
  struct alignas(32) Aligned {
    Countdown* done;
    void operator()() {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this) % 32, 0u);
      done->Done();
    }
  };
  DetachFiberTimer(SetFiberTimer(at(), Aligned{&done}));
  EXPECT_TRUE(done.Wait());
}

void SleepOrYield() {
  if (CurrentFiber() != nullptr) {
    scheduling_group::YieldCurrentFiber();
  } else {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

template <std::size_t kSize>
struct Bytes {
  static inline std::atomic<int> arrived{0};
  std::array<unsigned char, kSize> bytes;
  Bytes() { bytes.fill(kSize); }
  void operator()() const {
    for (unsigned char byte : bytes) EXPECT_EQ(byte, kSize) << "of a callable of " << kSize << " bytes";
    ++arrived;
  }
};

constexpr std::size_t kLargestCallable = 130;  // Beyond the end of a wide entry.

// Sets timers with callables of all sizes by set(callable), side by side and in both orders, and waits until each has
// run `times` times for each time it was set.
template <class Set>
void SetCallablesOfEverySize(int times, Set&& set) {
  static constexpr int kRounds = 3;
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((Bytes<i + 1>::arrived = 0), ...);
    for (int round = 0; round < kRounds; ++round) {
      (set(Bytes<kLargestCallable - i>()), ...);
      (set(Bytes<i + 1>()), ...);
    }
    const auto all_arrived = [times] { return ((Bytes<i + 1>::arrived >= 2 * kRounds * times) && ...); };
    const Deadline limit = std::chrono::seconds(30);
    while (!all_arrived() && !limit.expired()) SleepOrYield();
    EXPECT_TRUE(all_arrived());
  }
  (std::make_index_sequence<kLargestCallable>());
}

// Entries lie side by side: one byte too many would hit the links of a neighbour that is set already.
TEST_P(FiberTimer, CallablesOfEverySizeLeaveTheirNeighboursAlone) {
  SetCallablesOfEverySize(1, [](auto callable) { EXPECT_TRUE(SetFiberDetachedTimer(In(milliseconds(5)), callable)); });
}

// The interval, and the time of the next run, lie behind the callable.
TEST_P(FiberTimer, CallablesOfEverySizeRunAgainAndAgain) {
  std::vector<std::uint64_t> ids;
  SetCallablesOfEverySize(
      3, [&](auto callable) { ids.push_back(SetFiberTimer(In(milliseconds(1)), milliseconds(1), callable)); });
  for (std::uint64_t id : ids) EXPECT_TRUE(KillFiberTimerAndWait(id));
}

// --- Periods ---

TEST_P(FiberTimer, PeriodicTimerNeverOverlapsItself) {
  std::atomic<int> inside{0};
  Countdown done(8);
  std::atomic<int> runs{0};
  FiberTimerKiller killer(SetFiberTimer(In(milliseconds(0)), milliseconds(1), [&] {
    EXPECT_EQ(inside.fetch_add(1), 0) << "two runs at once";
    SleepFiber(milliseconds(5));
    inside.fetch_sub(1);
    if (runs.fetch_add(1) < 8) done.Done();
  }));
  EXPECT_TRUE(done.Wait());
  killer.KillAndWait();
}

TEST_P(FiberTimer, TicksMissedByASlowCallbackAreSkippedAndTheRhythmIsKept) {
  const auto start = In(milliseconds(1));
  const auto interval = milliseconds(4);
  Countdown done(5);
  std::atomic<int> runs{0};
  std::atomic<int> in_a_burst{0};
  FiberTimerKiller killer(SetFiberTimer(start, interval, [&, last = steady_clock::time_point()]() mutable {
    const auto now = steady_clock::now();
    EXPECT_GE(now, start);
    // The run before took two and a half intervals: a replay of what was missed would follow at once.
    if (last != steady_clock::time_point() && (now - start) / interval == (last - start) / interval) ++in_a_burst;
    SleepFiber(interval * 5 / 2);
    last = steady_clock::now();
    if (runs.fetch_add(1) < 5) done.Done();
  }));
  EXPECT_TRUE(done.Wait());
  killer.KillAndWait();
  EXPECT_EQ(in_a_burst, 0);
}

// --- Killing ---

TEST_P(FiberTimer, AKilledTimerDoesNotFireAndItsCallbackIsDestroyedAtOnce) {
  FromEverywhere([] {
    auto alive = std::make_unique<std::atomic<int>>(0);
    const std::uint64_t id = SetFiberTimer(In(hours(1)), [token = Token(alive.get())] { ADD_FAILURE(); });
    EXPECT_EQ(*alive, 1);
    EXPECT_TRUE(KillFiberTimer(id));
    EXPECT_EQ(*alive, 0);
    EXPECT_FALSE(KillFiberTimer(id)) << "it is gone";
    EXPECT_FALSE(KillFiberTimerAndWait(id));
  });
}

TEST_P(FiberTimer, ACreatedTimerCanBeKilledBeforeItIsEnabled) {
  std::atomic<int> alive{0};
  const std::uint64_t id = CreateFiberTimer(In(milliseconds(0)), [token = Token(&alive)] { ADD_FAILURE(); });
  EXPECT_TRUE(KillFiberTimer(id));
  EXPECT_EQ(alive, 0);
  EnableFiberTimer(id);
}

TEST_P(FiberTimer, AStaleIdIsHarmlessAlsoWhenItsMemoryIsUsedAgain) {
  const std::uint64_t stale = SetFiberTimer(In(hours(1)), [] { ADD_FAILURE(); });
  EXPECT_TRUE(KillFiberTimer(stale));
  Countdown done(1);
  const std::uint64_t other = SetFiberTimer(In(milliseconds(20)), [&] { done.Done(); });
  EXPECT_EQ(TimerSlab::Find(stale), TimerSlab::Find(other)) << "the memory is used again";
  EXPECT_NE(stale, other);
  EXPECT_FALSE(KillFiberTimer(stale));
  EXPECT_FALSE(KillFiberTimerAndWait(stale));
  EnableFiberTimer(stale);
  EXPECT_TRUE(done.Wait());
  EXPECT_FALSE(KillFiberTimer(other)) << "one that has fired is gone by itself";
}

TEST_P(FiberTimer, AMadeUpIdIsHarmless) {
  std::mt19937_64 random(1);
  const std::uint64_t id = SetFiberTimer(In(hours(1)), [] { ADD_FAILURE(); });
  for (std::uint64_t i = 0; i < 20000; ++i) {
    EXPECT_FALSE(KillFiberTimer(i));
    EXPECT_FALSE(KillFiberTimer(~i));
    EXPECT_FALSE(KillFiberTimerAndWait(random() & ~std::uint64_t{0xff}));
    EnableFiberTimer(i);
  }
  EXPECT_TRUE(KillFiberTimer(id));
}

TEST_P(FiberTimer, ACallbackMayKillItsOwnTimer) {
  std::atomic<int> alive{0};
  std::atomic<int> runs{0};
  Countdown done(3);
  DetachFiberTimer(SetFiberTimer(In(milliseconds(0)), milliseconds(1), [&, token = Token(&alive)](std::uint64_t id) {
    if (runs.fetch_add(1) == 2) {
      EXPECT_TRUE(KillFiberTimer(id));
    }
    done.Done();
  }));
  // On the thread of the timers, and by the form that waits for everybody else.
  Countdown done_there(1);
  EnableFiberTimer(CreateFiberTimer(In(milliseconds(0)), milliseconds(1), [&, token = Token(&alive)](std::uint64_t id) {
    EXPECT_TRUE(KillFiberTimerAndWait(id));
    EXPECT_FALSE(KillFiberTimerAndWait(id));
    done_there.Done();
  }));
  ASSERT_TRUE(done.Wait());
  ASSERT_TRUE(done_there.Wait());
  while (alive != 0) std::this_thread::yield();
  EXPECT_EQ(runs, 3);
}

TEST_P(FiberTimer, KillAndWaitReturnsWhenTheCallbackThatRunsIsOverAndDestroyed) {
  FromEverywhere([] {
    if (ShardSetOfThread() != nullptr) return;  // May not wait.
    std::atomic<int> alive{0};
    std::atomic<bool> inside{false};
    std::atomic<bool> over{false};
    const std::uint64_t id = SetFiberTimer(In(milliseconds(0)), [&, token = Token(&alive)] {
      inside = true;
      SleepFiber(milliseconds(10));
      over = true;
    });
    while (!inside) CurrentFiber() != nullptr ? SleepFiber(microseconds(100)) : std::this_thread::yield();
    KillFiberTimerAndWait(id);
    EXPECT_TRUE(over);
    EXPECT_EQ(alive, 0);
  });
}

TEST_P(FiberTimer, ManyMayWaitForTheEndOfOneCallback) {
  std::atomic<bool> inside{false};
  std::atomic<bool> over{false};
  const std::uint64_t id = SetFiberTimer(In(milliseconds(0)), milliseconds(1), [&] {
    inside = true;
    SleepFiber(milliseconds(10));
    over = true;
  });
  while (!inside) std::this_thread::yield();
  Countdown done(8);
  std::atomic<int> killed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    const auto wait = [&] {
      killed.fetch_add(KillFiberTimerAndWait(id) ? 1 : 0);
      EXPECT_TRUE(over);
      done.Done();
    };
    group.Start(wait);
    threads.emplace_back(wait);
  }
  EXPECT_TRUE(done.Wait());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(killed, 1) << "one of them killed it";
}

TEST_P(FiberTimer, AfterAKillNoRunBegins) {
  for (int i = 0; i < Scaled(3000); ++i) {
    // The callback and the killer race; who comes second must know.
    struct Shared {
      std::atomic<bool> killed{false};
      std::atomic<int> begun_after_kill{0};
    };
    auto shared = std::make_shared<Shared>();
    const std::uint64_t id = SetFiberTimer(In(microseconds(i % 60)), [shared] {
      if (shared->killed.load()) shared->begun_after_kill.fetch_add(1);
    });
    if (i % 3 == 0) std::this_thread::sleep_for(microseconds(i % 50));
    const bool prevented = KillFiberTimer(id);
    shared->killed.store(true);
    if (prevented) {
      EXPECT_EQ(shared->begun_after_kill, 0);
    }
    KillFiberTimerAndWait(id);
  }
}

TEST_P(FiberTimer, ThreadsAndFibersSetAndKillAtRandomAndNoCallbackIsLostOrDestroyedTwice) {
  constexpr int kActors = 6;
  std::atomic<int> alive{0};
  std::atomic<std::int64_t> fired{0};
  std::atomic<std::int64_t> set{0};
  std::atomic<std::int64_t> prevented{0};
  std::array<std::atomic<std::uint64_t>, 32> ids{};  // Of all actors: most kills meet another's timer.
  const auto act = [&](int actor) {
    std::mt19937_64 random(static_cast<std::uint64_t>(actor));
    for (int i = 0; i < Scaled(6000); ++i) {
      auto& slot = ids[random() % ids.size()];
      const auto at = In(microseconds(random() % 500));
      std::uint64_t id = 0;
      if (random() % 3 == 0) {
        id = CreateFiberTimer(at, [&, token = Token(&alive)] { fired.fetch_add(1); });
        EnableFiberTimer(id);
      } else {
        id = SetFiberTimer(at, [&, token = Token(&alive)] { fired.fetch_add(1); });
      }
      set.fetch_add(1);
      if (KillFiberTimer(slot.exchange(id))) prevented.fetch_add(1);
      if (random() % 64 == 0 && CurrentFiber() != nullptr) SleepFiber(microseconds(50));
    }
  };
  testing::Crew crew(&group, testing::ActorKind::kMixed);
  crew.AddMany(kActors, act);
  crew.Join();
  for (auto& slot : ids) {
    if (KillFiberTimerAndWait(slot.load())) prevented.fetch_add(1);
  }
  const Deadline limit = seconds(30);
  while (alive != 0 && !limit.expired()) std::this_thread::yield();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(set, fired + prevented);
  EXPECT_GT(prevented, 0);
  group.timers().DropCallbacks();
}

// --- Where they are set ---

TEST_P(FiberTimer, ACallbackMaySetTheNextTimer) {
  Countdown done(1);
  std::atomic<int> left{20};
  std::function<void()> next = [&] {
    const int n = left.fetch_sub(1);
    if (n == 0) {
      done.Done();
    } else if (n % 2 == 0) {
      ASSERT_TRUE(SetFiberDetachedTimer(In(microseconds(100)), next));
    } else {
      EnableFiberTimer(CreateFiberTimer(In(microseconds(100)), next));
    }
  };
  next();
  EXPECT_TRUE(done.Wait());
}

TEST_P(FiberTimer, AHundredThousandTimersOfOneMomentAllFire) {
  const int count = Scaled(100000);
  Countdown done(count);
  group.Run([&] {
    const auto at = In(milliseconds(50));
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(SetFiberDetachedTimer(at, [&done, at] {
        EXPECT_GE(steady_clock::now(), at);
        done.Done();
      }));
    }
  });
  EXPECT_TRUE(done.Wait());
}

INSTANTIATE_TEST_SUITE_P(Workers, FiberTimer, ::testing::Values(1u, 2u, 4u, 8u, 64u));

// --- The runtime's beginning and end ---

TEST(FiberTimerDeathTest, SettingOneWithoutARuntimeSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(SetFiberTimer(In(hours(1)), [] {})), "SetFiberTimer: the runtime does not run");
  EXPECT_DEATH(static_cast<void>(CreateFiberTimer(In(hours(1)), [] {})), "CreateFiberTimer: the runtime does not run");
  EXPECT_DEATH(SetFiberDetachedTimer(In(hours(1)), [] {}), "SetFiberDetachedTimer: the runtime does not run");
}

TEST(FiberTimerDeathTest, AnIntervalThatIsNotAboveZeroIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(SetFiberTimer(In(hours(1)), seconds(0), [] {})), "interval must be above zero");
  EXPECT_DEATH(static_cast<void>(SetFiberTimer(In(hours(1)), -hours(1), [] {})), "interval must be above zero");
  EXPECT_DEATH(static_cast<void>(SetFiberTimer(In(hours(1)), hours::min(), [] {})), "interval must be above zero");
  EXPECT_DEATH(static_cast<void>(CreateFiberTimer(In(hours(1)), std::chrono::duration<double>(NAN), [] {})),
               "interval must be above zero");
  EXPECT_DEATH(SetFiberDetachedTimer(In(hours(1)), nanoseconds::min(), [] {}), "interval must be above zero");
}

TEST(FiberTimerDeathTest, TheThreadOfTheTimersMayNotWaitForOne) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        TimedGroup group(1);
        std::atomic<bool> inside{false};
        const std::uint64_t id = SetFiberTimer(In(milliseconds(0)), [&] {
          inside = true;
          SleepFiber(hours(1));
        });
        while (!inside) std::this_thread::yield();
        EnableFiberTimer(CreateFiberTimer(In(milliseconds(0)), [&] { KillFiberTimerAndWait(id); }));
        std::this_thread::sleep_for(seconds(30));
      },
      "may not wait for one");
}

// What the end of the runtime leaves of a callback.
TEST(FiberTimerAtStop, CallbacksOfPendingTimersAreDestroyedOnceAndTheirIdsAreStale) {
  std::atomic<int> alive{0};
  std::vector<std::uint64_t> ids;
  {
    TimedGroup group(2);
    for (int i = 0; i < 1000; ++i) {
      ids.push_back(SetFiberTimer(In(hours(1)), [token = Token(&alive)] { ADD_FAILURE(); }));
      ids.push_back(SetFiberTimer(In(hours(1)), hours(1), [token = Token(&alive)] { ADD_FAILURE(); }));
      ids.push_back(CreateFiberTimer(In(hours(1)), [token = Token(&alive)] { ADD_FAILURE(); }));
    }
    EXPECT_EQ(alive, 3000);
    EXPECT_EQ(group.timers().DropCallbacks(), 3000u);
    EXPECT_EQ(alive, 0);
    // Too late: refused, and the callback destroyed.
    EXPECT_EQ(SetFiberTimer(In(hours(1)), [token = Token(&alive)] {}), 0u);
    EXPECT_EQ(SetFiberTimer(In(hours(1)), [token = Token(&alive), large = std::array<char, 100>()] { (void)large; }),
              0u);
    EXPECT_EQ(alive, 0);
    // Sleeps go on ending in time.
    group.Run([] { SleepFiber(milliseconds(2)); });
  }
  for (const std::uint64_t id : ids) EXPECT_FALSE(KillFiberTimer(id));
  TimedGroup next(2);
  Countdown done(1);
  FiberTimerKiller killer(SetFiberTimer(In(milliseconds(1)), milliseconds(1), [&] {
    if (done.left() != 0) done.Done();
  }));
  for (const std::uint64_t id : ids) EXPECT_FALSE(KillFiberTimer(id));
  EXPECT_TRUE(done.Wait());
  killer.KillAndWait();
}

TEST(FiberTimerAtStop, APeriodicTimerThatRunsMeanwhileEndsAfterThisRun) {
  std::atomic<int> alive{0};
  std::atomic<int> runs{0};
  {
    TimedGroup group(2);
    std::atomic<bool> inside{false};
    DetachFiberTimer(SetFiberTimer(In(milliseconds(0)), milliseconds(1), [&, token = Token(&alive)] {
      runs.fetch_add(1);
      inside = true;
      SleepFiber(milliseconds(20));
    }));
    while (!inside) std::this_thread::yield();
    EXPECT_EQ(group.timers().DropCallbacks(), 1u);
    EXPECT_TRUE(scheduling_group::WaitUntilNoFibers(seconds(30)));
    EXPECT_EQ(alive, 0);
  }
  EXPECT_EQ(runs, 1);
}

TEST(FiberTimerAtStop, ACallbacksDestructorMayUseTimers) {
  TimedGroup group(1);
  struct Chain {
    Chain() = default;
    Chain(Chain&& other) noexcept : armed(std::exchange(other.armed, false)) {}
    ~Chain() {
      if (!armed) return;
      EXPECT_EQ(SetFiberTimer(In(hours(1)), [] {}), 0u) << "none can be set any more";
      KillFiberTimer(12345);
    }
    bool armed = true;
    void operator()() const { ADD_FAILURE(); }
  };
  for (int i = 0; i < 10; ++i) DetachFiberTimer(SetFiberTimer(In(hours(1)), Chain()));
  EXPECT_EQ(group.timers().DropCallbacks(), 10u);
}

// Callables are moved into their place without the lock: the runtime may have stopped by the time that is done.
TEST(FiberTimerAtStop, ATimerThatIsBeingSetMeanwhileIsRefusedAndItsCallbackDestroyed) {
  std::atomic<int> alive{0};
  TimedGroup group(1);
  struct StopsWhenMoved {
    explicit StopsWhenMoved(TimedGroup* own_group, std::atomic<int>* count) : group(own_group), token(count) {}
    StopsWhenMoved(StopsWhenMoved&& other) noexcept : group(other.group), token(std::move(other.token)) {
      EXPECT_EQ(group->timers().DropCallbacks(), 0u);
    }
    void operator()() const { ADD_FAILURE(); }
    TimedGroup* group;
    Token token;
  };
  EXPECT_EQ(SetFiberTimer(In(hours(1)), StopsWhenMoved(&group, &alive)), 0u);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(group.timers().armed(), 0u);
}

TEST(FiberTimerAtStop, ACallbackWhoseFiberHasNotRunYetDoesNotRunAfterIt) {
  scheduling_group::SchedulingGroup::Options options;
  options.workers = 1;
  scheduling_group::SchedulingGroup group(options);
  TimerWorker::Options timer_options;
  timer_options.group = &group;
  TimerWorker timers(timer_options);
  ASSERT_TRUE(timers.Start());
  std::atomic<int> alive{0};
  ASSERT_TRUE(SetFiberDetachedTimer(In(milliseconds(0)), [token = Token(&alive)] { ADD_FAILURE(); }));
  while (group.queue_size() == 0) std::this_thread::yield();
  EXPECT_EQ(timers.DropCallbacks(), 1u);

  scheduling_group::WorkerTeam team(&group);
  ASSERT_TRUE(team.Start());
  EXPECT_TRUE(scheduling_group::WaitUntilNoFibers(seconds(30)));
  EXPECT_EQ(alive, 0);
  timers.Stop();
  group.Stop();
  team.Join();
}

// --- The end of a timer ---

TEST(FiberTimerEnd, WhoComesToWaitWhileTheCallbackIsBeingDestroyedIsWoken) {
  TimedGroup group(1);
  struct EndsLate {
    EndsLate(std::atomic<TimerEntry*>* place, std::atomic<bool>* begun) : entry(place), ends(begun) {}
    EndsLate(EndsLate&& other) noexcept : entry(std::exchange(other.entry, nullptr)), ends(other.ends) {}
    ~EndsLate() {
      if (entry == nullptr) return;
      *ends = true;
      const auto limit = steady_clock::now() + seconds(20);
      while (!Awaited(entry->load()) && steady_clock::now() < limit) std::this_thread::yield();
    }
    static bool Awaited(TimerEntry* waited_for) {
      if (waited_for == nullptr) return false;
      base::SpinLockGuard guard(TimerChunk::Of(waited_for)->shard->lock);
      return waited_for->prev != nullptr;
    }
    void operator()() const {}
    std::atomic<TimerEntry*>* entry;
    std::atomic<bool>* ends;
  };
  std::atomic<TimerEntry*> entry{nullptr};
  std::atomic<bool> ends{false};
  const std::uint64_t id = CreateFiberTimer(In(milliseconds(0)), EndsLate(&entry, &ends));
  entry = TimerSlab::Find(id);
  EnableFiberTimer(id);
  while (!ends) std::this_thread::yield();
  // A waiter who is not woken would keep the test from ending: it is reported as unfinished then.
  auto woken = std::make_shared<Countdown>(1);
  std::thread waiter([woken, id] {
    EXPECT_FALSE(KillFiberTimerAndWait(id));
    woken->Done();
  });
  if (woken->Wait(seconds(10))) {
    waiter.join();
  } else {
    waiter.detach();
    ADD_FAILURE() << "who waits for the end of the timer is not woken";
  }
}

// --- A full run queue ---

// The group's fibers do not run before its workers are started: the queue of two is full by then.
TEST(FiberTimerWithFullQueue, ARefusedFiberIsTriedAgainAndTheTimerThreadGoesOn) {
  scheduling_group::SchedulingGroup::Options options;
  options.workers = 1;
  options.run_queue_size = 2;
  scheduling_group::SchedulingGroup group(options);
  TimerWorker::Options timer_options;
  timer_options.group = &group;
  TimerWorker timers(timer_options);
  ASSERT_TRUE(timers.Start());

  constexpr int kCount = 50;
  std::atomic<int> alive{0};
  Countdown done(kCount);
  const std::uint64_t refused_before = RefusedCallbackFibers();
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(SetFiberDetachedTimer(In(milliseconds(0)), [&, token = Token(&alive)] { done.Done(); }));
  }
  const std::uint64_t killed = SetFiberTimer(In(milliseconds(0)), [&, token = Token(&alive)] { ADD_FAILURE(); });
  while (RefusedCallbackFibers() - refused_before < 3 * kCount) std::this_thread::yield();
  // Meanwhile the thread serves others.
  Countdown served(1);
  EnableFiberTimer(CreateFiberTimer(In(milliseconds(0)), [&] { served.Done(); }));
  EXPECT_TRUE(served.Wait());
  EXPECT_TRUE(KillFiberTimer(killed));

  scheduling_group::WorkerTeam team(&group);
  ASSERT_TRUE(team.Start());
  EXPECT_TRUE(done.Wait());
  EXPECT_TRUE(scheduling_group::WaitUntilNoFibers(seconds(30)));
  EXPECT_EQ(alive, 0);
  timers.Stop();
  group.Stop();
  team.Join();
}

// A callback on the thread of the timers that starts fibers: it must not wait until the queue has room.
TEST(FiberTimerWithFullQueue, ACallbackThatStartsFibersThereDoesNotStopTheTimers) {
  scheduling_group::SchedulingGroup::Options options;
  options.workers = 1;
  options.run_queue_size = 2;
  options.start_timeout = seconds(10);
  scheduling_group::SchedulingGroup group(options);
  TimerWorker::Options timer_options;
  timer_options.group = &group;
  TimerWorker timers(timer_options);
  ASSERT_TRUE(timers.Start());

  std::atomic<int> ran{0};
  const auto new_fiber = [&] { return scheduling_group::NewFiber(&group, {}, [&ran] { ++ran; }); };
  ASSERT_TRUE(group.Start(new_fiber()));
  ASSERT_TRUE(group.Start(new_fiber()));
  Countdown started(1);
  EnableFiberTimer(CreateFiberTimer(In(milliseconds(0)), [&] {
    EXPECT_TRUE(group.Start(new_fiber()));
    scheduling_group::FiberEntity* const batch[] = {new_fiber(), new_fiber()};
    EXPECT_TRUE(group.StartBatch(batch, 2));
    started.Done();
  }));
  ASSERT_TRUE(started.Wait());
  EXPECT_EQ(ran, 0);

  scheduling_group::WorkerTeam team(&group);
  ASSERT_TRUE(team.Start());
  EXPECT_TRUE(scheduling_group::WaitUntilNoFibers(seconds(30)));
  EXPECT_EQ(ran, 5);
  timers.Stop();
  group.Stop();
  team.Join();
}

// --- Lines in the log ---

// Collects them while it lives.
class LogLines {
 public:
  LogLines() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      std::lock_guard guard(mutex_);
      lines_.emplace_back(text);
    });
  }
  ~LogLines() { base::SetLogSink({}); }

  int CountWith(std::string_view text) {
    std::lock_guard guard(mutex_);
    return static_cast<int>(
        std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) { return line.find(text) != line.npos; }));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST(FiberTimerAtStop, ACallbackThatBlocksTheTimerThreadIsNamedInTheLogAgainAndAgain) {
  LogLines lines;
  TimerWorker::Options options;
  options.complain_after = milliseconds(1);
  TimerWorker timers(options);
  ASSERT_TRUE(timers.Start());

  static std::atomic<bool> inside{false};
  static std::atomic<bool> go_on{false};
  struct BlocksTheTimerThread {
    void operator()() const {
      inside = true;
      while (!go_on) std::this_thread::yield();
    }
  };
  EnableFiberTimer(CreateFiberTimer(In(milliseconds(0)), BlocksTheTimerThread()));
  while (!inside) std::this_thread::yield();
  std::thread stopper([&] { timers.Stop(); });
  const auto limit = steady_clock::now() + seconds(20);
  while (lines.CountWith("BlocksTheTimerThread") < 2 && steady_clock::now() < limit) std::this_thread::yield();
  go_on = true;
  stopper.join();
  EXPECT_GE(lines.CountWith("a callback blocks its timer thread"), 2);
}

// --- No memory for fibers ---

#if !WEFT_ASAN && !WEFT_TSAN  // Their allocators do not come back from a limit of the address space.

void LimitAddressSpaceToWhatIsUsed() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = pages * 4096;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

void LiftAddressSpaceLimit() {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// Refusals by the time that `count` more of them have been seen, and how long that took.
steady_clock::duration TimeOfRefusals(std::uint64_t count) {
  const auto begin = steady_clock::now();
  const std::uint64_t before = RefusedCallbackFibers();
  while (RefusedCallbackFibers() - before < count) std::this_thread::yield();
  return steady_clock::now() - begin;
}

TEST(FiberTimerWithoutMemory, ARefusedFiberIsTriedAgainSeldomTheReasonIsNamedAndNoneIsLost) {
  LogLines lines;
  scheduling_group::SchedulingGroup::Options options;
  options.workers = 1;
  scheduling_group::SchedulingGroup group(options);
  TimerWorker::Options timer_options;
  timer_options.group = &group;
  TimerWorker timers(timer_options);
  ASSERT_TRUE(timers.Start());
  constexpr int kCount = 1000;
  std::atomic<int> ran{0};
  std::vector<std::uint64_t> ids(kCount + 1);
  for (auto& id : ids) id = CreateFiberTimer(In(hours(1)), [] {});  // The timers' own memory is there.
  for (const auto id : ids) KillFiberTimer(id);
  Countdown has_memory(1);  // The timer thread has some free, for lines of the log.
  EnableFiberTimer(CreateFiberTimer(In(milliseconds(0)), [&] {
    const std::vector<char> freed(1 << 16);
    has_memory.Done();
  }));
  ASSERT_TRUE(has_memory.Wait());

  std::vector<scheduling_group::FiberEntity*> all;
  all.reserve(1 << 20);
  LimitAddressSpaceToWhatIsUsed();
  while (auto* fiber = scheduling_group::NewFiber(&group, {}, [] {})) all.push_back(fiber);

  // One alone: 1, 2, 4, 8, 16, 16, 16 ms.
  ASSERT_TRUE(SetFiberDetachedTimer(In(milliseconds(0)), [&] { ++ran; }));
  EXPECT_GE(TimeOfRefusals(8), milliseconds(1 + 2 + 4 + 8 + 16 + 16 + 16));
  // Many: each once at first; then a thousand in 16 ms.
  for (int i = 0; i < kCount; ++i) ASSERT_TRUE(SetFiberDetachedTimer(In(milliseconds(0)), [&] { ++ran; }));
  EXPECT_GE(TimeOfRefusals(5 * kCount), milliseconds(3 * 16));
  EXPECT_GE(lines.CountWith("no memory for them"), 1);
  EXPECT_EQ(lines.CountWith("is full"), 0);
  EXPECT_EQ(ran, 0);

  LiftAddressSpaceLimit();
  for (auto* fiber : all) scheduling_group::DiscardFiber(fiber);
  scheduling_group::WorkerTeam team(&group);
  ASSERT_TRUE(team.Start());
  const auto limit = steady_clock::now() + seconds(60);
  while (ran != kCount + 1 && steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(ran, kCount + 1);
  EXPECT_TRUE(scheduling_group::WaitUntilNoFibers(seconds(30)));
  timers.Stop();
  group.Stop();
  team.Join();
}

#endif

// --- Execution contexts ---

std::atomic<int> context_references{0};

class FiberTimerContext : public ::testing::Test {
 protected:
  FiberTimerContext() {
    execution_context_hooks = {.add_reference =
                                   [](void* added) {
                                     context_references.fetch_add(1);
                                     if (in_add_reference) in_add_reference();
                                     return added;
                                   },
                               .release = [](void*) { context_references.fetch_sub(1); }};
    scheduling_group::fiber_hooks.release_execution_context = [](scheduling_group::FiberEntity* fiber) {
      context_references.fetch_sub(1);
      fiber->set_execution_context(nullptr);
    };
  }
  ~FiberTimerContext() override {
    EXPECT_EQ(context_references, 0);
    execution_context_hooks = hooks_before_;
    scheduling_group::fiber_hooks = fiber_hooks_before_;
  }

  // For the calling fiber.
  void GiveContext() {
    CurrentFiber()->set_execution_context(&context);
    context_references.fetch_add(1);
  }

  static inline std::function<void()> in_add_reference;
  int context = 0;

 private:
  const ExecutionContextHooks hooks_before_ = execution_context_hooks;
  const scheduling_group::FiberHooks fiber_hooks_before_ = scheduling_group::fiber_hooks;
};

TEST_F(FiberTimerContext, ACallbackInheritsTheContextOfTheFiberThatSetItsTimerForAsLongAsTheTimerLives) {
  TimedGroup group(2);
  Countdown done(4);
  std::uint64_t periodic = 0;
  std::uint64_t never = 0;
  group.Run([&] {
    GiveContext();
    DetachFiberTimer(SetFiberTimer(In(milliseconds(1)), [&] {
      EXPECT_EQ(CurrentFiber()->execution_context(), &context);
      done.Done();
    }));
    periodic = SetFiberTimer(In(milliseconds(1)), milliseconds(1), [&] {
      EXPECT_EQ(CurrentFiber()->execution_context(), &context);
      if (done.left() > 0) done.Done();
    });
    never = SetFiberTimer(In(hours(1)), [] {});
  });
  // Without a context there is none to inherit.
  Countdown without(1);
  ASSERT_TRUE(SetFiberDetachedTimer(In(milliseconds(1)), [&] {
    EXPECT_EQ(CurrentFiber()->execution_context(), nullptr);
    without.Done();
  }));
  EXPECT_TRUE(done.Wait());
  EXPECT_TRUE(without.Wait());
  KillFiberTimerAndWait(periodic);
  EXPECT_TRUE(KillFiberTimer(never));
}

// The context lies behind the callable.
TEST_F(FiberTimerContext, CallablesOfEverySizeInheritIt) {
  TimedGroup group(2);
  group.Run([&] {
    GiveContext();
    SetCallablesOfEverySize(1, [this](auto callable) {
      EXPECT_TRUE(SetFiberDetachedTimer(In(milliseconds(1)), [callable, this] {
        EXPECT_EQ(CurrentFiber()->execution_context(), &context);
        callable();
      }));
      EXPECT_TRUE(SetFiberDetachedTimer(In(hours(1)), callable));
    });
  });
  group.timers().DropCallbacks();
}

// It was destroyed in the entry and by SetFiberTimer(), when the runtime began to stop while the context was referred
// to.
TEST_F(FiberTimerContext, ACallableOnTheHeapThatIsRefusedIsDestroyedOnce) {
  TimedGroup group(1);
  std::atomic<int> alive = 0;
  group.Run([&] {
    GiveContext();
    in_add_reference = [&] { group.timers().DropCallbacks(); };
    EXPECT_EQ(SetFiberTimer(In(hours(1)), [token = Token(&alive), large = std::array<char, 100>()] { (void)large; }),
              0u);
    EXPECT_EQ(SetFiberTimer(In(hours(1)), [token = Token(&alive)] {}), 0u);
    in_add_reference = nullptr;
  });
  EXPECT_EQ(alive, 0);
}

// --- Memory ---

TEST(FiberTimerMemory, SettingAndKillingForEverUsesTheMemoryOfOne) {
  TimedGroup group(1);
  TimerEntry* entry = nullptr;
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t id = SetFiberTimer(In(hours(1)), [] {});
    if (i == 0) entry = TimerSlab::Find(id);
    ASSERT_EQ(TimerSlab::Find(id), entry);
    ASSERT_TRUE(KillFiberTimer(id));
  }
}

TEST(FiberTimerMemory, AfterABurstItGoesBackToTheSystem) {
  scheduling_group::SchedulingGroup group({});
  TimerWorker::Options options;
  options.group = &group;
  options.trim_after = milliseconds(20);
  TimerWorker timers(options);
  ASSERT_TRUE(timers.Start());
  for (EntryWidth width : kEntryWidths) {
    std::vector<std::uint64_t> ids(4 * kPlacesPerChunk / static_cast<std::size_t>(width));
    for (std::uint64_t& id : ids) {
      id = width == EntryWidth::kWide ? SetFiberTimer(In(hours(1)), hours(1), [] {})
                                      : SetFiberTimer(In(hours(1)), [] {});
    }
    TimerShard* shard = TimerChunk::Of(TimerSlab::Find(ids.back()))->shard;
    const auto chunks_in_memory = [&] {
      base::SpinLockGuard guard(shard->lock);
      return shard->slab(width).chunks_in_memory();
    };
    EXPECT_GE(chunks_in_memory(), 4u);
    for (const std::uint64_t id : ids) EXPECT_TRUE(KillFiberTimer(id));
    const Deadline limit = seconds(30);
    while (chunks_in_memory() > 1 && !limit.expired()) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_LE(chunks_in_memory(), 1u);
  }
}

}  // namespace
}  // namespace weft::timer
