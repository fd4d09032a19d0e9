// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The explorer's memory machine against the axioms of the C++20 memory model, on random programs of two or three
// threads.
//
// A program is a few loads, stores, exchanges and fences with random orders. Its outcomes are computed twice: by the
// explorer, and by trying all ways in which loads may read from stores and stores may be ordered, and keeping those
// that the axioms (RC11, Lahav et al., PLDI 2017, whose seq_cst rules C++20 adopted) allow:
//
//   coherence   hb; eco? has no cycle             hb: happens before;  eco: (rf | mo | rb)+
//   atomicity   an exchange comes right behind what it read in modification order
//   seq_cst     psc has no cycle
//   no thin air po | rf has no cycle              (the machine has no load buffering)
//
// The machine may give no outcome that the axioms forbid. Without seq_cst, and with seq_cst fences, it must give all
// allowed ones. With seq_cst accesses it misses some (interleave_memory.h says which); the test prints how many.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "weft/tests/testing/model_atomic.h"

namespace weft::model {
namespace {

using std::memory_order;

constexpr int kLocations = 2;
constexpr int kMaxEvents = 12;

struct Event {
  enum Kind { kLoad, kStore, kExchange, kFence } kind;
  memory_order order;
  int location;
  int value;  // stored: unique in the program
  int thread;
  bool reads() const { return kind == kLoad || kind == kExchange; }
  bool writes() const { return kind == kStore || kind == kExchange; }
  bool acquires() const {
    return order == memory_order::acquire || order == memory_order::acq_rel || order == memory_order::seq_cst;
  }
  bool releases() const {
    return order == memory_order::release || order == memory_order::acq_rel || order == memory_order::seq_cst;
  }
  bool sequential() const { return order == memory_order::seq_cst; }
};

// What may be seq_cst.
enum class Sequential { kNothing, kFences, kEverything };

using Program = std::vector<Event>;  // in the order of the threads, each in program order
using Outcomes = std::set<std::string>;

Program RandomProgram(std::mt19937& random, int threads, int most_per_thread, Sequential sequential) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  Program program;
  int value = 0;
  for (int t = 0; t < threads; ++t) {
    const int count = 2 + below(most_per_thread - 1);
    for (int i = 0; i < count; ++i) {
      const int what = below(10);
      Event e{};
      e.thread = t;
      e.location = below(kLocations);
      e.value = ++value;
      const int fences = sequential == Sequential::kFences ? 7 : 9;  // More programs that can be compared.
      e.kind = what < 3 ? Event::kLoad : what < 6 ? Event::kStore : what < fences ? Event::kExchange : Event::kFence;
      const bool may_be =
          sequential == Sequential::kEverything || (sequential == Sequential::kFences && e.kind == Event::kFence);
      const bool seq = may_be && below(2) == 0;
      const bool strong = below(2) == 0;
      switch (e.kind) {
        case Event::kLoad:
          e.order = seq ? memory_order::seq_cst : strong ? memory_order::acquire : memory_order::relaxed;
          break;
        case Event::kStore:
          e.order = seq ? memory_order::seq_cst : strong ? memory_order::release : memory_order::relaxed;
          break;
        case Event::kExchange: {
          constexpr memory_order kOrders[] = {memory_order::relaxed, memory_order::acquire, memory_order::release,
                                              memory_order::acq_rel};
          e.order = seq ? memory_order::seq_cst : kOrders[below(4)];
          break;
        }
        case Event::kFence: {
          constexpr memory_order kOrders[] = {memory_order::acquire, memory_order::release, memory_order::acq_rel};
          e.order = seq ? memory_order::seq_cst : kOrders[below(3)];
          break;
        }
      }
      program.push_back(e);
    }
  }
  return program;
}

std::string Describe(const Program& program) {
  std::string text;
  constexpr const char* kKinds[] = {"load", "store", "exchange", "fence"};
  constexpr const char* kOrders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  for (const Event& e : program) {
    text += "\n  thread " + std::to_string(e.thread) + ": " + kKinds[e.kind];
    if (e.kind != Event::kFence) text += e.location == 0 ? " x" : " y";
    if (e.writes()) text += " = " + std::to_string(e.value);
    text += std::string(" ") + kOrders[static_cast<int>(e.order)];
  }
  return text;
}

// --- By the explorer ---

Outcomes ByExplorer(const Program& program, int threads, bool prune) {
  Outcomes outcomes;
  struct Shared {
    std::array<base::Atomic<int>, kLocations> locations{};
    std::array<int, kMaxEvents> read{};
  };
  const Result result =
      Explore({.name = "random", .preemptions = kUnbounded, .weak_choices = kUnbounded, .prune = prune, .quiet = true},
              [&](Scenario& scenario) {
                Shared* s = scenario.New<Shared>("s");
                for (int t = 0; t < threads; ++t) {
                  scenario.Thread("thread", [&program, s, t] {
                    for (std::size_t i = 0; i < program.size(); ++i) {
                      const Event& e = program[i];
                      if (e.thread != t) continue;
                      if (e.kind == Event::kLoad) s->read[i] = s->locations[e.location].load(e.order);
                      if (e.kind == Event::kStore) s->locations[e.location].store(e.value, e.order);
                      if (e.kind == Event::kExchange) s->read[i] = s->locations[e.location].exchange(e.value, e.order);
                      if (e.kind == Event::kFence) base::ThreadFence(e.order);
                    }
                  });
                }
                scenario.AtEnd([&, s] {
                  std::string outcome;
                  for (std::size_t i = 0; i < program.size(); ++i) {
                    if (program[i].reads()) outcome += std::to_string(s->read[i]) + " ";
                  }
                  for (auto& location : s->locations)
                    outcome += "| " + std::to_string(location.load(memory_order::relaxed));
                  outcomes.insert(outcome);
                });
              });
  EXPECT_TRUE(result.passed) << result.report;
  return outcomes;
}

// --- By the axioms ---

// A relation over the events of the program and, behind them, the initial stores.
class Relation {
 public:
  static constexpr int kSize = kMaxEvents + kLocations;

  void Add(int a, int b) { row_[a] |= 1u << b; }
  bool Has(int a, int b) const { return (row_[a] >> b & 1) != 0; }
  Relation operator|(const Relation& other) const {
    Relation r = *this;
    for (int i = 0; i < kSize; ++i) r.row_[i] |= other.row_[i];
    return r;
  }
  // Composition.
  Relation operator*(const Relation& other) const {
    Relation r;
    for (int a = 0; a < kSize; ++a) {
      for (int b = 0; b < kSize; ++b) {
        if (Has(a, b)) r.row_[a] |= other.row_[b];
      }
    }
    return r;
  }
  Relation Closure() const {
    Relation r = *this;
    for (int k = 0; k < kSize; ++k) {
      for (int a = 0; a < kSize; ++a) {
        if (r.Has(a, k)) r.row_[a] |= r.row_[k];
      }
    }
    return r;
  }
  Relation Optional() const {
    Relation r = *this;
    for (int i = 0; i < kSize; ++i) r.Add(i, i);
    return r;
  }
  bool Reflexive() const {
    for (int i = 0; i < kSize; ++i) {
      if (Has(i, i)) return true;
    }
    return false;
  }
  bool Cyclic() const { return Closure().Reflexive(); }
  Relation Filter(const std::function<bool(int, int)>& keep) const {
    Relation r;
    for (int a = 0; a < kSize; ++a) {
      for (int b = 0; b < kSize; ++b) {
        if (Has(a, b) && keep(a, b)) r.Add(a, b);
      }
    }
    return r;
  }

 private:
  std::array<std::uint32_t, kSize> row_{};
};

Relation Identity(const std::function<bool(int)>& of) {
  Relation r;
  for (int i = 0; i < Relation::kSize; ++i) {
    if (of(i)) r.Add(i, i);
  }
  return r;
}

class Axioms {
 public:
  explicit Axioms(const Program& program) : events_(program), count_(static_cast<int>(program.size())) {
    // The initial stores: relaxed, by nobody, before everything.
    for (int l = 0; l < kLocations; ++l) events_.push_back({Event::kStore, memory_order::relaxed, l, 0, -1});
    for (int a = 0; a < size(); ++a) {
      for (int b = 0; b < size(); ++b) {
        if (a == b) continue;
        if ((a >= count_ && b < count_) || (events_[a].thread == events_[b].thread && a < b && b < count_))
          po_.Add(a, b);
      }
    }
  }

  Outcomes All() {
    for (int l = 0; l < kLocations; ++l) {
      for (int i = 0; i < count_; ++i) {
        if (events_[i].writes() && events_[i].location == l) mo_[l].push_back(i);
      }
    }
    ChooseSource(0);
    return outcomes_;
  }

 private:
  int size() const { return static_cast<int>(events_.size()); }

  void ChooseSource(int event) {
    if (event == count_) {
      ChooseOrder(0);
      return;
    }
    if (!events_[event].reads()) {
      ChooseSource(event + 1);
      return;
    }
    for (int w = 0; w < size(); ++w) {
      if (w == event || !events_[w].writes() || events_[w].location != events_[event].location) continue;
      source_[event] = w;
      ChooseSource(event + 1);
    }
  }

  void ChooseOrder(int location) {
    if (location == kLocations) {
      if (Allowed()) outcomes_.insert(Outcome());
      return;
    }
    std::sort(mo_[location].begin(), mo_[location].end());
    do {
      ChooseOrder(location + 1);
    } while (std::next_permutation(mo_[location].begin(), mo_[location].end()));
  }

  std::string Outcome() const {
    std::string outcome;
    for (int i = 0; i < count_; ++i) {
      if (events_[i].reads()) outcome += std::to_string(events_[source_[i]].value) + " ";
    }
    for (int l = 0; l < kLocations; ++l) {
      outcome += "| " + std::to_string(mo_[l].empty() ? 0 : events_[mo_[l].back()].value);
    }
    return outcome;
  }

  bool Allowed() const {
    Relation rf;
    for (int i = 0; i < count_; ++i) {
      if (events_[i].reads()) rf.Add(source_[i], i);
    }
    if ((po_ | rf).Cyclic()) return false;
    Relation mo;
    for (int l = 0; l < kLocations; ++l) {
      std::vector<int> order{count_ + l};
      order.insert(order.end(), mo_[l].begin(), mo_[l].end());
      for (std::size_t a = 0; a < order.size(); ++a) {
        for (std::size_t b = a + 1; b < order.size(); ++b) mo.Add(order[a], order[b]);
        // Atomicity.
        if (a > 0 && events_[order[a]].reads() && source_[order[a]] != order[a - 1]) return false;
      }
    }
    Relation rb;  // a load, and what came after the store that it read
    for (int i = 0; i < count_; ++i) {
      if (!events_[i].reads()) continue;
      for (int w = 0; w < count_; ++w) {
        if (w != i && mo.Has(source_[i], w)) rb.Add(i, w);
      }
    }
    const Relation hb = HappensBefore(rf);
    const Relation eco = (rf | mo | rb).Closure();
    if ((hb * eco.Optional()).Reflexive()) return false;
    return !SequentialOrder(hb, eco, mo, rb).Cyclic();
  }

  Relation HappensBefore(const Relation& rf) const {
    const auto fence = [this](int i) { return i < size() && events_[i].kind == Event::kFence; };
    const auto is = [this](int i) -> const Event& { return events_[i]; };
    const Relation release_fences = Identity([&](int i) { return fence(i) && is(i).releases(); });
    const Relation acquire_fences = Identity([&](int i) { return fence(i) && is(i).acquires(); });
    const Relation stores = Identity([&](int i) { return i < size() && is(i).writes(); });
    const Relation loads = Identity([&](int i) { return i < size() && is(i).reads(); });
    const Relation updates = Identity([&](int i) { return i < size() && is(i).kind == Event::kExchange; });
    const Relation release_stores = Identity([&](int i) { return i < size() && is(i).writes() && is(i).releases(); });
    const Relation acquire_loads = Identity([&](int i) { return i < size() && is(i).reads() && is(i).acquires(); });
    const Relation sequence = stores * (rf * updates).Closure().Optional();
    const Relation from = release_stores | release_fences * po_ * stores;
    const Relation to = acquire_loads | loads * po_ * acquire_fences;
    const Relation synchronizes = from * sequence * rf * to;
    return (po_ | synchronizes).Closure();
  }

  Relation SequentialOrder(const Relation& hb, const Relation& eco, const Relation& mo, const Relation& rb) const {
    const auto is = [this](int i) -> const Event& { return events_[i]; };
    const auto fence = [&](int i) { return i < size() && is(i).kind == Event::kFence && is(i).sequential(); };
    const Relation accesses =
        Identity([&](int i) { return i < size() && is(i).kind != Event::kFence && is(i).sequential(); });
    const Relation fences = Identity(fence);
    const auto same_location = [&](int a, int b) {
      return is(a).kind != Event::kFence && is(b).kind != Event::kFence && is(a).location == is(b).location;
    };
    const Relation other = po_.Filter([&](int a, int b) { return !same_location(a, b); });
    const Relation scb = po_ | other * hb * other | hb.Filter(same_location) | mo | rb;
    const Relation base = (accesses | fences * hb.Optional()) * scb * (accesses | hb.Optional() * fences);
    const Relation fence_order = fences * (hb | hb * eco * hb) * fences;
    return base | fence_order;
  }

  std::vector<Event> events_;
  const int count_;
  Relation po_;
  std::array<int, kMaxEvents> source_{};
  std::array<std::vector<int>, kLocations> mo_;
  Outcomes outcomes_;
};

// --- The comparison ---

// `exact`: the machine must give all outcomes that the axioms allow.
void Compare(unsigned seed, int programs, int threads, int most_per_thread, Sequential sequential, bool exact) {
  std::mt19937 random(seed);
  std::size_t outcomes = 0;
  int missed = 0;
  for (int i = 0; i < programs && !::testing::Test::HasFailure(); ++i) {
    const Program program = RandomProgram(random, threads, most_per_thread, sequential);
    const Outcomes allowed = Axioms(program).All();
    const Outcomes found = ByExplorer(program, threads, /*prune=*/true);
    outcomes += allowed.size();
    for (const std::string& outcome : found) {
      EXPECT_TRUE(allowed.contains(outcome)) << "the axioms forbid " << outcome << " of" << Describe(program);
    }
    for (const std::string& outcome : allowed) {
      if (found.contains(outcome)) continue;
      ++missed;
      EXPECT_FALSE(exact) << "the machine misses " << outcome << " of" << Describe(program);
    }
  }
  std::printf("model: %d programs, %zu outcomes, %d missed\n", programs, outcomes, missed);
}

TEST(Axioms, TwoThreadsWithoutSeqCst) { Compare(1, 300, 2, 4, Sequential::kNothing, /*exact=*/true); }

TEST(Axioms, ThreeThreadsWithoutSeqCst) { Compare(2, 100, 3, 3, Sequential::kNothing, /*exact=*/true); }

TEST(Axioms, TwoThreadsWithSeqCstFences) { Compare(3, 500, 2, 4, Sequential::kFences, /*exact=*/true); }

TEST(Axioms, ThreeThreadsWithSeqCstFences) { Compare(4, 150, 3, 3, Sequential::kFences, /*exact=*/true); }

TEST(Axioms, TwoThreadsWithSeqCst) { Compare(5, 300, 2, 4, Sequential::kEverything, /*exact=*/false); }

TEST(Axioms, ThreeThreadsWithSeqCst) { Compare(6, 50, 3, 3, Sequential::kEverything, /*exact=*/false); }

// Pruning (skipping points reached before in another order) loses no outcome.
TEST(Axioms, PruningLosesNothing) {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    const Program program = RandomProgram(random, 3, 2, Sequential::kEverything);
    EXPECT_EQ(ByExplorer(program, 3, true), ByExplorer(program, 3, false)) << Describe(program);
  }
}

}  // namespace
}  // namespace weft::model
