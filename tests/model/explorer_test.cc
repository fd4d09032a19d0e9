// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the explorer reports, and how: races, lifetimes, deadlocks, livelocks, blocking, traces and replays. (Which
// outcomes it finds is in litmus_test.cc and axioms_test.cc.)
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "weft/base/thread/cpu.h"
#include "weft/tests/testing/model_atomic.h"

namespace weft::model {
namespace {

using base::Atomic;

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
constexpr std::memory_order kAcquire = std::memory_order_acquire;
constexpr std::memory_order kRelease = std::memory_order_release;

Result Explored(const std::function<void(Scenario&)>& body) { return Explore({.name = "explorer test"}, body); }

// --- Races ---

Result MessagePassing(std::memory_order store, std::memory_order load) {
  return Explored([=](Scenario& scenario) {
    struct Shared {
      Atomic<int> flag{0};
      Data<int> data{0};
    };
    auto* s = scenario.New<Shared>("shared");
    scenario.Name(&s->flag, sizeof(s->flag), "flag");
    scenario.Name(&s->data, sizeof(s->data), "data");
    scenario.Thread("writer", [=] {
      s->data.Write(1);
      s->flag.store(1, store);
    });
    scenario.Thread("reader", [=] {
      if (s->flag.load(load) == 1) MODEL_CHECK(s->data.Read() == 1, "reads what was written");
    });
  });
}

TEST(Explorer, DataHandedOffByReleaseAndAcquireIsNoRace) {
  const Result result = MessagePassing(kRelease, kAcquire);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(Explorer, DataHandedOffByLessIsARace) {
  for (const Result& result : {MessagePassing(kRelaxed, kAcquire), MessagePassing(kRelease, kRelaxed)}) {
    EXPECT_TRUE(result.violation);
    EXPECT_NE(result.message.find("data race"), std::string::npos) << result.report;
  }
}

TEST(Explorer, TwoReadsAreNoRaceAReadAndAWriteAre) {
  const auto with = [](bool write) {
    return Explored([=](Scenario& scenario) {
      auto* data = scenario.New<Data<int>>("data", 0);
      scenario.Thread("reader", [=] { data->Read(); });
      scenario.Thread("other", [=] { write ? data->Write(1) : static_cast<void>(data->Read()); });
    });
  };
  EXPECT_TRUE(with(false).passed);
  EXPECT_TRUE(with(true).violation);
}

// --- Lifetimes ---

TEST(Explorer, AnObjectPublishedWithoutReleaseIsUsedBeforeItsConstruction) {
  const auto with = [](std::memory_order order) {
    return Explored([=](Scenario& scenario) {
      auto* pointer = scenario.New<Atomic<Atomic<int>*>>("pointer", nullptr);
      scenario.Thread("maker", [=] { pointer->store(new Atomic<int>(1), order); });
      scenario.Thread("user", [=] {
        if (Atomic<int>* p = pointer->load(kAcquire)) p->load(kRelaxed);
      });
    });
  };
  EXPECT_TRUE(with(kRelease).passed);
  const Result result = with(kRelaxed);
  EXPECT_NE(result.message.find("its construction has not happened before"), std::string::npos) << result.report;
}

TEST(Explorer, AnObjectThatAnotherMayStillUseIsNotToBeDeleted) {
  const auto with = [](bool wait) {
    return Explored([=](Scenario& scenario) {
      struct Shared {
        Atomic<int>* object = new Atomic<int>(0);
        Atomic<int> users{1};
      };
      auto* s = scenario.New<Shared>("shared");
      scenario.Thread("user", [=] {
        s->object->store(1, kRelaxed);
        s->users.store(0, kRelease);
      });
      scenario.Thread("deleter", [=] {
        while (wait && s->users.load(kAcquire) != 0) SpinHint();
        delete s->object;
      });
    });
  };
  EXPECT_TRUE(with(true).passed);
  EXPECT_TRUE(with(false).violation);
}

// --- Ends ---

TEST(Explorer, LocksTakenInOppositeOrdersAreADeadlock) {
  const Result result = Explored([](Scenario& scenario) {
    struct Shared {
      Parker a;
      Parker b;
    };
    auto* s = scenario.New<Shared>("shared");
    s->a.Unpark();
    s->b.Unpark();
    scenario.Thread("ab", [=] {
      s->a.Park();
      s->b.Park();
      s->b.Unpark();
      s->a.Unpark();
    });
    scenario.Thread("ba", [=] {
      s->b.Park();
      s->a.Park();
      s->a.Unpark();
      s->b.Unpark();
    });
  });
  EXPECT_EQ(result.message, "deadlock: every thread sleeps: ab ba") << result.report;
}

TEST(Explorer, AWaitForWhatNeverComesIsALivelock) {
  const Result result = Explored([](Scenario& scenario) {
    auto* flag = scenario.New<Atomic<int>>("flag", 0);
    scenario.Thread("waiter", [=] {
      while (flag->load(kAcquire) == 0) base::CpuRelax();
    });
    scenario.Thread("other", [=] { flag->store(0, kRelease); });
  });
  EXPECT_NE(result.message.find("livelock"), std::string::npos) << result.report;
}

TEST(Explorer, ASpinLoopEndsOnceTheStoreItWaitsForIsMade) {
  const Result result = Explored([](Scenario& scenario) {
    auto* flag = scenario.New<Atomic<int>>("flag", 0);
    scenario.Thread("waiter", [=] {
      while (flag->load(kAcquire) == 0) base::CpuRelax();
    });
    scenario.Thread("setter", [=] { flag->store(1, kRelease); });
  });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(Explorer, TwoThreadsThatSpinDoNotStarveAThird) {
  const Result result = Explored([](Scenario& scenario) {
    auto* turns = scenario.New<Atomic<int>>("turns", 0);
    auto* stop = scenario.New<Atomic<int>>("stop", 0);
    for (const char* name : {"spinner 0", "spinner 1"}) {
      scenario.Thread(name, [=] {
        while (stop->load(kRelaxed) == 0) {
          turns->fetch_add(1, kRelaxed);  // A change for the other.
          SpinHint();
        }
      });
    }
    scenario.Thread("stopper", [=] { stop->store(1, kRelaxed); });
  });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(Explorer, BackgroundThreadsMaySleepAtTheEnd) {
  const Result result = Explored([](Scenario& scenario) {
    auto* parker = scenario.New<Parker>("parker");
    auto* woken = scenario.New<Data<int>>("woken", 0);
    scenario.Background("sleeper", [=] {
      for (;;) {
        parker->Park();
        woken->Write(woken->Read() + 1);
      }
    });
    scenario.Thread("waker", [=] { parker->Unpark(); });
    scenario.AtEnd([=] { MODEL_CHECK(woken->Read() == 1, "the background thread runs until it sleeps"); });
  });
  EXPECT_TRUE(result.passed) << result.report;
}

// --- Blocking ---

TEST(Explorer, AParkerKeepsOneTokenAndOrdersWhatCameBefore) {
  const Result result = Explored([](Scenario& scenario) {
    struct Shared {
      Parker parker;
      Data<int> data{0};
    };
    auto* s = scenario.New<Shared>("shared");
    scenario.Thread("parker", [=] {
      s->parker.Park();
      MODEL_CHECK(s->data.Read() == 1, "sees what the unparker did");
    });
    scenario.Thread("unparker", [=] {
      s->data.Write(1);
      MODEL_CHECK(s->parker.Unpark(), "the first token");
    });
  });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(Explorer, AParkWithATimeOutEndsEitherWay) {
  std::set<bool> outcomes;
  const Result result = Explored([&](Scenario& scenario) {
    struct Shared {
      Parker parker;
      bool in_time = false;
    };
    auto* s = scenario.New<Shared>("shared");
    scenario.Thread("parker", [=] { s->in_time = s->parker.ParkOrTimeOut(); });
    scenario.Thread("unparker", [=] { s->parker.Unpark(); });
    scenario.AtEnd([=, &outcomes] { outcomes.insert(s->in_time); });
  });
  EXPECT_TRUE(result.passed) << result.report;
  EXPECT_EQ(outcomes.size(), 2u);
}

TEST(Explorer, AFutexWaitSleepsOnlyWhileTheWordIsAsExpected) {
  const auto with = [](bool store_first) {
    return Explored([=](Scenario& scenario) {
      auto* word = scenario.New<Atomic<std::uint32_t>>("word", 0u);
      scenario.Thread("waiter", [=] { static_cast<void>(base::FutexWait(word, 0)); });
      scenario.Thread("waker", [=] {
        if (store_first) word->store(1, kRelease);
        base::FutexWake(word, 1);
      });
    });
  };
  EXPECT_TRUE(with(true).passed);
  EXPECT_EQ(with(false).message, "deadlock: every thread sleeps: waiter");
}

TEST(Explorer, ALockBuiltOnBlockWhileExcludes) {
  const Result result = Explored([](Scenario& scenario) {
    struct Shared {
      Atomic<std::uint32_t> lock{0};
      Data<int> data{0};
    };
    auto* s = scenario.New<Shared>("shared");
    for (const char* name : {"first", "second", "third"}) {
      scenario.Thread(name, [=] {
        std::uint32_t free = 0;
        while (!s->lock.compare_exchange_strong(free, 1, kAcquire, kRelaxed)) {
          free = 0;
          BlockWhile(&s->lock, 1);
        }
        s->data.Write(s->data.Read() + 1);
        s->lock.store(0, kRelease);
      });
    }
    scenario.AtEnd([=] { MODEL_CHECK(s->data.Read() == 3, "each had its turn"); });
  });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(Explorer, ChoicesOfTheScenarioAreExplored) {
  std::set<int> outcomes;
  const Result result = Explored([&](Scenario& scenario) {
    auto* sum = scenario.New<int>("sum", 0);
    scenario.Thread("chooser", [=] { *sum = Choose(2) * 3 + Choose(3); });
    scenario.AtEnd([=, &outcomes] { outcomes.insert(*sum); });
  });
  EXPECT_TRUE(result.passed) << result.report;
  EXPECT_EQ(outcomes.size(), 6u);
}

TEST(Explorer, WeakCompareExchangesFailForNoReasonIfAllowed) {
  const auto with = [](int spurious_failures) {
    return Explore({.name = "spurious", .spurious_failures = spurious_failures}, [](Scenario& scenario) {
      auto* word = scenario.New<Atomic<int>>("word", 0);
      scenario.Thread("thread", [=] {
        int expected = 0;
        MODEL_CHECK(word->compare_exchange_weak(expected, 1, kRelaxed), "it has the value expected");
      });
    });
  };
  EXPECT_TRUE(with(0).passed);
  EXPECT_TRUE(with(1).violation);
}

// --- Bounds ---

TEST(Explorer, BoundsLimitPreemptionsAndWeakOutcomes) {
  // The reader must be interrupted between its loads.
  const auto torn = [](int preemptions) {
    return Explore({.name = "torn", .preemptions = preemptions, .weak_choices = 0}, [](Scenario& scenario) {
      auto* word = scenario.New<Atomic<int>>("word", 0);
      scenario.Thread("reader", [=] {
        const int first = word->load(kRelaxed);
        MODEL_CHECK(word->load(kRelaxed) == first, "torn");
      });
      scenario.Thread("writer", [=] { word->store(1, kRelaxed); });
    });
  };
  EXPECT_TRUE(torn(0).passed);
  EXPECT_TRUE(torn(1).violation);
  EXPECT_TRUE(torn(kUnbounded).violation);
}

TEST(Explorer, WhatIsNotExploredToItsEndDoesNotPass) {
  const Result result = Explore({.name = "too long", .max_executions = 3, .prune = false}, [](Scenario& scenario) {
    auto* word = scenario.New<Atomic<int>>("word", 0);
    for (const char* name : {"first", "second"}) {
      scenario.Thread(name, [=] {
        for (int i = 0; i < 4; ++i) word->fetch_add(1, kRelaxed);
      });
    }
  });
  EXPECT_FALSE(result.passed);
  EXPECT_FALSE(result.violation);
  EXPECT_FALSE(result.exhausted);
  EXPECT_NE(result.report.find("not explored to its end"), std::string::npos);
}

// --- Reports ---

TEST(Explorer, AReportNamesThreadsOperationsLocationsAndValues) {
  const Result result = MessagePassing(kRelease, kRelaxed);
  EXPECT_NE(result.report.find("model: violation in \"explorer test\""), std::string::npos) << result.report;
  EXPECT_NE(result.report.find("writer       writes data\n"), std::string::npos) << result.report;
  EXPECT_NE(result.report.find("writer       flag.store(1, release)"), std::string::npos) << result.report;
  EXPECT_NE(result.report.find("reader       flag.load(relaxed) = 1"), std::string::npos) << result.report;
  EXPECT_NE(result.report.find("WEFT_MODEL_REPLAY="), std::string::npos) << result.report;
}

TEST(Explorer, AReportedScheduleCanBeReplayed) {
  const Result found = MessagePassing(kRelease, kRelaxed);
  const std::string marker = "WEFT_MODEL_REPLAY='";
  const std::size_t begin = found.report.find(marker) + marker.size();
  const std::string schedule = found.report.substr(begin, found.report.find('\'', begin) - begin);
  ::setenv("WEFT_MODEL_REPLAY", schedule.c_str(), /*replace=*/1);
  const Result replayed = MessagePassing(kRelease, kRelaxed);
  ::unsetenv("WEFT_MODEL_REPLAY");
  EXPECT_EQ(replayed.executions, 1u);
  EXPECT_EQ(replayed.message, found.message);
}

TEST(Explorer, MemoryOfAnExecutionIsTakenBack) {
  // Threads that are abandoned in the middle own memory: no leak, and the same addresses in each execution.
  const void* first = nullptr;
  bool moved = false;
  const Result result = Explored([&](Scenario& scenario) {
    auto* word = scenario.New<Atomic<int>>("word", 0);
    if (first == nullptr) first = word;
    moved |= word != first;
    for (const char* name : {"first", "second"}) {
      scenario.Thread(name, [=] {
        const std::string text(1000, 'x');
        word->fetch_add(static_cast<int>(text.size()), kRelaxed);
        word->fetch_add(1, kRelaxed);
      });
    }
  });
  EXPECT_TRUE(result.passed) << result.report;
  EXPECT_GT(result.executions, 1u);
  EXPECT_FALSE(moved);
}

}  // namespace
}  // namespace weft::model
