// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The explorer against the classic litmus tests: it must find the weak outcomes that C++20 allows, all of them, and
// none that it forbids. Each test lists the exact set of outcomes; a trailing comment names the weak ones.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "weft/tests/testing/model_atomic.h"

namespace weft::model {
namespace {

using base::Atomic;
using base::ThreadFence;
using std::memory_order;

constexpr memory_order kRelaxed = std::memory_order_relaxed;
constexpr memory_order kAcquire = std::memory_order_acquire;
constexpr memory_order kRelease = std::memory_order_release;
constexpr memory_order kAcqRel = std::memory_order_acq_rel;
constexpr memory_order kSeqCst = std::memory_order_seq_cst;

using Outcomes = std::set<std::string>;

struct Vars {
  Atomic<int> x{0};
  Atomic<int> y{0};
  std::array<int, 4> r{-1, -1, -1, -1};  // each written by one thread

  std::string Text(int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) text += std::to_string(r[i]);
    return text;
  }
};

Options Unbounded(const char* name) { return {.name = name, .preemptions = kUnbounded, .weak_choices = kUnbounded}; }

// The outcomes of `threads`, each given the variables; `registers` of them make an outcome.
template <class... Threads>
Outcomes Explored(const char* name, int registers, Threads... threads) {
  Outcomes outcomes;
  const Result result = Explore(Unbounded(name), [&](Scenario& scenario) {
    Vars* v = scenario.New<Vars>("v");
    scenario.Name(&v->x, sizeof(v->x), "x");
    scenario.Name(&v->y, sizeof(v->y), "y");
    (scenario.Thread("thread", [=] { threads(*v); }), ...);
    scenario.AtEnd([=, &outcomes] { outcomes.insert(v->Text(registers)); });
  });
  EXPECT_TRUE(result.passed) << result.report;
  return outcomes;
}

// As Explored(), for the values that x and y end with.
template <class... Threads>
Outcomes FinalValues(const char* name, Threads... threads) {
  Outcomes outcomes;
  const Result result = Explore(Unbounded(name), [&](Scenario& scenario) {
    Vars* v = scenario.New<Vars>("v");
    (scenario.Thread("thread", [=] { threads(*v); }), ...);
    scenario.AtEnd(
        [=, &outcomes] { outcomes.insert(std::to_string(v->x.load(kRelaxed)) + std::to_string(v->y.load(kRelaxed))); });
  });
  EXPECT_TRUE(result.passed) << result.report;
  return outcomes;
}

// --- Store buffering: may both threads miss the other's store? ---

Outcomes StoreBuffering(const char* name, memory_order store, memory_order load) {
  return Explored(
      name, 2,
      [=](Vars& v) {
        v.x.store(1, store);
        v.r[0] = v.y.load(load);
      },
      [=](Vars& v) {
        v.y.store(1, store);
        v.r[1] = v.x.load(load);
      });
}

TEST(Litmus, StoreBufferingIsSeenWithRelaxedAndWithReleaseAcquire) {
  const Outcomes all{"00", "01", "10", "11"};  // 00
  EXPECT_EQ(StoreBuffering("SB relaxed", kRelaxed, kRelaxed), all);
  EXPECT_EQ(StoreBuffering("SB release acquire", kRelease, kAcquire), all);
  EXPECT_EQ(StoreBuffering("SB release seq_cst", kRelease, kSeqCst), all);
  EXPECT_EQ(StoreBuffering("SB seq_cst acquire", kSeqCst, kAcquire), all);
}

TEST(Litmus, StoreBufferingIsForbiddenWithSeqCst) {
  EXPECT_EQ(StoreBuffering("SB seq_cst", kSeqCst, kSeqCst), (Outcomes{"01", "10", "11"}));
}

Outcomes StoreBufferingWithFences(const char* name, memory_order first, memory_order second) {
  return Explored(
      name, 2,
      [=](Vars& v) {
        v.x.store(1, kRelaxed);
        ThreadFence(first);
        v.r[0] = v.y.load(kRelaxed);
      },
      [=](Vars& v) {
        v.y.store(1, kRelaxed);
        ThreadFence(second);
        v.r[1] = v.x.load(kRelaxed);
      });
}

TEST(Litmus, StoreBufferingNeedsTwoFullFences) {
  EXPECT_EQ(StoreBufferingWithFences("SB two full fences", kSeqCst, kSeqCst), (Outcomes{"01", "10", "11"}));
  const Outcomes all{"00", "01", "10", "11"};
  EXPECT_EQ(StoreBufferingWithFences("SB one full fence", kSeqCst, kAcqRel), all);
  EXPECT_EQ(StoreBufferingWithFences("SB acq_rel fences", kAcqRel, kAcqRel), all);
}

Outcomes StoreBufferingWithAsymmetricFences(const char* name, void (*second)()) {
  return Explored(
      name, 2,
      [=](Vars& v) {
        v.x.store(1, kRelaxed);
        base::LightFence();
        v.r[0] = v.y.load(kRelaxed);
      },
      [=](Vars& v) {
        v.y.store(1, kRelaxed);
        second();
        v.r[1] = v.x.load(kRelaxed);
      });
}

TEST(Litmus, StoreBufferingNeedsAHeavyFenceAgainstALightOne) {
  const Outcomes all{"00", "01", "10", "11"};
  EXPECT_EQ(StoreBufferingWithAsymmetricFences("SB light, heavy", &base::HeavyFence), (Outcomes{"01", "10", "11"}));
  EXPECT_EQ(StoreBufferingWithAsymmetricFences("SB light, full", [] { ThreadFence(kSeqCst); }), all);
  EXPECT_EQ(StoreBufferingWithAsymmetricFences("SB light, light", &base::LightFence), all);
}

// Each other thread fences at a moment of its own, so two threads without fences miss each other's stores as before.
TEST(Litmus, AHeavyFenceOfAThirdThreadIsAFenceOfTheOthersOnceOnly) {
  const auto outcomes = Explored(
      "SB light, light, and a heavy fence", 2,
      [](Vars& v) {
        v.x.store(1, kRelaxed);
        v.r[0] = v.y.load(kRelaxed);
      },
      [](Vars& v) {
        v.y.store(1, kRelaxed);
        v.r[1] = v.x.load(kRelaxed);
      },
      [](Vars&) { base::HeavyFence(); });
  EXPECT_EQ(outcomes, (Outcomes{"00", "01", "10", "11"}));
}

TEST(Litmus, StoreBufferingWithAFenceAgainstSeqCstAccesses) {
  const auto outcomes = Explored(
      "SB fence, seq_cst", 2,
      [](Vars& v) {
        v.x.store(1, kRelaxed);
        ThreadFence(kSeqCst);
        v.r[0] = v.y.load(kRelaxed);
      },
      [](Vars& v) {
        v.y.store(1, kSeqCst);
        v.r[1] = v.x.load(kSeqCst);
      });
  EXPECT_EQ(outcomes, (Outcomes{"01", "10", "11"}));
}

TEST(Litmus, StoreBufferingIsForbiddenByReadModifyWritesOfTheOtherVariableOnlyWhenSeqCst) {
  const auto with = [](const char* name, memory_order order) {
    return Explored(
        name, 2,
        [=](Vars& v) {
          v.x.store(1, kRelaxed);
          v.r[0] = v.y.fetch_add(0, order);
        },
        [=](Vars& v) {
          v.y.store(1, kRelaxed);
          v.r[1] = v.x.fetch_add(0, order);
        });
  };
  EXPECT_TRUE(with("SB RMW acq_rel", kAcqRel).contains("00"));
  // The stores are relaxed: seq_cst accesses do not order them (on AArch64 they indeed do not).
  EXPECT_TRUE(with("SB RMW seq_cst", kSeqCst).contains("00"));
}

// --- Message passing: is what was stored before the flag seen after the flag? ---

Outcomes MessagePassing(const char* name, memory_order store, memory_order load) {
  return Explored(
      name, 2,
      [=](Vars& v) {
        v.x.store(1, kRelaxed);
        v.y.store(1, store);
      },
      [=](Vars& v) {
        v.r[0] = v.y.load(load);
        v.r[1] = v.x.load(kRelaxed);
      });
}

TEST(Litmus, MessagePassingNeedsReleaseAndAcquire) {
  const Outcomes ordered{"00", "01", "11"};
  const Outcomes all{"00", "01", "10", "11"};  // 10
  EXPECT_EQ(MessagePassing("MP release acquire", kRelease, kAcquire), ordered);
  EXPECT_EQ(MessagePassing("MP seq_cst", kSeqCst, kSeqCst), ordered);
  EXPECT_EQ(MessagePassing("MP relaxed acquire", kRelaxed, kAcquire), all);
  EXPECT_EQ(MessagePassing("MP release relaxed", kRelease, kRelaxed), all);
  EXPECT_EQ(MessagePassing("MP relaxed", kRelaxed, kRelaxed), all);
}

TEST(Litmus, MessagePassingByFences) {
  const auto with = [](const char* name, memory_order writer, memory_order reader) {
    return Explored(
        name, 2,
        [=](Vars& v) {
          v.x.store(1, kRelaxed);
          ThreadFence(writer);
          v.y.store(1, kRelaxed);
        },
        [=](Vars& v) {
          v.r[0] = v.y.load(kRelaxed);
          ThreadFence(reader);
          v.r[1] = v.x.load(kRelaxed);
        });
  };
  const Outcomes ordered{"00", "01", "11"};
  EXPECT_EQ(with("MP fences", kRelease, kAcquire), ordered);
  EXPECT_EQ(with("MP full fences", kSeqCst, kSeqCst), ordered);
  EXPECT_EQ(with("MP wrong fences", kAcquire, kRelease), (Outcomes{"00", "01", "10", "11"}));
}

TEST(Litmus, MessagePassingToAReadModifyWrite) {
  const auto with = [](const char* name, memory_order store) {
    return Explored(
        name, 2,
        [=](Vars& v) {
          v.x.store(1, kRelaxed);
          v.y.store(1, store);
        },
        [=](Vars& v) {
          v.r[0] = v.y.load(kAcquire);
          v.r[1] = v.x.fetch_add(5, kRelaxed);
        });
  };
  EXPECT_EQ(with("MP to RMW, release", kRelease), (Outcomes{"00", "01", "11"}));
  // The increment may come before the store of 1 in modification order.
  EXPECT_EQ(with("MP to RMW, relaxed", kRelaxed), (Outcomes{"00", "01", "10", "11"}));
}

// A read-modify-write continues a release sequence; a store, even of the same thread, does not (C++20).
TEST(Litmus, ReleaseSequences) {
  const auto with = [](const char* name, bool rmw) {
    return Explored(
        name, 2,
        [](Vars& v) {
          v.x.store(1, kRelaxed);
          v.y.store(1, kRelease);
        },
        [=](Vars& v) {
          if (rmw) {
            int one = 1;
            v.y.compare_exchange_strong(one, 2, kRelaxed);
          } else if (v.y.load(kRelaxed) == 1) {
            v.y.store(2, kRelaxed);
          }
        },
        [](Vars& v) {
          v.r[0] = v.y.load(kAcquire);
          v.r[1] = v.x.load(kRelaxed);
        });
  };
  EXPECT_FALSE(with("release sequence by RMW", true).contains("20"));
  EXPECT_TRUE(with("no release sequence by store", false).contains("20"));
}

// --- Load buffering: not produced (a limit of the machine), whatever the orders. ---

TEST(Litmus, LoadBufferingIsNotProduced) {
  const auto outcomes = Explored(
      "LB relaxed", 2,
      [](Vars& v) {
        v.r[0] = v.x.load(kRelaxed);
        v.y.store(1, kRelaxed);
      },
      [](Vars& v) {
        v.r[1] = v.y.load(kRelaxed);
        v.x.store(1, kRelaxed);
      });
  EXPECT_EQ(outcomes, (Outcomes{"00", "01", "10"}));
}

// --- IRIW: do two readers agree on the order of two independent stores? ---

template <class Between>
Outcomes IndependentReads(const char* name, memory_order store, memory_order load, Between between) {
  return Explored(
      name, 4, [=](Vars& v) { v.x.store(1, store); }, [=](Vars& v) { v.y.store(1, store); },
      [=](Vars& v) {
        v.r[0] = v.x.load(load);
        between();
        v.r[1] = v.y.load(load);
      },
      [=](Vars& v) {
        v.r[2] = v.y.load(load);
        between();
        v.r[3] = v.x.load(load);
      });
}

TEST(Litmus, IndependentReadsOfIndependentWrites) {
  const auto nothing = [] {};
  const auto fence = [] { ThreadFence(kSeqCst); };
  const auto light_fence = [] { ThreadFence(kAcqRel); };
  EXPECT_TRUE(IndependentReads("IRIW acquire", kRelease, kAcquire, nothing).contains("1010"));
  EXPECT_TRUE(IndependentReads("IRIW acq_rel fences", kRelease, kRelaxed, light_fence).contains("1010"));
  EXPECT_FALSE(IndependentReads("IRIW full fences", kRelaxed, kRelaxed, fence).contains("1010"));
  EXPECT_FALSE(IndependentReads("IRIW seq_cst", kSeqCst, kSeqCst, nothing).contains("1010"));
  EXPECT_FALSE(IndependentReads("IRIW seq_cst loads", kRelease, kSeqCst, nothing).contains("1010"));
  EXPECT_EQ(IndependentReads("IRIW acquire, count", kRelease, kAcquire, nothing).size(), 16u);
  EXPECT_EQ(IndependentReads("IRIW full fences, count", kRelaxed, kRelaxed, fence).size(), 15u);
}

// --- Coherence ---

TEST(Litmus, TwoReadsOfOneLocationNeverGoBack) {
  const auto outcomes = Explored(
      "CoRR", 2,
      [](Vars& v) {
        v.x.store(1, kRelaxed);
        v.x.store(2, kRelaxed);
      },
      [](Vars& v) {
        v.r[0] = v.x.load(kRelaxed);
        v.r[1] = v.x.load(kRelaxed);
      });
  EXPECT_EQ(outcomes, (Outcomes{"00", "01", "02", "11", "12", "22"}));
}

TEST(Litmus, TwoReadersAgreeOnTheOrderOfTwoStores) {
  const auto outcomes = Explored(
      "CoRR with two writers", 4, [](Vars& v) { v.x.store(1, kRelaxed); }, [](Vars& v) { v.x.store(2, kRelaxed); },
      [](Vars& v) {
        v.r[0] = v.x.load(kRelaxed);
        v.r[1] = v.x.load(kRelaxed);
      },
      [](Vars& v) {
        v.r[2] = v.x.load(kRelaxed);
        v.r[3] = v.x.load(kRelaxed);
      });
  EXPECT_TRUE(outcomes.contains("1212"));
  EXPECT_TRUE(outcomes.contains("2121"));
  EXPECT_FALSE(outcomes.contains("1221"));
  EXPECT_FALSE(outcomes.contains("2112"));
}

TEST(Litmus, AThreadSeesItsOwnStores) {
  const auto outcomes = Explored(
      "CoWR", 2,
      [](Vars& v) {
        v.x.store(1, kRelaxed);
        v.r[0] = v.x.load(kRelaxed);
      },
      [](Vars& v) {
        v.r[1] = v.x.load(kRelaxed);
        v.x.store(2, kRelaxed);
      });
  EXPECT_EQ(outcomes, (Outcomes{"10", "11", "20", "21"}));
}

// --- 2+2W: may both variables end with what was stored first? ---

TEST(Litmus, StoresToTwoLocationsInOppositeOrders) {
  const auto with = [](const char* name, memory_order order) {
    return FinalValues(
        name,
        [=](Vars& v) {
          v.x.store(1, order);
          v.y.store(2, order);
        },
        [=](Vars& v) {
          v.y.store(1, order);
          v.x.store(2, order);
        });
  };
  EXPECT_EQ(with("2+2W relaxed", kRelaxed), (Outcomes{"11", "12", "21", "22"}));  // 11
  EXPECT_EQ(with("2+2W release", kRelease), (Outcomes{"11", "12", "21", "22"}));
  EXPECT_EQ(with("2+2W seq_cst", kSeqCst), (Outcomes{"12", "21", "22"}));
}

TEST(Litmus, StoresToTwoLocationsInOppositeOrdersWithFullFences) {
  const auto outcomes = FinalValues(
      "2+2W full fences",
      [](Vars& v) {
        v.x.store(1, kRelaxed);
        ThreadFence(kSeqCst);
        v.y.store(2, kRelaxed);
      },
      [](Vars& v) {
        v.y.store(1, kRelaxed);
        ThreadFence(kSeqCst);
        v.x.store(2, kRelaxed);
      });
  EXPECT_EQ(outcomes, (Outcomes{"12", "21", "22"}));
}

// --- Causality ---

TEST(Litmus, WriteToReadCausalityNeedsReleaseAndAcquireAllTheWay) {
  const auto with = [](const char* name, memory_order store, memory_order load) {
    return Explored(
        name, 3, [=](Vars& v) { v.x.store(1, store); },
        [=](Vars& v) {
          v.r[0] = v.x.load(load);
          v.y.store(1, store);
        },
        [=](Vars& v) {
          v.r[1] = v.y.load(load);
          v.r[2] = v.x.load(kRelaxed);
        });
  };
  EXPECT_FALSE(with("WRC release acquire", kRelease, kAcquire).contains("110"));
  EXPECT_TRUE(with("WRC relaxed", kRelaxed, kRelaxed).contains("110"));
}

TEST(Litmus, ReadModifyWritesAreAtomic) {
  Outcomes outcomes;
  const Result result = Explore(Unbounded("three increments"), [&](Scenario& scenario) {
    Vars* v = scenario.New<Vars>("v");
    for (int i = 0; i < 3; ++i) scenario.Thread("adder", [=] { v->r[i] = v->x.fetch_add(1, kRelaxed); });
    scenario.AtEnd([=, &outcomes] {
      MODEL_CHECK(v->x.load(kRelaxed) == 3, "an increment is lost");
      outcomes.insert(v->Text(3));
    });
  });
  EXPECT_TRUE(result.passed) << result.report;
  EXPECT_EQ(outcomes, (Outcomes{"012", "021", "102", "120", "201", "210"}));
}

TEST(Litmus, AFailedCompareExchangeMayReadAnOldValue) {
  const auto outcomes = Explored(
      "stale compare-exchange", 1,
      [](Vars& v) {
        v.x.store(1, kRelaxed);
        v.y.store(1, kRelaxed);
      },
      [](Vars& v) {
        int expected = 7;
        v.r[0] = v.y.load(kAcquire) == 1 && !v.x.compare_exchange_strong(expected, 8, kRelaxed) ? expected : 9;
      });
  EXPECT_EQ(outcomes, (Outcomes{"0", "1", "9"}));
}

// --- Mutual exclusion by loads and stores ---

enum class Exclusion { kHolds, kBroken };

// A critical section is entered if the algorithm says so; the data in it is checked for races.
template <class Enter>
Exclusion Excludes(const char* name, Enter enter) {
  struct Shared : Vars {
    Atomic<int> turn{0};
    Data<int> data{0};
  };
  const Result result = Explore(Unbounded(name), [&](Scenario& scenario) {
    Shared* s = scenario.New<Shared>("s");
    scenario.Name(&s->x, sizeof(s->x), "want0");
    scenario.Name(&s->y, sizeof(s->y), "want1");
    scenario.Name(&s->turn, sizeof(s->turn), "turn");
    scenario.Thread("first", [=] {
      if (enter(s->x, s->y, s->turn, 1)) s->data.Write(1);
    });
    scenario.Thread("second", [=] {
      if (enter(s->y, s->x, s->turn, 0)) s->data.Write(2);
    });
  });
  EXPECT_TRUE(result.exhausted || result.violation);
  return result.violation ? Exclusion::kBroken : Exclusion::kHolds;
}

TEST(Litmus, DekkerExcludesWithSeqCstOnly) {
  const auto dekker = [](memory_order store, memory_order load) {
    return [=](Atomic<int>& mine, Atomic<int>& other, Atomic<int>&, int) {
      mine.store(1, store);
      return other.load(load) == 0;
    };
  };
  EXPECT_EQ(Excludes("Dekker seq_cst", dekker(kSeqCst, kSeqCst)), Exclusion::kHolds);
  EXPECT_EQ(Excludes("Dekker release acquire", dekker(kRelease, kAcquire)), Exclusion::kBroken);
}

TEST(Litmus, PetersonExcludesWithFullFencesOnly) {
  const auto peterson = [](memory_order fence, memory_order order) {
    return [=](Atomic<int>& mine, Atomic<int>& other, Atomic<int>& turn, int others_turn) {
      mine.store(1, order == kSeqCst ? kSeqCst : kRelaxed);
      turn.store(others_turn, order == kSeqCst ? kSeqCst : kRelease);
      if (order != kSeqCst) ThreadFence(fence);
      // One try: waiting is not needed to break it.
      return other.load(order == kSeqCst ? kSeqCst : kAcquire) == 0 ||
             turn.load(order == kSeqCst ? kSeqCst : kAcquire) != others_turn;
    };
  };
  EXPECT_EQ(Excludes("Peterson seq_cst", peterson(kSeqCst, kSeqCst)), Exclusion::kHolds);
  EXPECT_EQ(Excludes("Peterson acq_rel fence", peterson(kAcqRel, kRelaxed)), Exclusion::kBroken);
}

}  // namespace
}  // namespace weft::model
