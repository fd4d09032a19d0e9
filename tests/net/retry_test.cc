// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/retry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/fiber_clock.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/test_clock.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/io_result.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

// A test clock, and a runtime in it.
class RetryTest : public ::testing::TestWithParam<fiber::Shape>, protected fiber::CallsInFibers {
 protected:
  std::chrono::nanoseconds Since() const { return clock_.Now() - begin_; }

  TestClock clock_;
  const FiberClock::time_point begin_ = clock_.Now();
  fiber::RuntimeOf runtime_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Shapes, RetryTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{4, 1}, fiber::Shape{2, 2}), &fiber::NameOf);

// How many further calls the budget allows.
int LeftIn(io::RetryBudget* budget) {
  int left = 0;
  while (budget->Withdraw()) ++left;
  for (int i = 0; i < left; ++i) budget->GiveBack();
  return left;
}

// What is no std::exception.
struct Other {};

constexpr RetryPolicy kExact{
    .max_attempts = 6, .initial_backoff = 100ms, .backoff_multiplier = 2, .max_backoff = 350ms, .jitter = 0};

// --- Retry ---

TEST_P(RetryTest, CallsAgainAfterPausesThatGrow) {
  InFiber([&] {
    std::vector<std::chrono::nanoseconds> calls;
    EXPECT_FALSE(Retry(kExact, [&] {
      calls.push_back(Since());
      return false;
    }));
    EXPECT_EQ(calls, (std::vector<std::chrono::nanoseconds>{0ms, 100ms, 300ms, 650ms, 1000ms, 1350ms}));
    calls.clear();
    EXPECT_TRUE(Retry(kExact, [&] {
      calls.push_back(Since());
      return calls.size() == 3;
    }));
    EXPECT_EQ(calls.size(), 3U);
  });
}

TEST_P(RetryTest, APauseIsShorterByARandomPart) {
  InFiber([&] {
    std::vector<std::chrono::nanoseconds> pauses;
    auto last = Since();
    EXPECT_FALSE(Retry({.max_attempts = 101, .initial_backoff = 100ms, .backoff_multiplier = 1, .jitter = 0.25}, [&] {
      pauses.push_back(Since() - last);
      last = Since();
      return false;
    }));
    pauses.erase(pauses.begin());
    ASSERT_EQ(pauses.size(), 100U);
    const auto [least, most] = std::minmax_element(pauses.begin(), pauses.end());
    EXPECT_GE(*least, 75ms);
    EXPECT_LE(*most, 100ms);
    EXPECT_GT(*most - *least, 5ms);
  });
}

TEST_P(RetryTest, KnowsWhatAFailureIs) {
  InFiber([&] {
    const RetryPolicy twice{.max_attempts = 2, .initial_backoff = 1ms};
    int calls = 0;
    const auto counted = [&](auto first, auto second) {
      calls = 0;
      return Retry(twice, [&] { return ++calls == 1 ? std::move(first) : std::move(second); });
    };
    EXPECT_TRUE(counted(false, true));
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(counted(make_error_code(std::errc::timed_out), std::error_code()), std::error_code());
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(counted(std::optional<bool>(), std::optional<bool>(false)), false);
    EXPECT_EQ(calls, 2);
    EXPECT_TRUE(counted(io::IoResult{.bytes = 0, .error = make_error_code(std::errc::timed_out)}, io::IoResult{}).ok());
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(counted(0, 1), 0) << "an int is a success, whatever it is";
    EXPECT_EQ(*counted(std::make_unique<int>(3), std::make_unique<int>(4)), 3);
    calls = 0;
    Retry(twice, [&] {
      if (++calls == 1) throw std::runtime_error("once");
    });
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(make_error_code(std::errc::io_error), Retry(twice, [] { return make_error_code(std::errc::io_error); }));
  });
}

TEST_P(RetryTest, ThrowsTheLastException) {
  InFiber([&] {
    int calls = 0;
    const auto fail = [&]() -> int { throw std::runtime_error("call " + std::to_string(++calls)); };
    try {
      Retry(kExact, fail);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "call 6");
    }
    calls = 0;
    EXPECT_THROW(Retry(kExact,
                       [&]() -> int {
                         ++calls;
                         throw Other();
                       }),
                 Other);
    EXPECT_EQ(calls, 1);
    calls = 0;
    EXPECT_THROW(Retry(kExact, [&] { ++calls, FailAfter(1ms, [] { FiberSleepFor(1h); }); }), DeadlineExceeded);
    EXPECT_EQ(calls, 6) << "each attempt may have its own deadline";
  });
}

TEST_P(RetryTest, OnlyWhatIsRetryableIsTriedAgain) {
  InFiber([&] {
    int calls = 0;
    const auto call = [&] {
      return make_error_code(++calls == 1 ? std::errc::timed_out : std::errc::permission_denied);
    };
    EXPECT_EQ(Retry(kExact, call, [](std::error_code error) { return error == std::errc::timed_out; }),
              std::errc::permission_denied);
    EXPECT_EQ(calls, 2);
    calls = 0;
    const auto fail = [&]() -> bool {
      ++calls;
      throw std::runtime_error("as asked");
    };
    EXPECT_THROW(Retry(kExact, fail, [](const std::exception_ptr&) { return false; }), std::runtime_error);
    EXPECT_EQ(calls, 1);
    calls = 0;
    EXPECT_THROW(Retry(kExact, fail, [](bool) { return false; }), std::runtime_error);
    EXPECT_EQ(calls, 6) << "it was asked of results only";
  });
}

TEST_P(RetryTest, GivesUpInsteadOfSleepingIntoTheDeadline) {
  InFiber([&] {
    io::RetryBudget budget({.share = 0, .reserve = 10});
    RetryPolicy policy = kExact;
    policy.budget = &budget;
    bool returned = false;
    EXPECT_TRUE(MoveOnAfter(300ms, [&] {
      EXPECT_FALSE(Retry(policy, [] { return false; }));
      returned = true;
    }));
    EXPECT_TRUE(returned);
    EXPECT_EQ(Since(), 100ms) << "the pause of 200 ms would end with the deadline";
    EXPECT_EQ(LeftIn(&budget), 9) << "one attempt was paid for";
  });
}

TEST_P(RetryTest, ACancelledPauseIsThrownAndItsAttemptGivenBack) {
  InFiber([&] {
    io::RetryBudget budget({.share = 0, .reserve = 10});
    RetryPolicy policy = kExact;
    policy.budget = &budget;
    CancelScope scope;
    Fiber canceller([&] {
      FiberSleepFor(50ms);
      scope.Cancel();
    });
    int calls = 0;
    EXPECT_FALSE(scope.Run([&] {
      static_cast<void>(Retry(policy, [&] { return ++calls == 0; }));
      ADD_FAILURE() << "it returned";
    }));
    canceller.Join();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Since(), 50ms);
    EXPECT_EQ(LeftIn(&budget), 10);
    EXPECT_FALSE(scope.Run([&] { Retry(policy, [&] { ++calls, TestCancel(); }); }));
    EXPECT_EQ(calls, 2) << "an attempt that is cancelled is not made again";
  });
}

TEST_P(RetryTest, TheBudgetEndsIt) {
  InFiber([&] {
    io::RetryBudget budget({.share = 0.5, .reserve = 2});
    RetryPolicy policy = kExact;
    policy.budget = &budget;
    const auto calls = [&] {
      int made = 0;
      static_cast<void>(Retry(policy, [&] { return ++made == 0; }));
      return made;
    };
    EXPECT_EQ(calls(), 3);
    EXPECT_EQ(calls(), 1);
    EXPECT_EQ(calls(), 2) << "two requests pay for one attempt";
  });
}

TEST_P(RetryTest, APlainThreadMayCallIt) {
  int calls = 0;
  EXPECT_TRUE(Retry(kExact, [&] { return ++calls == 3; }));
  EXPECT_EQ(Since(), 300ms);
}

// --- Hedge ---

TEST_P(RetryTest, AFastFirstAttemptIsNotHedged) {
  InFiber([&] {
    std::atomic<int> calls{0};
    EXPECT_EQ(Hedge({.delay = 20ms},
                    [&](std::size_t attempt) {
                      ++calls;
                      FiberSleepFor(19ms);
                      return std::optional<std::size_t>(attempt);
                    }),
              0U);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Since(), 19ms);
  });
}

TEST_P(RetryTest, ASlowAttemptIsHedgedAndTheLoserCancelled) {
  InFiber([&] {
    std::atomic<int> cancelled{0};
    const std::string answer = Hedge({.delay = 20ms, .max_attempts = 3}, [&](std::size_t attempt) -> std::string {
      if (attempt == 2) return "the third";
      try {
        FiberSleepFor(1h);
      } catch (const FiberCancelled&) {
        Shielded([] { FiberSleepFor(5ms); });
        ++cancelled;
        throw;
      }
      return "too late";
    });
    EXPECT_EQ(answer, "the third");
    EXPECT_EQ(cancelled, 2);
    EXPECT_EQ(Since(), 45ms) << "the losers were awaited";
  });
}

TEST_P(RetryTest, AFailureStartsTheNextAtOnceAndTheLastOneCounts) {
  InFiber([&] {
    std::vector<std::chrono::nanoseconds> starts;
    const auto result = Hedge({.delay = 1s, .max_attempts = 3}, [&](std::size_t attempt) {
      starts.push_back(Since());
      FiberSleepFor(attempt == 0 ? 10ms : 3ms);
      return make_error_code(attempt == 2 ? std::errc::io_error : std::errc::timed_out);
    });
    EXPECT_EQ(result, std::errc::io_error);
    EXPECT_EQ(starts, (std::vector<std::chrono::nanoseconds>{0ms, 10ms, 13ms}));
    EXPECT_EQ(Since(), 16ms);
    try {
      Hedge({.delay = 1s, .max_attempts = 2},
            [](std::size_t attempt) { throw std::runtime_error("attempt " + std::to_string(attempt)); });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "attempt 1");
    }
  });
}

// A failure is no result while another attempt runs; a success that comes later counts.
TEST_P(RetryTest, AFailedHedgeDoesNotEndTheFirst) {
  InFiber([&] {
    EXPECT_TRUE(Hedge({.delay = 10ms}, [&](std::size_t attempt) {
      FiberSleepFor(attempt == 0 ? 50ms : 1ms);
      return attempt == 0;
    }));
    EXPECT_EQ(Since(), 50ms);
  });
}

// The next is made at once, and not when the delay after the failed one's start is over.
TEST_P(RetryTest, AFailedHedgeIsReplacedAtOnce) {
  InFiber([&] {
    EXPECT_EQ(Hedge({.delay = 10ms, .max_attempts = 3},
                    [&](std::size_t attempt) -> std::optional<std::chrono::nanoseconds> {
                      if (attempt == 2) return Since();
                      FiberSleepFor(attempt == 0 ? 1s : 1ms);
                      return std::nullopt;
                    }),
              11ms);
    EXPECT_EQ(Since(), 11ms);
  });
}

TEST_P(RetryTest, ASuccessFollowsAnException) {
  InFiber([&] {
    const auto second = [](std::size_t attempt) {
      if (attempt == 0) throw std::runtime_error("the first");
      return 7;
    };
    EXPECT_EQ(Hedge({}, second), 7);
    EXPECT_FALSE(Hedge({}, [](std::size_t attempt) -> std::optional<int> {
      if (attempt == 0) throw std::runtime_error("the first");
      return std::nullopt;
    })) << "the last failure is a result";
  });
}

TEST_P(RetryTest, ASuccessInHandIsReturnedThoughTheCallerIsCancelledWhileTheLosersEnd) {
  InFiber([&] {
    const std::optional<int> result = MoveOnAfter(30ms, [&] {
      return Hedge({.delay = 20ms}, [](std::size_t attempt) {
        if (attempt == 1) return 7;
        try {
          FiberSleepFor(1h);
        } catch (const FiberCancelled&) {
          Shielded([] { FiberSleepFor(20ms); });
          throw;
        }
        return 8;
      });
    });
    EXPECT_EQ(result, 7);
    EXPECT_EQ(Since(), 40ms);
  });
}

TEST_P(RetryTest, WithoutADelayOnlyAFailureIsHedged) {
  InFiber([&] {
    std::atomic<int> calls{0};
    Hedge({}, [&](std::size_t) {
      ++calls;
      FiberSleepFor(1h);
    });
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Since(), 1h);
  });
}

TEST_P(RetryTest, TheBudgetPaysForHedges) {
  InFiber([&] {
    io::RetryBudget budget({.share = 0, .reserve = 1});
    std::atomic<int> calls{0};
    const auto slow = [&](std::size_t) {
      ++calls;
      FiberSleepFor(100ms);
      return true;
    };
    EXPECT_TRUE(Hedge({.delay = 10ms, .max_attempts = 4, .budget = &budget}, slow));
    EXPECT_EQ(calls, 2);
    EXPECT_TRUE(Hedge({.delay = 0ms, .max_attempts = 4, .budget = &budget}, slow));
    EXPECT_EQ(calls, 3);
    calls = 0;
    EXPECT_FALSE(Hedge({.budget = &budget}, [&](std::size_t) { return ++calls == 0; }));
    EXPECT_EQ(calls, 1);
    budget.GiveBack();
    EXPECT_FALSE(Hedge({.budget = &budget}, [&](std::size_t) { return ++calls == 0; }));
    EXPECT_EQ(calls, 3);
  });
}

TEST_P(RetryTest, HedgedCallsPayIntoTheBudget) {
  InFiber([&] {
    io::RetryBudget budget({.share = 0.5, .reserve = 1});
    const auto calls = [&] {
      std::atomic<int> made{0};
      EXPECT_FALSE(Hedge({.max_attempts = 4, .budget = &budget}, [&](std::size_t) { return ++made == 0; }));
      return made.load();
    };
    EXPECT_EQ(calls(), 2);
    EXPECT_EQ(calls(), 1);
    EXPECT_EQ(calls(), 2) << "two requests pay for one attempt";
  });
}

TEST_P(RetryTest, ACallerThatIsCancelledCancelsAll) {
  InFiber([&] {
    std::atomic<int> begun{0}, cancelled{0};
    EXPECT_FALSE(MoveOnAfter(100ms, [&] {
      Hedge({.delay = 10ms, .max_attempts = 3}, [&](std::size_t) {
        ++begun;
        try {
          FiberSleepFor(1h);
        } catch (const FiberCancelled&) {
          ++cancelled;
          throw;
        }
      });
      ADD_FAILURE() << "it returned";
    }));
    EXPECT_EQ(begun, 3);
    EXPECT_EQ(cancelled, 3);
    EXPECT_EQ(Since(), 100ms);
  });
}

// Cancelled together: the attempt ends before its caller is seen to be cancelled, too. None is made in its place.
TEST_P(RetryTest, ACancelledAttemptIsNotMadeAgain) {
  InFiber([&] {
    for (int i = 0; i < 100; ++i) {
      io::RetryBudget budget({.share = 0, .reserve = 1});
      std::atomic<int> begun{0};
      CancelScope scope;
      EXPECT_FALSE(scope.Run([&] {
        Hedge({.budget = &budget}, [&](std::size_t) {
          ++begun;
          scope.Cancel();
          TestCancel();
        });
      }));
      EXPECT_EQ(begun, 1);
      EXPECT_EQ(LeftIn(&budget), 1);
    }
  });
}

// A cancellation has come to an attempt, which says so by its result, and not to the caller's own waits yet.
TEST_P(RetryTest, ACancellationOnItsWayStartsNoAttempt) {
  InFiber([&] {
    io::RetryBudget budget({.share = 0, .reserve = 1});
    std::atomic<int> calls{0};
    synchronization::CancelNode scope;
    scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
    synchronization::EnterScope(self, &scope);
    const auto call = [&](std::size_t) {
      ++calls;
      scope.cancelled.store(synchronization::CancelReason::kCancelled,
                            std::memory_order_release);  // As Cancel() begins.
      return make_error_code(std::errc::operation_canceled);
    };
    EXPECT_THROW(static_cast<void>(Hedge({.budget = &budget}, call)), FiberCancelled);
    synchronization::LeaveScope(self, &scope);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(LeftIn(&budget), 1);
  });
}

// While a destructor unwinds the stack, a limit of its own ends waits with a time-out: that is not the delay's end.
TEST_P(RetryTest, APassedLimitIsNotTheDelaysEnd) {
  InFiber([&] {
    std::atomic<int> calls{0};
    struct Hedges {
      ~Hedges() {
        ShieldedFor(10ms, [this] {
          EXPECT_TRUE(Hedge({.delay = 1h, .max_attempts = 3}, [this](std::size_t attempt) {
            ++calls;
            if (attempt == 0) Shielded([] { FiberSleepFor(50ms); });
            return true;
          }));
        });
      }
      std::atomic<int>& calls;
    };
    try {
      const Hedges hedges{calls};
      throw std::runtime_error("as asked");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Since(), 50ms);
  });
}

// Also where the caller is not cancelled: the function's own children may have been.
TEST_P(RetryTest, ACancelledFunctionPassesThrough) {
  InFiber([&] {
    std::atomic<int> calls{0};
    EXPECT_THROW(Hedge({.delay = 1ms, .max_attempts = 3},
                       [&](std::size_t attempt) {
                         ++calls;
                         if (attempt == 1) throw FiberCancelled(false);
                         FiberSleepFor(1h);
                       }),
                 FiberCancelled);
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(Since(), 1ms);
    calls = 0;
    EXPECT_THROW(Retry(kExact, [&] { ++calls, throw FiberCancelled(false); }), FiberCancelled);
    EXPECT_EQ(calls, 1);
  });
}

TEST_P(RetryTest, WhatIsNoStdExceptionPassesThrough) {
  InFiber([&] {
    std::atomic<int> calls{0};
    EXPECT_THROW(Hedge({.delay = 1ms, .max_attempts = 3},
                       [&](std::size_t attempt) {
                         ++calls;
                         if (attempt == 1) throw Other();
                         FiberSleepFor(1h);
                       }),
                 Other);
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(Since(), 1ms);
  });
}

TEST_P(RetryTest, ResultsNeedNoDefaultAndNoCopy) {
  struct Result {
    explicit Result(int the_value) : value(std::make_unique<int>(the_value)) {}
    bool ok() const { return *value == 2; }
    std::unique_ptr<int> value;
  };
  InFiber([&] {
    int calls = 0;
    EXPECT_EQ(*Retry(kExact, [&] { return Result(++calls); }).value, 2);
    std::atomic<int> attempts{0};
    EXPECT_EQ(*Hedge({}, [&](std::size_t) { return Result(++attempts); }).value, 2);
    EXPECT_EQ(*Hedge({}, [&](std::size_t) { return Result(++attempts); }).value, 4);
  });
}

TEST_P(RetryTest, APlainThreadMayHedge) {
  EXPECT_EQ(Hedge({.delay = 1ms}, [](std::size_t attempt) { return attempt; }), 0U);
}

TEST_P(RetryTest, AnAttemptThatIsRefusedCostsNothing) {
  InFiber([&] {
    io::RetryBudget budget({.share = 0, .reserve = 1});
    std::optional<RefuseFiberStarts> refuse;
    std::atomic<int> calls{0};
    EXPECT_EQ(Hedge({.delay = 10ms, .max_attempts = 3, .budget = &budget},
                    [&](std::size_t attempt) {
                      ++calls;
                      refuse.emplace();
                      FiberSleepFor(100ms);
                      refuse.reset();
                      return attempt;
                    }),
              0U);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(LeftIn(&budget), 1);
    refuse.emplace();
    EXPECT_THROW(Hedge({}, [&](std::size_t) { ++calls; }), FiberNotStarted);
    refuse.reset();
    EXPECT_EQ(calls, 1);
  });
}

// What could never be asked does not compile.
template <class Result, class Retryable>
constexpr bool kMayAsk = retry_internal::kTakesFailures<Retryable, Result>;
constexpr auto kOfErrc = [](std::errc) { return true; };
constexpr auto kOfCode = [](const std::error_code&) { return true; };
constexpr auto kOfException = [](std::exception_ptr) { return true; };
constexpr auto kOfNothing = [](const auto&) {};
static_assert(kMayAsk<std::error_code, decltype(kOfCode)> && kMayAsk<std::error_code, decltype(kOfException)>);
static_assert(kMayAsk<void, decltype(kOfException)>);
static_assert(!kMayAsk<std::error_code, decltype(kOfErrc)> && !kMayAsk<std::error_code, decltype(kOfNothing)>);
static_assert(!kMayAsk<void, decltype(kOfCode)>);

TEST(RetryDeathTest, PoliciesThatCannotBeEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto retry = [](const RetryPolicy& policy) { Retry(policy, [] {}); };
  EXPECT_DEATH(retry({.max_attempts = 0}), "Retry: no attempts");
  EXPECT_DEATH(retry({.initial_backoff = -1ns}), "Retry: backoffs of -1 to 5000000000 ns");
  EXPECT_DEATH(retry({.max_backoff = -1ns}), "Retry: backoffs of 50000000 to -1 ns");
  EXPECT_DEATH(retry({.backoff_multiplier = 0.5}), "Retry: backoff_multiplier is 0.5");
  EXPECT_DEATH(retry({.backoff_multiplier = std::numeric_limits<double>::quiet_NaN()}),
               "Retry: backoff_multiplier is nan");
  EXPECT_DEATH(retry({.jitter = 1.5}), "Retry: jitter is 1.5");
  EXPECT_DEATH(Hedge({.max_attempts = 0}, [](std::size_t) {}), "Hedge: no attempts");
}

}  // namespace
}  // namespace weft
