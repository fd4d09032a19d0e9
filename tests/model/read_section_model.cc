// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/fiber/read_section.h through all interleavings: threads enter sections and use a published
// object; one thread unpublishes it, waits, and destroys it. Nobody uses the destroyed object (a race on Data; OS1,
// OS4), and the wait ends (OS3: a deadlock otherwise). OS2 is in tests/scheduling_group/read_section_test.cc.
#include <gtest/gtest.h>

#include <array>

#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

constexpr int kMaxThreads = 2;

struct World {
  std::array<SectionSlot, kMaxThreads> slots;
  SectionWaiter waiter;
  base::Atomic<model::Data<int>*> published{nullptr};
  model::Data<int> object{1};
  std::array<model::Data<int>, kMaxThreads> left_by{};  // what a thread writes in its sections
  base::Atomic<int> pause{0};
  bool has_heavy_fence = true;

  void Enter(int thread) { slots[thread].Enter(has_heavy_fence); }
  void Leave(int thread) { slots[thread].Leave(has_heavy_fence, &waiter); }

  void Use(int thread) {
    model::Data<int>* found = published.load(std::memory_order_acquire);
    if (found == nullptr) return;
    static_cast<void>(pause.load(std::memory_order_relaxed));  // Here others may go on.
    MODEL_CHECK(found->Read() == 1, "used after its end");
    left_by[thread].Write(left_by[thread].Read() + 1);
  }
  void Section(int thread) {
    Enter(thread);
    Use(thread);
    Leave(thread);
  }

  void Wait() {
    SectionSlot::Wait(has_heavy_fence, &waiter, [this](auto visit) {
      for (const SectionSlot& slot : slots) visit(slot);
    });
  }
  void End() {
    published.store(nullptr, std::memory_order_relaxed);
    Wait();
    object.Write(0);
    for (auto& by : left_by) by.Write(-1);
  }
};

World* NewWorld(model::Scenario& scenario, bool has_heavy_fence) {
  auto* world = scenario.New<World>("world");
  world->has_heavy_fence = has_heavy_fence;
  world->published.store(&world->object, std::memory_order_relaxed);
  return world;
}

void Explore(const model::Options& options, void (*build)(model::Scenario&, bool has_heavy_fence)) {
  for (const bool has_heavy_fence : {true, false}) {
    const model::Result result =
        model::Explore(options, [&](model::Scenario& scenario) { build(scenario, has_heavy_fence); });
    EXPECT_TRUE(result.passed) << result.report;
  }
}

TEST(ReadSectionModel, WhatIsFoundInASectionStaysToItsEnd) {
  Explore({.name = "read_section: 1 section", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
          [](model::Scenario& scenario, bool has_heavy_fence) {
            World* world = NewWorld(scenario, has_heavy_fence);
            scenario.Thread("user", [=] { world->Section(0); });
            scenario.Thread("ender", [=] { world->End(); });
          });
}

TEST(ReadSectionModel, TwoSectionsOfOneThread) {
  Explore({.name = "read_section: 2 sections", .preemptions = 4, .weak_choices = 3},
          [](model::Scenario& scenario, bool has_heavy_fence) {
            World* world = NewWorld(scenario, has_heavy_fence);
            scenario.Thread("user", [=] {
              world->Section(0);
              world->Section(0);
            });
            scenario.Thread("ender", [=] { world->End(); });
          });
}

TEST(ReadSectionModel, TheInnerSectionsEndIsNotTheOuterOnes) {
  Explore({.name = "read_section: nested", .preemptions = 4, .weak_choices = 3},
          [](model::Scenario& scenario, bool has_heavy_fence) {
            World* world = NewWorld(scenario, has_heavy_fence);
            scenario.Thread("user", [=] {
              world->Enter(0);
              model::Data<int>* found = world->published.load(std::memory_order_acquire);
              world->Section(0);
              if (found != nullptr) MODEL_CHECK(found->Read() == 1, "used after its end");
              world->Leave(0);
            });
            scenario.Thread("ender", [=] { world->End(); });
          });
}

TEST(ReadSectionModel, TwoThreads) {
  Explore({.name = "read_section: 2 threads", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario& scenario, bool has_heavy_fence) {
            World* world = NewWorld(scenario, has_heavy_fence);
            scenario.Thread("user", [=] { world->Section(0); });
            scenario.Thread("other", [=] { world->Section(1); });
            scenario.Thread("ender", [=] { world->End(); });
          });
}

}  // namespace
}  // namespace weft::scheduling_group
