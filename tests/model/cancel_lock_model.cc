// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/fiber/cancel_lock.h through all interleavings: a fiber that takes its own lock again and again, and
// cancellers: one holder at a time (CL1), each of which sees what the former did (CL2), and no mark is lost. With
// membarrier() and without.
#include <gtest/gtest.h>

#include <mutex>

#include "weft/scheduling_group/fiber/cancel_lock.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

struct World {
  CancelWord word;
  model::Data<int> chain{0};  // What the lock guards.

  void Change() { chain.Write(chain.Read() + 1); }
  void AsOwner() {
    LockAsOwner(&word);
    Change();
    UnlockAsOwner(&word, word.bits());
  }
  void AsCanceller() {
    const CancellerSection section;
    std::lock_guard guard(word);
    Change();
    word.Add(CancelWord::kPending);
  }
};

void Explore(const char* name, int preemptions, int cancellers, bool has_membarrier) {
  model_has_membarrier = has_membarrier;
  const model::Result result = model::Explore(
      {.name = name, .preemptions = preemptions, .weak_choices = 2}, [cancellers](model::Scenario& scenario) {
        model_cancellers = new base::Atomic<std::uint32_t>(0);
        auto* world = scenario.New<World>("world");
        scenario.Thread("owner", [=] {
          world->AsOwner();
          world->AsOwner();
        });
        scenario.Thread("canceller", [=] { world->AsCanceller(); });
        if (cancellers == 2) scenario.Thread("another", [=] { world->AsCanceller(); });
        scenario.AtEnd([=] {
          MODEL_CHECK(world->chain.Read() == 2 + cancellers, "two held the lock");
          MODEL_CHECK(world->word.pending(), "a mark is lost");
        });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(CancelLockModel, AnOwnerAndACanceller) { Explore("cancel_lock: one", 4, 1, true); }
TEST(CancelLockModel, AnOwnerAndTwoCancellers) { Explore("cancel_lock: two", 2, 2, true); }
TEST(CancelLockModel, AnOwnerAndACancellerWithoutMembarrier) {
  Explore("cancel_lock: one, without membarrier", 4, 1, false);
}
TEST(CancelLockModel, AnOwnerAndTwoCancellersWithoutMembarrier) {
  Explore("cancel_lock: two, without membarrier", 2, 2, false);
}

}  // namespace
}  // namespace weft::scheduling_group
