// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/queue/run_queue.h through all interleavings, at capacities 2 and 4: every fiber comes out once,
// those of one producer in their order, with what the producer wrote to it before; and no thread, wherever it is
// stopped, keeps another one from pushing or popping.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "weft/scheduling_group/queue/run_queue.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {

// What the queue carries: here, all that a consumer can check.
class alignas(64) FiberEntity {
 public:
  model::Data<int> producer{-1};
  model::Data<int> number{-1};
  model::Data<int> popped{0};
};

namespace {

constexpr int kMaxProducers = 2;
constexpr int kMaxConsumers = 2;
constexpr int kMaxFibers = 8;

using LastNumbers = std::array<int, kMaxProducers>;

struct World {
  explicit World(std::size_t capacity) : queue(capacity) {}

  RunQueue queue;
  std::array<FiberEntity, kMaxFibers> fibers;
  std::array<bool, kMaxFibers> pushed{};            // written by its producer
  std::array<LastNumbers, kMaxConsumers> popped{};  // the last number of each producer, plus one; by each consumer

  FiberEntity* Make(int fiber, int producer) {
    fibers[fiber].producer.Write(producer);
    fibers[fiber].number.Write(fiber);
    return &fibers[fiber];
  }

  // Pushes the fibers first .. first + count - 1, one after the other, until one finds the queue full.
  void Produce(int producer, int first, int count) {
    for (int i = 0; i < count; ++i) {
      pushed[first + i] = queue.TryPush(Make(first + i, producer));
      if (!pushed[first + i]) return;
    }
  }

  // The same in one step, as many as fit.
  void ProduceBatch(int producer, int first, int count) {
    FiberEntity* batch[kMaxFibers];
    for (int i = 0; i < count; ++i) batch[i] = Make(first + i, producer);
    const auto done = static_cast<int>(queue.PushSome(batch, count));
    MODEL_CHECK(done <= count, "more pushed than given");
    for (int i = 0; i < done; ++i) pushed[first + i] = true;
  }

  // Tries `times` times to pop, `at_once` at most in one step.
  void Consume(int consumer, int times, int at_once) {
    for (int t = 0; t < times; ++t) {
      FiberEntity* batch[kMaxFibers];
      std::size_t found;
      if (at_once == 1) {
        batch[0] = queue.TryPop();
        found = batch[0] != nullptr ? 1 : 0;
      } else {
        found = queue.PopSome(batch, at_once);
      }
      for (std::size_t i = 0; i < found; ++i) Check(batch[i], &popped[consumer]);
    }
  }

  static void Check(FiberEntity* fiber, LastNumbers* last) {
    MODEL_CHECK(fiber->popped.Read() == 0, "a fiber is popped twice");
    fiber->popped.Write(1);
    const int producer = fiber->producer.Read();
    const int number = fiber->number.Read();
    MODEL_CHECK(number >= (*last)[producer], "two fibers of one producer have changed places");
    (*last)[producer] = number + 1;
  }

  // At the end: takes out the rest, which is behind all that was popped. Every fiber pushed has come out.
  void CheckTheRest() {
    LastNumbers last{};
    for (const LastNumbers& of_consumer : popped) {
      for (int p = 0; p < kMaxProducers; ++p) last[p] = std::max(last[p], of_consumer[p]);
    }
    while (FiberEntity* fiber = queue.TryPop()) Check(fiber, &last);
    for (int i = 0; i < kMaxFibers; ++i) {
      MODEL_CHECK(fibers[i].popped.Read() == static_cast<int>(pushed[i]), "a fiber is lost");
    }
    MODEL_CHECK(queue.Empty() && queue.Size() == 0, "something is left");
  }
};

World* NewWorld(model::Scenario& scenario, std::size_t capacity) {
  World* world = scenario.New<World>("queue", capacity);
  scenario.Name(&world->fibers, sizeof(world->fibers), "fibers");
  scenario.AtEnd([=] { world->CheckTheRest(); });
  return world;
}

// Moves both ends of the queue forward by `count`, so that the threads work around the end of the ring.
void Advance(World* world, int count) {
  FiberEntity fiber;
  for (int i = 0; i < count; ++i) {
    MODEL_CHECK(world->queue.TryPush(&fiber) && world->queue.TryPop() == &fiber, "one thread alone cannot use it");
  }
}

TEST(RunQueueModel, OneProducerOneConsumer) {
  const model::Result result =
      model::Explore({.name = "run_queue: 1 producer, 1 consumer", .preemptions = model::kUnbounded, .weak_choices = 4},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, 2);
                       scenario.Thread("producer", [=] { world->Produce(0, 0, 4); });
                       scenario.Thread("consumer", [=] { world->Consume(0, 4, 1); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(RunQueueModel, TwoProducersOneConsumer) {
  const model::Result result =
      model::Explore({.name = "run_queue: 2 producers, 1 consumer", .preemptions = 2, .weak_choices = 1},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, 2);
                       Advance(world, 1);
                       scenario.Thread("producer 0", [=] { world->Produce(0, 0, 2); });
                       scenario.Thread("producer 1", [=] { world->Produce(1, 2, 2); });
                       scenario.Thread("consumer", [=] { world->Consume(0, 3, 1); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(RunQueueModel, OneProducerTwoConsumers) {
  const model::Result result =
      model::Explore({.name = "run_queue: 1 producer, 2 consumers", .preemptions = 4, .weak_choices = 2},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, 2);
                       scenario.Thread("producer", [=] { world->Produce(0, 0, 3); });
                       scenario.Thread("consumer 0", [=] { world->Consume(0, 2, 1); });
                       scenario.Thread("consumer 1", [=] { world->Consume(1, 2, 1); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(RunQueueModel, TwoProducersTwoConsumers) {
  const model::Result result =
      model::Explore({.name = "run_queue: 2 producers, 2 consumers", .preemptions = 3, .weak_choices = 1},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, 2);
                       Advance(world, 1);
                       scenario.Thread("producer 0", [=] { world->Produce(0, 0, 2); });
                       scenario.Thread("producer 1", [=] { world->Produce(1, 2, 1); });
                       scenario.Thread("consumer 0", [=] { world->Consume(0, 2, 1); });
                       scenario.Thread("consumer 1", [=] { world->Consume(1, 1, 1); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(RunQueueModel, BatchesAroundTheEndOfTheRing) {
  const model::Result result = model::Explore({.name = "run_queue: batches", .preemptions = 3, .weak_choices = 1},
                                              [](model::Scenario& scenario) {
                                                World* world = NewWorld(scenario, 4);
                                                Advance(world, 3);
                                                scenario.Thread("producer", [=] {
                                                  world->ProduceBatch(0, 0, 3);
                                                  world->ProduceBatch(0, 3, 3);
                                                });
                                                scenario.Thread("consumer 0", [=] { world->Consume(0, 2, 3); });
                                                scenario.Thread("consumer 1", [=] { world->Consume(1, 2, 2); });
                                              });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(RunQueueModel, BatchesOfTwoProducersInAFullQueue) {
  const model::Result result = model::Explore(
      {.name = "run_queue: two batches, full", .preemptions = 3, .weak_choices = 1}, [](model::Scenario& scenario) {
        World* world = NewWorld(scenario, 2);
        Advance(world, 1);
        scenario.Thread("producer 0", [=] { world->ProduceBatch(0, 0, 3); });
        scenario.Thread("producer 1", [=] {
          world->ProduceBatch(1, 3, 2);
          world->ProduceBatch(1, 5, 2);
        });
        scenario.Thread("consumer", [=] { world->Consume(0, 3, 2); });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

// Each interleaving is one in which the kernel has stopped the other thread while this one runs.
TEST(RunQueueModel, AStoppedProducerHoldsUpNobody) {
  const model::Result result =
      model::Explore({.name = "run_queue: a stopped producer", .preemptions = model::kUnbounded, .weak_choices = 2},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, 4);
                       scenario.Thread("stopped", [=] { world->ProduceBatch(0, 0, 2); });
                       scenario.Thread("goes on", [=] {
                         world->Produce(1, 2, 1);
                         MODEL_CHECK(world->pushed[2], "refused, though there is room");
                         FiberEntity* fiber = world->queue.TryPop();
                         MODEL_CHECK(fiber != nullptr, "a stopped producer holds up the fiber of another one");
                         World::Check(fiber, &world->popped[0]);
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(RunQueueModel, AStoppedConsumerMakesNoQueueFull) {
  const model::Result result =
      model::Explore({.name = "run_queue: a stopped consumer", .preemptions = model::kUnbounded, .weak_choices = 2},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, 2);
                       Advance(world, 1);
                       scenario.Thread("stopped", [=] { world->Consume(0, 2, 1); });
                       scenario.Thread("goes on", [=] {
                         for (int i = 0; i < 3; ++i) {
                           world->Produce(0, i, 1);
                           MODEL_CHECK(world->pushed[i], "refused, though there is room");
                           world->Consume(1, 1, 1);
                         }
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

// RQ4: a push before a full fence is seen by Empty() after a later full fence, as long as nobody popped the fiber.
struct Fenced : World {
  explicit Fenced(std::size_t capacity) : World(capacity) {}
  base::Atomic<int> flag{0};
  bool saw_flag = false;
  bool saw_empty = false;

  void ProduceAndLook(int producer, int first) {
    pushed[first] = queue.TryPushAndFence(Make(first, producer));
    saw_flag = flag.load(std::memory_order_relaxed) == 1;
  }
  void AnnounceAndLook() {
    flag.store(1, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);
    saw_empty = queue.Empty();
  }
  void CheckThatOneSawTheOther() const { MODEL_CHECK(saw_flag || !saw_empty, "each misses the other"); }
};

TEST(RunQueueModel, APushBeforeAFenceIsSeenAfterTheFence) {
  const model::Result result =
      model::Explore({.name = "run_queue: Empty() and fences", .preemptions = model::kUnbounded, .weak_choices = 4},
                     [](model::Scenario& scenario) {
                       auto* world = scenario.New<Fenced>("queue", 2);
                       Advance(world, 1);
                       scenario.Thread("producer", [=] { world->ProduceAndLook(0, 0); });
                       scenario.Thread("sleeper", [=] { world->AnnounceAndLook(); });
                       scenario.AtEnd([=] { world->CheckThatOneSawTheOther(); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

// And if it came behind a push that has not returned yet (RQ5).
TEST(RunQueueModel, APushBehindAnotherIsSeenAfterTheFence) {
  const model::Result result = model::Explore(
      {.name = "run_queue: Empty() and fences, 2 producers", .preemptions = model::kUnbounded, .weak_choices = 4},
      [](model::Scenario& scenario) {
        auto* world = scenario.New<Fenced>("queue", 4);
        scenario.Thread("first", [=] { world->Produce(1, 1, 1); });
        scenario.Thread("producer", [=] { world->ProduceAndLook(0, 0); });
        scenario.Thread("sleeper", [=] { world->AnnounceAndLook(); });
        scenario.AtEnd([=] { world->CheckThatOneSawTheOther(); });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

// A sleeper with an old head: its slot was popped and filled anew, so another fiber is there.
TEST(RunQueueModel, APushIsSeenFromAnOldHead) {
  const model::Result result = model::Explore(
      {.name = "run_queue: Empty() and an old head", .preemptions = model::kUnbounded, .weak_choices = 4},
      [](model::Scenario& scenario) {
        auto* world = scenario.New<Fenced>("queue", 2);
        scenario.Thread("producer", [=] {
          world->Produce(0, 0, 1);
          world->ProduceAndLook(0, 1);
          world->Consume(0, 1, 1);
          world->Produce(0, 2, 1);
        });
        scenario.Thread("sleeper", [=] { world->AnnounceAndLook(); });
        scenario.AtEnd([=] { world->CheckThatOneSawTheOther(); });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(RunQueueModel, AConsumerWithAnOldHeadFindsWhatIsThere) {
  const model::Result result =
      model::Explore({.name = "run_queue: pop and an old head", .preemptions = model::kUnbounded, .weak_choices = 2},
                     [](model::Scenario& scenario) {
                       World* world = NewWorld(scenario, 2);
                       world->Produce(0, 0, 2);
                       scenario.Thread("quick", [=] {
                         world->Consume(0, 1, 1);
                         world->Produce(1, 2, 1);
                       });
                       scenario.Thread("slow", [=] {
                         FiberEntity* fiber = world->queue.TryPop();
                         MODEL_CHECK(fiber != nullptr, "there is always a fiber in the queue");
                         World::Check(fiber, &world->popped[1]);
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

}  // namespace
}  // namespace weft::scheduling_group
