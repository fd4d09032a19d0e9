// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/synchronized.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldActor;

template <class Mutex>
concept CanWaitForAValue = requires(Synchronized<int, Mutex>& value) {
  value.LockWhen([](int) { return true; });
};
template <class Mutex>
concept CanBeShared = requires(const Synchronized<int, Mutex>& value) {
  value.SharedLock();
};
template <class Mutex>
concept CanBeTriedForAWhile = requires(Synchronized<int, Mutex>& value) {
  value.TryLock(1ms);
};

static_assert(CanWaitForAValue<FiberMutex> && !CanWaitForAValue<FiberTimedMutex> &&
              !CanWaitForAValue<FiberSharedMutex> && !CanWaitForAValue<std::mutex>);
static_assert(CanBeShared<FiberSharedMutex> && CanBeShared<std::shared_mutex> && !CanBeShared<FiberMutex>);
static_assert(CanBeTriedForAWhile<FiberTimedMutex> && CanBeTriedForAWhile<FiberSharedMutex> &&
              !CanBeTriedForAWhile<FiberMutex>);
static_assert(!std::is_copy_constructible_v<Synchronized<int>> &&
              !std::is_copy_constructible_v<Synchronized<int>::Pointer>);
static_assert(std::is_same_v<decltype(*std::declval<const Synchronized<int>&>().Lock()), const int&>);
static_assert(std::is_same_v<decltype(*std::declval<Synchronized<int, FiberSharedMutex>&>().SharedLock()), const int&>);

class SynchronizedTest : public testing::OnAnyCrew {};

TEST_P(SynchronizedTest, NoTwoAreInItAtOnce) {
  constexpr int kActors = 4;
  const int each = Scaled(2000);
  Synchronized<int> counter(0);
  std::atomic<int> inside{0};
  Crew crew = MakeCrew();
  crew.AddMany(kActors, [&](int me) {
    for (int i = 0; i < each; ++i) {
      if (me % 2 == 0) {
        auto value = counter.Lock();
        EXPECT_EQ(++inside, 1);
        if (i % 16 == 0) YieldActor();
        ++*value;
        --inside;
      } else {
        counter.With([&](int& value) {
          EXPECT_EQ(++inside, 1);
          ++value;
          --inside;
        });
      }
    }
  });
  crew.Join();
  EXPECT_EQ(*counter.Lock(), kActors * each);
}

TEST_P(SynchronizedTest, WhoChangesTheValueWakesWhoWaitsForIt) {
  const int items = Scaled(1000);
  Synchronized<std::deque<int>> queue;
  std::atomic<std::int64_t> sum{0};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int) {
    for (;;) {
      auto some = queue.LockWhen([](const auto& all) { return !all.empty(); });
      const int item = some->front();
      if (item < 0) return;  // Left in it, for the other one.
      some->pop_front();
      sum += item;
    }
  });
  crew.Add([&] {
    for (int i = 1; i <= items; ++i) {
      // Bounded: it waits through the pointer with which it has changed the value.
      auto all = queue.Lock();
      all->push_back(i);
      all.Wait([](const auto& now) { return now.size() < 4; });
    }
    queue.With([](auto& all) { all.push_back(-1); });
  });
  crew.Join();
  EXPECT_EQ(sum, std::int64_t{items} * (items + 1) / 2);
}

// By unlocking, and by waiting itself.
TEST_P(SynchronizedTest, AChangeWakesAtOnce) {
  for (const bool waits : {false, true}) {
    Synchronized<int> value(0);
    std::atomic<bool> seen{false};
    Crew crew = MakeCrew();
    crew.Add([&] {
      auto pointer = value.LockWhen([](int v) { return v == 1; }, 60s);
      EXPECT_TRUE(pointer);
      seen = true;
      if (waits) *pointer = 2;
    });
    crew.Add([&] {
      for (int i = 0; i < 10; ++i) YieldActor();  // The other one waits by now, most likely.
      auto pointer = value.Lock();
      *pointer = 1;
      if (waits) {
        EXPECT_TRUE(pointer.Wait([](int v) { return v == 2; }, 60s));
      } else {
        pointer.Unlock();
        const Deadline limit = 60s;
        testing::YieldUntil([&] { return seen || limit.expired(); });
      }
      EXPECT_TRUE(seen);
    });
    crew.Join();
  }
}

TEST_P(SynchronizedTest, AWaitEndsAtItsDeadline) {
  Synchronized<int> value(1);
  Crew crew = MakeCrew();
  crew.Add([&] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(value.LockWhen([](int v) { return v == 2; }, 2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(value.LockWhen([](int v) { return v == 2; }, 0ms));
    EXPECT_TRUE(value.LockWhen([](int v) { return v == 1; }, 0ms));
    auto pointer = value.Lock();
    EXPECT_FALSE(pointer.Wait([](int v) { return v == 2; }, 1ms));
    EXPECT_TRUE(pointer) << "it is locked again";
    EXPECT_FALSE(value.TryLock());
  });
  crew.Join();
  EXPECT_TRUE(value.TryLock());
}

TEST_P(SynchronizedTest, ReadersAreInItTogetherAndWritersAlone) {
  Synchronized<std::string, FiberSharedMutex> text("a");
  FiberLatch both(2);
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int) {
    auto shared = text.SharedLock();
    both.ArriveAndWait();
    EXPECT_EQ(*shared, "a");
    EXPECT_FALSE(text.TryLock());
  });
  crew.Join();
  EXPECT_EQ(text.WithShared([](const std::string& t) { return t + "b"; }), "ab");
  const auto alone = text.Lock();
  EXPECT_FALSE(text.TrySharedLock());
}

TEST_P(SynchronizedTest, TheLastOwnerMayDestroyIt) {
  const int rounds = Scaled(300);
  for (int round = 0; round < rounds; ++round) {
    auto value = std::make_unique<Synchronized<bool>>(false);
    Crew crew = MakeCrew();
    crew.Add([&value = *value] { *value.Lock() = true; });
    crew.Add([&value] {
      value->LockWhen([](bool v) { return v; }).Unlock();
      value.reset();
    });
    crew.Join();
  }
}

WEFT_INSTANTIATE_ON_ANY_CREW(SynchronizedTest);

TEST(Synchronized, IsMadeOfTheArgumentsOfItsValue) {
  const Synchronized<std::string> text(std::size_t{3}, 'x');
  EXPECT_EQ(*text.Lock(), "xxx");
  struct Fixed {  // Neither copied nor moved.
    explicit Fixed(int v) : value(v) {}
    Fixed(Fixed&&) = delete;
    int value = 0;
  };
  Synchronized<Fixed, std::mutex> fixed(5);
  EXPECT_EQ(fixed.Lock()->value, 5);
  EXPECT_EQ(*Synchronized<int>().Lock(), 0) << "a value that is given nothing is zero";
}

TEST(Synchronized, APointerHoldsTheLockUntilItsEnd) {
  Synchronized<int> value(1);
  {
    auto first = value.Lock();
    EXPECT_TRUE(first);
    EXPECT_FALSE(value.TryLock());
    auto second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(second);
    EXPECT_FALSE(value.TryLock());
    second.Unlock();
    EXPECT_FALSE(second);
    EXPECT_TRUE(value.TryLock());
  }
  Synchronized<int> other(2);
  auto pointer = value.Lock();
  pointer = other.Lock();
  EXPECT_EQ(*pointer, 2);
  EXPECT_TRUE(value.TryLock()) << "an assignment unlocks what was held";
  EXPECT_FALSE(other.TryLock());
}

TEST(Synchronized, ATryEndsAtItsDeadline) {
  Synchronized<int, FiberTimedMutex> value(1);
  auto held = value.Lock();
  EXPECT_FALSE(value.TryLock(1ms));
  held.Unlock();
  EXPECT_TRUE(value.TryLock(0ms));
}

TEST(Synchronized, WithReturnsNoReferenceIntoTheValue) {
  Synchronized<std::string> text("abc");
  auto&& copy = text.With([](std::string& t) -> std::string& { return t; });
  static_assert(std::is_same_v<decltype(text.With([](std::string& t) -> std::string& { return t; })), std::string>);
  text.Lock()->clear();
  EXPECT_EQ(copy, "abc");
}

TEST(Synchronized, IsUnlockedWhenTheCallersCodeThrows) {
  Synchronized<int> value(1);
  EXPECT_THROW(value.With([](int&) { throw std::runtime_error("f"); }), std::runtime_error);
  EXPECT_TRUE(value.TryLock());
  const auto throws = [](int) -> bool { throw std::runtime_error("predicate"); };
  EXPECT_THROW(static_cast<void>(value.LockWhen(throws, 1ms)), std::runtime_error);
  EXPECT_TRUE(value.TryLock());
  auto pointer = value.Lock();
  EXPECT_THROW(pointer.Wait(throws), std::runtime_error);
  EXPECT_TRUE(pointer);
}

TEST(Synchronized, ItsLockServesConditionVariablesOfTheCallers) {
  Synchronized<int> value(1);
  FiberConditionVariable never;
  auto pointer = value.Lock();
  EXPECT_EQ(never.wait(pointer.lock(), 1ms), std::cv_status::timeout);
  EXPECT_EQ(*pointer, 1);
}

TEST(SynchronizedDeathTest, APointerThatHoldsNoLockCannotWait) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Synchronized<int> value(1);
  auto pointer = value.Lock();
  pointer.Unlock();
  EXPECT_DEATH(pointer.Wait([](int) { return true; }), "holds no lock waits");
}

}  // namespace
}  // namespace weft
