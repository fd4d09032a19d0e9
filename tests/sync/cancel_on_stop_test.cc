// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel_on_stop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldUntil;

class CancelOnStopTest : public ::testing::TestWithParam<unsigned> {
 protected:
  CancelOnStopTest() : group(GetParam()) {}
  Crew Fibers() { return Crew(&group, testing::ActorKind::kFibers); }

  testing::TimedGroup group;
};
INSTANTIATE_TEST_SUITE_P(Workers, CancelOnStopTest, ::testing::Values(1U, 2U, 4U, 8U));

// By a fiber, and by a thread.
TEST_P(CancelOnStopTest, ARequestEndsTheWait) {
  for (const bool by_thread : {false, true}) {
    std::stop_source source;
    FiberEvent never;
    std::atomic<bool> waits{false};
    Crew crew = Fibers();
    crew.Add([&] {
      EXPECT_FALSE(RunUntilStopped(source.get_token(), [&] {
        waits = true;
        never.Wait();
        ADD_FAILURE() << "it returned";
      }));
    });
    const auto stop = [&] {
      YieldUntil([&] { return waits.load(); });
      EXPECT_TRUE(source.request_stop());
    };
    if (by_thread) {
      crew.AddThread(stop);
    } else {
      crew.AddFiber(stop);
    }
    crew.Join();
  }
}

TEST_P(CancelOnStopTest, WhatWasStoppedBeforeBeginsCancelled) {
  Crew crew = Fibers();
  crew.Add([] {
    std::stop_source source;
    source.request_stop();
    CancelScope scope;
    const CancelOnStop link(scope, source.get_token());
    EXPECT_TRUE(scope.IsCancelled());
    EXPECT_FALSE(scope.Run([] { TestCancel(); }));
  });
  crew.Join();
}

TEST_P(CancelOnStopTest, NobodyNeedStop) {
  Crew crew = Fibers();
  crew.Add([] {
    EXPECT_TRUE(RunUntilStopped(std::stop_token(), [] {})) << "of no source";
    std::stop_source source;
    EXPECT_TRUE(RunUntilStopped(source.get_token(), [] { TestCancel(); }));
    FiberEvent never;
    EXPECT_FALSE(RunUntilStopped(
        source.get_token(), [&] { never.Wait(); }, 1ms))
        << "the deadline";
    EXPECT_FALSE(source.stop_requested());
  });
  crew.Join();
}

TEST_P(CancelOnStopTest, AfterItNothingIsCancelled) {
  Crew crew = Fibers();
  crew.Add([] {
    std::stop_source source;
    CancelScope scope;
    { const CancelOnStop link(scope, source.get_token()); }
    source.request_stop();
    EXPECT_FALSE(scope.IsCancelled());
  });
  crew.Join();
}

// One token ends many; and a handle may be what it cancels.
TEST_P(CancelOnStopTest, OneTokenEndsManyScopes) {
  std::stop_source source;
  FiberEvent never;
  std::atomic<int> waiting{0};
  Crew crew = Fibers();
  crew.AddMany(8, [&](int i) {
    CancelScope scope;
    CancelHandle handle = scope.Handle();
    std::optional<CancelOnStop> link;
    if (i % 2 == 0) {
      link.emplace(scope, source.get_token());
    } else {
      link.emplace(handle, source.get_token());
    }
    ++waiting;
    EXPECT_FALSE(scope.Run([&] { never.Wait(); }));
  });
  crew.AddThread([&] {
    YieldUntil([&] { return waiting == 8; });
    source.request_stop();
  });
  crew.Join();
}

// Other callbacks of the same token may do what they like, such as to end the scope's fiber before ours is called.
TEST_P(CancelOnStopTest, CallbacksOfOthersRunBesideIt) {
  for (int i = 0; i < Scaled(200); ++i) {
    std::stop_source source;
    FiberEvent event;
    std::atomic<bool> waits{false};
    std::stop_callback sets(source.get_token(), [&] { event.Set(); });
    Crew crew = Fibers();
    crew.Add([&] {
      static_cast<void>(RunUntilStopped(source.get_token(), [&] {
        waits = true;
        event.Wait();
      }));
    });
    crew.AddThread([&] {
      YieldUntil([&] { return waits.load(); });
      source.request_stop();
    });
    crew.Join();
  }
}

// A thread requests stop at any moment of the scope's life, which is on a stack that is used again at once.
TEST_P(CancelOnStopTest, ARequestRacesWithTheEndOfTheScope) {
  const int rounds = Scaled(3000);
  FiberChannel<std::shared_ptr<std::stop_source>> sources(1);
  std::atomic<int> stopped{0};
  Crew crew = Fibers();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto source = std::make_shared<std::stop_source>();
      ASSERT_EQ(sources.Put(source), ChannelResult::kOk);
      const bool done = RunUntilStopped(source->get_token(), [&] {
        for (int k = 0; k < i % 8; ++k) testing::YieldActor();
        TestCancel();
      });
      stopped += done ? 0 : 1;
    }
    sources.Close();
  });
  crew.AddThread([&] {
    for (auto& source : sources) source->request_stop();
  });
  crew.Join();
  EXPECT_LE(stopped, rounds);
}

// The end of the scope waits for a Cancel() of many fibers, and the worker runs others meanwhile (COS1).
TEST_P(CancelOnStopTest, TheLinkWaitsForACancellationUnderWay) {
  struct SlowTarget {
    void Cancel() noexcept {
      began = true;
      const Deadline limit = 60s;
      YieldUntil([&] { return let_go.load() || limit.expired(); });
      ended = let_go.load();
    }
    std::atomic<bool> began{false};
    std::atomic<bool> let_go{false};
    std::atomic<bool> ended{false};
  };
  std::stop_source source;
  SlowTarget target;
  std::atomic<bool> linked{false};
  Crew crew = Fibers();
  crew.AddThread([&] {
    YieldUntil([&] { return linked.load(); });
    source.request_stop();
  });
  crew.Add([&] {
    {
      const CancelOnStop link(target, source.get_token());
      linked = true;
      YieldUntil([&] { return target.began.load(); });
      group.Start([&] { target.let_go = true; });  // On the same worker, if there is one only.
    }
    EXPECT_TRUE(target.ended);
  });
  crew.Join();
}

TEST(CancelOnStopInThreadTest, AThreadIsNotCancelled) {
  std::stop_source source;
  source.request_stop();
  bool ran = false;
  EXPECT_TRUE(RunUntilStopped(source.get_token(), [&] {
    TestCancel();
    ran = true;
  }));
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace weft
