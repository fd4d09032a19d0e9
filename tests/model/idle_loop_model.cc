// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The idle loop (scheduling_group/idle/idle_loop.h) of workers of several groups that send each other steal requests
// (wake_and_steal.h), through all interleavings: the code that the workers run, on queues that
// are one word each. When nothing moves any more, no stealable fiber waits in a group whose workers are busy while a
// worker of another one sleeps, whatever group-local fibers wait beside it.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "weft/base/thread/parker.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/idle/wake_and_steal.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

constexpr unsigned kMaxWorkers = 2;
constexpr int kItems = 4;

struct Item {
  bool local = false;
  int runs = 0;
  Item* waits_for = nullptr;  // before whose end it does not end
  bool given_up = false;      // its timer is the timer thread's
  model::Parker done;
};

class Group {
 public:
  Group(IdleGroups* all, Item* items, int slot) : all_(all), items_(items), slot_(slot) {
    for (int i = 0; i < kItems; ++i) locals_ |= items[i].local ? 1u << i : 0;
  }

  // --- What wake_and_steal.h and idle_loop.h ask for ---
  IdleWorkers& idle() { return idle_; }
  IdleGroups& idle_groups() { return *all_; }
  int slot() const { return slot_; }
  const std::vector<Group*>& partners() const { return partners_; }
  const IdleGroups::Mask& partner_mask() const { return partner_mask_; }
  base::Atomic<bool>& steal_requested() { return steal_requested_; }
  // As the policies': group-local fibers count.
  bool HasStealable() const { return HasWork(); }
  bool MayStealFrom(const Group&) const { return true; }
  void Send(unsigned worker, Group* where) {
    sent_to_[worker].store(where, std::memory_order_release);
    parkers_[worker].Unpark();
  }

  // --- The queue ---
  bool HasWork() const { return queue_.load(std::memory_order_relaxed) != 0; }
  Item* Pop(bool steal) {
    std::uint32_t items = queue_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint32_t choice = steal ? items & ~locals_ : items;
      if (choice == 0) return nullptr;
      const int item = std::countr_zero(choice);
      if (queue_.compare_exchange_strong(items, items & ~(1u << item), std::memory_order_relaxed)) return &items_[item];
    }
  }

  // As SchedulingGroup::ReadyBy().
  void Push(Item* item) {
    queue_.fetch_or(1u << (item - items_), std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);
    NotifyAfterFence(*this, item->local, [] { return false; });
  }

  void AddPartner(Group* group) {
    partners_.push_back(group);
    partner_mask_.Add(group->slot());
  }

  Group* TakeErrand(unsigned worker) { return TakeErrandFrom(sent_to_[worker]); }
  model::Parker& parker(unsigned worker) { return parkers_[worker]; }

 private:
  IdleGroups* const all_;
  Item* const items_;
  const int slot_;
  std::uint32_t locals_ = 0;
  std::vector<Group*> partners_;
  IdleGroups::Mask partner_mask_;
  IdleWorkers idle_;
  base::Atomic<bool> steal_requested_{false};
  base::Atomic<std::uint32_t> queue_{0};
  std::array<base::Atomic<Group*>, kMaxWorkers> sent_to_{};
  std::array<model::Parker, kMaxWorkers> parkers_;
};

class IdleSide {
 public:
  using Fiber = Item;
  using Group = scheduling_group::Group;

  IdleSide(Group* group, unsigned index) : group_(*group), index_(index) {}

  Group& group() const { return group_; }
  unsigned index() const { return index_; }
  bool Stopping() const { return false; }
  Item* Find() { return group_.Pop(/*steal=*/false); }
  Item* Spin() { return Find(); }
  bool HasWork() const { return group_.HasWork(); }
  void Notify() { NotifyAfterPush(group_); }
  Item* StealNowAndThen() { return nullptr; }  // The rate never comes.
  Item* StealFrom(Group& victim) { return victim.Pop(/*steal=*/true); }
  static constexpr std::size_t kSeenBySteal = kItems;
  std::size_t FibersToSee(const Group&) const { return kItems; }
  void NapInSearch() {}
  void NothingFound() {}
  Group* TakeErrand() { return group_.TakeErrand(index_); }
  void Park() { group_.parker(index_).Park(); }
  // As in kept_timers.h, of one timer: of an item that is ready when it is due.
  void Keep(Item* item) { kept_ = item; }
  void GiveUpTimers() {
    if (Item* const item = std::exchange(kept_, nullptr)) item->given_up = true;
  }
  void ParkUntilTimer() { due_ = !group_.parker(index_).ParkOrTimeOut(); }
  void FireTimers() {
    if (!due_) return GiveUpTimers();
    if (Item* const item = std::exchange(kept_, nullptr)) group_.Push(item);
  }
  Errand<Group> CountedGetUp() { return GetUp(*this); }
  SpinPolicy& spin_policy() { return spin_policy_; }
  void SearchAgainAfter(std::chrono::nanoseconds) { model::SpinHint(); }
  Errand<Group> Sleep() {
    if (kept_ != nullptr) return SleepUntilTimer(*this);
    Park();
    return GetUp(*this);
  }

 private:
  Group& group_;
  const unsigned index_;
  SpinPolicy spin_policy_;
  Item* kept_ = nullptr;
  bool due_ = false;
};

struct World {
  IdleGroups all;
  Item items[kItems];
  std::vector<Group*> groups;
};

// Groups that all send requests to, and steal from, each other. The workers of each look for work when it begins; a
// group without workers is one whose workers are busy for ever.
// slots: between one group's and the next one's. one_sleeps: item 0 does, and its timer is kept by each worker (there
// is one).
World* NewWorld(model::Scenario& scenario, const std::vector<unsigned>& workers, std::uint32_t locals = 0,
                int slots = 1, bool one_sleeps = false) {
  static constexpr const char* kNames[3][kMaxWorkers] = {
      {"worker 0.0", "worker 0.1"}, {"worker 1.0", "worker 1.1"}, {"worker 2.0", "worker 2.1"}};
  auto* world = scenario.New<World>("world");
  for (int i = 0; i < kItems; ++i) world->items[i].local = (locals >> i & 1) != 0;
  for (std::size_t g = 0; g < workers.size(); ++g) {
    world->groups.push_back(scenario.New<Group>("group", &world->all, world->items, static_cast<int>(g) * slots));
  }
  for (Group* group : world->groups) {
    for (Group* other : world->groups) {
      if (other != group) group->AddPartner(other);
    }
  }
  Item* const sleeper = one_sleeps ? &world->items[0] : nullptr;
  for (std::size_t g = 0; g < workers.size(); ++g) {
    for (unsigned w = 0; w < workers[g]; ++w) {
      scenario.Background(kNames[g][w], [group = world->groups[g], w, sleeper] {
        IdleSide side(group, w);
        side.Keep(sleeper);
        for (;;) {
          Item* item = NextFiberWhenIdle(side);
          side.GiveUpTimers();
          model::Note("runs an item");
          ++item->runs;
          if (item->waits_for != nullptr) item->waits_for->done.Park();
          item->done.Unpark();
        }
      });
    }
  }
  return world;
}

void CheckRuns(World* world, int items, std::uint32_t not_these = 0) {
  for (int i = 0; i < items; ++i) {
    if ((not_these >> i & 1) != 0) continue;
    MODEL_CHECK(world->items[i].runs == 1, "a fiber waits though a worker sleeps, or it ran twice");
  }
  for (Group* group : world->groups) MODEL_CHECK(group->idle().spinners() == 0, "a spinner is counted that is none");
}

void Expect(const char* name, int preemptions, int weak, const std::function<void(model::Scenario&)>& body) {
  const model::Result result = model::Explore({.name = name, .preemptions = preemptions, .weak_choices = weak}, body);
  EXPECT_TRUE(result.passed) << result.report;
}

// It saw the local fiber, slept without another search, and was not seen: 13 of 4,000 times.
TEST(IdleLoopModel, AStealableFiberBehindALocalOneIsRunByTheNeighbour) {
  Expect("idle_loop: local, stealable", 3, 1, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 1}, /*locals=*/0b01);
    scenario.Thread("producer", [=] {
      world->groups[0]->Push(&world->items[0]);
      world->groups[0]->Push(&world->items[1]);
    });
    scenario.AtEnd([=] { CheckRuns(world, 2, 0b01); });
  });
}

// Each claim has an errand of its own: the worker takes none away that it has not been given yet.
TEST(IdleLoopModel, OneWorkerIsClaimedTwice) {
  Expect("idle_loop: claimed twice", 2, 1, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {1});
    scenario.Thread("producer 0", [=] { world->groups[0]->Push(&world->items[0]); });
    scenario.Thread("producer 1", [=] { world->groups[0]->Push(&world->items[1]); });
    scenario.AtEnd([=] { CheckRuns(world, 2); });
  });
}

TEST(IdleLoopModel, TwoFibersAreRunByTwoGroups) {
  Expect("idle_loop: two for two", 1, 1, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 1, 1});
    world->items[0].waits_for = &world->items[1];
    scenario.Thread("producer", [=] {
      world->groups[0]->Push(&world->items[0]);
      world->groups[0]->Push(&world->items[1]);
    });
    scenario.AtEnd([=] { CheckRuns(world, 2); });
  });
}

// Each group on a node of its own: a push reads a line for each.
TEST(IdleLoopModel, TwoFibersAreRunByGroupsOnTwoOtherNodes) {
  Expect("idle_loop: two for two, of three nodes", 1, 1, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 1, 1}, /*locals=*/0, IdleGroups::kSlotsOfLine);
    world->items[0].waits_for = &world->items[1];
    scenario.Thread("producer", [=] {
      world->groups[0]->Push(&world->items[0]);
      world->groups[0]->Push(&world->items[1]);
    });
    scenario.AtEnd([=] { CheckRuns(world, 2); });
  });
}

// RS4: the pushes are over, and the second sleeper is of the thief's own group.
TEST(IdleLoopModel, TwoFibersAreRunByTwoWorkersOfOneGroup) {
  const auto body = [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 2});
    world->items[0].waits_for = &world->items[1];
    scenario.Thread("producer", [=] {
      world->groups[0]->Push(&world->items[0]);
      world->groups[0]->Push(&world->items[1]);
    });
    scenario.AtEnd([=] { CheckRuns(world, 2); });
  };
  Expect("idle_loop: two of a group", 2, 0, body);
  Expect("idle_loop: two of a group, weak", 1, 1, body);
}

// One trusts in the other's request, which finds nobody: the worker goes to sleep between the two.
TEST(IdleLoopModel, WhoTrustsInARequestThatFindsNobodyIsLookedAfter) {
  Expect("idle_loop: a request for two", 2, 1, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 1});
    scenario.Thread("producer 0", [=] { world->groups[0]->Push(&world->items[0]); });
    scenario.Thread("producer 1", [=] { world->groups[0]->Push(&world->items[1]); });
    scenario.AtEnd([=] { CheckRuns(world, 2); });
  });
}

// The one that trusts in the other's request.
TEST(IdleLoopModel, TwoProducersOfOneGroup) {
  Expect("idle_loop: two producers", 2, 0, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 1, 1});
    world->items[0].waits_for = &world->items[1];
    scenario.Thread("producer 0", [=] { world->groups[0]->Push(&world->items[0]); });
    scenario.Thread("producer 1", [=] { world->groups[0]->Push(&world->items[1]); });
    scenario.AtEnd([=] { CheckRuns(world, 2); });
  });
}

// The worker that was sent finds a fiber of its own group, which does not end before the other one has.
TEST(IdleLoopModel, AStealRequestThatIsNotServedIsForwarded) {
  const auto body = [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 1, 1});
    world->items[1].waits_for = &world->items[0];
    scenario.Thread("producer 0", [=] { world->groups[0]->Push(&world->items[0]); });
    scenario.Thread("producer 1", [=] { world->groups[1]->Push(&world->items[1]); });
    scenario.AtEnd([=] { CheckRuns(world, 2); });
  };
  Expect("idle_loop: steal_from and own work", 2, 0, body);
  Expect("idle_loop: steal_from and own work, weak", 1, 1, body);
}

TEST(IdleLoopModel, TwoGroupsSendRequestsToTheSameOne) {
  const auto body = [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 0, 2});
    world->items[0].waits_for = &world->items[1];
    scenario.Thread("producer 0", [=] { world->groups[0]->Push(&world->items[0]); });
    scenario.Thread("producer 1", [=] { world->groups[1]->Push(&world->items[1]); });
    scenario.AtEnd([=] { CheckRuns(world, 2); });
  };
  Expect("idle_loop: two requests", 2, 0, body);
  Expect("idle_loop: two requests, weak", 1, 1, body);
}

// --- A worker that keeps the timer of a fiber which sleeps: KT1 in kept_timers.h ---

void CheckSleeper(World* world) {
  const Item& item = world->items[0];
  MODEL_CHECK(item.runs + (item.given_up ? 1 : 0) == 1, "a timer is kept by a worker that waits for something else");
}

// The worker waits for the token of that claim, and nobody knows how long.
TEST(IdleLoopModel, AClaimWhoseErrandDoesNotComeHidesNoTimer) {
  Expect("idle_loop: a timer, a claim", 3, 2, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {1}, /*locals=*/0, /*slots=*/1, /*one_sleeps=*/true);
    scenario.Thread("claimer", [=] { static_cast<void>(world->groups[0]->idle().ClaimSleeper()); });
    scenario.AtEnd([=] { CheckSleeper(world); });
  });
}

TEST(IdleLoopModel, ATimerAndAPushAtOnce) {
  Expect("idle_loop: a timer, a push", 2, 1, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {1}, /*locals=*/0, /*slots=*/1, /*one_sleeps=*/true);
    scenario.Thread("producer", [=] { world->groups[0]->Push(&world->items[1]); });
    scenario.AtEnd([=] {
      CheckRuns(world, 2, 0b01);
      CheckSleeper(world);
    });
  });
}

// Its fiber waits behind the stolen one.
TEST(IdleLoopModel, ATimerAndAStealRequestAtOnce) {
  Expect("idle_loop: a timer, a steal request", 2, 1, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {1, 0}, /*locals=*/0, /*slots=*/1, /*one_sleeps=*/true);
    scenario.Thread("producer", [=] { world->groups[1]->Push(&world->items[1]); });
    scenario.AtEnd([=] {
      CheckRuns(world, 2, 0b01);
      CheckSleeper(world);
    });
  });
}

// IG1: the bits say that a group may idle in which nobody does.
TEST(IdleLoopModel, ABitThatIsClearedHidesNoSleeper) {
  Expect("idle_loop: retract", 2, 1, [](model::Scenario& scenario) {
    World* world = NewWorld(scenario, {0, 0, 1});
    world->all.Announce(2);
    scenario.Thread("producer 0", [=] {
      // As SendNearestSleeper(), of a caller that has just found nobody.
      Group* group = world->groups[2];
      world->all.Retract(2, [=] { return !group->idle().sleepers().Empty(); });
    });
    scenario.Thread("producer 1", [=] { world->groups[1]->Push(&world->items[1]); });
    scenario.AtEnd([=] { MODEL_CHECK(world->items[1].runs == 1, "a fiber waits though a worker sleeps"); });
  });
}

}  // namespace
}  // namespace weft::scheduling_group
