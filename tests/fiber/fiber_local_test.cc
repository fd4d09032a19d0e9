// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_local.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class FiberLocalTest : public InEachShape {
 protected:
  // From a fiber and from a plain thread that ends.
  template <class F>
  static void InBoth(F&& f) {
    InThread(f);
    InFiber(f);
  }
};
WEFT_INSTANTIATE_SHAPES(FiberLocalTest);

TEST_P(FiberLocalTest, StartsValueInitialisedInEachFiber) {
  FiberLocal<int> number;
  FiberLocal<std::string> text;
  InBoth([&] {
    EXPECT_EQ(*number, 0);
    EXPECT_EQ(*text, "");
    *number = 5;
    text->append("x");
    EXPECT_EQ(*number, 5);
    EXPECT_EQ(text->size(), 1U);
    EXPECT_EQ(number.Get(), &*number);
  });
  InBoth([&] {
    EXPECT_EQ(*number, 0);
    EXPECT_EQ(*text, "");
  });
}

TEST_P(FiberLocalTest, EachFiberKeepsItsOwnValueOverSwitchesAndMigration) {
  static FiberLocal<std::uint64_t> id;
  std::vector<Fiber> fibers;
  for (int i = 0; i < 200; ++i) {
    fibers.emplace_back([] {
      *id = GetFiberId();
      std::uint64_t* const mine = id.Get();
      for (int round = 0; round < 20; ++round) {
        FiberYield();
        ASSERT_EQ(*id, GetFiberId());
        ASSERT_EQ(id.Get(), mine);
      }
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
}

TEST_P(FiberLocalTest, AFiberAndItsWorkerThreadHaveDifferentValues) {
  FiberLocal<int> local;
  *local = 1;  // This thread's.
  InFiber([&] { EXPECT_EQ(*local, 0); });
  EXPECT_EQ(*local, 1);
}

TEST_P(FiberLocalTest, MoreThanTheTableHoldsInPlaceAreKept) {
  std::array<FiberLocal<int>, 40> numbers;
  std::array<FiberLocal<std::array<char, 100>>, 10> large;
  InBoth([&] {
    for (int i = 0; i < 40; ++i) *numbers[i] = i;
    for (int i = 0; i < 10; ++i) (*large[i])[99] = static_cast<char>('a' + i);
    for (int i = 0; i < 40; ++i) EXPECT_EQ(*numbers[i], i);
    for (int i = 0; i < 10; ++i) EXPECT_EQ((*large[i])[99], 'a' + i);
  });
}

TEST_P(FiberLocalTest, OverAlignedTypesAreAligned) {
  struct alignas(256) Wide {
    char bytes[256] = {};
  };
  struct alignas(16) Sixteen {
    char bytes[16] = {};
  };
  FiberLocal<char> odd;
  FiberLocal<Wide> wide;
  FiberLocal<Sixteen> sixteen;
  InBoth([&] {
    *odd = 1;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.Get()) % 256, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(sixteen.Get()) % 16, 0U);
  });
}

// Writes its end into a log.
struct Witness {
  ~Witness() {
    if (log != nullptr) log->push_back(tag);
  }
  std::vector<std::string>* log = nullptr;
  std::string tag;
};

TEST_P(FiberLocalTest, DestructorsRunYoungestFirst) {
  FiberLocal<Witness> a, b, c;
  for (const bool in_fiber : {true, false}) {
    std::vector<std::string> log;
    const auto body = [&] {
      for (auto* local : {&b, &a, &c}) {
        (*local)->log = &log;
        (*local)->tag = local == &a ? "a" : local == &b ? "b" : "c";
      }
      a->tag = "a";  // Touched again: its age counts from its making.
    };
    if (in_fiber) {
      InFiber(body);
    } else {
      InThread(body);
    }
    EXPECT_EQ(log, (std::vector<std::string>{"c", "a", "b"}));
  }
}

// Reads other fiber-locals while it is destroyed.
struct Inquisitive {
  ~Inquisitive() {
    if (inquire) inquire();
  }
  std::function<void()> inquire;
};

// A peer's bug: it runs these destructors on the worker's own stack, where nothing may wait.
TEST_P(FiberLocalTest, DestructorsRunOnTheFibersOwnStack) {
  FiberLocal<Inquisitive> local;
  char* on_fiber_stack = nullptr;
  char* in_destructor = nullptr;
  std::uint64_t id = 0;
  std::uint64_t id_in_destructor = 0;
  InFiber([&] {
    char here = 0;
    on_fiber_stack = &here;
    id = GetFiberId();
    local->inquire = [&] {
      char here_too = 0;
      in_destructor = &here_too;
      id_in_destructor = GetFiberId();
    };
  });
  EXPECT_EQ(id, id_in_destructor);
#if !WEFT_ASAN  // There local variables live on a stack of ASan's.
  EXPECT_LT(std::abs(on_fiber_stack - in_destructor), 64 * 1024);
#endif
}

TEST_P(FiberLocalTest, DestructorsMaySuspendLockAndStartFibers) {
  FiberLocal<Inquisitive> local;
  FiberMutex mutex;
  bool done = false;
  mutex.lock();
  Fiber fiber([&] {
    local->inquire = [&] {
      const std::scoped_lock lock(mutex);  // Waits: the test has it.
      FiberYield();
      FiberSleepFor(1ms);
      Fiber([&] { done = true; }).Join();
    };
  });
  EXPECT_FALSE(fiber.Join(5ms));
  mutex.unlock();
  fiber.Join();
  EXPECT_TRUE(done);
}

TEST_P(FiberLocalTest, ADestructorMayUseFiberLocalsThatAreGoneAndThoseAreDestroyedToo) {
  std::vector<std::string> log;
  FiberLocal<Inquisitive> first;
  FiberLocal<Witness> second;
  InBoth([&] {
    log.clear();
    first->inquire = [&] {
      log.emplace_back("first");
      // `second` was younger and is gone: a new one is made.
      EXPECT_EQ(second->log, nullptr);
      second->log = &log;
      second->tag = "second again";
    };
    second->log = &log;
    second->tag = "second";
  });
  EXPECT_EQ(log, (std::vector<std::string>{"second", "first", "second again"}));
}

TEST_P(FiberLocalTest, AnIndexUsedAgainDoesNotShowTheFormerValue) {
  InBoth([] {
    std::vector<std::string> log;
    auto former = std::make_unique<FiberLocal<Witness>>();
    (*former)->log = &log;
    (*former)->tag = "former";
    former.reset();
    EXPECT_TRUE(log.empty());  // The value outlives its FiberLocal ...
    FiberLocal<std::uint64_t> next;
    EXPECT_EQ(*next, 0U);
    EXPECT_EQ(log, std::vector<std::string>{"former"});  // ... until its slot is wanted.
  });
}

TEST_P(FiberLocalTest, ManyShortLivedFiberLocalsDoNotLetTheTableGrow) {
  InBoth([] {
    for (int i = 0; i < 10'000; ++i) {
      FiberLocal<std::string> local;
      ASSERT_EQ(*local, "");
      *local = "a text that is too long to be kept in place by std::string";
    }
  });
}

TEST_P(FiberLocalTest, AConstructorThatThrowsLeavesNoValueBehind) {
  struct Thrower {
    Thrower() {
      if (*Throw()) throw std::runtime_error("not yet");
    }
    static bool* Throw() {
      static bool yes = true;
      return &yes;
    }
    int value = 3;
  };
  *Thrower::Throw() = true;
  FiberLocal<Thrower> local;
  InFiber([&] {
    EXPECT_THROW(local.Get(), std::runtime_error);
    *Thrower::Throw() = false;
    EXPECT_EQ(local->value, 3);
  });
}

TEST_P(FiberLocalTest, AConstructorMayUseOtherFiberLocals) {
  static FiberLocal<int> inner;
  struct Outer {
    Outer() : copy(++*inner) {}
    int copy;
  };
  FiberLocal<Outer> outer;
  InBoth([&] {
    EXPECT_EQ(outer->copy, 1);
    EXPECT_EQ(outer->copy, 1);
    EXPECT_EQ(*inner, 1);
  });
}

TEST_P(FiberLocalTest, FibersThatEndTogetherDestroyTheirOwnValuesOnly) {
  static std::atomic<int> alive;
  alive = 0;
  struct Counted {
    Counted() { ++alive; }
    ~Counted() { --alive; }
  };
  FiberLocal<Counted> local;
  std::vector<Fiber> fibers;
  for (int i = 0; i < 500; ++i) {
    fibers.emplace_back([&local, i] {
      if (i % 2 == 0) local.Get();
      FiberYield();
      local.Get();
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(alive, 0);
}

using detail::LocalSlot;
using detail::LocalSlotRegistry;

TEST(LocalSlotRegistry, IndicesAreDenseAndUsedAgainLowestFirst) {
  LocalSlotRegistry registry;
  std::vector<LocalSlot> slots;
  for (std::uint32_t i = 0; i < 5; ++i) {
    slots.push_back(registry.Acquire());
    EXPECT_EQ(slots.back().index, i);
  }
  registry.Release(slots[3]);
  registry.Release(slots[1]);
  EXPECT_EQ(registry.Acquire().index, 1U);
  EXPECT_EQ(registry.Acquire().index, 3U);
  EXPECT_EQ(registry.Acquire().index, 5U);
}

TEST(LocalSlotRegistry, SerialsAreNeverUsedTwiceAndNeverZero) {
  LocalSlotRegistry registry;
  std::set<std::uint64_t> serials;
  for (int i = 0; i < 100; ++i) {
    const LocalSlot slot = registry.Acquire();
    EXPECT_NE(slot.serial, 0U);
    EXPECT_TRUE(serials.insert(slot.serial).second);
    registry.Release(slot);
  }
}

TEST(LocalSlotRegistry, ThreadsNeverGetTheSameIndex) {
  LocalSlotRegistry registry;
  constexpr int kThreads = 4;
  constexpr int kSlots = 1000;
  std::vector<std::vector<LocalSlot>> taken(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&registry, &mine = taken[t]] {
      for (int i = 0; i < kSlots; ++i) {
        mine.push_back(registry.Acquire());
        if (i % 3 == 0) {
          registry.Release(mine.back());
          mine.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint32_t> indices;
  for (const auto& slots : taken) {
    for (const LocalSlot slot : slots) EXPECT_TRUE(indices.insert(slot.index).second);
  }
}

}  // namespace
}  // namespace weft::fiber
