// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// C++ exceptions belong to the fiber: many fibers at once throw, catch, handle and rethrow them with suspensions and
// migrations in between, and none sees another's.

#include <gtest/gtest.h>

#include <cerrno>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/context/switch/context.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

constexpr int kFibers = 64;
constexpr int kRounds = WEFT_ASAN || WEFT_TSAN ? 15 : 300;

// Suspends in every way.
void Wander(int i) {
  switch (i % 3) {
    case 0:
      FiberYield();
      break;
    case 1:
      FiberSleepFor(1us);
      break;
    default:
      Fiber([] {}).Join();
  }
}

class Exceptions : public InEachShape {
 protected:
  // Many fibers call body(number, round).
  template <class F>
  static void InMany(F&& body) {
    std::vector<Fiber> fibers;
    for (int n = 0; n < kFibers; ++n) {
      fibers.emplace_back([&body, n] {
        for (int round = 0; round < kRounds; ++round) body(n, round);
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
  }
};
WEFT_INSTANTIATE_SHAPES(Exceptions);

TEST_P(Exceptions, AHandlerThatSuspendsStillHasItsException) {
  InMany([](int n, int round) {
    const std::string text = std::to_string(n) + "/" + std::to_string(round);
    try {
      throw std::runtime_error(text);
    } catch (const std::runtime_error& error) {
      Wander(n + round);
      ASSERT_EQ(error.what(), text);
      ASSERT_NE(std::current_exception(), nullptr);
      try {
        throw;  // The current one must be ours.
      } catch (const std::runtime_error& again) {
        Wander(n + round + 1);
        ASSERT_EQ(&again, &error);
      }
    }
    ASSERT_EQ(std::current_exception(), nullptr);
  });
}

TEST_P(Exceptions, HandlersNestOverSwitches) {
  InMany([](int n, int round) {
    try {
      throw n;
    } catch (int outer) {
      Wander(round);
      try {
        throw std::string("inner");
      } catch (const std::string& inner) {
        Wander(round + 1);
        ASSERT_EQ(inner, "inner");
      }
      ASSERT_EQ(outer, n);
      ASSERT_NE(std::current_exception(), nullptr);
    }
    ASSERT_EQ(std::uncaught_exceptions(), 0);
  });
}

TEST_P(Exceptions, DestructorsMaySuspendWhileTheStackUnwinds) {
  InMany([](int n, int round) {
    struct SuspendsAtTheEnd {
      int n;
      ~SuspendsAtTheEnd() {
        EXPECT_EQ(std::uncaught_exceptions(), 1);
        Wander(n);
        EXPECT_EQ(std::uncaught_exceptions(), 1);
      }
    };
    int caught = -1;
    try {
      const SuspendsAtTheEnd first{n};
      const SuspendsAtTheEnd second{n + 1};
      throw round;
    } catch (int value) {
      caught = value;
    }
    ASSERT_EQ(caught, round);
    ASSERT_EQ(std::uncaught_exceptions(), 0);
  });
}

TEST_P(Exceptions, AnExceptionPointerTravelsToAnotherFiber) {
  InMany([](int n, int) {
    std::exception_ptr carried;
    Fiber([&carried, n] {
      try {
        throw std::out_of_range(std::to_string(n));
      } catch (...) {
        FiberYield();
        carried = std::current_exception();
      }
    }).Join();
    try {
      std::rethrow_exception(carried);
    } catch (const std::out_of_range& error) {
      ASSERT_EQ(error.what(), std::to_string(n));
    }
  });
}

TEST_P(Exceptions, ErrnoIsTheFibersOwn) {
  InMany([](int n, int round) {
    context::ThisThreadErrno() = 1000 + n;
    Wander(n + round);
    ASSERT_EQ(context::ThisThreadErrno(), 1000 + n);
  });
}

}  // namespace
}  // namespace weft::fiber
