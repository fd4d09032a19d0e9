// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Which fibers a wake across groups brings to the waker's group. The order of its steps, through all interleavings:
// tests/model/adoption_model.cc.

#include "weft/scheduling_group/idle/adoption.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/counters.h"
#include "weft/scheduling_group/worker/current_worker.h"

#include "scheduling_group/stealing_groups.h"
#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

// --- The rule, on two groups without threads ---

struct Home;

struct alignas(64) Talker {
  explicit Talker(Home* group) : home(group) {}
  Home* group() const { return home; }
  std::uintptr_t partner() const { return mark; }
  void set_partner(std::uintptr_t to) { mark = to; }
  bool MayBeAdopted() const { return may_be_adopted; }

  Home* home;
  std::uintptr_t mark = kNoPartner;
  bool may_be_adopted = true;
};

struct Home {
  struct Worker {
    Home* group;
    unsigned index;
    Talker* waker;
    Talker* Waker() const { return waker; }
  };
  bool MayAdoptFrom(const Home&) const { return is_neighbour; }
  bool HasMoreReadyThan(const Home& other) const { return ready > other.ready; }
  void Adopt(unsigned, Talker* fiber) {
    fiber->home = this;
    ++adopted;
  }

  bool is_neighbour = true;
  std::size_t ready = 0;
  int adopted = 0;
};

class AdoptionRule : public ::testing::Test {
 protected:
  static constexpr int kTurns = static_cast<int>(kTurnsOfPair);

  static void Wake(Talker& waker, Talker& fiber) {
    if (waker.home == fiber.home) {  // As park.cc.
      fiber.set_partner(kNoPartner);
      return;
    }
    Home::Worker worker{waker.home, 0, &waker};
    EXPECT_EQ(GroupAfterWake(&worker, &fiber), fiber.home);
  }
  int Adopted() const { return home_a_.adopted + home_b_.adopted; }
  // How many wakes, in turn, until one is adopted; 0: none is.
  int WakesUntilAdopted(int most = 100) {
    for (int i = 1; i <= most; ++i) {
      (i % 2 == 1) ? Wake(a_, b_) : Wake(b_, a_);
      if (Adopted() != 0) return i;
    }
    return 0;
  }

  Home home_a_, home_b_;
  Talker a_{&home_a_}, b_{&home_b_};
};

TEST_F(AdoptionRule, APairComesTogetherAfterSoManyTurns) {
  EXPECT_EQ(WakesUntilAdopted(), kTurns);
  EXPECT_EQ(a_.home, &home_b_);
}

// AD5: a thief took one of them. It is not brought back at once.
TEST_F(AdoptionRule, ThenTheyAreStrangers) {
  EXPECT_EQ(WakesUntilAdopted(), kTurns);
  a_.home = &home_a_;
  home_b_.adopted = 0;
  EXPECT_EQ(WakesUntilAdopted(), kTurns);
}

TEST_F(AdoptionRule, AFiberThatWakesManyAdoptsNone) {
  constexpr std::size_t kSleepers = 3;
  for (std::size_t answers = 1; answers <= kSleepers; ++answers) {
    Talker sleepers[kSleepers] = {Talker(&home_b_), Talker(&home_b_), Talker(&home_b_)};
    for (int round = 0; round < 100; ++round) {
      for (Talker& sleeper : sleepers) Wake(a_, sleeper);
      for (std::size_t i = 0; i < answers; ++i) Wake(sleepers[i], a_);
    }
    EXPECT_EQ(Adopted(), 0) << answers << " answers";
  }
}

TEST_F(AdoptionRule, NorDoesOneThatAsksManyInTurnOrServesThem) {
  Talker others[] = {Talker(&home_b_), Talker(&home_b_)};
  for (int round = 0; round < 100; ++round) {
    for (Talker& other : others) {
      Wake(a_, other);
      Wake(other, a_);
    }
  }
  EXPECT_EQ(Adopted(), 0);
}

TEST_F(AdoptionRule, OneThatNeverAnswersStays) {
  for (int i = 0; i < 100; ++i) Wake(a_, b_);
  EXPECT_EQ(Adopted(), 0);
}

// The answer was there before it waited, again and again: the two run at the same time.
TEST_F(AdoptionRule, SoDoesOneThatAnswersEverySecondWakeOnly) {
  for (int i = 0; i < 100; ++i) {
    Wake(a_, b_);
    Wake(a_, b_);
    Wake(b_, a_);
  }
  EXPECT_EQ(Adopted(), 0);
}

TEST_F(AdoptionRule, AWakeInItsOwnGroupMakesAFiberAStranger) {
  Talker neighbour{&home_b_};
  for (int i = 0; i < 100; ++i) {
    Wake(a_, b_);
    Wake(b_, a_);
    Wake(neighbour, b_);
  }
  EXPECT_EQ(Adopted(), 0);
}

TEST_F(AdoptionRule, SoDoesAWakeByAPoller) {
  Home::Worker poller{&home_a_, 0, nullptr};
  for (int i = 0; i < 100; ++i) {
    Wake(a_, b_);
    Wake(b_, a_);
    EXPECT_EQ(GroupAfterWake(&poller, &b_), &home_b_);
  }
  EXPECT_EQ(Adopted(), 0);
}

// AD3
TEST_F(AdoptionRule, OneThatMayNotLeaveItsGroupStaysAndItsPartnerComes) {
  a_.may_be_adopted = false;
  EXPECT_EQ(WakesUntilAdopted(), 2 * kTurns - 1);
  EXPECT_EQ(b_.home, &home_a_);
}

TEST_F(AdoptionRule, GroupsThatDoNotStealFromEachOtherAdoptNone) {
  home_a_.is_neighbour = home_b_.is_neighbour = false;
  EXPECT_EQ(WakesUntilAdopted(), 0);
}

// AD5
TEST_F(AdoptionRule, TheGroupWithFewerFibersReadyAdopts) {
  home_b_.ready = 1;
  EXPECT_EQ(WakesUntilAdopted(), 2 * kTurns - 1);
  EXPECT_EQ(b_.home, &home_a_);
}

// --- Workers ---

// A place in which one fiber at a time waits.
class Seat {
 public:
  void Wait() {
    FiberEntity* const self = CurrentFiber();
    PrepareToPark(self);
    fiber_ = self;
    ParkPrepared(self);
  }
  // A wake that comes before the fiber has left its stack counts for nothing.
  FiberEntity* Take() {
    while (!HasParked()) YieldCurrentFiber();
    return fiber_.exchange(nullptr);
  }
  void Wake() { Unpark(Take()); }
  // It has left its stack, too.
  bool HasParked() const {
    FiberEntity* const fiber = fiber_;
    return fiber != nullptr && fiber->state().Load() == FiberPhase::kParked;
  }

 private:
  std::atomic<FiberEntity*> fiber_{nullptr};
};

std::uint64_t Adopted(Groups& groups) {
  return ReadCounts(groups[0]).Sum().adopted + ReadCounts(groups[1]).Sum().adopted;
}

// Keeps all workers busy while it lives, so that nobody steals: each has two fibers that yield.
class Yielders {
 public:
  Yielders(Groups& groups, const std::vector<unsigned>& sizes) {
    int all = 0;
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      for (unsigned i = 0; i < 2 * sizes[g]; ++i, ++all) {
        StartIn(groups[g],
                [this] {
                  for (++alive_; !stop_;) YieldCurrentFiber();
                  --alive_;
                },
                {.group_local = true});
      }
    }
    SpinUntil([&] { return alive_ == all; });
  }
  ~Yielders() {
    stop_ = true;
    SpinUntil([&] { return alive_ == 0; });
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> alive_{0};
};

// Two fibers, one in each of the first two groups, that wake each other in turn.
class Pair {
 public:
  Pair(Groups& groups, int rounds, const StartOptions& options = {}) : rounds_(rounds) {
    StartIn(
        groups[1], [this] { Answer(); }, options);
    StartIn(
        groups[0], [this] { Ask(); }, options);
  }
  ~Pair() {
    SpinUntil([this] { return ended_ == 2; });
  }

  // Waits for the end. 0: never.
  int RoundsUntilTogether() {
    SpinUntil([this] { return over_.load(); });
    return together_at_;
  }

 private:
  void Ask() {
    for (int round = 1; round <= rounds_ && together_at_ == 0; ++round) {
      answers_.Wake();
      asks_.Wait();
      if (CurrentFiber()->group() == group_of_answers_.load()) together_at_ = round;
    }
    over_ = true;
    answers_.Wake();
    ++ended_;
  }
  void Answer() {
    for (;;) {
      answers_.Wait();
      if (over_) break;
      group_of_answers_ = CurrentFiber()->group();
      asks_.Wake();
    }
    ++ended_;
  }

  const int rounds_;
  std::atomic<int> together_at_{0}, ended_{0};
  std::atomic<bool> over_{false};
  Seat asks_, answers_;
  std::atomic<SchedulingGroup*> group_of_answers_{nullptr};
};

// A steal had split them, and while all workers were busy they stayed so, at five times the cost of a hand-off.
TEST(Adoption, APartedPairComesTogetherThoughAllWorkersAreBusy) {
  for (const auto& sizes : {std::vector<unsigned>{1, 1}, {2, 2}, {1, 3}}) {
    Groups groups(sizes);
    const Yielders yielders(groups, sizes);
    EXPECT_NE(Pair(groups, 10'000).RoundsUntilTogether(), 0) << sizes[0] << " and " << sizes[1] << " workers";
    EXPECT_GE(Adopted(groups), sizes[0] == 1 && sizes[1] == 1 ? 1u : 0u);  // Larger groups may idle, and steal.
  }
}

TEST(Adoption, AndThoughWorkersIdle) {
  Groups groups({2, 2}, {.every_n = 1'000'000});
  EXPECT_NE(Pair(groups, 10'000).RoundsUntilTogether(), 0);
}

constexpr int kManyRounds = 50;  // More than 2 * kTurnsOfPair wakes.

TEST(Adoption, GroupLocalAndPlacedFibersStay) {
  Groups groups({1, 1});
  const Yielders yielders(groups, {1, 1});
  EXPECT_EQ(Pair(groups, kManyRounds, {.group_local = true}).RoundsUntilTogether(), 0);
  EXPECT_EQ(Pair(groups, kManyRounds, {.placed = true}).RoundsUntilTogether(), 0);
  EXPECT_EQ(Adopted(groups), 0u);
}

TEST(Adoption, SoDoFibersOfGroupsThatDoNotStealOfOtherNodesAndOfOtherNames) {
  const std::vector<Stealing> ways = {
      {.every_n = 0}, {.every_n = 1'000'000, .distance = kOtherNode}, {.names = {"web", "render"}}};
  for (const Stealing& stealing : ways) {
    Groups groups({1, 1}, stealing);
    const Yielders yielders(groups, {1, 1});
    EXPECT_EQ(Pair(groups, kManyRounds).RoundsUntilTogether(), 0);
    EXPECT_EQ(Adopted(groups), 0u);
  }
}

// False: a thief was first.
bool AdoptsAndRunsOn(unsigned own) {
  Groups groups({own, 1});
  bool adopted = false;
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};
  for (unsigned i = 1; i < own; ++i) {
    StartIn(groups[0],
            [&] {
              for (++running; !stop;) std::this_thread::yield();
            },
            {.group_local = true});
  }
  SpinUntil([&] { return running == static_cast<int>(own) - 1; });
  Seat a, b;
  std::atomic<int> turns{0};
  std::atomic<bool> over{false}, done{false};
  StartIn(groups[1], [&] {
    for (;;) {
      b.Wait();
      ++turns;
      if (over) break;
      a.Wake();
    }
    done = true;
  });
  // It may not be adopted, so it adopts.
  StartIn(groups[0],
          [&] {
            for (bool together = false; !adopted && !together;) {
              FiberEntity* const fiber = b.Take();
              together = fiber->group() == &groups[0];
              const int before = turns;
              Unpark(fiber);
              adopted = Adopted(groups) != 0;
              if (adopted) SpinUntil([&] { return turns != before; });
              a.Wait();
            }
            over = true;
            b.Wake();
          },
          {.group_local = true});
  EXPECT_TRUE(SpinUntil([&] { return done.load(); }));
  stop = true;
  EXPECT_TRUE(groups.Drain());
  return adopted;
}

// AD4: it waited in the waker's slot, for ever.
TEST(Adoption, AFiberWhoseWakerRunsOnIsRunByAWorkerThatIdles) {
  for (const unsigned own : {1u, 2u}) {
    while (!AdoptsAndRunsOn(own) && !HasFailure()) {
    }
  }
}

// AD5, of groups without threads, of one worker and of three.
TEST(Adoption, AGroupHasMoreReadyIfEachOfItsWorkersHas) {
  struct Case {
    std::size_t one, three;  // ready
    bool one_has_more, three_has_more;
  };
  // The waker's worker takes one.
  constexpr Case kCases[] = {{0, 0, false, false}, {1, 0, false, false}, {2, 0, true, false},
                             {0, 1, false, false}, {0, 2, false, true},  {2, 3, false, false},
                             {3, 3, true, false},  {1, 4, false, false}, {1, 5, false, true}};
  for (const Case& ready : kCases) {
    const std::string policy = weft::testing::PolicyUnderTest();
    SchedulingGroup one({.workers = 1, .policy = policy, .run_queue_size = 64});
    SchedulingGroup three({.workers = 3, .policy = policy, .run_queue_size = 64});
    for (std::size_t i = 0; i < ready.one; ++i) StartIn(one, [] {});
    for (std::size_t i = 0; i < ready.three; ++i) StartIn(three, [] {});
    EXPECT_EQ(one.HasMoreReadyThan(three), ready.one_has_more) << ready.one << " and " << ready.three;
    EXPECT_EQ(three.HasMoreReadyThan(one), ready.three_has_more) << ready.one << " and " << ready.three;
    for (SchedulingGroup* group : {&one, &three}) {
      while (FiberEntity* fiber = group->PopFor(0)) DiscardFiber(fiber);
    }
  }
}

// --- Marks ---

constexpr std::uintptr_t kSomeMark = std::uintptr_t{1} << 63 | 64 | 3;

// AD6
TEST(Adoption, ANewFiberHasNoMarkOfTheOneThatHadItsEntity) {
  testing::WorkerGroup group(1);
  std::atomic<FiberEntity*> first{nullptr};
  ASSERT_TRUE(group.Start([&] {
    CurrentFiber()->set_partner(kSomeMark);
    first = CurrentFiber();
  }));
  group.Drain();
  std::atomic<bool> again{false};
  for (int i = 0; i < 1'000 && !again; ++i) {
    ASSERT_TRUE(group.Start([&] {
      EXPECT_EQ(CurrentFiber()->partner(), kNoPartner);
      again = CurrentFiber() == first;
    }));
    group.Drain();
  }
  EXPECT_TRUE(again);
}

// What is published after a switch, on the stack of a fiber that is about to begin, woke a fiber of another group: the
// one that was about to begin lost its callable.
TEST(Adoption, AFiberThatHasNotBegunKeepsItsCallable) {
  Groups groups({1, 1}, {.every_n = 0});
  struct Wakes {
    FiberEntity* self = nullptr;
    Seat* seat = nullptr;
    std::atomic<FiberEntity*> known{nullptr};
  };
  Seat seat;
  Wakes wakes{.seat = &seat};
  std::atomic<int> ended{0};
  StartIn(groups[1], [&] {
    seat.Wait();
    ++ended;
  });
  SpinUntil([&] { return seat.HasParked(); });
  StartIn(groups[0], [&] {
    wakes.self = CurrentFiber();
    StartIn(groups[0], [&] {
      EXPECT_EQ(CurrentFiber()->partner(), kNoPartner);
      UnparkPublished(wakes.known);
      ++ended;
    });
    ParkAndPublish(
        wakes.self,
        [](void* argument) noexcept {
          auto* const that = static_cast<Wakes*>(argument);
          Unpark(that->seat->Take());
          that->known = that->self;
          return true;
        },
        &wakes);
    ++ended;
  });
  SpinUntil([&] { return ended == 3; });
}

struct CountingOwner : FiberOwner {
  CountingOwner() : FiberOwner{[](FiberOwner* self) { ++static_cast<CountingOwner*>(self)->ends; }} {}
  std::atomic<int> ends{0};
};

TEST(Adoption, AFiberThatHasAnExitOwnerKeepsItAndNoMark) {
  testing::WorkerGroup group(1);
  CountingOwner owner;
  ASSERT_TRUE(group.Start([&] {
    CurrentFiber()->set_partner(kSomeMark);
    CurrentFiber()->set_exit_owner(&owner);
    CurrentFiber()->set_partner(kSomeMark);
    EXPECT_EQ(CurrentFiber()->partner(), kNoPartner);
  }));
  group.Drain();
  EXPECT_EQ(owner.ends, 1);
}

TEST(Adoption, AWakeInItsGroupByAThreadOrInABatchMakesAFiberForgetItsPartner) {
  testing::WorkerGroup group(1);
  const std::function<void(FiberEntity*)> wakes[] = {
      [](FiberEntity* fiber) { Unpark(fiber); },
      [](FiberEntity* fiber) { UnparkRemote(&fiber, 1); },
      [](FiberEntity* fiber) { std::thread([fiber] { Unpark(fiber); }).join(); },
  };
  ASSERT_TRUE(group.Start([&] {
    for (const auto& wake : wakes) {
      Seat seat;
      std::uintptr_t mark = kSomeMark;
      bool ran = false;
      ASSERT_TRUE(group.Start([&] {
        CurrentFiber()->set_partner(mark);
        seat.Wait();
        mark = CurrentFiber()->partner();
        ran = true;
      }));
      wake(seat.Take());
      while (!ran) YieldCurrentFiber();
      EXPECT_EQ(mark, kNoPartner);
    }
  }));
  group.Drain();
}

// --- AD2: what runs on a fiber's stack, and is not its own ---

// A fiber of the second group that yields until it is told to stop. Returns its mark.
class Bystander {
 public:
  explicit Bystander(Groups& groups) {
    StartIn(groups[1], [this] {
      for (here_ = true; !stop_;) {
        YieldCurrentFiber();
        if (CurrentFiber()->partner() != kNoPartner) mark_ = CurrentFiber()->partner();
      }
      gone_ = true;
    });
    SpinUntil([this] { return here_.load(); });
  }
  std::uintptr_t StopAndReadMark() {
    stop_ = true;
    SpinUntil([this] { return gone_.load(); });
    return mark_;
  }

 private:
  std::atomic<bool> here_{false}, stop_{false}, gone_{false};
  std::atomic<std::uintptr_t> mark_{kNoPartner};
};

// The fiber that comes next is the worker's current one by then.
TEST(Adoption, TheEndOfAFiberIsNotTheWakeOfTheNextOne) {
  Groups groups({1, 1}, {.every_n = 0});
  struct Owner : FiberOwner {
    explicit Owner(Seat* joiner)
        : FiberOwner{[](FiberOwner* self) { static_cast<Owner*>(self)->seat->Wake(); }}, seat(joiner) {}
    Seat* seat;
  };
  Bystander bystander(groups);
  Seat joiner;
  Owner owner(&joiner);
  std::atomic<std::uintptr_t> mark{kSomeMark};
  StartIn(groups[0], [&] {
    CurrentFiber()->set_partner(kSomeMark);
    StartIn(groups[1],
            [&] {
              while (!joiner.HasParked()) YieldCurrentFiber();
            },
            {.owner = &owner});
    joiner.Wait();
    mark = CurrentFiber()->partner();
  });
  SpinUntil([&] { return mark != kSomeMark; });
  EXPECT_EQ(mark, kNoPartner);
  EXPECT_EQ(bystander.StopAndReadMark(), kNoPartner);
}

// A poll on the stack of a fiber that yields.
class OnePoll final : public Reactor {
 public:
  void TryPoll() override {}
  void PollIfDue(std::chrono::steady_clock::time_point) override {
    if (CurrentFiber() != nullptr && seat.HasParked()) seat.Wake();
  }
  bool TryEnter() override { return false; }
  void Wait() override {}
  void WaitUntil(std::chrono::steady_clock::time_point /*until*/) override {}
  void LeaveAfterDispatch() override {}
  void Interrupt() override {}

  Seat seat;
};

TEST(Adoption, APollIsNotTheWakeOfTheFiberOnWhoseStackItRuns) {
  Groups groups({1, 1}, {.every_n = 0});
  auto owned = std::make_unique<OnePoll>();
  OnePoll& poll = *owned;
  ASSERT_TRUE(groups[1].SetReactor(std::move(owned)));
  Bystander bystander(groups);
  std::atomic<std::uintptr_t> mark{kSomeMark};
  StartIn(groups[0], [&] {
    CurrentFiber()->set_partner(kSomeMark);
    poll.seat.Wait();
    mark = CurrentFiber()->partner();
  });
  SpinUntil([&] { return mark != kSomeMark; });
  EXPECT_EQ(mark, kNoPartner);
  EXPECT_EQ(bystander.StopAndReadMark(), kNoPartner);
}

}  // namespace
}  // namespace weft::scheduling_group
