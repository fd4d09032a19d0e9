// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LocalDeque (worker_queues.h) through all interleavings, at capacities 2 and 4: each fiber that the owner
// pushes is taken once, with what the owner wrote to it before; the owner takes the newest, thieves the oldest; no slot
// is filled again before the thread that took its fiber has read it (mutations/local_deque.common.patch reports the
// reads); and
// LD3 with the fences of idle workers.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "weft/scheduling_group/queue/worker_queues.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {

// What the deque carries: here, all that a taker can check.
class FiberEntity {
 public:
  model::Data<int> number{-1};  // written by the owner before it pushes it
  model::Data<int> taker{-1};   // written by the taker: two that take it race
};

namespace {

constexpr int kMaxFibers = 8;
constexpr int kMaxThreads = 4;  // with the one that sets up

// LD1, by the memory orders and not just in this interleaving: as in local_ring_model.cc.
class SlotReads {
 public:
  void Read() { note().Write(1); }
  void Won(std::int64_t top, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) winners_.at(static_cast<std::size_t>(top + i)) = &note();
    ++wins_[model::CurrentThread()];
  }
  void Overwritten(std::int64_t position) {
    model::Data<int>* winner = winners_.at(static_cast<std::size_t>(position));
    MODEL_CHECK(winner != nullptr, "a slot is filled again though nobody took the fiber");
    winner->Write(0);  // A race if the orders do not put it behind the read.
  }

 private:
  model::Data<int>& note() { return notes_[model::CurrentThread()].at(wins_[model::CurrentThread()]); }

  std::array<std::array<model::Data<int>, kMaxFibers + 2>, kMaxThreads> notes_;  // of each win of each thread
  std::array<std::size_t, kMaxThreads> wins_{};
  std::array<model::Data<int>*, kMaxFibers + 2> winners_{};  // of each position that top_ has passed
};

SlotReads* slot_reads;  // of the execution

}  // namespace

// The patched deque calls these.
void ModelReadsSlot() { slot_reads->Read(); }
void ModelTook(std::int64_t top, std::int64_t count) { slot_reads->Won(top, count); }
void ModelFillsSlot(std::int64_t position, std::int64_t capacity) {
  if (position >= capacity) slot_reads->Overwritten(position - capacity);
}

namespace {

template <std::int64_t kCapacity>
struct World {
  LocalDeque<kCapacity> deque;
  std::array<FiberEntity, kMaxFibers> fibers;
  int pushed = 0;                       // the owner's: how many so far
  int drained = 0;                      // the owner's: how many it had pushed when it last found nothing
  std::array<int, kMaxFibers> taken{};  // how often each was taken

  // --- The owner ---

  void Push(int count) {
    for (int i = 0; i < count; ++i) {
      fibers[pushed].number.Write(pushed);
      if (!deque.Push(&fibers[pushed])) return;
      ++pushed;
    }
  }
  void PopNewest(int times) {
    for (int i = 0; i < times; ++i) {
      FiberEntity* fiber = deque.PopNewest();
      if (fiber == nullptr) {
        drained = pushed;
        continue;
      }
      const int number = Took(0, fiber);
      for (int younger = number + 1; younger < pushed; ++younger) {
        MODEL_CHECK(taken[younger] != 0, "not the newest");
      }
    }
  }
  void PopOldest(std::size_t max) {
    FiberEntity* batch[kCapacity];
    const std::size_t count = deque.PopOldest(batch, max);
    MODEL_CHECK(count <= max, "more than asked for");
    for (std::size_t i = 0; i < count; ++i) (void)Took(0, batch[i]);
  }

  // --- The others ---

  void Steal(int taker, int times) {
    int last = -1;
    for (int i = 0; i < times; ++i) {
      FiberEntity* fiber = deque.Steal();
      if (fiber == nullptr) continue;
      const int number = Took(taker, fiber);
      MODEL_CHECK(number > last, "an older one after a younger one");
      last = number;
    }
  }

  int Took(int taker, FiberEntity* fiber) {
    MODEL_CHECK(fiber != nullptr, "a slot that nobody filled");
    fiber->taker.Write(taker);
    const int number = fiber->number.Read();
    ++taken[number];
    return number;
  }

  void CheckTheRest() {
    for (int i = 0; i < drained; ++i) MODEL_CHECK(taken[i] == 1, "the owner found nothing, but there was something");
    while (deque.Size() != 0) PopNewest(1);
    MODEL_CHECK(deque.Empty() && deque.PopNewest() == nullptr && deque.Steal() == nullptr, "something is left");
    for (int i = 0; i < kMaxFibers; ++i) {
      MODEL_CHECK(taken[i] == (i < pushed ? 1 : 0), "a fiber is lost, or was taken twice");
    }
  }
};

template <class World>
World* NewEmptyWorld(model::Scenario& scenario) {
  slot_reads = scenario.New<SlotReads>("notes");
  auto* world = scenario.New<World>("deque");
  scenario.Name(&world->fibers, sizeof(world->fibers), "fibers");
  return world;
}

// The deque has moved by one, so that the threads work around its end.
template <std::int64_t kCapacity>
World<kCapacity>* NewWorld(model::Scenario& scenario) {
  auto* world = NewEmptyWorld<World<kCapacity>>(scenario);
  FiberEntity fiber;
  MODEL_CHECK(world->deque.Push(&fiber) && world->deque.Steal() == &fiber, "one thread alone cannot use it");
  scenario.AtEnd([=] { world->CheckTheRest(); });
  return world;
}

void Explore(const model::Options& options, void (*build)(model::Scenario&)) {
  const model::Result result = model::Explore(options, build);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(LocalDequeModel, TheOwnerFillsItAndOneThiefTakes) {
  Explore({.name = "local_deque: full, 1 thief", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<2>(scenario);
            scenario.Thread("owner", [=] { world->Push(4); });
            scenario.Thread("thief", [=] { world->Steal(1, 2); });
          });
}

TEST(LocalDequeModel, TheOwnerAndAThiefMeetAtTheLastOne) {
  Explore({.name = "local_deque: the last one, 1 thief", .preemptions = 4, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<2>(scenario);
            scenario.Thread("owner", [=] {
              world->Push(2);
              world->PopNewest(2);
              world->Push(1);
              world->PopNewest(1);
            });
            scenario.Thread("thief", [=] { world->Steal(1, 2); });
          });
}

// What the owner pops from a position and pushes to the same again.
TEST(LocalDequeModel, TheOwnerGoesDownAndUpAgainWithTwoThieves) {
  Explore({.name = "local_deque: down and up, 2 thieves", .preemptions = 3, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<4>(scenario);
            world->Push(2);
            scenario.Thread("owner", [=] {
              world->PopNewest(1);
              world->Push(1);
              world->PopNewest(1);
            });
            scenario.Thread("thief 1", [=] { world->Steal(1, 1); });
            scenario.Thread("thief 2", [=] { world->Steal(2, 1); });
          });
}

TEST(LocalDequeModel, TheOwnerTakesTheOldestToo) {
  Explore({.name = "local_deque: owner takes the oldest, 1 thief", .preemptions = 4, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<2>(scenario);
            scenario.Thread("owner", [=] {
              world->Push(2);
              world->PopOldest(2);
              world->Push(2);
              world->PopNewest(1);
            });
            scenario.Thread("thief", [=] { world->Steal(1, 2); });
          });
}

// LD3, with one before it that is taken meanwhile.
TEST(LocalDequeModel, APushBeforeAFenceIsSeenAfterTheFence) {
  struct Fenced : World<2> {
    base::Atomic<int> flag{0};
    bool saw_flag = false;
    bool saw_empty = false;
  };
  Explore({.name = "local_deque: Empty(), fences, 1 thief", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) {
            auto* world = NewEmptyWorld<Fenced>(scenario);
            scenario.Thread("owner", [=] {
              world->Push(2);
              base::ThreadFence(std::memory_order_seq_cst);
              world->saw_flag = world->flag.load(std::memory_order_relaxed) == 1;
            });
            scenario.Thread("sleeper", [=] {
              world->flag.store(1, std::memory_order_relaxed);
              base::ThreadFence(std::memory_order_seq_cst);
              world->saw_empty = world->deque.Empty();
            });
            scenario.Thread("thief", [=] { world->Steal(1, 1); });
            scenario.AtEnd([=] { MODEL_CHECK(world->saw_flag || !world->saw_empty, "each misses the other"); });
          });
}

}  // namespace
}  // namespace weft::scheduling_group
