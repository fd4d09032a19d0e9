// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/fiber_seqlock.h through all interleavings of a writer and a reader (SQ1, SQ2): a reader uses values of one
// section only, and sees every section that it knows to be over. FiberMutex excludes writers (primitives_model.cc):
// with several the mutex would order what the seqlock itself must order.
#include <gtest/gtest.h>

#include "weft/sync/fiber_seqlock.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft {
namespace {

using model::FiberWorld;
using Timers = FiberWorld::Timers;

struct Shared {
  FiberSeqLock seqlock;
  base::Atomic<int> x{0};
  base::Atomic<int> y{0};

  void Write(int value) {
    seqlock.WriteSeqLock();
    x.store(value, std::memory_order_relaxed);
    y.store(value, std::memory_order_relaxed);
    seqlock.WriteSeqUnlock();
  }
  // One try. -1: a writer came in between.
  int TryRead() {
    const unsigned sequence = seqlock.ReadSeqBegin();
    const int seen_x = x.load(std::memory_order_relaxed);
    const int seen_y = y.load(std::memory_order_relaxed);
    if (seqlock.ReadSeqRetry(sequence) != 0) return -1;
    MODEL_CHECK(seen_x == seen_y, "what may be used was written in one section");
    // Each section adds two.
    MODEL_CHECK(static_cast<unsigned>(seen_x) >= sequence / 2, "what was written before the number is seen");
    return seen_x;
  }
};

void Explore(const model::Options& options, void (*build)(model::Scenario&, FiberWorld&, Shared*)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    FiberWorld world(scenario);
    auto* shared = scenario.New<Shared>("shared");
    scenario.Name(&shared->x, sizeof(shared->x), "x");
    scenario.Name(&shared->y, sizeof(shared->y), "y");
    build(scenario, world, shared);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(SeqLockModel, OneSectionAndOneRead) {
  Explore({.name = "seqlock: one section, one read", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario&, FiberWorld& world, Shared* shared) {
            world.Fiber("writer", Timers::kNo, [=] { shared->Write(1); });
            world.Fiber("reader", Timers::kNo, [=] { static_cast<void>(shared->TryRead()); });
          });
}

TEST(SeqLockModel, TwoSectionsAndTwoReads) {
  Explore({.name = "seqlock: two sections, two reads", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario&, FiberWorld& world, Shared* shared) {
            world.Fiber("writer", Timers::kNo, [=] {
              shared->Write(1);
              shared->Write(2);
            });
            world.Fiber("reader", Timers::kNo, [=] {
              const int first = shared->TryRead();
              const int second = shared->TryRead();
              MODEL_CHECK(second == -1 || second >= first, "what was seen is not taken back");
            });
          });
}

}  // namespace
}  // namespace weft
