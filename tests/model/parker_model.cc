// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// base/thread/parker.{h,cc} through all interleavings, on a modelled futex: no Unpark() is lost (that would be a
// deadlock), what was done before it is visible, and the owner may destroy the Parker as soon as Park() has returned;
// likewise for an owner that waits elsewhere.
#include <gtest/gtest.h>

#include <chrono>

#include "weft/base/thread/parker.h"
#include "weft/tests/testing/interleave.h"

namespace weft::base {
namespace {

struct World {
  Parker parker;
  model::Data<int> data{0};
  model::Data<int> more{0};
};

std::chrono::steady_clock::time_point Soon() { return std::chrono::steady_clock::now() + std::chrono::hours(1); }

TEST(ParkerModel, ParkSeesWhatWasDoneBeforeUnpark) {
  const model::Result result = model::Explore(
      {.name = "parker: park, unpark", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
      [](model::Scenario& scenario) {
        auto* world = scenario.New<World>("world");
        scenario.Thread("owner", [=] {
          world->parker.Park();
          MODEL_CHECK(world->data.Read() == 1, "returned without an Unpark()");
        });
        scenario.Thread("waker", [=] {
          world->data.Write(1);
          world->parker.Unpark();
        });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(ParkerModel, TwoParksTwoWakersOneAfterTheOther) {
  const model::Result result = model::Explore(
      {.name = "parker: twice", .preemptions = model::kUnbounded, .weak_choices = 4}, [](model::Scenario& scenario) {
        auto* world = scenario.New<World>("world");
        auto* next = scenario.New<model::Parker>("next");
        scenario.Thread("owner", [=] {
          world->parker.Park();
          MODEL_CHECK(world->data.Read() == 1, "the first");
          next->Unpark();
          world->parker.Park();
          MODEL_CHECK(world->more.Read() == 1, "the second");
        });
        scenario.Thread("first waker", [=] {
          world->data.Write(1);
          world->parker.Unpark();
        });
        scenario.Thread("second waker", [=] {
          next->Park();
          world->more.Write(1);
          world->parker.Unpark();
        });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

// Two wake-ups at once may be merged, but then one Park() sees both.
TEST(ParkerModel, MergedWakeUpsAreBothSeen) {
  const model::Result result = model::Explore(
      {.name = "parker: merged", .preemptions = model::kUnbounded, .weak_choices = 4}, [](model::Scenario& scenario) {
        struct Both : World {
          Atomic<int> count{0};
        };
        auto* world = scenario.New<Both>("world");
        scenario.Thread("owner", [=] {
          // As many wake-ups as it takes to see both.
          while (world->count.load(std::memory_order_relaxed) != 2) world->parker.Park();
        });
        for (const char* name : {"first waker", "second waker"}) {
          scenario.Thread(name, [=] {
            world->count.fetch_add(1, std::memory_order_relaxed);
            world->parker.Unpark();
          });
        }
      });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(ParkerModel, ATimedParkReturnsFalseOnlyWithoutAnUnpark) {
  const model::Result result =
      model::Explore({.name = "parker: time-out", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
                     [](model::Scenario& scenario) {
                       auto* world = scenario.New<World>("world");
                       scenario.Thread("owner", [=] {
                         // The wake-up that came too late for the first is there for the second.
                         if (!world->parker.ParkUntil(Soon())) world->parker.Park();
                         MODEL_CHECK(world->data.Read() == 1, "returned without an Unpark()");
                       });
                       scenario.Thread("waker", [=] {
                         world->data.Write(1);
                         world->parker.Unpark();
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(ParkerModel, AnUnparkDuringANapIsKeptForThePark) {
  const model::Result result =
      model::Explore({.name = "parker: nap", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
                     [](model::Scenario& scenario) {
                       auto* world = scenario.New<World>("world");
                       scenario.Thread("owner", [=] {
                         world->parker.Nap(Soon());
                         world->parker.Park();
                         MODEL_CHECK(world->data.Read() == 1, "returned without an Unpark()");
                       });
                       scenario.Thread("waker", [=] {
                         world->data.Write(1);
                         world->parker.Unpark();
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(ParkerModel, TheOwnerMayDestroyItOnceParkHasReturned) {
  const model::Result result =
      model::Explore({.name = "parker: destroyed", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
                     [](model::Scenario& scenario) {
                       auto* parker = new Parker;
                       scenario.Thread("owner", [=] {
                         if (!parker->ParkUntil(Soon())) parker->Park();
                         delete parker;
                       });
                       scenario.Thread("waker", [=] { parker->Unpark(); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

// PK6: the time comes by Expire(), called by who has been told that the owner is parked.
TEST(ParkerModel, AParkThatExpiresTakesNoUnpark) {
  const model::Result result = model::Explore(
      {.name = "parker: expires", .preemptions = model::kUnbounded, .weak_choices = 4}, [](model::Scenario& scenario) {
        auto* world = scenario.New<World>("world");
        auto* parked = scenario.New<model::Parker>("parked");
        scenario.Thread("owner", [=] {
          bool told = false;
          const bool unparked = world->parker.ParkUntilExpired([&] {
            told = true;
            parked->Unpark();
          });
          if (!told) parked->Unpark();
          if (!unparked) world->parker.Park();
          MODEL_CHECK(world->data.Read() == 1, "returned without an Unpark()");
        });
        scenario.Thread("clock", [=] {
          parked->Park();
          static_cast<void>(world->parker.Expire());
        });
        scenario.Thread("waker", [=] {
          world->data.Write(1);
          world->parker.Unpark();
        });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(ParkerModel, ExpireEndsAPark) {
  const model::Result result =
      model::Explore({.name = "parker: expires alone", .preemptions = model::kUnbounded, .weak_choices = 4},
                     [](model::Scenario& scenario) {
                       auto* world = scenario.New<World>("world");
                       auto* parked = scenario.New<model::Parker>("parked");
                       scenario.Thread("owner", [=] {
                         MODEL_CHECK(!world->parker.ParkUntilExpired([&] { parked->Unpark(); }), "nobody unparks");
                       });
                       scenario.Thread("clock", [=] {
                         parked->Park();
                         MODEL_CHECK(world->parker.Expire(), "the owner is parked");
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

// --- PK5: the owner sleeps elsewhere, e.g. in epoll_wait(), which ends for reasons of its own, too. ---

struct Elsewhere : World {
  model::Parker other;  // what ends that sleep, kept as the kernel keeps an eventfd's event
  Atomic<int> told{0};  // how often a waker was told to end it

  void WakeUp() {
    if (!parker.Unpark()) return;
    told.fetch_add(1, std::memory_order_relaxed);
    other.Unpark();
  }
  // True: an Unpark() came.
  bool SleepElsewhere() {
    if (!parker.BeginWaitElsewhere()) return true;
    static_cast<void>(other.ParkOrTimeOut());
    return parker.EndWaitElsewhere();
  }
};

TEST(ParkerModel, ASleepElsewhereIsEndedByUnpark) {
  const model::Result result =
      model::Explore({.name = "parker: elsewhere", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
                     [](model::Scenario& scenario) {
                       auto* world = scenario.New<Elsewhere>("world");
                       scenario.Thread("owner", [=] {
                         // Nothing but the waker ends this sleep.
                         if (world->parker.BeginWaitElsewhere()) {
                           world->other.Park();
                           MODEL_CHECK(world->parker.EndWaitElsewhere(), "its waker is not seen");
                         }
                         MODEL_CHECK(world->data.Read() == 1, "returned without an Unpark()");
                       });
                       scenario.Thread("waker", [=] {
                         world->data.Write(1);
                         world->WakeUp();
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

// The waker uses what the owner has published of the other wait, e.g. which thread to interrupt.
TEST(ParkerModel, WhoIsToEndASleepElsewhereSeesHow) {
  const model::Result result = model::Explore(
      {.name = "parker: elsewhere, how", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
      [](model::Scenario& scenario) {
        auto* world = scenario.New<Elsewhere>("world");
        scenario.Thread("owner", [=] {
          world->more.Write(1);
          if (!world->parker.BeginWaitElsewhere()) return;
          world->other.Park();
          static_cast<void>(world->parker.EndWaitElsewhere());
        });
        scenario.Thread("waker", [=] {
          if (!world->parker.Unpark()) return;
          MODEL_CHECK(world->more.Read() == 1, "told to end a sleep of which it knows nothing");
          world->other.Unpark();
        });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(ParkerModel, ASleepElsewhereThatEndsByItselfLosesNoUnpark) {
  const model::Result result = model::Explore(
      {.name = "parker: elsewhere, by itself", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
      [](model::Scenario& scenario) {
        auto* world = scenario.New<Elsewhere>("world");
        scenario.Thread("owner", [=] {
          // The wake-up that came too late for the first is there for the second, on its parker.
          if (!world->SleepElsewhere()) world->parker.Park();
          MODEL_CHECK(world->data.Read() == 1, "returned without an Unpark()");
        });
        scenario.Thread("waker", [=] {
          world->data.Write(1);
          world->WakeUp();
        });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

// A waker that must end the wait may come after its end: in the next wait it does no harm.
TEST(ParkerModel, ALateEndOfASleepElsewhereDoesNoHarm) {
  const model::Result result = model::Explore({.name = "parker: elsewhere, twice", .preemptions = 3, .weak_choices = 2},
                                              [](model::Scenario& scenario) {
                                                auto* world = scenario.New<Elsewhere>("world");
                                                auto* next = scenario.New<model::Parker>("next");
                                                scenario.Thread("owner", [=] {
                                                  while (!world->SleepElsewhere()) model::SpinHint();
                                                  MODEL_CHECK(world->data.Read() == 1, "the first");
                                                  next->Unpark();
                                                  while (!world->SleepElsewhere()) model::SpinHint();
                                                  MODEL_CHECK(world->more.Read() == 1, "the second");
                                                });
                                                scenario.Thread("first waker", [=] {
                                                  world->data.Write(1);
                                                  world->WakeUp();
                                                });
                                                scenario.Thread("second waker", [=] {
                                                  next->Park();
                                                  world->more.Write(1);
                                                  world->WakeUp();
                                                });
                                              });
  EXPECT_TRUE(result.passed) << result.report;
}

// The first of several wakers gets true, and one wait sees what all of them did.
TEST(ParkerModel, OneOfSeveralWakersEndsASleepElsewhere) {
  const model::Result result = model::Explore(
      {.name = "parker: elsewhere, merged", .preemptions = model::kUnbounded, .weak_choices = 3},
      [](model::Scenario& scenario) {
        struct Both : Elsewhere {
          Atomic<int> count{0};
        };
        auto* world = scenario.New<Both>("world");
        scenario.Thread("owner", [=] {
          while (world->count.load(std::memory_order_relaxed) != 2) {
            if (!world->parker.BeginWaitElsewhere()) continue;
            world->other.Park();  // Only a waker ends it.
            static_cast<void>(world->parker.EndWaitElsewhere());
          }
        });
        for (const char* name : {"first waker", "second waker"}) {
          scenario.Thread(name, [=] {
            world->count.fetch_add(1, std::memory_order_relaxed);
            world->WakeUp();
          });
        }
        scenario.AtEnd([=] { MODEL_CHECK(world->told.load(std::memory_order_relaxed) <= 2, "told too often"); });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

}  // namespace
}  // namespace weft::base
