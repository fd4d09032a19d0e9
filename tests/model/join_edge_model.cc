// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/start/join_state.h through all interleavings: of fibers that close a cycle at the same time at least one finds
// it (JE1); who follows an edge that is being cleared gets a living target or none (JE2).
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "weft/base/ref_ptr.h"
#include "weft/fiber/start/join_state.h"
#include "weft/tests/testing/interleave.h"

namespace weft::fiber::detail {
namespace {

void Explore(const model::Options& options, void (*build)(model::Scenario&)) {
  const model::Result result = model::Explore(options, build);
  EXPECT_TRUE(result.passed) << result.report;
}

struct State : base::RefCounted<State> {
  ~State() { alive.Write(false); }
  JoinEdge<State> join_edge;
  model::Data<bool> alive{true};  // A race, if it is read beside the destructor; gone after that.
};

// What JoinState::Await() does before it waits.
bool FindsCycle(State* self, State* target) {
  self->join_edge.Set(target, "Join");
  const std::size_t length = LengthOfCycle(self, target);
  if (length == 0) return false;
  const std::vector<base::RefPtr<State>> members = MembersOfCycle(self, length);
  MODEL_CHECK(members.size() == length && members.front().Get() == self, "JE3");
  return true;
}

template <int kFibers>
void CloseACycle(model::Scenario& scenario) {
  struct Shared {
    base::Atomic<State*> states[kFibers] = {};
    base::Atomic<int> found{0};
  };
  auto* shared = scenario.New<Shared>("shared");
  for (auto& state : shared->states) state.store(new State, std::memory_order_relaxed);
  for (int i = 0; i < kFibers; ++i) {
    scenario.Thread("fiber", [=] {
      State* const self = shared->states[i].load(std::memory_order_relaxed);
      if (FindsCycle(self, shared->states[(i + 1) % kFibers].load(std::memory_order_relaxed))) {
        shared->found.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  scenario.AtEnd([=] {
    MODEL_CHECK(shared->found.load(std::memory_order_relaxed) != 0, "JE1");
    for (auto& state : shared->states) delete state.load(std::memory_order_relaxed);
  });
}

TEST(JoinEdgeModel, OneOfTwoFindsTheirCycle) {
  Explore({.name = "join_edge: 2 fibers", .preemptions = 4, .weak_choices = 2}, &CloseACycle<2>);
}

TEST(JoinEdgeModel, OneOfThreeFindsTheirCycle) {
  Explore({.name = "join_edge: 3 fibers", .preemptions = 2, .weak_choices = 2}, &CloseACycle<3>);
}

// The joiner's wait ends while another fiber, which joins the joiner, follows its edge.
TEST(JoinEdgeModel, WhoFollowsAnEdgeThatIsClearedGetsALivingTarget) {
  Explore({.name = "join_edge: follow, clear", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
          [](model::Scenario& scenario) {
            auto* joiner = new State;  // Two owners.
            joiner->AddRef();
            auto* target = new State;  // The joiner's.
            scenario.Thread("joiner", [=] {
              joiner->join_edge.Set(target, "Join");
              joiner->join_edge.Clear();
              target->Release();
              joiner->Release();
            });
            scenario.Thread("follower", [=] {
              if (const base::RefPtr<State> found = joiner->join_edge.Follow()) {
                MODEL_CHECK(found->alive.Read(), "JE2");
              }
              joiner->Release();
            });
          });
}

// Two walks and a clear meet at one edge.
TEST(JoinEdgeModel, TwoFollowers) {
  Explore({.name = "join_edge: 2 followers, clear", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario) {
            auto* joiner = new State;
            joiner->AddRef();
            joiner->AddRef();
            auto* target = new State;
            scenario.Thread("joiner", [=] {
              joiner->join_edge.Set(target, "Join");
              joiner->join_edge.Clear();
              target->Release();
              joiner->Release();
            });
            for (int i = 0; i < 2; ++i) {
              scenario.Thread("follower", [=] {
                if (const base::RefPtr<State> found = joiner->join_edge.Follow()) {
                  MODEL_CHECK(found->alive.Read(), "JE2");
                }
                joiner->Release();
              });
            }
          });
}

}  // namespace
}  // namespace weft::fiber::detail
