// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Destructors that run when a plain thread ends, and constructors that run before main(), may use the library.

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

// --- Before main() ---

// This file is linked before the library, so the constructor runs before those of the library's statics.
struct StartsInItsConstructor {
  StartsInItsConstructor() {
    const char* const how = std::getenv("WEFT_TEST_START_BEFORE_MAIN");
    if (how != nullptr && std::string_view(how) == "flags") StartRuntime();
    StartRuntime(OptionsOf({2, 1}));
    Fiber([this] {
      FiberYield();
      ran = true;
    }).Join();
    unfinished = TerminateRuntime();
  }
  bool ran = false;
  std::size_t unfinished = 1;
};
const StartsInItsConstructor started_before_main;

TEST(LateStart, ARuntimeWithOptionsRunsInAStaticConstructor) {
  EXPECT_TRUE(started_before_main.ran);
  EXPECT_EQ(started_before_main.unfinished, std::size_t{0});
}

TEST(LateStartDeathTest, ARuntimeFromFlagsInAStaticConstructorSaysWhyNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("WEFT_TEST_START_BEFORE_MAIN", "flags", 1);
  // The child does not come to its main().
  EXPECT_DEATH({}, "the flags are not defined yet.*StartRuntime\\(\\) belongs in main\\(\\)");
  ::unsetenv("WEFT_TEST_START_BEFORE_MAIN");
}

// --- At the end of a thread ---

std::atomic<int> accepted{0};
std::atomic<int> run{0};

// Everything that a plain thread does, for the first time or again.
void UseEverything() {
  if (StartFiberDetached([] { run.fetch_add(1); })) accepted.fetch_add(1);
  std::optional<Fiber> fiber = Fiber::TryStart({.refuse_if_overloaded = true}, [] { run.fetch_add(1); });
  if (fiber.has_value()) {
    accepted.fetch_add(1);
    fiber->Join();
  }
  static_cast<void>(TryAdmit());
  static_cast<void>(GetFiberCount());
  static_cast<void>(GetFiberQueueSize());
  static auto* const local = new FiberLocal<std::unique_ptr<int>>;
  if (**local == nullptr) **local = std::make_unique<int>(1);
  KillFiberTimer(SetFiberTimer(std::chrono::steady_clock::now() + 1h, [] {}));
  auto event = std::make_shared<FiberEvent>();
  if (StartFiberDetached([event] {
        event->Wait();
        run.fetch_add(1);
      })) {
    accepted.fetch_add(1);
  }
  event->Set();
}

struct UsesEverythingAtItsEnd {
  ~UsesEverythingAtItsEnd() { UseEverything(); }
};

class LateStart : public InEachShape {
 protected:
  // Runs f in threads that end, some of which have used the library before, and checks what f has started at their
  // ends.
  static void InThreadsThatEnd(void (*f)(), int starts_in_each) {
    accepted = 0;
    run = 0;
    constexpr int kThreads = 20;
    for (int i = 0; i < kThreads; ++i) {
      std::thread([&] {
        f();
        if (i % 2 != 0) UseEverything();
      }).join();
    }
    EXPECT_EQ(accepted.load(), kThreads * starts_in_each + kThreads / 2 * 3);
    while (run.load() != accepted.load()) std::this_thread::yield();
  }
};
WEFT_INSTANTIATE_SHAPES(LateStart);

TEST_P(LateStart, AThreadLocalsDestructorStartsFibers) {
  InThreadsThatEnd(
      [] {
        thread_local UsesEverythingAtItsEnd with_the_thread;
        static_cast<void>(with_the_thread);
      },
      3);
}

TEST_P(LateStart, APthreadKeysDestructorStartsFibers) {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    if (pthread_key_create(&made, [](void*) { UseEverything(); }) != 0) std::abort();
    return made;
  }();
  InThreadsThatEnd([] { pthread_setspecific(key, &key); }, 3);
}

// In plain threads that have run nothing else of the library. Under ASan: nothing leaks, either.
TEST(LateStartOfFiberLocals, WhatAPthreadKeysDestructorMakesFirstIsDestroyed) {
  struct Counted {
    Counted() { alive().fetch_add(1); }
    ~Counted() { alive().fetch_sub(1); }
    static std::atomic<int>& alive() {
      static std::atomic<int> count{0};
      return count;
    }
  };
  static FiberLocal<Counted> local;
  static std::atomic<int> most{0};
  static const pthread_key_t key = [] {
    pthread_key_t made;
    const auto use = [](void*) {
      static_cast<void>(*local);
      most = std::max(most.load(), Counted::alive().load());
    };
    if (pthread_key_create(&made, use) != 0) std::abort();
    return made;
  }();
  for (int i = 0; i < 20; ++i) {
    std::thread([] { pthread_setspecific(key, &key); }).join();
    ASSERT_EQ(Counted::alive().load(), 0);
  }
  EXPECT_EQ(most.load(), 1);
}

TEST(LateStartOfFiberLocals, ThoseOfTheMainThreadAreDestroyedAtItsExit) {
  struct Says {
    ~Says() { std::fputs("destroyed\n", stderr); }
  };
  static FiberLocal<Says> local;
  EXPECT_EXIT(
      {
        static_cast<void>(*local);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "destroyed");
}

TEST_P(LateStart, AFiberLocalsDestructorStartsFibers) {
  static FiberLocal<UsesEverythingAtItsEnd> local;
  InThreadsThatEnd([] { static_cast<void>(*local); }, 3);
}

TEST_P(LateStart, AllOfThemInOneThread) {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    if (pthread_key_create(&made, [](void*) { UseEverything(); }) != 0) std::abort();
    return made;
  }();
  static FiberLocal<UsesEverythingAtItsEnd> local;
  InThreadsThatEnd(
      [] {
        thread_local UsesEverythingAtItsEnd with_the_thread;
        static_cast<void>(with_the_thread);
        pthread_setspecific(key, &key);
        static_cast<void>(*local);
      },
      9);
}

TEST(LateStartAfterTheEnd, FibersAreRefusedToDestructorsToo) {
  { const RuntimeOf runtime(Shape{1, 1}); }
  accepted = 0;
  std::thread([] {
    thread_local UsesEverythingAtItsEnd with_the_thread;
    static_cast<void>(with_the_thread);
  }).join();
  EXPECT_EQ(accepted.load(), 0);
}

}  // namespace
}  // namespace weft::fiber
