// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Adoption (scheduling_group/idle/adoption.h) through all interleavings, with the idle loop (idle_loop.h) of workers
// that sleep: a fiber is about to park in its group; its partner wakes it from another one, whose one worker runs on
// for ever or takes what it finds. The fiber runs once, in the group that it names (AD1), after all that the waker did
// to it. If any worker goes to sleep, it runs though its waker never parks (AD4). One that is woken before it has left
// its stack stays.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "weft/base/thread/parker.h"
#include "weft/scheduling_group/fiber/fiber_state.h"
#include "weft/scheduling_group/idle/adoption.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/idle/wake_and_steal.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {

class Group;

// All that a worker can check.
class alignas(64) FiberEntity {
 public:
  Group* group() const { return group_.Read(); }
  std::uintptr_t partner() const { return mark_.Read(); }
  void set_partner(std::uintptr_t to) { mark_.Write(to); }
  bool MayBeAdopted() const { return true; }
  void set_group(Group* to) { group_.Write(to); }

  FiberState state;
  model::Data<int> stack{0};
  int runs = 0;

 private:
  model::Data<Group*> group_{nullptr};
  model::Data<std::uintptr_t> mark_{kNoPartner};
};

// As in idle_loop_model.cc, of one worker, with a queue of one fiber.
class Group {
 public:
  Group(IdleGroups* all, int slot) : all_(all), slot_(slot) {}

  // --- What wake_and_steal.h and idle_loop.h ask for ---
  IdleWorkers& idle() { return idle_; }
  IdleGroups& idle_groups() { return *all_; }
  int slot() const { return slot_; }
  const std::vector<Group*>& partners() const { return partners_; }
  const IdleGroups::Mask& partner_mask() const { return partner_mask_; }
  base::Atomic<bool>& steal_requested() { return steal_requested_; }
  bool HasStealable() const { return HasWork(); }
  bool MayStealFrom(const Group&) const { return true; }
  void Send(unsigned, Group* where) {
    sent_to_.store(where, std::memory_order_release);
    parker_.Unpark();
  }

  // --- What adoption.h asks for ---
  bool MayAdoptFrom(const Group&) const { return true; }
  bool HasMoreReadyThan(const Group&) const { return false; }
  void Adopt(unsigned, FiberEntity* fiber) { fiber->set_group(this); }

  bool HasWork() const { return queue_.load(std::memory_order_relaxed) != nullptr; }
  FiberEntity* Pop() {
    FiberEntity* const fiber = queue_.exchange(nullptr, std::memory_order_acquire);
    MODEL_CHECK(fiber == nullptr || fiber->group() == this, "a group's queue holds a fiber of another group");
    return fiber;
  }
  // As SchedulingGroup::ReadyBy().
  void Push(FiberEntity* fiber) {
    MODEL_CHECK(queue_.exchange(fiber, std::memory_order_acq_rel) == nullptr, "two fibers, but there is one");
    base::ThreadFence(std::memory_order_seq_cst);
    NotifyAfterFence(*this, /*local=*/false, [] { return false; });
  }

  void AddPartner(Group* group) {
    partners_.push_back(group);
    partner_mask_.Add(group->slot());
  }
  Group* TakeErrand() { return TakeErrandFrom(sent_to_); }
  model::Parker& parker() { return parker_; }

 private:
  IdleGroups* const all_;
  const int slot_;
  std::vector<Group*> partners_;
  IdleGroups::Mask partner_mask_;
  IdleWorkers idle_;
  base::Atomic<bool> steal_requested_{false};
  base::Atomic<FiberEntity*> queue_{nullptr};
  base::Atomic<Group*> sent_to_{nullptr};
  model::Parker parker_;
};

namespace {

struct Worker {
  Group* group;
  unsigned index;
  FiberEntity* waker;
  FiberEntity* Waker() const { return waker; }
};

class IdleSide {
 public:
  using Fiber = FiberEntity;
  using Group = scheduling_group::Group;

  explicit IdleSide(Group* group) : group_(*group) {}

  Group& group() const { return group_; }
  unsigned index() const { return 0; }
  bool Stopping() const { return false; }
  Fiber* Find() { return group_.Pop(); }
  Fiber* Spin() { return Find(); }
  bool HasWork() const { return group_.HasWork(); }
  void Notify() { NotifyAfterPush(group_); }
  Fiber* StealNowAndThen() { return nullptr; }  // The rate never comes.
  Fiber* StealFrom(Group& victim) {
    Fiber* const fiber = victim.Pop();
    if (fiber != nullptr) fiber->set_group(&group_);
    return fiber;
  }
  static constexpr std::size_t kSeenBySteal = 1;
  std::size_t FibersToSee(const Group&) const { return 1; }
  void NapInSearch() {}
  void NothingFound() {}
  Group* TakeErrand() { return group_.TakeErrand(); }
  void Park() { group_.parker().Park(); }
  void GiveUpTimers() {}
  SpinPolicy& spin_policy() { return spin_policy_; }
  void SearchAgainAfter(std::chrono::nanoseconds) { model::SpinHint(); }
  Errand<Group> Sleep() {
    Park();
    return GetUp(*this);
  }

 private:
  Group& group_;
  SpinPolicy spin_policy_;
};

struct World {
  IdleGroups all;
  // The waker's, the fiber's, and a third one.
  std::array<Group, 3> groups{Group(&all, 0), Group(&all, 1), Group(&all, 2)};
  FiberEntity waker, fiber;  // a pair: the next turn is the last one
  model::Parker known;       // the fiber has made itself known to its waker

  Group& here() { return groups[0]; }
  Group& there() { return groups[1]; }

  World() {
    for (Group& group : groups) {
      for (Group& other : groups) {
        if (&other != &group) group.AddPartner(&other);
      }
    }
    waker.set_group(&here());
    fiber.set_group(&there());
    for (unsigned turn = 1; turn < kTurnsOfPair; ++turn) {
      const bool by_fiber = turn % 2 == 1;
      MODEL_CHECK(CountTurn(by_fiber ? &fiber : &waker, by_fiber ? &waker : &fiber) == turn, "they take turns");
    }
    fiber.state.OnCreated();
    fiber.state.OnAcquired();
  }

  // By a worker of the group.
  void Run(Group& group, FiberEntity* taken) {
    if (taken == nullptr) return;
    MODEL_CHECK(taken->group() == &group, "a worker runs a fiber of another group");
    taken->state.OnAcquired();
    taken->stack.Write(2);
    taken->set_partner(taken->partner());  // It wakes another one.
    model::Note("runs the fiber");
    ++taken->runs;
  }
  // The worker on which the fiber has run so far.
  void Leave() {
    fiber.stack.Write(1);
    fiber.state.OnParking();
    known.Unpark();
    fiber.stack.Write(1);  // The switch saves registers there.
    if (fiber.state.OnSwitchedOut() == SwitchOutResult::kReadyAgain) {
      MODEL_CHECK(fiber.group() == &there(), "a fiber that had not left its stack has changed its group");
      there().Push(&fiber);
    }
  }
  // As Unpark() of park.cc.
  void Wake() {
    known.Park();
    Worker worker{&here(), 0, &waker};
    if (fiber.state.OnWoken() == WakeResult::kEnqueue) GroupAfterWake(&worker, &fiber)->Push(&fiber);
  }
  [[noreturn]] void Idle(Group& group) {
    for (IdleSide side(&group);;) Run(group, NextFiberWhenIdle(side));
  }
};

World* NewWorld(model::Scenario& scenario) {
  auto* world = scenario.New<World>("world");
  scenario.Name(&world->fiber, sizeof(world->fiber), "fiber");
  scenario.AtEnd([=] { MODEL_CHECK(world->fiber.runs == 1, "the fiber waits though a worker sleeps, or ran twice"); });
  return world;
}

void Expect(const model::Options& options, void (*body)(model::Scenario&)) {
  const model::Result result = model::Explore(options, body);
  EXPECT_TRUE(result.passed) << result.report;
}

// It waited in the waker's slot, while the worker that it had run on slept.
TEST(AdoptionModel, AFiberWhoseWakerRunsOnIsRunByItsFormerWorker) {
  Expect({.name = "adoption: former worker", .preemptions = 3, .weak_choices = 1}, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario);
    scenario.Background("former", [=] {
      world->Leave();
      world->Idle(world->there());
    });
    scenario.Thread("waker", [=] { world->Wake(); });
  });
}

TEST(AdoptionModel, OrByTheWorkerOfAThirdGroup) {
  Expect({.name = "adoption: third group", .preemptions = 2, .weak_choices = 1}, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario);
    scenario.Thread("former", [=] { world->Leave(); });  // And runs others for ever.
    scenario.Thread("waker", [=] { world->Wake(); });
    scenario.Background("third", [=] { world->Idle(world->groups[2]); });
  });
}

// The waker parks: its worker and the thief want the same fiber.
TEST(AdoptionModel, AFiberIsRunOnceByTheWakersWorkerOrAThief) {
  Expect({.name = "adoption: waker or thief", .preemptions = 3, .weak_choices = 1}, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario);
    scenario.Background("former", [=] {
      world->Leave();
      world->Idle(world->there());
    });
    scenario.Thread("waker", [=] {
      world->Wake();
      world->Run(world->here(), world->here().Pop());
    });
  });
}

}  // namespace
}  // namespace weft::scheduling_group
