// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/stop_on_cancel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "weft/fiber/testing.h"
#include "weft/sync/cancel_on_stop.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"

#include "fiber/helper_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

class StopOnCancelTest : public fiber::InFiberAndThread {};
WEFT_INSTANTIATE_FEW_SHAPES(StopOnCancelTest);

// Until() yields, which a cancellation would end.
void UntilStopped(const std::stop_token& token) {
  Shielded([&] { fiber::Until([&] { return token.stop_requested(); }); });
}

int Rounds(int count) { return WEFT_TSAN || WEFT_ASAN ? count / 8 + 1 : count; }

// By the scope, by one around it, by its deadline.
TEST_P(StopOnCancelTest, StopIsRequestedWhenTheFiberIsCancelled) {
  InFiber([] {
    for (const int how : {0, 1, 2}) {
      CancelScope outer;
      CancelScope scope(how == 2 ? Deadline(1ms) : Deadline());
      std::atomic<bool> has_token{false};
      bool stopped = false;
      Fiber fiber([&] {
        static_cast<void>(outer.Run([&] {
          static_cast<void>(scope.Run([&] {
            const StopOnCancel stop;
            EXPECT_TRUE(stop.Token().stop_possible());
            has_token = true;
            UntilStopped(stop.Token());
            stopped = true;
          }));
        }));
      });
      fiber::Until([&] { return has_token.load(); });
      if (how == 0) scope.Cancel();
      if (how == 1) outer.Cancel();
      fiber.Join();
      EXPECT_TRUE(stopped);
    }
  });
}

TEST_P(StopOnCancelTest, AFibersCancelRequestsStop) {
  InBoth([] {
    std::atomic<bool> has_token{false};
    std::atomic<bool> stopped{false};
    Fiber fiber([&] {
      const StopOnCancel stop;
      has_token = true;
      UntilStopped(stop.Token());
      stopped = true;
    });
    fiber::Until([&] { return has_token.load(); });
    fiber.Cancel();
    fiber.Join();
    EXPECT_TRUE(stopped);
  });
}

TEST_P(StopOnCancelTest, WhatIsCancelledBeforeIsStopped) {
  InFiber([] {
    CancelScope scope;
    scope.Cancel();
    static_cast<void>(scope.Run([] {
      const StopOnCancel stop;
      EXPECT_TRUE(stop.Token().stop_requested());
    }));
  });
}

TEST_P(StopOnCancelTest, WithoutACancellationNothingIsStopped) {
  InBoth([] {
    std::stop_token token;
    CancelScope scope;
    EXPECT_TRUE(scope.Run([&] {
      const StopOnCancel stop;
      token = stop.Token();
      if (IsRunningInFiberWorker()) FiberYield();
    }));
    scope.Cancel();
    EXPECT_FALSE(token.stop_requested());
  });
}

TEST_P(StopOnCancelTest, UnderAShieldNothingIsStopped) {
  InFiber([] {
    CancelScope scope;
    EXPECT_FALSE(scope.Run([&] {
      Shielded([&] {
        const StopOnCancel stop;
        scope.Cancel();
        EXPECT_FALSE(stop.Token().stop_requested());
      });
      TestCancel();
    }));
  });
}

// In a fiber that nothing can cancel, and in a thread, no fiber is started.
TEST_P(StopOnCancelTest, WhereNothingCancelsItCostsNothing) {
  const RefuseFiberStarts refuse;
  const StopOnCancel stop;
  EXPECT_FALSE(stop.Token().stop_requested());
}

TEST_P(StopOnCancelTest, ARefusedStartIsThrown) {
  InFiber([] {
    const RefuseFiberStarts refuse;
    EXPECT_THROW(StopOnCancel(), FiberNotStarted);
  });
}

// A callback of the user's: it runs without a lock of ours, is not cancelled itself, and may cancel others.
TEST_P(StopOnCancelTest, ACallbackMayDoWhatItLikes) {
  InFiber([] {
    CancelScope scope;
    CancelScope another;
    FiberChannel<int> channel(1);
    std::atomic<int> called{0};
    FiberEvent registered;
    Fiber canceller([&] {
      registered.Wait();  // A later callback is called at once, by who registers it.
      scope.Cancel();
    });
    EXPECT_FALSE(scope.Run([&] {
      const StopOnCancel stop;
      const std::stop_callback callback(stop.Token(), [&] {
        EXPECT_TRUE(another.Cancel());
        EXPECT_FALSE(scope.Cancel()) << "it is";
        EXPECT_EQ(channel.TryPut(1), ChannelResult::kOk);
        EXPECT_FALSE(IsCancelRequested()) << "it is shielded";
        EXPECT_TRUE(StartFiberDetached([&] { ++called; }));
      });
      registered.Set();
      Shielded([&] { fiber::Until([&] { return called == 1; }); });
      TestCancel();
    }));
    canceller.Join();
    EXPECT_TRUE(another.IsCancelled());
    EXPECT_TRUE(channel.TryGet());
  });
}

// The library's own way to wait, in a thread that knows nothing of Weft.
TEST_P(StopOnCancelTest, AConditionVariableOfTheStandardEnds) {
  InFiber([] {
    CancelScope scope;
    std::atomic<bool> waits{false};
    Fiber canceller([&] {
      fiber::Until([&] { return waits.load(); });
      scope.Cancel();
    });
    static_cast<void>(scope.Run([&] {
      const StopOnCancel stop;
      std::atomic<bool> ended{false};
      std::jthread thread([&, token = stop.Token()] {
        std::mutex mutex;
        std::condition_variable_any changed;
        std::unique_lock lock(mutex);
        waits = true;
        EXPECT_FALSE(changed.wait(lock, token, [] { return false; }));
        ended = true;
      });
      Shielded([&] { fiber::Until([&] { return ended.load(); }); });
    }));
    canceller.Join();
  });
}

// On one worker the other fiber begins when this one waits for it.
TEST_P(StopOnCancelTest, WhoIsCancelledAndEndsBeforeTheWatcherHasBegunIsStopped) {
  InFiber([] {
    CancelScope scope;
    std::stop_token token;
    EXPECT_FALSE(scope.Run([&] {
      const StopOnCancel stop;
      token = stop.Token();
      scope.Cancel();
      TestCancel();
    }));
    EXPECT_TRUE(token.stop_requested());
  });
}

// Through a token of the standard from one scope to another, and on.
TEST_P(StopOnCancelTest, BothWaysTogetherHandACancellationOn) {
  InFiber([] {
    CancelScope scope;
    std::atomic<bool> waits{false};
    std::optional<std::stop_token> token;
    FiberEvent has_token;
    FiberEvent never;
    Fiber other([&] {
      has_token.Wait();
      EXPECT_FALSE(RunUntilStopped(*token, [&] {
        waits = true;
        never.Wait();
      }));
    });
    Fiber canceller([&] {
      fiber::Until([&] { return waits.load(); });
      scope.Cancel();
    });
    EXPECT_FALSE(scope.Run([&] {
      const StopOnCancel stop;
      token = stop.Token();
      has_token.Set();
      never.Wait();
    }));
    other.Join();
    canceller.Join();
  });
}

// A token outlives what it was made for, and is asked while that ends.
TEST_P(StopOnCancelTest, ACancellationRacesWithTheEnd) {
  for (int i = 0; i < Rounds(300); ++i) {
    CancelScope scope;
    std::stop_token token;
    std::atomic<bool> gone{false};
    Fiber fiber([&] {
      static_cast<void>(scope.Run([&] {
        {
          const StopOnCancel stop;
          token = stop.Token();
          const std::stop_callback callback(stop.Token(), [&] { EXPECT_FALSE(gone); });
          if (i % 2 == 0) FiberYield();
        }
        gone = true;
      }));
    });
    std::thread cancels([&] { scope.Cancel(); });
    fiber.Join();
    cancels.join();
    const bool stopped = token.stop_requested();
    std::this_thread::yield();
    EXPECT_EQ(token.stop_requested(), stopped) << "it was requested after the end";
  }
}

}  // namespace
}  // namespace weft
