// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LocalRing (worker_queues.h) through all interleavings, at capacities 2 and 4: each fiber that the owner
// pushes is taken once, by each taker oldest first, with what the owner wrote to it before; no slot is filled again
// before the thread that took its fiber has read it (mutations/local_ring.common.patch reports the reads); and LR3 with
// the fences of idle workers (the whole protocol on a ring: idle_workers_model.cc).
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "weft/scheduling_group/queue/worker_queues.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {

// What the ring carries: here, all that a taker can check.
class FiberEntity {
 public:
  model::Data<int> position{-1};  // as how manieth it was pushed; written by the owner
  model::Data<int> taker{-1};     // written by the taker: two that take it race
};

namespace {

constexpr int kOwner = 0;
constexpr int kMaxTakers = 3;
constexpr int kMaxPositions = 8;
constexpr int kMaxThreads = kMaxTakers + 1;  // and the one that sets up

// LR1, LR2. The taker's read of a slot happens before the slot is filled again: by the memory orders, not just in this
// interleaving, since the explorer delays no load past a later store, which a processor may do. A taker that loses may
// read anything: so each notes its reads for itself, and the winner shows its note.
class SlotReads {
 public:
  void Read() { note().Write(1); }
  void Won(std::uint32_t head, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) winners_.at(head + i) = &note();
    ++wins_[model::CurrentThread()];
  }
  void Overwritten(std::uint32_t position) {
    MODEL_CHECK(winners_.at(position) != nullptr, "a slot is filled again though nobody took the fiber");
    winners_[position]->Write(0);  // A race if the orders do not put it behind the reads.
  }

 private:
  model::Data<int>& note() { return notes_[model::CurrentThread()].at(wins_[model::CurrentThread()]); }

  std::array<std::array<model::Data<int>, kMaxPositions>, kMaxThreads> notes_;  // of each win of each thread
  std::array<int, kMaxThreads> wins_{};
  std::array<model::Data<int>*, kMaxPositions + 1> winners_{};  // of each position; follows from head_'s history
};

SlotReads* slot_reads;  // of the execution

}  // namespace

// The patched ring calls these.
void ModelReadsSlot() { slot_reads->Read(); }
void ModelTook(std::uint32_t head, std::uint32_t count) { slot_reads->Won(head, count); }
void ModelFillsSlot(std::uint32_t position, std::uint32_t capacity) {
  if (position >= capacity) slot_reads->Overwritten(position - capacity);
}

namespace {

template <std::uint32_t kCapacity>
struct World {
  LocalRing<kCapacity> ring;
  std::array<FiberEntity, kMaxPositions> fibers;
  int pushed = 0;                          // the owner's: how many so far
  int kept = 0;                            // the owner's: of these, how many it did not take itself
  int drained = 0;                         // the owner's: how many it had pushed when it last found nothing
  std::array<int, kMaxPositions> taken{};  // how often each position was taken
  std::array<int, kMaxTakers> oldest{};    // of each taker: the oldest position that it may take next

  // --- The owner ---

  bool Push(FiberEntity* fiber) {
    fiber->position.Write(pushed);
    if (!ring.Push(fiber)) {
      MODEL_CHECK(kept >= static_cast<int>(kCapacity), "it refuses what there is room for");
      return false;
    }
    ++pushed;
    ++kept;
    return true;
  }
  void PushNew(int count) {
    for (int i = 0; i < count; ++i) static_cast<void>(Push(&fibers[pushed]));
  }
  // In one step.
  void PushNewTogether(int count) {
    FiberEntity* batch[kMaxPositions];
    for (int i = 0; i < count; ++i) {
      batch[i] = &fibers[pushed + i];
      batch[i]->position.Write(pushed + i);
    }
    const auto done = static_cast<int>(ring.PushSome(batch, static_cast<std::uint32_t>(count)));
    MODEL_CHECK(done == count || kept + done >= static_cast<int>(kCapacity), "it refuses what there is room for");
    pushed += done;
    kept += done;
  }
  FiberEntity* PopOwn() {
    FiberEntity* fiber = ring.Pop();
    if (fiber != nullptr) Check(kOwner, &fiber, 1);
    NoteWhatOwnerGot(fiber != nullptr ? 1 : 0);
    return fiber;
  }
  void PopAllOwn() {
    FiberEntity* batch[kCapacity];
    const std::uint32_t count = ring.PopAll(batch);
    Check(kOwner, batch, count);
    NoteWhatOwnerGot(count);
  }
  void NoteWhatOwnerGot(std::uint32_t count) {
    kept -= static_cast<int>(count);
    if (count == 0) drained = pushed;
  }

  // --- The others ---

  void Pop(int taker, int times) {
    for (int i = 0; i < times; ++i) {
      FiberEntity* fiber = ring.Pop();
      if (fiber != nullptr) Check(taker, &fiber, 1);
    }
  }
  void PopHalf(int taker, int times) {
    for (int i = 0; i < times; ++i) {
      FiberEntity* batch[kCapacity];
      Check(taker, batch, ring.PopHalf(batch));
    }
  }

  // A batch is contiguous, and nobody takes an older fiber after a younger one.
  void Check(int taker, FiberEntity* const* batch, std::uint32_t count) {
    MODEL_CHECK(count <= kCapacity, "more than fit into it");
    for (std::uint32_t i = 0; i < count; ++i) {
      MODEL_CHECK(batch[i] != nullptr, "a slot that nobody filled");
      batch[i]->taker.Write(taker);
      const int position = batch[i]->position.Read();
      MODEL_CHECK(position >= oldest[taker], "a fiber twice, or two that have changed places");
      MODEL_CHECK(i == 0 || position == oldest[taker], "a batch with a gap");
      oldest[taker] = position + 1;
      ++taken[position];
    }
  }

  void CheckTheRest() {
    for (int i = 0; i < drained; ++i) MODEL_CHECK(taken[i] == 1, "the owner found nothing, but there was something");
    int youngest = 0;
    for (const int position : oldest) youngest = position > youngest ? position : youngest;
    oldest[kOwner] = youngest;
    while (ring.Size() != 0) PopAllOwn();
    MODEL_CHECK(ring.Empty() && ring.Pop() == nullptr, "something is left");
    for (int i = 0; i < kMaxPositions; ++i) {
      MODEL_CHECK(taken[i] == (i < pushed ? 1 : 0), "a fiber is lost, or was taken twice");
    }
  }
};

template <class World>
World* NewEmptyWorld(model::Scenario& scenario) {
  slot_reads = scenario.New<SlotReads>("notes");
  auto* world = scenario.New<World>("ring");
  scenario.Name(&world->fibers, sizeof(world->fibers), "fibers");
  return world;
}

// The ring has moved by one, so that the threads work around its end.
template <std::uint32_t kCapacity>
World<kCapacity>* NewWorld(model::Scenario& scenario) {
  auto* world = NewEmptyWorld<World<kCapacity>>(scenario);
  FiberEntity fiber;
  MODEL_CHECK(world->ring.Push(&fiber) && world->ring.Pop() == &fiber, "one thread alone cannot use it");
  scenario.AtEnd([=] { world->CheckTheRest(); });
  return world;
}

void Explore(const model::Options& options, void (*build)(model::Scenario&)) {
  const model::Result result = model::Explore(options, build);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(LocalRingModel, TheOwnerFillsItAndOneThiefPops) {
  Explore({.name = "local_ring: full, 1 thief", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<2>(scenario);
            scenario.Thread("owner", [=] { world->PushNew(5); });
            scenario.Thread("thief", [=] { world->Pop(1, 3); });
          });
}

TEST(LocalRingModel, TheOwnerPopsToo) {
  Explore({.name = "local_ring: owner pops, 1 thief", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<2>(scenario);
            scenario.Thread("owner", [=] {
              world->PushNew(2);
              world->PopOwn();
              world->PushNew(2);
              world->PopOwn();
            });
            scenario.Thread("thief", [=] { world->Pop(1, 2); });
          });
}

TEST(LocalRingModel, TheOwnerTakesAll) {
  Explore({.name = "local_ring: owner takes all, 1 thief", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<2>(scenario);
            scenario.Thread("owner", [=] {
              world->PushNew(2);
              world->PopAllOwn();
              world->PushNew(3);
              world->PopAllOwn();
            });
            scenario.Thread("thief", [=] { world->PopHalf(1, 2); });
          });
}

// The same address in the same slot again: only the position tells.
TEST(LocalRingModel, AFiberComesBack) {
  Explore({.name = "local_ring: a fiber comes back", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<2>(scenario);
            scenario.Thread("owner", [=] {
              world->PushNew(2);
              for (int i = 0; i < 3; ++i) {
                FiberEntity* fiber = world->PopOwn();
                if (fiber == nullptr) return;
                static_cast<void>(world->Push(fiber));
              }
            });
            scenario.Thread("thief", [=] { world->Pop(1, 2); });
          });
}

TEST(LocalRingModel, TwoThieves) {
  Explore({.name = "local_ring: 2 thieves", .preemptions = 3, .weak_choices = 2}, [](model::Scenario& scenario) {
    auto* world = NewWorld<2>(scenario);
    scenario.Thread("owner", [=] { world->PushNew(4); });
    scenario.Thread("thief 1", [=] { world->Pop(1, 2); });
    scenario.Thread("thief 2", [=] { world->PopHalf(2, 2); });
  });
}

TEST(LocalRingModel, TwoThievesAndAnOwnerThatPops) {
  Explore({.name = "local_ring: owner pops, 2 thieves", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<2>(scenario);
            scenario.Thread("owner", [=] {
              world->PushNew(3);
              world->PopOwn();
              world->PushNew(2);
              world->PopAllOwn();
            });
            scenario.Thread("thief 1", [=] { world->Pop(1, 2); });
            scenario.Thread("thief 2", [=] { world->PopHalf(2, 1); });
          });
}

// Several at a time, around the end of the ring.
TEST(LocalRingModel, HalvesOfALargerRing) {
  Explore({.name = "local_ring: halves, 1 thief", .preemptions = 5, .weak_choices = 3}, [](model::Scenario& scenario) {
    auto* world = NewWorld<4>(scenario);
    world->PushNew(4);
    scenario.Thread("owner", [=] { world->PushNewTogether(3); });
    scenario.Thread("thief", [=] { world->PopHalf(1, 3); });
  });
  Explore({.name = "local_ring: halves, 2 thieves", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<4>(scenario);
            world->PushNew(3);
            scenario.Thread("owner", [=] {
              world->PushNewTogether(3);
              world->PopAllOwn();
            });
            for (int taker : {1, 2}) {
              scenario.Thread(taker == 1 ? "thief 1" : "thief 2", [=] { world->PopHalf(taker, 2); });
            }
          });
}

// It once returned 4 billion: a new head_ and an old tail_.
TEST(LocalRingModel, ASizeIsWithinTheCapacity) {
  Explore({.name = "local_ring: size", .preemptions = 4, .weak_choices = 3}, [](model::Scenario& scenario) {
    auto* world = NewWorld<2>(scenario);
    scenario.Thread("owner", [=] { world->PushNew(3); });
    scenario.Thread("thief", [=] { world->Pop(1, 2); });
    scenario.Thread("watcher", [=] { MODEL_CHECK(world->ring.Size() <= 2, "more than fit into it"); });
  });
}

// LR3: a push before a full fence is seen by Empty() after a later full fence, as long as nobody took the fiber.
TEST(LocalRingModel, APushBeforeAFenceIsSeenAfterTheFence) {
  struct Fenced : World<2> {
    base::Atomic<int> flag{0};
    bool saw_flag = false;
    bool saw_empty = false;
  };
  static constexpr auto kFencedPush = [](Fenced* world) {
    world->PushNew(1);
    base::ThreadFence(std::memory_order_seq_cst);
    world->saw_flag = world->flag.load(std::memory_order_relaxed) == 1;
  };
  static constexpr auto kFencedLook = [](Fenced* world) {
    world->flag.store(1, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);
    world->saw_empty = world->ring.Empty();
  };
  Explore({.name = "local_ring: Empty() and fences", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) {
            auto* world = NewEmptyWorld<Fenced>(scenario);
            scenario.Thread("owner", [=] { kFencedPush(world); });
            scenario.Thread("sleeper", [=] { kFencedLook(world); });
            scenario.AtEnd([=] { MODEL_CHECK(world->saw_flag || !world->saw_empty, "each misses the other"); });
          });
  // One before it was pushed and is taken meanwhile.
  Explore({.name = "local_ring: Empty(), fences, 1 thief", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) {
            auto* world = NewEmptyWorld<Fenced>(scenario);
            scenario.Thread("owner", [=] {
              world->PushNew(1);
              kFencedPush(world);
            });
            scenario.Thread("sleeper", [=] { kFencedLook(world); });
            scenario.Thread("thief", [=] { world->Pop(1, 1); });
            scenario.AtEnd([=] { MODEL_CHECK(world->saw_flag || !world->saw_empty, "each misses the other"); });
          });
}

}  // namespace
}  // namespace weft::scheduling_group
